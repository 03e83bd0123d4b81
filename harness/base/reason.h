// Why something failed, in words for a user.
#pragma once
#include <exception>
#include <string>

namespace recapture {

// The text of an exception, without the library's name and number that nlohmann's begin with:
// "[json.exception.type_error.302] type must be string, but is number".
inline std::string reason_of(const std::exception& error) {
  const std::string text = error.what();
  const auto end = text.find("] ");
  return text.rfind("[json.exception.", 0) == 0 && end != std::string::npos ? text.substr(end + 2) : text;
}

}  // namespace recapture

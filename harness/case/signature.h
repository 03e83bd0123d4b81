// A capture's outcome in one line: its first failure, the capture's status after that, and the result of ending it:
// "900 > invalidated > 901"; a healthy capture is "ok > active > ok".
//
// A failure is one of
//   ok                                   nothing
//   900                                  CUDA's error of that number, whichever class carries it
//   check "first line of the message"    a TORCH_CHECK: raised by LibTorch before any CUDA call failed
//   assert "…"                           an INTERNAL ASSERT of LibTorch
//   oom                                  out of device memory
//   std::invalid_argument "…"            any other exception, by its C++ type
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recapture {

struct Signature {
  std::string first;   // A failure.
  std::string status;  // "none", "active" or "invalidated"; "error 900" if the query failed.
  std::string end;     // A failure; what a test adds to it follows after a comma: "ok, cache kept".

  std::string text() const { return first + " > " + status + " > " + end; }

  // Nothing if the text has another form: values, counts, more or fewer than three parts.
  static std::optional<Signature> read(std::string_view text) {
    std::vector<std::string> parts(1);
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
      quoted = quoted != (text[i] == '"');
      if (!quoted && text.substr(i, 3) == " > ") {
        parts.emplace_back();
        i += 2;
      } else {
        parts.back() += text[i];
      }
    }
    if (parts.size() != 3) return std::nullopt;
    const std::string& status = parts[1];
    if (status != "none" && status != "active" && status != "invalidated" && status.rfind("error ", 0) != 0) {
      return std::nullopt;
    }
    return Signature{parts[0], status, parts[2]};
  }
};

// Returns the CUDA error code if `failure` is one, such as "900", and 0 otherwise.
inline int code_of_failure(std::string_view failure) {
  int code = 0;
  const char* end = failure.data() + failure.size();
  const auto read = std::from_chars(failure.data(), end, code);
  return read.ec == std::errc() && read.ptr == end ? code : 0;
}

}  // namespace recapture

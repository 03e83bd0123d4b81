// Converts names between spellings.
#pragma once
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace recapture {

inline std::string lower_case(std::string_view text) {
  std::string low(text);
  std::ranges::transform(low, low.begin(), [](unsigned char c) { return std::tolower(c); });
  return low;
}

// "cudaErrorIllegalState" as the driver has it: "CUDA_ERROR_ILLEGAL_STATE".
inline std::string driver_name(std::string_view runtime_name) {
  std::string upper;
  for (const char c : runtime_name) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0) upper += '_';
    upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return upper;
}

}  // namespace recapture

// Who called: the stack frames above the recorder and CUDA, as text.
#pragma once
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace recapture {

inline std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The libraries between the program and the recorder: every call passes through them, so they say nothing about the
// caller.
inline bool is_cuda_library(std::string_view path) {
  const std::string_view base = base_name(path);
  for (std::string_view start : {"libcuda.so", "libcudart.so", "libcudart-", "libcupti.so"}) {
    if (base.substr(0, start.size()) == start) return true;
  }
  return false;
}

// One stack frame: the function where it is known, otherwise the library and the offset in it.
inline std::string frame_text(std::string_view function, std::string_view path, uintptr_t offset) {
  constexpr size_t kLongest = 200;
  if (!function.empty()) {
    return function.size() <= kLongest ? std::string(function) : std::string(function.substr(0, kLongest - 3)) + "...";
  }
  char number[32];
  std::snprintf(number, sizeof number, "+0x%zx", static_cast<size_t>(offset));
  return std::string(base_name(path).substr(0, kLongest)) + number;
}

// The innermost callers, without CUDA's libraries and the one that begins at `recorder`.
inline std::vector<std::string> callers(const void* recorder) {
  constexpr size_t kMostFrames = 8;
  void* addresses[64];
  const int depth = backtrace(addresses, 64);
  std::vector<std::string> frames;
  for (int i = 0; i < depth && frames.size() < kMostFrames; ++i) {
    const char* inside = static_cast<const char*>(addresses[i]) - 1;  // The address is where the call returns to.
    Dl_info info{};
    if (!dladdr(inside, &info)) continue;
    const char* path = info.dli_fname ? info.dli_fname : "";
    if (info.dli_fbase == recorder || is_cuda_library(path)) continue;
    const uintptr_t offset = static_cast<uintptr_t>(inside - static_cast<const char*>(info.dli_fbase));
    char* plain = info.dli_sname ? abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, nullptr) : nullptr;
    frames.push_back(frame_text(plain ? plain : info.dli_sname ? info.dli_sname : "", path, offset));
    std::free(plain);
  }
  return frames;
}

}  // namespace recapture

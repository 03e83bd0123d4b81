// The stack frames of the caller, above the recorder and CUDA.
#pragma once
#include <cxxabi.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace recapture {

inline std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The libraries between the program and the recorder: every call passes through them, so they do not identify the
// caller.
inline bool is_cuda_library(std::string_view path) {
  const std::string_view base = base_name(path);
  for (std::string_view start : {"libcuda.so", "libcudart.so", "libcudart-", "libcupti.so"}) {
    if (base.substr(0, start.size()) == start) return true;
  }
  return false;
}

// One stack frame: the function if known, else the library and the offset in it.
inline std::string frame_text(std::string_view function, std::string_view path, uintptr_t offset) {
  constexpr size_t kLongest = 200;
  if (!function.empty()) {
    return function.size() <= kLongest ? std::string(function) : std::string(function.substr(0, kLongest - 3)) + "...";
  }
  char number[32];
  std::snprintf(number, sizeof number, "+0x%zx", static_cast<size_t>(offset));
  return std::string(base_name(path).substr(0, kLongest)) + number;
}

// The location of an address: the module, its start, and the exported symbol that contains the address, mangled.
struct Place {
  std::string module;
  uintptr_t begin = 0;
  std::string symbol;
};

// The exported symbol that contains an address of this module, as dladdr finds it.
inline const char* symbol_at(const dl_phdr_info& module, uintptr_t address) {
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    if (module.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    entry = reinterpret_cast<const ElfW(Dyn)*>(module.dlpi_addr + module.dlpi_phdr[i].p_vaddr);
  }
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t *gnu = nullptr, *old = nullptr;
  for (; entry && entry->d_tag != DT_NULL; ++entry) {
    const uintptr_t value = entry->d_un.d_ptr, there = value < module.dlpi_addr ? module.dlpi_addr + value : value;
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(there);
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(there);
    if (entry->d_tag == DT_GNU_HASH) gnu = reinterpret_cast<const uint32_t*>(there);
    if (entry->d_tag == DT_HASH) old = reinterpret_cast<const uint32_t*>(there);
  }
  if (!symbols || !strings) return nullptr;
  const ElfW(Sym)* best = nullptr;
  const auto consider = [&](const ElfW(Sym) & symbol) {
    const uintptr_t begin = module.dlpi_addr + symbol.st_value;
    const bool defined = symbol.st_shndx != SHN_UNDEF, sized = defined && symbol.st_size != 0;
    if ((!defined && symbol.st_value == 0) || (symbol.st_info & 0xf) == STT_TLS || address < begin) return;
    if (sized ? address >= begin + symbol.st_size : address != begin) return;
    if (!best || best->st_value < symbol.st_value) best = &symbol;
  };
  if (gnu) {  // Number of buckets, first symbol, words of the filter, its shift; filter, buckets, chains.
    const uint32_t* buckets = gnu + 4 + gnu[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* chains = buckets + gnu[0];
    for (uint32_t i = 0; i < gnu[0]; ++i) {
      uint32_t symbol = buckets[i];
      if (symbol < gnu[1]) continue;
      do consider(symbols[symbol]);
      while ((chains[symbol++ - gnu[1]] & 1) == 0);
    }
  } else if (old) {
    for (uint32_t i = 0; i < old[1]; ++i) consider(symbols[i]);
  }
  return best ? strings + best->st_name : nullptr;
}

inline std::string program_path() {
  std::array<char, 4096> path{};
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), size > 0 ? static_cast<size_t>(size) : 0};
}

// dladdr would wait for a thread that is loading a library, and that library's constructors may be waiting for the
// driver that called us; dl_iterate_phdr only takes the loader's own lock.
inline Place place_of(const void* address) {
  struct Search {
    uintptr_t address;
    bool found;
    Place place;
  } search{reinterpret_cast<uintptr_t>(address), false, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* module, size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        bool inside = false;
        for (int i = 0; i < module->dlpi_phnum && !inside; ++i) {
          const auto& segment = module->dlpi_phdr[i];
          const uintptr_t begin = module->dlpi_addr + segment.p_vaddr;
          inside = segment.p_type == PT_LOAD && s.address >= begin && s.address - begin < segment.p_memsz;
        }
        if (!inside) return 0;
        s.found = true;
        s.place.module = module->dlpi_name ? module->dlpi_name : "";
        s.place.begin = module->dlpi_addr;
        const bool is_file = s.place.module.empty() || s.place.module.front() == '/';  // Not the kernel's vDSO.
        if (const char* symbol = is_file ? symbol_at(*module, s.address) : nullptr) s.place.symbol = symbol;
        return 1;
      },
      &search);
  if (search.found && search.place.module.empty()) search.place.module = program_path();
  return search.place;
}

struct Frame {
  std::string function, module;  // The demangled function; "" if unknown.
  uintptr_t offset = 0;          // In the module.
};

// A raw stack, which is cheap to take.
struct Stack {
  std::array<void*, 64> addresses{};
  int depth = 0;
};

inline Stack stack_here() {
  Stack stack;
  stack.depth = backtrace(stack.addresses.data(), static_cast<int>(stack.addresses.size()));
  return stack;
}

// The innermost callers, without CUDA's libraries and the module at `recorder`.
inline std::vector<Frame> frames_of(const Stack& stack, const void* recorder, size_t most) {
  std::vector<Frame> frames;
  for (int i = 0; i < stack.depth && frames.size() < most; ++i) {
    const char* inside = static_cast<const char*>(stack.addresses[i]) - 1;  // The address is where the call returns to.
    const Place place = place_of(inside);
    if (place.module.empty()) continue;
    if (place.begin == reinterpret_cast<uintptr_t>(recorder) || is_cuda_library(place.module)) continue;
    char* plain = place.symbol.empty() ? nullptr : abi::__cxa_demangle(place.symbol.c_str(), nullptr, nullptr, nullptr);
    frames.push_back({plain ? plain : place.symbol, place.module, reinterpret_cast<uintptr_t>(inside) - place.begin});
    std::free(plain);
  }
  return frames;
}

inline std::vector<Frame> frames_above(const void* recorder, size_t most) {
  return frames_of(stack_here(), recorder, most);
}

inline std::vector<std::string> texts(const std::vector<Frame>& frames) {
  constexpr size_t kMost = 8;
  std::vector<std::string> all;
  for (size_t i = 0; i < frames.size() && i < kMost; ++i) {
    all.push_back(frame_text(frames[i].function, frames[i].module, frames[i].offset));
  }
  return all;
}

// The offsets of the innermost frames in this module.
inline std::vector<uintptr_t> offsets_in(std::string_view module, const std::vector<Frame>& frames) {
  constexpr size_t kMost = 16;
  std::vector<uintptr_t> all;
  for (const Frame& frame : frames) {
    if (frame.module == module && all.size() < kMost) all.push_back(frame.offset);
  }
  return all;
}

}  // namespace recapture

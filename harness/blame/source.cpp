#include "harness/blame/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string_view>

#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/text.h"

namespace recapture::blame {
namespace {

bool has(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view p) { return text.find(p) != text.npos; });
}

// Matches "python3.11", but not a program named "python_model".
bool is_interpreter(std::string_view name) {
  return begins_with_any(name, {"python"}) && name.find_first_not_of("0123456789.", 6) == name.npos;
}

// Files that a compiler generates belong neither to a library nor to the program.
bool is_python_library(std::string_view file) {
  return begins_with_any(file, {"<"}) ||
         has(file, {"/site-packages/", "/dist-packages/", "/lib/python3", "/torchinductor_"});
}

// A program's output; "" if it cannot be run.
std::string output_of(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const bool started = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), __environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; started && (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  while (started && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

// Functions that a linker adds to each program, and a statically linked C++ library.
bool is_of_runtime(std::string_view function) {
  return function == "_start" || begins_with_any(function, {"__cxa_", "__cxxabiv1::", "__gnu_cxx::", "std::terminate",
                                                            "_Unwind_", "execute_native_thread_routine"});
}

// "/src/main.cpp:12 (discriminator 3)" or "??:?".
void set_place(std::string_view place, SourceFrame& frame) {
  const size_t colon = place.rfind(':');
  if (colon == place.npos || begins_with_any(place, {"??"})) return;
  std::from_chars(place.data() + colon + 1, place.data() + place.size(), frame.line);
  if (frame.line > 0) frame.file = std::filesystem::path(place.substr(0, colon)).lexically_normal().string();
}

// By offset, innermost first. For each offset, addr2line prints the offset, then two lines (function, place) for each
// inlined call and for the containing function.
std::map<uintptr_t, std::vector<SourceFrame>> resolve(const std::string& module,
                                                      const std::vector<uintptr_t>& offsets) {
  std::vector<std::string> words{"addr2line", "-a", "-f", "-C", "-i", "-e", module};
  for (const uintptr_t offset : offsets) words.push_back(fmt::format("{:#x}", offset));
  std::map<uintptr_t, std::vector<SourceFrame>> found;
  std::istringstream lines(output_of(words));
  uintptr_t offset = 0;
  for (std::string line, place; std::getline(lines, line);) {
    if (begins_with_any(line, {"0x"})) {
      offset = std::stoull(line, nullptr, 16);
    } else if (std::getline(lines, place)) {
      SourceFrame frame{"", 0, line, !is_of_runtime(line), module};
      set_place(place, frame);
      if (begins_with_any(frame.file, {"/usr/include/"})) frame.own = false;
      if (line != "??") found[offset].push_back(frame);
    }
  }
  return found;
}

// Whether a module names functions that it does not export: section .symtab, which stripping removes.
bool has_symbols(const std::string& module) {
  std::ifstream file(module, std::ios::binary);
  ElfW(Ehdr) header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return false;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != sizeof(ElfW(Shdr))) return false;
  file.seekg(static_cast<std::streamoff>(header.e_shoff));
  for (int i = 0; i < header.e_shnum; ++i) {
    ElfW(Shdr) section{};
    if (!file.read(reinterpret_cast<char*>(&section), sizeof section)) return false;
    if (section.sh_type == SHT_SYMTAB) return true;
  }
  return false;
}

}  // namespace

// Libraries without a fixed folder are matched by name. A pattern must not be the prefix of a user's own library, such
// as libcustom_ops.so or libtorch_extension.so.
bool is_library(std::string_view module) {
  const std::string_view name = base_name(module);
  return begins_with_any(module, {"/usr/lib", "/lib", "/usr/local/cuda", "linux-vdso"}) ||
         has(module, {"/site-packages/", "/dist-packages/", "/lib/python3"}) || is_interpreter(name) ||
         begins_with_any(name, {"libpython",        "libstdc++",       "libgcc_s",      "libffi",
                                "libtorch.",        "libtorch_cpu",    "libtorch_cuda", "libtorch_global_deps",
                                "libtorch_nvshmem", "libtorch_python", "libc10.",       "libc10_cuda",
                                "libcuda.",         "libcudart",       "libcublas",     "libcudnn",
                                "libcufft",         "libcufile",       "libcupti",      "libcurand",
                                "libcusolver",      "libcusparse",     "libcutensor",   "libnccl",
                                "libnvJitLink",     "libnvToolsExt",   "libnvblas",     "libnvidia-",
                                "libnvjpeg",        "libnvperf",       "libnvrtc",      "libnvshmem",
                                "libnvtx"});
}

std::vector<SourceFrame> python_frames(const std::vector<python::Frame>& frames) {
  std::vector<SourceFrame> all;
  all.reserve(frames.size());
  for (const python::Frame& frame : frames) {
    all.push_back({frame.file, frame.line, frame.function, !is_python_library(frame.file)});
  }
  return all;
}

std::vector<SourceFrame> native_frames(const std::vector<Frame>& frames) {
  std::map<std::string, std::vector<uintptr_t>> asked;
  for (const Frame& frame : frames) {
    if (is_library(frame.module) && (!frame.function.empty() || !has_symbols(frame.module))) continue;
    asked[frame.module].push_back(frame.offset);
  }
  std::map<std::string, std::map<uintptr_t, std::vector<SourceFrame>>> known;
  for (const auto& [module, offsets] : asked) known[module] = resolve(module, offsets);
  std::vector<SourceFrame> all;
  for (const Frame& frame : frames) {
    const bool own = !is_library(frame.module);
    std::vector<SourceFrame> resolved = known[frame.module][frame.offset];
    for (SourceFrame& each : resolved) each.own = each.own && own;
    all.insert(all.end(), resolved.begin(), resolved.end());
    if (resolved.empty())
      all.push_back({"", 0, frame_text(frame.function, frame.module, frame.offset), own, frame.module});
  }
  return all;
}

bool is_thrown(const std::vector<Frame>& stack) {
  const std::vector<SourceFrame> frames = native_frames(stack);
  return std::ranges::any_of(frames, [](const SourceFrame& f) { return f.function == "__cxa_throw"; });
}

std::string text(const SourceFrame& frame) {
  if (frame.file.empty()) return frame.function;
  return fmt::format("{}:{} in {}", frame.file, frame.line, frame.function);
}

std::string source_line(const SourceFrame& frame) {
  if (frame.file.empty() || frame.line <= 0) return {};
  try {
    std::istringstream lines(contents_of(frame.file));
    std::string line;
    for (int i = 0; i < frame.line; ++i) {
      if (!std::getline(lines, line)) return {};
    }
    constexpr const char* kSpace = " \t\r";
    const size_t first = line.find_first_not_of(kSpace);
    return first == line.npos ? "" : line.substr(first, line.find_last_not_of(kSpace) + 1 - first);
  } catch (const ExitError&) {  // The file is not on this machine.
    return {};
  }
}

}  // namespace recapture::blame

#include "harness/run/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/base/exit.h"

namespace recapture::run {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kName = "recapture-run-";  // Prefix of a run's folder.

// A variable, and the subfolder of a Scratch that it names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kVariables = {
    {{"HOME", "home"},
     {"TMPDIR", "tmp"},
     {"XDG_CACHE_HOME", "cache"},
     {"XDG_CONFIG_HOME", "config"},
     {"XDG_DATA_HOME", "data"},
     {"XDG_STATE_HOME", "state"},
     {"CUDA_CACHE_PATH", "cuda"},
     {"TORCHINDUCTOR_CACHE_DIR", "inductor"},
     {"TRITON_CACHE_DIR", "triton"},
     {"TORCH_HOME", "torch"},
     {"TORCH_EXTENSIONS_DIR", "extensions"}}};
// Python reads the bytecode installed with LibTorch; with another cache folder it would compile everything for each
// test.
constexpr std::string_view kNoBytecode = "PYTHONDONTWRITEBYTECODE";

// Restores access to folders that a test has made unreadable. False if something is left.
bool remove_tree(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) return true;
  fs::permissions(folder, fs::perms::owner_all, error);
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;  // Before the next step enters it.
    if (at->symlink_status(ignored).type() == fs::file_type::directory) {
      fs::permissions(at->path(), fs::perms::owner_all, ignored);
    }
  }
  fs::remove_all(folder, error);
  return !error;
}

// A run's folder. Each process that uses it holds a lock on the file `lock`, which is released with the last of them.
class RunFolder {
 public:
  RunFolder() : made_by_(getpid()) {
    std::error_code error;
    const fs::path parent = fs::temp_directory_path(error);
    const auto fail = [&](int code) {
      throw ExitError(
          Exit::Infrastructure,
          fmt::format("cannot make a folder for the tests' own files below {}: {}; TMPDIR names another place",
                      error ? "TMPDIR" : parent.string(), std::strerror(code)));
    };
    if (error) fail(error.value());
    remove_those_of_killed_runs(parent);
    path_ = (parent / kName).string() + "XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) fail(errno);
    // Locked before the file has its name: another run must not take the folder for a leftover.
    const std::string unnamed = path_ + "/new";
    lock_ = open(unnamed.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock_ < 0 || flock(lock_, LOCK_EX) != 0 || rename(unnamed.c_str(), (path_ + "/lock").c_str()) != 0) fail(errno);
  }
  ~RunFolder() {
    if (getpid() == made_by_ && !remove_tree(path_)) fmt::print(stderr, "recapture: cannot remove {}\n", path_);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  static void remove_those_of_killed_runs(const fs::path& parent) {
    std::error_code error;
    for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
      const std::string folder = at->path().string();
      struct stat its {};
      if (at->path().filename().string().rfind(kName, 0) != 0 || lstat(folder.c_str(), &its) != 0 ||
          !S_ISDIR(its.st_mode) || its.st_uid != geteuid()) {
        continue;
      }
      const int lock = open((folder + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
      if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) {
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(folder, ignored)) {  // The lock is removed last.
          if (entry.path().filename() != "lock") remove_tree(entry.path());
        }
        remove_tree(folder);
      }
      if (lock >= 0) close(lock);
    }
  }

  pid_t made_by_;
  std::string path_;
  int lock_ = -1;
};

std::atomic<const RunFolder*> made = nullptr;

const RunFolder& run_folder() {
  static const RunFolder folder;
  made = &folder;
  return folder;
}

}  // namespace

Scratch::Scratch() {
  static std::atomic<unsigned> number = 0;
  path_ = fmt::format("{}/{}-{}", run_folder().path(), getpid(), number++);
  std::error_code error;
  fs::create_directory(path_, error);
  for (const auto& [variable, below] : kVariables) {
    if (!error) fs::create_directory(fs::path(path_) / below, error);
  }
  if (error) throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot make it: {}", path_, error.message()));
}

Scratch::~Scratch() {
  if (!remove_tree(path_)) fmt::print(stderr, "recapture: cannot remove {}\n", path_);
}

std::map<std::string, std::string> Scratch::variables() const {
  std::map<std::string, std::string> all{{std::string(kNoBytecode), "1"}};
  for (const auto& [variable, below] : kVariables) all[std::string(variable)] = fmt::format("{}/{}", path_, below);
  return all;
}

bool belongs_to_scratch(const std::string& variable) {
  for (const auto& [its, below] : kVariables) {
    if (variable == its) return true;
  }
  return variable == kNoBytecode;
}

std::string scratch_of_run() { return made == nullptr ? "" : made.load()->path(); }

}  // namespace recapture::run

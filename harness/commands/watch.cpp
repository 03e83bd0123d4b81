#include "harness/commands/watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/json.h"
#include "harness/blame/launch.h"
#include "harness/blame/report.h"
#include "harness/case/events.h"
#include "harness/run/process.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

// The file that the recorder writes. Every process of the program opens it by name, so it works even if they close
// their descriptors. Removed on exit.
class ReportFile {
 public:
  ReportFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = fs::absolute(folder != nullptr && *folder != '\0' ? folder : "/tmp").string() + "/recapture-blame-XXXXXX";
    const int file = mkostemp(path_.data(), O_CLOEXEC);
    if (file < 0)
      throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot make it: {}", path_, std::strerror(errno)));
    close(file);
  }
  ~ReportFile() {
    unlink(path_.c_str());
    unlink((path_ + std::string(kErrorLink)).c_str());
  }
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Whether more can be written there: a full disk and a limit of the file's size are seen only by writing.
std::string why_unwritable(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  const bool is_written = file >= 0 && write(file, "\n", 1) == 1;
  const int error = errno;
  std::signal(SIGXFSZ, before);
  if (file >= 0) close(file);
  return is_written ? "" : std::strerror(error);
}

// Why the recorder could not write in the program, which may have limits or a user of its own; "" if it could.
std::string error_of_program(const std::string& report) {
  std::error_code error;
  const std::string number = fs::read_symlink(report + std::string(kErrorLink), error).string();
  return number.empty() ? "" : std::strerror(std::atoi(number.c_str()));
}

// A process that still runs with this report's name in its variables; 0 if none. Processes of other users are not seen.
int still_running(const std::string& report) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string variables{std::istreambuf_iterator<char>(file), {}};
    if (variables.find("RECAPTURE_BLAME=" + report) != std::string::npos) return std::atoi(name.c_str());
  }
  return 0;
}

// The one reason for an empty report. Asks the driver by the canary, under the same recorder.
std::string why_nothing(const run::Layout& places, const std::string& report,
                        const std::map<std::string, std::string>& variables) {
  if (const std::string error = why_unwritable(report); !error.empty()) {
    return fmt::format("{} cannot be written: {}; TMPDIR names another folder", escape_control(report), error);
  }
  if (const std::string error = error_of_program(report); !error.empty()) {
    return fmt::format("the program could not write {}: {}", escape_control(report), error);
  }
  if (const int pid = still_running(report); pid != 0) {
    return fmt::format("process {} of the program still runs; wait for it in the program", pid);
  }
  constexpr double kDeadline_s = 60;
  const auto [seen, answer] = run::ask({places.canary(), {}, variables}, kDeadline_s);
  const Json canary = try_parse_json(answer).value_or(Json());
  const std::string reason = canary.is_object() ? text_at(canary, "reason") : "";
  if (reason.rfind("no libcuda", 0) == 0) return "there is no CUDA driver (libcuda.so.1) here";
  if (!reason.empty()) return reason;
  const std::string heard = contents_of(report);
  if (heard.find_first_not_of('\n') != std::string::npos) {
    return "the program has made no call to CUDA's driver";
  }
  return fmt::format("this CUDA driver {}loads no library that CUDA_INJECTION64_PATH names",
                     canary.is_object() && !text_at(canary, "driver").empty() ? text_at(canary, "driver") + " " : "");
}

std::string existing(const fs::path& path, const std::string& what) {
  if (!fs::exists(path)) throw ExitError(Exit::Infrastructure, fmt::format("{} is not there; {}", path.string(), what));
  return fs::absolute(path).string();
}

}  // namespace

Watched watch(const run::Layout& places, const std::vector<std::string>& program, WatchOptions options) {
  const std::string recorder = existing(fs::absolute(places.recorder()), "cmake --build build makes it");
  Watched watched;
  const ReportFile report;
  std::map<std::string, std::string> variables{{"CUDA_INJECTION64_PATH", recorder}, {"RECAPTURE_BLAME", report.path()}};
  if (options.deep) variables["RECAPTURE_DEEP"] = "1";
  if (options.features) {
    variables["RECAPTURE_FEATURES"] = existing(places.home + "/python/recapture/_features.py", "install it again");
  }
  const char* other = std::getenv("CUDA_INJECTION64_PATH");
  if (other != nullptr && other != recorder) variables["RECAPTURE_CHAIN"] = other;
  watched.status = blame::launch(program, variables);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    watched.events = contents_of(report.path());
    if (!blame::is_whole(watched.events)) {
      const std::string error = error_of_program(report.path());
      watched.not_whole = "a line of it is cut" + (error.empty() ? "" : ": " + error);
    }
    if (watched.events.empty()) watched.why_nothing = why_nothing(places, report.path(), variables);
  } catch (const ExitError&) {
    watched.not_whole = fmt::format("{} is gone; the program has removed it", escape_control(report.path()));
  }
  return watched;
}

}  // namespace recapture::commands

#include "harness/commands/watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/blame/launch.h"
#include "harness/blame/report.h"

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
  ~ReportFile() { unlink(path_.c_str()); }
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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
    variables["RECAPTURE_FEATURES"] = existing(places.root + "/python/recapture/_features.py", "install it again");
  }
  const char* other = std::getenv("CUDA_INJECTION64_PATH");
  if (other != nullptr && other != recorder) variables["RECAPTURE_CHAIN"] = other;
  watched.status = blame::launch(program, variables);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    watched.events = contents_of(report.path());
    if (!blame::is_whole(watched.events))
      watched.not_whole = "a line of it is cut, as on a full disk or under ulimit -f";
  } catch (const ExitError&) {
    watched.not_whole = fmt::format("{} is gone; the program has removed it", escape_control(report.path()));
  }
  return watched;
}

}  // namespace recapture::commands

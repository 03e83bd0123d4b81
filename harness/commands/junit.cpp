// Where --junit may write. Checked before hours of running; other files are never overwritten.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "harness/base/file.h"
#include "harness/commands/commands.h"

namespace recapture::commands {
namespace fs = std::filesystem;

void require_writable(const std::string& path) {
  std::error_code error;
  const bool there = fs::exists(path, error);
  // The only way to know whether a new file can be created is to create it.
  const int made = there ? -1 : open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (there ? access(path.c_str(), W_OK) != 0 : made < 0) {
    throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot write it: {}", path, std::strerror(errno)));
  }
  if (made >= 0) {
    close(made);
    unlink(path.c_str());
  }
}

void require_place_for_junit(const std::string& path, const std::string& record) {
  std::error_code error;
  if (!record.empty() && fs::weakly_canonical(path, error) == fs::weakly_canonical(record, error)) {
    throw ExitError(Exit::Usage, path + " is the record; --junit takes a file of its own");
  }
  const bool there = fs::exists(path, error);
  require_writable(path);
  if (fs::is_directory(path, error)) throw ExitError(Exit::Usage, path + " is a folder; --junit takes a file");
  if (!there || !fs::is_regular_file(path, error)) return;  // A device, as /dev/stdout.
  const std::string text = contents_of(path);
  if (!text.empty() && text.front() != '<') {
    throw ExitError(Exit::Usage, path + " exists and is not XML; --junit does not overwrite it");
  }
}

}  // namespace recapture::commands

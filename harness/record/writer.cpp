#include "harness/record/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/record/exit.h"

namespace recapture {

RecordWriter::RecordWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
RecordWriter::RecordWriter(RecordWriter&& other) noexcept : fd_(other.fd_), path_(std::move(other.path_)) {
  other.fd_ = -1;
}
RecordWriter::~RecordWriter() {
  if (fd_ >= 0) close(fd_);
}

RecordWriter RecordWriter::create(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    throw Stop(errno == EEXIST ? Exit::Usage : Exit::Infrastructure,
               fmt::format("{}: cannot make this record: {}{}", path, std::strerror(errno),
                           errno == EEXIST ? "; resume it with --resume, or choose another with --record" : ""));
  }
  return {fd, path};
}

RecordWriter RecordWriter::append(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (fd < 0 || (whole != text.size() && ftruncate(fd, static_cast<off_t>(whole)) != 0)) {
    throw Stop(Exit::Infrastructure, fmt::format("{}: cannot go on with it: {}", path, std::strerror(errno)));
  }
  return {fd, path};
}

void RecordWriter::write(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const off_t before = lseek(fd_, 0, SEEK_END);
  size_t done = 0;
  int error = 0;
  while (done < text.size() && error == 0) {
    const ssize_t put = ::write(fd_, text.data() + done, text.size() - done);
    if (put >= 0) {
      done += static_cast<size_t>(put);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) error = errno;
  if (error == 0) return;
  [[maybe_unused]] const int cut = ftruncate(fd_, before);  // Rather no line than half a line.
  throw Stop(
      Exit::Infrastructure,
      fmt::format("{}: cannot write: {}; what ran before is recorded, `--resume` runs the rest once there is room",
                  path_, std::strerror(error)));
}

}  // namespace recapture

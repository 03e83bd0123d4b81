#include "harness/record/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "harness/base/exit.h"

namespace recapture {
namespace {

// O_NONBLOCK: opening a FIFO may block forever.
constexpr int kFlags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

ExitError cannot(const std::string& path, const std::string& what, int error) {
  return {Exit::Infrastructure, fmt::format("{}: cannot {}: {}", path, what, std::strerror(error))};
}

int open_regular(const std::string& path, int flags, const std::string& what) {
  const int fd = open(path.c_str(), kFlags | flags, 0644);
  if (fd < 0) {
    if (errno == EISDIR) throw ExitError(Exit::Usage, path + " is a folder, not a record");
    throw cannot(path, what, errno);
  }
  struct stat about {};
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
    close(fd);
    throw ExitError(Exit::Usage, path + " is not a regular file, so it cannot be a record");
  }
  return fd;
}

void make_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;  // Opening the file reports the error.
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
}

}  // namespace

RecordWriter::RecordWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {
  try {
    lock();
    size_ = lseek(fd_, 0, SEEK_END);
  } catch (const ExitError&) {
    close(fd_);
    throw;
  }
}
RecordWriter::RecordWriter(RecordWriter&& other) noexcept
    : fd_(other.fd_), path_(std::move(other.path_)), size_(other.size_) {
  other.fd_ = -1;
}
RecordWriter::~RecordWriter() {
  if (fd_ >= 0) close(fd_);
}

RecordWriter RecordWriter::create(const std::string& path, const std::string& instead) {
  make_folder_of(path);
  RecordWriter writer(open_regular(path, O_CREAT, "make this record"), path);
  if (!writer.is_blank()) throw ExitError(Exit::Usage, fmt::format("{} exists already; {}", path, instead));
  return writer;
}

RecordWriter RecordWriter::append(const std::string& path) {
  RecordWriter writer(open_regular(path, 0, "go on with it"), path);
  std::array<char, 2> start{};
  const bool is_packed =
      pread(writer.fd_, start.data(), start.size(), 0) == 2 && start[0] == '\x1f' && start[1] == '\x8b';
  if (is_packed) throw ExitError(Exit::Usage, path + " is packed; `gunzip` it first");
  return writer;
}

RecordWriter RecordWriter::replace(const std::string& path) {
  make_folder_of(path);
  RecordWriter writer(open_regular(path, O_CREAT, "make this record"), path);
  if (ftruncate(writer.fd_, 0) != 0) throw cannot(path, "empty it", errno);
  writer.size_ = 0;
  return writer;
}

bool RecordWriter::is_blank() const {
  constexpr std::string_view kStart = R"({"recapture":)";
  std::array<char, kStart.size()> start{};
  const ssize_t got = pread(fd_, start.data(), start.size(), 0);
  return got >= 0 && end_of_whole_lines() == 0 && kStart.rfind({start.data(), static_cast<size_t>(got)}, 0) == 0;
}

// A lock of this process: forked processes do not share it, and it does not outlive the process. The kernel releases it
// when this process closes any descriptor of the file, for example after reading it; so it is taken again then and
// before each write. A file system without locks is no reason not to run.
void RecordWriter::lock() const {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(fd_, F_SETLK, &whole) == 0 || (errno != EACCES && errno != EAGAIN)) return;
  throw ExitError(Exit::Usage, path_ + ": another run is writing this record");
}

off_t RecordWriter::end_of_whole_lines() const {
  off_t end = lseek(fd_, 0, SEEK_END);
  for (char last = 0; end > 0 && pread(fd_, &last, 1, end - 1) == 1 && last != '\n';) --end;
  return end;
}

void RecordWriter::write_all(Lines lines, Durability wait) {
  std::string text;
  for (size_t i = 0; i < lines.count; ++i) {
    text += to_text(truncate_texts(lines.first[i])) + "\n";
  }
  lock();
  if (lseek(fd_, 0, SEEK_END) != size_)
    throw ExitError(Exit::Usage, path_ + ": somebody else has written to this record");
  const off_t before = end_of_whole_lines();
  int error = ftruncate(fd_, before) != 0 ? errno : 0;
  size_t done = 0;
  while (done < text.size() && error == 0) {
    const ssize_t put = ::write(fd_, text.data() + done, text.size() - done);
    if (put >= 0) {
      done += static_cast<size_t>(put);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  while (error == 0 && wait == Durability::Fsynced && fdatasync(fd_) != 0) {
    if (errno == EINTR) continue;
    if (errno != EINVAL && errno != EROFS) error = errno;
    break;
  }
  if (error != 0) {
    if (ftruncate(fd_, before) == 0) size_ = before;  // No line is better than half a line.
    throw cannot(path_, "write", error);
  }
  size_ = before + static_cast<off_t>(text.size());
  struct stat ours {};
  struct stat there {};
  if (fstat(fd_, &ours) != 0 || stat(path_.c_str(), &there) != 0 || ours.st_ino != there.st_ino) {
    throw ExitError(Exit::Infrastructure, path_ + ": the record was moved or deleted while it was written");
  }
}

}  // namespace recapture

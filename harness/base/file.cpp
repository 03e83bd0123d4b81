#include "harness/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "harness/base/exit.h"

namespace recapture {
namespace fs = std::filesystem;

std::string contents_of(const std::string& path) {
  const auto cannot = [&](const std::string& why) {
    return ExitError(Exit::Usage, fmt::format("{}: cannot read it: {}", path, why));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);  // Opening a FIFO may block forever.
  if (fd < 0) throw cannot(std::strerror(errno));
  struct stat about {};
  const bool is_regular = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  std::string text;
  std::array<char, 65536> buffer{};
  int error = 0;
  for (bool more = is_regular; more;) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) error = errno;
    more = got > 0 || (got < 0 && error == 0);
  }
  close(fd);
  if (S_ISDIR(about.st_mode)) throw cannot(std::strerror(EISDIR));
  if (!is_regular) throw cannot("it is not a regular file");
  if (error != 0) throw cannot(std::strerror(error));
  return text;
}

std::string unpacked_contents_of(const std::string& path) {
  std::string packed = contents_of(path);
  if (packed.rfind("\x1f\x8b", 0) != 0) return packed;
  constexpr int kGzip = 15 + 16;
  constexpr size_t kMost = size_t{1} << 28;  // No record below reports/ has a hundredth of that.
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK) throw ExitError(Exit::Infrastructure, "zlib cannot start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // zlib only reads it.
  stream.avail_in = static_cast<uInt>(packed.size());
  constexpr size_t kRatio = 8;  // A little less than the usual ratio of packed records.
  std::string text(std::min(kRatio * packed.size(), kMost), '\0');
  size_t size = 0;
  int result = Z_OK;
  while (result == Z_OK && size <= kMost) {
    if (size == text.size()) text.resize(2 * size);
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + size);
    stream.avail_out = static_cast<uInt>(text.size() - size);
    result = inflate(&stream, Z_NO_FLUSH);
    size = text.size() - stream.avail_out;
    // Text appended to a packed file is a gzip member of its own.
    if (result == Z_STREAM_END && stream.avail_in > 0) result = inflateReset(&stream);
  }
  inflateEnd(&stream);
  if (size > kMost) {
    throw ExitError(Exit::Usage, fmt::format("{}: it unpacks to more than {} MiB", path, kMost >> 20));
  }
  if (result != Z_STREAM_END)
    throw ExitError(Exit::Usage, fmt::format("{}: cannot unpack it: it is damaged or cut", path));
  text.resize(size);
  return text;
}

std::string first_lines_of(const std::string& path, int lines) {
  const gzFile file = gzopen(path.c_str(), "rbe");  // Also reads files that are not packed.
  std::array<char, 4096> buffer{};
  if (file != nullptr) gzbuffer(file, buffer.size() / 2);  // It unpacks twice as much at a time.
  constexpr size_t kMost = size_t{1} << 24;                // A small file can unpack to one endless line.
  std::string text;
  size_t end = 0;
  for (bool more = file != nullptr; more && lines > 0 && text.size() < kMost;) {
    const int got = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()));
    more = got > 0;
    if (more) text.append(buffer.data(), static_cast<size_t>(got));
    for (size_t at; lines > 0 && (at = text.find('\n', end)) != text.npos; --lines) end = at + 1;
  }
  if (file != nullptr) gzclose(file);
  return text.substr(0, end);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw ExitError(Exit::Infrastructure, path + ": cannot write it");
}

void replace_output(const std::string& path, const std::string& text, size_t first_bytes, const std::string& kind) {
  std::error_code error;
  const auto there = fs::status(path, error);
  if (fs::is_directory(there)) throw ExitError(Exit::Usage, path + " is a folder; --output takes a file");
  if (fs::exists(there)) {
    std::string begin(first_bytes, '\0');
    const bool is_file = fs::is_regular_file(there);  // Opening a pipe may block forever.
    if (is_file) std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(first_bytes));
    if (!is_file || (fs::file_size(path, error) > 0 && begin != text.substr(0, first_bytes))) {
      throw ExitError(Exit::Usage, fmt::format("{} exists and is not {}; --output does not overwrite it", path, kind));
    }
  }
  const std::string part = path + ".part";
  errno = 0;
  std::ofstream file(part, std::ios::binary);
  file << text;
  file.close();
  const int wrong = errno == 0 ? EIO : errno;
  if (file) fs::rename(part, path, error);
  if (file && !error) return;
  const std::string why = file ? error.message() : std::strerror(wrong);
  fs::remove(part, error);
  throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot write it: {}", path, why));
}

std::string packed_by_gzip(const std::string& text) {
  constexpr int kGzip = 15 + 16;  // The largest window; the header has neither time nor name.
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw ExitError(Exit::Infrastructure, "zlib cannot start");
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib only reads it.
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw ExitError(Exit::Infrastructure, "zlib cannot compress");
  return out;
}

}  // namespace recapture

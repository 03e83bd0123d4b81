#include "harness/record/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "harness/record/exit.h"

namespace recapture {

std::string contents_of(const std::string& path) {
  const auto cannot = [&](const std::string& why) {
    return Stop(Exit::Usage, fmt::format("{}: cannot read it: {}", path, why));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);  // To open a FIFO may take for ever.
  if (fd < 0) throw cannot(std::strerror(errno));
  struct stat about {};
  const bool is_regular = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  std::string text;
  int error = 0;
  for (bool more = is_regular; more;) {
    std::array<char, 65536> buffer{};
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

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw Stop(Exit::Infrastructure, path + ": cannot write it");
}

}  // namespace recapture

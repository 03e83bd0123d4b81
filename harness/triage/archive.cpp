#include "harness/triage/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "harness/base/exit.h"
#include "harness/base/file.h"

namespace recapture::triage {
namespace {

constexpr size_t kBlock = 512;

// A file's header in POSIX format (ustar).
std::string header(const std::string& path, size_t size) {
  if (path.size() > 100) throw ExitError(Exit::Usage, path + ": a name in an archive has at most 100 bytes");
  std::string block(kBlock, '\0');
  const auto put = [&](size_t at, const std::string& text) {
    std::copy(text.begin(), text.end(), block.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, path);
  put(100, "0000644");
  put(108, "0000000");  // Owner,
  put(116, "0000000");  // group,
  put(124, fmt::format("{:011o}", size));
  put(136, "00000000000");  // and time.
  put(148, "        ");     // The checksum is computed with blanks in its own field.
  put(156, "0");
  put(257, std::string("ustar\00000", 8));
  const unsigned sum = std::accumulate(block.begin(), block.end(), 0U,
                                       [](unsigned all, char c) { return all + static_cast<unsigned char>(c); });
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return block;
}

}  // namespace

std::string archive_of(const std::string& folder, const std::vector<BundleFile>& files) {
  std::string tar;
  for (const BundleFile& file : files) {
    tar += header(folder + "/" + file.name, file.text.size()) + file.text;
    tar.resize((tar.size() + kBlock - 1) / kBlock * kBlock, '\0');
  }
  tar.resize(tar.size() + 2 * kBlock, '\0');
  return packed_by_gzip(tar);
}

}  // namespace recapture::triage

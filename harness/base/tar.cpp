#include "harness/base/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <stdexcept>

#include "harness/base/exit.h"

namespace recapture {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kName = 100, kSizeAt = 124, kSizeDigits = 11, kSumAt = 148, kSumSize = 8, kTypeAt = 156,
                 kMagicAt = 257;
constexpr size_t kPrefixAt = 345;
constexpr std::string_view kMagic("ustar\00000", 8);

size_t padded(size_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

unsigned sum_of(std::string_view block) {
  return std::accumulate(block.begin(), block.end(), 0U,
                         [](unsigned all, char c) { return all + static_cast<unsigned char>(c); });
}

std::string header(const std::string& path, size_t size) {
  if (path.size() > kName) throw ExitError(Exit::Usage, path + ": a name in an archive has at most 100 bytes");
  std::string block(kBlock, '\0');
  const auto put = [&](size_t at, std::string_view text) {
    std::copy(text.begin(), text.end(), block.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, path);
  put(100, "0000644");
  put(108, "0000000");  // Owner,
  put(116, "0000000");  // group,
  put(kSizeAt, fmt::format("{:011o}", size));
  put(136, "00000000000");  // and time.
  put(kSumAt, "        ");  // The checksum is computed with blanks in its own field.
  put(kTypeAt, "0");
  put(kMagicAt, kMagic);
  put(kSumAt, fmt::format("{:06o}", sum_of(block)) + std::string("\0 ", 2));
  return block;
}

size_t octal(std::string_view digits) {
  size_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value, 8);
  if (error != std::errc() || at != end) throw std::runtime_error("a member without a size or a checksum");
  return value;
}

void require_plain(std::string_view block) {
  std::string blank(block);
  std::fill_n(blank.begin() + kSumAt, kSumSize, ' ');
  if (block.substr(kMagicAt, kMagic.size()) != kMagic)
    throw std::runtime_error("it is not a tar archive of plain files");
  if (octal(block.substr(kSumAt, 6)) != sum_of(blank)) throw std::runtime_error("a member with a wrong checksum");
  if (block[kTypeAt] != '0' || block[kPrefixAt] != '\0') throw std::runtime_error("a member that is not a plain file");
}

}  // namespace

std::string tar_of(const std::vector<TarMember>& members) {
  std::string tar;
  for (const TarMember& member : members) {
    tar += header(member.name, member.text.size()) + member.text;
    tar.resize(padded(tar.size()), '\0');
  }
  tar.resize(tar.size() + 2 * kBlock, '\0');
  return tar;
}

std::optional<TarEntry> tar_entry(std::string_view tar, size_t at) {
  if (at > tar.size() || tar.size() - at < kBlock) return std::nullopt;
  const std::string_view block = tar.substr(at, kBlock);
  if (std::ranges::all_of(block, [](char c) { return c == '\0'; })) return TarEntry{};
  require_plain(block);
  const size_t size = octal(block.substr(kSizeAt, kSizeDigits)), begin = at + kBlock;
  if (tar.size() - begin < padded(size)) return std::nullopt;  // 11 octal digits cannot overflow.
  const std::string_view name = block.substr(0, kName);
  return TarEntry{name.substr(0, name.find('\0')), tar.substr(begin, size), begin + padded(size)};
}

}  // namespace recapture

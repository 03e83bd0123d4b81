#include "harness/base/xz.h"

#include <fmt/format.h>
#include <lzma.h>

#include <algorithm>
#include <bit>

#include "harness/base/exit.h"

namespace recapture {
namespace {

constexpr uint64_t kMostMemory = uint64_t{1} << 28;  // What packed_by_xz() makes needs a quarter of that.

class Stream {
 public:
  Stream() = default;
  ~Stream() { lzma_end(&stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  lzma_stream* operator->() { return &stream_; }
  lzma_stream* get() { return &stream_; }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

const uint8_t* bytes_of(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

}  // namespace

std::string packed_by_xz(const std::string& text) {
  lzma_options_lzma options;
  if (lzma_lzma_preset(&options, LZMA_PRESET_DEFAULT | LZMA_PRESET_EXTREME) != 0) {
    throw ExitError(Exit::Infrastructure, "liblzma has not its own preset");
  }
  // A dictionary as large as the text finds every repetition; what unpacks it needs as much memory.
  constexpr size_t kLeast = size_t{1} << 16, kMost = size_t{1} << 26;
  options.dict_size = static_cast<uint32_t>(std::bit_ceil(std::clamp(text.size(), kLeast, kMost)));
  options.lc = 4;  // For text, which has no alignment.
  options.pb = 0;
  const lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::string packed(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  const lzma_ret result =
      lzma_stream_buffer_encode(const_cast<lzma_filter*>(filters), LZMA_CHECK_CRC32, nullptr, bytes_of(text),
                                text.size(), reinterpret_cast<uint8_t*>(packed.data()), &size, packed.size());
  if (result != LZMA_OK) throw ExitError(Exit::Infrastructure, "liblzma cannot pack: out of memory");
  packed.resize(size);
  return packed;
}

std::string unpacked_by_xz(const std::string& packed, const std::string& path, size_t most,
                           const std::function<bool(const std::string& text)>& is_enough) {
  Stream stream;
  if (lzma_stream_decoder(stream.get(), kMostMemory, 0) != LZMA_OK) {
    throw ExitError(Exit::Infrastructure, "liblzma cannot start");
  }
  stream->next_in = bytes_of(packed);
  stream->avail_in = packed.size();
  constexpr size_t kFirst = size_t{1} << 18;
  std::string text(std::min(kFirst, most + 1), '\0');
  size_t size = 0;
  lzma_ret result = LZMA_OK;
  while (result == LZMA_OK && size <= most) {
    if (size == text.size()) text.resize(std::min(2 * size, most + 1));
    stream->next_out = reinterpret_cast<uint8_t*>(text.data() + size);
    stream->avail_out = text.size() - size;
    result = lzma_code(stream.get(), LZMA_FINISH);
    size = text.size() - stream->avail_out;
    if (is_enough && result == LZMA_OK && size <= most) {
      std::string now = text.substr(0, size);
      if (is_enough(now)) return now;
    }
  }
  if (size > most) {
    throw ExitError(Exit::Usage, fmt::format("{}: it unpacks to more than {} MiB", path, most >> 20));
  }
  if (result == LZMA_MEMLIMIT_ERROR) {
    throw ExitError(Exit::Usage, fmt::format("{}: it needs more than {} MiB to be unpacked", path, kMostMemory >> 20));
  }
  if (result != LZMA_STREAM_END || stream->avail_in > 0) {
    throw ExitError(Exit::Usage, fmt::format("{}: cannot unpack it: it is damaged or cut", path));
  }
  text.resize(size);
  return text;
}

}  // namespace recapture

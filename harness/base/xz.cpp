#include "harness/base/xz.h"

#include <fmt/format.h>
#include <lzma.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "harness/base/exit.h"

namespace recapture {
namespace {

constexpr uint64_t kMostMemory = uint64_t{1} << 28;  // What packed_by_xz() makes needs a quarter of that.

const uint8_t* bytes_of(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

// The size of the text, from the index at the end of the file; nothing if the file is cut or damaged there.
std::optional<uint64_t> size_in(const std::string& packed) {
  lzma_stream_flags footer;
  if (packed.size() < 2 * LZMA_STREAM_HEADER_SIZE ||
      lzma_stream_footer_decode(&footer, bytes_of(packed) + packed.size() - LZMA_STREAM_HEADER_SIZE) != LZMA_OK ||
      footer.backward_size > packed.size() - 2 * LZMA_STREAM_HEADER_SIZE) {
    return std::nullopt;
  }
  lzma_index* index = nullptr;
  uint64_t memory = kMostMemory;
  size_t at = packed.size() - LZMA_STREAM_HEADER_SIZE - footer.backward_size;
  if (lzma_index_buffer_decode(&index, &memory, nullptr, bytes_of(packed), &at, packed.size()) != LZMA_OK) {
    return std::nullopt;
  }
  const uint64_t size = lzma_index_uncompressed_size(index);
  lzma_index_end(index, nullptr);
  return size;
}

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

struct XzText::Stream {
  Stream() = default;
  ~Stream() { lzma_end(&state); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  lzma_stream state = LZMA_STREAM_INIT;
};

XzText::XzText(std::string packed, std::string path, size_t most)
    : packed_(std::move(packed)), path_(std::move(path)), stream_(std::make_unique<Stream>()) {
  const auto size = size_in(packed_);
  if (!size) refuse();
  if (*size > most) {
    throw ExitError(Exit::Usage, fmt::format("{}: it unpacks to more than {} MiB", path_, most >> 20));
  }
  whole_ = *size;
  text_ = std::make_unique_for_overwrite<char[]>(whole_);
  if (lzma_stream_decoder(&stream_->state, kMostMemory, 0) != LZMA_OK) {
    throw ExitError(Exit::Infrastructure, "liblzma cannot start");
  }
  stream_->state.next_in = bytes_of(packed_);
  stream_->state.avail_in = packed_.size();
}

XzText::~XzText() = default;

void XzText::refuse() const {
  throw ExitError(Exit::Usage, fmt::format("{}: cannot unpack it: it is damaged or cut", path_));
}

bool XzText::unpack_more() {
  if (stream_ == nullptr) return false;
  constexpr size_t kStep = size_t{1} << 18;
  lzma_stream& state = stream_->state;
  state.next_out = reinterpret_cast<uint8_t*>(text_.get() + size_);
  const size_t step = std::min(kStep, whole_ - size_);
  state.avail_out = step;
  const lzma_ret result = lzma_code(&state, LZMA_FINISH);
  size_ += step - state.avail_out;
  if (result == LZMA_MEMLIMIT_ERROR) {
    throw ExitError(Exit::Usage, fmt::format("{}: it needs more than {} MiB to be unpacked", path_, kMostMemory >> 20));
  }
  const bool is_end = result == LZMA_STREAM_END;
  if (is_end ? state.avail_in > 0 || size_ != whole_ : result != LZMA_OK) refuse();
  if (is_end) stream_ = nullptr;
  return !is_end;
}

std::string unpacked_by_xz(const std::string& packed, const std::string& path, size_t most) {
  XzText text(packed, path, most);
  while (text.unpack_more()) continue;
  return std::string(text.text());
}

}  // namespace recapture

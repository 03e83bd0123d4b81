// Packs and unpacks by liblzma, as `xz` does.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace recapture {

// The same text always gives the same bytes.
std::string packed_by_xz(const std::string& text);

// A text that is unpacked from its beginning as far as it is needed.
class XzText {
 public:
  // Of at most `most` bytes. `path` is for messages. Throws ExitError(Usage) for what is cut, larger, or no such file.
  XzText(std::string packed, std::string path, size_t most);
  ~XzText();
  XzText(const XzText&) = delete;
  XzText& operator=(const XzText&) = delete;

  // What is unpacked so far. It never moves.
  std::string_view text() const { return {text_.get(), size_}; }
  // Unpacks more; false at the end, where all is compared with the checksum. Throws ExitError(Usage) for what is
  // damaged.
  bool unpack_more();

 private:
  struct Stream;

  [[noreturn]] void refuse() const;

  std::string packed_, path_;
  std::unique_ptr<Stream> stream_;  // Until the end.
  std::unique_ptr<char[]> text_;
  size_t size_ = 0, whole_ = 0;
};

// All of it.
std::string unpacked_by_xz(const std::string& packed, const std::string& path, size_t most);

}  // namespace recapture

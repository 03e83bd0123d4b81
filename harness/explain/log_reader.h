// The lines of a text of any size, as they are matched: UTF-16 is read, colours and progress bars are taken apart, and
// a log in JSON gets its line ends back. Of a long log only what stands near an error is kept.
#pragma once
#include <re2/re2.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace recapture::explain {

inline constexpr size_t kLongestLine = 2000;       // Bytes. What is longer is read in pieces that overlap.
inline constexpr size_t kReadWhole = 256 << 10;    // Bytes: a text up to this size is kept whole.
inline constexpr size_t kMostKept = 1 << 20;       // Bytes near errors that are kept of a longer one,
inline constexpr size_t kMostDoubtful = 64 << 10;  // and near what may be an error.

struct LogLine {
  size_t number;  // From 1. Pieces of one line share it.
  std::string text;
};

class LogReader {
 public:
  // `cues` are what else speaks of a failure, beside CUDA's errors.
  explicit LogReader(std::vector<std::string> cues = {}) : cues_(std::move(cues)) {}

  void add(std::string_view bytes);
  std::vector<LogLine> finish();

 private:
  enum class Encoding { Unknown, Utf8, Utf16Little, Utf16Big };
  struct Kept {
    std::vector<LogLine> lines;
    size_t bytes = 0, below = 0;  // How many more lines stand below its last error.
  };

  void add_utf8(std::string_view text);
  void take_lines(std::string_view lines);  // Each with its end, or the beginning of a line that goes on.
  void take(std::string_view line);
  void filter(LogLine line);
  bool keep(Kept& kept, size_t most, size_t above, size_t below, const LogLine& line);
  void begin_filter();

  std::vector<std::string> cues_;
  std::unique_ptr<RE2> errors_, doubts_;  // There are none until the text is long.
  Encoding encoding_ = Encoding::Unknown;
  std::string undecoded_, carry_;  // Bytes of half a character, and of half a line.
  size_t number_ = 1, bytes_ = 0;
  std::vector<LogLine> whole_;
  std::deque<LogLine> before_;  // The last lines.
  Kept near_, doubtful_;
};

}  // namespace recapture::explain

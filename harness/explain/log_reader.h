// Reads a text of any size line by line: decodes UTF-16, removes colours, splits progress bars, and restores the line
// ends of a JSON log. Of a long log, keeps only the lines near errors.
#pragma once
#include <re2/re2.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace recapture::explain {

inline constexpr size_t kLongestLine = 2000;       // Bytes. A longer line is read in overlapping pieces.
inline constexpr size_t kReadWhole = 256 << 10;    // Bytes: a text up to this size is kept complete.
inline constexpr size_t kMostKept = 1 << 20;       // Bytes kept near the errors of a longer text,
inline constexpr size_t kMostDoubtful = 64 << 10;  // and near possible errors.

struct LogLine {
  size_t number;  // From 1. Pieces of one line share it.
  std::string text;
};

class LogReader {
 public:
  // `cues` are further signs of a failure, besides CUDA's errors.
  explicit LogReader(std::vector<std::string> cues = {}) : cues_(std::move(cues)) {}

  void add(std::string_view bytes);
  std::vector<LogLine> finish();

 private:
  enum class Encoding { Unknown, Utf8, Utf16Little, Utf16Big };
  struct Kept {
    std::vector<LogLine> lines;
    size_t bytes = 0, below = 0;  // How many more lines to keep below its last error.
  };

  void add_utf8(std::string_view text);
  void take_lines(std::string_view lines);  // Each with its end, or the beginning of a line that goes on.
  void take(std::string_view line);
  void filter(LogLine line);
  bool keep(Kept& kept, size_t most, size_t above, size_t below, const LogLine& line);
  void begin_filter();

  std::vector<std::string> cues_;
  std::unique_ptr<RE2> errors_, doubts_;  // Created when the text becomes long.
  Encoding encoding_ = Encoding::Unknown;
  std::string undecoded_, carry_;  // An incomplete character, and an incomplete line.
  size_t number_ = 1, bytes_ = 0;
  std::vector<LogLine> whole_;
  std::deque<LogLine> before_;  // The last lines.
  Kept near_, doubtful_;
};

}  // namespace recapture::explain

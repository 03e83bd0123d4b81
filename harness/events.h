// What a test process tells the runner: lines of `key=value` on one file descriptor. Each line is one write, so what
// was said before a crash or a hang has been said. The recorder of CUDA calls, a library without our headers, writes
// them too.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace recapture {

inline constexpr const char* kEventsVariable = "RECAPTURE_EVENTS";  // Holds the descriptor's number.
inline constexpr size_t kLongestValue = 4096;                       // A pipe takes a line up to this size as one piece.

inline std::string event_line(std::string_view key, std::string_view value) {
  std::string line(key);
  line += '=';
  for (char c : value) {
    if (line.size() > kLongestValue - 8) {
      line += "[cut]";
      break;
    }
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\\') {
      line += "\\\\";
    } else {
      line += c;
    }
  }
  line += '\n';
  return line;
}

// The inverse, for one line without its end. A line without `=` is not ours: its key comes back empty.
inline std::pair<std::string, std::string> parse_event(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return {};
  std::string value;
  for (size_t i = equals + 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      ++i;
      value += line[i] == 'n' ? '\n' : line[i];
    } else {
      value += line[i];
    }
  }
  return {std::string(line.substr(0, equals)), value};
}

}  // namespace recapture

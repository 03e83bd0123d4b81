#include "harness/explain/log_reader.h"

#include <utf8.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/base/letter_case.h"
#include "harness/base/regex.h"
#include "harness/case/cuda_errors.h"

namespace recapture::explain {
namespace {

constexpr size_t kBlock = 64 << 10;     // Bytes that are searched at a time.
constexpr size_t kAbove = 200;          // Lines that are kept around an error: tracebacks are long.
constexpr size_t kAroundDoubtful = 20;  // Lines around a possible error.
constexpr size_t kOverlap = 200;        // Bytes that two pieces of a line share; longer than any error's text.

// Adds a text to the expression, escaped.
void add_literal(std::string& expression, std::string_view text) {
  if (!expression.empty()) expression += '|';
  expression += RE2::QuoteMeta(re2::StringPiece(text.data(), text.size()));
}

std::unique_ptr<RE2> compiled(const std::string& expression) {
  RE2::Options options(RE2::Latin1);
  options.set_case_sensitive(false);
  options.set_max_mem(16 << 20);
  return std::make_unique<RE2>(expression, options);
}

// Converts UTF-16 to UTF-8. An incomplete character at the end stays in `bytes`; a lone surrogate becomes U+FFFD.
std::string utf8_of(std::string& bytes, bool is_little) {
  std::string text;
  const auto unit = [&](size_t at) {
    const auto low = static_cast<unsigned char>(bytes[at]), high = static_cast<unsigned char>(bytes[at + 1]);
    return static_cast<uint32_t>(is_little ? high << 8 | low : low << 8 | high);
  };
  constexpr uint32_t kMark = 0xfeff, kReplacement = 0xfffd;
  const auto is_between = [](uint32_t value, uint32_t low, uint32_t high) { return value >= low && value <= high; };
  size_t at = 0;
  while (at + 2 <= bytes.size()) {
    uint32_t code = unit(at);
    size_t length = 2;
    if (is_between(code, 0xd800, 0xdbff)) {
      if (at + 4 > bytes.size()) break;
      const uint32_t next = unit(at + 2);
      length = is_between(next, 0xdc00, 0xdfff) ? 4 : 2;
      code = length == 4 ? 0x10000 + ((code - 0xd800) << 10) + (next - 0xdc00) : kReplacement;
    } else if (is_between(code, 0xdc00, 0xdfff)) {
      code = kReplacement;
    }
    if (code != kMark) utf8::append(code, std::back_inserter(text));
    at += length;
  }
  bytes.erase(0, at);
  return text;
}

// A JSON log has "\n", "\t" and "\"" for line ends, tabs and quotes. A path such as C:\new is not changed.
bool is_json(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t");
  return begin != line.npos && (line[begin] == '{' || line[begin] == '"') && line.find("\\n") != line.npos;
}

std::string without_escapes(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    const char next = i + 1 < line.size() ? line[i + 1] : '\0';
    if (line[i] != '\\' || std::string_view("nrt\"\\/u").find(next) == std::string_view::npos) {
      text += line[i];
      continue;
    }
    if (next == 'u') {  // "\u001b[31m" is a colour.
      const bool is_escape = line.substr(i + 2, 4) == "001b";
      text += is_escape ? '\x1b' : line[i];
      i += is_escape ? 5 : 0;
      continue;
    }
    text += next == 'n' || next == 'r' ? '\n' : next == 't' ? '\t' : next;
    ++i;
  }
  return text;
}

std::string without_colours(std::string text) {
  if (text.find('\x1b') == std::string::npos) return text;
  static const RE2 kColour(R"(\x1b\[[0-9;?]*[ -/]*[@-~])", RE2::Latin1);
  return replace_all(std::move(text), kColour, "");
}

}  // namespace

void LogReader::add(std::string_view bytes) {
  if (encoding_ == Encoding::Unknown && !bytes.empty()) {
    undecoded_.append(bytes);
    if (undecoded_.size() < 4) return;
    const std::string_view begin(undecoded_);
    if (begin.substr(0, 2) == "\xff\xfe" || (begin[1] == '\0' && begin[3] == '\0' && begin[0] != '\0')) {
      encoding_ = Encoding::Utf16Little;
    } else if (begin.substr(0, 2) == "\xfe\xff" || (begin[0] == '\0' && begin[2] == '\0' && begin[1] != '\0')) {
      encoding_ = Encoding::Utf16Big;
    } else {
      encoding_ = Encoding::Utf8;
      const std::string text = std::move(undecoded_);
      return add_utf8(std::string_view(text).substr(text.rfind("\xef\xbb\xbf", 0) == 0 ? 3 : 0));
    }
    return add_utf8(utf8_of(undecoded_, encoding_ == Encoding::Utf16Little));
  }
  if (encoding_ == Encoding::Utf8) return add_utf8(bytes);
  undecoded_.append(bytes);
  add_utf8(utf8_of(undecoded_, encoding_ == Encoding::Utf16Little));
}

void LogReader::add_utf8(std::string_view text) {
  bytes_ += text.size();
  if (errors_ == nullptr && bytes_ > kReadWhole) begin_filter();
  while (!text.empty()) {
    const std::string_view part = text.substr(0, kBlock);
    text.remove_prefix(part.size());
    const size_t end = part.rfind('\n');
    if (end == part.npos) {
      carry_.append(part);
      if (carry_.size() < kBlock) continue;
      take_lines(carry_);  // An unfinished last line.
      carry_.erase(0, carry_.size() - kOverlap);
      continue;
    }
    carry_.append(part.substr(0, end + 1));
    take_lines(carry_);
    carry_.assign(part.substr(end + 1));
  }
}

std::vector<LogLine> LogReader::finish() {
  if (encoding_ == Encoding::Unknown) add_utf8(std::exchange(undecoded_, ""));
  if (!carry_.empty()) take_lines(std::exchange(carry_, ""));
  if (errors_ == nullptr) return std::move(whole_);
  std::vector<LogLine> lines = std::move(near_.lines);
  const size_t middle = lines.size();
  std::move(doubtful_.lines.begin(), doubtful_.lines.end(), std::back_inserter(lines));
  const auto is_before = [](const LogLine& a, const LogLine& b) { return a.number < b.number; };
  std::inplace_merge(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(middle), lines.end(), is_before);
  const auto is_same = [](const LogLine& a, const LogLine& b) { return a.number == b.number && a.text == b.text; };
  lines.erase(std::unique(lines.begin(), lines.end(), is_same), lines.end());
  return lines;
}

void LogReader::take_lines(std::string_view lines) {
  const std::string plain = lines.find('\x1b') == lines.npos ? "" : without_colours(std::string(lines));
  if (!plain.empty()) lines = plain;
  // Nearly all blocks of a long log have no error; then only their last lines can matter.
  const auto has = [&](const RE2& expression) { return RE2::PartialMatch(lines, expression); };
  const bool is_dull = errors_ != nullptr && near_.below == 0 && doubtful_.below == 0 && lines.back() == '\n' &&
                       !has(*errors_) && !has(*doubts_);
  if (is_dull) {
    const auto count = static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n'));
    size_t begin = lines.size() - 1;
    for (size_t left = kAbove; left > 0 && begin != lines.npos; --left) {
      begin = begin == 0 ? lines.npos : lines.rfind('\n', begin - 1);
    }
    if (begin != lines.npos) {
      number_ += count - kAbove;
      lines.remove_prefix(begin + 1);
      before_.clear();
    }
  }
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    if (is_dull) {
      before_.push_back({number_, std::string(line)});
      if (before_.size() > kAbove) before_.pop_front();
    } else {
      take(line);
    }
    if (end == lines.size()) return;  // The line continues in the next block.
    ++number_;
    lines.remove_prefix(end + 1);
  }
}

void LogReader::take(std::string_view line) {
  const std::string unescaped = is_json(line) ? without_escapes(line) : "";
  std::string_view rest = unescaped.empty() ? line : std::string_view(unescaped);
  do {
    const size_t end = std::min(rest.find_first_of("\r\n"), rest.size());  // A progress bar ends its lines in "\r".
    const std::string text = without_colours(std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    for (size_t at = 0; at == 0 || at + kOverlap < text.size(); at += kLongestLine - kOverlap) {
      LogLine piece{number_, text.substr(at, kLongestLine)};
      if (errors_ == nullptr) {
        whole_.push_back(std::move(piece));
      } else {
        filter(std::move(piece));
      }
      if (at + kLongestLine >= text.size()) break;
    }
  } while (!rest.empty());
}

// Keeps lines above an error, the error, and lines below it. False if there is no room for more.
bool LogReader::keep(Kept& kept, size_t most, size_t above, size_t below, const LogLine& line) {
  if (kept.bytes > most) return false;
  if (kept.below == 0) {
    const size_t last = kept.lines.empty() ? 0 : kept.lines.back().number;
    for (size_t i = before_.size() - std::min(above, before_.size()); i < before_.size(); ++i) {
      if (before_[i].number <= last) continue;
      kept.bytes += before_[i].text.size();
      kept.lines.push_back(before_[i]);
    }
  }
  kept.bytes += line.text.size();
  kept.lines.push_back(line);
  kept.below = below;
  return true;
}

void LogReader::filter(LogLine line) {
  const auto pass = [&](Kept& kept, size_t most) {  // Lines below an error.
    if (kept.below == 0) return;
    --kept.below;
    if (kept.bytes > most) return;
    kept.bytes += line.text.size();
    kept.lines.push_back(line);
  };
  if (RE2::PartialMatch(line.text, *errors_)) {
    keep(near_, kMostKept, kAbove, kAbove, line);
  } else {
    pass(near_, kMostKept);
    if (RE2::PartialMatch(line.text, *doubts_)) {
      keep(doubtful_, kMostDoubtful, kAroundDoubtful, kAroundDoubtful, line);
    } else {
      pass(doubtful_, kMostDoubtful);
    }
  }
  before_.push_back(std::move(line));
  if (before_.size() > kAbove) before_.pop_front();
}

void LogReader::begin_filter() {
  std::string errors, doubts = R"(traceback \(most recent|\b(?:error|code|status)[ _:=#(]{1,3}(?:90[0-9]|910)\b)";
  for (const CudaError& error : kCudaErrors) {
    const std::string name(error.name);
    for (const std::string& spelling : {name, "hip" + name.substr(4), driver_name(error.name)}) {
      add_literal(is_capture_error(error.code) ? errors : doubts, spelling);
    }
    if (is_capture_error(error.code)) add_literal(errors, error.text);
  }
  add_literal(errors, "operation failed due to a previous error");
  for (const std::string& cue : cues_) add_literal(errors, cue);
  errors +=
      R"(|returning (?:401|90[0-9]|910) \(|(?:cuda|hip)[ _a-z]{0,20}(?:error|failure)[^0-9a-z]{1,4}(?:90[0-9]|910)\b)";
  errors += R"(|captur[^\n]{0,40}fail|fail[^\n]{0,40}captur)";
  doubts += "|(?:cuda|hip) (?:error|failure)";
  errors_ = compiled(errors);
  doubts_ = compiled(doubts);
  // Processes the text that was kept complete so far.
  std::vector<LogLine> whole = std::move(whole_);
  whole_.clear();
  for (LogLine& line : whole) filter(std::move(line));
}

}  // namespace recapture::explain

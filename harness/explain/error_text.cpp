#include "harness/explain/error_text.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>

#include "harness/base/letter_case.h"
#include "harness/base/regex.h"
#include "harness/case/cuda_errors.h"

namespace recapture::explain {
namespace {

struct Spelling {
  int code;
  std::string text;
  bool only_of_cuda;  // The words are everyday ones: they count only in a line that speaks of CUDA.
};

const std::vector<Spelling>& spellings() {
  static const std::vector<Spelling> kAll = [] {
    std::vector<Spelling> all;
    for (const CudaError& error : kCudaErrors) {
      const std::string name = lower_case(error.name);
      all.push_back({error.code, name, false});
      all.push_back({error.code, "hip" + name.substr(4), false});
      all.push_back({error.code, lower_case(driver_name(error.name)), false});
      all.push_back({error.code, lower_case(error.text), !is_capture_error(error.code)});
    }
    // Names of the driver that are not the runtime's in other letters.
    all.push_back({2, "cuda_error_out_of_memory", false});
    all.push_back({2, "cuda out of memory", false});
    all.push_back({700, "cuda_error_illegal_address", false});
    all.push_back({719, "cuda_error_launch_failed", false});
    all.push_back({901, "operation failed due to a previous error", false});
    all.push_back({901, "invalid capture.", false});  // How LibTorch 1.13 and older report it.
    return all;
  }();
  return kAll;
}

// Advice that PyTorch, HIP and SGLang add to any error, up to the end of its line: it would speak for whatever it
// names.
void cut_advice(std::string& line) {
  for (const char* words :
       {"cuda kernel errors might be", "hip kernel errors might be", "for debugging consider",
        "compile with `torch_use_cuda_dsa`", "compile with `torch_use_hip_dsa`", "to enable device-side assertions",
        "please use tensor.pin_memory()", "in regions captured by cuda graphs, you may only",
        "possible solutions:", "disable torch compile by", "--enable-torch-compile", "disable cuda graph by",
        "--disable-cuda-graph", "--mem-fraction-static", "--cuda-graph-max-bs"}) {
    line.resize(std::min(line.find(words), line.size()));
  }
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "error 901", "error code: 900", "failure! 35", "(code 901", "returning 900 (", "cudaError_t = 901": a number that is
// said to be an error.
void find_numbers(const std::string& line, std::vector<std::pair<size_t, int>>& found) {
  static const RE2 kNumber(
      "(?:error(?:_t)?|failure|failed|errno|status|returned|returning|err|code|result)[ :=!#(]*(?:code)?[ :=!#(]*"
      "([0-9]{1,3})(?:[^0-9.]|$)",
      RE2::Latin1);
  for (const Match& match : all_matches(line, kNumber)) {
    found.emplace_back(match[1].data() - line.data(), std::stoi(std::string(match[1])));
  }
}

// A name must begin and end where the words do, unless it ends in "*": cudaMalloc is not cudaMallocHost.
size_t find_word(const std::string& text, std::string_view word, size_t from = 0) {
  const bool is_stem = !word.empty() && word.back() == '*';
  if (is_stem) word.remove_suffix(1);
  if (word.empty()) return std::string::npos;
  for (size_t at = text.find(word, from); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !is_word(word.front()) || !is_word(text[at - 1]);
    const bool ends = is_stem || end >= text.size() || !is_word(word.back()) || !is_word(text[end]);
    if (begins && ends) return at;
  }
  return std::string::npos;
}

std::vector<int> errors_in(const std::string& line) {
  const bool of_cuda = line.find("cuda") != std::string::npos || line.find("hip error") != std::string::npos ||
                       line.find("cu_") != std::string::npos;
  std::vector<std::pair<size_t, int>> found;
  for (const Spelling& spelling : spellings()) {
    if (spelling.only_of_cuda && !of_cuda) continue;
    const size_t at = find_word(line, spelling.text);
    if (at != std::string::npos) found.emplace_back(at, spelling.code);
  }
  std::vector<std::pair<size_t, int>> numbers;
  if (of_cuda || line.find("captur") != std::string::npos || line.find("graph") != std::string::npos) {
    find_numbers(line, numbers);
  }
  for (const auto& number : numbers) {
    const auto known = [&](const CudaError& error) { return error.code == number.second; };
    if (number.second > 0 && std::any_of(std::begin(kCudaErrors), std::end(kCudaErrors), known))
      found.push_back(number);
  }
  std::sort(found.begin(), found.end());
  std::vector<int> codes;
  for (const auto& [at, code] : found) {
    if (std::find(codes.begin(), codes.end(), code) == codes.end()) codes.push_back(code);
  }
  return codes;
}

bool has_any(std::string_view line, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return line.find(word) != line.npos; });
}

// The number of a capture error that does not say whose it is: "error 901", "x.cu:12: 901", "901" and little else. 0 if
// there is none, or if it is another program's.
int bare_number(const std::string& line, bool in_few_lines) {
  static const RE2 kSaid(
      R"((?:error|\b(?:err|code|status))[ _:=#(]*(?:code)?[ _:=#(]*(90[0-9]|910)(?:[^0-9a-z_.]|\.(?:[^0-9]|$)|$))",
      RE2::Latin1),
      kAtPlace(R"(\.cuh?[:(][0-9]+[):]+ +(90[0-9]|910)\s*$)", RE2::Latin1),
      kAlone(R"(\s*(90[0-9]|910)\s*)", RE2::Latin1),
      kOfOthers(R"(http(?:[^s:]|s(?:[^:]|$)|$)|sql|smtp|ora-[0-9])", RE2::Latin1);
  int code = 0;
  const bool is_there = RE2::PartialMatch(line, kSaid, &code) || RE2::PartialMatch(line, kAtPlace, &code) ||
                        (in_few_lines && RE2::FullMatch(line, kAlone, &code));
  return is_there && !RE2::PartialMatch(line, kOfOthers) ? code : 0;
}

bool is_of_cuda(std::string_view lower) {
  return has_any(lower,
                 {"cuda error", "hip error", "acceleratorerror", "captur", "cuda failure", "ncclunhandledcudaerror"});
}

bool begins_traceback(std::string_view lower) { return has_any(lower, {"traceback (most recent call last)"}); }

bool is_chain(std::string_view lower) {
  return has_any(lower, {"during handling of the above exception", "direct cause of the following exception"});
}

// The last line of a Python traceback. What stands before it in a log ("(EngineCore pid=1140) ERROR 07-15
// core.py:1231] ") does not count.
bool is_python_exception(const std::string& line) {
  static const RE2 kException(R"((?:^|[\] ])([A-Za-z_.]*(?:Error|Exception|Interrupt))(?::|$))", RE2::Latin1);
  return RE2::PartialMatch(line, kException);
}

// Python exceptions of a text, and which of them a capture error follows from: it was raised while that one was
// handled, or stands just below it. A module that is missing as a log starts broke no capture.
class Exceptions {
 public:
  Exceptions() = default;

  void read(size_t number, const std::string& line, const std::string& lower, bool names_capture_error) {
    if (is_chain(lower)) {
      chained_ = line_ != 0;
      follows_ = !chained_ && after_capture_error_;
      continues_ = true;
    } else if (begins_traceback(lower)) {
      if (!continues_) *this = Exceptions(cause_, failed_);
      continues_ = false;
    } else if (names_capture_error) {
      if (cause_ == 0 && leads_to(number)) cause_ = line_;
      after_capture_error_ = true;
    } else if (is_python_exception(line)) {
      if (const std::string what = of_failed_capture(lower); !what.empty() && !is_of_cuda(what) && failed_ == 0) {
        failed_ = leads_to(number) ? line_ : number;
      } else if (!is_of_cuda(lower) && !is_wrapper(lower) && !follows_ && !leads_to(number)) {
        line_ = number;
        chained_ = false;
      }
    }
  }

  size_t cause() const { return cause_; }
  // The exception that a framework passes on as that of its capture.
  size_t failed() const { return failed_; }

 private:
  Exceptions(size_t cause, size_t failed) : cause_(cause), failed_(failed) {}

  bool leads_to(size_t number) const {
    constexpr size_t kBlock = 5;
    return line_ != 0 && (chained_ || number - line_ <= kBlock);
  }

  // What follows "Capture cuda graph failed: ".
  static std::string of_failed_capture(const std::string& lower) {
    for (const std::string words : {"capture cuda graph failed: ", "graph capture failed: "}) {
      if (const size_t at = lower.find(words); at != std::string::npos) return lower.substr(at + words.size());
    }
    return "";
  }

  // Exceptions that only pass another one on.
  static bool is_wrapper(const std::string& lower) {
    return has_any(lower, {"failed in the torchscript interpreter", "see root cause above"});
  }

  size_t line_ = 0, cause_ = 0, failed_ = 0;
  bool chained_ = false, continues_ = false;  // The next error follows from line_; so does the next traceback.
  bool after_capture_error_ = false, follows_ = false;  // The next exception follows from a capture error.
};

// Lines that tell what is there or going on, and not what failed: of package lists, collect_env, gdb, and of loggers
// at the level INFO.
bool is_listing(const std::string& line, const std::string& lower) {
  static const RE2 kPackage(R"(\s*(?:\[(?:pip3?|conda)\].*|[\w.-]+(?:==|\s+)v?\d+\.\d[\w.+!-]*\s*))", RE2::Latin1);
  return has_any(lower, {" version: ", " set to: ", "libthread_db", "[new thread 0x"}) ||
         find_word(line, "INFO") != std::string::npos || RE2::FullMatch(line, kPackage);
}

// A listing shows a few lines around the one that failed, which it marks: "--->" beside the line's number, or "<---
// HERE" below the line. Those around it did not fail.
void leave_out_neighbours(const ErrorText& text, std::vector<char>& counts) {
  static const RE2 kMarked(R"(\s*-+> *\d+(?: .*)?)", RE2::Latin1), kNumbered(R"(\s*\d+(?: .*)?)", RE2::Latin1),
      kDeep(" {4}.*", RE2::Latin1);
  constexpr size_t kFew = 8;
  const auto is = [&](size_t at, const RE2& kind) { return RE2::FullMatch(text.lines[at], kind); };
  const auto is_here = [&](size_t at) { return text.lines[at].find("<--- HERE") != std::string::npos; };
  for (size_t at = 0; at < text.lines.size(); ++at) {
    const bool here = is_here(at);
    if (!here && !is(at, kMarked)) continue;
    const auto is_neighbour = [&](size_t line) { return is(line, here ? kDeep : kNumbered) && !is_here(line); };
    const size_t marked = here && at > 0 ? at - 1 : at;
    for (size_t up = marked; up > 0 && up + kFew > at && is_neighbour(up - 1); --up) counts[up - 1] = 0;
    for (size_t down = at + 1; down < text.lines.size() && down < at + kFew && is_neighbour(down); ++down) {
      counts[down] = down + 1 < text.lines.size() && is_here(down + 1) ? 1 : 0;
    }
  }
}

// Errors are explained by what stands at most so many lines from them: tracebacks are long, logs much longer.
constexpr size_t kNear = 200;

// A capture that failed without an error that is known leaves no place to look at.
void leave_out_what_is_far(const ErrorText& text, std::vector<char>& counts) {
  if (!text.has_capture_error()) return;
  size_t next = 0;  // The first line that no error so far is near to.
  for (const NamedError& error : text.errors) {
    if (!is_capture_error(error.code)) continue;
    for (; next + kNear + 1 < error.line; ++next) counts[next] = 0;
    next = std::max(next, std::min(error.line + kNear, counts.size()));
  }
  std::fill(counts.begin() + static_cast<std::ptrdiff_t>(next), counts.end(), 0);
}

// "frame #3: cudaMalloc + 0x1b2", or gdb's "#3 0x7f… in cudaMalloc ()".
bool is_numbered_frame(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return false;
  const std::string_view rest = std::string_view(line).substr(begin);
  const bool is_numbered = rest.size() > 1 && rest[0] == '#' && rest[1] >= '0' && rest[1] <= '9';
  return is_numbered || rest.find("frame #") != rest.npos;
}

// In lower case, as `text.lines` has it from 0.
std::string_view lower_of(const ErrorText& text, size_t at) {
  const size_t begin = text.starts[at], next = at + 1 < text.starts.size() ? text.starts[at + 1] : text.lower.size();
  return std::string_view(text.lower).substr(begin, next - begin - 1);
}

// Where the traceback begins that ends in the error of line `at`, not before line `from`. Of one that was pasted in
// part that is what is indented, and the statement above the error, which a bracket or a colon ends and a log's line a
// word.
size_t begin_of_traceback(const ErrorText& text, size_t at, size_t from) {
  size_t first = at;
  for (size_t up = at; up > from; --up) {
    const std::string& line = text.lines[up - 1];
    const std::string_view low = lower_of(text, up - 1);
    if (begins_traceback(low)) return up - 1;
    if (is_chain(low) || (is_python_exception(line) && !is_of_cuda(low))) break;
    const size_t last = line.find_last_not_of(" \t\r");
    if (first != up || last == std::string::npos) continue;
    const bool is_indented = line[0] == ' ' || line[0] == '\t';
    const bool is_statement = up == at && std::string_view("()[]:,").find(line[last]) != std::string_view::npos;
    if (is_indented || is_statement) first = up - 1;
  }
  return first;
}

// The call that returned a 901 is a victim. Where no other capture error is there, whatever names that call would be
// taken for the culprit: the error's line, the traceback that it ends, the stack below it. NCCL passes it on by a name
// of its own.
void leave_out_victims(const ErrorText& text, std::vector<char>& counts) {
  if (!text.only_invalidated()) return;
  size_t below = 0;  // The first line below the last victim.
  auto error = text.errors.begin();
  for (size_t at = 0; at < text.lines.size(); ++at) {
    bool is_victim = false;
    for (; error != text.errors.end() && error->line == at + 1; ++error) is_victim = is_victim || error->code == 901;
    const std::string_view low = lower_of(text, at);
    if (is_victim || has_any(low, {"unhandled cuda error", "ncclunhandledcudaerror"})) {
      const bool in_drivers_log = has_any(low, {"[cuda]"});
      const size_t first = in_drivers_log ? at : begin_of_traceback(text, at, below);
      std::fill(counts.begin() + static_cast<std::ptrdiff_t>(first),
                counts.begin() + static_cast<std::ptrdiff_t>(at + 1), 0);
      below = at + 1;
    } else if (below != 0 && (is_numbered_frame(text.lines[at]) || has_any(low, {"exception raised from"}))) {
      counts[at] = 0;
    }
  }
}

size_t line_at(const ErrorText& text, size_t at) {
  return static_cast<size_t>(std::upper_bound(text.starts.begin(), text.starts.end(), at) - text.starts.begin());
}

// Errors of the line itself say whether the call was refused, and otherwise those beside it: the statement stands below
// its error and the place. 901 is the answer to every call once another one was refused.
bool is_refused(const ErrorText& text, size_t line) {
  constexpr size_t kBelow = 2, kAbove = 1;
  const auto refused_in = [&](size_t first, size_t last) {
    std::optional<bool> refused;
    auto error = std::lower_bound(text.errors.begin(), text.errors.end(), first,
                                  [](const NamedError& named, size_t at) { return named.line < at; });
    for (; error != text.errors.end() && error->line <= last; ++error) {
      refused = refused.value_or(false) || error->code != 901;
    }
    return refused;
  };
  if (const auto own = refused_in(line, line)) return *own;
  return refused_in(line < kBelow ? 0 : line - kBelow, line + kAbove).value_or(false);
}

// A numbered one, or the name alone.
bool is_frame(const std::string& line, std::string_view call) {
  const size_t begin = line.find_first_not_of(" \t");
  return is_numbered_frame(line) || (begin != std::string::npos && std::string_view(line).substr(begin) == call);
}

size_t find_parts(const ErrorText& text, const std::string& where, std::string_view cue) {
  constexpr std::string_view kAnd = " + ";
  size_t first = 0;
  for (size_t at = 0; at <= cue.size();) {
    const size_t end = std::min(cue.find(kAnd, at), cue.size());
    const size_t found = find_word(where, lower_case(cue.substr(at, end - at)));
    if (found == std::string::npos) return 0;
    if (first == 0) first = line_at(text, found);
    at = end + kAnd.size();
  }
  return first;
}

}  // namespace

size_t ErrorText::first_capture_error() const {
  const auto first =
      std::find_if(errors.begin(), errors.end(), [](const NamedError& e) { return is_capture_error(e.code); });
  return first == errors.end() ? 0 : first->line;
}

bool ErrorText::only_invalidated() const {
  return has_capture_error() && std::none_of(errors.begin(), errors.end(), [](const NamedError& e) {
           return is_capture_error(e.code) && e.code != 901;
         });
}

ErrorText parse_error_text(std::string_view text) {
  static const RE2 kLog(R"(returning ([0-9]{1,3}) \(cuda_error_[a-z_]+\) from (\w+))", RE2::Latin1);
  ErrorText pasted;
  Exceptions exceptions;
  std::vector<char> counts;      // Whether a line is evidence.
  std::vector<NamedError> bare;  // Numbers that do not say whose they are.
  bool of_cuda = false, of_torch = false;
  constexpr std::ptrdiff_t kFewLines = 5;
  const bool in_few_lines = std::count(text.begin(), text.end(), '\n') <= kFewLines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, std::min(end - at, kLongestLine));
    at = end + 1;
    std::string low = lower_case(line);
    cut_advice(low);
    pasted.lines.emplace_back(line);
    pasted.starts.push_back(pasted.lower.size());
    pasted.lower.append(low).push_back('\n');
    const size_t number = pasted.lines.size();
    const auto codes = errors_in(low);
    for (int code : codes) pasted.errors.push_back({code, number});
    if (const int number_alone = codes.empty() ? bare_number(low, in_few_lines) : 0) {
      bare.push_back({number_alone, number});
    }
    of_cuda = of_cuda || has_any(low, {"cuda", "captur", "nccl", ".cu:", ".cu(", ".cuh:", ".cuh("});
    of_torch = of_torch || has_any(low, {"torch", "gpu"});
    int code = 0;
    re2::StringPiece call;
    if (pasted.call.empty() && RE2::PartialMatch(low, kLog, &code, &call)) {
      if (code != 901 && (is_capture_error(code) || code == 401)) {
        pasted.call = line.substr(static_cast<size_t>(call.data() - low.data()), call.size());
        pasted.call_line = number;
      }
    }
    exceptions.read(number, pasted.lines.back(), low, std::any_of(codes.begin(), codes.end(), is_capture_error));
    counts.push_back(!codes.empty() || !is_listing(pasted.lines.back(), low) ? 1 : 0);
    pasted.says_failed =
        pasted.says_failed ||
        has_any(low, {"capture fail", "failed to capture", "failed to end stream capture", "capture graph failed",
                      "capture cuda graph failed", "stream is capturing", "capture error"});
    pasted.about_captures = pasted.about_captures || has_any(low, {"captur", "cuda graph", "cudagraph", "cuda_graph"});
  }
  if (pasted.errors.empty() && !bare.empty()) {
    // A text on CUDA without another error means CUDA's; a long one on something else means that.
    if (of_cuda) {
      pasted.errors = bare;
    } else if (of_torch || in_few_lines) {
      pasted.doubtful = bare.front().code;
    }
  }
  pasted.exception_line = exceptions.cause();
  if (pasted.errors.empty()) pasted.exception_line = exceptions.failed();
  leave_out_neighbours(pasted, counts);
  leave_out_what_is_far(pasted, counts);
  leave_out_victims(pasted, counts);
  pasted.near = pasted.lower;
  for (size_t line = 0; line < counts.size(); ++line) {
    const size_t begin = pasted.starts[line],
                 end = line + 1 < counts.size() ? pasted.starts[line + 1] : pasted.near.size();
    if (!counts[line]) pasted.near.replace(begin, end - begin, end - begin, ' ');
  }
  return pasted;
}

size_t find_evidence(const ErrorText& text, std::string_view cue) { return find_parts(text, text.lower, cue); }

size_t find_near(const ErrorText& text, std::string_view cue) { return find_parts(text, text.near, cue); }

size_t find_refused(const ErrorText& text, std::string_view call) {
  const std::string word = lower_case(call);
  // The stack below a 901 that stands alone is that of the call which returned it.
  const size_t last_of_stacks = text.only_invalidated() ? text.first_capture_error() : text.lines.size();
  for (size_t at = 0; (at = find_word(text.lower, word, at)) != std::string::npos; ++at) {
    const size_t line = line_at(text, at), begin = text.starts[line - 1];
    if (is_refused(text, line)) return line;
    if (line > last_of_stacks) continue;
    if (is_frame(text.lower.substr(begin, text.lower.find('\n', begin) - begin), word)) return line;
  }
  return 0;
}

}  // namespace recapture::explain

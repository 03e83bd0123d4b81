#include "harness/explain/error_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>

#include "harness/base/letter_case.h"
#include "harness/base/regex.h"
#include "harness/case/cuda_errors.h"

namespace recapture::explain {
namespace {

// Where a spelling counts: everyday words only in a line about CUDA, a number only in one about an Ascend NPU.
enum class Counts { Anywhere, Cuda, Ascend };

struct Spelling {
  int code;
  std::string text;
  Counts where;
};

// The capture errors of Ascend's runtime by CUDA's numbers, as torch_npu and CANN print them.
constexpr std::array<std::pair<std::string_view, int>, 13> kOfAscend = {{
    {"107024", 905},  // A wait for an event that the capture has not recorded.
    {"107025", 904},
    {"107026", 401},
    {"107027", 900},
    {"107028", 907},
    {"107030", 900},
    {"107031", 906},
    {"107032", 902},
    {"107036", 903},
    {"107038", 908},
    {"current capture mode does not support this operation", 900},
    {"not allow to synchronize captured-stream", 900},
    {"stream that was not joined to the original stream", 904},
}};

const std::vector<Spelling>& spellings() {
  static const std::vector<Spelling> kAll = [] {
    std::vector<Spelling> all;
    for (const CudaError& error : kCudaErrors) {
      const std::string name = lower_case(error.name);
      all.push_back({error.code, name, Counts::Anywhere});
      all.push_back({error.code, lower_case(driver_name(error.name)), Counts::Anywhere});
      // "an illegal memory access was encountered", "device-side assert triggered", "unspecified launch failure"
      const bool is_telling = is_capture_error(error.code) || error.code == 401 || error.code == 700 ||
                              error.code == 710 || error.code == 719;
      all.push_back({error.code, lower_case(error.text), is_telling ? Counts::Anywhere : Counts::Cuda});
    }
    // Driver names that are not the runtime's in another spelling.
    all.push_back({2, "cuda_error_out_of_memory", Counts::Anywhere});
    all.push_back({2, "cuda out of memory", Counts::Anywhere});
    all.push_back({700, "cuda_error_illegal_address", Counts::Anywhere});
    all.push_back({700, "cuda error: an illegal memory access", Counts::Anywhere});  // A common variant.
    all.push_back({700, "memory access fault by gpu", Counts::Anywhere});            // ROCm's.
    all.push_back({719, "cuda_error_launch_failed", Counts::Anywhere});
    all.push_back({900, "operation not permitted when stream", Counts::Anywhere});  // Cut, it is no 800.
    all.push_back({901, "operation failed due to a previous error", Counts::Anywhere});
    all.push_back({901, "cudastreamcapturestatusinvalidated internal assert failed", Counts::Anywhere});
    all.push_back({901, "invalid capture.", Counts::Anywhere});  // From LibTorch 1.13 and older.
    all.push_back({901, "\"invalid capture\"", Counts::Anywhere});
    all.push_back({901, "error: invalid capture", Counts::Anywhere});
    for (const auto& [words, code] : kOfAscend) {
      const bool is_number = words.find_first_not_of("0123456789") == std::string_view::npos;
      all.push_back({code, std::string(words), is_number ? Counts::Ascend : Counts::Anywhere});
    }
    return all;
  }();
  return kAll;
}

// Removes advice that PyTorch, HIP and SGLang add to any error, up to the end of its line: it would be evidence for
// every cause that it names.
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

// Numbers that a line marks as a CUDA error: "CUDA error 905", "CUDA_ERROR_UNKNOWN (code: 901)", "cudaError_t = 901",
// "(code 901, ERROR_STREAM_CAPTURE_INVALIDATED)", "cuGraphLaunch failed. CUresult=700", "HIP 900". Not a logger's
// "ERROR 02-14 10:14:21", nor "make: Error 2" or "[Errno 2] nvcc".
void find_numbers(const std::string& line, std::vector<std::pair<size_t, int>>& found) {
  static const RE2 kNumber(
      R"((?:\bcuda(?: (?:runtime|driver))?(?: api)?[ _-]?(?:error|failure|failed|status|result)(?:_t)?(?: code)?)"
      R"(|\b(?:cuda_error_|cudaerror)[a-z_]+|\bcuresult|\bcu(?:da)?[a-z0-9_]{4,40}(?:\([^()]*\))? (?:failed|returned)(?: with)?)"
      R"()[ :=!#(]{1,4}(?:(?:code|error|status)[ :=!#(]{1,4})?([0-9]{1,3})(?:[^0-9.:a-z-]|[.:][^0-9]|[.:]?$))"
      R"(|\breturning ([0-9]{1,3}) (?:\(cuda_error_|from cu))"
      R"(|\bcode[ :=]{1,2}([0-9]{1,3}), error_|\bcuda (90[0-9]|910)\b)",
      RE2::Latin1);
  for (const Match& match : all_matches(line, kNumber)) {
    for (size_t group = 1; group < match.size(); ++group) {
      if (match[group].empty()) continue;
      found.emplace_back(match[group].data() - line.data(), std::stoi(std::string(match[group])));
    }
  }
}

// Matches whole words only, unless the name ends in "*": cudaMalloc is not cudaMallocHost.
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

bool has_any(std::string_view line, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return line.find(word) != line.npos; });
}

std::vector<int> errors_in(const std::string& line) {
  const bool of_cuda = line.find("cuda") != std::string::npos || line.find("cu_") != std::string::npos;
  const bool of_ascend = has_any(line, {"acl", "npu", "error code", "errcode", "retcode", "runtime result"});
  std::vector<std::pair<size_t, int>> found;
  for (const Spelling& spelling : spellings()) {
    if ((spelling.where == Counts::Cuda && !of_cuda) || (spelling.where == Counts::Ascend && !of_ascend)) continue;
    const size_t at = find_word(line, spelling.text);
    if (at != std::string::npos) found.emplace_back(at, spelling.code);
  }
  std::vector<std::pair<size_t, int>> numbers;
  find_numbers(line, numbers);
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

// A capture error's number that is not marked as CUDA's: "error 901", "x.cu:12: 901", a line with little more than
// "901". 0 if there is none, or if it is another program's.
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

// A line of a compiler, a linker or a program that ends.
bool reports_an_error(std::string_view lower) {
  return has_any(lower, {"error:", "error]", "fatal", "what():", "exception:", "undefined reference", "build stopped"});
}

bool is_of_cuda(std::string_view lower) {
  return has_any(lower, {"cuda error", "acceleratorerror", "captur", "cuda failure", "ncclunhandledcudaerror"});
}

bool begins_traceback(std::string_view lower) { return has_any(lower, {"traceback (most recent call last)"}); }

bool is_chain(std::string_view lower) {
  return has_any(lower, {"during handling of the above exception", "direct cause of the following exception"});
}

// The last line of a Python traceback. A log's prefix ("(EngineCore pid=1140) ERROR 07-15 core.py:1231] ") is skipped.
// Neither "CUDA status Error: a.cu:12" nor pytest's "a.py:33: RuntimeError" is one.
bool is_python_exception(const std::string& line) {
  static const RE2 kException(R"((?:^|[\] ])([A-Za-z_.]*(?:[A-Za-z_]Error|Exception|Interrupt|[A-Za-z]Exit))(?::|$))",
                              RE2::Latin1),
      kPlace(R"(\S+\.py:\d+: [A-Za-z_.]+\s*)", RE2::Latin1);
  return RE2::PartialMatch(line, kException) && !RE2::FullMatch(line, kPlace);
}

// Python exceptions of a text, and which of them led to a capture error: it was raised during their handling, or
// directly below them. A module missing at a log's start broke no capture.
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
    } else if (names_capture_error || has_any(lower, {"capture must end on the same stream it began on"})) {
      if (cause_ == 0 && leads_to(number)) cause_ = line_;
      after_capture_error_ = true;
    } else if (const auto what = of_failed_capture(lower); what || is_python_exception(line)) {
      if (what && !is_of_cuda(*what) && failed_ == 0 && (!what->empty() || leads_to(number))) {
        failed_ = leads_to(number) ? line_ : number;
      } else if (!is_of_cuda(lower) && !is_wrapper(lower) && !follows_ && !leads_to(number)) {
        line_ = number;
        chained_ = false;
      }
    }
  }

  size_t cause() const { return cause_; }
  // The exception that a framework reports as its capture's.
  size_t failed() const { return failed_; }

 private:
  Exceptions(size_t cause, size_t failed) : cause_(cause), failed_(failed) {}

  bool leads_to(size_t number) const {
    constexpr size_t kBlock = 5;
    return line_ != 0 && (chained_ || number - line_ <= kBlock);
  }

  // The text after "Capture cuda graph failed: ", which may be empty, for example for an assertion.
  static std::optional<std::string> of_failed_capture(const std::string& lower) {
    for (const std::string words :
         {"capture cuda graph failed:", "capture npu graph failed:", "graph capture failed:",
          "graph capture failed with error:", "cuda graph failed with error:", "failed to capture cuda graph:",
          "error capturing cuda graph:", "error during cuda graph capture:", "error during graph capture:"}) {
      const size_t at = lower.find(words);
      if (at == std::string::npos) continue;
      return lower.substr(std::min(lower.find_first_not_of(' ', at + words.size()), lower.size()));
    }
    return std::nullopt;
  }

  // Exceptions that only wrap another one.
  static bool is_wrapper(const std::string& lower) {
    return has_any(lower, {"failed in the torchscript interpreter", "see root cause above"});
  }

  size_t line_ = 0, cause_ = 0, failed_ = 0;
  bool chained_ = false, continues_ = false;            // The next error, or traceback, follows from line_.
  bool after_capture_error_ = false, follows_ = false;  // The next exception follows from a capture error.
};

// Lines about a state or progress, not a failure: lists of packages and devices, collect_env, gdb, and loggers at the
// level INFO.
bool is_listing(const std::string& line, const std::string& lower) {
  static const RE2 kPackage(R"(\s*(?:\[(?:pip3?|conda)\].*|[\w.-]+(?:==|\s+)v?\d+\.\d[\w.+!-]*\s*))", RE2::Latin1),
      kDevice(R"(\s*"?(?:cuda:|gpu[ #]?|device )\d+"?\s*[:=,]\s*"?[a-z].*)", RE2::Latin1);
  return has_any(lower, {" version: ", " set to: ", "libthread_db", "[new thread 0x"}) ||
         find_word(line, "INFO") != std::string::npos || RE2::FullMatch(line, kPackage) ||
         RE2::FullMatch(lower, kDevice);
}

// A listing shows a few lines around the failed one, which it marks: "--->" beside the line number, or "<--- HERE"
// below the line. The lines around it did not fail.
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

// Replaces the names of other vendors' calls, libraries and errors by CUDA's.
std::string with_cuda_names(std::string lower) {
  struct Name {
    std::string_view sign;  // A line without it is not searched.
    RE2 theirs;
    const char* ours;
  };
  static const std::array<Name, 21> kNames = {{
      {"hip_", {R"(\bhip_(device|event|stream)_(synchronize|query|destroy)\w*)", RE2::Latin1}, "cuda\\1\\2"},
      {"hip", {R"(\bhiphostmalloc)", RE2::Latin1}, "cudahostalloc"},
      {"hip", {R"(\bhiphostfree)", RE2::Latin1}, "cudafreehost"},
      {"hip", {R"(\bhip(module|ctx))", RE2::Latin1}, "cu\\1"},
      {"hip",
       {R"(\bhip( error| 9[01][0-9]\b|error|device|stream|event|graph|malloc|free|mem|host|launch|ipc|func))",
        RE2::Latin1},
       "cuda\\1"},
      {"hip", {R"(\bhip(blas|sparse|solver|fft))", RE2::Latin1}, "cu\\1"},
      {"hip", {R"(\bhiprtc)", RE2::Latin1}, "nvrtc"},
      {"hip", {R"(\bhipcub\b)", RE2::Latin1}, "cub"},
      {"roc", {R"(\broc(blas|sparse|solver|fft))", RE2::Latin1}, "cu\\1"},
      {"rocprim", {R"(\brocprim\b)", RE2::Latin1}, "cub"},
      {"rocthrust", {R"(\brocthrust\b)", RE2::Latin1}, "thrust"},
      {"miopen", {R"(\bmiopen)", RE2::Latin1}, "cudnn"},
      {"rccl", {R"(\brccl)", RE2::Latin1}, "nccl"},
      {"hccl", {R"(\bhccl)", RE2::Latin1}, "nccl"},
      // MUSA, MACA and others name their errors as CUDA does.
      {"errorstreamcapture", {R"(\b[a-z]{2,6}(errorstreamcapture))", RE2::Latin1}, "cuda\\1"},
      {"errorcapturedevent", {R"(\b[a-z]{2,6}(errorcapturedevent))", RE2::Latin1}, "cuda\\1"},
      {"memcpy", {R"(\b(?:aclrt|rt)(memcpy(?:async)?)\b)", RE2::Latin1}, "cuda\\1"},
      {"synchronize", {R"(\baclrtsynchronize(stream|device|event)\w*)", RE2::Latin1}, "cuda\\1synchronize"},
      {"synchronize", {R"(\brt(stream|device|event)(synchronize)\w*)", RE2::Latin1}, "cuda\\1\\2"},
      {"aclrtmalloc", {R"(\baclrtmalloc\b)", RE2::Latin1}, "cudamalloc"},
      {"aclrtfree", {R"(\baclrtfree\b)", RE2::Latin1}, "cudafree"},
  }};
  for (const Name& name : kNames) {
    if (lower.find(name.sign) != std::string::npos) lower = replace_all(std::move(lower), name.theirs, name.ours);
  }
  return lower;
}

// Many reports are in Chinese; they use few words for capture and replay.
std::string with_english_words(std::string lower) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 48> kWords = {{
      {"图捕获", " graph capture "},
      {"捕获", " capture "},
      {"捕捉", " capture "},
      {"录制", " capture "},
      {"重放", " replay "},
      {"回放", " replay "},
      {"重新分配", " reallocated "},
      {"分配", " allocate "},
      {"释放", " freed "},
      {"失效", " stale "},
      {"过期", " stale "},
      {"固化", " baked "},
      {"死锁", " deadlock "},
      {"卡住", " stuck "},
      {"卡死", " stuck "},
      {"永久等待", " hangs "},
      {"挂起", " hangs "},
      {"同步", " synchronize "},
      {"显存", " gpu memory "},
      {"内存", " memory "},
      {"泄漏", " leak "},
      {"泄露", " leak "},
      {"多线程", " multi-thread "},
      {"线程", " thread "},
      {"默认流", " default stream "},
      {"随机", " random "},
      {"种子", " seed "},
      {"梯度", " gradient "},
      {"学习率", " learning rate "},
      {"优化器", " optimizer "},
      {"编译", " compile "},
      {"输入", " input "},
      {"输出", " output "},
      {"张量", " tensor "},
      {"缓冲", " buffer "},
      {"地址", " address "},
      {"指针", " pointer "},
      {"复用", " reused "},
      {"覆盖", " overwritten "},
      {"不支持", " not supported "},
      {"不允许", " not allowed "},
      {"不一致", " mismatch "},
      {"乱码", " garbled "},
      {"报错", " error "},
      {"失败", " failed "},
      {"崩溃", " crash "},
      {"集合通信", " collective "},
      {"旧", " old "},
  }};
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(lower.begin(), lower.end(), is_ascii)) return lower;
  for (const auto& [word, english] : kWords) {
    for (size_t at = 0; (at = lower.find(word, at)) != std::string::npos; at += english.size()) {
      lower.replace(at, word.size(), english);
    }
  }
  return lower;
}

// Release notes and commit messages quote fixed errors, and users name messages that they do not get.
bool is_of_the_past(const std::string& lower) {
  static const RE2 kFixed(
      R"(^\s*(?:[-*+]|\xe2\x80\xa2|[0-9]+[.)])\s.*\b(?:fix|fixed|fixes|resolved|resolves|no longer)\b)", RE2::Latin1),
      kNotSeen(R"(\b(?:not|never|no longer)\b[* _]{0,4}(?:printed|raised|shown|thrown|seen|reported|emitted|logged))",
               RE2::Latin1);
  return RE2::PartialMatch(lower, kFixed) || RE2::PartialMatch(lower, kNotSeen);
}

// Dynamo captures a program, not a stream.
bool is_of_dynamo(const std::string& lower) {
  return has_any(lower, {"graph break", "torch._dynamo.exc", "dynamo failed", "fx graph", "torch.fx.", "make_fx",
                         "torch.export", "torch.jit.trace"});
}

bool speaks_of_graphs(const std::string& lower) {
  static const RE2 kGraphs(
      R"(stream captur|graph[_ ]captur|captur\w* (?:a |an |the |of a |of the )?(?:cuda |stream|whole|full|graph|mode))"
      R"(|(?:cuda|hip|npu|acl|mlu|musa|maca|xpu)[ ._-]?graph|disable_graphs|\bfull[ _]?graph mode|\bfull_(?:decode_only|and_piecewise)\b)"
      R"(|\bgraph[ -]mode|begincapture|endcapture|is[ _]captur|capture_(?:begin|end)|scopedcapture)"
      R"(|\b(?:during|inside|in|within|while)(?: \S+){0,4} captur|\b(?:kernel|memcpy|memset|conditional) nodes?\b)"
      R"(|captur\w*[ -]invalidat|relaxed mode|capturing (?:thread|stream)|graphlaunch|\breplay\(\)|graph[ _]replay|replay(?:s|ing|ed)?\b.{0,30}\bgraph|captured graph|graphed[ _]callable|reduce-overhead)",
      RE2::Latin1);
  return !is_of_dynamo(lower) && RE2::PartialMatch(lower, kGraphs);
}

// A failure that --enforce-eager avoids is one of a graph, whatever its error is.
bool fails_only_with_graphs(const std::string& lower) {
  static const RE2 kOnly(
      R"((?:n.t|not|never|no longer) (?:appear|occur|happen|reproduce|fail|crash)\w*[^\n]{0,80}(?:enforce[-_ ]eager|(?:without|disabl\w*|no)\b[^\n]{0,12}cuda[-_ ]?graph|cuda[-_ ]?graphs? (?:are |is )?(?:off|disabled)))"
      R"(|\b(?:works?|working|fine|correct\w*|no (?:error|failure|crash)\w*|goes away|resolved?)\b[^\n]{0,60}(?:enforce[-_ ]eager|(?:without|disabl\w*)\b[^\n]{0,12}cuda[-_ ]?graph|cuda[-_ ]?graphs? (?:are |is )?(?:off|disabled)))",
      RE2::Latin1);
  return RE2::PartialMatch(lower, kOnly);
}

// Command lines, dumps of a configuration and progress bars name graphs in healthy runs too.
std::string without_settings(const std::string& lower) {
  // A program that goes on without graphs logs so.
  static const RE2 kWithout(R"(\b(?:warn(?:ing)?|info)\b.*(?:fall\w* back to eager|without cuda ?graph))", RE2::Latin1);
  if (RE2::PartialMatch(lower, kWithout)) return "";
  static const RE2 kOption(R"(--[\w-]*(?:graph|captur|eager)[\w-]*(?:[ =][^\s-]\S*)?)", RE2::Latin1),
      kSetting(R"re(['"]?\b\w*(?:graph|captur|eager)\w*['"]?\s?[=:]\s?(?:\[[^\]]*\]|[^\s,;]+))re", RE2::Latin1),
      kAny(R"re((?:^|\s)--\w|[\w'"]=[^=\s]|\w['"]: )re", RE2::Latin1),
      kProgress(R"(\d%\||captur\w* finished)", RE2::Latin1);
  constexpr size_t kFewest = 2;
  if (RE2::PartialMatch(lower, kProgress)) return "";
  if (all_matches(lower, kAny).size() < kFewest) return lower;
  return replace_all(replace_all(lower, kOption, ""), kSetting, "");
}

bool says_that_a_capture_failed(const std::string& lower) {
  static const RE2 kFailed(
      R"(captur\w*(?: \w+){0,3} (?:fail|crash|error|abort|dies|died|invalidat|broken|breaks|deadlock|hang)|stream is capturing)"
      R"(|capture error|captur\w*.{0,40}\b(?:error|failure)\b)"
      R"(|(?:fail|failed|fails|failure|unable|cannot|crash\w*|die[sd]?|hang\w*|abort\w*|error)\b.{0,50}\bcaptur)"
      R"(|(?:break|broke|invalidat|corrupt|kill|violat|refus|forbid|forbidden|illegal)\w*.{0,40}\bcaptur)"
      R"(|not (?:graph-?)?captur)",
      RE2::Latin1);
  return !is_of_dynamo(lower) && RE2::PartialMatch(lower, kFailed);
}

// "PyTorch version: 2.9.1+cu128", "torch==2.7.1", "torch   2.8.0".
std::string release_in(const std::string& lower) {
  static const RE2 kRelease(
      R"((?:^|[^\w.-])(?:pytorch version:?|(?:lib|py)?torch(?:==|[ =:v]+))\s*v?([0-9]+\.[0-9]+\.[0-9]+))", RE2::Latin1);
  std::string release;
  RE2::PartialMatch(lower, kRelease, &release);
  return release;
}

bool is_library(const std::string& file) {
  static const RE2 kLibrary(
      R"((?:^|[/\\])(?:torch|triton|asyncio|concurrent|multiprocessing)[/\\]|^<(?:frozen|string)|(?:^|[/\\])(?:threading|contextlib|functools|runpy)\.py$)",
      RE2::Latin1);
  return RE2::PartialMatch(file, kLibrary);
}

// Removes what Python prints before each line of an exception group, "    | " or "  +-+---- ", once for each level.
void cut_group(std::string& line) {
  static const RE2 kGroup(R"(^(?: {0,12}\| )+)", RE2::Latin1);
  RE2::Replace(&line, kGroup, "");
}

// Python tracebacks as Python, pytest, IPython and Rich print them, with any logger's prefix.
class Tracebacks {
 public:
  explicit Tracebacks(ErrorText& text) : text_(text) {}

  void read(size_t number, const std::string& line, const std::string& lower) {
    read_line(number, line, lower);
    last_ = line;
  }

  // Handles a traceback that was pasted below its exception.
  void finish() {
    constexpr size_t kBelow = 5;
    if (!frames_.empty() && exception_ != 0 && frames_.front().line <= exception_ + kBelow) end(exception_);
  }

 private:
  void read_line(size_t number, const std::string& line, const std::string& lower) {
    static const RE2 kFile(R"re(File "([^"]+)", (?:line \d+|in \w))re", RE2::Latin1),
        kPytest(R"(^(\S+\.py):\d+: in \w+)", RE2::Latin1), kIPython(R"(^\s*-+> *\d+ (?: *)\S)", RE2::Latin1),
        kRich(R"(^\s*│ (\S+\.py):\d+ in [\w<])", RE2::Latin1), kRichStatement(R"(^\s*│ ❱ *\d+ )", RE2::Latin1);
    re2::StringPiece file;
    const bool expects_statement = is_open_ && !frames_.empty();
    if (expects_statement && line.find("<--- HERE") != std::string::npos) {  // TorchScript's marker below a statement.
      begin_at_bracket(frames_.back());
      is_open_ = false;
      return;
    }
    if (begins_traceback(lower) || is_chain(lower)) {
      frames_.clear();
      is_open_ = false;
    } else if (RE2::PartialMatch(line, kFile, &file)) {
      prefix_ = static_cast<size_t>(file.data() - line.data()) - std::string_view("File \"").size();
      if (prefix_ >= 2 && line.compare(prefix_ - 2, 2, "  ") == 0) prefix_ -= 2;
      begin_frame(number, std::string(file));
    } else if (RE2::PartialMatch(line, kPytest, &file)) {
      prefix_ = 0;
      begin_frame(number, std::string(file));
    } else if (RE2::PartialMatch(line, kRich, &file)) {
      begin_frame(number, std::string(file));
      is_open_ = false;
    } else if (!frames_.empty() && RE2::PartialMatch(line, kRichStatement)) {
      frames_.back().statement = frames_.back().statement_end = number;
    } else if (RE2::PartialMatch(line, kIPython)) {
      begin_frame(number, "");
      frames_.back().statement = frames_.back().statement_end = number;
      is_open_ = false;
    } else if (const std::string body = line.substr(std::min(prefix_, line.size()));
               expects_statement && is_statement(body)) {
      Frame& frame = frames_.back();
      if (frame.statement == 0) frame.statement = number;
      frame.statement_end = number;
    } else if (is_python_exception(line)) {
      if (frames_.empty() && is_code(last_)) begin_cut_frame(number - 1);
      end(number);
    } else if (frames_.empty() && is_marker(body_of(line)) && is_statement(last_)) {
      begin_cut_frame(number - 1);
    } else if (line.find_first_not_of(" \t\r") != std::string::npos && !is_marker(body_of(line))) {
      is_open_ = false;
    }
  }

  // The marked statement of a listing ends in its last line; it begins where its brackets do.
  void begin_at_bracket(Frame& frame) const {
    int open = 0;
    for (size_t line = frame.statement_end; line >= frame.statement && line != 0; --line) {
      for (const char c : text_.lines.at(line - 1)) open += c == ')' || c == ']' ? 1 : c == '(' || c == '[' ? -1 : 0;
      if (open > 0) continue;
      frame.statement = line;
      return;
    }
  }

  void end(size_t exception) {
    if (!frames_.empty()) text_.tracebacks.push_back({std::move(frames_), exception});
    frames_.clear();
    is_open_ = false;
    exception_ = exception;
  }

  std::string body_of(const std::string& line) const { return line.substr(std::min(prefix_, line.size())); }

  // "^^^^^" and "~~~^^^" below a statement.
  static bool is_marker(const std::string& body) {
    return body.find_first_not_of(" ^~") == std::string::npos && body.find_first_of("^~") != std::string::npos;
  }

  static bool is_statement(const std::string& body) {
    constexpr size_t kIndent = 3;  // Four, or less after a logger's prefix.
    const size_t begin = body.find_first_not_of(" >\t");
    return begin != std::string::npos && begin >= kIndent && !is_marker(body) && body.compare(begin, 2, "E ") != 0;
  }

  // An indented line, or one that pytest marks, with a call, an index or an assignment.
  static bool is_code(const std::string& line) {
    static const RE2 kCode(
        R"((?:>\s*| {4,})(?:[\w.,\[\] *]+ [+*/-]?= \S.*|(?:if|while|assert|for|return|print)\b.*|[\w.]+[(\[].*))",
        RE2::Latin1);
    return RE2::FullMatch(line, kCode);
  }

  // Only the frame's statement was pasted.
  void begin_cut_frame(size_t statement) {
    begin_frame(statement, "");
    frames_.back().statement = frames_.back().statement_end = statement;
    is_open_ = false;
  }

  void begin_frame(size_t number, const std::string& file) {
    frames_.emplace_back();
    frames_.back().line = number;
    frames_.back().file = file;
    frames_.back().is_library = is_library(file);
    is_open_ = true;
  }

  ErrorText& text_;
  std::vector<Frame> frames_;
  std::string last_;      // The line before.
  size_t exception_ = 0;  // The last exception.
  bool is_open_ = false;  // Statements of the last frame may follow.
  size_t prefix_ = 0;     // Width of the logger's prefix.
};

// The thread of the refused call, from the driver's log: "[11:52:59.411][2357526][CUDA][E] Returning 900 …".
class Threads {
 public:
  void read(const std::string& lower) {
    static const RE2 kThread(R"(\[(\d+)\]\[cuda\]\[e\] returning (\d+) )", RE2::Latin1);
    std::string thread;
    int code = 0;
    if (lower.find("[cuda][e]") != std::string::npos && RE2::PartialMatch(lower, kThread, &thread, &code)) {
      std::string& known = code == 901 ? invalidated_ : refused_;
      if (known.empty()) known = thread;
    }
    if (has_any(lower, {"initiated from another thread"})) is_other_ = true;
    if (has_any(lower, {"initiated from the calling thread"}) && !is_other_) is_other_ = false;
  }

  std::optional<bool> is_other() const {
    if (!refused_.empty() && !invalidated_.empty() && refused_ != invalidated_) return true;
    return is_other_;
  }

 private:
  std::string refused_, invalidated_;
  std::optional<bool> is_other_;
};

// The distance in lines within which text explains an error: tracebacks are long, logs much longer.
constexpr size_t kNear = 200;

// A failed capture without a known error gives no line to search around.
void leave_out_what_is_far(const ErrorText& text, std::vector<char>& counts) {
  if (!text.has_capture_error()) return;
  size_t next = 0;  // The first line that is not near any error so far.
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

// The line in lower case; `text.lines` counts from 0.
std::string_view lower_of(const ErrorText& text, size_t at) {
  const size_t begin = text.starts[at], next = at + 1 < text.starts.size() ? text.starts[at + 1] : text.lower.size();
  return std::string_view(text.lower).substr(begin, next - begin - 1);
}

// The first line of the traceback that ends in the error of line `at`, not before line `from`. Of a partly pasted
// traceback: the indented lines, and the statement above the error, which ends in a bracket or a colon, while a log's
// line ends in a word.
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

// The call that returned a 901 is a victim. Without another capture error, a cause that names that call would be taken
// for the culprit; so the error's line, its traceback and the stack below it do not count. NCCL reports it under its
// own name.
void leave_out_victims(const ErrorText& text, std::vector<char>& counts) {
  if (!text.only_invalidated()) return;
  // A notebook's file has the message above the traceback.
  static const RE2 kNotebook(R"(^\s*(?:File \S+:\d+|-+> *\d+ |\d+ +\S))", RE2::Latin1);
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
    } else if (below != 0 && (is_numbered_frame(text.lines[at]) || RE2::PartialMatch(text.lines[at], kNotebook) ||
                              has_any(low, {"exception raised from"}))) {
      counts[at] = 0;
    }
  }
}

// Whether the call was refused: by errors in its line, else by those beside it, as a statement is below its error and
// place. 901 is returned by every call after a refused one.
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

// A numbered frame, or the name alone.
bool is_frame(const std::string& line, std::string_view call) {
  const size_t begin = line.find_first_not_of(" \t");
  return is_numbered_frame(line) || (begin != std::string::npos && std::string_view(line).substr(begin) == call);
}

// Each part of a cue in lower case.
std::vector<std::string> parts_of(std::string_view cue) {
  constexpr std::string_view kAnd = " + ";
  std::vector<std::string> parts;
  for (size_t at = 0; at <= cue.size();) {
    const size_t end = std::min(cue.find(kAnd, at), cue.size());
    parts.push_back(lower_case(cue.substr(at, end - at)));
    at = end + kAnd.size();
  }
  return parts;
}

size_t find_parts(const ErrorText& text, const std::string& where, std::string_view cue) {
  constexpr size_t kNotFar = 60;  // Lines between two parts.
  const std::vector<std::string> parts = parts_of(cue);
  for (size_t at = 0; (at = find_word(where, parts.front(), at)) != std::string::npos; ++at) {
    const size_t line = line_at(text, at);
    if (parts.size() == 1) return line;
    const size_t first = line > kNotFar ? text.starts[line - 1 - kNotFar] : 0;
    const size_t last = line + kNotFar < text.starts.size() ? text.starts[line + kNotFar] : where.size();
    const auto is_near = [&](const std::string& part) { return find_word(where, part, first) < last; };
    if (std::all_of(parts.begin() + 1, parts.end(), is_near)) return line;
  }
  return 0;
}

// Leaves out lines outside the traceback and the stack of a capture error.
void leave_out_what_is_outside(const ErrorText& text, std::vector<char>& counts) {
  std::vector<char> inside(text.lines.size(), 0);
  const auto add = [&](size_t first, size_t last) {  // Lines from 1.
    for (size_t line = std::max<size_t>(first, 1); line <= std::min(last, inside.size()); ++line) inside[line - 1] = 1;
  };
  bool some = false;
  for (const NamedError& error : text.errors) {
    if (!is_capture_error(error.code) || error.code == 901) continue;
    some = true;
    const auto traceback = std::find_if(text.tracebacks.begin(), text.tracebacks.end(), [&](const Traceback& one) {
      return one.exception == error.line || (one.exception < error.line && error.line <= one.exception + 3);
    });
    if (traceback == text.tracebacks.end()) return;  // An error without a traceback: anything near it may be the cause.
    add(traceback->frames.front().line, error.line + 2);
    for (size_t line = error.line + 1; line <= std::min(error.line + kNear, text.lines.size()); ++line) {
      const std::string_view low = lower_of(text, line - 1);
      if (is_numbered_frame(text.lines[line - 1]) || has_any(low, {"exception raised from", "[cuda]", "returning 9"})) {
        add(line, line);
      }
    }
  }
  if (!some) return;
  for (size_t line = 0; line < counts.size(); ++line) counts[line] = counts[line] != 0 && inside[line] != 0 ? 1 : 0;
}

std::string without_messages(std::string text) {
  static const RE2 kMessages = [] {
    std::string messages =
        R"((?:cudaerror|cuda_error_|hiperror|cudastreamcapturestatus)\w*|\w*(?:begin|end)[_ ]?capture\w*)"
        R"(|operation failed due to a previous error(?: during capture)?|search for [^\n]{1,60} in \S+ for more information)";
    for (const CudaError& error : kCudaErrors) {
      if (is_capture_error(error.code)) messages += "|" + RE2::QuoteMeta(lower_case(error.text));
    }
    return RE2(messages, RE2::Latin1);
  }();
  re2::StringPiece match;
  for (size_t at = 0; kMessages.Match(text, at, text.size(), RE2::UNANCHORED, &match, 1); ++at) {
    at = static_cast<size_t>(match.data() - text.data());
    text.replace(at, match.size(), match.size(), ' ');
  }
  return text;
}

// Whether a line is a Python exception that has nothing to do with CUDA, graphs or captures.
bool is_unrelated_exception(const ErrorText& text, size_t line) {
  static const RE2 kOfPythonItself(
      R"(\b(?:typeerror|attributeerror|nameerror|unboundlocalerror|modulenotfounderror|syntaxerror): )"
      R"(.*(?:argument|attribute|not defined|not associated|before assignment|no module|invalid syntax|subscriptable|callable))",
      RE2::Latin1);
  const std::string_view low = lower_of(text, line - 1);
  if (!is_python_exception(text.lines[line - 1])) return false;
  return RE2::PartialMatch(low, kOfPythonItself) || (!is_of_cuda(low) && !has_any(low, {"cuda", "hip", "graph"}));
}

// The line of the first such exception that ends a traceback without code about graphs; 0 if there is none.
size_t own_exception(const ErrorText& text) {
  for (const Traceback& traceback : text.tracebacks) {
    const size_t at = traceback.exception;
    if (at == 0) continue;
    const auto is_of_graphs = [](const Frame& frame) {
      return lower_case(frame.file).find("graph") != std::string::npos;
    };
    if (std::any_of(traceback.frames.begin(), traceback.frames.end(), is_of_graphs)) continue;
    if (is_unrelated_exception(text, at)) return at;
  }
  return 0;
}

// For a text with neither a traceback nor a CUDA error: the line of its first Python exception, if that is unrelated; 0
// otherwise.
size_t quoted_exception(const ErrorText& text) {
  if (!text.tracebacks.empty() || !text.errors.empty() || text.doubtful != 0) return 0;
  for (size_t line = 1; line <= text.lines.size(); ++line) {
    if (is_python_exception(text.lines[line - 1])) return is_unrelated_exception(text, line) ? line : 0;
  }
  return 0;
}

std::string blanked(const ErrorText& text, const std::vector<char>& counts) {
  std::string left = text.lower;
  for (size_t line = 0; line < counts.size(); ++line) {
    const size_t begin = text.starts[line], end = line + 1 < counts.size() ? text.starts[line + 1] : left.size();
    if (counts[line] == 0) left.replace(begin, end - begin, end - begin, ' ');
  }
  return left;
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

// The capture error whose text the last line breaks off in, as an excerpt of limited length does; 0 if there is none.
int cut_error(const std::string& lower) {
  constexpr size_t kShortest = 18;  // "operation not perm"
  for (const CudaError& error : kCudaErrors) {
    if (!is_capture_error(error.code)) continue;
    const std::string text = lower_case(error.text);
    for (size_t length = text.size(); length-- > kShortest;) {
      if (lower.ends_with(": " + text.substr(0, length))) return error.code;
    }
  }
  return 0;
}

ErrorText parse_error_text(std::vector<LogLine> lines) {
  static const RE2 kLog(R"(returning ([0-9]{1,3}) \(cuda_error_[a-z_]+\) from (\w+))", RE2::Latin1),
      kScript(R"(^[^<].*\.py$)", RE2::Latin1), kHip(R"(\bhip(?:[A-Z]\w+| error)|\bHIP (?:error|9\d\d))", RE2::Latin1),
      kOthers(R"(\b(?:torch_(?:npu|musa|mlu)|npu|aclrt\w+|musa(?:error\w+| error)|musaerror\w+)\b)", RE2::Latin1);
  ErrorText pasted;
  Exceptions exceptions;
  Tracebacks tracebacks(pasted);
  Threads threads;
  std::vector<char> counts;      // Which lines are evidence.
  std::vector<NamedError> bare;  // Numbers that are not marked as CUDA's.
  bool of_cuda = false, of_torch = false, only_with_graphs = false;
  size_t says_failed = 0;  // The first line that says so.
  bool with_graphs = false, names_graphs = false, names_captures = false, names_replays = false;
  constexpr size_t kFewLines = 6;
  const bool in_few_lines = lines.size() <= kFewLines;
  for (LogLine& one : lines) {
    cut_group(one.text);
    pasted.lines.push_back(std::move(one.text));
    pasted.numbers.push_back(one.number);
    const std::string& line = pasted.lines.back();
    std::string low = lower_case(line);
    cut_advice(low);
    pasted.is_hip = pasted.is_hip || RE2::PartialMatch(line, kHip);
    pasted.is_of_nvidia = pasted.is_of_nvidia && !pasted.is_hip && !RE2::PartialMatch(low, kOthers);
    low = with_english_words(with_cuda_names(std::move(low)));
    if (is_of_the_past(low)) low.clear();
    pasted.starts.push_back(pasted.lower.size());
    pasted.lower.append(low).push_back('\n');
    const size_t number = pasted.lines.size();
    const auto codes = errors_in(low);
    for (int code : codes) pasted.errors.push_back({code, number});
    if (const int number_alone = codes.empty() ? bare_number(low, in_few_lines) : 0) {
      bare.push_back({number_alone, number});
    }
    only_with_graphs = only_with_graphs || (has_any(low, {"graph", "eager"}) && fails_only_with_graphs(low));
    const bool names_some = has_any(low, {"graph", "captur", "replay"});
    const std::string said = !names_some ? low : is_of_dynamo(low) ? "" : without_settings(low);
    const bool about_graphs = speaks_of_graphs(said);
    with_graphs = with_graphs || about_graphs || (said.size() != low.size() && speaks_of_graphs(low));
    names_graphs = names_graphs || has_any(said, {"graph"});
    names_captures = names_captures || has_any(said, {"captur"});
    names_replays = names_replays || has_any(said, {"replay"});
    of_cuda = of_cuda || about_graphs || has_any(low, {"cuda", "nccl", ".cu:", ".cu(", ".cuh:", ".cuh("});
    of_torch = of_torch || has_any(low, {"torch", "gpu"});
    int code = 0;
    re2::StringPiece call;
    if (pasted.call.empty() && RE2::PartialMatch(low, kLog, &code, &call)) {
      if (code != 901 && (is_capture_error(code) || code == 401)) {
        pasted.call = line.substr(static_cast<size_t>(call.data() - low.data()), call.size());
        pasted.call_line = number;
      }
    }
    threads.read(low);
    tracebacks.read(number, line, low);
    exceptions.read(number, line, low, std::any_of(codes.begin(), codes.end(), is_capture_error));
    counts.push_back(!codes.empty() || !is_listing(line, low) ? 1 : 0);
    if ((is_python_exception(line) || reports_an_error(low)) && !is_of_dynamo(low)) pasted.messages.push_back(number);
    if (pasted.release.empty()) pasted.release = release_in(low);
    if (says_failed == 0 && says_that_a_capture_failed(low)) says_failed = number;
    pasted.about_graphs = pasted.about_graphs || about_graphs;
  }
  tracebacks.finish();
  const bool of_gpu = of_cuda || of_torch || names_graphs || pasted.lower.find("triton") != std::string::npos;
  // In a program that uses graphs, the error may come from a graph.
  pasted.about_graphs = pasted.about_graphs || (with_graphs && !pasted.errors.empty()) ||
                        (names_replays && names_graphs) || (names_captures && of_gpu) || only_with_graphs;
  pasted.says_failed = (says_failed != 0 && pasted.about_graphs) || exceptions.failed() != 0;
  if (pasted.errors.empty() && pasted.about_graphs) {
    const size_t end = pasted.lower.find_last_not_of(" \n");
    const size_t begin = end == std::string::npos ? end : pasted.lower.rfind('\n', end);
    const std::string last = end == std::string::npos ? "" : pasted.lower.substr(begin + 1, end - begin);
    if (const int code = cut_error(last)) pasted.errors.push_back({code, line_at(pasted, end)});
  }
  if (pasted.errors.empty() && !bare.empty()) {
    // In a text about CUDA without another error the number is CUDA's; in a long text about something else it is not.
    if (of_cuda || pasted.says_failed) {
      pasted.errors = bare;
    } else if (of_torch || in_few_lines) {
      pasted.doubtful = bare.front().code;
    }
  }
  pasted.is_python = !pasted.tracebacks.empty();
  for (const Traceback& traceback : pasted.tracebacks) {
    const std::string& file = traceback.frames.front().file;
    // A traceback that a log has cut begins elsewhere. Only the program's own file may have no folder.
    const bool is_program =
        pasted.lines.at(traceback.frames.front().line - 1).find("in <module>") != std::string::npos ||
        file.find_first_of("/\\") == std::string::npos;
    if (pasted.script.empty() && is_program && !is_library(file) && file.find("site-packages") == std::string::npos &&
        file.find("dist-packages") == std::string::npos && RE2::PartialMatch(file, kScript)) {
      pasted.script = file;
    }
  }
  if (!pasted.tracebacks.empty() && !only_with_graphs) pasted.other_exception = own_exception(pasted);
  pasted.in_other_thread = threads.is_other();
  pasted.exception_line = exceptions.cause();
  if (pasted.errors.empty() && pasted.exception_line == 0) pasted.exception_line = exceptions.failed();
  if (!only_with_graphs && pasted.exception_line == 0) {
    // In a text about a capture that failed, it broke the capture.
    const size_t quoted = quoted_exception(pasted);
    const bool broke_it = pasted.says_failed && quoted != says_failed;
    if (quoted != 0) (broke_it ? pasted.exception_line : pasted.other_exception) = quoted;
  }
  leave_out_neighbours(pasted, counts);
  leave_out_what_is_far(pasted, counts);
  leave_out_victims(pasted, counts);
  pasted.near = blanked(pasted, counts);
  pasted.words = without_messages(pasted.lower);
  leave_out_what_is_outside(pasted, counts);
  pasted.inside = blanked(pasted, counts);
  return pasted;
}

ErrorText parse_error_text(std::string_view text) {
  LogReader reader;
  reader.add(text);
  return parse_error_text(reader.finish());
}

std::vector<ErrorText> unwrapped(const ErrorText& text) {
  constexpr size_t kNarrowest = 60, kWidest = 250;
  size_t width = 0;
  for (const std::string& line : text.lines) width = std::max(width, line.size());
  std::vector<ErrorText> all;
  if (width < kNarrowest || width > kWidest) return all;
  // A terminal breaks a line at its width, a mail program before a word.
  for (const bool at_words : {false, true}) {
    std::vector<LogLine> joined;
    bool goes_on = false, is_changed = false;
    for (size_t i = 0; i < text.lines.size(); ++i) {
      const std::string& line = text.lines[i];
      const size_t begin = std::min(line.find_first_not_of(' '), line.size());
      if (goes_on) {
        joined.back().text += at_words ? " " + line.substr(begin) : line;
        is_changed = true;
      } else {
        joined.push_back({text.numbers[i], line});
      }
      if (!at_words) {
        goes_on = line.size() == width;
      } else {
        const std::string next = i + 1 < text.lines.size() ? text.lines[i + 1] : "";
        const size_t word = next.find_first_not_of(' ');
        goes_on = word != std::string::npos && !line.empty() &&
                  line.size() + 1 + std::min(next.find(' ', word), next.size()) - word > width;
      }
    }
    if (is_changed) all.push_back(parse_error_text(std::move(joined)));
  }
  return all;
}

const Frame* failing_frame(const ErrorText& text, size_t error) {
  constexpr size_t kBelow = 3;  // Lines of one message.
  const auto has_code_of = [&](const Traceback& traceback) {
    const auto at = [&](size_t line) { return [line](const NamedError& one) { return one.line == line; }; };
    const auto announced = std::ranges::find_if(text.errors, at(error));
    const auto raised = std::ranges::find_if(text.errors, at(traceback.exception));
    return announced != text.errors.end() && raised != text.errors.end() && announced->code == raised->code;
  };
  for (const Traceback& traceback : text.tracebacks) {
    // A log's own line has the same error above the traceback.
    const size_t begin = traceback.frames.front().line;
    const bool is_announced = error < begin && begin <= error + kBelow && has_code_of(traceback);
    const bool is_its_own = traceback.exception <= error && error <= traceback.exception + kBelow;
    if (!is_announced && !is_its_own) continue;
    const auto shows = [](const Frame& frame) { return frame.statement != 0; };
    const auto own = std::find_if(traceback.frames.rbegin(), traceback.frames.rend(),
                                  [&](const Frame& frame) { return shows(frame) && !frame.is_library; });
    if (own != traceback.frames.rend()) return &*own;
    const auto last = std::find_if(traceback.frames.rbegin(), traceback.frames.rend(), shows);
    return last == traceback.frames.rend() ? nullptr : &*last;
  }
  return nullptr;
}

namespace {
constexpr size_t kShort = 40;  // Lines. A longer text is a log, not code.
}

std::vector<std::pair<size_t, std::string>> inline_code(const ErrorText& text) {
  static const RE2 kCode("`([^`]*[(\\[][^`]*)`", RE2::Latin1);
  std::vector<std::pair<size_t, std::string>> all;
  if (text.lines.size() > kShort || !text.tracebacks.empty()) return all;
  for (size_t i = 0; i < text.lines.size(); ++i) {
    for (const Match& match : all_matches(text.lines[i], kCode)) all.emplace_back(i + 1, std::string(match[1]));
  }
  return all;
}

std::vector<size_t> code_lines(const ErrorText& text) {
  static const RE2 kCode(
      R"(\s*(?:[\w.,\[\] *]+ [+*/-]?= .+|(?:if|elif|while|assert|for|return|print)\b[ (].*|[\w.]+\([^()]*(?:\([^()]*\)[^()]*)*\))\s*(?:#.*)?)",
      RE2::Latin1);
  std::vector<size_t> lines;
  if (text.lines.size() > kShort || !text.tracebacks.empty()) return lines;
  for (size_t i = 0; i < text.lines.size(); ++i) {
    const bool is_near = text.near.find_first_not_of(" \n", text.starts[i]) <
                         (i + 1 < text.starts.size() ? text.starts[i + 1] : text.near.size());
    if (is_near && RE2::FullMatch(text.lines[i], kCode)) lines.push_back(i + 1);
  }
  return lines;
}

std::string statement_of(const ErrorText& text, const Frame& frame) {
  // What IPython and Rich print around a statement.
  static const RE2 kBefore(R"(^\s*(?:-+> *\d+ |│ ❱ *\d+ (?:│|\s)*))", RE2::Latin1), kAfter(R"(\s*│\s*$)", RE2::Latin1);
  std::string statement;
  for (size_t line = frame.statement; line <= frame.statement_end; ++line) {
    std::string part = text.lines.at(line - 1);
    if (RE2::Replace(&part, kBefore, "")) RE2::Replace(&part, kAfter, "");
    if (part.find_first_not_of(" ^~") == std::string::npos) continue;
    statement += (statement.empty() ? "" : "\n") + part;
  }
  return statement;
}

size_t line_at(const ErrorText& text, size_t at) {
  return static_cast<size_t>(std::upper_bound(text.starts.begin(), text.starts.end(), at) - text.starts.begin());
}

size_t find_evidence(const ErrorText& text, std::string_view cue) { return find_parts(text, text.lower, cue); }

size_t find_near(const ErrorText& text, std::string_view cue) { return find_parts(text, text.near, cue); }

size_t find_inside(const ErrorText& text, std::string_view cue) { return find_parts(text, text.inside, cue); }

size_t find_refused(const ErrorText& text, std::string_view call) {
  if (text.errors.empty() && text.says_failed) return find_near(text, call);  // No error number, only words.
  const std::string word = lower_case(call);
  // The stack below a lone 901 belongs to the call that returned it.
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

#include "harness/explain/pasted.h"

#include <algorithm>
#include <regex>

#include "harness/case/cuda_errors.h"
#include "harness/record/spelling.h"

namespace recapture {
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

// What PyTorch and HIP add to every error: it would speak for whatever it names.
bool is_boilerplate(const std::string& line) {
  for (const char* words : {"kernel errors might be asynchronously reported", "for debugging consider passing",
                            "to enable device-side assertions", "for debugging consider"}) {
    if (line.find(words) != std::string::npos) return true;
  }
  return false;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "error 901", "error code: 900", "failure! 35", "(code 901", "returning 900 (": a number that is said to be an error.
void find_numbers(const std::string& line, std::vector<std::pair<size_t, int>>& found) {
  static const std::regex kNumber(
      R"((?:error|failure|failed|errno|status|returned|returning|err|code|result)[ :=!#(]*(?:code)?[ :=!#(]*([0-9]{1,3})(?![0-9.]))");
  for (std::sregex_iterator at(line.begin(), line.end(), kNumber), end; at != end; ++at) {
    found.emplace_back(at->position(1), std::stoi((*at)[1]));
  }
}

// A name must begin and end where the words do: cudaMalloc is not cudaMallocHost.
size_t find_word(const std::string& text, const std::string& word) {
  if (word.empty()) return std::string::npos;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !is_word(word.front()) || !is_word(text[at - 1]);
    const bool ends = end >= text.size() || !is_word(word.back()) || !is_word(text[end]);
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

// The last line of a Python traceback, of an exception that is not CUDA's way to report an error. What stands before it
// in a log ("(EngineCore pid=1140) ERROR 07-15 core.py:1231] ") does not count.
bool is_python_exception(const std::string& line) {
  static const std::regex kException(R"((?:^|[\] ])([A-Za-z_.]*(?:Error|Exception|Interrupt))(?::|$))");
  std::smatch name;
  if (!std::regex_search(line, name, kException)) return false;
  const std::string what = lower_case(line);
  const bool of_cuda = what.find("cuda error") != std::string::npos || what.find("hip error") != std::string::npos ||
                       what.find("acceleratorerror") != std::string::npos || what.find("captur") != std::string::npos ||
                       what.find("cuda failure") != std::string::npos;
  return !of_cuda;
}

}  // namespace

bool Pasted::has_capture_error() const {
  return std::any_of(errors.begin(), errors.end(), [](const NamedError& e) { return is_capture_error(e.code); });
}

Pasted read_pasted(std::string_view text) {
  static const std::regex kLog(R"(returning ([0-9]{1,3}) \(cuda_error_[a-z_]+\) from (\w+))");
  Pasted pasted;
  size_t exception = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, std::min(end - at, kLongestLine));
    at = end + 1;
    std::string low = lower_case(line);
    if (is_boilerplate(low)) low.clear();
    pasted.lines.emplace_back(line);
    pasted.starts.push_back(pasted.lower.size());
    pasted.lower.append(low).push_back('\n');
    const size_t number = pasted.lines.size();
    const auto codes = errors_in(low);
    for (int code : codes) pasted.errors.push_back({code, number});
    if (std::smatch log; pasted.call.empty() && std::regex_search(low, log, kLog)) {
      const int code = std::stoi(log[1]);
      if (code != 901 && (is_capture_error(code) || code == 401)) {
        pasted.call = line.substr(log.position(2), log.length(2));
        pasted.call_line = number;
      }
    }
    const bool of_capture = std::any_of(codes.begin(), codes.end(), is_capture_error);
    if (exception == 0 && !of_capture && is_python_exception(pasted.lines.back())) exception = number;
    if (of_capture && exception != 0 && pasted.exception_line == 0) pasted.exception_line = exception;
    for (const char* words :
         {"capture fail", "failed to capture", "failed to end stream capture", "capture graph failed",
          "capture cuda graph failed", "stream is capturing", "capture error"}) {
      pasted.says_failed = pasted.says_failed || low.find(words) != std::string::npos;
    }
    for (const char* word : {"captur", "cuda graph", "cudagraph", "cuda_graph"}) {
      pasted.about_captures = pasted.about_captures || low.find(word) != std::string::npos;
    }
  }
  return pasted;
}

size_t find_cue(const Pasted& text, std::string_view cue) {
  constexpr std::string_view kAnd = " + ";
  size_t first = 0;
  for (size_t at = 0; at <= cue.size();) {
    const size_t end = std::min(cue.find(kAnd, at), cue.size());
    const std::string part = lower_case(cue.substr(at, end - at));
    const size_t found = find_word(text.lower, part);
    if (found == std::string::npos) return 0;
    const auto line = std::upper_bound(text.starts.begin(), text.starts.end(), found) - text.starts.begin();
    if (first == 0) first = static_cast<size_t>(line);
    at = end + kAnd.size();
  }
  return first;
}

}  // namespace recapture

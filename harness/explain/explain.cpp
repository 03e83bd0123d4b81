#include "harness/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "harness/base/escape.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/case/cuda_errors.h"

namespace recapture::explain {
namespace {

constexpr int kSays = 8, kStatement = 7, kCalledInLog = 7, kMessage = 6, kSymptom = 5, kCalled = 4, kNamed = 4,
              kMentioned = 2, kHint = 2, kFirst = 2, kMore = 1, kCode = 1;
constexpr int kWrongCode = -2, kOtherThread = 2;
// Raised by a begin on a stream that already captures, and by little else.
const std::vector<int> kIllegalState = {401};
// A kernel's access to memory that is not its own.
const std::vector<int> kKernelErrors = {700, 716, 719};
constexpr int kEnough = 4;          // The least weight of a culprit.
constexpr size_t kMostShown = 5;    // Causes shown, without victims.
constexpr size_t kMostGuessed = 3;  // Causes shown, if only words indicate any.
constexpr size_t kLong = 64 << 10;  // Bytes: a longer text is a log, in which single words prove nothing.
constexpr char kException[] = "exception_in_capture";
constexpr char kWrongReplay[] = "wrong_output_of_replay";

std::string shortened(std::string words) {
  constexpr size_t kLongest = 160;
  words.erase(0, words.find_first_not_of(" \t"));
  return escape_control(words.substr(0, kLongest)) + (words.size() > kLongest ? "…" : "");
}

std::string shown(const ErrorText& text, size_t line) {
  return fmt::format("line {}: {}", text.numbers.at(line - 1), shortened(text.lines.at(line - 1)));
}

const CudaError& error_of(int code) {
  const CudaError* found = find_cuda_error(code);
  return found == nullptr ? *std::prev(std::end(kCudaErrors)) : *found;
}

bool has(const std::vector<int>& codes, int code) { return std::find(codes.begin(), codes.end(), code) != codes.end(); }

// "cudaMalloc(", and not "cublasCreate" or "cudaMalloc + worker thread".
bool is_call(const std::string& cue) {
  if (cue.find(' ') != std::string::npos) return false;
  for (const std::string prefix : {"cuda", "hip", "cu"}) {
    if (cue.rfind(prefix, 0) == 0 && cue.size() > prefix.size() && cue[prefix.size()] >= 'A' &&
        cue[prefix.size()] <= 'Z') {
      return true;
    }
  }
  return false;
}

// People's words in a line, and in two on either side.
std::string_view around(const ErrorText& text, size_t line) {
  constexpr size_t kBeside = 2;  // Lines.
  const size_t begin = text.starts.at(line <= kBeside ? 0 : line - 1 - kBeside);
  const size_t end = line + kBeside < text.starts.size() ? text.starts[line + kBeside] : text.words.size();
  return std::string_view(text.words).substr(begin, end - begin);
}

const RE2& denial() {
  static const RE2 kDenial(
      R"(\b(?:break|broke|fail|invalidat|crash|abort|kill|refus|violat|disallow|forbid|prohibit|illegal|incompatib)"
      R"(|unsupported|unsafe|not (?:allowed|permitted|supported|support|compatible|graph|captur|valid|legal)|can ?not)"
      R"(|can.t be|error|reject|corrupt|poison|hang|dead.?lock))",
      RE2::Latin1);
  return kDenial;
}

const RE2& wrongness() {
  static const RE2 kWrong(
      R"(\b(?:wrong|incorrect|corrupt|stale|garb(?:age|led)|gibberish|mismatch|diverg|nans?\b|inconsisten|differ|illegal|leak)"
      R"(|grow|retain|retention|oom\b|out of memory|same\b|identical|repeat|frozen|freez|baked|overwrit|lost|hang|hung|dead.?lock)"
      R"(|stuck|silent|crash|segfault|fault|unsafe|cannot|invalid|fail|race\b|bug\b|broken|must|should|reus|drift|instead of|dangerous)"
      R"(|(?:not|never|\w+n.t) (?:\w+ )?(?:updat|chang|refresh|vary|advanc|releas|freed|free|reclaim|alive|persist|safe|match|reflect|picked)))",
      RE2::Latin1);
  return kWrong;
}

// Whether the line, or one of the two lines before or after it, says that a capture fails or forbids something.
bool is_denied(const ErrorText& text, size_t line) {
  static const RE2 kCapture("captur|graph", RE2::Latin1);
  const std::string_view near = around(text, line);
  return RE2::PartialMatch(near, denial()) && RE2::PartialMatch(near, kCapture);
}

// Whether the line, or one of the two lines before or after it, says that a graph computes wrong results.
bool is_wrong(const ErrorText& text, size_t line) {
  static const RE2 kGraph("replay|graph|captur", RE2::Latin1);
  const std::string_view near = around(text, line);
  return RE2::PartialMatch(near, wrongness()) && RE2::PartialMatch(near, kGraph);
}

// A line written by a person: an error's line has fewer words.
bool is_prose(const std::string& line) {
  constexpr size_t kFewest = 15;
  static const RE2 kWord(R"((?:^|[ (])[A-Za-z]+(?:[ ,.)]|$))", RE2::Latin1);
  return all_matches(line, kWord).size() >= kFewest;
}

// Adds up the evidence for one cause.
class Weigh {
 public:
  Weigh(const ErrorText& text, const Cause& cause) : text_(text), cause_(cause) {}

  // Text that proves the failure.
  void says() {
    for (const std::string& cue : cause_.says) {
      const size_t line = find_evidence(text_, cue);
      if (line == 0) continue;
      if (cause_.victim && follows(line)) {
        victim_ = line;
      } else {
        take(line, kSays);
        said_ = line;
      }
    }
    if (cause_.scope != Scope::Other || weight_ != 0) return;
    if (const size_t line = line_of_code()) take(line, kSays);
  }

  // What a line of an error says in a form that many programs share. A text of one failure alone weighs more.
  void messages() {
    for (const size_t line : text_.messages) {
      const size_t begin = text_.starts.at(line - 1);
      const size_t end = line < text_.starts.size() ? text_.starts[line] : text_.lower.size();
      const re2::StringPiece said(text_.lower.data() + begin, end - begin);
      const auto fits = [&](const auto& one) { return RE2::PartialMatch(said, *one); };
      if (std::none_of(cause_.messages.begin(), cause_.messages.end(), fits)) continue;
      take(line, kMessage);
      said_ = line;
      return;
    }
  }

  // People's descriptions of failures that print no error. In a long log such words prove nothing.
  void symptoms() {
    if ((!text_.about_graphs && cause_.scope != Scope::Other) || text_.lower.size() > kLong) return;
    bool found = false;
    for (const auto& symptom : cause_.symptoms) {
      re2::StringPiece match;
      if (!symptom->Match(text_.words, 0, text_.words.size(), RE2::UNANCHORED, &match, 1)) continue;
      say(line_at(text_, static_cast<size_t>(match.data() - text_.words.data())), found ? kMore : kSymptom);
      found = true;
    }
  }

  // People's words about captures: evidence if the text says nearby that something fails or is forbidden. A mere
  // mention makes the cause possible, if there is no other.
  void topics(bool on_replay) {
    if (!text_.about_graphs || text_.words.size() > kLong) return;
    size_t mentioned = 0;
    for (const auto& topic : cause_.topics) {
      re2::StringPiece match;
      for (size_t at = 0; topic->Match(text_.words, at, text_.words.size(), RE2::UNANCHORED, &match, 1);) {
        const auto found = static_cast<size_t>(match.data() - text_.words.data());
        const size_t line = line_at(text_, found);
        if (text_.near[found] != ' ' && is_denied(text_, line)) {
          if (on_replay) {
            add(line, kMentioned);
          } else {
            say(line, weight_ == 0 ? kSymptom : kMore);
          }
          return;
        }
        if (mentioned == 0) mentioned = line;
        if (line >= text_.starts.size()) break;
        at = text_.starts[line];
      }
    }
    if (mentioned != 0 && weight_ == 0 && text_.errors.empty() && !on_replay) add(mentioned, kMore);
  }

  // The same for a graph's replays: the more of the cause's words are where the text describes a wrong result, the
  // likelier.
  void replay_topics() {
    constexpr int kMostTopics = 3;
    if (!text_.about_graphs || text_.words.size() > kLong) return;
    int found = 0;
    size_t first = 0;
    for (const auto& topic : cause_.topics) {
      re2::StringPiece match;
      for (size_t at = 0; topic->Match(text_.words, at, text_.words.size(), RE2::UNANCHORED, &match, 1);) {
        const auto place = static_cast<size_t>(match.data() - text_.words.data());
        const size_t line = line_at(text_, place);
        if (text_.near[place] != ' ' && is_wrong(text_, line)) {
          if (found++ == 0) first = line;
          break;
        }
        if (line >= text_.starts.size()) break;
        at = text_.starts[line];
      }
    }
    if (found != 0) add(first, std::min(found, kMostTopics));
  }

  // Words that other users used for it, if there is no better evidence.
  void like_others(size_t line, int weight) { add(line, weight); }

  // An error that graphs and other programs raise.
  void may_be() {
    if (const size_t line = line_of_code(); line != 0 && weight_ < kSymptom) add(line, kMentioned);
    names();
    hints();
  }

  // All other evidence, which counts only in a text that shows a capture failure.
  void rest(const Frame* frame, const std::string& statement, const std::vector<size_t>& quotes,
            const std::vector<std::pair<size_t, std::string>>& inlined) {
    const int before = weight_;
    const bool in_log = !text_.call.empty() && std::any_of(cause_.calls.begin(), cause_.calls.end(),
                                                           [&](const auto& call) { return is_in_log(call); });
    const bool fails =
        frame != nullptr && std::any_of(cause_.statements.begin(), cause_.statements.end(),
                                        [&](const auto& one) { return RE2::PartialMatch(statement, *one); });
    if (fails && !cause_.only_possible) take(frame->statement, kStatement);
    if (fails && cause_.only_possible) add(frame->statement, kMore);
    if (const size_t line = cause_.only_possible ? 0 : quoted(quotes)) name(line, kNamed);
    if (const size_t line = cause_.only_possible || weight_ != 0 ? 0 : written(inlined)) say(line, kNamed);
    bool called = false;
    size_t mentioned = 0;
    if (in_log) take(text_.call_line, kCalledInLog);
    for (const std::string& call : cause_.calls) {
      const size_t line = in_log || called ? 0 : refused(call, mentioned);
      if (line != 0) name(line, kCalled + (line == first_refused() ? kFirst : 0));
      called = called || line != 0;
    }
    const int by_call = weight_;
    by_call_ = before == 0 && !fails && (in_log || called || mentioned != 0);
    mentioned = names(mentioned);
    by_call_ = by_call_ && weight_ == by_call;
    if (mentioned != 0 && !suffices_) add(mentioned, kMentioned);
    if (const size_t line = cause_.alone && weight_ == 0 ? line_of_own_code() : 0) name(line, kNamed);
    hints();
    if (weight_ > 0 && text_.in_other_thread) {
      weight_ += cause_.other_thread == *text_.in_other_thread ? kOtherThread : -kOtherThread;
    }
    if (weight_ <= 0 || cause_.codes.empty()) return;
    const int code = of_code();
    weight_ = code == kWrongCode && said_ == 0 && !in_log ? 0 : weight_ + code;
  }

  void exception() { take(text_.exception_line, kSays - 1); }
  void doubt() {
    suffices_ = false;
    weight_ = std::min(weight_, 1);
  }

  int weight() const { return weight_; }
  // Whether there is evidence other than words.
  bool is_certain() const { return is_certain_ || (is_named_ && text_.has_capture_error()); }
  bool is_by_call() const { return by_call_; }  // And nothing else.
  bool is_likely() const { return suffices_ && !cause_.only_possible && weight_ >= kEnough; }
  std::string evidence() const { return line_ == 0 ? "" : shown(text_, line_); }
  // The line that proves it; 0 if there is none.
  size_t said() const { return said_; }
  // The line that follows from an earlier capture error; 0 if there is none.
  size_t victim() const { return victim_; }

 private:
  void add(size_t line, int weight) {
    if (weight > strongest_) {
      strongest_ = weight;
      line_ = line;
    }
    weight_ += weight;
  }

  void take(size_t line, int weight) {
    add(line, weight);
    suffices_ = is_certain_ = true;
  }

  // Evidence in words.
  void say(size_t line, int weight) {
    add(line, weight);
    suffices_ = true;
  }

  // Evidence by a name, a call or a line of code nearby.
  void name(size_t line, int weight) {
    say(line, weight);
    is_named_ = is_named_ || !is_prose(text_.lines.at(line - 1));
  }

  void hints() {
    int found = 0;
    for (const std::string& cue : cause_.hints) {
      const size_t line = weight_ > 0 && found < 2 ? find_near(text_, cue) : 0;
      if (line != 0) add(line, found++ == 0 ? kHint : kMore);
    }
  }

  bool follows(size_t line) const {
    const size_t first = text_.first_capture_error(), exception = text_.exception_line;
    return (first != 0 && first < line) || (exception != 0 && exception < line);
  }

  size_t line_of_code() const {
    const auto error = std::find_if(text_.errors.begin(), text_.errors.end(),
                                    [&](const NamedError& named) { return has(cause_.codes, named.code); });
    return error == text_.errors.end() ? 0 : error->line;
  }

  // 900 has many causes, and 901 follows from another error.
  size_t line_of_own_code() const {
    const auto error = std::find_if(text_.errors.begin(), text_.errors.end(), [&](const NamedError& named) {
      return named.code != 900 && named.code != 901 && has(cause_.codes, named.code);
    });
    return error == text_.errors.end() || !is_capture_error(error->code) ? 0 : error->line;
  }

  // The quoted line of code that fails this way.
  size_t quoted(const std::vector<size_t>& quotes) const {
    const auto line = std::find_if(quotes.begin(), quotes.end(), [&](size_t at) {
      return std::any_of(cause_.statements.begin(), cause_.statements.end(),
                         [&](const auto& one) { return RE2::PartialMatch(text_.lines.at(at - 1), *one); });
    });
    return line == quotes.end() ? 0 : *line;
  }

  // The line of prose with code that fails this way.
  size_t written(const std::vector<std::pair<size_t, std::string>>& code) const {
    const auto found = std::find_if(code.begin(), code.end(), [&](const auto& one) {
      return std::any_of(cause_.statements.begin(), cause_.statements.end(),
                         [&](const auto& statement) { return RE2::PartialMatch(one.second, *statement); });
    });
    return found == code.end() ? 0 : found->first;
  }

  // The first refused call broke the capture; later ones are often its victims.
  size_t first_refused() const {
    const auto first = std::find_if(text_.errors.begin(), text_.errors.end(), [](const NamedError& error) {
      return is_capture_error(error.code) && error.code != 901;
    });
    return first == text_.errors.end() ? 0 : first->line;
  }

  size_t refused(const std::string& call, size_t& mentioned) const {
    const size_t line = find_refused(text_, call);
    if (line == 0 && mentioned == 0) mentioned = find_near(text_, call);
    return line;
  }

  // Names in the traceback or the stack of the error weigh more than those beside it.
  size_t names(size_t mentioned = 0) {
    bool named = false;
    for (const std::string& cue : cause_.names) {
      const size_t line = is_call(cue) ? refused(cue, mentioned) : find_inside(text_, cue);
      if (line != 0) {
        name(line, named ? kMore : kNamed);
        named = true;
      } else if (mentioned == 0) {
        mentioned = find_near(text_, cue);
      }
    }
    return mentioned;
  }

  // A name may be a prefix of another, as "cuMemAlloc" of "cuMemAlloc_v2".
  bool is_in_log(const std::string& name) const { return text_.call == name || text_.call.rfind(name + "_v", 0) == 0; }

  int of_code() const {
    bool another = false;
    for (const NamedError& error : text_.errors) {
      if (has(cause_.codes, error.code)) return kCode;
      another = another || (is_capture_error(error.code) && error.code != 901);
    }
    return another ? kWrongCode : 0;
  }

  const ErrorText& text_;
  const Cause& cause_;
  int weight_ = 0, strongest_ = 0;
  bool by_call_ = false;
  bool suffices_ = false;                       // There is evidence beyond hints and mentioned calls,
  bool is_certain_ = false, is_named_ = false;  // and beyond words: a message, a statement, a call; or a name.
  size_t line_ = 0, said_ = 0, victim_ = 0;
};

// One machine on which a fix does not hold is enough.
std::optional<bool> holds_in(const std::vector<TestVerdict>& rows, const std::string& test) {
  std::optional<bool> holds;
  for (const TestVerdict& row : rows) {
    if (row.test != test) continue;
    if (row.result == Result::Broken) return false;
    if (row.result == Result::Holds) holds = true;
  }
  return holds;
}

// Releases in which the failure no longer occurs, by the recorded changes; "" if none is known.
std::string cure_of(const CatalogueCase& one, const std::vector<Deviation>& changes) {
  for (const Deviation& change : changes) {
    if (change.inapplicable || change.is_open_question) continue;
    for (const Expectation& expectation : change.expectations) {
      const Where& where = expectation.where;
      const bool by_release = !where.release.empty() && where.gpu.empty() && where.driver.empty() &&
                              where.cuda_runtime.empty() && where.nccl.empty();
      if (expectation.result != Result::Healthy || !by_release || expectation.test != one.id + ".Reproduces") continue;
      return fmt::format("Use PyTorch {}: there it does not occur ({}).", where.release, change.number);
    }
  }
  return "";
}

// Cases in the text's language, C++ or Python: most Python cases have a C++ sibling.
std::vector<const CatalogueCase*> cases_of(const Found& found, const Catalogue& catalogue, bool is_python) {
  std::vector<const CatalogueCase*> cases;
  if (const CatalogueCase* one = find_case(catalogue, found.id)) cases.push_back(one);
  if (!is_python) return cases;
  for (const std::string& id : found.also) {
    const CatalogueCase* one = find_case(catalogue, id);
    if (one != nullptr && one->family == "python") cases.insert(cases.begin(), one);
  }
  return cases;
}

void add_remedies_of(const Found& found, const Cause& cause, bool is_python, const Catalogue& catalogue,
                     const std::vector<Deviation>& changes, const std::vector<TestVerdict>& rows,
                     const std::vector<Prices>& prices, std::vector<FixAdvice>& remedies) {
  std::map<std::string, size_t> named;  // By the fix's name, of a case in another language too: its remedy.
  const auto same_as = [&](const CatalogueTest& test, std::optional<bool> holds) -> FixAdvice* {
    for (FixAdvice& one : remedies) {
      if (one.cause == cause.id && one.text == test.fix) return &one;
    }
    const auto found_name = named.find(test.name);
    if (found_name == named.end()) return nullptr;
    FixAdvice& one = remedies.at(found_name->second);
    return one.holds || !holds ? &one : nullptr;  // One that is on record says more.
  };
  for (const std::string& fix : cause.fixes) remedies.push_back({cause.id, fix, std::nullopt, false});
  for (const CatalogueCase* one : cases_of(found, catalogue, is_python)) {
    for (const CatalogueTest& test : one->tests) {
      const bool is_of_another =
          one->id != cause.id && !cause.also_fixes.empty() && !contains(cause.also_fixes, test.name);
      if (test.fix.empty() || is_of_another) continue;
      const std::string id = one->id + "." + test.name;
      const std::optional<bool> holds = holds_in(rows, id);
      FixAdvice* remedy = same_as(test, holds);
      if (remedy == nullptr) {
        named[test.name] = remedies.size();
        remedy = &remedies.emplace_back(FixAdvice{cause.id, test.fix, holds, false});
      }
      for (const Prices& on : prices) {
        for (const PriceLine* price : prices_of(on, id)) remedy->prices.emplace_back(on.env("gpu"), *price);
      }
    }
  }
  if (const CatalogueCase* one = find_case(catalogue, cause.id)) {
    if (const std::string cure = cure_of(*one, changes); !cure.empty()) remedies.push_back({cause.id, cure, {}, false});
  }
  for (const std::string& advice : cause.useless) remedies.push_back({cause.id, advice, false, true});
}

// Errors that report the effect of an earlier call.
void add_victims(const ErrorText& text, bool by_exception, std::vector<Found> followers, std::vector<Found>& causes) {
  for (const auto& [code, id, why] :
       {std::tuple{901, "e901_invalidated", "901 only says that an earlier call broke the capture: look before it"},
        {904, "e904_unjoined", "904 because the exception left the region before its side streams were joined"}}) {
    const int number = code;
    if (number == 904 && !by_exception) continue;
    const auto is_it = [name = std::string_view(id)](const Found& one) { return one.id == name; };
    if (std::any_of(causes.begin(), causes.end(), is_it)) continue;
    const auto error = std::find_if(text.errors.begin(), text.errors.end(),
                                    [&](const NamedError& named) { return named.code == number; });
    if (error != text.errors.end()) causes.push_back({id, why, Role::Victim, shown(text, error->line), 0, true});
  }
  std::move(followers.begin(), followers.end(), std::back_inserter(causes));
}

std::string summary_of(const ErrorText& text, const Explanation& explanation) {
  const auto code = [&](bool of_capture) {
    for (const NamedError& error : text.errors) {
      if (is_capture_error(error.code) == of_capture) return error.code;
    }
    return 0;
  };
  const auto named = [&](int number) {
    const std::string name(error_of(number).name);
    return text.is_hip ? fmt::format("HIP error {} (hip{})", number, name.substr(std::string_view("cuda").size()))
                       : fmt::format("CUDA error {} ({})", number, name);
  };
  const int own = code(true), other = code(false);
  switch (explanation.answer) {
    case Answer::NotOne:
      if (!explanation.causes.empty()) return "not a capture failure: " + explanation.causes.front().title;
      if (other == 0 && text.other_exception != 0) {
        return fmt::format("not a capture failure: the text has no error of a capture, and another one in line {}: {}",
                           text.numbers.at(text.other_exception - 1),
                           shortened(text.lines.at(text.other_exception - 1)));
      }
      if (other == 0) return "not a capture failure: nothing in the text says that a capture failed";
      return fmt::format("not a capture failure: {}, {}", named(other), error_of(other).text);
    case Answer::CaptureFailure:
    case Answer::GraphFailure: {
      const Found& first = explanation.causes.front();
      return fmt::format(
          "{}, {}: {}",
          explanation.answer == Answer::CaptureFailure ? "a capture failure" : "a failure of a captured graph",
          explanation.guessed_from      ? "guessed from words alone"
          : first.role == Role::Culprit ? "most likely"
                                        : "perhaps",
          first.title);
    }
    case Answer::CannotTell:
      break;
  }
  if (own == 0 && text.doubtful != 0) {
    return fmt::format(
        "cannot tell: if {} is an error of CUDA's ({}), a capture failed, but nothing in the text says whose it is, or "
        "which call broke the capture; `recapture blame` names the call",
        text.doubtful, error_of(text.doubtful).name);
  }
  if (own == 0 && other != 0 && !explanation.causes.empty()) {
    return fmt::format(
        "cannot tell: {} is of a program with CUDA graphs, and may come from memory that a graph still uses or from "
        "any kernel",
        named(other));
  }
  if (own == 0 && other != 0) {
    return fmt::format("cannot tell: {} is not specific to captures; `recapture blame` names the call", named(other));
  }
  if (own == 0 && !explanation.causes.empty()) {
    return fmt::format("cannot tell: the text has no error of CUDA's; {}: {}",
                       explanation.guessed_from ? "guessed from words alone" : "perhaps",
                       explanation.causes.front().title);
  }
  if (own == 0) return "cannot tell: the text has no error of CUDA's; `recapture blame` names the call";
  const auto is_statement = [](const Found& one) { return one.role == Role::Possible && one.weight > 0; };
  const auto statement = std::find_if(explanation.causes.begin(), explanation.causes.end(), is_statement);
  if (statement != explanation.causes.end() && !statement->evidence.empty()) {
    return fmt::format(
        "cannot tell: {} is a capture failure; the text points to {}, and does not say why it was refused", named(own),
        statement->evidence.substr(0, statement->evidence.find(':')));
  }
  return fmt::format(
      "cannot tell: {} is a capture failure, but nothing in the text says which call it was; `recapture blame` names "
      "it",
      named(own));
}

// Errors that a graph may have raised: its cause has them as codes.
bool may_be_of_a_graph(const Cause& cause, const std::vector<Cause>& causes) {
  return std::any_of(causes.begin(), causes.end(), [&](const Cause& one) {
    return one.scope == Scope::Graph &&
           std::any_of(one.codes.begin(), one.codes.end(), [&](int code) { return has(cause.codes, code); });
  });
}

// The result of the first pass, which decides what else of the text counts.
struct Reading {
  bool capture = false;    // A capture failed.
  bool on_replay = false;  // People describe what a graph does.
  size_t said = 0;         // The first line that only one failure prints; 0 if there is none.
};

// A kernel caused the errors, even if the log mentions a capture.
bool is_of_a_kernel(const ErrorText& text) {
  return !text.errors.empty() &&
         std::ranges::all_of(text.errors, [](const NamedError& error) { return has(kKernelErrors, error.code); });
}

// Messages, and people's words if there is no message.
Reading weigh_words(const ErrorText& text, const std::vector<Cause>& causes, std::vector<Weigh>& weights) {
  Reading reading;
  bool other_says = false, some_says = false;
  reading.capture = text.has_capture_error();
  for (size_t i = 0; i < causes.size(); ++i) {
    Weigh& weigh = weights[i];
    weigh.says();
    // Words tell whether such an error is of a graph.
    const bool is_open = causes[i].scope == Scope::Other && text.about_graphs && may_be_of_a_graph(causes[i], causes);
    if (weigh.said() != 0 && !is_open) {
      if (reading.said == 0 || weigh.said() < reading.said) reading.said = weigh.said();
      some_says = true;
    }
    reading.capture = reading.capture || (weigh.weight() > 0 && causes[i].scope == Scope::Capture);
    other_says = other_says || (weigh.weight() > 0 && causes[i].scope != Scope::Capture);
    weigh.symptoms();
  }
  for (size_t i = 0; !text.has_capture_error() && !some_says && i < causes.size(); ++i) {
    if (causes[i].scope == Scope::Other && text.exception_line != 0) continue;  // It broke a capture.
    weights[i].messages();
    if (weights[i].said() == 0) continue;
    if (reading.said == 0 || weights[i].said() < reading.said) reading.said = weights[i].said();
    reading.capture = reading.capture || causes[i].scope == Scope::Capture;
    other_says = other_says || causes[i].scope != Scope::Capture;
  }
  for (size_t i = 0; i < causes.size(); ++i) {
    reading.on_replay = reading.on_replay || (causes[i].scope == Scope::Graph && weights[i].weight() > 0);
  }
  // Words weigh less than a message that only one failure prints. Words about a replay are not about a capture.
  for (size_t i = 0; reading.said == 0 && i < causes.size(); ++i) {
    if (causes[i].scope == Scope::Graph) {
      if (!text.has_capture_error()) weights[i].replay_topics();
    } else if (!reading.on_replay && !is_of_a_kernel(text)) {
      weights[i].topics(false);
    }
  }
  reading.capture = reading.capture || (text.says_failed && !other_says);
  return reading;
}

// All evidence other than words.
void weigh_evidence(const ErrorText& text, const std::vector<Cause>& causes, const Reading& reading, const Frame* frame,
                    const std::string& statement, const std::vector<size_t>& code, std::vector<Weigh>& weights) {
  const bool capture = reading.capture;
  const auto written = text.has_capture_error() ? inline_code(text) : std::vector<std::pair<size_t, std::string>>();
  for (size_t i = 0; i < causes.size(); ++i) {
    const Cause& cause = causes[i];
    Weigh& weigh = weights[i];
    if (capture && cause.scope == Scope::Other) continue;
    if (capture && cause.scope == Scope::Capture) weigh.rest(frame, statement, code, written);
    const bool is_doubtful = !capture && text.about_graphs && may_be_of_a_graph(cause, causes);
    if (is_doubtful && cause.scope == Scope::Graph) weigh.may_be();
    if (!capture && cause.scope == Scope::Capture && cause.codes == kIllegalState) weigh.may_be();
    if (is_doubtful && cause.scope == Scope::Other) weigh.doubt();
    // Words beside an error that is not a capture's.
    if (!capture && cause.scope == Scope::Capture && !text.errors.empty()) weigh.doubt();
    if (capture && cause.id == kException && text.exception_line != 0 && text.exception_line != reading.said) {
      weigh.exception();
    }
    const bool is_unknown = reading.said == 0 && weigh.weight() == 0;
    if (reading.on_replay && is_unknown && cause.scope == Scope::Capture) weigh.topics(true);
  }
}

// The sum of a cause's term weights in the text, and the number of matching terms.
std::pair<int, size_t> score_of(const Cause& cause, const std::set<std::string>& terms) {
  int score = 0;
  size_t count = 0;
  for (const std::string& term : terms) {
    const auto weight = cause.terms.find(term);
    if (weight == cause.terms.end()) continue;
    score += weight->second;
    ++count;
  }
  return {score, count};
}

// The line with most words of a cause.
size_t line_like(const std::vector<std::set<std::string>>& terms_of_lines, const Cause& cause) {
  const auto score = [&](const std::set<std::string>& terms) { return score_of(cause, terms).first; };
  const auto most = std::max_element(terms_of_lines.begin(), terms_of_lines.end(),
                                     [&](const auto& a, const auto& b) { return score(a) < score(b); });
  return static_cast<size_t>(most - terms_of_lines.begin()) + 1;
}

// If there are only words: the causes that others described in the same words.
void weigh_likeness(const ErrorText& text, const std::vector<Cause>& causes, std::vector<Weigh>& weights) {
  constexpr size_t kWords = 6, kFewest = 4;  // The least number of terms in the text, and of matches.
  constexpr size_t kMost = 8;                // Causes.
  constexpr double kLeast = 30, kStep = 5;   // A long text has words of every cause: the least score,
  constexpr int kMostPoints = 10;            // the score of one point, and the most points.
  static const RE2 kComplaint(
      R"(\b(?:fix|bug|issue|problem|prevent|avoid|guard|higher|excessive|too (?:much|many))|n't\b)"
      R"(|\b(?:no|not|never|nothing|none|without|unchanged|still|keeps?)\b)",
      RE2::Latin1);
  static const RE2 kError(R"((?:Error|Exception)\b)", RE2::Latin1);
  std::string words = text.words;
  for (size_t at = 0; at < text.lines.size(); ++at) {  // An error's own line has only CUDA's or a library's words.
    if (!RE2::PartialMatch(text.lines[at], kError) || is_prose(text.lines[at])) continue;
    const size_t begin = text.starts[at], end = words.find('\n', begin);
    words.replace(begin, end - begin, end - begin, ' ');
  }
  std::vector<std::set<std::string>> terms_of_lines;
  std::set<std::string> terms;
  for (size_t at = 0; at < text.starts.size(); ++at) {
    const size_t end = at + 1 < text.starts.size() ? text.starts[at + 1] : words.size();
    terms_of_lines.push_back(terms_of(std::string_view(words).substr(text.starts[at], end - text.starts[at])));
    terms.insert(terms_of_lines.back().begin(), terms_of_lines.back().end());
  }
  const auto says = [&](const RE2& expression) { return RE2::PartialMatch(words, expression); };
  // A text about speed does not describe a failure.
  if (terms.size() < kWords || (!says(denial()) && !says(wrongness()) && !says(kComplaint))) return;
  std::vector<std::pair<double, size_t>> best;
  for (size_t i = 0; i < causes.size(); ++i) {
    if (causes[i].scope == Scope::Other || (causes[i].scope == Scope::Capture && is_of_a_kernel(text))) continue;
    const auto [score, count] = score_of(causes[i], terms);
    const double likeness = score / std::sqrt(static_cast<double>(terms.size()));
    if (count >= kFewest && likeness >= kLeast) best.emplace_back(-likeness, i);
  }
  std::sort(best.begin(), best.end());
  best.resize(std::min(best.size(), kMost));
  for (const auto& [likeness, i] : best) {
    const int points = 1 + static_cast<int>((-likeness - kLeast) / kStep);
    weights[i].like_others(line_like(terms_of_lines, causes[i]), std::min(points, kMostPoints));
  }
}

const Cause& cause_of(const Found& one, const std::vector<Cause>& causes) {
  return *std::find_if(causes.begin(), causes.end(), [&](const Cause& cause) { return cause.id == one.id; });
}

Found found_by(const Cause& cause, const Weigh& weigh) {
  const bool is_likely = weigh.is_likely();
  return {cause.id,         cause.title,    is_likely && weigh.is_certain() ? Role::Culprit : Role::Possible,
          weigh.evidence(), weigh.weight(), cause.has_case,
          cause.why,        cause.link,     cause.also,
          is_likely};
}

// The causes with any evidence; victims are separate.
std::vector<Found> collect(const ErrorText& text, const std::vector<Cause>& causes, const Reading& reading,
                           const std::vector<Weigh>& weights, std::vector<Found>& victims) {
  std::vector<Found> found;
  for (size_t i = 0; i < causes.size(); ++i) {
    const Cause& cause = causes[i];
    const Weigh& weigh = weights[i];
    if (reading.capture && cause.scope == Scope::Other) continue;
    if (weigh.weight() <= 0) {
      if (weigh.victim() != 0) {
        victims.push_back({cause.id, cause.title, Role::Victim, shown(text, weigh.victim()), 0, cause.has_case});
      }
      continue;
    }
    // Only the text can show which thread made a call.
    const auto shares_a_call = [&](const Cause& other) {
      return !other.other_thread && std::any_of(other.calls.begin(), other.calls.end(), [&](const std::string& call) {
        return std::find(cause.calls.begin(), cause.calls.end(), call) != cause.calls.end();
      });
    };
    if (cause.other_thread && !text.in_other_thread && weigh.is_by_call() &&
        std::any_of(causes.begin(), causes.end(), shares_a_call)) {
      continue;
    }
    found.push_back(found_by(cause, weigh));
  }
  return found;
}

// A wrong replay, or a 900 of an unknown call, usually has one of a few causes: the cases with the same texts.
void add_usual(const std::string& of, const std::vector<Cause>& causes, std::vector<Found>& found) {
  const auto id_is = [](const std::string& id) { return [&id](const auto& one) { return one.id == id; }; };
  const auto whole = std::find_if(causes.begin(), causes.end(), id_is(of));
  if (whole == causes.end()) return;
  const std::string evidence = found.front().evidence;
  for (const std::string& id : whole->also) {
    const auto one = std::find_if(causes.begin(), causes.end(), id_is(id));
    if (found.size() >= kMostGuessed) return;
    if (one == causes.end() || std::any_of(found.begin(), found.end(), id_is(id))) continue;
    found.push_back({id, one->title, Role::Possible, evidence, 0, one->has_case, one->why, one->link, one->also});
  }
}

// A cause without a case comes after the cases that it stands for, if the text names one as surely.
void put_cases_first(const std::vector<Cause>& causes, std::vector<Found>& found) {
  for (size_t at = 0; at < found.size(); ++at) {
    if (found[at].has_case || !found[at].likely) continue;
    const auto is_its_case = [&, also = cause_of(found[at], causes).also, role = found[at].role](const Found& one) {
      return one.likely && one.role == role && contains(also, one.id);
    };
    const auto last = std::find_if(found.rbegin(), found.rend(), is_its_case);
    if (last == found.rend()) continue;
    const auto end = last.base();
    const auto wide = found.begin() + static_cast<std::ptrdiff_t>(at);
    if (wide < end) std::rotate(wide, wide + 1, end);
  }
}

// Best first, limited to what is shown.
void rank(const std::vector<Cause>& causes, bool some_certain, std::vector<Found>& found) {
  if (found.empty()) return;
  // Consequences come after all causes that may have raised the error.
  const bool some_failure = std::any_of(
      found.begin(), found.end(), [&](const Found& one) { return one.likely && !cause_of(one, causes).harmless; });
  const auto worth = [&](const Found& one) {
    const Cause& cause = cause_of(one, causes);
    return std::tuple(some_certain && one.likely, !some_failure || !cause.harmless,
                      !cause.victim || !cause.codes.empty(), one.weight, one.has_case);
  };
  std::stable_sort(found.begin(), found.end(), [&](const Found& a, const Found& b) { return worth(a) > worth(b); });
  put_cases_first(causes, found);
  if (std::any_of(found.begin(), found.end(), [](const Found& one) { return one.likely; })) {
    std::erase_if(found, [&](const Found& one) { return !one.likely && cause_of(one, causes).only_possible; });
  }
  if (found.front().role != Role::Culprit) {
    if (cause_of(found.front(), causes).scope == Scope::Graph) add_usual(kWrongReplay, causes, found);
    // A cause that ranks below one with words only is no more certain.
    for (Found& one : found) one.role = Role::Possible;
  }
  if (found.size() > kMostShown) found.resize(kMostShown);
}

// If nothing in the text names a cause: the case of the error itself, then what mostly raises it.
void add_own_case(const ErrorText& text, const std::vector<Cause>& causes, std::vector<Found>& found) {
  if (std::any_of(found.begin(), found.end(), [](const Found& one) { return one.likely; })) {
    // Only the error's number tells the cause: its most general case is named first, and may be a special one.
    const Cause& first = cause_of(found.front(), causes);
    if (first.alone && (found.size() == 1 || found.front().weight <= kNamed + kCode))
      add_usual(first.id, causes, found);
    return;
  }
  const auto error = std::find_if(text.errors.begin(), text.errors.end(), [&](const NamedError& one) {
    return is_capture_error(one.code) && (one.code != 901 || text.only_invalidated());
  });
  if (error == text.errors.end()) return;
  for (const Cause& cause : causes) {
    if (!cause.alone || !has(cause.codes, error->code)) continue;
    if (!found.empty() && cause_of(found.front(), causes).only_possible) {
      add_usual(found.front().id, causes, found);  // The statement that a traceback ends in says more than the error.
      return;
    }
    constexpr size_t kMostBefore = kMostGuessed - 1;
    const Found own = {cause.id,  cause.title, Role::Possible, shown(text, error->line), 0, cause.has_case,
                       cause.why, cause.link,  cause.also};
    found.insert(found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), kMostBefore)), own);
    add_usual(cause.id, causes, found);
    return;
  }
}

std::optional<Complaint> complaint_in(const ErrorText& text, const Reading& reading, const Explanation& explanation,
                                      const std::vector<Cause>& causes) {
  static const RE2 kHang(
      R"(\b(?:hangs?|hung|hanging|stuck|dead-?lock\w*|freezes?|frozen|never (?:returns?|ends?|finish\w*))\b)",
      RE2::Latin1);
  const bool has_message = !text.errors.empty() || text.doubtful != 0 || text.exception_line != 0 || reading.said != 0;
  if (has_message || explanation.answer == Answer::NotOne || explanation.causes.empty()) return std::nullopt;
  if (explanation.causes.front().role == Role::Culprit) return std::nullopt;
  if (RE2::PartialMatch(text.words, kHang)) return Complaint::Hang;
  return cause_of(explanation.causes.front(), causes).scope == Scope::Capture ? Complaint::Capture : Complaint::Replay;
}

Explanation find_in(const ErrorText& text, const std::vector<Cause>& causes) {
  std::vector<Weigh> weights;
  weights.reserve(causes.size());
  for (const Cause& cause : causes) weights.emplace_back(text, cause);
  const Reading reading = weigh_words(text, causes, weights);
  const auto refused = std::find_if(text.errors.begin(), text.errors.end(), [](const NamedError& error) {
    return is_capture_error(error.code) && error.code != 901;
  });
  const size_t error_line = refused != text.errors.end() ? refused->line : text.only_invalidated() ? 0 : reading.said;
  const Frame* frame = error_line == 0 ? nullptr : failing_frame(text, error_line);
  const std::string statement = frame == nullptr ? "" : statement_of(text, *frame);
  std::vector<size_t> code = frame == nullptr ? code_lines(text) : std::vector<size_t>();
  if (refused != text.errors.end()) {
    // Only an assignment directly above the error is surely the statement that failed.
    static const RE2 kAssignment(R"(^\s*[\w.]+\s*=\s*\S)", RE2::Latin1);
    std::erase_if(code, [&](size_t line) {
      return line + 1 != refused->line || !RE2::PartialMatch(text.lines.at(line - 1), kAssignment);
    });
  }
  weigh_evidence(text, causes, reading, frame, statement, code, weights);

  bool some_certain = false, is_other = false;
  for (size_t i = 0; i < causes.size(); ++i) {
    some_certain = some_certain || (weights[i].is_likely() && weights[i].is_certain());
    is_other = is_other || (weights[i].is_likely() && causes[i].scope == Scope::Other);
  }
  const bool some = std::any_of(weights.begin(), weights.end(), [](const Weigh& one) { return one.weight() > 0; });
  // An error weighs more than words that only mention it.
  const bool is_printed = std::any_of(text.errors.begin(), text.errors.end(), [&](const NamedError& error) {
    return is_capture_error(error.code) && !is_prose(text.lines.at(error.line - 1));
  });
  const bool is_open = !is_printed && !is_other && (text.errors.empty() || some || text.has_capture_error());
  if (!some_certain && is_open && text.about_graphs && text.words.size() <= kLong)
    weigh_likeness(text, causes, weights);

  Explanation explanation;
  explanation.is_hip = text.is_hip;
  explanation.is_of_nvidia = text.is_of_nvidia;
  explanation.is_python = text.is_python;
  explanation.release = text.release;
  explanation.script = text.script;
  explanation.statement = statement;
  std::vector<Found> victims;
  std::vector<Found>& found = explanation.causes = collect(text, causes, reading, weights, victims);
  const bool by_exception =
      std::any_of(found.begin(), found.end(), [](const Found& one) { return one.id == kException && one.likely; });
  const bool says_it = std::any_of(found.begin(), found.end(), [](const Found& one) { return one.likely; });
  rank(causes, some_certain, found);
  if (says_it) {
    const Scope scope = cause_of(found.front(), causes).scope;
    explanation.answer = scope == Scope::Capture ? Answer::CaptureFailure
                         : scope == Scope::Graph ? Answer::GraphFailure
                                                 : Answer::NotOne;
  } else if (!reading.capture) {
    if (text.other_exception != 0 && text.errors.empty() && text.doubtful == 0) found.clear();
    const bool known = found.empty() && (!text.errors.empty() || text.other_exception != 0);
    const bool may_be_one = text.about_graphs || text.doubtful != 0;
    explanation.answer = known || !may_be_one ? Answer::NotOne : Answer::CannotTell;
  }
  add_own_case(text, causes, found);
  explanation.guessed_from = complaint_in(text, reading, explanation, causes);
  explanation.summary = summary_of(text, explanation);
  if (reading.capture) add_victims(text, by_exception, std::move(victims), found);
  return explanation;
}

}  // namespace

std::string_view to_string(Answer answer) {
  switch (answer) {
    case Answer::CaptureFailure:
      return "capture failure";
    case Answer::GraphFailure:
      return "graph failure";
    case Answer::NotOne:
      return "not a capture failure";
    case Answer::CannotTell:
      break;
  }
  return "cannot tell";
}

std::string_view to_string(Role role) {
  constexpr std::array<std::string_view, 3> kRoles = {"culprit", "possible", "victim"};
  return kRoles.at(static_cast<size_t>(role));
}

Explanation find_causes(const ErrorText& text, const std::vector<Cause>& causes) {
  const auto has_answer = [](const Explanation& one) {
    return one.answer == Answer::CaptureFailure || one.answer == Answer::GraphFailure;
  };
  Explanation explanation = find_in(text, causes);
  if (has_answer(explanation) || text.has_capture_error()) return explanation;
  for (const ErrorText& joined : unwrapped(text)) {
    Explanation better = find_in(joined, causes);
    const bool says_more = has_answer(better) || (better.answer == Answer::CannotTell &&
                                                  (explanation.answer == Answer::NotOne || joined.has_capture_error()));
    if (says_more) return better;
  }
  return explanation;
}

std::vector<const Operator*> named_operators(const ErrorText& text, const Explanation& explanation,
                                             const std::vector<Operator>& operators) {
  static const RE2 kInStack(R"(at::_ops::(\w+)::)", RE2::Latin1), kInMessage(R"(\baten(?:::|\.)(\w+))", RE2::Latin1);
  constexpr size_t kOneStack = 40;  // The greatest distance in lines between two operators of one stack.
  if (explanation.answer != Answer::CaptureFailure && explanation.answer != Answer::CannotTell) return {};
  std::vector<const Operator*> named = called_operators(explanation.statement, operators);
  if (!named.empty()) return named;
  const Operator* outermost = nullptr;
  for (size_t line = 0, last = 0; line < text.lines.size(); ++line) {
    std::string name;
    if (!RE2::PartialMatch(text.lines[line], kInStack, &name)) continue;
    if (outermost != nullptr && line - last > kOneStack) break;  // The stack of another thread.
    last = line;
    if (const Operator* one = aten_operator(name, operators)) outermost = one;
  }
  if (outermost != nullptr) return {outermost};
  for (const std::string& line : text.lines) {
    std::string name;
    if (!RE2::PartialMatch(line, kInMessage, &name)) continue;
    if (const Operator* one = aten_operator(name, operators)) named.push_back(one);
  }
  return named;
}

std::set<std::string> cases_with_remedies(const Explanation& explanation) {
  std::set<std::string> cases;
  for (const Found& one : explanation.causes) {
    if (one.role == Role::Victim) continue;
    if (one.has_case) cases.insert(one.id);
    cases.insert(one.also.begin(), one.also.end());
  }
  return cases;
}

void add_remedies(Explanation& explanation, const std::vector<Cause>& causes, const Catalogue& catalogue,
                  const std::vector<Deviation>& changes, const std::vector<TestVerdict>& rows,
                  const std::vector<Prices>& prices) {
  for (Found& one : explanation.causes) {
    const CatalogueCase* its = find_case(catalogue, one.id);
    one.is_simulated = its != nullptr && its->fidelity == Fidelity::Simulated;
  }
  const bool some_culprit = !explanation.causes.empty() && explanation.causes.front().role == Role::Culprit;
  static const std::vector<TestVerdict> kNoRows;
  static const std::vector<Prices> kNoPrices;
  static const std::vector<Deviation> kNoChanges;
  for (const Found& one : explanation.causes) {
    if (one.role == Role::Victim || (some_culprit && one.role != Role::Culprit)) continue;
    const auto cause =
        std::find_if(causes.begin(), causes.end(), [&](const Cause& other) { return other.id == one.id; });
    // Of an unknown call no remedy is known.
    if (one.weight == 0 && (cause->alone || cause->scope == Scope::Capture)) continue;
    // Records and changes are for NVIDIA GPUs.
    const bool is_ours = explanation.is_of_nvidia;
    add_remedies_of(one, *cause, explanation.is_python, catalogue, is_ours ? changes : kNoChanges,
                    is_ours ? rows : kNoRows, is_ours ? prices : kNoPrices, explanation.remedies);
  }
}

Explanation diagnose(const ErrorText& text, const std::vector<Cause>& causes, const Catalogue& catalogue,
                     const std::vector<TestVerdict>& rows, const std::vector<Prices>& prices) {
  Explanation explanation = find_causes(text, causes);
  add_remedies(explanation, causes, catalogue, {}, rows, prices);
  return explanation;
}

}  // namespace recapture::explain

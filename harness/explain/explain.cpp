#include "harness/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "harness/base/escape.h"
#include "harness/case/cuda_errors.h"

namespace recapture::explain {
namespace {

constexpr int kSays = 8, kCalledInLog = 7, kCalled = 4, kNamed = 4, kMentioned = 2, kHint = 2, kMore = 1, kCode = 1;
constexpr int kWrongCode = -2, kHealthyHere = -3;
constexpr int kEnough = 4;        // What the text must weigh for a cause to be called the culprit.
constexpr size_t kMostShown = 5;  // Causes that are shown, without victims.
constexpr char kException[] = "exception_in_capture";

std::string shown(const ErrorText& text, size_t line) {
  constexpr size_t kLongest = 160;
  std::string words = text.lines.at(line - 1);
  words.erase(0, words.find_first_not_of(" \t"));
  const bool is_cut = words.size() > kLongest;
  return fmt::format("line {}: {}{}", line, escape_control(words.substr(0, kLongest)), is_cut ? "…" : "");
}

const CudaError& error_of(int code) {
  const auto* found =
      std::find_if(std::begin(kCudaErrors), std::end(kCudaErrors), [&](const CudaError& e) { return e.code == code; });
  return found == std::end(kCudaErrors) ? *std::prev(std::end(kCudaErrors)) : *found;
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

// What of the text speaks for a cause, added up.
class Weigh {
 public:
  Weigh(const ErrorText& text, const Cause& cause) : text_(text), cause_(cause) {}

  // Text that shows the failure by itself.
  bool says() {
    for (const std::string& cue : cause_.says) {
      const size_t line = find_evidence(text_, cue), first = text_.first_capture_error();
      if (line == 0) continue;
      if (cause_.victim && first != 0 && first < line) {
        victim_ = line;
      } else {
        take(line, kSays);
      }
    }
    if (!cause_.capture && weight_ == 0) {
      const auto error = std::find_if(text_.errors.begin(), text_.errors.end(),
                                      [&](const NamedError& named) { return has(cause_.codes, named.code); });
      if (error != text_.errors.end()) take(error->line, kSays);
    }
    return weight_ > 0;
  }

  // All else, which speaks for it only in a text that shows a capture failure.
  void rest() {
    const bool said = weight_ > 0;
    const bool in_log = !text_.call.empty() && std::any_of(cause_.calls.begin(), cause_.calls.end(),
                                                           [&](const auto& call) { return is_in_log(call); });
    bool called = false, named = false;
    size_t mentioned = 0;
    const auto refused = [&](const std::string& call) {
      const size_t line = find_refused(text_, call);
      if (line == 0 && mentioned == 0) mentioned = find_near(text_, call);
      return line;
    };
    if (in_log) take(text_.call_line, kCalledInLog);
    for (const std::string& call : cause_.calls) {
      const size_t line = in_log || called ? 0 : refused(call);
      if (line != 0) take(line, kCalled);
      called = called || line != 0;
    }
    for (const std::string& cue : cause_.names) {
      if (const size_t line = is_call(cue) ? refused(cue) : find_near(text_, cue)) {
        take(line, named ? kMore : kNamed);
        named = true;
      }
    }
    if (mentioned != 0 && !suffices_) add(mentioned, kMentioned);
    int hints = 0;
    for (const std::string& cue : cause_.hints) {
      const size_t line = weight_ > 0 && hints < 2 ? find_near(text_, cue) : 0;
      if (line != 0) add(line, hints++ == 0 ? kHint : kMore);
    }
    if (weight_ <= 0 || cause_.codes.empty()) return;
    const int code = of_code();
    weight_ = code == kWrongCode && !said && !in_log ? 0 : weight_ + code;
  }

  void exception() { take(text_.exception_line, kSays - 1); }
  void occurs_nowhere() { weight_ += kHealthyHere; }

  int weight() const { return weight_; }
  bool is_culprit() const { return suffices_ && weight_ >= kEnough; }
  std::string evidence() const { return line_ == 0 ? "" : shown(text_, line_); }
  // Where it says what follows from an earlier capture error; 0 if it does not.
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
    suffices_ = true;
  }

  // One name can be the beginning of another, "cuMemAlloc" of "cuMemAlloc_v2".
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
  bool suffices_ = false;  // More than hints and calls in passing speaks for it.
  size_t line_ = 0, victim_ = 0;
};

// Whether the release's records say of every Reproduces of the case that its failure does not occur.
bool healthy_in(const std::vector<TestVerdict>& rows, const std::string& id) {
  bool some = false;
  for (const TestVerdict& row : rows) {
    if (row.case_id != id || row.kind != Kind::Reproduces) continue;
    if (row.result != Result::Healthy) return false;
    some = true;
  }
  return some;
}

// One machine on which a fix does not hold is enough to say that it does not.
std::optional<bool> holds_in(const std::vector<TestVerdict>& rows, const std::string& test) {
  std::optional<bool> holds;
  for (const TestVerdict& row : rows) {
    if (row.test != test) continue;
    if (row.result == Result::Broken) return false;
    if (row.result == Result::Holds) holds = true;
  }
  return holds;
}

void add_remedies(const Cause& cause, const Catalogue& catalogue, const std::vector<TestVerdict>& rows,
                  const std::vector<Prices>& prices, std::vector<FixAdvice>& remedies) {
  for (const std::string& fix : cause.fixes) remedies.push_back({cause.id, fix, std::nullopt, false});
  for (const CatalogueCase& one : catalogue) {
    if (one.id != cause.id) continue;
    for (const CatalogueTest& test : one.tests) {
      if (test.fix.empty()) continue;
      const std::string id = one.id + "." + test.name;
      remedies.push_back({cause.id, test.fix, holds_in(rows, id), false});
      for (const Prices& on : prices) {
        for (const PriceLine* price : prices_of(on, id)) remedies.back().prices.emplace_back(on.env("gpu"), *price);
      }
    }
  }
  for (const std::string& advice : cause.useless) remedies.push_back({cause.id, advice, false, true});
}

// Errors that report what another call has done.
void add_victims(const ErrorText& text, bool by_exception, std::vector<Found> followers, std::vector<Found>& causes) {
  for (const auto& [code, id, why] :
       {std::tuple{901, "e901_invalidated", "901 only says that an earlier call broke the capture: look before it"},
        {904, "e904_unjoined", "904 because the exception left the region before its side streams were joined"}}) {
    const int number = code;
    if (number == 904 && !by_exception) continue;
    const auto error = std::find_if(text.errors.begin(), text.errors.end(),
                                    [&](const NamedError& named) { return named.code == number; });
    if (error != text.errors.end()) causes.push_back({id, why, Role::Victim, shown(text, error->line), 0, false});
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
  switch (explanation.answer) {
    case Answer::NotOne: {
      if (!explanation.causes.empty()) return "not a capture failure: " + explanation.causes.front().title;
      const int other = code(false);
      if (other == 0) return "not a capture failure: nothing in the text says that a capture failed";
      return fmt::format("not a capture failure: CUDA error {} ({}), {}", other, error_of(other).name,
                         error_of(other).text);
    }
    case Answer::CaptureFailure:
      return fmt::format("a capture failure, most likely: {}", explanation.causes.front().title);
    case Answer::CannotTell:
      break;
  }
  const int own = code(true);
  if (own == 0 && text.doubtful != 0) {
    return fmt::format(
        "cannot tell: if {} is an error of CUDA's ({}), a capture failed, but nothing in the text says whose it is, or "
        "which call broke the capture; `recapture blame` names the call",
        text.doubtful, error_of(text.doubtful).name);
  }
  if (own == 0) return "cannot tell: the text has no error of CUDA's; `recapture blame` names the call";
  return fmt::format(
      "cannot tell: CUDA error {} ({}) is a capture failure, but nothing in the text says which call it "
      "was; `recapture blame` names it",
      own, error_of(own).name);
}

}  // namespace

std::string_view to_string(Answer answer) {
  switch (answer) {
    case Answer::CaptureFailure:
      return "capture failure";
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

Explanation diagnose(const ErrorText& text, const std::vector<Cause>& causes, const Catalogue& catalogue,
                     const std::vector<TestVerdict>& rows, const std::vector<Prices>& prices) {
  std::vector<Weigh> weights;
  bool capture = text.has_capture_error(), other_says = false;
  for (const Cause& cause : causes) {
    weights.emplace_back(text, cause);
    const bool says = weights.back().says();
    capture = capture || (says && cause.capture);
    other_says = other_says || (says && !cause.capture);
  }
  capture = capture || (text.says_failed && !other_says && text.errors.empty());

  Explanation explanation;
  std::vector<Found>&found = explanation.causes, followers;
  bool by_exception = false;
  for (size_t i = 0; i < causes.size(); ++i) {
    const Cause& cause = causes[i];
    Weigh& weigh = weights[i];
    if (cause.capture != capture) continue;
    if (capture) weigh.rest();
    if (cause.id == kException && text.exception_line != 0) weigh.exception();
    const bool healthy = healthy_in(rows, cause.id);
    if (healthy && weigh.weight() > 0) weigh.occurs_nowhere();
    if (weigh.weight() <= 0) {
      if (weigh.victim() != 0) {
        followers.push_back({cause.id, cause.title, Role::Victim, shown(text, weigh.victim()), 0, false});
      }
      continue;
    }
    const bool culprit = weigh.is_culprit();
    by_exception = by_exception || (cause.id == kException && culprit);
    found.push_back(
        {cause.id, cause.title, culprit ? Role::Culprit : Role::Possible, weigh.evidence(), weigh.weight(), healthy});
  }
  const auto cause_of = [&](const Found& one) -> const Cause& {
    return *std::find_if(causes.begin(), causes.end(), [&](const Cause& cause) { return cause.id == one.id; });
  };
  // What only follows from another error comes after all that may have raised it.
  const auto rank = [&](const Found& one) {
    const Cause& cause = cause_of(one);
    return std::tuple(one.role == Role::Culprit, !cause.victim || !cause.codes.empty(), one.weight);
  };
  std::stable_sort(found.begin(), found.end(), [&](const Found& a, const Found& b) { return rank(a) > rank(b); });
  if (found.size() > kMostShown) found.resize(kMostShown);

  const bool some_culprit = !found.empty() && found.front().role == Role::Culprit;
  if (capture) {
    explanation.answer = some_culprit ? Answer::CaptureFailure : Answer::CannotTell;
  } else {
    const bool known = other_says || !text.errors.empty();
    const bool may_be_one = text.about_captures || text.doubtful != 0;
    explanation.answer = known || !may_be_one ? Answer::NotOne : Answer::CannotTell;
  }
  for (const Found& one : found) {
    if (some_culprit && one.role != Role::Culprit) continue;
    add_remedies(cause_of(one), catalogue, rows, prices, explanation.remedies);
  }
  explanation.summary = summary_of(text, explanation);
  if (capture) add_victims(text, by_exception, std::move(followers), found);
  return explanation;
}

}  // namespace recapture::explain

#include "harness/compare/pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/regex.h"
#include "harness/case/events.h"
#include "harness/case/signature.h"
#include "harness/model/release.h"
#include "harness/verdict/operators.h"
#include "harness/verdict/rate.h"
#include "harness/verdict/select.h"

namespace recapture::compare {
namespace {

// "CUDA error 900", or the text of what was raised.
std::string failure_words(const std::string& failure) {
  if (const int code = code_of_failure(failure); code != 0) return fmt::format("CUDA error {}", code);
  for (const std::string begin : {"check \"", "assert \""}) {
    if (failure.rfind(begin, 0) == 0 && failure.size() > begin.size() && failure.back() == '"') {
      return fmt::format("\"{}\"", truncated(failure.substr(begin.size(), failure.size() - begin.size() - 1)));
    }
  }
  return truncated(failure);
}

// What a Python program's capture raises, and then its end: "900 > 901", "900 > ok by cuStreamSynchronize on …".
struct PythonFailure {
  std::string code, end;
  static std::optional<PythonFailure> read(const std::string& text) {
    static const RE2 kForm(R"re((\d{1,4}) > (ok|\d{1,4})(?: by .*)?)re", RE2::Latin1);
    PythonFailure failure;
    if (!RE2::FullMatch(text, kForm, &failure.code, &failure.end)) return std::nullopt;
    return failure;
  }
};

// The first error of a test, or that at the end of its capture: "CUDA error 900, invalidating the capture".
std::string error_words(const Seen& seen) {
  constexpr char kInvalidated[] = "901";
  const std::string& text = seen.test().text(key::seen);
  if (const auto failure = PythonFailure::read(text)) {
    return fmt::format("{}{}", failure_words(failure->code),
                       failure->end == kInvalidated ? ", invalidating the capture" : "");
  }
  if (const auto signature = Signature::read(text)) {
    const bool at_end = signature->first == "ok";
    return fmt::format("{}{}{}", failure_words(at_end ? signature->end : signature->first),
                       at_end ? " at the end of the capture" : "",
                       signature->status == "invalidated" ? ", invalidating the capture" : "");
  }
  if (!text.empty()) return failure_words(text);
  return seen.row->observed.empty() ? "an error" : truncated(seen.row->observed);
}

// All three parts of a capture's signature; "" for anything else.
std::string signature_words(const Seen& seen) {
  const auto signature = Signature::read(seen.test().text(key::seen));
  if (!signature) return "";
  return fmt::format("{}, with {} and {} at its end", failure_words(signature->first),
                     signature->status == "none" ? "no capture left" : "the capture " + truncated(signature->status),
                     failure_words(signature->end));
}

// The reason alone: a test begins it with "Not applicable: ".
std::string why_absent(const Seen& seen) {
  constexpr std::string_view kBegin = "Not applicable: ";
  const std::string& words = seen.row->observed;
  return truncated(words.rfind(kBegin, 0) == 0 ? words.substr(kBegin.size()) : words);
}

// A text from its first word that differs from the other text.
std::string cut_where(const std::string& text, const std::string& other) {
  const auto same = std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first - text.begin();
  constexpr size_t kSeen = 60, kBefore = 30;
  const auto at = static_cast<size_t>(same);
  if (at < kSeen) return truncated(text);
  const size_t blank = text.rfind(' ', at - kBefore);
  return "... " + truncated(text.substr(blank == std::string::npos ? at : blank + 1));
}

// The errors of both sides, in the shortest words that differ.
std::pair<std::string, std::string> different_errors(const Seen& before, const Seen& now) {
  for (const auto& describe : {error_words, signature_words}) {
    const std::string earlier = describe(before), later = describe(now);
    if (!earlier.empty() && !later.empty() && earlier != later) return {earlier, later};
  }
  const std::string earlier = without_places(before.test().text(key::seen));
  const std::string later = without_places(now.test().text(key::seen));
  return {cut_where(earlier, later), cut_where(later, earlier)};
}

// Whether something was raised, not only seen: a capture's errors, an exception or an error code. A Python program
// prints its exception as "TypeOfTheError: message".
bool has_raised(const Seen& seen) {
  static const RE2 kPythonError(R"re(^[\w.]*(?:Error|Exception|Failed): )re", RE2::Latin1);
  const TestRecord& test = seen.test();
  const std::string& text = test.text(key::seen);
  return Signature::read(text) || PythonFailure::read(text) || test.has(key::exception) || test.error() != 0 ||
         code_of_failure(text) != 0 || RE2::PartialMatch(text.substr(0, text.find('\n')), kPythonError);
}

enum class Tense { Past, Present };

// "raised CUDA error 900" and "raises CUDA error 900".
std::string failing(const Seen& seen, Tense tense, const std::string& words) {
  const bool is_past = tense == Tense::Past;
  if (seen.row->result == Result::Broken) return (is_past ? "ended early with " : "ends early with ") + words;
  if (seen.state() == State::Warns) return (is_past ? "warned of " : "warns of ") + words;
  constexpr std::string_view kRaised = "raised ";  // The whole text of a few tests.
  const std::string object = words.rfind(kRaised, 0) == 0 ? words.substr(kRaised.size()) : words;
  if (object.size() != words.size() || has_raised(seen)) return (is_past ? "raised " : "raises ") + object;
  return (is_past ? "showed " : "shows ") + object;
}

// "raised CUDA error 900" in the past tense, "raises …" in the present.
std::string what_it_does(const Seen& seen, Tense tense) {
  const auto either = [&](const char* past, const char* present) {
    return std::string(tense == Tense::Past ? past : present);
  };
  switch (seen.state()) {
    case State::Works:  // A harmless documented failure still does not work: emptyCache() has no effect.
      return seen.row->result == Result::Reproduced ? either("raised nothing", "raises nothing")
                                                    : either("worked", "works");
    case State::Warns:
      return either("warned", "warns");
    case State::Raises:
      return failing(seen, tense, error_words(seen));
    case State::Hangs:
      return either("hung", "hangs");
    case State::Crashes:
      return either("crashed", "crashes");
    case State::Leaks:
      return either("leaked", "leaks, without an error");
    case State::Absent:
      return either("was not available", "is not available");
    case State::SilentlyWrong:
      break;
  }
  return either("went on with wrong results", "goes on with wrong results, without an error");
}

class Comparer {
 public:
  Comparer(const Results& from, const Results& to, const CompareContext& background)
      : from_(from), to_(to), background_(background) {}

  std::vector<Pair> pairs() const {
    std::vector<std::string_view> tests;
    std::set_union(from_.tests().begin(), from_.tests().end(), to_.tests().begin(), to_.tests().end(),
                   std::back_inserter(tests));
    const auto case_id_of = [](std::string_view test) { return test.substr(0, test.find('.')); };
    std::map<std::string_view, std::vector<std::string_view>> cases;
    for (const std::string_view test : tests) {
      // Releases differ in their lists of operators, and few runs try them.
      const bool is_operator = case_id_of(test) == kOperatorsCase && kind_of_id(test) == Kind::Operator;
      if (is_operator && (from_.is_without(test) || to_.is_without(test))) continue;
      cases[case_id_of(test)].push_back(test);
    }
    std::vector<Pair> all;
    all.reserve(tests.size());
    for (const auto& [id, its] : cases) {
      const CatalogueCase* described = background_.find(std::string(id));
      // Records have tests that the case no longer has; there is nothing to report of those.
      std::vector<std::string_view> today;
      if (described != nullptr) {
        for (const CatalogueTest& test : described->tests) today.push_back(test.name);
      }
      std::sort(today.begin(), today.end());
      const size_t first = all.size();
      for (const std::string_view test : its) {
        const std::string_view name = test.substr(test.find('.') + 1);
        if (described == nullptr || std::binary_search(today.begin(), today.end(), name)) {
          all.push_back(pair_of(std::string(test)));
        }
      }
      reconcile_within_case(std::span(all).subspan(first));
    }
    return all;
  }

  // Whether both ran the same code of the case.
  bool same_code(const Seen& a, const Seen& b) const {
    const Record &one = a.run->record, &other = b.run->record;
    if (a.info == nullptr || b.info == nullptr) return false;
    const bool old = one.format() < 2;
    if (old == (other.format() < 2)) {
      return old ? source_hash(a.info->hash) == source_hash(b.info->hash) : a.info->hash == b.info->hash;
    }
    // The two formats hash different sources; both are compared through the tree.
    const Rules& rules = background_.rules;
    return !rules.tree.empty() && !rules.stale(one, a.row->case_id) && !rules.stale(other, b.row->case_id);
  }

 private:
  std::string source_hash(const std::string& recorded) const {
    const auto& known = background_.rules.old_hashes;
    const auto found = known.find(recorded);
    return found == known.end() ? recorded : found->second;
  }

  // Each run of the side that planned the test ended before it.
  static bool did_not_reach(const Results& side, const std::string& test) {
    return side.of(test).empty() && side.tried(test) && !side.could_not_run(test);
  }

  // Whether the older release has no result to lose. Two nightlies are of one line: the test may have had a result in
  // the night before.
  bool older_did_not_reach(const std::string& test) const {
    const auto line = [](const Results& side) { return release_line(side.side().runs.front().record.env("release")); };
    return did_not_reach(from_, test) && line(from_) != line(to_);
  }

  // Of a test without a result on a side.
  bool is_replaceable(const std::string& test) const {
    if (did_not_reach(to_, test)) return false;  // That can be the fault of the newer release.
    if (did_not_reach(from_, test)) return older_did_not_reach(test);
    return !from_.tried(test) || !to_.tried(test) || (from_.of(test).empty() && to_.of(test).empty());
  }

  Pair pair_of(const std::string& test) const {
    Pair pair;
    pair.compared.test = test;
    const auto &before = from_.of(test), &after = to_.of(test);
    if (before.empty() || after.empty()) {
      const Results& silent = before.empty() ? from_ : to_;
      pair.compared.sentence = silent.why_not(test);
      pair.compared.is_measured = silent.tried(test) && !older_did_not_reach(test);
      pair.compared.ran = !silent.could_not_run(test);
      pair.compared.is_replaceable = is_replaceable(test);
      return pair;
    }
    for (const Seen& now : after) {
      const auto then =
          std::find_if(before.begin(), before.end(), [&](const Seen& one) { return same_code(one, now); });
      if (then == before.end()) continue;
      pair.from = *then;
      pair.to = now;
      pair.compared.before = then->run;
      pair.compared.after = now.run;
      break;
    }
    if (pair.to.row == nullptr) {
      pair.compared.is_measured = false;
      pair.compared.is_replaceable = true;
      pair.compared.sentence = fmt::format("not comparable: {} and {} ran different code of the case{}", from_.name(),
                                           to_.name(), advice(before.front(), after.front()));
    } else if (pair.from.has_rate || pair.to.has_rate) {
      compare_rates(pair);
    } else {
      compare_results(pair);
    }
    return pair;
  }

  // Which of the two has to run again.
  std::string advice(const Seen& before, const Seen& now) const {
    std::vector<std::string> releases;
    for (const Seen& seen : {before, now}) {
      const Record& record = seen.run->record;
      if (background_.rules.stale(record, seen.row->case_id)) releases.push_back(record.env("release"));
    }
    return releases.empty() ? "" : fmt::format("; `ci/suite {}` runs today's", fmt::join(releases, " "));
  }

  // Stores a change, with its state on both sides in words.
  void tell(Pair& pair, Consequence consequence, const std::string& was, const std::string& is) const {
    pair.compared.consequence = consequence;
    pair.compared.was = was;
    pair.compared.is = is;
    pair.compared.note.clear();
    pair.compared.sentence = fmt::format("{} in {}; in {} it {}", was, from_.name(), to_.name(), is);
  }

  bool is_clear(Pair& pair) const {
    for (const auto& [seen, side] : {std::pair(&pair.from, &from_), std::pair(&pair.to, &to_)}) {
      const TestVerdict& row = *seen->row;
      const std::string& name = side->name();
      if (row.verdict == Verdict::NotApplicable) {
        // Where the case cannot run, nothing is known of the release: a fix that holds later may have held before.
        const auto* expected = find_expectation(background_.rules.expectations, row.test, seen->run->record);
        if (expected != nullptr && expected->inapplicable) {
          pair.compared.sentence = fmt::format("cannot tell in {}: {}", name, truncated(render_observed(row)));
          pair.compared.ran = false;
          return false;
        }
      }
      if (row.result != Result::Invalid && row.verdict != Verdict::Inconclusive && row.verdict != Verdict::Missing) {
        continue;
      }
      pair.compared.sentence =
          fmt::format("{} in {}: {}", to_string(row.verdict), name, truncated(render_observed(row)));
      return false;
    }
    return true;
  }

  void compare_results(Pair& pair) const {
    if (!is_clear(pair)) return;
    const State before = pair.from.state(), now = pair.to.state();
    const Kind kind = pair.to.row->kind;
    const Consequence consequence = consequence_of(kind, before, now);
    pair.compared.consequence = consequence;
    if (consequence == Consequence::Unknown) {
      const bool is_first = before == State::Absent;
      pair.compared.sentence = fmt::format("not applicable in {}: {}", is_first ? from_.name() : to_.name(),
                                           why_absent(is_first ? pair.from : pair.to));
      pair.compared.ran = false;
    } else if (kind == Kind::Operator) {
      // Generic words, so that all operators with the same change are grouped.
      if (consequence != Consequence::Same) tell(pair, consequence, captured_in(before, "was"), captured_in(now, "is"));
      if (!is_regression(consequence)) compare_forms(pair, now);
    } else if (kind == Kind::Reproduces) {
      if (before == now) {
        compare_errors(pair, now);
      } else if (consequence != Consequence::Same) {
        tell(pair, consequence, what_it_does(pair.from, Tense::Past), what_it_does(pair.to, Tense::Present));
      }
    } else if (consequence != Consequence::Same) {
      compare_holding(pair, consequence, before, now);
    }
  }

  // The worst form of an operator can be as before, or gone, while another form fails now or has no result.
  void compare_forms(Pair& pair, State state) const {
    const auto then = operator_results(pair.from.test()), now = operator_results(pair.to.test());
    if (const auto lost = lost_samples(then, now)) {
      const auto is_damage = [](OperatorVerdict verdict) {
        return verdict == OperatorVerdict::Wrong || verdict == OperatorVerdict::Hung ||
               verdict == OperatorVerdict::Crashed;
      };
      const auto share = [](const OperatorSamples& samples) {
        return fmt::format("{} of {} samples", samples.captured, samples.captured + samples.failed);
      };
      const bool is_new_damage = is_damage(lost->now) && !is_damage(lost->before);
      tell(pair, is_new_damage ? Consequence::NewDamage : Consequence::NotCapturable,
           fmt::format("was captured for {} ({}, {})", share(lost->samples_before), to_string(lost->form),
                       escape_control(lost->type)),
           fmt::format("is captured for {}{}", share(lost->samples_now),
                       is_new_damage ? fmt::format(" ({})", to_string(lost->now)) : ""));
      return;
    }
    if (state != State::Works) return;
    if (const auto form = form_without_result(then, now)) {
      pair.compared.consequence = Consequence::Unknown;
      pair.compared.was = pair.compared.is = "";
      pair.compared.sentence = fmt::format("no result of {} in {}", to_string(*form), to_.name());
    }
  }

  static std::string captured_in(State state, const char* verb) {
    switch (state) {
      case State::Works:
        return fmt::format("{} captured", verb);
      case State::Raises:
        return fmt::format("{} refused", verb);
      case State::SilentlyWrong:
        return fmt::format("{} captured and wrong", verb);
      default:
        return fmt::format("{} not possible without a {}", verb, state == State::Hangs ? "hang" : "crash");
    }
  }

  // A Control or a Fix, by its sentence.
  void compare_holding(Pair& pair, Consequence consequence, State before, State now) const {
    const CatalogueTest* fix = fix_of(*pair.to.row);
    if (consequence == Consequence::StoppedHolding && now == State::Absent && fix != nullptr &&
        !in_range(pair.to.run->record.env("release"), fix->releases)) {
      pair.compared.consequence = Consequence::Same;  // The fix is for older releases only.
      return;
    }
    const std::string subject = fix == nullptr ? "" : fmt::format("the fix \"{}\" ", fix->fix);
    const std::string seen = now == State::Absent ? why_absent(pair.to) : truncated(pair.to.row->observed);
    const std::string was = before == State::Works    ? "held"
                            : before == State::Absent ? "was not available"
                            : before == State::Raises ? "failed"
                                                      : what_it_does(pair.from, Tense::Past);
    const std::string is = now == State::Works    ? "holds"
                           : now == State::Absent ? "is not available: " + seen
                           : now == State::Raises ? "fails: " + seen
                                                  : what_it_does(pair.to, Tense::Present);
    tell(pair, consequence, subject + was, is);
    if (fix == nullptr && now != State::Works) {
      add_note(pair.compared, " (a control: the calls without the failure)");
    }
  }

  // Two failures with the same effect on a program.
  void compare_errors(Pair& pair, State state) const {
    const TestRecord &then = pair.from.test(), &now = pair.to.test();
    // If a test ended before it saw its failure, its probes show the effects of that end.
    const bool is_comparable = state != State::Works && then.has(key::seen) && now.has(key::seen);
    const Aftermath aftermath = is_comparable ? compare_aftermath(then, now) : Aftermath::Same;
    if (aftermath == Aftermath::Worse) {
      tell(pair, Consequence::BrokenHandlers, "left " + describe_aftermath(now, then, true),
           "leaves " + describe_aftermath(then, now, false));
      return;
    }
    if (state == State::Works) {
      compare_harmless(pair);
    } else if (is_damage(state)) {
      compare_damage(pair, state);
    } else {
      compare_raised(pair, then, now);
    }
    if (aftermath != Aftermath::Better) return;
    const std::string is = describe_aftermath(then, now, true);
    if (pair.compared.consequence == Consequence::Same) {
      tell(pair, Consequence::Recovers, "left " + describe_aftermath(now, then, false), "leaves " + is);
    } else {
      add_note(pair.compared, "; afterwards " + is);
    }
  }

  // A documented behaviour that is harmless can be harmful where it is neither as documented, healthy nor expected.
  void compare_harmless(Pair& pair) const {
    if (pair.from.row->verdict != Verdict::Changed && pair.to.row->verdict != Verdict::Changed) return;
    const std::string before = without_places(pair.from.test().text(key::seen));
    const std::string after = without_places(pair.to.test().text(key::seen));
    if (before == after) return;
    tell(pair, Consequence::ErrorChanged, "showed " + cut_where(before, after), "shows " + cut_where(after, before));
  }

  // Wrong results need not be the same ones, as long as both are what the document says.
  void compare_damage(Pair& pair, State state) const {
    if (state != State::SilentlyWrong && state != State::Leaks) return;
    if (pair.from.row->result == pair.to.row->result) return;
    const std::string before = without_places(pair.from.test().text(key::seen));
    const std::string after = without_places(pair.to.test().text(key::seen));
    if (before == after) return;
    const char* noun = state == State::Leaks ? "another leak" : "other wrong results";
    tell(pair, Consequence::ErrorChanged, fmt::format("had {} ({})", noun, cut_where(before, after)),
         fmt::format("has {}", cut_where(after, before)));
  }

  void compare_raised(Pair& pair, const TestRecord& then, const TestRecord& now) const {
    const std::string &then_seen = then.text(key::seen), &now_seen = now.text(key::seen);
    if (then_seen != now_seen && without_places(then_seen) != without_places(now_seen)) {
      const auto [earlier, later] = different_errors(pair.from, pair.to);
      tell(pair, Consequence::ErrorChanged, failing(pair.from, Tense::Past, earlier),
           failing(pair.to, Tense::Present, later));
      return;
    }
    const std::string &type = then.text(key::exception), &new_type = now.text(key::exception);
    std::string call = then.culprit("api"), new_call = now.culprit("api");
    if (call != new_call) {
      call = without_versions(call);
      new_call = without_versions(new_call);
    }
    std::vector<std::string> was, is;
    if (!type.empty() && !new_type.empty() && type != new_type) {
      was.push_back(fmt::format("was a {}", escape_control(type)));
      is.push_back(fmt::format("is a {}", escape_control(new_type)));
    }
    if (!call.empty() && !new_call.empty() && call != new_call) {
      was.push_back(fmt::format("came from {}", escape_control(call)));
      is.push_back(fmt::format("comes from {}", escape_control(new_call)));
    }
    if (was.empty()) return;
    pair.same_error = true;
    tell(pair, Consequence::ErrorChanged, fmt::format("the same error {}", fmt::join(was, " and ")),
         fmt::format("{}", fmt::join(is, " and ")));
  }

  // The runs with the same code as this one.
  std::vector<RateRun> runs_like(const Seen& one, const std::vector<Seen>& all) const {
    std::vector<RateRun> runs;
    std::set<std::string> counted;
    for (const Seen& seen : all) {
      const bool counts = seen.row->result == Result::Reproduced || seen.row->result == Result::Unseen;
      if (!counts || seen.run->record.is_shard() || !same_code(one, seen)) continue;
      if (!counts_first(seen.run->record.environment, counted)) continue;  // A copy.
      const TestRecord& test = seen.test();
      const int hits = test.number(key::hits).value_or(0), tries = test.number(key::tries).value_or(0);
      runs.push_back({hits, tries, stopping_of(test.text("stopping"), hits)});
    }
    return runs;
  }

  // The newest run with this one's code that crashed or hung; nullptr if none did.
  const Seen* ended_early(const Seen& one, const std::vector<Seen>& all) const {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Seen& seen) {
      return (seen.row->result == Result::Crashed || seen.row->result == Result::Hung) && same_code(one, seen);
    });
    return found == all.end() ? nullptr : &*found;
  }

  // One run that shows a race proves that it occurs. Only several runs can show that it does not.
  void compare_rates(Pair& pair) const {
    if (!is_clear(pair)) return;
    const std::string& test = pair.compared.test;
    const auto before = runs_like(pair.from, from_.of(test)), after = runs_like(pair.to, to_.of(test));
    const auto hits = [](const std::vector<RateRun>& runs) {
      return std::count_if(runs.begin(), runs.end(), [](const RateRun& run) { return run.hits > 0; });
    };
    // One run that ends in a crash or a hang shows that the test can, as one hit does. Its tries cannot be counted.
    const Seen* const ended_now = ended_early(pair.to, to_.of(test));
    if (ended_now != nullptr && (after.empty() || ended_early(pair.from, from_.of(test)) == nullptr)) {
      pair.to = *ended_now;
      pair.compared.after = ended_now->run;
      compare_results(pair);
      return;
    }
    if (before.empty() || after.empty()) {
      pair.compared.sentence = "not comparable: a rate on one side, and none on the other";
      return;
    }
    for (const auto& [runs, name] : {std::pair(before, from_.name()), std::pair(after, to_.name())}) {
      if (hits(runs) > 0 || runs.size() >= kFewestRuns) continue;
      pair.compared.sentence = fmt::format("insufficient data: not seen in {} run{} of {}, and {} would be needed",
                                           runs.size(), runs.size() == 1 ? "" : "s", name, kFewestRuns);
      return;
    }
    pair.compared.consequence = Consequence::Same;
    if ((hits(before) > 0) == (hits(after) > 0)) return;
    const bool occurs = hits(after) > 0;
    const std::vector<Seen>& runs = (occurs ? to_ : from_).of(test);  // The newest of them need not show it.
    const auto shown =
        std::find_if(runs.begin(), runs.end(), [](const Seen& seen) { return seen.row->result == Result::Reproduced; });
    const State failure = shown == runs.end() ? State::Raises : shown->state();
    tell(pair,
         occurs ? consequence_of(Kind::Reproduces, State::Works, failure)
                : consequence_of(Kind::Reproduces, failure, State::Works),
         fmt::format("was a race that occurred in {} of {} runs", hits(before), before.size()),
         fmt::format("occurs in {} of {}", hits(after), after.size()));
  }

  // What one test says may mean something else beside the others of its case.
  void reconcile_within_case(std::span<Pair> pairs) const {
    const auto fails_now = [](const Pair& pair) {
      if (pair.to.row == nullptr || pair.to.row->kind != Kind::Reproduces) return false;
      const State state = pair.to.state();
      return state != State::Works && state != State::Absent && pair.to.row->result != Result::Invalid;
    };
    const auto is_silent = [](State state) { return state == State::SilentlyWrong || state == State::Leaks; };
    const auto still_silent = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      return fails_now(pair) && is_silent(pair.to.state()) && is_silent(pair.from.state()) &&
             !is_regression(pair.compared.consequence);
    });
    const bool fails = std::any_of(pairs.begin(), pairs.end(), fails_now);
    // A form that failed before and has no result now may still fail.
    const bool is_open = std::any_of(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      const std::string& test = pair.compared.test;
      return kind_of_id(test) == Kind::Reproduces && pair.compared.consequence == Consequence::Unknown &&
             !from_.of(test).empty() && to_.of(test).empty();
    });
    const bool is_healed = !fails && !is_open && std::any_of(pairs.begin(), pairs.end(), [](const Pair& pair) {
      return pair.compared.consequence == Consequence::Healed;
    });
    for (Pair& pair : pairs) {
      ComparedTest& compared = pair.compared;
      if (compared.consequence == Consequence::StoppedHolding && is_healed && pair.to.state() == State::Absent) {
        compared = {compared.test, Consequence::Same, "", "", "", true, compared.before, compared.after};
      }
      if (compared.consequence != Consequence::Healed) continue;
      if (!is_silent(pair.from.state()) && still_silent != pairs.end()) {  // The sign is gone, the damage is not.
        tell(pair, Consequence::BrokenHandlers, what_it_does(pair.from, Tense::Past),
             "shows nothing of it, and still " + what_it_does(still_silent->to, Tense::Present));
      } else if (fails) {
        add_note(compared, "; other forms of this failure remain");
      }
    }
  }

  const CatalogueTest* fix_of(const TestVerdict& row) const {
    if (row.kind != Kind::Fix) return nullptr;
    const CatalogueCase* found = background_.find(row.case_id);
    if (found == nullptr) return nullptr;
    const auto test = std::find_if(found->tests.begin(), found->tests.end(),
                                   [&](const CatalogueTest& each) { return each.name == row.name; });
    return test == found->tests.end() || test->fix.empty() ? nullptr : &*test;
  }

  const Results &from_, &to_;
  const CompareContext& background_;
};

// Whether each test of a plan has a line in one of the runs.
bool is_on_record(const std::vector<std::string>& plan, const std::vector<JudgedRun>& runs) {
  return !plan.empty() && std::all_of(plan.begin(), plan.end(), [&](const std::string& test) {
    return std::any_of(runs.begin(), runs.end(),
                       [&](const JudgedRun& run) { return run.record.find(test) != nullptr; });
  });
}

}  // namespace

std::string without_places(const std::string& text) {
  static const RE2 kLine(R"re((\.(?:c|cc|cpp|cu|cuh|h|hpp|py)"?(?::|, line ))\d+)re", RE2::Latin1);
  static const RE2 kFolder(R"re((?:\.\.|/[\w.-]+)(?:/[\w.-]+)*/((?:aten|c10|caffe2|torch)/))re", RE2::Latin1);
  return replace_all(replace_all(without_versions(text), kLine, "\\1"), kFolder, "\\1");
}

Seen::Seen(const JudgedRun* run, const TestVerdict* row) : run(run), row(row), test_(run->record.find(row->test)) {
  const auto found = run->record.cases.find(row->case_id);
  if (found != run->record.cases.end()) info = &found->second;
  has_rate = test_ != nullptr && test_->has(key::tries) && row->kind == Kind::Reproduces;
}

Results::Results(const Side& side, const Counts& counts) : side_(side) {
  for (const JudgedRun& run : side.runs) {
    for (const TestVerdict& row : run.rows) {
      if (counts && !counts(run, row)) continue;
      if (row.ran && row.result != Result::Unavailable) {
        ran_[row.test].emplace_back(&run, &row);
      } else {
        silent_.emplace(row.test, &row);
      }
    }
  }
  for (auto& [test, seen] : ran_) {  // The runs of several machines are adjacent.
    std::stable_sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
      return a.run->record.environment.started > b.run->record.environment.started;
    });
  }
  prefer_own_machine();
  for (const auto& [test, seen] : ran_) tests_.push_back(test);
  for (const auto& [test, row] : silent_) tests_.push_back(test);
  std::sort(tests_.begin(), tests_.end());
  tests_.erase(std::unique(tests_.begin(), tests_.end()), tests_.end());
  for (const JudgedRun& run : side.runs) {
    const bool stands_in = run.record.environment.machine.gpu != side.runs.front().record.environment.machine.gpu;
    if (run.record.is_shard() && !stands_in) {
      of_other_shards_.insert(run.record.whole_plan.begin(), run.record.whole_plan.end());
    }
  }
  for (const JudgedRun& run : side.runs) {
    const bool was_cut = run.record.end != "complete" && !run.record.has_all();
    if (was_cut && is_on_record(run.record.plan, side.runs)) continue;  // Other runs have what this one lacks.
    for (const std::string& note : run.record.notes) {
      notes_.push_back(fmt::format("{}{}: {}", kNote, side.name, escape_control(note)));
    }
  }
}

// A run without a GPU stands in for what the machine itself did not run with that code. It replaces no result of its.
void Results::prefer_own_machine() {
  const auto stands_in = [&](const Seen& seen) {
    return seen.run->record.environment.machine.gpu != side_.runs.front().record.environment.machine.gpu;
  };
  for (auto& [test, seen] : ran_) {
    for (auto own = seen.begin(); own != seen.end(); ++own) {
      if (stands_in(*own) || own->info == nullptr) continue;
      const auto first = std::find_if(seen.begin(), own, [&](const Seen& other) {
        return stands_in(other) && other.info != nullptr && other.info->hash == own->info->hash;
      });
      std::rotate(first, own, own + 1);
    }
  }
}

const std::vector<Seen>& Results::of(std::string_view test) const {
  static const std::vector<Seen> kNone;
  const auto found = ran_.find(test);
  return found == ran_.end() ? kNone : found->second;
}

std::string Results::why_not(std::string_view test) const {
  const auto found = silent_.find(test);
  if (found == silent_.end()) {
    return of_other_shards_.count(test) == 0 ? "not part of any run of " + name()
                                             : "not run in " + name() + ": a shard of that run is missing";
  }
  const TestVerdict& row = *found->second;
  return row.ran ? "cannot run in " + name() + ": " + truncated(render_observed(row))
                 : "not run in " + name() + ", whose run is not complete";
}

bool Results::could_not_run(std::string_view test) const {
  const auto found = silent_.find(test);
  return found != silent_.end() && found->second->ran;
}

bool Results::is_without(std::string_view test) const {
  const auto is_absent = [](const Seen& seen) { return seen.row->result == Result::Inapplicable; };
  const std::vector<Seen>& ran = of(test);
  if (!ran.empty()) return std::all_of(ran.begin(), ran.end(), is_absent);
  return !tried(test);
}

std::vector<Pair> pairs_of(const Side& from, const Side& to, const CompareContext& background) {
  return pairs_of(Results(from), Results(to), background);
}

std::vector<Pair> pairs_of(const Results& from, const Results& to, const CompareContext& background) {
  return Comparer(from, to, background).pairs();
}

}  // namespace recapture::compare

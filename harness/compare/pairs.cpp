#include "harness/compare/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/regex.h"
#include "harness/case/events.h"
#include "harness/case/signature.h"
#include "harness/model/failure_text.h"
#include "harness/model/operator_cases.h"
#include "harness/model/release.h"
#include "harness/store/machine_runs.h"
#include "harness/store/result_store.h"
#include "harness/verdict/evidence.h"
#include "harness/verdict/operators.h"
#include "harness/verdict/rate.h"
#include "harness/words/observation.h"

namespace recapture::compare {
namespace {

// CUDA's error number, or the text of what was raised.
Failure failure_in(const std::string& text) {
  if (const int code = code_of_failure(text); code != 0) return {code};
  if (const auto message = failed_check(text)) return {0, true, truncated(*message)};
  return {0, false, truncated(text)};
}

Manner manner_of(const Seen& seen) {
  if (seen.row->result == Result::Broken) return Manner::EndsEarly;
  if (seen.state() == State::Warns) return Manner::Warns;
  return seen.row->has_raised ? Manner::Raises : Manner::Shows;
}

// With the first error of the test, or that at the end of its capture.
Outcome error_of(const Seen& seen) {
  constexpr char kInvalidated[] = "901";
  const std::string& text = seen.test().seen();
  Outcome outcome{.state = seen.state(), .manner = manner_of(seen)};
  if (const auto failure = ProgramFailure::read(text)) {
    outcome.failure = failure_in(failure->code);
    outcome.invalidates = failure->end == kInvalidated;
  } else if (const auto signature = Signature::read(text)) {
    outcome.at_end = signature->first == "ok";
    outcome.failure = failure_in(outcome.at_end ? signature->end : signature->first);
    outcome.invalidates = signature->status == "invalidated";
  } else {
    outcome.failure = text.empty() ? Failure{0, false, truncated(to_string(seen.row->observed))} : failure_in(text);
  }
  return outcome;
}

// With all three parts of the capture's signature; nothing for any other observation.
std::optional<Outcome> signature_of(const Seen& seen) {
  const auto signature = Signature::read(seen.test().seen());
  if (!signature) return std::nullopt;
  Outcome outcome{.state = seen.state(), .manner = manner_of(seen), .failure = failure_in(signature->first)};
  outcome.status = truncated(signature->status);
  outcome.end = failure_in(signature->end);
  return outcome;
}

// Why the release has no such API.
std::string reason_of_absence(const Seen& seen) {
  const TestObservation& observed = seen.row->observed;
  return truncated(observed.kind == TestObservationKind::NotApplicable ? observed.text : to_string(observed));
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

// The observations of both sides, each from its first word that differs; nothing if they are equal.
std::optional<std::pair<std::string, std::string>> different_texts(const Seen& before, const Seen& now) {
  const std::string &earlier = before.facts().observed, &later = now.facts().observed;
  if (earlier == later) return std::nullopt;
  return std::pair(cut_where(earlier, later), cut_where(later, earlier));
}

// The errors of both sides, by the fewest facts that differ.
std::pair<Outcome, Outcome> different_errors(const Seen& before, const Seen& now,
                                             const std::pair<std::string, std::string>& texts) {
  const auto differ = [](const Outcome& a, const Outcome& b) {
    return std::tie(a.failure, a.at_end, a.invalidates, a.status, a.end) !=
           std::tie(b.failure, b.at_end, b.invalidates, b.status, b.end);
  };
  Outcome earlier = error_of(before), later = error_of(now);
  if (differ(earlier, later)) return {earlier, later};
  if (const auto first = signature_of(before), second = signature_of(now); first && second && differ(*first, *second)) {
    return {*first, *second};
  }
  return {{.state = earlier.state, .manner = earlier.manner, .failure = {0, false, texts.first}},
          {.state = later.state, .manner = later.manner, .failure = {0, false, texts.second}}};
}

// The effect on a program, with the error if it raises. `state` is another than the line's if a repetition showed it.
Outcome effect_in(const Seen& seen, State state) {
  if (state != seen.state()) return {.state = state};
  if (state == State::Raises) return error_of(seen);
  // A harmless documented failure still does not work: emptyCache() has no effect.
  return {.state = state, .is_harmless = state == State::Works && seen.row->result == Result::Reproduced};
}

// Whether two lines of the same code show the same. An expectation of one side alone, such as another effect, changes
// nothing.
bool show_the_same(const Seen& a, const Seen& b) {
  return a.row->kind != Kind::Operator && !a.has_rate && !b.has_rate && a.facts() == b.facts();
}

bool is_silent(State state) { return state == State::SilentlyWrong || state == State::Leaks; }

// What one try of a test shows by itself; Absent if it is at fault.
State state_of_try(const Seen& seen, const TestRecord& line, const Rules& rules) {
  const Record& record = seen.run->record;
  const Evidence evidence = read_evidence(seen.row->kind, record, line, rules, seen.run->neighbour);
  const Result result = evidence.reading.result;
  if (result == Result::Invalid || result == Result::Unavailable) return State::Absent;
  TestVerdict row = *seen.row;
  row.result = result;
  row.effect = evidence.effect;
  const Expectation* expected = find_expectation(rules.expectations, row.test, record, seen.run->neighbour);
  const bool is_expected = expected != nullptr && is_as_expected(*expected, result, shown(result, line));
  if (is_expected && expected->effect) row.effect = expected->effect;
  return state_of(row, record);
}

// Whether a result is no evidence only because its tries differ.
bool has_mixed_tries(const TestVerdict& row) {
  return row.ran && row.result != Result::Invalid && row.result != Result::Unavailable &&
         row.verdict == Verdict::Inconclusive && std::ranges::any_of(row.reasons, [](const Reason& reason) {
           return reason.kind == ReasonKind::NotConfirmed || reason.kind == ReasonKind::CrashedOnce;
         });
}

// Whether a side has a result that is evidence.
bool has_judged(const std::vector<Seen>& results) {
  return std::ranges::any_of(results, [](const Seen& seen) { return has_evidence(*seen.row); });
}
// Whether all of its evidence is that the API is not there.
bool is_absent(const std::vector<Seen>& results) {
  return has_judged(results) && std::ranges::all_of(results, [](const Seen& seen) {
           return !has_evidence(*seen.row) || seen.state() == State::Absent;
         });
}
Lacking lacking_of(const std::vector<Seen>& before, const std::vector<Seen>& after) {
  if (is_absent(before) || is_absent(after)) return Lacking::Nothing;
  const bool older = has_judged(before), newer = has_judged(after);
  return !older && !newer ? Lacking::Both : !older ? Lacking::Older : Lacking::Newer;
}

// In how many runs a race occurs.
struct Occurrences {
  size_t count = 0, all = 0;
};

// What a test does on both sides, and the results that show it.
struct Transition {
  State before = State::Works, now = State::Works;
  std::optional<std::pair<Occurrences, Occurrences>> rates = {};  // Of a race.
  bool by_tries = false;                                          // The rates are of tries, not of runs.
  Seen from = {};                                                 // Its result of the older side.
};

// A pair, and its transition if that is known.
struct Candidate {
  const std::vector<Seen>&before, &after;  // All results of the two sides.
  Pair pair = {};
  std::optional<Transition> transition = {};
};

// What the tests of a case show together. What one test shows may mean something else beside the others.
struct CaseState {
  bool fails = false;                // A form of the failure occurs on the new side.
  std::optional<State> silent = {};  // That of a form that was silent damage and still is.
  bool is_healed = false;            // No form occurs or is open, and one occurred before.
};

class Comparer {
 public:
  Comparer(const Results& from, const Results& to, const CompareContext& context)
      : from_(from), to_(to), context_(context) {}

  std::vector<Pair> pairs() const {
    std::vector<Pair> all;
    all.reserve(from_.tests().size() + to_.tests().size());
    auto before = from_.tests().begin(), now = to_.tests().begin();
    const auto before_end = from_.tests().end(), now_end = to_.tests().end();
    while (before != before_end || now != now_end) {
      const std::string_view id =
          case_id_of(now == now_end || (before != before_end && before->test < now->test) ? before->test : now->test);
      const CatalogueCase* described = context_.find(std::string(id));
      // Records have tests that the case no longer has; there is nothing to report of those.
      std::vector<std::string_view> today;
      if (described != nullptr) {
        for (const CatalogueTest& test : described->tests) today.push_back(test.name);
      }
      std::sort(today.begin(), today.end());
      std::vector<Candidate> candidates;
      while (true) {
        const bool has_before = before != before_end && case_id_of(before->test) == id;
        const bool has_now = now != now_end && case_id_of(now->test) == id;
        if (!has_before && !has_now) break;
        const int order = !has_before ? 1 : !has_now ? -1 : before->test.compare(now->test);
        const OfTest& then = order <= 0 ? *before++ : from_.none(now->test);
        const OfTest& after = order >= 0 ? *now++ : to_.none(then.test);
        const std::string_view test = order <= 0 ? then.test : after.test;
        const std::string_view name = test.substr(std::min(id.size() + 1, test.size()));
        const bool is_of_today = described == nullptr || std::binary_search(today.begin(), today.end(), name);
        if (is_of_today && is_compared(then, after, test)) candidates.push_back(candidate_of(then, after, test));
      }
      const CaseState state = state_of_case(candidates);
      for (Candidate& candidate : candidates) {
        if (candidate.transition) compare(candidate.pair, *candidate.transition, state);
        all.push_back(std::move(candidate.pair));
      }
    }
    return all;
  }

 private:
  static std::string_view case_id_of(std::string_view test) { return test.substr(0, test.find('.')); }

  bool is_compared(const OfTest& before, const OfTest& now, std::string_view test) const {
    // Releases differ in their lists of operators, and few runs try them.
    if (kind_of_id(test) == Kind::Operator && (before.is_without() || now.is_without())) return false;
    // A release whose programs were not run has no verdict about them, and lacks none.
    return (before.tried() && now.tried()) || !repeats(test);
  }

  // Whether the test is one of a program beside tests in C++.
  bool repeats(std::string_view test) const {
    const size_t dot = test.find('.');
    if (!is_of_program(test.substr(dot + 1))) return false;
    const CatalogueCase* described = context_.find(std::string(test.substr(0, dot)));
    return described == nullptr || recapture::repeats(*described, {.name = std::string(test.substr(dot + 1))});
  }

  // Whether both ran the same code of the case.
  bool same_code(const Seen& a, const Seen& b) const {
    const Record &record_of_a = a.run->record, &record_of_b = b.run->record;
    if (a.info == nullptr || b.info == nullptr) return false;
    if (is_of_program(a.row->name)) return code_of(record_of_a, a.row->test) == code_of(record_of_b, b.row->test);
    const bool is_old = record_of_a.format() < 2;
    if (is_old == (record_of_b.format() < 2)) {
      return is_old ? source_hash(a.info->hash) == source_hash(b.info->hash) : a.info->hash == b.info->hash;
    }
    // The two formats hash different sources; both are compared through the tree.
    const Rules& rules = context_.rules;
    return !rules.tree.empty() && !rules.stale(record_of_a, a.row->case_id) &&
           !rules.stale(record_of_b, b.row->case_id);
  }

  std::string source_hash(const std::string& recorded) const {
    const auto& hashes = context_.rules.old_hashes;
    const auto found = hashes.find(recorded);
    return found == hashes.end() ? recorded : found->second;
  }

  // Whether the older release has no result to lose. Two nightlies are of one line: the test may have had a result in
  // the night before.
  bool older_did_not_reach(const OfTest& before) const {
    const auto line = [](const Results& side) { return side.side().runs.front().record.environment.release.line(); };
    return before.was_not_reached() && line(from_) != line(to_);
  }

  // Of a test without a result on a side.
  bool is_replaceable(const OfTest& before, const OfTest& now) const {
    if (now.was_not_reached()) return false;  // That can be the fault of the newer release.
    if (before.was_not_reached()) return older_did_not_reach(before);
    return !before.tried() || !now.tried() || (before.ran.empty() && now.ran.empty());
  }

  // One try of several is enough.
  bool shows_damage(const Seen& seen) const {
    const auto state = worst_try(seen, context_.rules);
    return state && is_damage(*state);
  }

  // Whether a form that the older side has replaced is no basis for a comparison: it has no evidence there, or it is
  // damaged on both sides while the newest form is not, which would hide new damage. The newer side then lacks the
  // newest form.
  bool cannot_compare(const Seen& then, const std::vector<Seen>& before, const std::vector<Seen>& after) const {
    if (!then.is_replaced || then.has_rate) return false;
    if (!has_evidence(*then.row)) return true;
    const auto newest = std::ranges::find_if(before, [](const Seen& seen) { return has_evidence(*seen.row); });
    const auto is_as_before = [&](const Seen& seen) { return same_code(then, seen) && shows_damage(seen); };
    return shows_damage(then) && !shows_damage(*newest) && std::ranges::any_of(after, is_as_before);
  }

  Candidate candidate_of(const OfTest& of_from, const OfTest& of_to, std::string_view test) const {
    Candidate candidate{of_from.ran, of_to.ran};
    const std::vector<Seen>&before = of_from.ran, &after = of_to.ran;
    Pair& pair = candidate.pair;
    pair.compared.test = test;
    if (before.empty() || after.empty()) {
      const OfTest& silent = before.empty() ? of_from : of_to;
      set_unknown(pair, silent.why_not(), before.empty() ? WhichSide::From : WhichSide::To);
      pair.compared.is_measured = silent.tried() && !older_did_not_reach(of_from);
      pair.compared.ran = !silent.could_not_run();
      pair.compared.is_replaceable = is_replaceable(of_from, of_to);
      set_lacking(candidate, lacking_of(before, after));
      return candidate;
    }
    for (const Seen& now : after) {
      const auto then =
          std::find_if(before.begin(), before.end(), [&](const Seen& seen) { return same_code(seen, now); });
      if (then == before.end() || cannot_compare(*then, before, after)) continue;
      pair.from = *then;
      pair.to = now;
      pair.compared.before = then->run;
      pair.compared.after = now.run;
      break;
    }
    if (pair.to.row == nullptr) {
      pair.compared.is_measured = false;
      pair.compared.is_replaceable = true;
      set_unknown(pair, {.kind = UnknownKind::OtherCode, .releases = releases_to_run(before.front(), after.front())});
      set_lacking(candidate, lacking_of(before, after));
    } else if (is_clear(pair)) {
      candidate.transition =
          pair.from.has_rate || pair.to.has_rate ? transition_of_race(candidate) : transition_of(pair);
    } else if (pair.compared.unknown->kind == UnknownKind::Unclear) {
      candidate.transition = transition_of_unclear(candidate);
    }
    return candidate;
  }

  void set_lacking(Candidate& candidate, Lacking lacking) const {
    Pair& pair = candidate.pair;
    pair.compared.lacking = lacking;
    if (lacking != Lacking::Older && lacking != Lacking::Both) return;
    for (const Seen& seen : candidate.after) {
      const auto state = worst_try(seen, context_.rules);
      if (!state || !is_damage(*state) || seen.is_replaced) continue;
      pair.compared.lacking = Lacking::Older;
      pair.compared.now = *state;
      pair.compared.after = seen.run;
      return;
    }
  }

  // Of two results with the same code, of which one is no evidence. One try of several that ends in damage shows that
  // the test can, whatever the others show.
  std::optional<Transition> transition_of_unclear(Candidate& candidate) const {
    const Pair& pair = candidate.pair;
    const auto now = worst_try(pair.to, context_.rules), before = worst_try(pair.from, context_.rules);
    const bool is_damaged = now && is_damage(*now);
    if (is_damaged && before) return Transition{.before = *before, .now = *now, .from = pair.from};
    const bool older = has_judged(candidate.before), newer = is_damaged || has_evidence(*pair.to.row);
    set_lacking(candidate, newer ? Lacking::Older : older ? Lacking::Newer : Lacking::Both);
    return std::nullopt;
  }

  // The releases whose records are older than the case.
  std::vector<std::string> releases_to_run(const Seen& before, const Seen& now) const {
    std::vector<std::string> releases;
    for (const Seen& seen : {before, now}) {
      const Record& record = seen.run->record;
      if (context_.rules.is_stale_test(record, seen.row->test)) releases.push_back(record.env("release"));
    }
    return releases;
  }

  static void set_unknown(Pair& pair, Unknown unknown, WhichSide side = WhichSide::Both) {
    pair.compared.consequence = Consequence::Unknown;
    pair.compared.change = {};
    unknown.side = side;
    pair.compared.unknown = std::move(unknown);
  }

  bool is_clear(Pair& pair) const {
    for (const auto& [seen, side] : {std::pair(&pair.from, WhichSide::From), std::pair(&pair.to, WhichSide::To)}) {
      const TestVerdict& row = *seen->row;
      if (row.verdict == Verdict::NotApplicable) {
        // Where the case cannot run, nothing is known of the release: a fix that holds later may have held before.
        const auto* expected =
            find_expectation(context_.rules.expectations, row.test, seen->run->record, seen->run->neighbour);
        if (expected != nullptr && expected->inapplicable) {
          set_unknown(pair, {.kind = UnknownKind::CannotTell, .text = truncated(render_observed(row))}, side);
          pair.compared.ran = false;
          return false;
        }
      }
      if (row.result != Result::Invalid && row.verdict != Verdict::Inconclusive && row.verdict != Verdict::Missing) {
        continue;
      }
      set_unknown(pair, {.kind = UnknownKind::Unclear, .verdict = row.verdict, .text = truncated(render_observed(row))},
                  side);
      return false;
    }
    return true;
  }

  // Nothing if a side has no such API, and the test is not a Fix.
  static std::optional<Transition> transition_of(Pair& pair) {
    Transition transition{.before = pair.from.state(), .now = pair.to.state(), .from = pair.from};
    if (show_the_same(pair.from, pair.to)) transition.now = transition.before;
    if (consequence_of(pair.to.row->kind, transition.before, transition.now) != Consequence::Unknown) {
      return transition;
    }
    const bool is_first = transition.before == State::Absent;
    const Seen& absent = is_first ? pair.from : pair.to;
    set_unknown(pair, {.kind = UnknownKind::NotApplicable, .text = reason_of_absence(absent)},
                is_first ? WhichSide::From : WhichSide::To);
    pair.compared.ran = false;
    return std::nullopt;
  }

  // The runs with the same code as this one.
  std::vector<RateRun> runs_like(const Seen& wanted, const std::vector<Seen>& all) const {
    std::vector<RateRun> runs;
    for (const Seen& seen : all) {
      const bool counts = seen.row->result == Result::Reproduced || seen.row->result == Result::Unseen;
      if (!counts || seen.run->record.is_shard() || !same_code(wanted, seen)) continue;
      const TestRecord& test = seen.test();
      runs.push_back({test.hits(), test.tries(), stopping_of(test)});
    }
    return runs;
  }

  // The newest run with this one's code that crashed or hung; nullptr if none did.
  const Seen* ended_early(const Seen& wanted, const std::vector<Seen>& all) const {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Seen& seen) {
      return (seen.row->result == Result::Crashed || seen.row->result == Result::Hung) && same_code(wanted, seen);
    });
    return found == all.end() ? nullptr : &*found;
  }

  // One run that shows a race proves that it occurs. Only several runs can show that it does not.
  std::optional<Transition> transition_of_race(Candidate& candidate) const {
    Pair& pair = candidate.pair;
    const auto &of_from = candidate.before, &of_to = candidate.after;
    const auto before = runs_like(pair.from, of_from), after = runs_like(pair.to, of_to);
    const auto occurrences = [](const std::vector<RateRun>& runs) {
      const auto hits = std::ranges::count_if(runs, [](const RateRun& run) { return run.hits > 0; });
      return Occurrences{static_cast<size_t>(hits), runs.size()};
    };
    // One run that ends in a crash or a hang shows that the test can, as one hit does. Its tries cannot be counted.
    const Seen* const ended_now = ended_early(pair.to, of_to);
    if (ended_now != nullptr && (after.empty() || ended_early(pair.from, of_from) == nullptr)) {
      pair.to = *ended_now;
      pair.compared.after = ended_now->run;
      return is_clear(pair) ? transition_of(pair) : transition_of_unclear(candidate);
    }
    if (before.empty() || after.empty()) {
      set_unknown(pair, {.kind = UnknownKind::RateOnOneSide});
      if (after.empty()) set_lacking(candidate, Lacking::Newer);
      return std::nullopt;
    }
    // The newest run of a side need not show the race.
    const auto shown = [](const std::vector<Seen>& runs, const Seen& newest) {
      const auto found =
          std::ranges::find_if(runs, [](const Seen& seen) { return seen.row->result == Result::Reproduced; });
      return found == runs.end() ? newest : *found;
    };
    const Occurrences earlier = occurrences(before), later = occurrences(after);
    if (later.count > 0 && is_surely_higher(before, after)) {
      const auto tries = [](const std::vector<RateRun>& runs) {
        Occurrences all;
        for (const RateRun& run : runs) {
          all.count += static_cast<size_t>(run.hits);
          all.all += static_cast<size_t>(run.tries);
        }
        return all;
      };
      pair.to = shown(of_to, pair.to);
      return Transition{
          .now = pair.to.state(), .rates = std::pair(tries(before), tries(after)), .by_tries = true, .from = pair.from};
    }
    for (const auto& [rate, side] : {std::pair(earlier, WhichSide::From), std::pair(later, WhichSide::To)}) {
      if (rate.count > 0 || rate.all >= kFewestRuns) continue;
      set_unknown(pair, {.kind = UnknownKind::TooFewRuns, .runs = rate.all}, side);
      if (later.count > 0) set_lacking(candidate, Lacking::Older);
      return std::nullopt;
    }
    const auto state_in = [](const Occurrences& rate, const Seen& seen) {
      if (rate.count == 0) return State::Works;
      return seen.row->result == Result::Reproduced ? seen.state() : State::Raises;
    };
    const Seen from = earlier.count > 0 ? shown(of_from, pair.from) : pair.from;
    const Seen to = later.count > 0 ? shown(of_to, pair.to) : pair.to;
    Transition transition{.before = state_in(earlier, from),
                          .now = state_in(later, to),
                          .rates = std::pair(earlier, later),
                          .from = from};
    // A race that occurs on both sides is compared by no more than that.
    if (earlier.count > 0 && later.count > 0) transition.now = transition.before;
    return transition;
  }

  CaseState state_of_case(const std::vector<Candidate>& candidates) const {
    CaseState state;
    bool is_open = false, heals = false;
    for (const auto& [before_runs, after_runs, pair, transition] : candidates) {
      if (kind_of_id(pair.compared.test) != Kind::Reproduces) continue;
      if (pair.to.row == nullptr) {  // A form that failed before and has no result now may still fail.
        is_open = is_open || (!before_runs.empty() && after_runs.empty());
        continue;
      }
      const State before = transition ? transition->before : pair.from.state();
      const State now = transition ? transition->now : pair.to.state();
      const Consequence consequence = transition ? consequence_of(Kind::Reproduces, before, now) : Consequence::Unknown;
      heals = heals || consequence == Consequence::Healed;
      if (now == State::Works || now == State::Absent || pair.to.row->result == Result::Invalid) continue;
      state.fails = true;
      const bool is_worse = is_regression(consequence) ||
                            (consequence == Consequence::Same && aftermath_of(pair, now) == Aftermath::Worse);
      if (!state.silent && is_silent(before) && is_silent(now) && !is_worse) state.silent = now;
    }
    state.is_healed = heals && !state.fails && !is_open;
    return state;
  }

  static void set_change(Pair& pair, Consequence consequence, Change change) {
    pair.compared.consequence = consequence;
    change.facts.kind = pair.to.row->kind;
    pair.compared.change = std::move(change);
  }

  void compare(Pair& pair, const Transition& transition, const CaseState& of_case) const {
    const bool is_later = pair.to.row->kind == Kind::Operator && pair.to.row->case_id == kLaterCase;
    // A graph that is no longer right was captured before and after, so an effect changes. Other operators are no other
    // forms of it.
    const Kind kind = is_later ? Kind::Reproduces : pair.to.row->kind;
    const auto& [before, now, rates, by_tries, from] = transition;
    // Whether such a replay crashes or has other values is chance: what lies in the memory that it reads.
    const bool is_wrong_in_both = is_later && before != State::Works && now != State::Works;
    const Consequence consequence = is_wrong_in_both ? Consequence::Same : consequence_of(kind, before, now);
    pair.compared.consequence = consequence;
    if (kind == Kind::Operator) {
      // Only the states, so that all operators with the same change are one group.
      if (consequence != Consequence::Same) {
        set_change(pair, consequence, {ChangeKind::Capture, {.state = before}, {.state = now}});
      }
      if (!is_regression(consequence)) compare_forms(pair, now);
    } else if (kind != Kind::Reproduces) {
      if (consequence != Consequence::Same) compare_holding(pair, consequence, transition, of_case);
    } else if (consequence == Consequence::Healed && !is_silent(before) && of_case.silent && !is_later) {
      // The sign is gone, the damage is not.
      set_change(pair, Consequence::BrokenHandlers,
                 {ChangeKind::Sign, effect_in(from, before), {.state = *of_case.silent}});
    } else if (consequence == Consequence::Same) {
      if (!rates && before == now && !is_later) compare_errors(pair, now);
    } else {
      Change change{ChangeKind::Effect, effect_in(pair.from, before), effect_in(pair.to, now)};
      if (rates) {
        const auto& [earlier, later] = *rates;
        change = {by_tries ? ChangeKind::Tries : ChangeKind::Rate,
                  {.state = before, .count = earlier.count, .all = earlier.all},
                  {.state = now, .count = later.count, .all = later.all}};
      }
      change.notes.has_other_forms = consequence == Consequence::Healed && of_case.fails && !is_later;
      set_change(pair, consequence, std::move(change));
    }
  }

  // The worst form of an operator can be as before, or gone, while another form fails now or has no result.
  static void compare_forms(Pair& pair, State state) {
    const auto &then = pair.from.operators(), &now = pair.to.operators();
    if (const auto lost = lost_samples(then, now)) {
      const auto damage_of = [](OperatorVerdict verdict) {
        return verdict == OperatorVerdict::Wrong     ? State::SilentlyWrong
               : verdict == OperatorVerdict::Hung    ? State::Hangs
               : verdict == OperatorVerdict::Crashed ? State::Crashes
                                                     : State::Works;
      };
      const auto share = [](const OperatorSamples& samples) {
        return Outcome{.count = samples.captured, .all = samples.captured + samples.failed};
      };
      const bool is_new_damage = is_damage(damage_of(lost->now)) && !is_damage(damage_of(lost->before));
      Change change{ChangeKind::Samples, share(lost->samples_before), share(lost->samples_now)};
      if (is_new_damage) change.to.state = damage_of(lost->now);
      change.facts.form = lost->form;
      change.facts.type = escape_control(lost->type);
      set_change(pair, is_new_damage ? Consequence::NewDamage : Consequence::NotCapturable, std::move(change));
      return;
    }
    if (state != State::Works) return;
    if (const auto form = form_without_result(then, now)) {
      set_unknown(pair, {.kind = UnknownKind::FormWithoutResult, .form = *form}, WhichSide::To);
    }
  }

  // A Control or a Fix.
  void compare_holding(Pair& pair, Consequence consequence, const Transition& transition,
                       const CaseState& of_case) const {
    const State before = transition.before, now = transition.now;
    const CatalogueTest* fix = fix_of(*pair.to.row);
    const bool stopped = consequence == Consequence::StoppedHolding && now == State::Absent;
    const bool is_for_older = stopped && fix != nullptr && !in_range(pair.to.run->record.env("release"), fix->releases);
    if (is_for_older || (stopped && of_case.is_healed)) {  // Nothing is left to fix.
      pair.compared.consequence = Consequence::Same;
      return;
    }
    const auto outcome = [](const Seen& seen, State state) {
      const bool is_plain = state == State::Works || state == State::Absent || state == State::Raises;
      return is_plain ? Outcome{.state = state} : effect_in(seen, state);
    };
    Change change{ChangeKind::Holding, outcome(pair.from, before), outcome(pair.to, now)};
    if (now == State::Absent) change.to.text = reason_of_absence(pair.to);
    if (now == State::Raises) change.to.text = truncated(to_string(pair.to.row->observed));
    if (fix != nullptr) change.facts.fix = fix->fix;
    set_change(pair, consequence, std::move(change));
  }

  // If a test ended before it saw its failure, its probes show the effects of that end.
  static Aftermath aftermath_of(const Pair& pair, State state) {
    const TestRecord &then = pair.from.test(), &now = pair.to.test();
    const bool is_comparable = state != State::Works && then.has_seen() && now.has_seen();
    return is_comparable ? compare_aftermath(then, now) : Aftermath::Same;
  }

  // Two failures with the same effect on a program.
  void compare_errors(Pair& pair, State state) const {
    const TestRecord &then = pair.from.test(), &now = pair.to.test();
    const auto aftermath_change = [&](bool is_better) {
      return Change{ChangeKind::Aftermath,
                    {.probes = changed_probes(now, then, !is_better)},
                    {.probes = changed_probes(then, now, is_better)}};
    };
    const Aftermath aftermath = aftermath_of(pair, state);
    if (aftermath == Aftermath::Worse) {
      set_change(pair, Consequence::BrokenHandlers, aftermath_change(false));
      return;
    }
    auto change = state == State::Works ? changed_observation(pair)
                  : is_damage(state)    ? changed_damage(pair, state)
                                        : changed_error(pair);
    if (change) {
      if (aftermath == Aftermath::Better) change->notes.afterwards = changed_probes(then, now, true);
      set_change(pair, Consequence::ErrorChanged, std::move(*change));
    } else if (aftermath == Aftermath::Better) {
      set_change(pair, Consequence::Recovers, aftermath_change(true));
    }
  }

  // A documented behaviour that is harmless can be harmful where it is neither as documented, healthy nor expected.
  static std::optional<Change> changed_observation(const Pair& pair) {
    if (pair.from.row->verdict != Verdict::Changed && pair.to.row->verdict != Verdict::Changed) return std::nullopt;
    const auto texts = different_texts(pair.from, pair.to);
    if (!texts) return std::nullopt;
    return Change{ChangeKind::Observation, {.text = texts->first}, {.text = texts->second}};
  }

  // Wrong results need not be the same ones, as long as both are what the document says.
  static std::optional<Change> changed_damage(const Pair& pair, State state) {
    if (!is_silent(state) || pair.from.row->result == pair.to.row->result) return std::nullopt;
    const auto texts = different_texts(pair.from, pair.to);
    if (!texts) return std::nullopt;
    return Change{ChangeKind::Damage, {.state = state, .text = texts->first}, {.state = state, .text = texts->second}};
  }

  static std::optional<Change> changed_error(const Pair& pair) {
    const TestRecord &then = pair.from.test(), &now = pair.to.test();
    if (const auto texts = different_texts(pair.from, pair.to)) {
      const auto [earlier, later] = different_errors(pair.from, pair.to, *texts);
      return Change{ChangeKind::Error, earlier, later};
    }
    Outcome earlier{.state = State::Raises}, later = earlier;
    const std::string &type = then.text(key::exception), &new_type = now.text(key::exception);
    if (!type.empty() && !new_type.empty() && type != new_type) {
      earlier.type = escape_control(type);
      later.type = escape_control(new_type);
    }
    std::string call = then.culprit("api"), new_call = now.culprit("api");
    if (call != new_call) {
      call = without_versions(call);
      new_call = without_versions(new_call);
    }
    if (!call.empty() && !new_call.empty() && call != new_call) {
      earlier.call = escape_control(call);
      later.call = escape_control(new_call);
    }
    if (earlier == later) return std::nullopt;
    return Change{ChangeKind::Origin, earlier, later};
  }

  const CatalogueTest* fix_of(const TestVerdict& row) const {
    if (row.kind != Kind::Fix) return nullptr;
    const CatalogueCase* found = context_.find(row.case_id);
    if (found == nullptr) return nullptr;
    const auto test = std::find_if(found->tests.begin(), found->tests.end(),
                                   [&](const CatalogueTest& each) { return each.name == row.name; });
    return test == found->tests.end() || test->fix.empty() ? nullptr : &*test;
  }

  const Results &from_, &to_;
  const CompareContext& context_;
};

}  // namespace

std::string without_places(const std::string& text) {
  static const RE2 kLine(R"re((\.(?:c|cc|cpp|cu|cuh|h|hpp|py)"?(?::|, line ))\d+)re", RE2::Latin1);
  static const RE2 kFolder(R"re((?:\.\.|/[\w.-]+)(?:/[\w.-]+)*/((?:aten|c10|caffe2|torch)/))re", RE2::Latin1);
  return replace_all(replace_all(without_versions(text), kLine, "\\1"), kFolder, "\\1");
}

// What a comparison reads in a line, for the comparisons with all other sides.
struct Seen::Line {
  std::once_flag is_read;
  std::unique_ptr<const std::pair<Facts, std::vector<OperatorResult>>> read;
};

const Seen::Facts& Seen::facts() const { return line().read->first; }
const std::vector<OperatorResult>& Seen::operators() const { return line().read->second; }

const Seen::Line& Seen::line() const {
  std::call_once(line_->is_read, [&] {
    Facts facts;
    std::vector<OperatorResult> operators;
    if (row->kind == Kind::Operator) {
      operators = operator_results(test());
      for (OperatorResult& result : operators) {
        result.failures = {};
        result.decides = nullptr;
      }
    } else {
      const Result result = classify(row->kind, test());
      facts = {result,
               without_places(test().seen()),
               without_places(recapture::shown(result, test())),
               test().code(),
               test().error(),
               test().has(key::exception),
               test().text(key::ended)};
    }
    line_->read =
        std::make_unique<const std::pair<Facts, std::vector<OperatorResult>>>(std::move(facts), std::move(operators));
  });
  return *line_;
}

Seen::Seen(const JudgedRun* run, const TestVerdict* row) : Seen({run, row, run->record.find(row->test), {}}) {}

Seen::Seen(const TestRun& result) : run(result.run), row(result.row), test_(result.line) {
  const auto found = run->record.cases.find(row->case_id);
  if (found != run->record.cases.end()) info = &found->second;
  has_rate = test_ != nullptr && test_->has_rate() && row->kind == Kind::Reproduces;
}

Results::Results(const Side& side, const Counts& counts) : side_(side) {
  const std::string gpu = side.runs.empty() ? "" : side.runs.front().record.environment.machine.gpu;
  const ResultStore store(std::span(side.runs), nullptr, counts);
  of_other_shards_ = planned_with_shards(side.runs);
  for (const std::string& test : store.tests()) {
    const TestRuns of_test = store.of(test);
    OfTest& its = tests_.emplace_back();
    for (const TestRun& run : of_test.newest_first(gpu)) {
      its.test = run.row->test;
      if (run.row->ran && run.row->result != Result::Unavailable) {
        Seen& seen = its.ran.emplace_back(run);
        seen.is_replaced = of_test.is_replaced(run);
        seen.line_ = std::make_shared<Seen::Line>();
      } else if (its.silent == nullptr) {
        its.silent = run.row;
      }
    }
    its.is_of_other_shard = of_other_shards_.contains(its.test);
  }
  for (const JudgedRun& run : side.runs) {
    if (is_completed_by(run, side.runs)) continue;
    if (!run.record.end.empty() && run.record.end != "complete") {
      notes_.push_back({.kind = NoteKind::EndedEarly, .side = side.name, .text = run.record.end});
    }
    for (const std::string& note : run.record.notes) {
      notes_.push_back({.kind = NoteKind::OfRun, .side = side.name, .text = escape_control(note)});
    }
  }
}

std::optional<State> worst_try(const Seen& seen, const Rules& rules) {
  const TestVerdict& row = *seen.row;
  const bool is_mixed = has_mixed_tries(row);
  if (!is_mixed && !has_evidence(row)) return std::nullopt;
  const State first = is_mixed ? state_of_try(seen, seen.test(), rules) : seen.state();
  const auto again = seen.run->record.confirmations.find(row.test);
  if (!is_mixed || is_damage(first) || again == seen.run->record.confirmations.end()) return first;
  for (const TestRecord& repetition : again->second) {
    if (const State state = state_of_try(seen, repetition, rules); is_damage(state)) return state;
  }
  return first;
}

const OfTest& Results::of(std::string_view test) const {
  const auto found = std::ranges::lower_bound(tests_, test, {}, &OfTest::test);
  return found == tests_.end() || found->test != test ? none(test) : *found;
}

const OfTest& Results::none(std::string_view test) const {
  static const OfTest kNone, kOfOtherShard{.is_of_other_shard = true};
  return of_other_shards_.contains(test) ? kOfOtherShard : kNone;
}

Unknown OfTest::why_not() const {
  if (silent == nullptr) return {.kind = is_of_other_shard ? UnknownKind::ShardMissing : UnknownKind::NotPlanned};
  if (!silent->ran) return {.kind = UnknownKind::CutShort};
  return {.kind = UnknownKind::CannotRun, .text = truncated(render_observed(*silent))};
}

bool OfTest::is_without() const {
  const auto is_absent = [](const Seen& seen) { return seen.row->result == Result::Inapplicable; };
  return ran.empty() ? !tried() : std::ranges::all_of(ran, is_absent);
}

std::vector<Pair> pairs_of(const Side& from, const Side& to, const CompareContext& context) {
  return pairs_of(Results(from), Results(to), context);
}

std::vector<Pair> pairs_of(const Results& from, const Results& to, const CompareContext& context) {
  return Comparer(from, to, context).pairs();
}

}  // namespace recapture::compare

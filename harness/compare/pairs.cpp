#include "harness/compare/pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <optional>
#include <regex>
#include <utility>

#include "harness/case/events.h"
#include "harness/case/signature.h"
#include "harness/judge/index.h"
#include "harness/judge/rate.h"
#include "harness/judge/version.h"
#include "harness/record/visible.h"

namespace recapture {
namespace {

constexpr Consequence kSame = Consequence::Same, kNew = Consequence::NewFailure, kSilent = Consequence::SilentNow,
                      kError = Consequence::ErrorChanged, kLoud = Consequence::LoudNow, kGone = Consequence::Gone;
// A failure before (rows) and now (columns), in the order of State. On the diagonal it may still be another failure.
constexpr std::array<std::array<Consequence, 5>, 5> kTable = {{
    // Works Warns  Raises Ends   Silent
    {{kSame, kError, kNew, kNew, kNew}},       // Works
    {{kGone, kSame, kNew, kNew, kSilent}},     // Warns
    {{kGone, kGone, kSame, kNew, kSilent}},    // Raises
    {{kGone, kGone, kError, kSame, kSilent}},  // Ends
    {{kGone, kLoud, kLoud, kLoud, kSame}},     // Silent
}};
// "CUDA error 900", or the text of what was raised.
std::string failure_words(const std::string& failure) {
  if (const int code = code_of_failure(failure); code != 0) return fmt::format("CUDA error {}", code);
  for (const std::string begin : {"check \"", "assert \""}) {
    if (failure.rfind(begin, 0) == 0 && failure.size() > begin.size() && failure.back() == '"') {
      return fmt::format("\"{}\"", cut(failure.substr(begin.size(), failure.size() - begin.size() - 1)));
    }
  }
  return cut(failure);
}

std::string error_words(const Seen& seen) {
  const std::string text = seen.test().text(key::seen);
  if (const auto signature = Signature::read(text)) {
    const bool at_end = signature->first == "ok";
    return fmt::format("{}{}{}", failure_words(at_end ? signature->end : signature->first),
                       at_end ? " at the end of the capture" : "",
                       signature->status == "invalidated" ? ", invalidating the capture" : "");
  }
  if (!text.empty()) return failure_words(text);
  return seen.row->seen.empty() ? "an error" : cut(seen.row->seen);
}

// The reason alone, which a test begins with "Not applicable: ".
std::string why_lacking(const Seen& seen) {
  constexpr std::string_view kBegin = "Not applicable: ";
  const std::string& words = seen.row->seen;
  return cut(words.rfind(kBegin, 0) == 0 ? words.substr(kBegin.size()) : words);
}

// What a test says that it saw, without what another build or compiler changes: versions of calls, lines of sources,
// and the folder that PyTorch was built in ("../c10/", "/pytorch/c10/").
std::string without_places(const std::string& text) {
  static const std::regex kLine(R"re((\.(?:c|cc|cpp|cu|cuh|h|hpp|py)"?(?::|, line ))\d+)re");
  static const std::regex kFolder(R"re((?:\.\.|/[\w.-]+)(?:/[\w.-]+)*/(?=(?:aten|c10|caffe2|torch)/))re");
  return std::regex_replace(std::regex_replace(without_versions(text), kLine, "$1"), kFolder, "");
}

// A text cut so that it shows where it begins to differ from another one.
std::string cut_where(const std::string& text, const std::string& other) {
  const auto same = std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first - text.begin();
  constexpr std::ptrdiff_t kSeen = 60, kBefore = 30;
  if (same < kSeen) return cut(text);
  return "..." + cut(text.substr(static_cast<size_t>(same - kBefore)));
}

// An error, as error_words() has it, or an exception with its type: "RuntimeError: …".
bool is_error(const std::string& words) {
  static const std::regex kError(R"re(^(?:CUDA error |an error|"|\.\.\.|[\w.]*(?:Error|Exception|Failed)\b))re");
  return std::regex_search(words, kError);
}

// "raised CUDA error 900" of the past, or what a test calls by other words than an error's.
std::string failing(State state, bool past, const std::string& words) {
  if (state == State::Warns) return (past ? "warned of " : "warns of ") + words;
  constexpr std::string_view kRaised = "raised ";
  if (words.rfind(kRaised, 0) == 0) return past ? words : "raises " + words.substr(kRaised.size());
  return (is_error(words) ? past ? "raised " : "raises " : past ? "showed " : "shows ") + words;
}

// "raised CUDA error 900" of the past, "raises …" of today.
std::string what_it_does(const Seen& seen, bool past) {
  const auto either = [&](const char* then, const char* now) { return std::string(past ? then : now); };
  switch (state_of(*seen.row)) {
    case State::Works:  // A documented failure that harms nobody does not work for all that: emptyCache() does nothing.
      return seen.row->result == Result::Reproduced ? either("raised nothing", "raises nothing")
                                                    : either("worked", "works");
    case State::Warns:
      return either("warned", "warns");
    case State::Raises:
      return failing(State::Raises, past, error_words(seen));
    case State::Ends:
      return seen.row->result == Result::Hung || seen.row->effect == word(Effect::Hangs) ? either("hung", "hangs")
                                                                                         : either("crashed", "crashes");
    case State::Lacking:
      return either("was not there", "is not there any more");
    case State::Silent:
      break;
  }
  return seen.row->effect == word(Effect::Leaks)
             ? either("leaked", "leaks, without an error")
             : either("went on with wrong numbers", "goes on with wrong numbers, without an error");
}
class Comparer {
 public:
  Comparer(const Side& from, const Side& to, const Background& background)
      : from_(from), to_(to), background_(background) {}

  std::vector<Pair> pairs() const {
    std::set<std::string> tests;
    from_.add_tests(tests);
    to_.add_tests(tests);
    std::map<std::string, std::vector<Pair>> cases;
    for (const std::string& test : tests) {
      if (is_of_today(test)) cases[case_of(test)].push_back(pair_of(test));
    }
    std::vector<Pair> all;
    for (auto& [id, pairs] : cases) {
      mind_the_others(pairs);
      std::move(pairs.begin(), pairs.end(), std::back_inserter(all));
    }
    return all;
  }

  // Whether both ran the same code of the case.
  bool same_code(const Seen& a, const Seen& b) const {
    const Record &one = a.run->record, &other = b.run->record;
    const std::string& id = a.row->case_id;
    const auto its = one.cases.find(id), that = other.cases.find(id);
    if (its == one.cases.end() || that == other.cases.end()) return false;
    const bool old = one.format() < 2;
    if (old == (other.format() < 2)) {
      return old ? source_hash(its->second.hash) == source_hash(that->second.hash)
                 : its->second.hash == that->second.hash;
    }
    // The two formats count different things, and what both agree with is the tree.
    const Rules& rules = background_.rules;
    return !rules.tree.empty() && !rules.stale(one, id) && !rules.stale(other, id);
  }

 private:
  // Records know tests that the case no longer has, and of which nobody can be told anything.
  bool is_of_today(const std::string& test) const {
    const CatalogueCase* one = background_.find(case_of(test));
    return one == nullptr || std::any_of(one->tests.begin(), one->tests.end(),
                                         [&](const CatalogueTest& its) { return its.name == name_of(test); });
  }

  std::string source_hash(const std::string& recorded) const {
    const auto& known = background_.rules.old_hashes;
    const auto found = known.find(recorded);
    return found == known.end() ? recorded : found->second;
  }

  Pair pair_of(const std::string& test) const {
    Pair pair;
    pair.compared.test = test;
    const auto &before = from_.of(test), &after = to_.of(test);
    if (before.empty() || after.empty()) {
      const Results& silent = before.empty() ? from_ : to_;
      pair.compared.sentence = silent.why_not(test);
      pair.compared.ran = !silent.tried(test);
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
      pair.compared.sentence = fmt::format("not comparable: {} and {} ran different code of the case{}", from_.name(),
                                           to_.name(), advice(before.front(), after.front()));
    } else if (pair.from.test().has(key::tries) || pair.to.test().has(key::tries)) {
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
      if (background_.rules.stale(record, seen.row->case_id)) releases.push_back(record.where("release"));
    }
    return releases.empty() ? "" : fmt::format("; `ci/suite {}` runs today's", fmt::join(releases, " "));
  }

  void decide(Pair& pair, Consequence consequence) const {
    pair.compared.consequence = consequence;
    if (consequence == Consequence::Same) return;
    pair.compared.sentence = fmt::format("{} in {}; in {} it {}", what_it_does(pair.from, true), from_.name(),
                                         to_.name(), what_it_does(pair.to, false));
  }

  bool is_clear(Pair& pair) const {
    for (const auto& [seen, name] : {std::pair(pair.from, from_.name()), std::pair(pair.to, to_.name())}) {
      const Row& row = *seen.row;
      if (is_ours(background_.changes, row.test, seen.run->record)) {
        pair.compared.sentence = fmt::format("cannot tell in {}: {}", name, kOurs);
        pair.compared.ran = false;
        return false;
      }
      if (row.result != Result::Invalid && row.verdict != Verdict::Inconclusive && row.verdict != Verdict::Missing) {
        continue;
      }
      pair.compared.sentence = fmt::format("{} in {}: {}", word(row.verdict), name, cut(row.seen));
      return false;
    }
    return true;
  }

  void compare_results(Pair& pair) const {
    if (!is_clear(pair)) return;
    const State before = state_of(*pair.from.row), now = state_of(*pair.to.row);
    const Kind kind = pair.to.row->kind;
    if (kind == Kind::Fix) {
      const bool is_gone = before == State::Works && now != State::Works;
      pair.compared.consequence = is_gone ? Consequence::RemedyGone : Consequence::Same;
      if (!is_gone) return;
      const std::string fix = sentence_of_fix(pair.to.row->case_id, pair.to.row->name);
      pair.compared.sentence =
          fmt::format("the remedy \"{}\" held in {}, and {} in {}: {}", fix, from_.name(),
                      now == State::Lacking ? "cannot be had" : "does not", to_.name(), why_lacking(pair.to));
      return;
    }
    if (before == State::Lacking || now == State::Lacking) {
      const bool is_first = before == State::Lacking;
      pair.compared.sentence = fmt::format("not applicable in {}: {}", is_first ? from_.name() : to_.name(),
                                           why_lacking(is_first ? pair.from : pair.to));
      pair.compared.ran = false;
      return;
    }
    if (kind == Kind::Control) {
      const bool fails = before == State::Works && now != State::Works;
      pair.compared.consequence = fails ? Consequence::NewFailure : Consequence::Same;
      if (!fails) return;
      pair.compared.sentence = fmt::format("held in {}, and fails in {} even without the cause: {}", from_.name(),
                                           to_.name(), cut(pair.to.row->seen));
      return;
    }
    decide(pair, kTable.at(static_cast<size_t>(before)).at(static_cast<size_t>(now)));
    if (before == now) compare_errors(pair, now);
  }

  // Two failures that do the same to a program.
  void compare_errors(Pair& pair, State state) const {
    const TestRecord &then = pair.from.test(), now = pair.to.test();
    const auto say = [&](const std::string& words) {
      pair.compared.consequence = Consequence::ErrorChanged;
      pair.compared.sentence = words;
    };
    const std::string before = without_places(then.text(key::seen)), after = without_places(now.text(key::seen));
    if (state == State::Silent) {
      // Wrong numbers need not be the same ones, as long as both are what the document says.
      if (before != after && pair.from.row->result != pair.to.row->result) {
        say(fmt::format("went on with other wrong results in {} ({}) than in {} ({})", from_.name(),
                        cut_where(before, after), to_.name(), cut_where(after, before)));
      }
      return;
    }
    if (state != State::Raises && state != State::Warns) return;
    const std::string type = then.text(key::exception), new_type = now.text(key::exception);
    const std::string call = without_versions(then.culprit("api")), new_call = without_versions(now.culprit("api"));
    if (before != after) {
      const std::string one = error_words(pair.from), other = error_words(pair.to);
      const bool told = one != other;
      say(fmt::format("{} in {}; in {} it {}", failing(state, true, told ? one : cut_where(before, after)),
                      from_.name(), to_.name(), failing(state, false, told ? other : cut_where(after, before))));
      return;
    }
    std::vector<std::string> differences;
    if (!type.empty() && !new_type.empty() && type != new_type) {
      differences.push_back(
          fmt::format("was a {} in {}, and is a {} in {}", visible(type), from_.name(), visible(new_type), to_.name()));
    }
    if (!call.empty() && !new_call.empty() && call != new_call) {
      differences.push_back(fmt::format("came from {} in {}, and comes from {} in {}", visible(call), from_.name(),
                                        visible(new_call), to_.name()));
    }
    if (differences.empty()) return;
    pair.same_error = true;
    say(fmt::format("the same error {}", fmt::join(differences, "; it ")));
  }

  // Of the runs with the same code as this one.
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

  // One run that shows a race says that it occurs. That it does not, only several can say.
  void compare_rates(Pair& pair) const {
    if (!is_clear(pair)) return;
    const std::string& test = pair.compared.test;
    const auto before = runs_like(pair.from, from_.of(test)), after = runs_like(pair.to, to_.of(test));
    const auto hits = [](const std::vector<RateRun>& runs) {
      return std::count_if(runs.begin(), runs.end(), [](const RateRun& run) { return run.hits > 0; });
    };
    if (after.empty() && state_of(*pair.to.row) == State::Ends) {
      compare_results(pair);  // What should be counted crashed.
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
    pair.compared.consequence = hits(after) > 0 ? Consequence::NewFailure : Consequence::Gone;
    pair.compared.sentence =
        fmt::format("a race that occurred in {} of {} runs of {}, and in {} of {} of {}", hits(before), before.size(),
                    from_.name(), hits(after), after.size(), to_.name());
  }

  // What one test says may mean something else beside the others of its case.
  void mind_the_others(std::vector<Pair>& pairs) const {
    const auto fails_now = [](const Pair& pair) {
      if (pair.to.row == nullptr || pair.to.row->kind != Kind::Reproduces) return false;
      const State state = state_of(*pair.to.row);
      return state != State::Works && state != State::Lacking && pair.to.row->result != Result::Invalid;
    };
    const auto still_silent = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      return fails_now(pair) && pair.compared.consequence == Consequence::Same &&
             state_of(*pair.to.row) == State::Silent;
    });
    const bool fails = std::any_of(pairs.begin(), pairs.end(), fails_now);
    const bool is_gone = !fails && std::any_of(pairs.begin(), pairs.end(), [](const Pair& pair) {
      return pair.compared.consequence == Consequence::Gone;
    });
    for (Pair& pair : pairs) {
      ComparedTest& compared = pair.compared;
      if (compared.consequence == Consequence::RemedyGone && is_gone && state_of(*pair.to.row) == State::Lacking) {
        compared.consequence = Consequence::Same;  // Nothing is left to remedy.
        compared.sentence.clear();
      }
      if (compared.consequence != Consequence::Gone) continue;
      const bool was_seen = state_of(*pair.from.row) != State::Silent;
      if (was_seen && still_silent != pairs.end()) {
        // The sign has gone, and not the damage.
        compared.consequence = Consequence::SilentNow;
        compared.sentence =
            fmt::format("{} in {}; in {} that sign is gone, and it still {}", what_it_does(pair.from, true),
                        from_.name(), to_.name(), what_it_does(still_silent->to, false));
      } else if (fails) {
        compared.sentence += "; other forms of this failure remain";
      }
    }
  }

  std::string sentence_of_fix(const std::string& case_id, const std::string& name) const {
    if (const CatalogueCase* one = background_.find(case_id)) {
      for (const CatalogueTest& test : one->tests) {
        if (test.name == name && !test.fix.empty()) return test.fix;
      }
    }
    return name;
  }

  Results from_, to_;
  const Background& background_;
};
}  // namespace

State state_of(const Row& row) {
  if (row.result == Result::Inapplicable) return State::Lacking;
  if (row.result == Result::Crashed || row.result == Result::Hung) return State::Ends;
  if (row.result == Result::Healthy || row.result == Result::Holds || row.result == Result::Unseen) return State::Works;
  if (row.result == Result::Broken) return State::Raises;
  switch (effect_of(row.effect).value_or(Effect::SilentlyWrong)) {
    case Effect::Works:
      return State::Works;
    case Effect::Warns:
      return State::Warns;
    case Effect::Raises:
      return State::Raises;
    case Effect::Crashes:
    case Effect::Hangs:
      return State::Ends;
    default:
      return State::Silent;
  }
}
Results::Results(const Side& side) : side_(side) {
  for (const Judged& run : side.runs) {
    for (const Row& row : run.rows) {
      if (row.ran && row.result != Result::Unavailable) {
        ran_[row.test].push_back({&run, &row});
      } else {
        why_not_.emplace(row.test, row.ran ? "cannot run in " + side.name + ": " + cut(row.seen)
                                           : "not run in " + side.name + ", whose run is not whole");
      }
    }
  }
  for (auto& [test, seen] : ran_) {  // The runs of several machines follow each other.
    std::stable_sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
      return started(a.run->record.environment) > started(b.run->record.environment);
    });
  }
}

const std::vector<Seen>& Results::of(const std::string& test) const {
  static const std::vector<Seen> kNone;
  const auto found = ran_.find(test);
  return found == ran_.end() ? kNone : found->second;
}

std::string Results::why_not(const std::string& test) const {
  const auto found = why_not_.find(test);
  return found == why_not_.end() ? "not part of any run of " + side_.name : found->second;
}

void Results::add_tests(std::set<std::string>& tests) const {
  for (const auto& [test, seen] : ran_) tests.insert(test);
  for (const auto& [test, why] : why_not_) tests.insert(test);
}

std::vector<Pair> pairs_of(const Side& from, const Side& to, const Background& background) {
  return Comparer(from, to, background).pairs();
}

}  // namespace recapture

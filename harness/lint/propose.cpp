#include "harness/lint/propose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/model/release.h"

namespace recapture::lint {
namespace {

using Lines = std::vector<std::string>;

std::string quoted(const std::string& text) {
  if (text.find('\'') == std::string::npos && escape_control(text) == text) return "'" + text + "'";
  return Json(text).dump(-1, ' ', true);  // A JSON string is a valid TOML string.
}

std::string where_line(const Where& where) {
  Lines parts;
  for (const auto& [key, value] :
       {std::pair("release", where.release), std::pair("gpu", where.gpu), std::pair("driver", where.driver),
        std::pair("cuda_runtime", where.cuda_runtime), std::pair("nccl", where.nccl)}) {
    if (!value.empty()) parts.push_back(fmt::format("{} = {}", key, Json(value).dump()));
  }
  return fmt::format("  where = {{ {} }}", fmt::join(parts, ", "));
}

// `e` for these tests, below a change that has this reason.
std::string entry_text(const Expectation& e, const Lines& tests, const std::string& reason_of_change) {
  std::string text = "  [[change.expect]]\n  tests = [\n";
  for (const std::string& test : tests) text += fmt::format("    {},\n", Json(test).dump());
  text += fmt::format("  ]\n{}\n  result = \"{}\"\n", where_line(e.where), to_string(e.result));
  if (!e.seen.empty()) text += fmt::format("  seen = {}\n", quoted(e.seen));
  if (e.effect) text += fmt::format("  effect = \"{}\"\n", to_string(*e.effect));
  if (e.why != reason_of_change) text += fmt::format("  why = {}\n", quoted(e.why));
  Lines records;
  for (const std::string& record : e.records) records.push_back(Json(record).dump());
  return text + fmt::format("  records = [{}]\n", fmt::join(records, ", "));
}

// The changed entries, in the file's order, each with its place.
std::string changed_entries(const std::vector<Deviation>& changes, const std::map<std::string, Expectation>& changed) {
  std::string text;
  for (const Deviation& change : changes) {
    std::map<std::string, Lines> tests;
    for (const Expectation& e : change.expectations) tests[e.place].push_back(e.test);
    for (const Expectation& e : change.expectations) {
      const auto entry = changed.find(e.place);
      if (entry == changed.end() || e.test != tests[e.place].front()) continue;
      text += fmt::format("\n# In place of the entry at cases/expectations.toml{}:\n{}",
                          e.place.substr(e.place.rfind(':')), entry_text(entry->second, tests[e.place], change.what));
    }
  }
  return text;
}

bool says(const Expectation& e, const TestVerdict& row, const TestRecord& test) {
  return is_as_expected(e, row.result, shown(row.result, test));
}

// Whether an entry fits the record except for its range of releases.
bool covers_but_for_release(const Expectation& e, const Record& record) {
  Where where = e.where;
  where.release.clear();
  return where.covers(record) && !e.where.covers(record);
}

// Where an entry's records are: '<' before this release, '>' after it, ' ' on both sides.
char side_of_records(const Expectation& e, const std::string& release) {
  char side = '<';
  for (const std::string& record : e.records) {  // "2.11.0/nvidia-h200.jsonl"
    const Release shown(record.substr(0, record.find('/')));
    if (!shown.is_version()) continue;
    const char its_side = Release(release).is_older_than(shown) ? '>' : '<';
    if (&record != &e.records.front() && its_side != side) return ' ';
    side = its_side;
  }
  return side;
}

// 2.16.0 of 2.16.0rc1 and 2.16.0.dev20261124+cu132: a range has a release's numbers, and holds for what precedes it.
std::string base_of(const Release& release) {
  std::string base = release.name().substr(0, release.name().find_first_not_of("0123456789."));
  while (!base.empty() && base.back() == '.') base.pop_back();
  return is_version(base) ? base : release.name();
}

// A result of the newest release holds until a record contradicts it; one of an older release, that a newer one has
// not, of that release alone.
std::string range_of_new_entry(const std::string& release, const std::vector<Expectation>& all) {
  const bool is_newest = std::ranges::none_of(
      releases_on_record(all), [&](const Release& known) { return Release(release).is_older_than(known); });
  return (is_newest ? ">=" : "==") + release;
}

// ">=2.8, <2.11" in its two bounds.
Lines bounds_in(const std::string& range) {
  Lines parts;
  for (size_t at = 0; at < range.size();) {
    const size_t end = std::min(range.find(", ", at), range.size());
    parts.push_back(range.substr(at, end - at));
    at = end + 2;
  }
  return parts;
}

}  // namespace

std::string narrowed(const std::string& range, char side, const std::string& version) {
  Lines parts = bounds_in(range);
  // The range contained the version, so each bound on this side is looser than the new one.
  std::erase_if(parts, [side](const std::string& part) { return part[0] == side; });
  parts.insert(side == '>' ? parts.begin() : parts.end(), fmt::format("{}{}", side, version));
  return join(parts);
}

std::string widened(const std::string& range, const std::string& version) {
  Lines parts;
  for (const std::string& part : bounds_in(range)) {
    if (satisfies(version, part)) {
      parts.push_back(part);
    } else if (part.front() == '=') {
      const std::string only = part.substr(part.find_first_of("0123456789"));
      const bool is_before = Release(version).is_older_than(Release(only));
      parts.push_back(fmt::format(">={}, <={}", is_before ? version : only, is_before ? only : version));
    } else {
      parts.push_back(fmt::format("{}={}", part.front(), version));
    }
  }
  return join(parts);
}

Proposal propose(const JudgedRun& run, const std::vector<Deviation>& changes, const std::string& name) {
  const Record& record = run.record;
  Proposal proposal;
  std::map<std::string, Expectation> changed;  // By place.
  const std::string release = base_of(record.environment.release);
  const auto all = expectations_of(changes);
  std::map<std::tuple<Result, std::string, std::string>, Lines> causes;  // Result, documented and seen, with the tests.
  std::map<std::string, const TestVerdict*> by_test;
  for (const TestVerdict& row : run.rows) by_test[row.test] = &row;
  // An entry may list several tests; its range must be right for all of them.
  const auto any_of_entry = [&](const std::string& place, const auto& predicate) {
    return std::ranges::any_of(all, [&](const Expectation& e) {
      const auto row = by_test.find(e.test);
      return e.place == place && row != by_test.end() && row->second->ran && predicate(e, *row->second);
    });
  };
  const auto add_record = [&](Expectation& e) { add_once(e.records, name); };
  const auto as_expected = [](const Expectation&, const TestVerdict& row) {
    return row.verdict == Verdict::AsExpected;
  };
  const auto says_else = [&](const Expectation& e, const TestVerdict& row) {
    return !says(e, row, *record.find(e.test));
  };
  std::set<std::string> confirmed;
  for (const TestVerdict& row : run.rows) {
    const TestRecord* test = record.find(row.test);
    const Expectation* guess = test == nullptr ? nullptr : find_expectation(all, row.test, record, run.neighbour);
    if (row.is_guess && guess != nullptr && confirmed.insert(guess->place).second) {
      // A record that an entry names has all its tests.
      const bool whole = std::ranges::all_of(
          all, [&](const Expectation& e) { return e.place != guess->place || record.find(e.test) != nullptr; });
      if (whole && !any_of_entry(guess->place, says_else)) {
        Expectation& entry = changed.emplace(guess->place, *guess).first->second;
        entry.where.release = widened(guess->where.release, release);
        add_record(entry);
        ++proposal.widened;
      } else {
        proposal.by_hand.push_back(fmt::format(
            "{} is as {} guesses, but this record does not show that of all its tests", row.test, guess->place));
      }
    }
    if (test == nullptr || severity_of(row.verdict) != Severity::Fail) continue;
    const Expectation* wrong = find_expectation(all, row.test, record, run.neighbour);
    if (wrong != nullptr && any_of_entry(wrong->place, as_expected)) {
      proposal.by_hand.push_back(
          fmt::format("{} is not as {} says, and other tests of that entry are", row.test, wrong->place));
      continue;
    }
    if (wrong != nullptr) {
      const char side = side_of_records(*wrong, release);
      if (side == ' ') {
        proposal.by_hand.push_back(fmt::format("{} is not as {} says, which releases on either side of {} have shown",
                                               row.test, wrong->place, release));
        continue;
      }
      changed.emplace(wrong->place, *wrong).first->second.where.release = narrowed(wrong->where.release, side, release);
      ++proposal.narrowed;
      if (row.result == Result::Reproduced || row.result == Result::Holds) continue;  // As documented.
    }
    const auto known = std::ranges::find_if(all, [&](const Expectation& e) {
      return e.test == row.test && covers_but_for_release(e, record) && says(e, row, *test) &&
             !any_of_entry(e.place, says_else);
    });
    if (known != all.end()) {
      Expectation& entry = changed.emplace(known->place, *known).first->second;
      entry.where.release = widened(known->where.release, release);
      add_record(entry);
      ++proposal.widened;
    } else {
      causes[{row.result, test->text(key::documented), shown(row.result, *test)}].push_back(row.test);
      ++proposal.added;
    }
  }
  proposal.entries = changed_entries(changes, changed);
  const std::string nccl = record.environment.json().contains("nccl_by") ? "==" + record.env("nccl") : "";
  for (const auto& [cause, tests] : causes) {
    const auto& [result, documented, seen] = cause;
    Expectation e;
    e.where = {range_of_new_entry(release, all), record.env("gpu"), "", "", nccl};
    e.result = result;
    e.seen = seen;
    e.records = {name};
    proposal.entries += fmt::format("\n[[change]]\nwhat = '{}'\nnumber = '{}'\n\n", kTodo, kTodo);
    if (!documented.empty()) proposal.entries += fmt::format("  # documented: {}\n", escape_control(documented));
    proposal.entries += entry_text(e, tests, "");
  }
  return proposal;
}

namespace {

// Lines of cases/expectations.toml, by number from 1. An edit keeps every other line as it is.
class ExpectationLines {
 public:
  explicit ExpectationLines(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      lines_.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }

  // The entry at "…/expectations.toml:12" has this range now.
  void set_release(const std::string& place, const std::string& range) {
    static const RE2 kRelease(R"re((\brelease\s*=\s*)("[^"]*"|'[^']*'))re"), kWhere(R"(^(\s*where\s*=\s*\{)\s*)");
    for (std::string& line : entry_at(place)) {
      if (!RE2::PartialMatch(line, kWhere)) continue;
      const std::string text = Json(range).dump();
      if (!RE2::Replace(&line, kRelease, "\\1" + text)) RE2::Replace(&line, kWhere, "\\1 release = " + text + ", ");
      return;
    }
  }

  // It names this record too.
  void add_record(const std::string& place, const std::string& record) {
    const std::span<std::string> entry = entry_at(place);
    const auto first = std::ranges::find_if(entry, [](const std::string& line) {
      static const RE2 kRecords(R"(^\s*records\s*=)");
      return RE2::PartialMatch(line, kRecords);
    });
    const auto last = std::find_if(first, entry.end(), [](const std::string& line) { return line.ends_with(']'); });
    if (last == entry.end()) return;
    const std::string text = Json(record).dump();
    const size_t bracket = last->rfind(']');
    if (first == last) {
      last->insert(bracket, ", " + text);
    } else {  // A record a line.
      std::string& before = *std::prev(last);
      if (!before.ends_with(',')) before += ',';
      *last = "    " + text + ",\n" + *last;
    }
  }

  void append(const std::string& text) { lines_.push_back(text); }

  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

 private:
  // From its header to the next blank line or header.
  std::span<std::string> entry_at(const std::string& place) {
    const size_t begin = std::stoul(place.substr(place.rfind(':') + 1)) - 1;
    size_t end = begin + 1;
    while (end < lines_.size() && !lines_[end].empty() && lines_[end].find("[[") == std::string::npos) ++end;
    return {lines_.data() + begin, end - begin};
  }

  std::vector<std::string> lines_;
};

std::string name_of_gpu(const Record& record) { return record.env("gpu").empty() ? "no GPU" : record.env("gpu"); }

// What was expected of a result that is news.
std::string expected_words(const Expectation* expected, const TestRecord& test) {
  if (expected != nullptr) {
    return expected->seen.empty() ? std::string(to_string(expected->result)) : expected->seen;
  }
  return kind_of_id(test.id()) == Kind::Reproduces ? test.text(key::documented) : "holds";
}

std::string shown_words(const TestVerdict& row, const TestRecord& test) {
  const std::string text = shown(row.result, test);
  return text.empty() ? std::string(to_string(row.result)) : text;
}

bool is_news(const TestVerdict& row) { return row.ran && severity_of(row.verdict) == Severity::Fail; }

// The results of the records, by test, with the expectations of a state of the file.
class Applier {
 public:
  Applier(const std::vector<ProposedRecord>& records, const Rules& rules) : records_(records), rules_(rules) {}

  void judge(std::vector<Expectation> expectations) {
    rules_.expectations = std::move(expectations);
    runs_.clear();
    for (const ProposedRecord& one : records_) runs_.push_back(judged(one.record, rules_));
  }

  std::vector<News> news() const {
    std::map<std::tuple<std::string, std::string, std::string>, News> found;
    for (const JudgedRun& run : runs_) {
      for (const TestVerdict& row : run.rows) {
        if (!is_news(row)) continue;
        const TestRecord& test = *run.record.find(row.test);
        const Expectation* expected = expectation_of(run, row.test);
        const std::string before = expected_words(expected, test), now = shown_words(row, test);
        News& one = found[{row.test, before, now}];
        one.gpus += (one.gpus.empty() ? "" : ", ") + name_of_gpu(run.record);
        one.test = row.test;
        one.expected = before;
        one.shown = now;
        one.verdict = row.verdict;
        if (expected != nullptr) one.source = expected->source;
      }
    }
    std::vector<News> all;
    for (auto& [key, one] : found) all.push_back(std::move(one));
    return all;
  }

  // Confirms the entries that were a guess, and ends those that are wrong. Returns the new ranges, by place.
  std::map<std::string, std::string> settle(ExpectationLines& lines, AppliedProposal& applied) const {
    std::map<std::string, std::string> ranges;
    std::map<std::string, std::vector<const Expectation*>> entries;
    for (const Expectation& e : rules_.expectations) entries[e.place].push_back(&e);
    for (const auto& [place, entry] : entries) {
      const JudgedRun* confirms = nullptr;
      size_t confirming = 0, contradicting = 0, mixed = 0;
      bool was_guess = false;
      for (size_t i = 0; i < runs_.size(); ++i) {
        size_t right = 0, wrong = 0;
        for (const Expectation* e : entry) {
          const TestVerdict* row = row_of(runs_[i], e->test);
          if (row == nullptr || expectation_of(runs_[i], e->test) != e) continue;
          const bool is_right = is_as_expected(*e, row->result, shown(row->result, *runs_[i].record.find(e->test)));
          if (is_right) ++right;
          if (is_right && row->is_guess) was_guess = true;
          if (is_news(*row)) ++wrong;
        }
        if (right > 0 && wrong > 0) ++mixed;
        if (right > 0 && wrong == 0) ++confirming;
        if (right == 0 && wrong > 0) ++contradicting;
        // A record that an entry names has all its tests.
        if (right == entry.size() && confirms == nullptr) confirms = &runs_[i];
      }
      const Expectation& e = *entry.front();
      if (mixed > 0) {
        applied.by_hand.push_back(place + ": some of its tests are as it says, and others are not; divide it");
      } else if (contradicting > 0) {
        end(e, ranges, applied);
      } else if (confirming > 0 && was_guess) {
        confirm(e, confirms, lines, ranges, applied);
      }
    }
    for (const auto& [place, range] : ranges) lines.set_release(place, range);
    return ranges;
  }

  // Widens entries, and adds what no entry expects.
  void add(ExpectationLines& lines, AppliedProposal& applied) const {
    struct Shown {
      Result result;
      std::string documented, seen;
      auto operator<=>(const Shown&) const = default;
    };
    std::map<std::string, std::map<Shown, std::vector<size_t>>> unexpected;  // By test; the runs.
    for (size_t i = 0; i < runs_.size(); ++i) {
      for (const TestVerdict& row : runs_[i].rows) {
        if (!is_news(row)) continue;
        const TestRecord& test = *runs_[i].record.find(row.test);
        unexpected[row.test][{row.result, test.text(key::documented), shown(row.result, test)}].push_back(i);
      }
    }
    std::map<std::string, Expectation> wider;                                      // By place.
    std::map<std::pair<Shown, std::string>, std::pair<Lines, std::string>> added;  // By what is seen and the GPU.
    for (const auto& [test, ways] : unexpected) {
      for (const auto& [how, runs] : ways) {
        const bool is_everywhere = runs.size() == runs_with(test);
        const Expectation* known = is_everywhere ? fitting(test, runs.front()) : nullptr;
        if (known != nullptr) {
          wider.emplace(known->place, *known);
          continue;
        }
        for (const size_t i : runs) {
          const std::string gpu = is_everywhere ? "" : runs_[i].record.env("gpu");
          auto& [tests, record] = added[{how, gpu}];
          add_once(tests, test);
          if (record.empty()) record = records_[i].name;
        }
      }
    }
    const std::string release = release_of_all();
    for (const auto& [place, e] : wider) {
      lines.set_release(place, widened(e.where.release, release));
      lines.add_record(place, first_with(e));
      ++applied.widened;
    }
    for (const auto& [cause, tests_and_record] : added) {
      const auto& [how, gpu] = cause;
      const auto& [tests, record] = tests_and_record;
      Expectation e;
      e.where = {range_of_new_entry(release, rules_.expectations), gpu, "", "", ""};
      e.result = how.result;
      e.seen = how.seen;
      e.records = {record};
      std::string text = fmt::format("\n[[change]]\nwhat = '{}'\nnumber = '{}'\n\n", kTodo, kTodo);
      if (!how.documented.empty()) text += fmt::format("  # documented: {}\n", escape_control(how.documented));
      text += entry_text(e, tests, "");
      text.pop_back();  // Its last line end.
      lines.append(text);
      ++applied.added;
    }
  }

 private:
  const Expectation* expectation_of(const JudgedRun& run, const std::string& test) const {
    return find_expectation(rules_.expectations, test, run.record, run.neighbour);
  }

  // Nothing if the test did not run there.
  static const TestVerdict* row_of(const JudgedRun& run, const std::string& test) {
    const auto row = std::ranges::find(run.rows, test, &TestVerdict::test);
    return row == run.rows.end() || !row->ran ? nullptr : &*row;
  }

  // How many machines have a result of a test.
  size_t runs_with(const std::string& test) const {
    return static_cast<size_t>(std::ranges::count_if(runs_, [&](const JudgedRun& run) {
      const TestVerdict* row = row_of(run, test);
      return row != nullptr && row->result != Result::Unavailable && row->result != Result::Unseen;
    }));
  }

  std::string release_of_all() const { return base_of(runs_.front().record.environment.release); }

  void end(const Expectation& e, std::map<std::string, std::string>& ranges, AppliedProposal& applied) const {
    const std::string release = release_of_all();
    const char side = side_of_records(e, release);
    if (side == ' ') {
      applied.by_hand.push_back(
          fmt::format("{} is wrong for {}, and releases on either side of it have shown it", e.place, release));
      return;
    }
    ranges[e.place] = narrowed(e.where.release, side, release);
    ++applied.narrowed;
  }

  void confirm(const Expectation& e, const JudgedRun* by, ExpectationLines& lines,
               std::map<std::string, std::string>& ranges, AppliedProposal& applied) const {
    const std::string release = release_of_all();
    if (by == nullptr) return;  // No record has all its tests: it stays a guess.
    if (!in_range(release, e.where.release)) ranges[e.place] = widened(e.where.release, release);
    lines.add_record(e.place, records_[static_cast<size_t>(by - runs_.data())].name);
    ++applied.confirmed;
  }

  // An entry that expects this of the test in other releases, and of its other tests what they show here.
  const Expectation* fitting(const std::string& test, size_t run) const {
    const Record& record = runs_[run].record;
    const auto is_shown = [&](const Expectation& e) {
      const TestVerdict* row = row_of(runs_[run], e.test);
      return row != nullptr && says(e, *row, *record.find(e.test));
    };
    const auto& all = rules_.expectations;
    const auto known = std::ranges::find_if(all, [&](const Expectation& e) {
      return e.test == test && covers_but_for_release(e, record) &&
             std::ranges::all_of(all, [&](const Expectation& of) { return of.place != e.place || is_shown(of); });
    });
    return known == all.end() ? nullptr : &*known;
  }

  // The first record with all tests of an entry.
  std::string first_with(const Expectation& entry) const {
    for (size_t i = 0; i < runs_.size(); ++i) {
      const bool has_all = std::ranges::all_of(rules_.expectations, [&](const Expectation& e) {
        return e.place != entry.place || row_of(runs_[i], e.test) != nullptr;
      });
      if (has_all) return records_[i].name;
    }
    return records_.front().name;
  }

  const std::vector<ProposedRecord>& records_;
  Rules rules_;
  std::vector<JudgedRun> runs_;
};

}  // namespace

AppliedProposal apply_proposal(const std::string& text, const std::vector<Deviation>& changes,
                               const std::vector<ProposedRecord>& records, const Rules& rules) {
  AppliedProposal applied;
  Applier applier(records, rules);
  std::vector<Expectation> expectations = expectations_of(changes);
  applier.judge(expectations);
  applied.news = applier.news();
  ExpectationLines lines(text);
  const std::map<std::string, std::string> ranges = applier.settle(lines, applied);
  for (Expectation& e : expectations) {
    if (const auto range = ranges.find(e.place); range != ranges.end()) e.where.release = range->second;
  }
  applier.judge(std::move(expectations));
  applier.add(lines, applied);
  applied.text = lines.text();
  return applied;
}

}  // namespace recapture::lint

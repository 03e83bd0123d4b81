#include "harness/lint/propose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "harness/base/escape.h"
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

Proposal propose(const Record& record, const std::vector<TestVerdict>& rows, const std::vector<Deviation>& changes,
                 const std::string& name) {
  Proposal proposal;
  std::map<std::string, Expectation> changed;  // By place.
  const std::string release = record.env("release");
  const auto all = expectations_of(changes);
  std::map<std::tuple<Result, std::string, std::string>, Lines> causes;  // Result, documented and seen, with the tests.
  std::map<std::string, const TestVerdict*> by_test;
  for (const TestVerdict& row : rows) by_test[row.test] = &row;
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
  for (const TestVerdict& row : rows) {
    const TestRecord* test = record.find(row.test);
    const Expectation* guess = test == nullptr ? nullptr : find_expectation(all, row.test, record);
    if (row.verdict == Verdict::Inconclusive && guess != nullptr && guess->guessed_for(release) &&
        says(*guess, row, *test) && confirmed.insert(guess->place).second) {
      // A record that an entry names has all its tests.
      const bool whole = std::ranges::all_of(
          all, [&](const Expectation& e) { return e.place != guess->place || record.find(e.test) != nullptr; });
      if (whole && !any_of_entry(guess->place, says_else)) {
        add_record(changed.emplace(guess->place, *guess).first->second);
        ++proposal.widened;
      } else {
        proposal.by_hand.push_back(fmt::format(
            "{} is as {} guesses, but this record does not show that of all its tests", row.test, guess->place));
      }
    }
    if (test == nullptr || severity_of(row.verdict) != Severity::Fail) continue;
    const Expectation* wrong = find_expectation(all, row.test, record);
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
    e.where = {"==" + release, record.env("gpu"), "", "", nccl};
    e.result = result;
    e.seen = seen;
    e.records = {name};
    proposal.entries += fmt::format("\n[[change]]\nwhat = '{}'\nnumber = '{}'\n\n", kTodo, kTodo);
    if (!documented.empty()) proposal.entries += fmt::format("  # documented: {}\n", escape_control(documented));
    proposal.entries += entry_text(e, tests, "");
  }
  return proposal;
}

}  // namespace recapture::lint

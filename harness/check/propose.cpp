#include "harness/check/propose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "harness/case/events.h"
#include "harness/case/pattern.h"
#include "harness/judge/version.h"
#include "harness/record/visible.h"

namespace recapture {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string quoted(const std::string& text) {
  if (text.find('\'') == std::string::npos && visible(text) == text) return "'" + text + "'";
  return Json(text).dump(-1, ' ', true);  // A string of JSON's is one of TOML's.
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

// The file, entry by entry, as it is to be.
class Edited {
 public:
  explicit Edited(const std::string& text) : lines_(lines_of(text)) {}

  // "file:line" is an entry's first line; another one's is where it ends.
  void set_where(const std::string& place, const Where& where) {
    for (std::string& line : entry(place)) {
      if (starts(line, "where =")) line = where_line(where);
    }
  }
  void add_record(const std::string& place, const std::string& name) {
    const std::string value = Json(name).dump();
    bool in_list = false;
    for (std::string& line : entry(place)) {
      in_list = in_list || starts(line, "records =");
      if (!in_list) continue;
      if (line.find(value) != std::string::npos) return;
      const size_t end = line.rfind(']');
      if (end == std::string::npos) continue;
      const size_t last = line.find_last_not_of(" ,", end - 1);
      const bool is_alone = end == 0 || last == std::string::npos;  // The bracket has a line to itself.
      line.insert(is_alone ? end : last + 1, is_alone ? "  " + value + ",\n  " : ", " + value);
      return;
    }
  }
  void append(const std::string& text) { lines_.push_back(text); }

  Lines lines() const {
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return lines_of(text);
  }

 private:
  static bool starts(const std::string& line, std::string_view word) {
    const size_t at = line.find_first_not_of(' ');
    return at != std::string::npos && line.compare(at, word.size(), word) == 0;
  }

  struct Entry {
    Lines::iterator first, last;
    Lines::iterator begin() const { return first; }
    Lines::iterator end() const { return last; }
  };
  // Lines are edited in place and never inserted, so that places stay what they were.
  Entry entry(const std::string& place) {
    size_t number = 0;
    const size_t colon = place.rfind(':');
    std::from_chars(place.data() + colon + 1, place.data() + place.size(), number);
    const auto first = lines_.begin() + static_cast<std::ptrdiff_t>(std::min(number, lines_.size()));
    return {first, std::find_if(first, lines_.end(), [](const std::string& line) { return starts(line, "[["); })};
  }

  Lines lines_;
};

// A unified diff with three lines of context, by the longest common subsequence.
std::string diff(const Lines& a, const Lines& b, const std::string& path) {
  std::vector<std::vector<size_t>> common(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  struct Step {
    char sign;
    size_t i, j;  // Lines of both that stand before it.
  };
  std::vector<Step> steps;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      steps.push_back({' ', i++, j++});
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      steps.push_back({'-', i++, j});
    } else {
      steps.push_back({'+', i, j++});
    }
  }
  constexpr size_t kContext = 3;
  std::string text;
  for (size_t at = 0; at < steps.size();) {
    if (steps[at].sign == ' ') {
      ++at;
      continue;
    }
    const size_t begin = at - std::min(at, kContext);
    size_t end = at + 1;
    for (size_t k = at; k < steps.size() && k < end + 2 * kContext; ++k) {
      if (steps[k].sign != ' ') end = k + 1;
    }
    at = end;
    end = std::min(end + kContext, steps.size());
    std::string body;
    size_t before = 0, after = 0;
    for (size_t k = begin; k < end; ++k) {
      const Step& step = steps[k];
      body += step.sign + (step.sign == '+' ? b[step.j] : a[step.i]) + "\n";
      before += step.sign == '+' ? 0 : 1;
      after += step.sign == '-' ? 0 : 1;
    }
    text += fmt::format("@@ -{},{} +{},{} @@\n{}", steps[begin].i + (before > 0 ? 1 : 0), before,
                        steps[begin].j + (after > 0 ? 1 : 0), after, body);
  }
  return text.empty() ? "" : fmt::format("--- a/{}\n+++ b/{}\n{}", path, path, text);
}

bool says(const Expectation& e, const Row& row, const TestRecord& test) {
  return e.result == row.result && (e.seen.empty() || matches(e.seen, shown(row.result, test)));
}

// Whether only its range of releases keeps an entry from the record.
bool covers_but_for_release(const Expectation& e, const Record& record) {
  Where where = e.where;
  where.release.clear();
  return where.covers(record) && !e.where.covers(record);
}

// Where the releases lie that an entry is on record for: '<' before this one, '>' after it, ' ' on both sides.
char side_of_records(const Expectation& e, const std::string& release) {
  char side = '<';
  for (const std::string& record : e.records) {  // "2.11.0/nvidia-h200.jsonl"
    const std::string its = record.substr(0, record.find('/'));
    if (!is_version(its)) continue;
    const char its_side = older(release, its) ? '>' : '<';
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
  // The range held the version, so that each bound of this side is looser than the new one.
  parts.erase(std::remove_if(parts.begin(), parts.end(), [side](const std::string& part) { return part[0] == side; }),
              parts.end());
  parts.insert(side == '>' ? parts.begin() : parts.end(), fmt::format("{}{}", side, version));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string widened(const std::string& range, const std::string& version) {
  Lines parts;
  for (const std::string& part : bounds_in(range)) {
    if (satisfies(version, part)) {
      parts.push_back(part);
    } else if (part.front() == '=') {
      const std::string only = part.substr(part.find_first_of("0123456789"));
      const bool is_before = older(version, only);
      parts.push_back(fmt::format(">={}, <={}", is_before ? version : only, is_before ? only : version));
    } else {
      parts.push_back(fmt::format("{}={}", part.front(), version));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Proposal propose(const Record& record, const std::vector<Row>& rows, const std::vector<Change>& changes,
                 const std::string& text, const std::string& name) {
  Proposal proposal;
  Edited edited(text);
  const std::string release = record.where("release");
  const auto all = expectations_of(changes);
  std::map<std::tuple<std::string, std::string, std::string>, Lines> causes;  // Result, documented, seen: its tests.
  std::map<std::string, const Row*> by_test;
  for (const Row& row : rows) by_test[row.test] = &row;
  // An entry speaks of several tests, and a range that is right for one of them must be for all.
  const auto any_of_entry = [&](const std::string& place, const auto& predicate) {
    return std::any_of(all.begin(), all.end(), [&](const Expectation& e) {
      const auto row = by_test.find(e.test);
      return e.place == place && row != by_test.end() && row->second->ran && predicate(e, *row->second);
    });
  };
  const auto as_expected = [](const Expectation&, const Row& row) { return row.verdict == Verdict::AsExpected; };
  const auto says_else = [&](const Expectation& e, const Row& row) { return !says(e, row, *record.find(e.test)); };
  std::set<std::string> confirmed;
  for (const Row& row : rows) {
    const TestRecord* test = record.find(row.test);
    const Expectation* guess = test == nullptr ? nullptr : find_expectation(all, row.test, record);
    if (row.verdict == Verdict::Inconclusive && guess != nullptr && guess->guessed_for(release) &&
        says(*guess, row, *test) && confirmed.insert(guess->place).second) {
      // A record that an entry names has all its tests.
      const bool whole = std::all_of(all.begin(), all.end(), [&](const Expectation& e) {
        return e.place != guess->place || record.find(e.test) != nullptr;
      });
      if (whole && !any_of_entry(guess->place, says_else)) {
        edited.add_record(guess->place, name);
        ++proposal.widened;
      } else {
        proposal.by_hand.push_back(fmt::format(
            "{} is as {} guesses, but this record does not show that of all its tests", row.test, guess->place));
      }
    }
    if (test == nullptr || tone_of(row.verdict) != Tone::Red) continue;
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
      Where where = wrong->where;
      where.release = narrowed(where.release, side, release);
      edited.set_where(wrong->place, where);
      ++proposal.narrowed;
      if (row.result == Result::Reproduced || row.result == Result::Holds) continue;  // As the document has it.
    }
    const auto known = std::find_if(all.begin(), all.end(), [&](const Expectation& e) {
      return e.test == row.test && covers_but_for_release(e, record) && says(e, row, *test) &&
             !any_of_entry(e.place, says_else);
    });
    if (known != all.end()) {
      Where where = known->where;
      where.release = widened(where.release, release);
      edited.set_where(known->place, where);
      edited.add_record(known->place, name);
      ++proposal.widened;
    } else {
      causes[{std::string(word(row.result)), test->text(key::documented), shown(row.result, *test)}].push_back(
          row.test);
      ++proposal.added;
    }
  }
  for (const auto& [cause, tests] : causes) {
    const auto& [result, documented, seen] = cause;
    std::string entry = fmt::format("\n[[change]]\nwhat = '{}'\nnumber = '{}'\n\n", kTodo, kTodo);
    if (!documented.empty()) entry += fmt::format("  # documented: {}\n", visible(documented));
    entry += "  [[change.expect]]\n  tests = [\n";
    for (const std::string& test : tests) entry += fmt::format("    \"{}\",\n", test);
    const std::string gpu = record.where("gpu");
    const std::string nccl = record.environment.json().contains("nccl_by") ? "==" + record.where("nccl") : "";
    entry += fmt::format("  ]\n{}\n  result = \"{}\"\n", where_line({"==" + release, gpu, "", "", nccl}), result);
    if (!seen.empty()) entry += fmt::format("  seen = {}\n", quoted(seen));
    edited.append(entry + fmt::format("  records = [{}]", Json(name).dump()));
  }
  proposal.patch = diff(lines_of(text), edited.lines(), "cases/changes.toml");
  return proposal;
}

}  // namespace recapture

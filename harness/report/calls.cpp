#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>

#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/case/types.h"
#include "harness/compare/pairs.h"
#include "harness/compare/sides.h"
#include "harness/model/release.h"
#include "harness/report/markdown_kit.h"
#include "harness/report/tables.h"
#include "harness/store/result_store.h"

namespace recapture::report {
namespace {

// "12.0 to 12.9, 13.1": the members of `some` that are adjacent in `all` form a range.
std::string ranges(const std::set<std::string>& some, const std::vector<std::string>& all) {
  std::vector<std::string> words;
  for (size_t i = 0; i < all.size(); ++i) {
    if (some.count(all[i]) == 0) continue;
    const size_t first = i;
    while (i + 1 < all.size() && some.count(all[i + 1]) != 0) ++i;
    words.push_back(first == i ? all[i] : fmt::format("{} to {}", all[first], all[i]));
  }
  return join(words);
}

constexpr std::array<std::string_view, 6> kCells = {"global/self",        "global/other", "thread-local/self",
                                                    "thread-local/other", "relaxed/self", "relaxed/other"};

// The cells of "global/self=900 global/other=ok …"; empty for any other line.
std::vector<std::string> cells_in(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream words(line);
  for (std::string cell; words >> cell;) {
    const size_t equals = cell.find('=');
    if (cells.size() == kCells.size() || equals == std::string::npos ||
        cell.substr(0, equals) != kCells.at(cells.size())) {
      return {};
    }
    cells.push_back(cell.substr(equals + 1));
  }
  return cells.size() == kCells.size() ? cells : std::vector<std::string>();
}

using Runtimes = std::set<std::string>;

struct TestOnRelease {
  std::string test, release;
  auto operator<=>(const TestOnRelease&) const = default;
};

struct Calls {
  struct Where {
    Runtimes runtimes;
    std::vector<std::string> cases;
    std::set<std::string> tests;
    std::set<TestOnRelease> seen;
  };
  std::map<std::vector<std::string>, Where> by_mode;  // By the call and its six cells.
  std::map<std::vector<std::string>, Where> broke;    // By call, code, mode and thread.
  std::map<TestOnRelease, Runtimes> ran;              // The runtimes with which a test had a result.
  std::set<std::string> races;                        // The tests among them that are races.
  Runtimes runtimes;                                  // All runtimes with which a test had a result.
};

std::vector<std::string> sorted(const Runtimes& some) {
  std::vector<std::string> all(some.begin(), some.end());
  sort_releases(all);
  return all;
}

// A runtime without a run of the test is not a gap: LibTorch cases have fewer runtimes than cases that need only CUDA.
// Neither is one where a race hit another call by chance, unless all tests of the row are races.
// A release in which the test fails in another call with a runtime of the row proves nothing about other runtimes.
std::string ranges(const Calls::Where& where, const Calls& calls) {
  Runtimes ran = where.runtimes;
  const auto is_of_a_race = [&](const std::string& test) { return calls.races.count(test) != 0; };
  const bool all_are = std::ranges::all_of(where.tests, is_of_a_race);
  for (const auto& [one, runtimes] : calls.ran) {
    if (where.tests.count(one.test) == 0 || (is_of_a_race(one.test) && !all_are)) continue;
    const bool differs_by_release =
        where.seen.count(one) == 0 &&
        std::ranges::any_of(runtimes, [&](const std::string& runtime) { return where.runtimes.count(runtime) != 0; });
    if (!differs_by_release) ran.insert(runtimes.begin(), runtimes.end());
  }
  return ranges(where.runtimes, sorted(ran));
}

bool is_race(const Record& record, const TestVerdict& row) {
  const auto one = record.cases.find(row.case_id);
  return one != record.cases.end() && one->second.nature == Nature::Race;
}

void take(const TestVerdict& row, const Record& record, Calls& calls) {
  const TestRecord& test = *record.find(row.test);
  const std::string runtime = record.env("cuda_runtime");
  if (runtime.empty()) return;
  calls.runtimes.insert(runtime);
  const TestOnRelease here{row.test, record.env("release")};
  calls.ran[here].insert(runtime);
  if (is_race(record, row)) calls.races.insert(row.test);
  const auto note = [&](Calls::Where& where) {
    where.runtimes.insert(runtime);
    where.tests.insert(row.test);
    where.seen.insert(here);
    add_once(where.cases, row.case_id);
  };
  const Json tables = test.tables();
  for (const auto& [name, value] : tables.items()) {
    if (!value.is_string()) continue;
    std::vector<std::string> cells = cells_in(value.get<std::string>());
    const std::vector<std::string> ends = cells_in(text_at(tables, name + ".end"));
    if (cells.empty() || ends.empty()) continue;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (ends[i] != "ok") cells[i] += ", end " + ends[i];
    }
    cells.insert(cells.begin(), name.substr(std::string_view(key::table).size()));
    note(calls.by_mode[cells]);
  }
  if (row.kind != Kind::Reproduces || !test.has(key::culprit)) return;
  const int code = test.object(key::culprit).number("code").value_or(0);
  note(calls.broke[{without_versions(test.culprit("api")), fmt::format("{}", code), test.culprit("mode"),
                    test.culprit("thread")}]);
}

// Of a test the newest run with a result counts; of a race every run, since each falls into one of several calls. An
// unseen race is no result.
std::set<const TestVerdict*> counting_rows(const compare::Side& side, const Rules& rules) {
  const ResultStore store(std::span(side.runs), nullptr, [&](const JudgedRun& run, const TestVerdict& row) {
    return has_evidence(row) && row.result != Result::Inapplicable && row.result != Result::Unseen &&
           !rules.is_stale_test(run.record, row.test);
  });
  const std::string& gpu = side.runs.front().record.environment.machine.gpu;
  std::set<const TestVerdict*> counting;
  for (const std::string& test : store.tests()) {
    const std::vector<TestRun> runs = store.of(test).newest_first(gpu);
    counting.insert(runs.front().row);
    for (const TestRun& run : runs) {
      if (is_race(run.run->record, *run.row)) counting.insert(run.row);
    }
  }
  return counting;
}

Calls calls_in(TableInput& input) {
  Calls calls;
  for (const compare::MachineSides& machine : compare::sides_by_machine(std::move(input.records), input.background)) {
    for (const auto* sides : {&machine.releases, &machine.other_runtimes}) {
      for (const compare::Side& side : *sides) {
        const std::set<const TestVerdict*> counting = counting_rows(side, input.background.rules);
        for (const JudgedRun& run : side.runs) {
          for (const TestVerdict& row : run.rows) {
            if (counting.contains(&row)) take(row, run.record, calls);
          }
        }
      }
    }
  }
  return calls;
}

}  // namespace

std::string render_calls(TableInput input) {
  const Calls calls = calls_in(input);
  const std::string head =
      head_of({"call", "global, capturing thread", "global, other thread", "thread-local, capturing thread",
               "thread-local, other thread", "relaxed, capturing thread", "relaxed, other thread", "CUDA runtimes"});
  std::string text =
      "# Which call is refused, with which code\n\n"
      "By the mode of the capture that is open, by thread and by CUDA runtime. This file is generated from the\n"
      "records in this folder, with `recapture dev tables calls > reports/calls.md`. A range of runtimes is one of "
      "those\n"
      "with which the tests behind it ran: a gap is a runtime with which they showed something else. A race, which\n"
      "falls into one of several calls, makes none beside other tests. On record are\n" +
      join(sorted(calls.runtimes)) +
      ".\n\n"
      "## Beside an open capture\n\n"
      "What a call returns, as `unsafe_calls_by_mode` and `unsafe_call_under_thread_mode` saw it: `900, end 901` is a\n"
      "call that returned 900, after which the end of the capture returned 901.\n\n" +
      head;
  for (const auto& [key, where] : calls.by_mode) {
    std::vector<std::string> cells;
    for (const std::string& cell : key) cells.push_back(escape_markdown(cell));
    cells.push_back(ranges(where, calls));
    text += row_of(cells);
  }
  text +=
      "\n## Calls that broke a capture\n\nThe first call that failed in each failure, as the recorder heard it.\n\n" +
      head_of({"call", "code", "mode", "thread", "CUDA runtimes", "tests", "cases"});
  constexpr size_t kFewCases = 5;
  for (const auto& [key, where] : calls.broke) {
    std::vector<std::string> cells, cases;
    for (const std::string& cell : key) cells.push_back(escape_markdown(cell));
    for (const std::string& id : where.cases) {
      if (cases.size() < kFewCases) cases.push_back(case_link(id, input.background));
    }
    if (where.cases.size() > kFewCases) cases.push_back(fmt::format("and {} more", where.cases.size() - kFewCases));
    cells.insert(cells.end(), {ranges(where, calls), fmt::format("{}", where.tests.size()), join(cases)});
    text += row_of(cells);
  }
  return text;
}

}  // namespace recapture::report

// The program's answers about the committed records, line by line: they must not change unless intended. An intended
// change is in a commit of its own:
//   RECAPTURE_RENEW=1 build/harness/tests/tree_test --gtest_filter='Kept.*'
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "harness/base/file.h"
#include "harness/tests/committed_records.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"

namespace recapture {
namespace {

const std::string kFile = RECAPTURE_ROOT "/harness/tests/data/kept.tsv.gz";

// Operators have their own tested file, reports/operators.json.
bool is_kept(const std::string& test) { return kind_of_id(test) != Kind::Operator; }

// "verdict TEST RECORD RESULT VERDICT", and of each record "exit show RECORD CODE".
void add_verdicts(std::vector<std::string>& lines) {
  const Rules rules = rules_of(RECAPTURE_ROOT);
  const std::string reports = RECAPTURE_ROOT "/reports/";
  for (const std::string& path : records_below(RECAPTURE_ROOT "/reports")) {
    const Record record = read_record(path);
    const std::string name = path.substr(reports.size());
    std::vector<TestVerdict> rows = judge_record(record, rules);
    if (!rows.empty() && std::none_of(rows.begin(), rows.end(), [](const auto& row) { return is_kept(row.test); })) {
      continue;
    }
    rows.erase(std::remove_if(rows.begin(), rows.end(), [](const auto& row) { return !is_kept(row.test); }),
               rows.end());
    for (const TestVerdict& row : rows) {
      lines.push_back(fmt::format("verdict\t{}\t{}\t{}\t{}", row.test, name,
                                  row.ran ? to_string(row.result) : "not run", to_string(row.verdict)));
    }
    lines.push_back(fmt::format("exit\tshow\t{}\t{}", name, static_cast<int>(exit_for(verdicts_of(rows)))));
  }
}

// "pair TEST MACHINE FROM TO CONSEQUENCE" for all that differs; "unknown MACHINE FROM TO TESTS" and "exit compare
// MACHINE FROM TO CODE". Most pairs of releases have tests that one of them lacks: a line for each would be most of the
// file.
void add_consequences(std::vector<std::string>& lines) {
  for (const MachineSides& machine : CommittedRecords::get().machines) {
    for (const Side& from : machine.releases) {
      for (const Side& to : machine.releases) {
        if (&from == &to) continue;
        const Comparison comparison = compare_sides(from, to, CommittedRecords::get().background);
        const std::string pair = fmt::format("{}\t{}\t{}", machine.name, from.name, to.name);
        size_t unknown = 0;
        for (const ComparedTest& test : comparison.tests) {
          if (test.consequence == Consequence::Same || !is_kept(test.test)) continue;
          if (test.consequence == Consequence::Unknown) {
            ++unknown;
            continue;
          }
          lines.push_back(fmt::format("pair\t{}\t{}\t{}", test.test, pair, to_string(test.consequence)));
        }
        if (unknown > 0) lines.push_back(fmt::format("unknown\t{}\t{}", pair, unknown));
        lines.push_back(fmt::format("exit\tcompare\t{}\t{}", pair, static_cast<int>(exit_for(comparison))));
      }
    }
  }
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Kept, AnswersOfTheCommittedRecords_AreUnchanged) {
  std::vector<std::string> lines;
  add_verdicts(lines);
  add_consequences(lines);
  std::sort(lines.begin(), lines.end());
  if (std::getenv("RECAPTURE_RENEW") != nullptr) {
    const std::string plain = kFile.substr(0, kFile.size() - 3);
    std::ofstream file(plain);
    for (const std::string& line : lines) file << line << "\n";
    file.close();
    ASSERT_EQ(shell("gzip -n -9 -f '" + plain + "'").code, 0);
  }
  const std::vector<std::string> kept = lines_in(shell("gzip -dc '" + kFile + "'").out);
  ASSERT_GT(kept.size(), 80'000U);
  // A new record or case adds lines, and replaces those of exit codes and of unknown tests. A changed answer also
  // removes its old line.
  std::vector<std::string> gone;
  std::set_difference(kept.begin(), kept.end(), lines.begin(), lines.end(), std::back_inserter(gone));
  EXPECT_EQ(gone.size(), 0U) << (gone.empty() ? "" : gone.front());
}

}  // namespace
}  // namespace recapture

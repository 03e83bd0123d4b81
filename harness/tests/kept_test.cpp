// The program's answers about the committed records: they must not change unless intended. data/kept/ has a packed file
// for each release: with each release there are more pairs, and plain texts would fill the tree. An intended change is
// in a commit of its own:
//   RECAPTURE_RENEW=1 build/harness/tests/tree_test --gtest_filter='Kept.*'
// RECAPTURE_ANSWERS=FILE writes every answer to FILE, a line each: tools/kept compares the lines of two commits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "harness/base/xz.h"
#include "harness/tests/committed_records.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

const std::string kFolder = kRoot + "/harness/tests/data/kept/";
constexpr const char* kExtension = ".txt.xz";

// Operators have their own tested file, reports/operators.json.xz.
bool is_kept(const std::string& test) { return kind_of_id(test) != Kind::Operator; }

// What has the same verdict or consequence, as lines "  <case>: <test> <test>" below a heading.
std::string render_group(const std::string& heading, const std::set<std::string>& tests) {
  std::string text = fmt::format(" {}\n", heading), last;
  for (const std::string& test : tests) {
    const size_t point = test.find('.');
    const std::string case_id = test.substr(0, point);
    text += case_id == last ? " " : fmt::format("{}  {}: ", last.empty() ? "" : "\n", case_id);
    text += test.substr(point + 1);
    last = case_id;
  }
  return text + "\n";
}

class Answers {
 public:
  Answers() {
    add_records();
    for (const MachineSides& machine : CommittedRecords::get().machines) {
      for (const Side& side : machine.releases) add_newest(machine.name, side);
      for (const Side& from : machine.releases) {
        for (const Side& to : machine.releases) {
          if (&from != &to) add_pair(machine.name, from, to);
        }
      }
    }
    std::sort(lines_.begin(), lines_.end());
  }

  // All answers.
  const std::vector<std::string>& lines() const { return lines_; }

  // By release: the exit code of each record, the newest verdicts of each machine, and from each other release the exit
  // code, the number of tests of each consequence, and the tests that block.
  const std::map<std::string, std::string>& files() const { return files_; }

 private:
  // "verdict TEST RECORD RESULT VERDICT", and of each record "exit show RECORD CODE".
  void add_records() {
    const std::string reports = kRoot + "/reports/";
    for (const std::string& path : records_below(kRoot + "/reports")) {
      const Record record = read_record(path);
      const std::string name = path.substr(reports.size());
      std::vector<TestVerdict> rows = judge_record(record, rules_);
      const bool is_empty = rows.empty();
      std::erase_if(rows, [](const TestVerdict& row) { return !is_kept(row.test); });
      if (rows.empty() && !is_empty) continue;
      for (const TestVerdict& row : rows) {
        lines_.push_back(fmt::format("verdict\t{}\t{}\t{}\t{}", row.test, name,
                                     row.ran ? to_string(row.result) : "not run", to_string(row.verdict)));
      }
      const int code = static_cast<int>(exit_for(verdicts_of(rows)));
      lines_.push_back(fmt::format("exit\tshow\t{}\t{}", name, code));
      files_[record.environment.release.name()] += fmt::format("show {}: exit {}\n", name, code);
    }
  }

  // The verdict of each test in the newest record that has a result of it. Those as documented are counted.
  void add_newest(const std::string& machine, const Side& side) {
    std::map<std::string, Verdict> newest;
    std::set<std::string> measured;
    for (const JudgedRun& run : side.runs) {
      for (const TestVerdict& row : judge_record(run.record, rules_)) {
        if (!is_kept(row.test) || measured.count(row.test) != 0) continue;
        if (row.ran) measured.insert(row.test);
        if (row.ran) newest[row.test] = row.verdict;
        if (!row.ran) newest.emplace(row.test, row.verdict);
      }
    }
    std::map<Verdict, std::set<std::string>> groups;
    for (const auto& [test, verdict] : newest) groups[verdict].insert(test);
    std::string text = fmt::format("\n{}, {}\n", side.name, machine);
    for (const auto& [verdict, tests] : groups) {
      const std::string heading = fmt::format("{}: {}", to_string(verdict), tests.size());
      text += verdict == Verdict::AsDocumented ? fmt::format(" {}\n", heading) : render_group(heading, tests);
    }
    files_[side.name] += text;
  }

  // "pair TEST MACHINE FROM TO CONSEQUENCE" for all that differs; "unknown MACHINE FROM TO TESTS" and "exit compare
  // MACHINE FROM TO CODE". Most pairs of releases have tests that one of them lacks: a line for each would be most of
  // the lines.
  void add_pair(const std::string& machine, const Side& from, const Side& to) {
    const Comparison comparison = compare_sides(from, to, CommittedRecords::get().background);
    const std::string pair = fmt::format("{}\t{}\t{}", machine, from.name, to.name);
    std::map<Consequence, std::set<std::string>> groups;
    for (const ComparedTest& test : comparison.tests) {
      if (test.consequence == Consequence::Same || !is_kept(test.test)) continue;
      groups[test.consequence].insert(test.test);
      if (test.consequence == Consequence::Unknown) continue;
      lines_.push_back(fmt::format("pair\t{}\t{}\t{}", test.test, pair, to_string(test.consequence)));
    }
    const auto unknown = groups.find(Consequence::Unknown);
    if (unknown != groups.end()) lines_.push_back(fmt::format("unknown\t{}\t{}", pair, unknown->second.size()));
    const int code = static_cast<int>(exit_for(comparison));
    lines_.push_back(fmt::format("exit\tcompare\t{}\t{}", pair, code));
    std::string text = fmt::format("\n{} -> {}, {}: exit {}\n", from.name, to.name, machine, code);
    for (const auto& [consequence, tests] : groups) {
      const std::string heading = fmt::format("{}: {}", to_string(consequence), tests.size());
      text += is_regression(consequence) ? render_group(heading, tests) : fmt::format(" {}\n", heading);
    }
    files_[to.name] += text;
  }

  const Rules rules_ = rules_of(kRoot);
  std::vector<std::string> lines_;
  std::map<std::string, std::string> files_;
};

// The lines that only one of two texts has, for the message of a failed test: the first ones, and their number.
std::string render_difference(const std::string& kept, const std::string& now) {
  constexpr size_t kShown = 10;
  const auto lines_of = [](const std::string& text) {
    std::multiset<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.insert(line);
    return lines;
  };
  const std::multiset<std::string> before = lines_of(kept), after = lines_of(now);
  std::string text;
  for (const auto& [left, right, word] : {std::tuple(&before, &after, "kept"), {&after, &before, "now "}}) {
    std::vector<std::string> lines;
    std::ranges::set_difference(*left, *right, std::back_inserter(lines));
    for (size_t i = 0; i < std::min(lines.size(), kShown); ++i) text += fmt::format("{}: {}\n", word, lines[i]);
    if (lines.size() > kShown) text += fmt::format("{}: and {} more lines\n", word, lines.size() - kShown);
  }
  return text.empty() ? "the same lines in another order\n" : text;
}

TEST(Kept, AnswersOfTheCommittedRecords_AreUnchanged) {
  const Answers answers;
  if (const char* file = std::getenv("RECAPTURE_ANSWERS")) {
    std::ofstream out(file);
    for (const std::string& line : answers.lines()) out << line << "\n";
    ASSERT_TRUE(out.flush()) << "cannot write " << file;
    return;
  }
  if (std::getenv("RECAPTURE_RENEW") != nullptr) {
    std::filesystem::remove_all(kFolder);
    std::filesystem::create_directories(kFolder);
    for (const auto& [release, text] : answers.files())
      std::ofstream(kFolder + release + kExtension) << packed_by_xz(text);
  }
  ASSERT_GT(answers.lines().size(), 80'000U);
  std::set<std::string> releases;
  size_t size = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    releases.insert(entry.path().stem().stem().string());  // Without both extensions.
    size += entry.file_size();
  }
  for (const auto& [release, text] : answers.files()) {
    EXPECT_EQ(releases.erase(release), 1U) << "no kept answers of " << release;
    const std::string path = kFolder + release + kExtension;
    const std::string kept = unpacked_by_xz(contents(path), path, size_t{1} << 26);
    EXPECT_TRUE(kept == text) << path << "\n" << render_difference(kept, text);
  }
  EXPECT_EQ(releases.size(), 0U) << "no record of " << (releases.empty() ? "" : *releases.begin());
  EXPECT_LT(size, 500'000U);
}

}  // namespace
}  // namespace recapture

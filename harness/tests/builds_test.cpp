// Builds that are no releases: candidates, nightlies, forks. A release's own record with another version in its first
// line is of a build in which nothing changed, so any difference in an answer is the answer's fault.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/compare/policy.h"
#include "harness/model/record_files.h"
#include "harness/model/scope.h"
#include "harness/tests/committed_records.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::vector<std::string> kBuilds = {"rc1", ".dev20261124+cu132", "a0+gitdeadbee"};

constexpr size_t kMany = 500;  // Tests: most of a release's.

// The record of a column with the most tests; a complete one, if there is one.
const JudgedRun* complete_run(const Side& column) {
  const JudgedRun* found = nullptr;
  for (const JudgedRun& run : column.runs) {
    const bool is_own = run.record.environment.machine.gpu == column.runs.front().record.environment.machine.gpu;
    if (!is_own || run.record.is_shard()) continue;
    const auto rank = [](const JudgedRun& one) {
      return std::pair(one.record.tests.size() >= kMany && one.record.end == "complete", one.record.tests.size());
    };
    if (found == nullptr || rank(run) > rank(*found)) found = &run;
  }
  return found;
}

// The sentences of what changed, with the tests.
std::vector<std::string> changed(const Comparison& comparison) {
  std::vector<std::string> all;
  for (const ComparedTest& test : comparison.tests) {
    if (test.has_change()) all.push_back(fmt::format("{}: {}", test.test, to_string(test.consequence)));
  }
  return all;
}

TEST(Builds, ReleaseUnderTheNameOfABuild_HasNoChangeAndBlocksNothing) {
  const CommittedRecords& tree = CommittedRecords::get();
  const std::set<std::string> scope = cases_in_scope({}, tree.background.catalogue);
  std::map<std::string, size_t> columns;  // By GPU.
  std::string releases;
  for (const MachineSides& machine : tree.machines) {
    if (machine.environment.machine.gpu.empty() || !machine.environment.machine.is_plain()) continue;
    for (const Side& column : machine.releases) {
      const JudgedRun* run = is_version(column.name) ? complete_run(column) : nullptr;
      if (run == nullptr || run->record.tests.size() < kMany) continue;
      ++columns[machine.environment.machine.gpu];
      releases += column.name + " ";
      for (const std::string& build : kBuilds) {
        Record record = run->record;
        const std::string name = column.name + build;
        record.environment = record.environment.with("release", name);
        ASSERT_EQ(record.environment.release.name(), name);
        const Side relabelled{name, {judge_without_staleness(std::move(record), tree.background)}};
        const Side released{column.name, {*run}};
        for (const auto& [from, to] : {std::pair(&released, &relabelled), {&relabelled, &released}}) {
          const Comparison comparison = compare_sides(*from, *to, tree.background);
          EXPECT_THAT(changed(comparison), IsEmpty()) << from->name << " -> " << to->name << ", " << machine.name;
          const Decision decision = decide({}, comparison, scope, tree.background.catalogue, "2026-11-25");
          EXPECT_THAT(decision.blocking, IsEmpty()) << from->name << " -> " << to->name << ", " << machine.name;
        }
      }
    }
  }
  EXPECT_GE(columns["NVIDIA H200"], 13U) << releases;
  EXPECT_GE(columns["NVIDIA H100 80GB HBM3"], 13U);
}

// The same through the program, of the newest release.
TEST(Builds, RelabelledRecord_HasNoChangeInTheProgram) {
  const JudgedRun* run = nullptr;
  for (const MachineSides& machine : CommittedRecords::get().machines) {
    if (machine.environment.machine.gpu != "NVIDIA H200" || !machine.environment.machine.is_plain()) continue;
    run = complete_run(machine.releases.back());
  }
  ASSERT_NE(run, nullptr);
  const std::string release = run->record.environment.release.name();
  const std::string text = record_text(run->record.path);
  const size_t end = text.find('\n');
  const fs::path folder = ::testing::TempDir() + "recapture-builds-" + std::to_string(getpid());
  fs::create_directories(folder);
  for (const std::string& build : kBuilds) {
    Json first = Json::parse(text.substr(0, end));
    first["release"] = release + build;
    const std::string file = folder / "build.jsonl";
    std::ofstream(file) << first.dump() << text.substr(end);
    const std::string sides = fmt::format("{} {} --gpu H200", release, file);
    const ShellResult compared = shell(fmt::format("{} compare {}", kRecapture, sides));
    EXPECT_THAT(compared.out, StartsWith(fmt::format("{} -> {}{} on NVIDIA H200", release, release, build)));
    EXPECT_THAT(compared.out, HasSubstr(": no change\n"));
    // A record of one run lacks what the release's other runs have, so the answer may be that it cannot tell.
    const ShellResult gate = shell(fmt::format("{} gate {}", kRecapture, sides));
    EXPECT_TRUE(gate.code == 0 || gate.code == 6) << gate.out;
  }
  fs::remove_all(folder);
}

// A wrong commit in the matrix would make the release's own records those of another build.
TEST(Builds, CommitInTheMatrix_IsThatOfTheReleasesRecords) {
  const std::vector<std::string> matrix = read_matrix(kRoot);
  std::set<std::string> seen;
  for (const MachineSides& machine : CommittedRecords::get().machines) {
    for (const Side& column : machine.releases) {
      if (std::ranges::find(matrix, column.name) == matrix.end()) continue;
      const std::string commit = git_of_release(column.name);
      if (commit.empty()) continue;  // Added since this program was built.
      EXPECT_EQ(commit.size(), 12U) << column.name;
      EXPECT_EQ(column.runs.front().record.env("libtorch_git").substr(0, commit.size()), commit) << column.name;
      seen.insert(column.name);
    }
  }
  EXPECT_GE(seen.size(), 13U);
}

}  // namespace
}  // namespace recapture

// The runs of a test, and whether they agree, whatever their clocks, copies and machines.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>

#include "harness/store/result_matrix.h"
#include "harness/store/result_store.h"
#include "harness/store/run_heads.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Json kControl = fake_test("c.Control");
const Json kCrash = {{"test", "c.FixHolds"}, {"ending", "signal"}, {"code", 11}};
const Json kHolds = fake_test("c.FixHolds");

class Store : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder); }

  // A run of this name that began at a time, with an id of its own unless another is given.
  void add(const std::string& name, const std::string& started, const std::vector<Json>& tests,
           const Json& environment = Json::object(), const Json& about_case = Json::object(), std::string id = "") {
    if (id.empty()) id = "id-of-" + name;
    Json of_run = fake_environment(environment);
    of_run["volatile"] = {{"started", started}, {"run", id}};
    const std::string path = fmt::format("{}/{}.jsonl", folder, name);
    FakeRecord{of_run, tests, about_case}.write(path);
    Record record = read_record(path);
    std::vector<TestVerdict> rows = judge_record(record, {});
    runs.push_back({std::move(record), std::move(rows)});
  }
  static std::vector<std::string> names(const std::vector<TestRun>& some) {
    std::vector<std::string> all;
    for (const TestRun& run : some) all.push_back(std::filesystem::path(run.run->record.path).stem());
    return all;
  }

  const std::string folder = ::testing::TempDir() + "recapture-store-" + std::to_string(getpid());
  std::vector<JudgedRun> runs;
};

// N2: a retry is one more run, not a better one.
TEST_F(Store, RetryThatHolds_DisagreesWithTheCrashBeforeIt) {
  add("first", "2026-11-28T01:00:00Z", {kControl, kCrash});
  add("retry", "2026-11-28T02:00:00Z", {kControl, kHolds});
  const ResultStore store(runs);
  const TestRuns fix = store.of("c.FixHolds");
  ASSERT_THAT(fix.outcomes(), SizeIs(2));
  EXPECT_THAT(names(fix.outcomes()[0].runs), ElementsAre("retry"));
  EXPECT_THAT(names(fix.outcomes()[1].runs), ElementsAre("first"));
  EXPECT_EQ(fix.worst()->row->effect, Effect::Crashes);
  EXPECT_FALSE(store.of("c.Control").has_disagreement());
  ASSERT_THAT(store.disagreements(), SizeIs(1));
  EXPECT_EQ(store.disagreements()[0].test, "c.FixHolds");
}

// N3: a second machine is another answer.
TEST_F(Store, OtherMachine_IsKeptApartAndComparedOnRequest) {
  add("one", "2026-11-28T01:00:00Z", {kControl, kCrash});
  add("other", "2026-11-28T02:00:00Z", {kControl, kHolds}, {{"gpu", "H"}});
  const ResultStore store(runs);
  ASSERT_THAT(store.machines(), SizeIs(2));
  EXPECT_THAT(store.disagreements(), IsEmpty()) << "two machines may differ";
  EXPECT_TRUE(store.of("c.FixHolds").has_disagreement()) << "on any machine";
  for (const MachineKind& machine : store.machines()) EXPECT_THAT(store.of("c.FixHolds", machine).runs, SizeIs(1));
}

// G5: which of two runs is newer decides nothing.
TEST_F(Store, RunOfTheSameSecondOrOfAWrongClock_StillDisagrees) {
  for (const char* started : {"2026-11-28T01:00:00Z", "9999-01-01T00:00:00Z", ""}) {
    runs.clear();
    add("bad", "2026-11-28T01:00:00Z", {kControl, kCrash});
    add("good", started, {kControl, kHolds});
    EXPECT_TRUE(ResultStore(runs).of("c.FixHolds").has_disagreement()) << started;
  }
}

TEST_F(Store, CopyOfARun_CountsOnce) {
  add("run", "2026-11-28T01:00:00Z", {kControl, kHolds});
  add("copy", "2026-11-28T01:00:00Z", {kControl, kHolds}, Json::object(), Json::object(), "id-of-run");
  const ResultStore store(runs);
  EXPECT_THAT(store.runs(), SizeIs(2));
  EXPECT_THAT(names(store.of("c.FixHolds").runs), ElementsAre("run")) << "of equal times the later path";
}

// A merged record is more than its shard, and a copy may have been cut short.
TEST_F(Store, FullerCopyOfARun_Counts) {
  add("whole", "2026-11-28T01:00:00Z", {kControl, kHolds}, Json::object(), Json::object(), "id");
  add("z_cut", "2026-11-28T01:00:00Z", {kControl}, Json::object(), Json::object(), "id");
  EXPECT_THAT(names(ResultStore(runs).of("c.Control").runs), ElementsAre("whole"));
}

TEST_F(Store, CopyWithoutAResult_IsNoRunThatDidNotComeToTheTest) {
  add("whole", "2026-11-28T01:00:00Z", {kControl, kHolds}, Json::object(), Json::object(), "id");
  add("z_copy", "2026-11-28T01:00:00Z",
      {kControl, fake_test("c.FixHolds", {{"code", 77}, {"ended", "skipped"}, {"skipped", "no module"}})},
      Json::object(), Json::object(), "id");
  const TestRuns fix = ResultStore(runs).of("c.FixHolds");
  EXPECT_THAT(names(fix.runs), ElementsAre("whole"));
  EXPECT_THAT(fix.without, IsEmpty());
}

// A retry with the id of the run before it hides nothing.
TEST_F(Store, RunOfTheSameIdWithAnotherResult_IsNoCopy) {
  add("run", "2026-11-28T01:00:00Z", {kControl, kCrash});
  add("retry", "2026-11-28T02:00:00Z", {kControl, kHolds}, Json::object(), Json::object(), "id-of-run");
  EXPECT_TRUE(ResultStore(runs).of("c.FixHolds").has_disagreement());
}

TEST_F(Store, RunOfOtherCode_IsNotComparedWithTodays) {
  add("old", "2026-11-27T01:00:00Z", {kControl, kCrash}, Json::object(), {{"hash", "old"}});
  add("new", "2026-11-28T01:00:00Z", {kControl, kHolds});
  const TestRuns fix = ResultStore(runs).of("c.FixHolds");
  EXPECT_FALSE(fix.has_disagreement());
  EXPECT_THAT(names(fix.others), ElementsAre("old"));
}

TEST_F(Store, RaceSeenAndNotSeen_IsNoDisagreement) {
  const auto race = [](int hits) {
    Json line = fake_test("c.Reproduces", {{"hits", hits}, {"tries", 50}});
    line.update(fake_ending(hits > 0));
    return line;
  };
  add("seen", "2026-11-27T01:00:00Z", {kControl, race(3)});
  add("unseen", "2026-11-28T01:00:00Z", {kControl, race(0)});
  const TestRuns all = ResultStore(runs).of("c.Reproduces");
  EXPECT_THAT(all.runs, SizeIs(2));
  EXPECT_FALSE(all.has_disagreement());
}

TEST_F(Store, RunWithoutAResult_IsNoEvidence) {
  add("run", "2026-11-27T01:00:00Z", {kControl, kCrash});
  add("skipped", "2026-11-28T01:00:00Z",
      {kControl, fake_test("c.FixHolds", {{"code", 77}, {"ended", "skipped"}, {"skipped", "no module"}})});
  add("contradictory", "2026-11-28T02:00:00Z", {kControl, fake_test("c.FixHolds", {{"code", 1}})});
  const TestRuns fix = ResultStore(runs).of("c.FixHolds");
  EXPECT_THAT(names(fix.runs), ElementsAre("run"));
  EXPECT_THAT(names(fix.without), ElementsAre("contradictory", "skipped"));
}

// The same result is expected in one run and a surprise in the other.
TEST_F(Store, RunThatIsRed_DisagreesWithOneThatIsNot) {
  add("green", "2026-11-27T01:00:00Z", {kControl, kHolds});
  add("red", "2026-11-28T01:00:00Z", {kControl, kHolds});
  EXPECT_FALSE(ResultStore(runs).of("c.FixHolds").has_disagreement());
  for (TestVerdict& row : runs.back().rows) {
    if (row.test == "c.FixHolds") row.verdict = Verdict::Changed;
  }
  EXPECT_TRUE(ResultStore(runs).of("c.FixHolds").has_disagreement());
}

TEST_F(Store, AllRuns_AreInTheOrderOfTime) {
  add("old_code", "2026-11-26T01:00:00Z", {kControl, kCrash}, Json::object(), {{"hash", "old"}});
  add("cut", "2026-11-27T01:00:00Z", {kControl, fake_test("c.FixHolds", {{"code", 1}})});
  add("newest", "2026-11-28T01:00:00Z", {kControl, kHolds});
  EXPECT_THAT(names(ResultStore(runs).of("c.FixHolds").all()), ElementsAre("old_code", "cut", "newest"));
}

TEST_F(Store, EachMachine_HasItsOwnRuns) {
  add("one", "2026-11-28T01:00:00Z", {kControl, kHolds});
  add("other", "2026-11-28T02:00:00Z", {kControl, kHolds}, {{"gpu", "H"}});
  add("again", "2026-11-28T03:00:00Z", {kControl, kHolds});
  const ResultStore store(runs);
  const auto machines = store.by_machine("c.FixHolds");
  ASSERT_THAT(machines, SizeIs(2));
  EXPECT_EQ(machines[0].first.machine.gpu, "G");
  EXPECT_THAT(names(machines[0].second.runs), ElementsAre("again", "one"));
  EXPECT_THAT(names(machines[1].second.runs), ElementsAre("other"));
  EXPECT_THAT(store.by_machine("c.FixOther"), IsEmpty());
}

TEST_F(Store, RunsBeforeARun_ReachBackToAResultOfEachOfItsTests) {
  add("too_old", "2026-11-24T01:00:00Z", {kControl, kHolds});
  add("full", "2026-11-25T01:00:00Z", {kControl, kHolds});
  add("elsewhere", "2026-11-26T01:00:00Z", {kControl, kHolds}, {{"gpu", "H"}});
  add("control", "2026-11-27T01:00:00Z", {kControl});
  add("newest", "2026-11-28T01:00:00Z", {kControl, kHolds});
  const ResultStore store(runs);
  const auto before = [&](size_t run) {
    std::vector<std::string> paths;
    for (const JudgedRun* earlier : store.before(runs[run])) {
      paths.push_back(std::filesystem::path(earlier->record.path).stem());
    }
    return paths;
  };
  EXPECT_THAT(before(4), ElementsAre("control", "full"));
  EXPECT_THAT(before(3), ElementsAre("full"));
  EXPECT_THAT(before(0), IsEmpty());
}

TEST_F(Store, BrokenAndUnwantedRuns_AreLeftOut) {
  add("broken", "2026-11-28T01:00:00Z", {kControl, kHolds}, {{"break", "remedy"}});
  add("other", "2026-11-28T02:00:00Z", {kControl, kHolds}, {{"gpu", "H"}});
  add("run", "2026-11-28T03:00:00Z", {kControl, kHolds});
  const ResultStore store(runs, [](const Environment& environment) { return environment.machine.gpu == "G"; });
  EXPECT_THAT(store.runs(), SizeIs(1));
  EXPECT_THAT(names(store.of("c.FixHolds").runs), ElementsAre("run"));
  EXPECT_THAT(store.tests(), ElementsAre("c.Control", "c.FixHolds"));
}

// A run by its first line: its path is its name.
RunHead head(const std::string& name, const std::string& started, Json environment = Json::object()) {
  Json first = fake_environment(environment);
  first["volatile"] = {{"started", started}, {"run", "id-of-" + name}};
  return {name, Environment(first)};
}
std::vector<std::string> names_of(const std::vector<RunHead>& heads) {
  std::vector<std::string> names;
  for (const RunHead& each : heads) names.push_back(each.path);
  return names;
}

// A record from outside may have any number of tests of one case.
TEST(ResultMatrix, ManyTestsOfACase_TakeTimeInProportion) {
  const auto seconds_of = [](int count) {
    Json names = Json::array({"Control"}), effects = Json::object();
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("Fix{}", i));
    effects = {{"Fix0", "leaks"}};
    Record record;
    record.environment = Environment(fake_environment(Json::object()));
    record.cases["c"] = CaseInfo::from(fake_case(names, {{"effects", effects}}));
    for (const Json& name : names) {
      record.plan.push_back("c." + name.get<std::string>());
      record.add({fake_test(record.plan.back())});
    }
    const std::clock_t start = std::clock();  // Of the process, so that a busy machine counts for nothing.
    const ResultMatrix matrix({record, record}, {});
    EXPECT_THAT(matrix.newest("c", "2.15.0, G"), SizeIs(count + 1));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  constexpr int kFew = 2'500, kMany = 8 * kFew;
  EXPECT_LT(seconds_of(kMany), 20 * seconds_of(kFew)) << "eight times as many tests";
}

TEST(RunHeads, NewestFirst_AreByStartThenByPath) {
  std::vector<RunHead> heads = {head("a", "1"), head("c", "2"), head("b", "2")};
  sort_newest_first(heads);
  EXPECT_THAT(names_of(heads), ElementsAre("c", "b", "a"));
}

TEST(RunHeads, OlderThanTheOtherSide_LeavesOutItselfAndWhatIsLater) {
  const std::vector<RunHead> heads = {head("c", "3"), head("b", "2"), head("a", "1")};
  EXPECT_THAT(names_of(older_than(heads, {head("b2", "2")}, heads.front().environment)), ElementsAre("b", "a"))
      << "of one second the later path is newer";
  EXPECT_THAT(names_of(older_than(heads, {heads[1]}, heads.front().environment)), ElementsAre("a"));
  EXPECT_THAT(older_than(heads, {heads[2]}, heads.front().environment), IsEmpty());
  const RunHead elsewhere = head("e", "1", {{"gpu", "Other"}});
  EXPECT_THAT(names_of(older_than(heads, {elsewhere}, heads.front().environment)), ElementsAre("c", "b", "a"));
}

TEST(RunHeads, LibrariesThatCount_AreTheChosenElseTheReleasesOwn) {
  const Json chosen = {{"cuda_runtime_by", "--cuda-runtime"}, {"cuda_runtime", "12.9"}};
  const RunHead own = head("own", "1"), other = head("other", "2", chosen);
  ASSERT_TRUE(other.environment.machine.has_override(kOverridableLibraries[0])) << "the key of an override";
  EXPECT_THAT(names_of(counting_heads({other, own}, {})), ElementsAre("own"));
  EXPECT_THAT(names_of(counting_heads({other, own}, {{"cuda_runtime", "12.9"}})), ElementsAre("other"));
  EXPECT_THAT(names_of(counting_heads({other}, {})), ElementsAre("other"));
  EXPECT_THAT(chosen_in_vain({own}, {other}, {{"cuda_runtime", "12.9"}}), IsEmpty());
  EXPECT_THAT(chosen_in_vain({own}, {own}, {{"cuda_runtime", "12.9"}}), SizeIs(1));
  EXPECT_EQ(newest_with({own, other}, {{"cuda_runtime", "12.9"}}).path, "other");
  EXPECT_EQ(newest_with({own, other}, {{"cuda_runtime", "13.0"}}).path, "own");
}

TEST(RunHeads, Alike_TakesEachReleasesOwnLibraries) {
  const RunHead one = head("a", "1"), other = head("b", "2", {{"cuda_runtime", "12.6"}});
  EXPECT_TRUE(are_alike(one.environment, other.environment));
  EXPECT_FALSE(are_alike(one.environment, head("c", "2", {{"driver", "2"}}).environment));
  EXPECT_FALSE(are_alike(one.environment, head("d", "2", {{"release", "2.14.0"}}).environment));
}

TEST(RunHeads, OtherRecordsOfASide_AreOnOtherGpusOrDriversWithItsOwnLibraries) {
  const MachineId compared = head("a", "1").environment.machine;
  const std::vector<RunHead> all = {head("same", "1"), head("gpu", "1", {{"gpu", "Other"}}),
                                    head("driver", "1", {{"driver", "2"}}), head("host", "1", {{"gpu", ""}})};
  EXPECT_THAT(paths_elsewhere(all, compared), ElementsAre("gpu", "driver"));
  EXPECT_TRUE(may_fill_in(compared, all[1].environment.machine));
  EXPECT_FALSE(may_fill_in(compared, all[2].environment.machine)) << "another driver";
  EXPECT_FALSE(may_fill_in(compared, all[3].environment.machine)) << "no GPU";
  EXPECT_FALSE(may_fill_in(compared, compared));
}

TEST(RunHeads, RankOfAMachine_PrefersAGpuThenOwnLibrariesThenTestsThenRuns) {
  const Environment gpu = head("a", "1").environment, host = head("h", "1", {{"gpu", ""}}).environment;
  const Environment chosen =
      head("c", "1", {{"cuda_runtime_by", "--cuda-runtime"}, {"cuda_runtime", "12.9"}}).environment;
  EXPECT_LT(rank_machine(gpu, gpu, 0, 0), rank_machine(host, host, 9, 9));
  EXPECT_LT(rank_machine(gpu, gpu, 0, 0), rank_machine(gpu, chosen, 9, 9));
  EXPECT_LT(rank_machine(gpu, chosen, 0, 0, {{"cuda_runtime", "12.9"}}),
            rank_machine(gpu, gpu, 9, 9, {{"cuda_runtime", "12.9"}}));
  EXPECT_LT(rank_machine(gpu, gpu, 2, 0), rank_machine(gpu, gpu, 1, 9));
  EXPECT_LT(rank_machine(gpu, gpu, 2, 2), rank_machine(gpu, gpu, 2, 1));
}

}  // namespace
}  // namespace recapture

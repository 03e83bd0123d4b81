// The runs of a test, and whether they agree, whatever their clocks, copies and machines.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <map>

#include "harness/model/operators.h"
#include "harness/store/copies.h"
#include "harness/store/machine_runs.h"
#include "harness/store/operator_records.h"
#include "harness/store/result_matrix.h"
#include "harness/store/result_store.h"
#include "harness/store/run_heads.h"
#include "harness/store/select.h"
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
  for (const MachineKind& machine : store.machines()) {
    EXPECT_THAT(names(store.of("c.FixHolds", machine).runs), ElementsAre(machine.machine.gpu == "G" ? "one" : "other"));
  }
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

TEST_F(Store, RunOfTheSameIdAndOfOtherCode_IsNoCopy) {
  add("old", "2026-11-27T01:00:00Z", {kControl, kHolds}, Json::object(), {{"hash", "old"}}, "id");
  add("new", "2026-11-28T01:00:00Z", {kControl, kHolds}, Json::object(), Json::object(), "id");
  EXPECT_THAT(names(ResultStore(runs).of("c.FixHolds").others), ElementsAre("old"));
}

TEST_F(Store, RunOnAnotherGpu_ComesAfterTheOwnRunsOfTheSameCode) {
  add("own", "2026-11-27T01:00:00Z", {kControl, kHolds});
  add("elsewhere", "2026-11-28T01:00:00Z", {kControl, kHolds}, {{"gpu", "H"}});
  add("other_code", "2026-11-28T02:00:00Z", {kControl, kHolds}, {{"gpu", "H"}}, {{"hash", "other"}});
  const TestRuns fix = ResultStore(runs).of("c.FixHolds");
  EXPECT_THAT(names(fix.newest_first("G")), ElementsAre("other_code", "own", "elsewhere"));
  EXPECT_THAT(names(fix.newest_first("H")), ElementsAre("other_code", "elsewhere", "own"));
}

// Files of which only the first line was read.
TEST(Copies, OfRunsThatShareAnId_TheLongestThenTheOneOfMostShardsCounts) {
  using Places = std::vector<size_t>;
  EXPECT_EQ(each_once({StoredRun{{"a"}, 5}, {{"a"}, 5}}), Places{0}) << "of equals the first";
  EXPECT_EQ(each_once({StoredRun{{"a"}, 5}, {{"a"}, 9}}), Places{1});
  EXPECT_EQ(each_once({StoredRun{{"a"}, 9}, {{"a", "b"}, 9}}), Places{1});
  EXPECT_EQ(each_once({StoredRun{{"a", "b"}, 9}, {{"b"}, 3}}), Places{0});
  EXPECT_EQ(each_once({StoredRun{{"a"}, 5}, {{"b"}, 5}, {{}, 5}, {{}, 5}}), (Places{0, 1, 2, 3}))
      << "old records have no id";
}

TEST_F(Store, RunOfOtherCode_IsNotComparedWithTodays) {
  add("old", "2026-11-27T01:00:00Z", {kControl, kCrash}, Json::object(), {{"hash", "old"}});
  add("new", "2026-11-28T01:00:00Z", {kControl, kHolds});
  const TestRuns fix = ResultStore(runs).of("c.FixHolds");
  EXPECT_FALSE(fix.has_disagreement());
  EXPECT_THAT(names(fix.others), ElementsAre("old"));
}

// A newer run of newer code that is no evidence replaces nothing, and nothing replaces it.
TEST_F(Store, RunOfOlderCode_IsReplacedByEvidenceOfNewerCodeAlone) {
  const auto replaced = [&] {
    const TestRuns fix = ResultStore(runs).of("c.FixHolds");
    std::vector<TestRun> found;
    std::ranges::copy_if(fix.all(), std::back_inserter(found),
                         [&](const TestRun& run) { return fix.is_replaced(run); });
    return names(found);
  };
  const Json contradictory = fake_test("c.FixHolds", {{"code", 1}});
  add("old", "2026-11-26T01:00:00Z", {kControl, kCrash}, Json::object(), {{"hash", "old"}});
  add("without", "2026-11-26T02:00:00Z", {kControl, contradictory}, Json::object(), {{"hash", "old"}});
  add("unknown", "2026-11-26T03:00:00Z", {kControl, kCrash}, Json::object(), {{"hash", ""}});
  add("newest", "2026-11-28T01:00:00Z", {kControl, contradictory}, Json::object(), {{"hash", "newest"}});
  EXPECT_THAT(replaced(), IsEmpty());
  add("new", "2026-11-27T01:00:00Z", {kControl, kHolds});
  EXPECT_THAT(replaced(), ElementsAre("old", "without"));
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
  Json crash = race(3);
  crash.update({{"ending", "signal"}, {"code", 11}});
  crash.erase("ended");
  add("crash", "2026-11-29T01:00:00Z", {kControl, crash});
  EXPECT_TRUE(ResultStore(runs).of("c.Reproduces").has_disagreement()) << "a crash is no chance";
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
  const Json reproduces = fake_failure("c.Reproduces", "D");
  add("green", "2026-11-27T01:00:00Z", {kControl, kHolds, reproduces});
  add("red", "2026-11-28T01:00:00Z", {kControl, kHolds, reproduces});
  EXPECT_THAT(ResultStore(runs).disagreements(), IsEmpty());
  for (TestVerdict& row : runs.back().rows) {
    if (row.test != "c.Control") row.verdict = Verdict::Changed;
  }
  EXPECT_TRUE(ResultStore(runs).of("c.FixHolds").has_disagreement());
  EXPECT_TRUE(ResultStore(runs).of("c.Reproduces").has_disagreement()) << "it is no race";
}

// Of one id as well: neither is a copy of the other.
TEST_F(Store, RunsThatDifferInTheEffectOrInTheResultAlone_Disagree) {
  const auto showing = [](const std::string& seen) {
    return std::vector<Json>{kControl, fake_failure("c.Reproduces", seen)};
  };
  const auto row = [&](size_t run) { return runs[run].rows[1]; };
  const Json silent = {{"effect", "silently wrong"}}, harmless = {{"effect", "works"}};
  add("raises", "2026-11-27T01:00:00Z", showing("RuntimeError: it fails"), Json::object(), silent, "id");
  add("goes_on", "2026-11-28T01:00:00Z", showing("a value"), Json::object(), silent, "id");
  ASSERT_EQ(row(0).result, row(1).result);
  EXPECT_TRUE(ResultStore(runs).of("c.Reproduces").has_disagreement());
  runs.clear();
  add("healthy", "2026-11-27T01:00:00Z", showing("ok"), Json::object(), harmless, "id");
  add("different", "2026-11-28T01:00:00Z", showing("a value"), Json::object(), harmless, "id");
  ASSERT_EQ(row(0).effect, row(1).effect);
  ASSERT_EQ(severity_of(row(0).verdict), severity_of(row(1).verdict));
  EXPECT_TRUE(ResultStore(runs).of("c.Reproduces").has_disagreement());
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
  std::vector<const JudgedRun*> pointers;
  for (const JudgedRun& run : runs) pointers.push_back(&run);
  EXPECT_THAT(ResultStore(pointers).runs(), SizeIs(2)) << "without the broken one";
  EXPECT_THAT(
      ResultStore(pointers, [](const Environment& environment) { return environment.machine.gpu == "H"; }).runs(),
      ElementsAre(&runs[1]));
}

std::vector<std::string> stems(const std::vector<ReleaseRuns>& releases) {
  std::vector<std::string> all;
  for (const auto& [release, runs] : releases) {
    std::string stem = release;
    for (const JudgedRun& run : runs) stem += " " + std::filesystem::path(run.record.path).stem().string();
    all.push_back(stem);
  }
  return all;
}

TEST_F(Store, RunsByMachine_AreNewestFirstByReleaseWithOtherLibrariesApart) {
  const Json chosen = {{"cuda_runtime_by", "--cuda-runtime"}, {"cuda_runtime", "12.9"}};
  add("first", "2026-11-28T01:00:00Z", {kControl});
  add("second", "2026-11-28T02:00:00Z", {kControl});
  add("same_second", "2026-11-28T02:00:00Z", {kControl});
  add("older_release", "2026-11-28T05:00:00Z", {kControl}, {{"release", "2.9.1"}});
  add("newer_release", "2026-11-28T03:00:00Z", {kControl}, {{"release", "2.10.0"}});
  add("other_runtime", "2026-11-28T00:00:00Z", {kControl}, {{"cuda_runtime", "12.6"}});
  add("chosen_runtime", "2026-11-28T06:00:00Z", {kControl}, chosen);
  const std::vector<MachineRuns> machines = runs_by_machine(runs);
  ASSERT_THAT(machines, SizeIs(2)) << "a chosen library makes another machine";
  EXPECT_THAT(stems(machines[0].releases),
              ElementsAre("2.9.1 older_release", "2.10.0 newer_release", "2.15.0 second same_second first"));
  EXPECT_THAT(stems(machines[0].other_runtimes), ElementsAre("2.15.0 other_runtime"));
  EXPECT_EQ(machines[0].environment.started, "2026-11-28T05:00:00Z");
  EXPECT_THAT(stems(machines[1].releases), ElementsAre("2.15.0 chosen_runtime"));
}

TEST_F(Store, RunWithoutAGpu_StandsInLastForCasesThatNeedNone) {
  add("host", "2026-11-28T09:00:00Z", {kControl}, {{"gpu", ""}, {"driver", ""}}, {{"needs", ""}});
  add("host_of_gpu_case", "2026-11-28T08:00:00Z", {kControl}, {{"gpu", ""}, {"driver", ""}});
  add("run", "2026-11-28T01:00:00Z", {kControl});
  const std::vector<MachineRuns> machines = runs_by_machine(runs);
  ASSERT_THAT(machines, SizeIs(2)) << "those with a GPU come first";
  ASSERT_THAT(stems(machines[0].releases), ElementsAre("2.15.0 run host host_of_gpu_case"));
  const std::vector<JudgedRun>& with_gpu = machines[0].releases[0].runs;
  EXPECT_THAT(with_gpu[1].rows, SizeIs(1));
  EXPECT_THAT(with_gpu[2].rows, IsEmpty()) << "its case needs a GPU";
  EXPECT_THAT(own_runs(with_gpu), ElementsAre(&with_gpu[0]));
  EXPECT_THAT(machines[1].releases[0].runs, SizeIs(2));
}

// A run that was cut and made again, and one without any plan.
TEST_F(Store, RunThatWasCut_IsCompletedByRunsWithEachOfItsTests) {
  add("cut", "2026-11-28T01:00:00Z", {kControl});
  add("whole", "2026-11-28T02:00:00Z", {kControl, kHolds});
  add("control", "2026-11-28T03:00:00Z", {kControl});
  JudgedRun& cut = runs[0];
  EXPECT_FALSE(is_completed_by(cut, runs)) << "it is complete itself";
  cut.record.end = "interrupted";
  EXPECT_FALSE(is_completed_by(cut, runs)) << "it has all that it planned";
  cut.record.plan.emplace_back("c.FixHolds");
  EXPECT_TRUE(is_completed_by(cut, runs));
  EXPECT_FALSE(is_completed_by(cut, std::span(runs).last(1))) << "these have no fix";
  cut.record.end = "complete";
  EXPECT_FALSE(is_completed_by(cut, runs)) << "its plan is another matter";
  cut.record.end = "interrupted";
  cut.record.plan.clear();
  EXPECT_FALSE(is_completed_by(cut, runs)) << "what it planned is not known";
}

TEST_F(Store, ShardsAlone_ShowWhatTheOthersPlanned) {
  add("whole", "2026-11-28T01:00:00Z", {kControl});
  add("shard", "2026-11-28T02:00:00Z", {kControl});
  add("elsewhere", "2026-11-28T03:00:00Z", {kControl}, {{"gpu", "H"}});
  EXPECT_THAT(planned_with_shards(runs), IsEmpty());
  runs[1].record.whole_plan = {"c.Control", "c.FixHolds"};
  runs[2].record.whole_plan = {"c.FixOther"};
  EXPECT_THAT(planned_with_shards(runs), ::testing::UnorderedElementsAre("c.Control", "c.FixHolds"));
}

TEST_F(Store, EarlierRun_IsToldByTheClockAlone) {
  add("a", "2026-11-28T01:00:00Z", {kControl});
  add("b", "2026-11-28T01:00:00Z", {kControl});
  add("c", "2026-11-28T02:00:00Z", {kControl});
  EXPECT_TRUE(began_before(runs[1], runs[2]));
  EXPECT_FALSE(began_before(runs[0], runs[1]));
  EXPECT_FALSE(began_before(runs[1], runs[0]));
  EXPECT_TRUE(is_newer(runs[1], runs[0])) << "of one second the later path is newer";
}

TEST(OperatorRecords, NewestWithAResult_CountsUnlessItBroke) {
  const std::string test = fmt::format("{}.Operator_inv", kOperatorsCase);
  const auto record_of = [&](const std::string& name, const Json& line, const Json& about = Json::object()) {
    Record record;
    record.path = name;
    record.environment = Environment(fake_environment(about));
    record.add({line});
    return record;
  };
  const auto at = [](int hour) { return Json{{"volatile", {{"started", fmt::format("2026-11-28T0{}", hour)}}}}; };
  const Json held = fake_test(test, {{"facts", {{"forward", "right"}}}});
  Json broke = held, skipped = held;
  broke.update({{"code", 1}, {"ended", "failed"}, {"assertions", {"x.cpp:1: no"}}});
  skipped.update({{"code", 77}, {"ended", "skipped"}, {"skipped", "no GPU"}});
  const auto counting = [&](const std::vector<Record>& records) {
    std::map<std::string, std::string> paths;
    for (const auto& [release, tests] : operator_records(records)) {
      for (const auto& [id, record] : tests) paths[release] += record->path;
    }
    return paths;
  };
  using Paths = std::map<std::string, std::string>;
  EXPECT_EQ(counting({record_of("newer", held, at(2)), record_of("older", held, at(1))}), (Paths{{"2.15.0", "newer"}}));
  Json sent = at(2);
  sent["origin"] = "somebody";
  EXPECT_EQ(counting({record_of("own", held, at(1)), record_of("sent", held, sent)}), (Paths{{"2.15.0", "own"}}));
  EXPECT_EQ(counting({record_of("own", broke, at(1)), record_of("sent", held, sent)}), (Paths{{"2.15.0", "own"}}));
  EXPECT_EQ(counting({record_of("own", skipped, at(1)), record_of("sent", held, sent)}), Paths());
  EXPECT_EQ(counting({record_of("sent", held, sent)}), (Paths{{"2.15.0", "sent"}}));
  EXPECT_EQ(counting({record_of("held", held, at(1)), record_of("broke", broke, at(2))}), (Paths{{"2.15.0", "held"}}));
  EXPECT_EQ(counting({record_of("broke", broke, at(1))}), (Paths{{"2.15.0", "broke"}}));
  EXPECT_EQ(counting({record_of("skipped", skipped, at(1))}), Paths());
  EXPECT_EQ(counting({record_of("on purpose", held, {{"break", "remedy"}}),
                      record_of("variables", held, {{"env", {{"A", "1"}}}}),
                      record_of("build", held, {{"release", "cuda13"}})}),
            Paths());
}

TEST(Replaces, NewerResult_UnlessTheOlderIsBetterEvidence) {
  const auto row_of = [](Result result, Verdict verdict, bool ran = true) {
    TestVerdict row;
    row.result = result;
    row.verdict = verdict;
    row.ran = ran;
    return row;
  };
  const TestVerdict seen = row_of(Result::Reproduced, Verdict::AsDocumented);
  const TestVerdict healthy = row_of(Result::Healthy, Verdict::NewlyFixed);
  const TestVerdict unseen = row_of(Result::Unseen, Verdict::Insufficient);
  const TestVerdict stale = row_of(Result::Reproduced, Verdict::Stale);
  const TestVerdict unavailable = row_of(Result::Unavailable, Verdict::Unavailable);
  const TestVerdict missing = row_of(Result::Unavailable, Verdict::Missing);
  const TestVerdict not_run = row_of(Result::Invalid, Verdict::NotRun, false);
  EXPECT_TRUE(replaces(healthy, seen));
  EXPECT_FALSE(replaces(unseen, seen));
  EXPECT_TRUE(replaces(unseen, healthy));
  EXPECT_TRUE(replaces(unseen, stale));
  EXPECT_FALSE(replaces(stale, seen));
  EXPECT_FALSE(replaces(stale, not_run));
  EXPECT_FALSE(replaces(unavailable, seen));
  EXPECT_FALSE(replaces(unavailable, stale));
  EXPECT_TRUE(replaces(unavailable, not_run));
  EXPECT_TRUE(replaces(missing, seen)) << "its earlier result is not its current one";
  EXPECT_FALSE(replaces(not_run, unavailable));
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
    EXPECT_THAT(NewestRows(matrix).of("c", "2.15.0, G"), SizeIs(count + 1));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  constexpr int kFew = 2'500, kMany = 8 * kFew;
  EXPECT_LT(seconds_of(kMany), 20 * seconds_of(kFew)) << "eight times as many tests";
}

TEST(ResultMatrix, NameOfAMachine_HasItsRuntimeIfThatIsChosenOrTellsTwoApart) {
  const auto record_of = [](const Json& about) {
    Record record;
    record.environment = Environment(fake_environment(about));
    record.cases["c"] = CaseInfo::from(fake_case({"Control"}));
    return record;
  };
  const auto has_runtime = [](const std::vector<Record>& records) {
    const ResultMatrix matrix(records, {});
    return matrix.machine_name(matrix.records()[0].record).has_runtime;
  };
  const Record own = record_of(Json::object()), other = record_of({{"cuda_runtime", "12.6"}});
  EXPECT_FALSE(has_runtime({own}));
  EXPECT_TRUE(has_runtime({own, other}));
  EXPECT_TRUE(has_runtime({record_of({{"cuda_runtime_by", "--cuda-runtime"}, {"cuda_runtime", "12.9"}})}));
}

TEST(ResultMatrix, RunThatSomebodySent_ChangesNoNameAndNoDescriptionOfTheProjects) {
  const auto record_of = [](const Json& about, const std::string& title) {
    Record record;
    record.environment = Environment(fake_environment(about));
    record.cases["c"] = CaseInfo::from(fake_case({"Control"}, {{"title", title}}));
    return record;
  };
  const Record own = record_of(Json::object(), "own");
  for (const char* origin : {"", "somebody"}) {
    const bool counts = *origin == '\0';
    for (const auto& [difference, suffix] :
         {std::pair(Json{{"driver", "2"}}, ", driver 2"), {Json{{"cuda_runtime", "12.6"}}, ", CUDA runtime 12.6"}}) {
      Json about = difference;
      about["origin"] = origin;
      const ResultMatrix matrix({own, record_of(about, "another")}, {});
      EXPECT_EQ(matrix.machine_of(matrix.records()[0].record) == "2.15.0, G", !counts);
      EXPECT_EQ(matrix.machine_of(matrix.records()[1].record), std::string("2.15.0, G") + suffix);
      EXPECT_EQ(matrix.cases().at("c").title, counts ? "another" : "own");
    }
  }
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
  const Json chosen = {{"cuda_runtime_by", "--cuda-runtime"}, {"cuda_runtime", "12.9"}};
  EXPECT_FALSE(are_alike(one.environment, head("e", "2", chosen).environment)) << "one of them is chosen";
  EXPECT_TRUE(are_alike(head("e", "2", chosen).environment, head("f", "3", chosen).environment));
}

TEST_F(Store, RunsOfAFolderByTheirFirstLines_AreNoneThatWasBroken) {
  add("run", "2026-11-28T01:00:00Z", {kControl});
  add("broken", "2026-11-28T02:00:00Z", {kControl}, {{"break", "remedy"}});
  std::map<std::string, Environment> read;
  const auto environment = [&](const std::string& path) -> const Environment& {
    return read[path] = environment_of(path);
  };
  EXPECT_THAT(names_of(heads_below(folder, environment)), ElementsAre(folder + "/run.jsonl"));
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

TEST(RunHeads, RunElsewhere_IsAlikeButForItsGpuOrDriverAndWasNotSent) {
  const MachineId compared = head("a", "1").environment.machine;
  const auto elsewhere = [&](Json about) {
    about["gpu"] = about.value("gpu", "H");
    return is_elsewhere(head("b", "1", about).environment, compared);
  };
  EXPECT_TRUE(elsewhere(Json::object()));
  EXPECT_FALSE(elsewhere({{"env", {{"A", "1"}}}})) << "other variables";
  EXPECT_FALSE(elsewhere({{"architecture", "aarch64"}})) << "another processor";
  EXPECT_FALSE(elsewhere({{"cuda_runtime_by", "--cuda-runtime"}, {"cuda_runtime", "12.9"}})) << "a chosen library";
  EXPECT_FALSE(elsewhere({{"origin", "somebody"}})) << "it answers for its own machine alone";
  EXPECT_FALSE(elsewhere({{"gpu", "G"}})) << "the machine itself";
  EXPECT_TRUE(elsewhere({{"gpu", "G"}, {"driver", "2"}}));
}

TEST(RunHeads, RankOfAMachine_PrefersAGpuThenOwnLibrariesThenTestsThenRuns) {
  const Environment gpu = head("a", "1").environment, host = head("h", "1", {{"gpu", ""}}).environment;
  const Environment chosen =
      head("c", "1", {{"cuda_runtime_by", "--cuda-runtime"}, {"cuda_runtime", "12.9"}}).environment;
  EXPECT_LT(rank_machine(gpu, gpu, 0, 0), rank_machine(host, host, 9, 9));
  const Environment sent = head("s", "1", {{"origin", "somebody"}}).environment;
  EXPECT_LT(rank_machine(gpu, gpu, 0, 0), rank_machine(gpu, sent, 9, 9)) << "it answers for its own machine alone";
  EXPECT_LT(rank_machine(gpu, gpu, 0, 0), rank_machine(gpu, chosen, 9, 9));
  EXPECT_LT(rank_machine(gpu, chosen, 0, 0, {{"cuda_runtime", "12.9"}}),
            rank_machine(gpu, gpu, 9, 9, {{"cuda_runtime", "12.9"}}));
  EXPECT_LT(rank_machine(gpu, gpu, 2, 0), rank_machine(gpu, gpu, 1, 9));
  EXPECT_LT(rank_machine(gpu, gpu, 2, 2), rank_machine(gpu, gpu, 2, 1));
}

}  // namespace
}  // namespace recapture

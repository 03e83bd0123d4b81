// Which tests of a machine have records, and what is left to run there.
#include "harness/store/coverage.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "harness/report/left.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/verdict/judge.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

const Needs kGpu{.gpus = 1}, kHost{}, kRanks{.gpus = 1, .ranks = true};
const MachineId kG = [] {
  MachineId machine;
  machine.gpu = "G";
  machine.driver = "1";
  return machine;
}();

class Coverages : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder); }

  void add(const std::vector<Json>& tests, const Json& environment = Json::object(),
           const Json& about_case = Json::object()) {
    const std::string path = fmt::format("{}/{}.jsonl", folder, records.size());
    FakeRecord{fake_environment(environment), tests, about_case}.write(path);
    records.push_back(read_record(path));
  }
  LeftToRun left(const std::vector<WantedTest>& wanted, const MachineId& machine = kG) const {
    return CoverageIndex(records, rules).left("2.15.0", machine, wanted);
  }
  std::map<std::string, Coverage> why(const std::vector<WantedTest>& wanted, const MachineId& machine = kG) const {
    std::map<std::string, Coverage> why;
    for (const LeftTest& test : left(wanted, machine).tests) why.emplace(test.test, test.why);
    return why;
  }

  const std::string folder = ::testing::TempDir() + "recapture-coverage-" + std::to_string(getpid());
  std::vector<Record> records;
  Rules rules;
};

const Json kCouldNot = {{"code", 77}, {"ended", "skipped"}, {"skipped", "why not"}};

TEST_F(Coverages, EachTest_IsLeftForTheReasonOfItsRecords) {
  add({fake_test("c.Control"), fake_test("c.FixSkipped", kCouldNot)});
  records.back().plan.emplace_back("c.FixCut");
  const std::vector<WantedTest> wanted = {
      {"c.Control", kGpu}, {"c.FixSkipped", kGpu}, {"c.FixCut", kGpu}, {"d.Control", kGpu}};
  EXPECT_THAT(why(wanted), ElementsAre(Pair("c.FixCut", Coverage::NotRun), Pair("d.Control", Coverage::New)));
  EXPECT_THAT(left(wanted).counts, ElementsAre(Pair(Coverage::New, 1U), Pair(Coverage::NotRun, 1U),
                                               Pair(Coverage::Unavailable, 1U), Pair(Coverage::Complete, 1U)));
  rules.tree["c"] = {"f", "", "", "today's"};
  EXPECT_EQ(why(wanted).at("c.Control"), Coverage::Stale);
  EXPECT_EQ(why(wanted).at("c.FixSkipped"), Coverage::Stale) << "current code may not need what was missing";
  add({fake_test("c.Control")}, Json::object(), {{"hash", "today's"}});
  EXPECT_EQ(why(wanted).count("c.Control"), 0U) << "any run of current code is enough";
}

TEST_F(Coverages, Machines_AreThoseWithAGpuAndNothingChosen) {
  add({fake_test("c.Control")});
  add({fake_test("c.Control")}, {{"gpu", ""}, {"driver", ""}});
  add({fake_test("c.Control")}, {{"env", {{"A", "1"}}}});
  EXPECT_THAT(CoverageIndex(records, rules).machines(), ElementsAre(kG.comparable()));
}

TEST_F(Coverages, TestThatAnotherRunMayDecide_IsLeft) {
  const std::vector<WantedTest> wanted = {{"c.Control", kGpu}, {"c.FixHolds", kGpu}};
  add({fake_test("c.FixHolds")});
  records.back().plan.emplace_back("c.Control");
  EXPECT_THAT(why(wanted),
              ElementsAre(Pair("c.Control", Coverage::NotRun), Pair("c.FixHolds", Coverage::Inconclusive)));
  add({fake_test("c.Control"), fake_test("c.FixHolds")});
  EXPECT_THAT(why(wanted), IsEmpty());
}

TEST_F(Coverages, AnotherRunDecides_OnlyWhatThisRunLacked) {
  TestVerdict row;
  row.verdict = Verdict::Inconclusive;
  EXPECT_FALSE(may_be_decided(row));
  for (const ReasonKind lacked :
       {ReasonKind::NotConfirmed, ReasonKind::CrashedOnce, ReasonKind::AskedTooSeldom, ReasonKind::NoControl}) {
    row.reasons = {{lacked}};
    EXPECT_TRUE(may_be_decided(row)) << to_string(row.reasons[0]);
  }
  for (const ReasonKind other : {ReasonKind::ControlBroken, ReasonKind::NoCallSeen}) {
    row.reasons = {{other}};
    EXPECT_FALSE(may_be_decided(row)) << to_string(row.reasons[0]);
  }
  row.verdict = Verdict::AsDocumented;
  row.reasons = {{ReasonKind::NotConfirmed}};
  EXPECT_FALSE(may_be_decided(row));
}

TEST_F(Coverages, TestWithoutAControlThatHolds_IsNotLeft) {
  add({fake_test("c.Control", {{"code", 1}, {"ended", "failed"}}), fake_test("c.FixHolds")});
  EXPECT_THAT(why({{"c.Control", kGpu}, {"c.FixHolds", kGpu}}), IsEmpty()) << "another run would show the same";
}

TEST_F(Coverages, RunOfAnotherMachineOrBrokenOnPurpose_DoesNotCount) {
  for (const Json& other : {Json{{"release", "2.6.0"}}, Json{{"gpu", "H"}}, Json{{"driver", "2"}},
                            Json{{"break", "trigger"}}, Json{{"cuda_runtime_by", "preload"}}}) {
    add({fake_test("c.Control")}, other);
    EXPECT_EQ(why({{"c.Control", kGpu}}).size(), 1U) << other;
  }
  add({fake_test("c.Control")}, {{"packed", true}, {"cuda_runtime", "13.0"}});
  EXPECT_THAT(why({{"c.Control", kGpu}}), IsEmpty());
}

TEST_F(Coverages, RunWithoutAGpu_DoesForACaseThatNeedsNone) {
  add({fake_test("c.Control")}, {{"gpu", ""}, {"driver", ""}}, {{"needs", "host"}});
  EXPECT_THAT(why({{"c.Control", kHost}}), IsEmpty());
  EXPECT_EQ(why({{"c.Control", kGpu}}).size(), 1U);
  MachineId with_another_library = kG;
  with_another_library.overrides["nccl"] = "2.30";
  EXPECT_EQ(why({{"c.Control", kHost}}, with_another_library).size(), 1U);
}

// A test with ranks states only at run time how many GPUs it needs; its runs have the number.
TEST_F(Coverages, TestThatWasShortOfGpus_IsLeftForAMachineWithMore) {
  const std::vector<WantedTest> wanted = {{"c.Control", kRanks}, {"c.FixSkipped", kRanks}};
  add({fake_test("c.Control"), fake_test("c.FixSkipped", kCouldNot)}, {{"gpus", 1}}, {{"needs", "ranks"}});
  ASSERT_EQ(left(wanted).tests.size(), 1U) << "it ran nowhere, so perhaps for lack of GPUs";
  EXPECT_EQ(left(wanted).tests[0].gpus, 2);
  add({fake_test("c.FixSkipped")}, {{"gpus", 8}, {"gpu", "H"}, {"origin", "somebody"}}, {{"needs", "ranks"}});
  EXPECT_EQ(left(wanted).tests.at(0).gpus, 2) << "what was sent answers for its own machine";
  add({fake_test("c.Control"), fake_test("c.FixSkipped")}, {{"gpus", 2}, {"release", "2.6.0"}}, {{"needs", "ranks"}});
  const LeftToRun more = left(wanted);
  ASSERT_EQ(more.tests.size(), 1U);
  EXPECT_EQ(more.tests[0].why, Coverage::Unavailable);
  EXPECT_EQ(more.tests[0].gpus, 2);
  add({fake_test("c.FixSkipped", kCouldNot)}, {{"gpus", 2}}, {{"needs", "ranks"}});
  EXPECT_THAT(why(wanted), IsEmpty()) << "unavailable there as well, for another reason";
}

TEST_F(Coverages, CompleteTests_AreOfTodaysCodeAndNoOperators) {
  add({fake_test("c.Control"), fake_test("c.FixSkipped", kCouldNot)});
  add({fake_test("operators.add")}, Json::object(), {{"case", "operators"}});
  add({fake_test("d.Control")}, Json::object(), {{"case", "d"}});
  rules.tree["c"] = {"f", "", "", "h"};
  rules.tree["d"] = {"f", "", "", "another"};
  rules.tree["operators"] = {"f", "", "", "h"};
  EXPECT_THAT(complete_tests({&records[0], &records[1], &records[2]}, rules), ElementsAre("c.Control"));
  EXPECT_EQ(comparable_tests({"a", "b", "d"}, {"b", "c", "d"}), 2U);
}

// The failure occurs in 2.6.0 and 2.11.0 and is gone in 2.15.0, so 2.11.0 is where a fix must be seen to fail.
TEST_F(Coverages, Fix_IsUnbrokenUntilItFailedWhereItsFailureIsNewest) {
  const std::vector<WantedTest> wanted = {{"c.Reproduces", kGpu}, {"c.FixIt", kGpu}};
  const auto unbroken = [&] {
    std::vector<std::string> found;
    for (const UnbrokenFix& fix : CoverageIndex(records, rules).unbroken_fixes(wanted)) {
      found.push_back(fix.test + " " + fix.release);
    }
    return found;
  };
  const Json reproduced = fake_test("c.Reproduces", {{"seen", "900"}, {"documented", "900"}, {"healthy", "ok"}}),
             fails = fake_test("c.FixIt", {{"code", 1}, {"ended", "failed"}, {"remedy", "left out"}});
  const auto broken_in = [](const std::string& release) { return Json{{"release", release}, {"break", "remedy"}}; };
  EXPECT_THAT(unbroken(), ElementsAre("c.FixIt ")) << "no record has the failure";
  add({reproduced, fake_test("c.FixIt")}, {{"release", "2.6.0"}});
  add({reproduced, fake_test("c.FixIt")}, {{"release", "2.11.0"}});
  add({fake_test("c.Reproduces",
                 {{"seen", "ok"}, {"documented", "900"}, {"healthy", "ok"}, {"code", 1}, {"ended", "failed"}}),
       fake_test("c.FixIt")});
  add({fails}, broken_in("2.6.0"));
  EXPECT_THAT(unbroken(), ElementsAre("c.FixIt 2.11.0"));
  add({fake_test("c.FixIt")}, broken_in("2.11.0"));
  EXPECT_THAT(unbroken(), ElementsAre("c.FixIt 2.11.0")) << "it held without its remedy";
  Json sent = broken_in("2.11.0");
  sent["origin"] = "somebody";
  add({fails}, sent);
  EXPECT_THAT(unbroken(), ElementsAre("c.FixIt 2.11.0")) << "what was sent answers for its own machine";
  add({fails}, broken_in("2.11.0"));
  EXPECT_THAT(unbroken(), IsEmpty());
  add({reproduced}, {{"origin", "somebody"}});
  EXPECT_THAT(unbroken(), IsEmpty()) << "the failure occurs in 2.15.0 on a machine of somebody's";
  add({reproduced});
  EXPECT_THAT(unbroken(), ElementsAre("c.FixIt 2.15.0"));
  const Json inapplicable =
      fake_test("c.FixIt", {{"code", 77}, {"ended", "skipped"}, {"inapplicable", "no such call"}});
  add({inapplicable}, broken_in("2.15.0"));
  EXPECT_THAT(unbroken(), IsEmpty()) << "it cannot be left out there, and 2.11.0 is the newest other release";
  for (const char* release : {"2.6.0", "2.11.0"}) add({inapplicable}, {{"release", release}});
  EXPECT_THAT(unbroken(), IsEmpty()) << "it failed there on another machine";
}

TEST_F(Coverages, FixThatAppliesNowhere_HasNoReleaseToFailOn) {
  add({fake_test("c.Reproduces", {{"seen", "900"}, {"documented", "900"}, {"healthy", "ok"}}),
       fake_test("c.FixIt", {{"code", 77}, {"ended", "skipped"}, {"inapplicable", "no such call"}})});
  const auto unbroken = CoverageIndex(records, rules).unbroken_fixes({{"c.FixIt", kGpu}});
  ASSERT_EQ(unbroken.size(), 1U);
  EXPECT_EQ(unbroken[0].release, "");
}

TEST_F(Coverages, UnbrokenFixes_AreCountedWithTheCommandThatBreaksThem) {
  EXPECT_EQ(
      report::render_unbroken({{"c.FixA", "2.11.0"}, {"c.FixB", "2.11.0"}, {"e.FixIt", "2.15.0"}, {"d.FixIt", ""}}),
      "fixes that no run has seen fail without their remedy: 4\n"
      "  2.15.0      1 of 1 case\n"
      "    run: ci/suite 2.15.0 -- --break remedy e\n"
      "  2.11.0      2 of 1 case\n"
      "    run: ci/suite 2.11.0 -- --break remedy c\n"
      "  no release  1 of 1 case\n"
      "    their failure occurs nowhere on record, or only where they do not apply: d\n");
  EXPECT_EQ(report::render_unbroken({}), "");
}

TEST_F(Coverages, List_HasEachCaseWithItsReasonTimeAndCommand) {
  LeftToRun left;
  left.tests = {
      {"c.Control", Coverage::New, 1, 2}, {"c.FixIt", Coverage::New, 1, 3}, {"d.Control", Coverage::Stale, 2, 1}};
  EXPECT_EQ(report::render_left({"2.15.0", kG, left, 5}),
            "LibTorch 2.15.0 on G, driver 1: 3 tests left, about 5.0 s with 8 at once\n"
            "  new         c                                                  2 tests    5.0 s\n"
            "  stale       d                                                   1 test    1.0 s  2 GPUs\n"
            "  run: ci/suite 2.15.0 -- --left\n");
  EXPECT_EQ(report::render_left({"2.15.0", kG, {}}), "LibTorch 2.15.0 on G, driver 1: nothing is left\n");
  const Json json = report::render_json({"2.15.0", kG, left, 5}, {{"d.FixIt", "2.15.0"}, {"e.FixIt", "2.6.0"}});
  EXPECT_EQ(json.at("tests").at(2), (Json{{"test", "d.Control"}, {"why", "stale"}, {"gpus", 2}, {"seconds", 1.0}}));
  EXPECT_EQ(json.at("unbroken_fixes"), Json::array({"d.FixIt"}));
}

TEST_F(Coverages, WhatWaitsForTwoGpus_IsALineACaseWithItsReleases) {
  const std::vector<std::string> matrix = {"2.6.0", "2.7.1", "2.11.0", "2.15.0"};
  LeftToRun both, one;
  both.tests = {
      {"c.Control", Coverage::New, 2, 0}, {"c.FixIt", Coverage::New, 2, 0}, {"d.Control", Coverage::Stale, 2, 0}};
  one.tests = {{"c.Control", Coverage::New, 2, 0}, {"c.FixIt", Coverage::New, 2, 0}};
  MachineId other = kG;
  other.gpu = "H";
  EXPECT_EQ(report::render_waiting(
                {{"2.6.0", kG, both}, {"2.7.1", kG, one}, {"2.15.0", kG, one}, {"2.15.0", other, {}}}, 2, matrix),
            "G, driver 1: 7 tests wait for 2 GPUs\n"
            "  new         c                                          2 tests  2.6.0 to 2.7.1 and 2.15.0\n"
            "  stale       d                                           1 test  2.6.0\n"
            "\n"
            "H, driver 1: nothing waits for 2 GPUs\n");
}

TEST_F(Coverages, Counts_AreALineAReleaseBelowItsMachine) {
  add({fake_test("c.Control")});
  add({fake_test("operators.add")}, {{"gpu", "H"}}, {{"case", "operators"}});
  const auto all = report::left_on_machines(CoverageIndex(records, rules), {"2.6.0", "2.15.0"},
                                            {{"c.Control", kGpu}, {"operators.add", kGpu}});
  EXPECT_EQ(report::render_left_counts(all),
            "  G, driver 1\n"
            "    2.6.0    1 new; operators: 1 new\n"
            "    2.15.0   1 complete; operators: 1 new\n"
            "  H, driver 1\n"
            "    2.6.0    1 new; operators: 1 new\n"
            "    2.15.0   1 new; operators: 1 complete\n");
}

}  // namespace
}  // namespace recapture

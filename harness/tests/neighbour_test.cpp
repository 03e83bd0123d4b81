// Whose expectations count where no record is: of a release its nearest older one, of a machine the nearest one.
#include "harness/model/neighbour.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/report/json.h"
#include "harness/report/neighbour.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/verdict/judge.h"
#include "harness/words/neighbour.h"

namespace recapture {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Environment machine(const std::string& gpu, const std::string& driver, const std::string& capability,
                    const std::string& release = "2.15.0") {
  return {{"release", release}, {"gpu", gpu}, {"driver", driver}, {"compute_capability", capability}};
}

Measured on_record() {
  Measured measured{.releases = {Release("2.6.0"), Release("2.7.1"), Release("2.15.0")}};
  measured.add(machine("NVIDIA H200", "580.1", "9.0"));
  measured.add(machine("NVIDIA H100", "580.1", ""));  // An old record.
  measured.add(machine("NVIDIA H100", "580.1", "9.0"));
  measured.add(machine("NVIDIA H100", "550.1", "9.0"));
  measured.add(machine("NVIDIA A100", "580.1", "8.0"));
  measured.add(machine("", "", ""));
  return measured;
}

TEST(Neighbour, ReleaseWithoutARecord_HasTheNearestOlderOne) {
  const auto release_next_to = [](const std::string& release) {
    return neighbour_of(machine("", "", "", release), on_record()).release;
  };
  EXPECT_EQ(release_next_to("2.16.0"), "2.15.0");
  EXPECT_EQ(release_next_to("2.15.1"), "2.15.0");
  EXPECT_EQ(release_next_to("2.7.0"), "2.6.0");
  EXPECT_EQ(release_next_to("2.1.2"), "2.6.0") << "none is older";
  EXPECT_EQ(release_next_to("2.15.0"), "");
  EXPECT_EQ(release_next_to("2.15.0+cu130"), "") << "the same sources";
  EXPECT_EQ(release_next_to("2.15.0rc3"), "2.15.0") << "its own release is nearer than an older one";
  EXPECT_EQ(release_next_to("2.16.0.dev20261124+cu132"), "2.15.0");
  EXPECT_EQ(release_next_to("2.16.0a0+git0123abc"), "2.15.0");
  EXPECT_EQ(release_next_to("cuda13"), "") << "it has no LibTorch";
}

TEST(Neighbour, MachineWithoutARecord_HasTheNearestOne) {
  const auto nearest = [](const std::string& gpu, const std::string& driver, const std::string& capability) {
    return nearest_machine(neighbour_of(machine(gpu, driver, capability), on_record()));
  };
  EXPECT_EQ(nearest("NVIDIA H100", "580.1", "9.0"), "");
  EXPECT_EQ(nearest("NVIDIA H200", "590.1", "9.0"), "NVIDIA H200, driver 580.1, the same GPU with another driver");
  EXPECT_EQ(nearest("NVIDIA GH200 480GB", "580.1", "9.0"),
            "NVIDIA H100, driver 580.1, another GPU of the same architecture");
  EXPECT_EQ(nearest("NVIDIA B200", "580.1", "10.0"), "NVIDIA H100, driver 580.1, a GPU of another architecture");
  EXPECT_EQ(nearest("NVIDIA V100", "580.1", "7.0"), "NVIDIA A100, driver 580.1, a GPU of another architecture");
  EXPECT_EQ(nearest("", "", ""), "") << "a machine without a GPU has a driver of no kind";
  EXPECT_EQ(nearest_machine(neighbour_of(machine("NVIDIA B200", "1", "10.0"), {})), "") << "no record was read";
}

TEST(Neighbour, RangeOfAnotherRecord_HoldsUntilItIsExcluded) {
  const auto holds = [](const std::string& version, const std::string& range, const std::string& neighbour) {
    return in_range_until_measured(version, range, neighbour);
  };
  EXPECT_TRUE(holds("2.16.0", ">=2.15", "2.15.0"));
  EXPECT_TRUE(holds("2.16.0", "==2.15.0", "2.15.0"));
  EXPECT_TRUE(holds("2.16.0", ">=2.13, <=2.15.0", "2.15.0"));
  EXPECT_TRUE(holds("2.16.0", "", "2.15.0"));
  EXPECT_FALSE(holds("2.16.0", ">=2.13, <2.16", "2.15.0")) << "the bound is of this release";
  for (const char* build : {"2.16.0rc1", "2.16.0.dev20261124+cu132", "2.16.0a0+git0123abc"}) {
    EXPECT_FALSE(holds(build, ">=2.13, <2.16", "2.15.0")) << build << " counts as 2.16.0";
    EXPECT_TRUE(holds(build, "==2.15.0", "2.15.0")) << build;
  }
  EXPECT_FALSE(holds("2.16.0", "==2.14.1", "2.15.0"));
  EXPECT_FALSE(holds("2.16.0", "==2.15.0", "")) << "a record is of this release";
  EXPECT_TRUE(holds("590.1", "==580.1", "580.1"));
  EXPECT_FALSE(holds("535.1", ">=580", "580.1"));
  EXPECT_FALSE(holds("", "==580.1", "580.1")) << "its driver is unknown";
}

// 2.16.0 shows what 2.15.0 does; `more` adds to the environment.
JudgedRun judged_on(const Json& more, const Expectation& expected, const std::string& seen = "ok") {
  Rules rules;
  rules.expectations = {expected};
  rules.measured = on_record();
  Record record;
  record.environment = fake_environment({{"gpu", "NVIDIA H200"}, {"driver", "580.1"}, {"compute_capability", "9.0"}});
  for (const auto& [key, value] : more.items()) record.environment = record.environment.with(key, value);
  record.cases["c"] = CaseInfo{};
  record.cases["c"].id = "c";
  record.add({fake_failure("c.Reproduces", seen)});
  return judged(std::move(record), rules);
}

Expectation healthy(const Where& where) {
  Expectation e;
  e.test = "c.Reproduces";
  e.result = Result::Healthy;
  e.where = where;
  e.records = {"2.15.0/nvidia-h200.jsonl"};
  return e;
}

TEST(Neighbour, Expectation_HoldsUntilARecordContradictsIt) {
  for (const char* range : {">=2.15", "==2.15.0", "<=2.15.0", ""}) {
    const JudgedRun same = judged_on({{"release", "2.16.0"}}, healthy({.release = range}));
    EXPECT_EQ(same.rows.front().verdict, Verdict::AsExpected) << range;
    EXPECT_TRUE(same.rows.front().is_guess) << range;
    const JudgedRun other = judged_on({{"release", "2.16.0"}}, healthy({.release = range}), "D");
    EXPECT_EQ(other.rows.front().verdict, Verdict::Regressed) << range;
    EXPECT_FALSE(other.rows.front().is_guess) << range;
  }
  EXPECT_EQ(judged_on({{"release", "2.16.0"}}, healthy({.release = ">=2.15, <2.16"})).rows.front().verdict,
            Verdict::NewlyFixed)
      << "nothing is expected of it";
  EXPECT_FALSE(judged_on({}, healthy({.release = ">=2.15"})).rows.front().is_guess);
}

TEST(Neighbour, MachineOfNoRecord_IsJudgedByTheNearestOneAndSaysSo) {
  const Json other_driver = {{"driver", "590.1"}}, other_gpu = {{"gpu", "NVIDIA GH200"}, {"driver", "580.1"}};
  EXPECT_EQ(judged_on(other_driver, healthy({.driver = "==580.1"})).rows.front().verdict, Verdict::AsExpected);
  EXPECT_EQ(judged_on(other_gpu, healthy({.gpu = "NVIDIA H100"})).rows.front().verdict, Verdict::AsExpected);
  const auto notes_of = [](const JudgedRun& run) {
    return report::render_neighbour(run.record.environment, run.neighbour, run.rows);
  };
  EXPECT_EQ(notes_of(judged_on(other_driver, healthy({}))),
            "note: no record is of NVIDIA H200, driver 590.1; 1 result is as expected of the nearest on record, NVIDIA "
            "H200, driver 580.1, the same GPU with another driver\n");
  EXPECT_EQ(
      notes_of(judged_on({{"release", "2.16.0"}}, healthy({}))),
      "note: no expectation names a record of 2.16.0; 1 result is as expected of 2.15.0, the nearest release that has "
      "one\n");
  EXPECT_EQ(notes_of(judged_on({{"release", "2.7.1"}}, healthy({}))),
            "note: 1 result is as expected of other releases, and no expectation names a record of 2.7.1\n");
  EXPECT_EQ(notes_of(judged_on({}, healthy({}))), "");
  EXPECT_EQ(notes_of(judged_on(other_driver, {})),
            "note: no record is of NVIDIA H200, driver 590.1; the nearest on record is NVIDIA H200, driver 580.1, the "
            "same GPU with another driver\n");
  const auto members = [](const JudgedRun& run) {
    const Json row = report::render_json(run).at(0);
    return Json{row.at("guess"), row.at("nearest_release"), row.at("nearest_machine")};
  };
  EXPECT_EQ(members(judged_on({}, healthy({}))), (Json{false, "", ""}));
  EXPECT_EQ(members(judged_on({{"release", "2.16.0"}}, healthy({}))), (Json{true, "2.15.0", ""}));
  EXPECT_EQ(members(judged_on(other_driver, healthy({.driver = "==580.1"}))),
            (Json{true, "", "NVIDIA H200, driver 580.1, the same GPU with another driver"}));
}

}  // namespace
}  // namespace recapture

// The probe of operators, with fake children: a failed sample must not lose the others' results.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

using ::testing::HasSubstr;

std::string probed(const std::string& outcomes, const std::string& name = "x") {
  const std::string flag = ::testing::TempDir() + "/recapture-operators-" + std::to_string(getpid());
  std::filesystem::remove(flag);
  std::string output = shell("python3 " + kRoot + "/harness/tests/data/operator_children.py " + kRoot + " " + outcomes +
                             " " + flag + " " + name)
                           .out;
  std::filesystem::remove(flag);
  return output;
}

TEST(OperatorProbe, SampleThatCrashesHangsOrMeetsAStub_CostsNoOther) {
  const std::string seen = probed("right,crash,right,hang,right,stub,right");
  EXPECT_THAT(seen, HasSubstr(R"("right":4,"crashed":1,"hung":1,"unavailable":1)"));
  EXPECT_THAT(seen, HasSubstr(R"({"as":"crashed","text":"signal 6","samples":1})"));
  EXPECT_THAT(seen, HasSubstr(R"x({"as":"unavailable","text":"libcufft.so.11 (cufftPlan1d)","samples":1})x"));
  EXPECT_THAT(seen, HasSubstr("processes\t4\n"));
}

TEST(OperatorProbe, SpoiledProcess_IsReplacedAndTriesAgain) {
  const std::string seen = probed("right,spoil,again,right");
  EXPECT_THAT(seen, HasSubstr(R"({"samples":{"float32":{"right":4}}})"));
  EXPECT_THAT(seen, HasSubstr("processes\t3\n"));
}

TEST(OperatorProbe, MistakeOfTheProbeItself_IsNoResult) {
  EXPECT_THAT(probed("right,raise"),
              HasSubstr("RuntimeError: a child ended before its work: ValueError: of the probe"));
}

TEST(OperatorProbe, OperatorThatTheReleaseLacks_IsAbsent) { EXPECT_EQ(probed("right", "y"), "absent\n"); }

// What a child tells when the replays after these actions are wrong: {"as": FAULT} for each action.
std::string probed_later(const std::string& samples, const std::string& faults, const std::string& broken = "nothing") {
  return shell(fmt::format("python3 {0}/harness/tests/data/operator_later_children.py {0} {1} '{2}' {3}", kRoot,
                           samples, faults, broken))
      .out;
}

constexpr char kAsked[] =
    R"("asked":["other work","a second graph","dropped FFT plans","dropped cuDNN plans","other settings","poisoned memory","released memory","cleared workspaces"])";

TEST(OperatorLaterProbe, RightAfterAll_IsOneProcess) {
  const std::string seen = probed_later("right,right", "{}");
  EXPECT_THAT(seen, HasSubstr(fmt::format(R"({},"wrong":[],"graphs":{{"forward":2}})", kAsked)));
  EXPECT_THAT(seen, HasSubstr("processes\t1\n"));
}

TEST(OperatorLaterProbe, WrongAfterAll_IsAskedAgainUntilEachIsFound) {
  const std::string seen = probed_later("right", R"({"poisoned memory":"wrong","released memory":"hang"})");
  EXPECT_THAT(seen, HasSubstr(R"("wrong":["poisoned memory","released memory"])"));
  EXPECT_THAT(seen, HasSubstr(R"("poisoned memory":{"as":"wrong","text":"output: 0 in place of 1"})"));
  EXPECT_THAT(seen, HasSubstr(R"("released memory":{"as":"hung"})"));
  EXPECT_THAT(seen, HasSubstr("processes\t9\n"));
}

TEST(OperatorLaterProbe, OneActionFound_AsksTheOthersTogether) {
  // All; the plans alone; all others.
  const std::string seen = probed_later("right", R"({"dropped FFT plans":"wrong"})");
  EXPECT_THAT(seen, HasSubstr(R"("wrong":["dropped FFT plans"])"));
  EXPECT_THAT(seen, HasSubstr("processes\t3\n"));
}

// For every pair of actions of which one gives a wrong value and the other ends the process.
TEST(OperatorLaterProbe, TwoActions_AreBothFound) {
  const std::vector<std::string> actions = {"other work",          "a second graph",    "dropped FFT plans",
                                            "dropped cuDNN plans", "other settings",    "poisoned memory",
                                            "released memory",     "cleared workspaces"};
  for (size_t i = 0; i < actions.size(); ++i)
    for (size_t k = i + 1; k < actions.size(); ++k) {
      const std::string seen =
          probed_later("right", fmt::format(R"({{"{}":"wrong","{}":"crash"}})", actions[i], actions[k]));
      EXPECT_THAT(seen, HasSubstr(fmt::format(R"("wrong":["{}","{}"])", actions[i], actions[k])));
    }
}

TEST(OperatorLaterProbe, AllActions_AreFound) {
  std::string faults;
  for (const char* action : {"other work", "a second graph", "dropped FFT plans", "dropped cuDNN plans",
                             "other settings", "poisoned memory", "released memory", "cleared workspaces"})
    faults += fmt::format(R"({}"{}":"wrong")", faults.empty() ? "" : ",", action);
  const std::string seen = probed_later("right", "{" + faults + "}");
  EXPECT_THAT(seen, HasSubstr(R"("wrong":["other work","a second graph","dropped FFT plans","dropped cuDNN plans",)"
                              R"("other settings","poisoned memory","released memory","cleared workspaces"])"));
}

TEST(OperatorLaterProbe, ProcessThatEnds_IsAnAnswer) {
  const std::string seen = probed_later("right", R"({"dropped FFT plans":"crash"})");
  EXPECT_THAT(
      seen,
      HasSubstr(R"("wrong":["dropped FFT plans"],"how":{"dropped FFT plans":{"as":"crashed","text":"signal 6"}})"));
}

TEST(OperatorLaterProbe, WrongAfterTheLastStep_AsksNoOtherAction) {
  const std::string seen = probed_later("right", R"({"cleared workspaces":"wrong"})");
  EXPECT_THAT(seen, HasSubstr(R"("wrong":["cleared workspaces"])"));
  EXPECT_THAT(seen, HasSubstr("processes\t2\n"));
}

TEST(OperatorLaterProbe, WrongAfterNoneAlone_IsWrongAfterAllTogether) {
  EXPECT_THAT(probed_later("right", R"({"all":"wrong"})"), HasSubstr(R"("wrong":["all of them together"])"));
}

TEST(OperatorLaterProbe, WrongBeforeAnyAction_IsTheFaultOfTheOtherCaptures) {
  EXPECT_THAT(probed_later("right,right", R"({"captures":"wrong"})"),
              HasSubstr(R"("asked":["a second graph"],"wrong":["a second graph"])"));
}

TEST(OperatorLaterProbe, SampleThatCannotBeCaptured_IsLeftOut) {
  for (const char* samples : {"refused,right", "crash,right", "eager,right"}) {
    const std::string seen = probed_later(samples, "{}");
    EXPECT_THAT(seen, HasSubstr(R"("wrong":[],"graphs":{"forward":1})")) << samples;
    EXPECT_THAT(seen, HasSubstr("processes\t2\n")) << samples;
  }
  EXPECT_THAT(probed_later("refused,refused", "{}"), HasSubstr(R"({"asked":[],"wrong":[]})"));
}

TEST(OperatorLaterProbe, ActionThatCannotBeDone_IsNotAsked) {
  const std::string seen = probed_later("right", R"({"released memory":"undone"})");
  EXPECT_THAT(seen, HasSubstr(R"("poisoned memory","cleared workspaces"],"wrong":[])"));
  EXPECT_THAT(seen, HasSubstr(R"("undone":{"released memory":"no such call"})"));
}

TEST(OperatorLaterProbe, BrokenRun_AsksOnce) {
  const std::string seen = probed_later("right", R"({"poisoned memory":"wrong"})", "value");
  EXPECT_THAT(seen, HasSubstr(R"("wrong":["all of them together"])"));
  EXPECT_THAT(seen, HasSubstr("processes\t1\n"));
}

TEST(OperatorLaterProbe, MistakeOfTheProbeItself_IsNoResult) {
  EXPECT_THAT(probed_later("right", R"({"poisoned memory":"raise"})"),
              HasSubstr("RuntimeError: a child ended before its work: ValueError: of the probe itself"));
}

// A later replay's value, in place of 1, and those of the replays that follow it; then how many there were.
std::string judged_later(const std::string& values) {
  return shell(fmt::format("python3 {0}/harness/tests/data/operator_later_bits.py {0} {1}", kRoot, values)).out;
}

TEST(OperatorLaterProbe, LastBits_AreADifferenceIfTheyStay) {
  EXPECT_EQ(judged_later("1"), "None 1\n");
  EXPECT_EQ(judged_later("1.01,1.01,1"), "None 3\n") << "they vary";
  EXPECT_THAT(judged_later("1.01,1.01,1.01,1.01,1.01,1.01"), HasSubstr("1.01 in place of 1') 6"));
  EXPECT_THAT(judged_later("2"), HasSubstr("2 in place of 1') 1"));
}

}  // namespace
}  // namespace recapture

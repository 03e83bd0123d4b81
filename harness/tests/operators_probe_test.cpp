// The probe of operators, with fake children: a failed sample must not lose the others' results.
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

}  // namespace
}  // namespace recapture

#include "harness/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/report.h"

namespace recapture {
namespace {

TestRecord line(const Json& facts) {
  Json all{{"test", "c.ReproducesX"}, {"ending", "exited"}, {"code", 0}};
  all.update(facts);
  return {all};
}

TestRecord showed(const std::string& seen) {
  return line(
      {{"seen", seen}, {"documented", "900"}, {"healthy", "ok"}, {"ended", seen == "900" ? "passed" : "failed"}});
}

TEST(Classify, IsThreeWay) {
  EXPECT_EQ(classify(Kind::Reproduces, showed("900")), Result::Reproduced);
  EXPECT_EQ(classify(Kind::Reproduces, showed("ok")), Result::Healthy);
  EXPECT_EQ(classify(Kind::Reproduces, showed("906")), Result::Different);
}

TEST(Classify, AnotherCallIsAnotherFailure) {
  TestRecord test = showed("900");
  test.line["raised_by"] = "cuStreamSynchronize";
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Reproduced) << "no recorder: the call is not known";
  test.line["culprit"] = {{"api", "cuMemHostAlloc"}};
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Different);
  test.line["culprit"] = {{"api", "cuStreamSynchronize"}};
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Reproduced);
}

TEST(Classify, ACrashInAProbeIsNotTheTestsEnd) {
  TestRecord test = showed("900");
  test.line["ending"] = "signal";
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Crashed);
  test.line["probing"] = true;
  test.line.erase("ended");
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Reproduced);
}

TEST(Classify, SilenceIsInvalid) {
  EXPECT_EQ(classify(Kind::Reproduces, line(Json::object())), Result::Invalid);
  EXPECT_EQ(classify(Kind::Fix, line(Json::object())), Result::Invalid);
  EXPECT_EQ(classify(Kind::Fix, line({{"ended", "passed"}})), Result::Holds);
  EXPECT_EQ(classify(Kind::Control, line({{"ended", "failed"}})), Result::Broken);
}

TEST(Classify, ARaceThatNoTryShowsIsUnseen) {
  EXPECT_EQ(classify(Kind::Reproduces, line({{"hits", 0}, {"tries", 50}, {"ended", "failed"}})), Result::Unseen);
  EXPECT_EQ(classify(Kind::Reproduces, line({{"hits", 1}, {"tries", 50}, {"ended", "passed"}})), Result::Reproduced);
}

TEST(Judge, WithoutAnExpectationTheDocumentCounts) {
  EXPECT_EQ(judge(Kind::Reproduces, Result::Reproduced, nullptr, "900"), Verdict::AsDocumented);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Healthy, nullptr, "ok"), Verdict::NewlyFixed);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Different, nullptr, "906"), Verdict::Changed);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Unseen, nullptr, ""), Verdict::Inconclusive);
  EXPECT_EQ(judge(Kind::Fix, Result::Broken, nullptr, ""), Verdict::FixFails);
  EXPECT_EQ(judge(Kind::Control, Result::Broken, nullptr, ""), Verdict::ControlFails);
}

TEST(Judge, AnExpectationMustFitExactly) {
  Expectation e;
  e.result = "different";
  e.seen = "check \"*pinned*\" > active > ok";
  EXPECT_EQ(judge(Kind::Reproduces, Result::Different, &e, "check \"is not pinned\" > active > ok"),
            Verdict::AsExpected);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Different, &e, "906 > invalidated > 901"), Verdict::Changed);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Reproduced, &e, "900 > invalidated > 901"), Verdict::Regressed);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Healthy, &e, "ok > active > ok"), Verdict::Changed);
}

TEST(ExitCode, TheWorstCounts) {
  EXPECT_EQ(exit_for({Verdict::AsDocumented, Verdict::AsExpected, Verdict::Unavailable}), Exit::AsExpected);
  EXPECT_EQ(exit_for({Verdict::AsDocumented, Verdict::NewlyFixed}), Exit::NewlyFixed);
  EXPECT_EQ(exit_for({Verdict::NewlyFixed, Verdict::Inconclusive}), Exit::Inconclusive);
  EXPECT_EQ(exit_for({Verdict::AsDocumented, Verdict::Stale}), Exit::Inconclusive);
  EXPECT_EQ(exit_for({Verdict::Inconclusive, Verdict::FixFails}), Exit::Changed);
  EXPECT_EQ(exit_for({Verdict::Changed, Verdict::Missing}), Exit::Infrastructure);
  EXPECT_EQ(exit_for({Verdict::Unavailable, Verdict::NotApplicable}), Exit::NothingRan);
  EXPECT_EQ(exit_for({}), Exit::NothingRan);
}

TEST(Rate, HasAnInterval) {
  const auto [low, high] = wilson(98, 120);
  EXPECT_NEAR(low, 0.738, 0.001);
  EXPECT_NEAR(high, 0.876, 0.001);
  EXPECT_EQ(wilson(0, 10).first, 0);
  EXPECT_GT(wilson(0, 10).second, 0.25) << "ten tries without a hit still leave room for much";
}

TEST(Readme, ShowsTheTablesThatJudge) {
  std::ifstream file(RECAPTURE_ROOT "/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(readme, ::testing::HasSubstr(tables_as_markdown())) << "put in what `recapture tables` prints";
}

TEST(Range, ReadsComparisons) {
  EXPECT_TRUE(satisfies("2.10.0", ">=2.9"));
  EXPECT_TRUE(older("2.9.1", "2.10.0"));
  EXPECT_TRUE(satisfies("2.6.0", "<2.8"));
  EXPECT_FALSE(satisfies("2.13.0", ">=2.8, <2.13"));
  EXPECT_TRUE(satisfies("2.6.0", "==2.6.0"));
  EXPECT_THROW(satisfies("2.6.0", "2.6"), Stop);
  EXPECT_THROW(satisfies("2.6.0", ">="), Stop);
}

class ExpectationFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root + "/cases/f"); }
  void TearDown() override { std::filesystem::remove_all(root); }
  std::string error_of(const std::string& text) {
    std::ofstream(root + "/cases/f/expectations.toml") << text;
    try {
      read_expectations(root);
      return "";
    } catch (const Stop& stop) {
      EXPECT_EQ(stop.code, Exit::Usage);
      return stop.what();
    }
  }
  std::string root = ::testing::TempDir() + "recapture-expectations-" + std::to_string(getpid());
  std::string good =
      "[[expect]]\ntest='c.Reproduces'\nrelease='>=2.8'\nresult='healthy'\nwhy='w'\nsource='s'\nrecords=['r']\n";
};

TEST_F(ExpectationFile, IsRefusedWithItsPlaceWhereItIsWrong) {
  using ::testing::HasSubstr;
  EXPECT_EQ(error_of(good), "");
  EXPECT_THAT(error_of("[[expect]]\ntest='c.R'"), HasSubstr("expectations.toml:1: needs 'release'"));
  EXPECT_THAT(error_of(good + "wy='x'\n"), HasSubstr("unknown key 'wy'"));
  EXPECT_THAT(error_of("[[expect]]\ntest='c.R'\nrelease='>=2.8'\nresult='fixed'\nwhy='w'\nsource='s'\nrecords=['r']\n"),
              HasSubstr("'fixed' is not a result"));
  EXPECT_THAT(
      error_of("[[expect]]\ntest='c.R'\nrelease='>=2.8'\nresult='different'\nwhy='w'\nsource='s'\nrecords=['r']\n"),
      HasSubstr("needs 'seen'"));
  EXPECT_THAT(error_of("[[expect]\n"), HasSubstr("expectations.toml:1"));
}

Record record_with(const std::string& release, const Json& test) {
  Record r;
  r.path = "reports/r";
  r.environment = {{"release", release}, {"gpu", "G"}};
  CaseInfo info;
  info.id = "c";
  info.tests = {"Reproduces"};
  r.cases["c"] = info;
  Json all{{"test", "c.Reproduces"}, {"ending", "exited"}, {"code", 1}, {"documented", "900"}, {"healthy", "ok"}};
  all.update(test);
  r.tests.push_back({all});
  return r;
}

TEST(ExpectationErrors, UnusedAndShadowedAreErrors) {
  const std::vector<Release> matrix = {{"2.6.0"}, {"2.11.0"}};
  const Record fixed = record_with("2.11.0", {{"seen", "ok"}, {"ended", "failed"}});
  const Record still = record_with("2.11.0", {{"seen", "900"}, {"ended", "passed"}});
  Expectation e;
  e.test = "c.Reproduces";
  e.release = ">=2.8";
  e.result = "healthy";
  e.source = "pytorch#1";
  e.records = {"r"};
  EXPECT_THAT(expectation_errors({e}, matrix, {fixed}), ::testing::IsEmpty());
  EXPECT_EQ(expectation_errors({e}, matrix, {still}).size(), 1U) << "the record does not show it";
  EXPECT_EQ(expectation_errors({e}, {{"2.6.0"}}, {fixed}).size(), 1U) << "no release of the matrix";
  EXPECT_EQ(expectation_errors({e, e}, matrix, {fixed}).size(), 1U) << "shadowed";
  Expectation open = e;
  open.source = "open question";
  EXPECT_EQ(expectation_errors({open}, matrix, {fixed}).size(), 1U) << "not confirmed";
  Expectation unknown = e;
  unknown.test = "c.Elsewhere";
  EXPECT_GE(expectation_errors({unknown}, matrix, {fixed}).size(), 1U);
}

TEST(LooseSignatures, OneThatTakesAForeignFailureIsAnError) {
  const Record mine = record_with("2.11.0", {{"seen", "check \"a\""}, {"documented", "check *"}, {"ended", "passed"}});
  Record other = record_with("2.11.0", {{"seen", "check \"b\""}, {"documented", "check \"b\""}, {"ended", "passed"}});
  other.tests[0].line["test"] = "d.Reproduces";
  EXPECT_EQ(loose_signatures({mine, other}, {}).size(), 1U);
  EXPECT_THAT(loose_signatures({other}, {}), ::testing::IsEmpty());
}

}  // namespace
}  // namespace recapture

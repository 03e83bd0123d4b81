// Simulated cases: they run on the host, belong to no release, and count in no total.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/compare/policy.h"
#include "harness/compare/sides.h"
#include "harness/report/case_view.h"
#include "harness/report/markdown.h"
#include "harness/report/overview.h"
#include "harness/report/text.h"
#include "harness/store/coverage.h"
#include "harness/store/select.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/timeline/failures.h"
#include "harness/timeline/history.h"

namespace recapture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

CatalogueCase model() {
  CatalogueCase one;
  one.id = "c";
  one.family = "f";
  one.title = "A title";
  one.fidelity = Fidelity::Simulated;
  one.needs = {};
  one.tests = {{"Control", Kind::Control, {}, ""},
               {"Reproduces", Kind::Reproduces, Effect::Raises, ""},
               {"FixIt", Kind::Fix, {}, "Do it."}};
  return one;
}

// Writes and reads records of one simulated case.
class Simulated : public ::testing::Test {
 protected:
  Simulated() { rules.simulated = {"c"}; }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Record run(const Json& environment, bool holds = true, const std::string& hash = "h") {
    const std::string path = folder + "/" + std::to_string(++runs) + ".jsonl";
    FakeRecord{fake_environment(environment),
               {fake_test("c.Control"), fake_failure("c.Reproduces", "D"), fake_test("c.FixIt", fake_ending(holds))},
               {{"needs", "host"}, {"hash", hash}}}
        .write(path);
    return read_record(path);
  }
  static Json host(const std::string& release = "2.15.0", const std::string& started = "2026-01-01T00:00:00Z") {
    return {{"gpu", ""}, {"driver", ""}, {"release", release}, {"volatile", {{"started", started}}}};
  }
  std::vector<Verdict> verdicts(const Record& record) const { return verdicts_of(judge_record(record, rules)); }

  const std::string folder = ::testing::TempDir() + "recapture-simulated-" + std::to_string(getpid());
  int runs = 0;
  Rules rules;
};

TEST_F(Simulated, RecordOfAGpu_HasNoRowsOfIt) {
  const Record record = run(Json::object());
  EXPECT_THAT(judge_record(record, {}), SizeIs(3)) << "and so has no other case";
  EXPECT_THAT(judge_record(record, rules), IsEmpty());
  EXPECT_THAT(record.tests, SizeIs(3)) << "they stay in the record";
}

TEST_F(Simulated, RunOfTheHost_IsSimulatedUnlessTheModelFails) {
  EXPECT_THAT(verdicts(run(host())), ElementsAre(Verdict::Simulated, Verdict::Simulated, Verdict::Simulated));
  EXPECT_EQ(exit_for(verdicts(run(host()))), Exit::AsExpected);
  EXPECT_THAT(verdicts(run(host(), false)), ElementsAre(Verdict::Simulated, Verdict::Simulated, Verdict::FixFails));
  EXPECT_EQ(exit_for(verdicts(run(host(), false))), Exit::Changed);
  EXPECT_THAT(report::summary(judge_record(run(host()), rules)), HasSubstr("3 simulated"));
}

TEST_F(Simulated, RunsOfAFolder_CountItInNoTotal) {
  const std::vector<Record> records = {run(host()), run(Json::object())};
  const ResultMatrix with(records, {}), without(records, rules);
  EXPECT_THAT(report::last_line(latest(with)), HasSubstr("6 results on 2 machines"));
  EXPECT_THAT(report::last_line(latest(without)), HasSubstr("0 results on 2 machines"));
  EXPECT_THAT(report::machines_text(latest(without)),
              AllOf(HasSubstr("3 tests of models of ours"), Not(HasSubstr("as documented"))));
  EXPECT_THAT(NewestRows(with).of("c", "2.15.0, no GPU"), SizeIs(3));
  EXPECT_THAT(NewestRows(without).of("c", "2.15.0, no GPU"), IsEmpty());
  EXPECT_THAT(report::render_markdown(with), HasSubstr("[c](../cases/f/c.cpp)"));
  EXPECT_THAT(report::render_markdown(without),
              AllOf(Not(HasSubstr("[c](../cases/f/c.cpp)")), HasSubstr("and so without a row: 1 case.")));
  const Catalogue catalogue = {model()};
  EXPECT_THAT(timeline::failure_table(without, catalogue, timeline::FailureColumns::Releases).rows, IsEmpty());
}

TEST_F(Simulated, CaseView_HasTheLastRunOfTodaysModel) {
  rules.tree["c"] = {"f", "", "", "h"};
  const ResultMatrix board({run(host("2.5.1", "2026-01-03")), run(host("2.6.0", "2026-01-03")), run(Json::object()),
                            run(host("2.11.0", "2026-01-02")), run(host("2.15.0", "2026-01-09"), true, "older")},
                           rules);
  const CatalogueCase one = model();
  const auto all = latest(board);
  const report::CaseView view{one, {}, {}, all};
  const std::string text = report::render_text(view);
  EXPECT_THAT(text, HasSubstr("\nSimulated: a model of ours on the host, no release. Run with LibTorch 2.6.0, no GPU"));
  EXPECT_THAT(text, AllOf(HasSubstr("fidelity    simulated"), HasSubstr("holds in the model")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("2.5.1")), Not(HasSubstr("2.11.0")), Not(HasSubstr("2.15.0"))));
  EXPECT_THAT(report::render_json(view).at("results"), SizeIs(1));
}

TEST_F(Simulated, Test_IsLeftOnceAndOnNoGpu) {
  MachineId gpu, none;
  gpu.gpu = "G";
  gpu.driver = "1";
  const auto left = [&](const std::vector<Record>& records, const MachineId& machine, bool is_simulated) {
    return CoverageIndex(records, rules).left("2.15.0", machine, {{"c.Control", Needs{}, is_simulated}});
  };
  EXPECT_THAT(left({}, gpu, false).tests, SizeIs(1));
  EXPECT_THAT(left({}, gpu, true).tests, IsEmpty());
  EXPECT_THAT(left({}, gpu, true).counts, IsEmpty()) << "nor is it complete there";
  EXPECT_THAT(left({}, none, true).tests, SizeIs(1));
  const Record other = run(host("2.6.0"));
  EXPECT_THAT(left({other}, none, false).tests, SizeIs(1));
  EXPECT_THAT(left({other}, none, true).tests, IsEmpty()) << "any release will do";
  EXPECT_THAT(left({run(Json::object())}, none, true).tests, SizeIs(1)) << "a run with a GPU is not it";
  EXPECT_THAT(complete_tests({&other}, {}), SizeIs(3));
  EXPECT_THAT(complete_tests({&other}, rules), IsEmpty());
}

TEST_F(Simulated, Comparison_HasNothingOfIt) {
  compare::CompareContext background;
  const Record record = run(host());
  EXPECT_THAT(compare::judge_without_staleness(record, background).rows, SizeIs(3));
  background.rules = rules;
  EXPECT_THAT(compare::judge_without_staleness(record, background).rows, IsEmpty());

  compare::Comparison comparison;
  CatalogueCase other = model();
  other.fidelity = Fidelity::Modelled;
  compare::add_never_run(compare::tests_to_judge({"c"}, {model()}), comparison);
  EXPECT_THAT(comparison.tests, IsEmpty());
  compare::add_never_run(compare::tests_to_judge({"c"}, {other}), comparison);
  EXPECT_THAT(comparison.tests, SizeIs(3));
}

TEST_F(Simulated, RemedyInAModel_IsNoEvidenceOfARelease) {
  Json broken = host();
  broken["break"] = "remedy";
  Record record = run(broken, false);
  edit_line(record.tests.back())["remedy"] = "left out";
  compare::CompareContext background;
  background.learn_from(record);
  EXPECT_THAT(background.without_remedy, SizeIs(1));
  background.without_remedy.clear();
  background.rules = rules;
  background.learn_from(record);
  EXPECT_THAT(background.without_remedy, IsEmpty());
}

TEST_F(Simulated, History_HasNoneOfIt) {
  const Record record = run(host());
  EXPECT_THAT(timeline::HistoryQuery({record}, {}, {}).of({"c.Control"}), SizeIs(1));
  EXPECT_THAT(timeline::HistoryQuery({record}, rules, {}).of({"c.Control"}), IsEmpty());
}

}  // namespace
}  // namespace recapture

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <pugixml.hpp>
#include <sstream>

#include "harness/base/text.h"
#include "harness/report/case_summary.h"
#include "harness/report/case_view.h"
#include "harness/report/extent.h"
#include "harness/report/fix_code.h"
#include "harness/report/json.h"
#include "harness/report/junit.h"
#include "harness/report/markdown.h"
#include "harness/report/overview.h"
#include "harness/report/program_diff.h"
#include "harness/report/text.h"
#include "harness/store/result_matrix.h"
#include "harness/store/select.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

using recapture::Deviation;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Text, Wrap_BreaksAtBlanksAndNeverInAWord) {
  const std::string word(60, 'x'), longer(120, 'y');
  EXPECT_EQ(wrap("  ", word + " " + word + " z " + longer, "    "),
            "  " + word + "\n    " + word + " z\n    " + longer + "\n");
  EXPECT_EQ(wrap("- ", "", "  "), "- \n");
}

TEST(Text, AddOnce_KeepsWhatIsThere) {
  std::vector<std::string> all = {"a"};
  add_once(all, "a");
  add_once(all, "b");
  EXPECT_THAT(all, ElementsAre("a", "b"));
  EXPECT_TRUE(contains(all, "b"));
  EXPECT_FALSE(contains(all, "c"));
}

Record two_tests() {
  Record r;
  r.environment = {{"release", "2.15.0"}, {"gpu", "G"}, {"driver", "1"}, {"break", "nothing"}};
  CaseInfo info;
  info.id = "c";
  info.family = "f";
  info.hash = "h";
  info.needs = {.gpus = 1};
  info.title = "A title";
  r.cases["c"] = info;
  r.plan = {"c.Control", "c.Reproduces", "c.FixIt"};
  r.end = "complete";
  r.add({fake_test("c.Control")});
  r.add({{{"test", "c.Reproduces"},
          {"ending", "exited"},
          {"code", 0},
          {"ended", "passed"},
          {"seen", "900"},
          {"documented", "900"},
          {"healthy", "ok"},
          {"error", 900},
          {"volatile", {{"seconds", 0.5}}}}});
  return r;
}

TEST(Show, TestWithoutALine_IsNotRun) {
  const auto rows = judge_record(two_tests(), {});
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].verdict, Verdict::AsDocumented);
  EXPECT_EQ(rows[1].verdict, Verdict::AsDocumented);
  EXPECT_EQ(rows[2].verdict, Verdict::NotRun);
  EXPECT_EQ(exit_for(verdicts_of(rows)), Exit::Inconclusive);
}

TEST(Show, ChangedCase_IsStale) {
  Rules rules;
  rules.tree["c"] = {"f", "", "another"};
  for (const TestVerdict& row : judge_record(two_tests(), rules)) {
    EXPECT_TRUE(row.verdict == Verdict::Stale || row.verdict == Verdict::NotRun) << row.test;
  }
  rules.tree["c"] = {"f", "", "h"};
  EXPECT_EQ(judge_record(two_tests(), rules)[1].verdict, Verdict::AsDocumented);
}

TEST(Show, FailingControl_MakesItsCaseInconclusive) {
  Record record = two_tests();
  edit_line(record.tests[0])["ended"] = "failed";
  edit_line(record.tests[0])["code"] = 1;
  const auto rows = judge_record(record, {});
  EXPECT_EQ(rows[0].verdict, Verdict::ControlFails);
  EXPECT_EQ(rows[1].verdict, Verdict::Inconclusive);
}

TEST(Show, DisagreeingConfirmation_IsInconclusive) {
  Record record = two_tests();
  TestRecord again = record.tests[1];
  record.confirmations["c.Reproduces"] = {again};
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::AsDocumented);
  edit_line(again)["seen"] = "ok";
  edit_line(again)["ended"] = "failed";
  edit_line(again)["code"] = 1;
  record.confirmations["c.Reproduces"].push_back(again);
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::Inconclusive);
}

TEST(Show, UnavailableTestThatRanBefore_IsMissing) {
  Record before = two_tests(), now = two_tests();
  *edit_line(now.tests[1]) = {
      {"test", "c.Reproduces"}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", "no package"}};
  Rules rules;
  EXPECT_EQ(judge_record(now, rules)[1].verdict, Verdict::Unavailable);
  rules.available = available_in({before});
  EXPECT_EQ(judge_record(now, rules)[1].verdict, Verdict::Missing);
  EXPECT_EQ(render_observed(judge_record(now, rules)[1]), "no package; a record of such a machine has it");
  EXPECT_EQ(to_string(judge_record(now, rules)[1].observed), "no package") << "the observation alone";
  EXPECT_EQ(exit_for(verdicts_of(judge_record(now, rules))), Exit::Infrastructure);
  now.environment = now.environment.with("cuda_runtime", "12.0");
  now.environment = now.environment.with("cuda_runtime_by", "preload");
  EXPECT_EQ(judge_record(now, rules)[1].verdict, Verdict::Unavailable) << "with that runtime it never ran";
}

// A test that one GPU cannot run was not available there just because a machine with two ran it.
TEST(Show, TestThatNeedsMoreGpus_IsNotMissing) {
  Record before = two_tests(), now = two_tests();
  before.environment = before.environment.with("gpus", 2);
  *edit_line(now.tests[1]) = {
      {"test", "c.Reproduces"}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", "needs 2 GPUs"}};
  Rules rules;
  rules.available = available_in({before});
  now.environment = now.environment.with("gpus", 1);
  EXPECT_EQ(judge_record(now, rules)[1].verdict, Verdict::Unavailable);
  now.environment = now.environment.with("gpus", 2);
  EXPECT_EQ(judge_record(now, rules)[1].verdict, Verdict::Missing);
}

TEST(Show, DemandedRecorderThatSawNothing_IsMissing) {
  Record record = two_tests();
  edit_line(record.tests[1])["raised_by"] = "cuStreamSynchronize";
  Rules rules;
  rules.demands.recorder = true;
  EXPECT_EQ(judge_record(record, rules)[1].verdict, Verdict::Missing);
  EXPECT_EQ(render_observed(judge_record(record, rules)[1]), "900; the recorder saw no call");
  edit_line(record.tests[1])["recorder"] = "no CUPTI";
  EXPECT_EQ(render_observed(judge_record(record, rules)[1]), "900; the recorder was off: no CUPTI");
  edit_line(record.tests[1])["culprit"] = {{"api", "cuStreamSynchronize"}};
  EXPECT_EQ(judge_record(record, rules)[1].verdict, Verdict::AsDocumented);
}

TEST(Show, Culprit_HasItsLineAndWhatPyTorchNames) {
  TestRecord test = two_tests().tests[1];
  edit_line(test)["culprit"] = {
      {"api", "cuStreamEndCapture"}, {"code", 904}, {"thread", "capturing"},  {"mode", "global"},
      {"file", "cases/c/c.cpp"},     {"line", 57},  {"log", "Unjoined work"}, {"python", {"train.py:3 step"}},
      {"frames", {"main"}}};
  const auto known = [&] { return details_of(test); };
  EXPECT_EQ(known().call,
            "cuStreamEndCapture returned 904, capturing thread, capture mode global, at cases/c/c.cpp:57");
  EXPECT_THAT(known().stack, ElementsAre("train.py:3 step", "main"));
  EXPECT_EQ(known().log, "Unjoined work");
  EXPECT_EQ(known().pytorch, "") << "its message quotes no log";
  edit_line(test)["message"] =
      "CUDA error: invalid argument\nReturning 1 (CUDA_ERROR_INVALID_VALUE) from cuStreamWaitEvent\n";
  EXPECT_EQ(known().pytorch, "names cuStreamWaitEvent instead, which returned 1");
  edit_line(test)["message"] = "Returning 904 (CUDA_ERROR_STREAM_CAPTURE_UNJOINED) from cuStreamEndCapture_v2\n";
  EXPECT_EQ(known().pytorch, "names the same call");
}

TEST(Show, Assertion_IsOneLine) {
  Record record = two_tests();
  const auto seen = [&](const char* assertion) {
    edit_line(record.tests[0])->update({{"ended", "failed"}, {"code", 1}, {"assertions", {assertion}}});
    return to_string(judge_record(record, {})[0].observed);
  };
  EXPECT_EQ(seen("c.cpp:7: Expected equality of these values:\n  more()\n    Which is: 80\n  64"),
            "c.cpp:7: Expected equality of these values: more() Which is: 80 64");
  EXPECT_EQ(seen(":-1: C++ exception with description \"CUDA error\nframe #0: f()\" thrown in the test body."),
            "raised \"CUDA error\"");
  EXPECT_EQ(seen(":-1: C++ exception with description \"no\" thrown in the test body."), "raised \"no\"");
}

TEST(Show, BrokenOnPurpose_MustBeHealthyOrDifferent) {
  Record record = two_tests();
  record.environment = record.environment.with("break", "trigger");
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::Changed) << "it reproduces without its trigger";
  edit_line(record.tests[1])["seen"] = "ok";
  edit_line(record.tests[1])["ended"] = "failed";
  edit_line(record.tests[1])["code"] = 1;
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::AsExpected);
  record.environment = record.environment.with("break", "value");
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::Changed);
}

TEST(Show, FixWithoutItsRemedy_MustFail) {
  Record record = two_tests();
  record.environment = record.environment.with("break", "remedy");
  record.add({fake_test("c.FixIt")});
  const auto fix = [&] { return judge_record(record, {})[2]; };
  ASSERT_EQ(fix().kind, Kind::Fix);
  EXPECT_EQ(fix().verdict, Verdict::Inconclusive) << "nothing was left out";
  EXPECT_THAT(render_observed(fix()), HasSubstr("it left no remedy out"));
  edit_line(record.tests[2])["remedy"] = "left out";
  EXPECT_EQ(fix().verdict, Verdict::Changed) << "it holds without its remedy";
  edit_line(record.tests[2])["ended"] = "failed";
  edit_line(record.tests[2])["code"] = 1;
  EXPECT_EQ(fix().verdict, Verdict::AsExpected);
}

TEST(Show, FixOfAHealedCase_NeedsNoRemedy) {
  Record record = two_tests();
  record.environment = record.environment.with("break", "remedy");
  record.cases.at("c").tests = {"Control", "Reproduces", "ReproducesLater", "FixIt"};
  record.add({{{"test", "c.FixIt"}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}, {"remedy", "left out"}}});
  Rules rules;
  rules.expectations = {{"c.Reproduces", {}, Result::Healthy, "ok", "fixed", "pytorch#1", {}, ""}};
  EXPECT_EQ(judge_record(record, rules)[2].verdict, Verdict::Changed) << "one of two failures is still there";
  rules.expectations.push_back({"c.ReproducesLater", {}, Result::Healthy, "ok", "fixed", "pytorch#1", {}, ""});
  const TestVerdict fix = judge_record(record, rules)[2];
  EXPECT_EQ(fix.verdict, Verdict::NotApplicable);
  EXPECT_EQ(render_observed(fix), "the failure is gone here, so there is nothing to remedy");
}

TEST(Show, HealedFailure_HasNoValueToBeWrong) {
  Record record = two_tests();
  record.environment = record.environment.with("break", "value");
  edit_line(record.tests[1])["seen"] = "ok";
  edit_line(record.tests[1])["ended"] = "failed";
  edit_line(record.tests[1])["code"] = 1;
  Rules rules;
  EXPECT_EQ(judge_record(record, rules)[1].verdict, Verdict::Changed) << "it is not expected to be gone";
  rules.expectations = {{"c.Reproduces", {}, Result::Healthy, "ok > active", "fixed", "pytorch#1", {}, ""}};
  EXPECT_EQ(judge_record(record, rules)[1].verdict, Verdict::Changed) << "it is gone in another way";
  rules.expectations[0].seen = "ok";
  EXPECT_EQ(judge_record(record, rules)[1].verdict, Verdict::NotApplicable);
  edit_line(record.tests[1])["seen"] = "something else";
  EXPECT_EQ(judge_record(record, rules)[1].verdict, Verdict::AsExpected) << "a value that differs was noticed";
}

TEST(Show, Json_HasTheDocumentedKeys) {
  Record record = two_tests();
  record.path = "r.jsonl";
  record.environment = record.environment.with("volatile", {{"started", "2026-01-02T00:00:00Z"}});
  record.environment = record.environment.with("break", "trigger");
  const Json rows = render_json(ResultMatrix({record}, {}).records().front());
  ASSERT_EQ(rows.size(), 3U);
  for (const char* key : {"case",   "family", "test",   "release", "gpu",     "driver",  "cuda_runtime",
                          "packed", "env",    "break",  "result",  "verdict", "seen",    "code",
                          "effect", "reason", "source", "seconds", "record",  "started", "end"}) {
    EXPECT_TRUE(rows[1].contains(key)) << key;
  }
  EXPECT_EQ(rows[1]["break"], "trigger");
  EXPECT_EQ(rows[1]["record"], "r.jsonl");
  EXPECT_EQ(rows[1]["started"], "2026-01-02T00:00:00Z");
  EXPECT_EQ(rows[1]["family"], "f");
  EXPECT_EQ(rows[1]["code"], 900);
  EXPECT_EQ(rows[1]["seconds"], 0.5);
  EXPECT_EQ(rows[2]["result"], "not run");
}

TEST(Show, Markdown_HasALineACaseAndAColumnARelease) {
  const std::string table = render_markdown(ResultMatrix({two_tests()}, {}));
  EXPECT_THAT(table, HasSubstr("## G\n\n| case | what happens | 2.15.0 |\n"));
  EXPECT_THAT(table, HasSubstr("| [c](../cases/f/c.cpp) | A title | reproduced; 1 not run |"));
}

TEST(Show, Markdown_HasATableAGpuWithoutCasesThatCannotRun) {
  Record with = two_tests(), older = two_tests(), without = two_tests();
  older.environment = older.environment.with("release", "2.14.1");
  without.environment = without.environment.with("gpu", "");
  for (TestRecord& test : without.tests) {
    *edit_line(test) = {{"test", test.id()}, {"ending", "not started"}, {"code", 0}, {"skipped", "no GPU"}};
  }
  const std::string table = render_markdown(ResultMatrix({without, older, with}, {}));
  EXPECT_THAT(table, HasSubstr("| case | what happens | 2.14.1 | 2.15.0 |\n"));
  EXPECT_LT(table.find("## G\n"), table.find("## Without a GPU\n")) << "the GPU with most releases comes first";
  EXPECT_THAT(table,
              HasSubstr("## Without a GPU\n\n| case | what happens | 2.15.0 |\n| --- | --- | --- |\n\nWithout a row"));
  EXPECT_THAT(table, HasSubstr(": 1 of 1 cases.\n"));
}

TEST(Show, HostCase_IsKnownFromARunWithoutAGpu) {
  Record with = two_tests(), without = two_tests();
  with.cases["c"].hash = "old";
  without.cases["c"].needs = {};
  without.environment = without.environment.with("gpu", "");
  without.add({fake_test("c.FixIt")});
  Rules rules;
  rules.tree["c"] = {"f", "", "h"};
  const auto stale_in = [&](const std::vector<Record>& records) {
    const auto verdicts = ResultMatrix(records, rules).verdicts();
    return std::count(verdicts.begin(), verdicts.end(), Verdict::Stale);
  };
  EXPECT_EQ(stale_in({with}), 2);
  EXPECT_EQ(stale_in({with, without}), 0);
  const std::string line = "| A title | reproduced; 1 of 1 fixes hold |\n";
  const std::string table = render_markdown(ResultMatrix({with, without}, rules));
  EXPECT_LT(table.find("## G\n"), table.find(line));
  EXPECT_NE(table.find(line), table.rfind(line)) << "in both tables";
  Record missing;
  missing.environment = with.environment;
  missing.cases = with.cases;
  missing.cases["c"].hash = "h";
  missing.plan = with.plan;
  missing.end = with.end;
  missing.add({{{"test", "c.Control"}, {"ending", "not started"}, {"code", 0}, {"skipped", kNotBuilt}}});
  const auto verdicts = ResultMatrix({missing, without}, rules).verdicts();
  EXPECT_EQ(std::count(verdicts.begin(), verdicts.end(), Verdict::Missing), 1) << "reported only by the run itself";
  without.cases["c"].needs = {.gpus = 1};
  EXPECT_EQ(stale_in({with, without}), 2) << "it needs a GPU";
  without.cases["c"].needs = {};
  without.environment = without.environment.with("release", "2.14.1");
  EXPECT_EQ(stale_in({with, without}), 2) << "another release";
}

TEST(Show, MarkdownCellWithoutAResult_HasTheReason) {
  Record unavailable = two_tests(), cut_short, without;
  const std::string reason = "no package: /home/me/package is missing";
  for (TestRecord& test : unavailable.tests) {
    *edit_line(test) = {
        {"test", test.id()}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", reason}};
  }
  cut_short.environment = {{"release", "2.14.1"}, {"gpu", "G"}};
  cut_short.cases = unavailable.cases;
  cut_short.plan = unavailable.plan;
  without.environment = {{"release", "2.13.0"}, {"gpu", "G"}};
  const std::string table = render_markdown(ResultMatrix({unavailable, cut_short, without}, {}));
  EXPECT_THAT(table, HasSubstr("| A title | not part of the run | not run | unavailable: no package |"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("|  |")));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("/home/")));

  for (TestRecord& test : unavailable.tests) edit_line(test)["skipped"] = "no package";
  Rules rules;
  rules.available = available_in({two_tests()});
  EXPECT_THAT(render_markdown(ResultMatrix({unavailable}, rules)), HasSubstr("| A title | unavailable: no package |"))
      << "missing tests are reported only by the run itself";
}

TEST(Show, MarkdownOfControlsAlone_CountsThemAndUnavailableTests) {
  Record record = two_tests();
  *edit_line(record.tests[1]) = {
      {"test", "c.Reproduces"}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", "no package"}};
  EXPECT_THAT(render_markdown(ResultMatrix({record}, {})),
              HasSubstr("| A title | 1 of 1 controls hold; 1 unavailable; 1 not run |"));
}

TEST(Show, LaterRecord_ReplacesStaleRows) {
  Record before = two_tests(), after = two_tests();
  Rules rules;
  rules.tree["c"] = {"f", "", "new"};
  EXPECT_THAT(render_markdown(ResultMatrix({before}, rules)), HasSubstr("| A title | stale |"));
  after.cases.at("c").hash = "new";
  for (const auto& records : {std::vector{before, after}, std::vector{after, before}}) {
    EXPECT_THAT(render_markdown(ResultMatrix(records, rules)), HasSubstr("| A title | reproduced; 1 not run |"));
  }
}

TEST(Show, TestNoLongerInTheCode_IsNotStale) {
  Record before = two_tests(), after = two_tests();
  after.environment = after.environment.with("volatile", {{"started", "2026-01-02T00:00:00Z"}});
  after.cases.at("c").hash = "new";
  after.cases.at("c").tests = {"Control"};
  after.tests.pop_back();
  after.plan = {"c.Control"};
  Rules rules;
  rules.tree["c"] = {"f", "", "new"};
  EXPECT_EQ(last_line(latest(ResultMatrix({before, after}, rules))), "1 results on 1 machine, no surprises\n");
  after.cases.at("c").tests.push_back("Reproduces");
  EXPECT_THAT(last_line(latest(ResultMatrix({before, after}, rules))), HasSubstr("1 stale"));
}

TEST(Show, Latest_IsTheNewestResultOfEachTest) {
  Record before = two_tests(), after = two_tests();
  *edit_line(after.tests[1]) = {
      {"test", "c.Reproduces"}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", "no package"}};
  after.environment = after.environment.with("volatile", {{"started", "2026-01-02T00:00:00Z"}});
  Record broken = two_tests();
  broken.environment = broken.environment.with("break", "trigger");
  const ResultMatrix board({before, after, broken}, {});
  const auto all = latest(board);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].machine, "2.15.0, G");
  EXPECT_EQ(all[1].broken, Break::Trigger);
  ASSERT_EQ(all[0].rows.size(), 3U);
  EXPECT_EQ(all[0].rows[0].judged, &board.records()[1]);
  EXPECT_EQ(all[0].rows[1].judged, &board.records()[0]) << "it is unavailable now, but had a result before";
  EXPECT_EQ(all[0].rows[2].row->verdict, Verdict::NotRun);
  const NewestRows newest(board);
  for (const TestVerdict& row : newest.of("c", "2.15.0, G")) {
    const auto same = std::find_if(all[0].rows.begin(), all[0].rows.end(),
                                   [&](const Latest& one) { return one.row->test == row.test; });
    ASSERT_NE(same, all[0].rows.end());
    EXPECT_EQ(to_string(same->row->observed), to_string(row.observed));
  }
  EXPECT_EQ(machines_text(all),
            "LibTorch 2.15.0, G, driver 1, CUDA runtime , 2026-01-02\n  2 as documented, 1 not run\n"
            "  trigger broken on purpose: 1 changed, 2 not run\n");
  EXPECT_THAT(surprises(all), HasSubstr("LibTorch 2.15.0, G, trigger broken on purpose\n  c.Reproduces"));
  EXPECT_EQ(last_line(all),
            "6 results on 1 machine, 1 surprise: 1 changed; 3 runs are incomplete, and 2 tests have not run\n");
}

// Newest or not, and with or without results that are shown.
TEST(Show, IncompleteRun_HasANoteAndIsCounted) {
  Record cut = two_tests(), rest, nothing;
  cut.path = "cut.jsonl";
  cut.end = "interrupted";
  for (Record* record : {&rest, &nothing}) {
    record->environment = cut.environment;
    record->cases = cut.cases;
  }
  rest.plan = {"c.FixIt"};
  rest.end = "complete";
  rest.add({fake_test("c.FixIt")});
  const ResultMatrix two({cut, rest}, {});
  EXPECT_THAT(machines_text(latest(two)), HasSubstr("note: cut.jsonl: the run ended early: interrupted\n"));
  EXPECT_EQ(last_line(latest(two)), "3 results on 1 machine, no surprises; 1 run is incomplete\n");
  EXPECT_EQ(exit_for(verdicts_of(latest(two))), Exit::Inconclusive);

  nothing.path = "nothing.jsonl";
  nothing.plan = cut.plan;
  nothing.notes = {"the run did not come to its end"};
  const ResultMatrix three({cut, rest, nothing}, {});
  EXPECT_THAT(machines_text(latest(three)), HasSubstr("note: nothing.jsonl: the run did not come to its end\n"));
  EXPECT_EQ(last_line(latest(three)), "3 results on 1 machine, no surprises; 2 runs are incomplete\n");
}

// A remedy that held for an older form of its test is not reported as holding.
TEST(Show, FixThatHeldInAnOlderForm_IsListedApart) {
  Record older = two_tests(), now = two_tests(), doubtful = two_tests();
  older.environment = older.environment.with("gpu", "Old");
  older.cases.at("c").hash = "older";
  doubtful.environment = doubtful.environment.with("gpu", "Other");
  edit_line(doubtful.tests[0])["ended"] = "failed";
  edit_line(doubtful.tests[0])["code"] = 1;
  for (Record* record : {&older, &now, &doubtful}) {
    record->add({fake_test("c.FixIt")});
  }
  Rules rules;
  rules.tree["c"] = {"f", "", "h"};
  const ResultMatrix board({older, now, doubtful}, rules);
  CatalogueCase one;
  one.id = "c";
  one.tests = {{"Control", Kind::Control, {}, ""},
               {"Reproduces", Kind::Reproduces, Effect::Raises, ""},
               {"FixIt", Kind::Fix, {}, "Do."}};
  const std::vector<CitedSource> sources;
  const std::vector<Deviation> changes;
  const auto all = latest(board);
  EXPECT_THAT(render_text(CaseView{one, sources, changes, all}),
              HasSubstr("  FixIt: Do.\n    holds on G: 2.15.0\n    inconclusive on Other: 2.15.0\n"
                        "    held in an older form of the test on Old: 2.15.0\n"));
}

TEST(Show, StaleCase_IsOneSurprise) {
  Rules rules;
  rules.tree["c"] = {"f", "", "new"};
  const ResultMatrix board({two_tests()}, rules);
  EXPECT_THAT(surprises(latest(board)), HasSubstr("the case has changed since (2 tests)\n"));
}

// A folder of records with these tests, of this day.
class Index : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void record(const std::string& name, const std::string& day, const std::vector<std::string>& plan,
              const std::vector<std::string>& ran, const std::string& driver = "1", const std::string& gpu = "G",
              const std::map<std::string, Json>& more = {}) {
    Json environment = {{"recapture", 1}, {"release", "2.15.0"}, {"gpu", gpu}, {"driver", driver}};
    if (!day.empty()) environment["volatile"] = {{"started", day}};
    CaseInfo info;
    info.id = "c";
    info.needs = {.gpus = 1};
    std::ofstream file(folder + "/" + name + ".jsonl");
    file << environment << '\n' << Json{{"plan", plan}} << '\n' << info.to_json() << '\n';
    for (const std::string& test : ran) file << Json{{"test", test}, {"ending", "exited"}} << '\n';
    for (const auto& [test, its] : more) {
      Json line = {{"test", test}};
      line.update(its);
      file << line << '\n';
    }
  }
  // A record of these lines after its first one.
  void lines(const std::string& name, const Json& environment, const std::vector<std::string>& more) {
    Json first = {{"recapture", 1}, {"release", "2.15.0"}, {"gpu", "G"}, {"driver", "1"}};
    first.update(environment);
    std::ofstream file(folder + "/" + name + ".jsonl");
    file << first << '\n';
    for (const std::string& line : more) file << line << '\n';
  }
  static std::vector<std::string> names(const Newest& newest) {
    std::vector<std::string> names;
    for (const Record& record : newest.records) names.push_back(std::filesystem::path(record.path).stem().string());
    return names;
  }
  std::vector<std::string> newest() {
    const Newest newest = newest_records(folder);
    EXPECT_EQ(newest.left_out + newest.records.size(), all_records(folder).records.size());
    return names(newest);
  }
  const std::string folder = ::testing::TempDir() + "recapture-index-" + std::to_string(getpid());
  const std::vector<std::string> both = {"c.Control", "c.Reproduces"};
};

TEST_F(Index, NewestRecordByDate_ReplacesThoseBeforeIt) {
  record("a", "2026-01-03", both, both);
  record("b", "2026-01-02", both, both);
  record("c", "", both, both);
  EXPECT_THAT(newest(), ::testing::ElementsAre("a"));
  record("d", "2026-01-01", both, both, "2");
  EXPECT_THAT(newest(), ::testing::ElementsAre("d", "a")) << "another driver is another machine; the newest is last";
}

TEST_F(Index, NoDates_LastRecordIsTheNewest) {
  record("a", "", both, both);
  record("b", "", both, both);
  EXPECT_THAT(newest(), ::testing::ElementsAre("b"));
}

TEST_F(Index, OlderRecord_CountsForWhatTheNewestLacks) {
  record("a", "2026-01-01", both, both);
  record("b", "2026-01-02", both, both);
  record("c", "2026-01-03", {"c.Control"}, {"c.Control"});
  EXPECT_THAT(newest(), ::testing::ElementsAre("b", "c"));
  record("d", "2026-01-04", both, {"c.Control"});
  EXPECT_THAT(newest(), ::testing::ElementsAre("b", "d")) << "the last was cut short";
}

// For example, if a package was removed: the record that still had the test counts as evidence that it is missing.
TEST_F(Index, OlderRecord_CountsForWhatTheNewestCouldNotRun) {
  const Json gone = {{"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", "no package"}};
  const Json good = {{"ending", "exited"}, {"code", 0}, {"ended", "passed"}};
  const auto both_and = [&](const std::string& name, const std::string& day, const Json& second) {
    record(name, day, both, {"c.Control"}, "1", "G", {{"c.Reproduces", second}});
  };
  both_and("a", "2026-01-01", good);
  both_and("b", "2026-01-02", good);
  both_and("c", "2026-01-03", gone);
  both_and("d", "2026-01-04", gone);
  EXPECT_THAT(newest(), ElementsAre("b", "d"));
  Rules rules;
  rules.available = available_in(newest_records(folder).records);
  const ResultMatrix board(newest_records(folder).records, rules);
  EXPECT_THAT(NewestRows(board).of("c", "2.15.0, G"), ::testing::SizeIs(2)) << "its result is still known";
  const auto rows = latest(board).front().rows;
  EXPECT_EQ(rows[1].row->verdict, Verdict::Missing) << "and does not replace the missing result";

  for (const char* name : {"a", "b"}) std::filesystem::remove(folder + "/" + name + ".jsonl");
  both_and("0", "2026-01-01", gone);
  EXPECT_THAT(newest(), ElementsAre("d")) << "the older records lacked it too";
}

// A run without a race is no evidence against a run with it; a run that breaks it is.
TEST_F(Index, RaceThatWasSeen_StaysSeen) {
  const auto rate = [](int hits, int tries) {
    return Json{{"ending", "exited"},
                {"code", hits > 0 ? 0 : 1},
                {"ended", hits > 0 ? "passed" : "failed"},
                {"hits", hits},
                {"tries", tries}};
  };
  const std::vector<std::string> plan = {"c.Control", "c.ReproducesAtRate"};
  const auto night = [&](const std::string& name, const std::string& day, const Json& race) {
    record(name, day, plan, {}, "1", "G",
           {{"c.Control", {{"ending", "exited"}, {"code", 0}, {"ended", "passed"}}}, {"c.ReproducesAtRate", race}});
  };
  const auto verdict = [&] {
    const ResultMatrix board(newest_records(folder).records, {});
    const auto rows = latest(board).front().rows;
    EXPECT_EQ(rows.at(0).judged, &board.records().back()) << "otherwise the newest counts";
    EXPECT_EQ(NewestRows(board).of("c", "2.15.0, G").at(1).verdict, rows.at(1).row->verdict);
    return rows.at(1).row->verdict;
  };
  night("b", "2026-01-02", rate(0, 50));
  night("c", "2026-01-03", rate(0, 40));
  EXPECT_THAT(newest(), ElementsAre("c"));
  EXPECT_EQ(verdict(), Verdict::Insufficient);
  night("a", "2026-01-01", rate(1, 1));
  EXPECT_THAT(newest(), ElementsAre("a", "c"));
  EXPECT_EQ(verdict(), Verdict::AsDocumented);
  night("d", "2026-01-04", {{"ending", "exited"}, {"code", 1}, {"ended", "failed"}});
  EXPECT_THAT(newest(), ElementsAre("d"));
  EXPECT_EQ(verdict(), Verdict::Inconclusive);
  night("e", "2026-01-05", rate(0, 60));
  EXPECT_THAT(newest(), ElementsAre("a", "e")) << "runs before the broken one";
  EXPECT_EQ(verdict(), Verdict::AsDocumented);
  std::filesystem::remove(folder + "/a.jsonl");
  EXPECT_EQ(verdict(), Verdict::Insufficient) << "a broken run saw nothing";
}

// What occurs on one GPU can occur on others of its architecture; what does not occur on one shows nothing about
// others.
TEST(Show, UnseenRace_NamesTheGpuOfItsArchitectureThatShowedIt) {
  const std::string folder = ::testing::TempDir() + "recapture-races-" + std::to_string(getpid());
  const auto run = [&](const std::string& gpu, const char* capability, int hits, const Json& more = Json::object(),
                       const char* hash = "h") {
    Json environment = {{"gpu", gpu}, {"compute_capability", capability}};
    environment.update(more);
    Json race = fake_test("c.ReproducesAtRate", fake_ending(hits > 0));
    race.update({{"hits", hits}, {"tries", 50}});
    FakeRecord{fake_environment(environment), {fake_test("c.Control"), race}, {{"hash", hash}, {"nature", "race"}}}
        .write(folder + "/" + gpu + ".jsonl");
  };
  const auto seen_on_h = [&] {
    const ResultMatrix board(read_records_below(folder), {});
    const NewestRows newest(board);
    const TestVerdict& row = newest.of("c", "2.15.0, H").back();
    EXPECT_EQ(row.verdict, Verdict::Insufficient) << "unseen is no evidence, and it stays unseen there";
    EXPECT_EQ(newest.of("c", "2.15.0, G").back().reasons.size(), 0U);
    return render_observed(row);
  };
  run("H", "9.0", 0);
  run("G", "9.0", 1);
  EXPECT_EQ(seen_on_h(), "0 of 50 tries; it occurs on G, of the same architecture");
  EXPECT_THAT(render_markdown(ResultMatrix(read_records_below(folder), {})),
              HasSubstr("| unseen; it occurs on G, of the same architecture |"));
  run("G", "8.0", 1);
  EXPECT_EQ(seen_on_h(), "0 of 50 tries") << "another architecture";
  run("G", "9.0", 1, {{"origin", "somebody"}});
  EXPECT_EQ(seen_on_h(), "0 of 50 tries") << "what was sent answers for its own machine";
  run("G", "9.0", 1, {{"release", "2.6.0"}});
  std::filesystem::remove(folder + "/G.jsonl");
  run("F", "9.0", 1, {{"release", "2.6.0"}});
  const ResultMatrix board(read_records_below(folder), {});
  EXPECT_EQ(render_observed(NewestRows(board).of("c", "2.15.0, H").back()), "0 of 50 tries") << "another release";
  std::filesystem::remove(folder + "/F.jsonl");
  run("G", "9.0", 1, Json::object(), "another");
  EXPECT_EQ(seen_on_h(), "0 of 50 tries") << "other code";
  run("G", "9.0", 0);
  EXPECT_EQ(seen_on_h(), "0 of 50 tries");
  std::filesystem::remove_all(folder);
}

TEST(Show, RunsOfARace_AreComparedBelowTheirRate) {
  CatalogueCase one;
  one.id = "c";
  one.tests = {{"ReproducesAtRate", Kind::Reproduces, Effect::Raises, ""}};
  const auto pool = [](const std::string& release, int hits) {
    RatePool made{"c.ReproducesAtRate", Release(release), release + ", G", {}, {}};
    for (int i = 0; i < 5; ++i) made.runs.push_back({hits + i, 100});
    return made;
  };
  const std::vector<OnMachine> none;
  const report::CaseView view{one, {}, {}, none, {pool("2.6.0", 10), pool("2.7.1", 80), pool("2.8.0", 80)}};
  const std::string text = render_text(view);
  EXPECT_THAT(text, HasSubstr("\n      the runs differ from those of 2.6.0, G\n"));
  EXPECT_THAT(text, HasSubstr("\n      the runs cannot be told from those of 2.7.1, G\n"));
  const Json rates = render_json(view).at("rates");
  EXPECT_FALSE(rates.at(0).contains("compared"));
  EXPECT_EQ(rates.at(1).at("compared"), (Json{{{"machine", "2.6.0, G"}, {"differs", true}}}));
}

TEST(Show, Extent_IsWhatTheEnvironmentsHaveAndLack) {
  const auto extent = [](const std::vector<Json>& environments) {
    std::vector<Record> records;
    for (const Json& environment : environments) {
      records.emplace_back();
      records.back().environment = fake_environment(environment);
    }
    return render_extent(ResultMatrix(std::move(records), {}));
  };
  const Json h200 = {{"compute_capability", "9.0"}}, h100 = {{"gpu", "H"}, {"compute_capability", "9.0"}};
  EXPECT_EQ(extent({h200, h100, {{"gpu", ""}, {"driver", ""}}}),
            "All runs on a GPU had one driver (1), one GPU architecture (compute capability 9.0: G, H) and x86_64. "
            "There is no record of "
            "another driver, another GPU architecture or aarch64.");
  EXPECT_EQ(
      extent({h200, {{"gpu", "B"}, {"driver", "2"}, {"compute_capability", "10.0"}, {"architecture", "aarch64"}}}),
      "All runs on a GPU had 2 drivers (1, 2), 2 GPU architectures (compute capability 9.0, 10.0: B, G) and aarch64 or "
      "x86_64.");
  EXPECT_EQ(extent({{{"gpu", ""}}}), "");
}

// Without a GPU most of a plan cannot run, night after night.
TEST_F(Index, RecordsWithoutAGpu_OnlyTheNewestIsRead) {
  const Json lacks = {{"ending", "not started"}, {"code", 0}, {"skipped", "no GPU"}};
  for (const char* name : {"a", "b"}) record(name, name, both, {"c.Control"}, "1", "", {{"c.Reproduces", lacks}});
  std::ofstream(folder + "/a.jsonl", std::ios::app) << "not a line of a record\n";
  EXPECT_EQ(newest_records(folder).left_out, 1U) << "the older one's lines are not read";
}

TEST_F(Index, FileThatIsNoRecord_IsRefused) {
  std::ofstream(folder + "/x.jsonl") << "{}\n";
  EXPECT_THROW(newest_records(folder), ExitError);
}

TEST_F(Index, FileThatIsNoRecord_IsRefusedWhateverIsAskedFor) {
  RecordFilter filter;
  filter.release = "2.6.0";
  for (const char* line : {"{}", "[]", R"({"recapture":2,"packed":3})"}) {
    std::ofstream(folder + "/x.jsonl") << line << "\n";
    EXPECT_THROW(newest_records(folder, filter), ExitError) << line;
  }
}

TEST_F(Index, Release_IsThatOfTheRecordsThatAreRead) {
  lines("a", {{"release", "2.6.0"}}, {});
  lines("b", {{"release", "2.15.0"}}, {});
  RecordFilter filter;
  filter.release = "2.6.0";
  EXPECT_THAT(names(newest_records(folder, filter)), ElementsAre("a"));
}

TEST_F(Index, CasesAskedFor_AreTheOnlyOnesOfWhichAnOlderRecordIsRead) {
  RecordFilter filter;
  filter.cases = {"c"};
  record("a", "2026-01-01", {"c.Control", "c.Reproduces", "d.Control"}, both);
  record("b", "2026-01-02", {"c.Control"}, {"c.Control"});
  EXPECT_THAT(names(newest_records(folder, filter)), ElementsAre("a", "b"));
  record("b", "2026-01-02", both, both);
  EXPECT_THAT(names(newest_records(folder, filter)), ElementsAre("b")) << "the filter leaves out d";
}

TEST_F(Index, RecordThatPlannedNoneOfTheCases_IsLeftOutOnRequest) {
  RecordFilter filter;
  filter.cases = {"c"};
  filter.only_planned = true;
  record("a", "2026-01-01", both, both);
  record("b", "2026-01-01", {"d.Control", "d.c"}, {}, "2");
  lines("c", {{"driver", "3"}}, {});
  EXPECT_THAT(names(newest_records(folder, filter)), ElementsAre("c", "a")) << "without a plan it may have any";
}

// A plan that cannot be read must not look like one of which all is known.
TEST_F(Index, DamagedPlan_IsRefusedThoughANewerRecordHasItsTests) {
  RecordFilter of_case;
  of_case.cases = {"c"};
  record("b", "2026-01-02", both, both);
  for (const char* plan : {R"({"plan":["c.ControlX]})", R"({"plan";["c.Control"]})", R"({"plan":["c.Con)",
                           R"({"plan":null})", R"({"plan":["c.Control",7]})"}) {
    lines("a", {{"volatile", {{"started", "2026-01-01"}}}}, {plan, R"({"end":"complete"})"});
    EXPECT_THROW(newest_records(folder), ExitError) << plan;
    EXPECT_THROW(newest_records(folder, of_case), ExitError) << plan;
  }
}

TEST_F(Index, TestWithAQuoteInItsName_IsKnownFromTheNewestRecord) {
  const std::vector<std::string> quoted = {R"(c.A"B)"};
  record("a", "2026-01-01", quoted, quoted);
  record("b", "2026-01-02", quoted, quoted);
  EXPECT_THAT(newest(), ElementsAre("b"));
}

TEST(Show, ObservedTable_StandsBelowTheDocumentsNumbers) {
  Record record = two_tests();
  EXPECT_EQ(observed_tables(record, judge_record(record, {})), "");
  edit_line(record.tests[1])["facts"] = {{"table.33", "87 % fail"}, {"other", "x"}};
  record.cases.at("c").documented = "33: 83 of 100";
  const std::string text = observed_tables(record, judge_record(record, {}));
  EXPECT_THAT(text, HasSubstr("c: A title\n  the document"));
  EXPECT_THAT(text, HasSubstr("33: 83 of 100\n  33"));
  EXPECT_THAT(text, HasSubstr(" 87 % fail\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("other")));
}

TEST(JUnit, TestSuite_CountsFailuresErrorsAndSkips) {
  Record record = two_tests();
  edit_line(record.tests[1])["seen"] = "906";
  edit_line(record.tests[1])["ended"] = "failed";
  edit_line(record.tests[1])["code"] = 1;
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(render_junit({record, judge_record(record, {})}).c_str()));
  const auto suite = document.child("testsuites").child("testsuite");
  EXPECT_EQ(suite.attribute("tests").as_int(), 3);
  EXPECT_EQ(suite.attribute("failures").as_int(), 1);
  EXPECT_EQ(suite.attribute("errors").as_int(), 1) << "planned, but not run";
  EXPECT_EQ(suite.attribute("skipped").as_int(), 0);
  std::vector<std::string> names;
  for (const auto& test : suite.children("testcase")) names.emplace_back(test.attribute("name").value());
  EXPECT_EQ(names, (std::vector<std::string>{"Control", "Reproduces", "FixIt"}));
  EXPECT_THAT(
      suite.find_child_by_attribute("testcase", "name", "Reproduces").child("failure").attribute("message").value(),
      HasSubstr("changed"));
}

TEST(JUnit, ReleaseAndMachineOfNoRecord_AreNamedWithTheNearest) {
  const Record record = two_tests();
  const auto properties = [&](const Neighbour& neighbour) {
    pugi::xml_document document;
    EXPECT_TRUE(document.load_string(render_junit({record, judge_record(record, {}), neighbour}).c_str()));
    std::map<std::string, std::string> all;
    for (const auto& one : document.select_nodes("//testsuite[@name='c']/properties/property")) {
      all[one.node().attribute("name").value()] = one.node().attribute("value").value();
    }
    return all;
  };
  const auto unmeasured = properties({"2.14.0", Likeness::SameArchitecture, {"H", "2"}});
  EXPECT_EQ(unmeasured.at("nearest_release"), "2.14.0");
  EXPECT_EQ(unmeasured.at("nearest_machine"), "H, driver 2, another GPU of the same architecture");
  for (const auto& [name, value] : properties({})) EXPECT_THAT(name, ::testing::Not(HasSubstr("nearest")));
}

TEST(FixCode, OfPython_HasTheWordsWithTheRemedy) {
  const std::string source = R"text(
TEST_F(ACase, FixLater) {
  std::string inside = "pass", value = "x.item()";
  WITHOUT_REMEDY(inside = "y = x.item()");
  REMEDY(value = "x");
  EXPECT_EQ(run(R"py(
import torch
with torch.cuda.graph(graph):
    z = {value} * 2
    {inside}
print(f"{z}")
)py",
                {{"inside", inside}, {"value", value}}),
            "ok");
}
)text";
  bool is_python = false;
  EXPECT_EQ(report::fix_code(source, "FixLater", is_python),
            "with torch.cuda.graph(graph):\n    z = x * 2\nprint(f\"{z}\")\n");
  EXPECT_TRUE(is_python);
  EXPECT_EQ(report::fix_code(source, "FixOther", is_python), "");
}

TEST(FixCode, OfCpp_HasNoMarkers) {
  const std::string source = R"text(
TEST_F(ACase, FixLater) {
  graph->capture_begin();
  WITHOUT_REMEDY(result.item());
  REMEDY(stream = other);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  EXPECT_EQ(result.item<float>(), 6);
}
)text";
  bool is_python = true;
  EXPECT_EQ(report::fix_code(source, "FixLater", is_python),
            "graph->capture_begin();\nstream = other;\ngraph->capture_end();\nEXPECT_EQ(result.item<float>(), 6);\n");
  EXPECT_FALSE(is_python);
}

// Where the fix leaves a line out, what comes later is what to write.
TEST(ProgramDiff, WhatFollows_IsShownBeforeWhatPrecedes) {
  const std::string program = R"(def fails():
    x = make()
    warm_up(x)
    with capture():
        y = x * 2
        y.item()  # cause
    graph.replay()
    value = y.item()
    return value


def fix_read_later():
    x = make()
    warm_up(x)
    with capture():
        y = x * 2
        # fix: y.item()
    graph.replay()
    value = y.item()
    return value
)";
  EXPECT_THAT(report::program_diff(program, "fix_read_later", 0),
              ElementsAre("     y = x * 2", "-    y.item()", " graph.replay()"));
  EXPECT_THAT(
      report::program_diff(program, "fix_read_later", 5),
      ElementsAre(" with capture():", "     y = x * 2", "-    y.item()", " graph.replay()", " value = y.item()"));
  EXPECT_THAT(report::program_diff(program, "fix_read_later", 20).size(), 7U) << "all but the return";
  EXPECT_THAT(report::program_diff(program, "fix_other", 5), ElementsAre());
}

TEST(Course, NeighbouringReleasesOfOneOutcome_AreARange) {
  using timeline::FailureOutcome;
  EXPECT_EQ(report::render_course({{"2.1.2", FailureOutcome::Raises},
                                   {"2.2.2", FailureOutcome::NotRun},
                                   {"2.6.0", FailureOutcome::Raises},
                                   {"2.9.1", FailureOutcome::Raises},
                                   {"2.10.0", FailureOutcome::Works},
                                   {"2.11.0", FailureOutcome::Works}}),
            "raises in 2.1.2 to 2.9.1; works in 2.10.0 and 2.11.0");
  EXPECT_EQ(report::render_course({{"2.1.2", FailureOutcome::NotRun}}), "");
}

}  // namespace
}  // namespace recapture

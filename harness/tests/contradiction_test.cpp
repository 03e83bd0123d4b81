// A test's own report is not enough: a contradictory result never passes, and its row has the contradiction.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "harness/base/exit.h"
#include "harness/report/markdown.h"
#include "harness/report/overview.h"
#include "harness/store/result_matrix.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

using ::testing::HasSubstr;

// A record of one case with its Control; its other tests are parameters.
Record record_of(const std::vector<std::pair<std::string, Json>>& tests) {
  Record record;
  record.path = "r.jsonl";
  record.environment = {{"recapture", 2}, {"release", "2.15.0"}, {"gpu", "G"}, {"break", "nothing"}};
  CaseInfo info;
  info.id = "c";
  info.family = "f";
  info.title = "A title";
  record.cases["c"] = info;
  for (const auto& [name, more] : tests) {
    Json line = fake_test("c." + name);
    line.update(more);
    for (const auto& [key, value] : more.items()) {
      if (value.is_null()) line.erase(key);
    }
    record.plan.push_back("c." + name);
    record.add({line});
  }
  record.end = "complete";
  return record;
}

const Json kReproduced = {{"seen", "900"}, {"documented", "900"}, {"healthy", "ok"}};
const Json kHealthy = {{"seen", "ok"}, {"documented", "900"}, {"healthy", "ok"}, {"ended", "failed"}, {"code", 1}};

Json with(Json one, const Json& more) {
  one.update(more);
  return one;
}

TestVerdict judge_line(const std::string& test, const Json& line) {
  return judge_record(record_of({{test, line}}), {}).front();
}

TEST(Contradiction, ContradictoryLine_IsInconclusiveWithItsReason) {
  const Json failed = {{"ended", "failed"}, {"code", 1}};
  const std::vector<std::tuple<std::string, Json, std::string>> table = {
      {"FixIt", {{"code", 1}}, "it said that it passed, and its process exited with 1"},
      {"FixIt", {{"code", 66}}, "exited with 66"},
      {"FixIt", {{"code", 134}}, "exited with 134"},
      {"FixIt", {{"ended", "failed"}}, "it said that it failed, and its process exited with 0"},
      {"FixIt", {{"ended", "over"}}, "ended as 'over', which is not a known end"},
      {"FixIt", {{"assertions", {"x.cpp:1: torn down badly"}}}, "an assertion failed, and it said that it passed"},
      {"FixIt",
       {{"ending", "signal"}, {"code", SIGSEGV}},
       "it said that it passed, and its process was killed by signal"},
      {"FixIt", {{"ending", "deadline"}}, "it said that it passed, and its process was still running"},
      {"FixIt", {{"ending", "not started"}}, "it said that it passed, and it was not started"},
      {"FixIt", {{"ending", "vanished"}}, "ended by 'vanished'"},
      {"FixIt", {{"ending", "signal"}, {"code", SIGKILL}, {"ended", nullptr}}, "which no fault raises"},
      {"FixIt", {{"ending", "signal"}, {"code", SIGTERM}, {"ended", nullptr}}, "which no fault raises"},
      {"FixIt", {{"ending", "signal"}, {"code", SIGINT}, {"ended", nullptr}}, "which no fault raises"},
      {"FixIt", {{"ending", "signal"}, {"code", SIGHUP}, {"ended", nullptr}}, "which no fault raises"},
      {"FixIt", {{"ending", "signal"}, {"code", SIGQUIT}, {"ended", nullptr}}, "which no fault raises"},
      {"FixIt", {{"contradiction", "it ended twice"}}, "it ended twice"},
      {"FixIt", {{"contradiction", ""}, {"code", 1}}, "it said that it passed, and its process exited with 1"},
      {"FixIt", {{"ended", "skipped"}, {"code", 77}}, "it said that it was skipped, and not why"},
      {"FixIt", with(failed, {{"skipped", "nothing here"}}), "it said that it was skipped, and that it failed"},
      {"FixIt", with(failed, {{"inapplicable", "no member"}}), "it said that it was skipped, and that it failed"},
      {"FixIt",
       {{"ended", "skipped"}, {"code", 77}, {"skipped", "why"}, {"assertions", {"x"}}},
       "an assertion failed, and it said that it was skipped"},
      {"FixIt", {{"ended", nullptr}, {"skipped", "why"}, {"code", 77}}, "before it came to its end"},
      {"Reproduces", with(kReproduced, {{"code", 1}}), "it said that it passed, and its process exited with 1"},
      {"Reproduces", with(kReproduced, {{"ended", nullptr}}),
       "it said what it saw, and its process exited with 0 before"},
      {"Reproduces", with(kReproduced, {{"ended", "skipped"}, {"code", 77}, {"skipped", "w"}}),
       "and that it was skipped"},
      {"Reproduces", with(kHealthy, {{"ended", "passed"}, {"code", 0}}), "it passed, and what it saw is healthy"},
      {"Reproduces", with(kHealthy, {{"assertions", {"a", "b"}}}), "is healthy, and another assertion failed"},
      {"Reproduces", with(kReproduced, {{"hits", 1}, {"tries", 2}}), "it said what it saw, and a rate"},
      {"Reproduces", {{"tries", 3}}, "a rate without its hits or its tries"},
      {"Reproduces", {{"hits", 3}}, "a rate without its hits or its tries"},
      {"Reproduces", {{"hits", 4}, {"tries", 3}}, "it said 4 hits in 3 tries"},
      {"Reproduces", {{"hits", 0}, {"tries", 0}}, "it said 0 hits in 0 tries"},
      {"Reproduces", {{"hits", -1}, {"tries", 3}}, "it said -1 hits in 3 tries"},
      {"Reproduces", {{"hits", 0}, {"tries", 3}}, "it passed, and what it saw is unseen"},
      {"Reproduces", with(kReproduced, {{"ending", "not started"}, {"ended", nullptr}}),
       "it said what it saw, and was not started"},
  };
  for (const auto& [test, line, words] : table) {
    const TestVerdict row = judge_line(test, line);
    EXPECT_EQ(row.result, Result::Invalid) << test << " " << line;
    EXPECT_EQ(row.verdict, Verdict::Inconclusive) << test << " " << line;
    EXPECT_THAT(to_string(row.observed), HasSubstr(words)) << test << " " << line;
  }
}

TEST(Contradiction, ConsistentLine_HasNone) {
  const std::vector<std::pair<std::string, Json>> table = {
      {"FixIt", Json::object()},
      {"FixIt", {{"ended", "failed"}, {"code", 1}, {"assertions", {"a", "b"}}}},
      {"FixIt", {{"ended", "skipped"}, {"code", 77}, {"skipped", "why"}}},
      {"FixIt", {{"ending", "not started"}, {"ended", nullptr}, {"skipped", "no GPU"}}},
      {"FixIt", {{"ending", "signal"}, {"ended", nullptr}, {"code", SIGABRT}}},
      {"Reproduces", kReproduced},
      {"Reproduces", with(kHealthy, {{"assertions", {"a"}}})},
      {"Reproduces", {{"hits", 1}, {"tries", 3}}},
      {"Reproduces", {{"hits", 1}, {"tries", 1}}},
      {"Reproduces", {{"hits", 0}, {"tries", 1}, {"ended", "failed"}, {"code", 1}}},
      {"Reproduces", with(kReproduced, {{"ending", "signal"}, {"ended", nullptr}, {"code", SIGSEGV}})},
  };
  for (const auto& [test, line] : table) {
    const Record record = record_of({{test, line}});
    EXPECT_FALSE(read_test(kind_of_id("c." + test), record.tests.front()).contradiction) << line;
  }
}

TEST(Contradiction, FailedAssertionBesideTheFailure_IsInconclusiveAndNamed) {
  const TestVerdict row = judge_line(
      "Reproduces", with(kReproduced, {{"ended", "failed"}, {"code", 1}, {"assertions", {"x.cpp:7: 1 != 2"}}}));
  EXPECT_EQ(row.verdict, Verdict::Inconclusive);
  EXPECT_THAT(to_string(row.observed), HasSubstr("x.cpp:7: 1 != 2"));
}

TEST(Contradiction, FailedTestBesideTheFailure_IsInconclusiveWithoutAnAssertionToo) {
  const TestVerdict row = judge_line("Reproduces", with(kReproduced, {{"ended", "failed"}, {"code", 1}}));
  EXPECT_EQ(row.verdict, Verdict::Inconclusive);
  EXPECT_EQ(row.observed.kind, TestObservationKind::Mixed);
}

// The other tests of a case count only if its controls hold.
TEST(Control, NoControlHolds_OtherTestsAreInconclusive) {
  const std::vector<Json> controls = {
      {{"ended", "failed"}, {"code", 1}},
      {{"ended", "skipped"}, {"code", 77}, {"skipped", "no package"}},
      {{"ended", "skipped"}, {"code", 77}, {"inapplicable", "no member"}},
      {{"ending", "signal"}, {"ended", nullptr}, {"code", SIGSEGV}},
      {{"ending", "deadline"}, {"ended", nullptr}},
      {{"code", 1}},
      {{"ended", nullptr}},
  };
  for (const Json& control : controls) {
    const Record record = record_of({{"Control", control}, {"Reproduces", kReproduced}, {"FixIt", Json::object()}});
    const auto rows = judge_record(record, {});
    for (size_t i : {1, 2}) {
      EXPECT_EQ(rows[i].verdict, Verdict::Inconclusive) << control << rows[i].test;
      EXPECT_THAT(render_observed(rows[i]), HasSubstr("control of its case")) << control;
    }
    EXPECT_NE(exit_for(verdicts_of(rows)), Exit::AsExpected) << control;
    EXPECT_EQ(render_markdown(ResultMatrix({record}, {})).find("| A title | reproduced"), std::string::npos) << control;
  }
  const Json skipped = {{"ended", "skipped"}, {"code", 77}, {"skipped", "no package"}};
  const Record one_of_two =
      record_of({{"ControlA", skipped}, {"ControlB", Json::object()}, {"Reproduces", kReproduced}});
  EXPECT_EQ(judge_record(one_of_two, {})[2].verdict, Verdict::AsDocumented) << "the other control holds";
}

// A red result stays red if the control fails.
TEST(Control, NoControlHolds_RedTestStaysRed) {
  const Json fails = {{"ended", "failed"}, {"code", 1}};
  const auto rows = judge_record(record_of({{"Control", fails}, {"FixIt", fails}}), {});
  EXPECT_EQ(rows[0].verdict, Verdict::ControlFails);
  EXPECT_EQ(rows[1].verdict, Verdict::FixFails);
}

TEST(Control, OneOfTwoFails_OtherTestsAreInconclusiveInAnyOrder) {
  const Json holds = Json::object(), fails = {{"ended", "failed"}, {"code", 1}};
  const Json skipped = {{"ended", "skipped"}, {"code", 77}, {"skipped", "no package"}};
  const auto reasons = [](const Json& first, const Json& second) {
    const Record record = record_of(
        {{"ControlA", first}, {"ControlB", second}, {"Reproduces", kReproduced}, {"PythonReproduces", kReproduced}});
    const auto rows = judge_record(record, {});
    EXPECT_EQ(rows[3].verdict, Verdict::AsDocumented) << "a program has no control";
    std::vector<ReasonKind> kinds;
    for (const Reason& reason : rows[2].reasons) kinds.push_back(reason.kind);
    return kinds;
  };
  using Kinds = std::vector<ReasonKind>;
  EXPECT_EQ(reasons(fails, holds), Kinds{ReasonKind::ControlBroken});
  EXPECT_EQ(reasons(holds, fails), Kinds{ReasonKind::ControlBroken});
  EXPECT_EQ(reasons(fails, skipped), Kinds{ReasonKind::ControlBroken});
  EXPECT_EQ(reasons(skipped, fails), Kinds{ReasonKind::ControlBroken});
  EXPECT_EQ(reasons(skipped, skipped), Kinds{ReasonKind::NoControl});
  EXPECT_EQ(reasons(skipped, holds), Kinds());
  EXPECT_EQ(reasons(holds, skipped), Kinds());
}

// The program and the tests in C++ show two failures: one can be gone while the other occurs.
TEST(FixOfAProgram, WhereItsFailureIsGone_IsNotNeeded) {
  const auto fixes = [](const Json& failure, const Json& of_program) {
    Record record = record_of({{"Control", Json::object()},
                               {"Reproduces", failure},
                               {"FixIt", Json::object()},
                               {"PythonReproduces", of_program},
                               {"PythonFixIt", Json::object()}});
    record.cases["c"].tests = {"Control", "Reproduces", "FixIt", "PythonReproduces", "PythonFixIt"};
    const auto rows = judge_record(record, {});
    EXPECT_EQ(rows[0].verdict, Verdict::AsDocumented) << "a control is always needed";
    return std::pair(rows[2].verdict, rows[4].verdict);
  };
  EXPECT_EQ(fixes(kReproduced, kHealthy), std::pair(Verdict::AsDocumented, Verdict::NotNeeded));
  EXPECT_EQ(fixes(kHealthy, kReproduced), std::pair(Verdict::NotNeeded, Verdict::AsDocumented));
  EXPECT_EQ(fixes(kHealthy, kHealthy), std::pair(Verdict::NotNeeded, Verdict::NotNeeded));
}

TEST(Confirmation, MissingOrDifferentForAnOpenQuestion_IsInconclusive) {
  Record record = record_of({{"Reproduces", kHealthy}});
  Rules rules;
  Expectation e;
  e.test = "c.Reproduces";
  e.result = Result::Healthy;
  e.source = "open question: why?";
  e.is_open_question = true;
  rules.expectations = {e};
  const auto verdict = [&] { return judge_record(record, rules).front().verdict; };
  EXPECT_EQ(verdict(), Verdict::Inconclusive) << "the run was killed before its repetition";
  record.confirmations["c.Reproduces"] = {record.tests[0], record.tests[0]};
  EXPECT_EQ(verdict(), Verdict::AsExpected);
  edit_line(record.confirmations["c.Reproduces"][1])["seen"] = "906";
  EXPECT_EQ(verdict(), Verdict::Inconclusive);
  EXPECT_EQ(render_markdown(ResultMatrix({record}, rules)).find("| A title | healthy"), std::string::npos);
}

TEST(JudgeBroken, OtherFailureThanIntended_IsNotAsExpected) {
  const auto verdict = [](const char* how, const std::string& test, const Json& line) {
    Record record = record_of({{test, line}});
    record.environment = record.environment.with("break", how);
    return judge_record(record, {}).front().verdict;
  };
  const Json crashed = {{"ending", "signal"}, {"ended", nullptr}, {"code", SIGSEGV}};
  const Json killed = {{"ending", "signal"}, {"ended", nullptr}, {"code", SIGKILL}};
  const Json silent = {{"ended", nullptr}};
  const Json cannot_load = {{"ended", nullptr}, {"code", 127}};
  const Json rate = {{"hits", 3}, {"tries", 9}, {"ended", "failed"}, {"code", 1}, {"assertions", {"on purpose"}}};
  EXPECT_EQ(verdict("value", "Reproduces", with(kHealthy, {{"seen", "900"}, {"documented", "no"}})),
            Verdict::AsExpected);
  EXPECT_EQ(verdict("value", "Reproduces", rate), Verdict::AsExpected);
  EXPECT_EQ(verdict("value", "Reproduces", with(rate, {{"assertions", {"on purpose", "another"}}})),
            Verdict::Inconclusive);
  EXPECT_EQ(verdict("value", "Reproduces", silent), Verdict::Inconclusive);
  EXPECT_EQ(verdict("value", "Reproduces", cannot_load), Verdict::Inconclusive);
  EXPECT_EQ(verdict("trigger", "Reproduces", silent), Verdict::Inconclusive);
  EXPECT_EQ(verdict("trigger", "Reproduces", kReproduced), Verdict::Changed);
  EXPECT_EQ(verdict("remedy", "FixIt", with(crashed, {{"remedy", "left out"}})), Verdict::AsExpected);
  EXPECT_EQ(verdict("remedy", "FixIt", with(killed, {{"remedy", "left out"}})), Verdict::Inconclusive);
  EXPECT_EQ(verdict("remedy", "FixIt", crashed), Verdict::Inconclusive) << "nothing was left out; why did it crash?";
}

// Writes records for `show` to read.
class Read : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  Record read(const std::vector<Json>& lines) {
    std::ofstream file(folder + "/r.jsonl");
    for (const Json& line : lines) file << line << '\n';
    file.close();
    return read_record(folder + "/r.jsonl");
  }
  Exit exit_of(const std::vector<Json>& lines) { return exit_for(ResultMatrix({read(lines)}, {}).verdicts()); }
  static Json environment(const std::string& shard = "1/1") {
    return {{"recapture", 2}, {"release", "2.15.0"}, {"gpu", "G"}, {"break", "nothing"}, {"shard", shard}};
  }
  static Json info() {
    CaseInfo info;
    info.id = "c";
    info.tests = {"Control"};
    return info.to_json();
  }
  const Json plan = {{"plan", {"c.Control"}}};
  const Json test = fake_test("c.Control");
  const Json end = {{"end", "complete"}};
  const std::string folder = ::testing::TempDir() + "recapture-read-" + std::to_string(getpid());
};

TEST_F(Read, IncompleteRun_IsInconclusive) {
  EXPECT_EQ(exit_of({environment(), plan, info(), test, end}), Exit::AsExpected);
  EXPECT_EQ(exit_of({environment(), plan, info(), test}), Exit::Inconclusive) << "no end";
  EXPECT_EQ(exit_of({environment(), info(), test, end}), Exit::Inconclusive) << "no plan";
  for (const char* why : {"interrupted", "the GPU does not answer after the last test", "cut short"}) {
    EXPECT_EQ(exit_of({environment(), plan, info(), test, {{"end", why}}}), Exit::Inconclusive) << why;
  }
  const Json resumed = {{"resumed", Json::object()}};
  EXPECT_EQ(exit_of({environment(), plan, info(), test, {{"end", "interrupted"}}, resumed, end}), Exit::AsExpected);
  EXPECT_EQ(exit_of({environment(), plan, info(), test, {{"end", "interrupted"}}, resumed}), Exit::Inconclusive);
  const ResultMatrix truncated({read({environment(), plan, info(), test})}, {});
  EXPECT_THAT(last_line(latest(truncated)), HasSubstr("no surprises; 1 run is incomplete"));
  EXPECT_EQ(exit_for(verdicts_of(latest(truncated))), Exit::Inconclusive);
}

TEST_F(Read, OneShardOfSeveral_IsInconclusiveAndNamesAMissingTest) {
  const Json part = {{"plan", {"c.Control"}}, {"whole", {"c.Control", "d.Control", "e.Control"}}};
  EXPECT_EQ(exit_of({environment("1/3"), part, info(), test, end}), Exit::Inconclusive);
  EXPECT_THAT(read({environment("1/3"), part, info(), test, end}).notes.front(),
              HasSubstr("shard 1/3 alone: 2 of 3 tests are in the others, d.Control among them"));
  EXPECT_EQ(exit_of({environment("1/3"), plan, info(), test, end}), Exit::Inconclusive) << "of an older program";
}

}  // namespace
}  // namespace recapture

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <pugixml.hpp>
#include <sstream>

#include "harness/judge/board.h"
#include "harness/show/json.h"
#include "harness/show/junit.h"
#include "harness/show/markdown.h"
#include "harness/show/text.h"

namespace recapture {
namespace {

using ::testing::HasSubstr;

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
  r.add({{{"test", "c.Control"}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}}});
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

TEST(Show, ATestWithoutALineIsNotRun) {
  const auto rows = judge_record(two_tests(), {});
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].verdict, Verdict::AsDocumented);
  EXPECT_EQ(rows[1].verdict, Verdict::AsDocumented);
  EXPECT_EQ(rows[2].verdict, Verdict::NotRun);
  EXPECT_EQ(exit_for(verdicts_of(rows)), Exit::Inconclusive);
}

TEST(Show, ACaseThatHasChangedIsStaleAndNeverGreen) {
  Rules rules;
  rules.tree["c"] = {"f", "", "another"};
  for (const Row& row : judge_record(two_tests(), rules)) {
    EXPECT_TRUE(row.verdict == Verdict::Stale || row.verdict == Verdict::NotRun) << row.test;
  }
  rules.tree["c"] = {"f", "", "h"};
  EXPECT_EQ(judge_record(two_tests(), rules)[1].verdict, Verdict::AsDocumented);
}

TEST(Show, WithoutItsControlACaseShowsNothing) {
  Record record = two_tests();
  record.tests[0].line["ended"] = "failed";
  const auto rows = judge_record(record, {});
  EXPECT_EQ(rows[0].verdict, Verdict::ControlFails);
  EXPECT_EQ(rows[1].verdict, Verdict::Inconclusive);
}

TEST(Show, ADisagreeingConfirmationMakesItInconclusive) {
  Record record = two_tests();
  TestRecord again = record.tests[1];
  record.confirmations["c.Reproduces"] = {again};
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::AsDocumented);
  again.line["seen"] = "ok";
  again.line["ended"] = "failed";
  record.confirmations["c.Reproduces"].push_back(again);
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::Inconclusive);
}

TEST(Show, WhatWasAvailableBeforeIsMissing) {
  Record before = two_tests(), now = two_tests();
  now.tests[1].line = {{"test", "c.Reproduces"}, {"ending", "exited"}, {"code", 77}, {"skipped", "no package"}};
  Rules rules;
  EXPECT_EQ(judge_record(now, rules)[1].verdict, Verdict::Unavailable);
  rules.available = available_in({before});
  EXPECT_EQ(judge_record(now, rules)[1].verdict, Verdict::Missing);
  EXPECT_EQ(exit_for(verdicts_of(judge_record(now, rules))), Exit::Infrastructure);
}

TEST(Show, ADemandedRecorderThatSawNothingIsMissing) {
  Record record = two_tests();
  record.tests[1].line["raised_by"] = "cuStreamSynchronize";
  Rules rules;
  rules.demands.recorder = true;
  EXPECT_EQ(judge_record(record, rules)[1].verdict, Verdict::Missing);
  record.tests[1].line["culprit"] = {{"api", "cuStreamSynchronize"}};
  EXPECT_EQ(judge_record(record, rules)[1].verdict, Verdict::AsDocumented);
}

TEST(Show, BrokenOnPurposeMustBeHealthyOrDifferent) {
  Record record = two_tests();
  record.environment["break"] = "trigger";
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::Changed) << "it reproduces without its trigger";
  record.tests[1].line["seen"] = "ok";
  record.tests[1].line["ended"] = "failed";
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::AsExpected);
  record.environment["break"] = "value";
  EXPECT_EQ(judge_record(record, {})[1].verdict, Verdict::Changed);
}

TEST(Show, AFixWithoutItsRemedyMustFail) {
  Record record = two_tests();
  record.environment["break"] = "remedy";
  record.add({{{"test", "c.FixIt"}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}}});
  const auto fix = [&] { return judge_record(record, {})[2]; };
  ASSERT_EQ(fix().kind, Kind::Fix);
  EXPECT_EQ(fix().verdict, Verdict::NotApplicable) << "nothing was left out";
  record.tests[2].line["remedy"] = "left out";
  EXPECT_EQ(fix().verdict, Verdict::Changed) << "it holds without its remedy";
  record.tests[2].line["ended"] = "failed";
  EXPECT_EQ(fix().verdict, Verdict::AsExpected);
}

TEST(Show, JsonHasTheDocumentedKeys) {
  const Json rows = as_json(judge_record(two_tests(), {}));
  ASSERT_EQ(rows.size(), 3U);
  for (const char* key : {"case", "test", "release", "gpu", "driver", "result", "verdict", "seen", "code", "seconds"}) {
    EXPECT_TRUE(rows[1].contains(key)) << key;
  }
  EXPECT_EQ(rows[1]["code"], 900);
  EXPECT_EQ(rows[1]["seconds"], 0.5);
  EXPECT_EQ(rows[2]["result"], "not run");
}

TEST(Show, MarkdownHasALineACaseAndAColumnARelease) {
  const std::string table = as_markdown(Board({two_tests()}, {}));
  EXPECT_THAT(table, HasSubstr("| 2.15.0, G |"));
  EXPECT_THAT(table, HasSubstr("| [c](cases/f/c.cpp) | A title | reproduced |"));
}

TEST(Show, ALaterRecordStandsForTheStaleRowsThatItRanAgain) {
  Record before = two_tests(), after = two_tests();
  Rules rules;
  rules.tree["c"] = {"f", "", "new"};
  EXPECT_THAT(as_markdown(Board({before}, rules)), HasSubstr("| A title | stale |"));
  after.cases.at("c").hash = "new";
  for (const auto& records : {std::vector{before, after}, std::vector{after, before}}) {
    EXPECT_THAT(as_markdown(Board(records, rules)), HasSubstr("| A title | reproduced |"));
  }
}

TEST(Show, TablesStandBelowTheDocumentsOwnNumbers) {
  Record record = two_tests();
  EXPECT_EQ(observed_tables(record, judge_record(record, {})), "");
  record.tests[1].line["facts"] = {{"table.33", "87 % fail"}, {"other", "x"}};
  record.cases.at("c").documented = "33: 83 of 100";
  const std::string text = observed_tables(record, judge_record(record, {}));
  EXPECT_THAT(text, HasSubstr("c: A title\n  the document"));
  EXPECT_THAT(text, HasSubstr("33: 83 of 100\n  33"));
  EXPECT_THAT(text, HasSubstr(" 87 % fail\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("other")));
}

TEST(JUnit, CountsFailuresErrorsAndSkips) {
  Record record = two_tests();
  record.tests[1].line["seen"] = "906";
  record.tests[1].line["ended"] = "failed";
  std::stringstream xml;
  write_junit({record, judge_record(record, {})}, xml);
  pugi::xml_document document;
  ASSERT_TRUE(document.load(xml));
  const auto suite = document.child("testsuites").child("testsuite");
  EXPECT_EQ(suite.attribute("tests").as_int(), 3);
  EXPECT_EQ(suite.attribute("failures").as_int(), 1);
  EXPECT_EQ(suite.attribute("skipped").as_int(), 1);
  std::vector<std::string> names;
  for (const auto& test : suite.children("testcase")) names.emplace_back(test.attribute("name").value());
  EXPECT_EQ(names, (std::vector<std::string>{"Control", "Reproduces", "FixIt"}));
  EXPECT_THAT(
      suite.find_child_by_attribute("testcase", "name", "Reproduces").child("failure").attribute("message").value(),
      HasSubstr("changed"));
}

}  // namespace
}  // namespace recapture

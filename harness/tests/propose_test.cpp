// `dev propose` on a record's surprises; the checks refuse its output until it has reasons.
#include "harness/lint/propose.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/lint/expectations.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/fake_tree.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kChanges = R"([[change]]
what = 'a check'
number = 'pytorch#1'

  [[change.expect]]
  tests = ["c.ReproducesA", "c.ReproducesB"]
  where = { release = "==2.14" }
  result = "healthy"
  records = ["2.14.0/g.jsonl"]

  [[change.expect]]
  tests = ["c.ReproducesC"]
  where = { release = ">=2.14" }
  result = "healthy"
  records = [
    "2.14.0/g.jsonl",
  ]
)";

class Propose : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    fs::create_directories(folder + "/cases");
    fs::create_directories(folder + "/reports/2.15.0");
    std::ofstream(changes) << kChanges;
  }
  // A complete run of 2.15.0 in which each test, which documents 900, has this observation.
  void record_of(const std::map<std::string, std::string>& seen) const {
    FakeRecord record{fake_environment(Json::object()), {fake_test("c.Control")}, {{"documented", "900"}}};
    for (const auto& [name, text] : seen) record.tests.push_back(fake_failure("c." + name, text, "900"));
    record.write(record_path);
  }
  // Pastes the output as a user would, and returns it.
  std::string pasted() const {
    const ShellResult said = recapture("dev propose " + record_path);
    EXPECT_EQ(said.code, 0) << said.out;
    std::vector<std::string> file, changed, added;
    std::istringstream before(text_of(changes)), printed(said.out);
    for (std::string line; std::getline(before, line);) file.push_back(line + "\n");
    size_t number = 0;  // The line of the old entry that the printed one replaces.
    for (std::string line; std::getline(printed, line);) {
      if (line.rfind("# In place of the entry at cases/expectations.toml:", 0) == 0) {
        number = std::stoul(line.substr(line.rfind(':', line.size() - 2) + 1));
        EXPECT_EQ(file.at(number - 1), "  [[change.expect]]\n");
        for (size_t at = number; at < file.size() && file[at] != "\n"; ++at) file[at].clear();
        file[number - 1].clear();
      } else {
        if (line.rfind("[[change]]", 0) == 0) number = file.size();
        file.at(number == 0 ? 0 : number - 1) += line + "\n";
      }
    }
    std::ofstream out(changes);
    for (const std::string& line : file) out << line;
    return said.out;
  }
  // How many tests are unexpected with the current file.
  size_t surprises() const {
    Rules rules;
    rules.expectations = expectations_of(read_deviations(folder));
    size_t count = 0;
    for (const TestVerdict& row : judge_record(read_record(record_path), rules))
      count += severity_of(row.verdict) == Severity::Fail ? 1 : 0;
    return count;
  }

  const std::string changes = folder + "/cases/expectations.toml", record_path = folder + "/reports/2.15.0/g.jsonl";
};

TEST(Narrowed, Range_HasOneBoundOnEachSide) {
  EXPECT_EQ(narrowed("<2.6", '<', "2.5.1"), "<2.5.1");
  EXPECT_EQ(narrowed(">=2.2, <2.8", '>', "2.3.1"), ">2.3.1, <2.8");
  EXPECT_EQ(narrowed(">=2.2, <=2.8", '<', "2.7.1"), ">=2.2, <2.7.1");
  EXPECT_EQ(narrowed("", '>', "2.7.1"), ">2.7.1");
}

TEST(Widened, Range_IsTheSmallestThatIncludesTheVersion) {
  EXPECT_EQ(widened(">=2.13", "2.12.1"), ">=2.12.1");
  EXPECT_EQ(widened("<2.13", "2.13.0"), "<=2.13.0");
  EXPECT_EQ(widened(">=2.8, <2.11", "2.15.0"), ">=2.8, <=2.15.0");
  EXPECT_EQ(widened("==2.14", "2.15.0"), ">=2.14, <=2.15.0");
  EXPECT_EQ(widened("==2.14", "2.6.0"), ">=2.6.0, <=2.14");
}

TEST_F(Propose, SameResultInAnotherRelease_WidensTheEntry) {
  record_of({{"ReproducesA", "ok"}, {"ReproducesB", "ok"}, {"ReproducesC", "ok"}});
  ASSERT_EQ(surprises(), 2U);
  EXPECT_THAT(pasted(), HasSubstr("2.15.0/g.jsonl: 2 widened, 0 narrowed, 0 new"));
  const std::string now = text_of(changes);
  EXPECT_THAT(now, HasSubstr("where = { release = \">=2.14, <=2.15.0\" }"));
  EXPECT_THAT(now, HasSubstr("records = [\"2.14.0/g.jsonl\", \"2.15.0/g.jsonl\"]"));
  EXPECT_THAT(now, Not(HasSubstr(kTodo)));
  EXPECT_EQ(surprises(), 0U);
  const ShellResult again = recapture("dev propose " + record_path);
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, Not(HasSubstr("[[")));
}

TEST_F(Propose, WidenedEntry_KeepsItsEffect) {
  std::ofstream(changes, std::ios::app) << R"(
  [[change.expect]]
  tests = ["c.ReproducesD"]
  where = { release = "==2.14" }
  result = "different"
  seen = '4'
  effect = "silently wrong"
  records = ["2.14.0/g.jsonl"]
)";
  record_of({{"ReproducesD", "4"}});
  EXPECT_THAT(pasted(), HasSubstr(": 1 widened, 0 narrowed, 0 new"));
  EXPECT_THAT(text_of(changes), HasSubstr("seen = '4'\n  effect = \"silently wrong\"\n  records = "));
}

TEST_F(Propose, ConfirmedGuess_IsPutOnRecord) {
  std::string text = text_of(changes);
  const std::string range = "\"==2.14\"";
  ASSERT_NE(text.find(range), text.npos) << text;
  text.replace(text.find(range), range.size(), "\">=2.14\"");
  std::ofstream(changes) << text;
  record_of({{"ReproducesA", "ok"}, {"ReproducesB", "ok"}, {"ReproducesC", "ok"}});
  EXPECT_THAT(pasted(), HasSubstr(" widened, 0 narrowed, 0 new"));
  EXPECT_THAT(text_of(changes), HasSubstr("records = [\"2.14.0/g.jsonl\", \"2.15.0/g.jsonl\"]"));
  EXPECT_EQ(surprises(), 0U);
}

TEST_F(Propose, RunBrokenOnPurpose_IsRefused) {
  record_of({{"ReproducesA", "ok"}});
  std::string text = text_of(record_path);
  text.replace(text.find(R"("break":"nothing")"), 17, R"("break":"trigger")");
  std::ofstream(record_path) << text;
  const ShellResult said = recapture("dev propose " + record_path);
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.out, HasSubstr("was broken on purpose"));
  EXPECT_TRUE(said.is_one_line()) << said.out;
}

TEST_F(Propose, EntryFalseForOneOfItsTests_IsLeftToTheUser) {
  record_of({{"ReproducesA", "ok"}, {"ReproducesB", "900"}});
  const std::string said = pasted();
  EXPECT_THAT(said, HasSubstr("0 widened, 0 narrowed, 0 new"));
  EXPECT_THAT(said, HasSubstr("c.ReproducesB is not as "));
  EXPECT_THAT(text_of(changes), HasSubstr("where = { release = \"==2.14\" }"));
}

TEST_F(Propose, NewResults_AreGroupedWithTheirReasonOpen) {
  record_of({{"ReproducesD", "it's new"}, {"ReproducesE", "it's new"}, {"ReproducesF", "901"}});
  ASSERT_EQ(surprises(), 3U);
  EXPECT_THAT(pasted(), HasSubstr("0 widened, 0 narrowed, 3 new"));
  EXPECT_EQ(surprises(), 0U);
  const auto read = read_deviations(folder);
  ASSERT_EQ(read.size(), 3U) << "one more for each pair of documented and seen";
  EXPECT_EQ(read[1].expectations.size() + read[2].expectations.size(), 3U);
  EXPECT_THAT(
      expectation_errors(expectations_of(read), {"2.14.0", "2.15.0"}, {read_record(record_path)}, folder + "/reports"),
      Contains(HasSubstr("its reason is still to be found: TODO")));
}

TEST_F(Propose, FailingFix_HasItsAssertionInTheEntry) {
  record_of({{"FixX", "900"}});
  std::string text = text_of(record_path);
  const std::string end = "{\"end\":\"complete\"}\n";
  const Json failed = {{"test", "c.FixY"},
                       {"ending", "exited"},
                       {"code", 1},
                       {"ended", "failed"},
                       {"assertions", {"cases/f/c.cpp:7: Expected equality:\n  2\n  3"}}};
  text.insert(text.size() - end.size(), failed.dump() + "\n");
  std::ofstream(record_path) << text;
  EXPECT_THAT(pasted(), HasSubstr("0 widened, 0 narrowed, 1 new"));
  EXPECT_THAT(text_of(changes), HasSubstr("  result = \"broken\"\n  seen = 'Expected equality: 2 3'\n"));
  EXPECT_EQ(surprises(), 0U);
}

TEST_F(Propose, EntryNoLongerTrue_EndsBeforeTheRelease) {
  record_of({{"ReproducesC", "900"}});
  ASSERT_EQ(surprises(), 1U);
  EXPECT_THAT(pasted(), HasSubstr("0 widened, 1 narrowed, 0 new"));
  EXPECT_THAT(text_of(changes), HasSubstr("where = { release = \">=2.14, <2.15.0\" }"));
  EXPECT_EQ(surprises(), 0U);
}

TEST_F(Propose, EntryNotYetTrue_BeginsAfterTheRelease) {
  std::string text = kChanges;
  text.replace(text.rfind("2.14.0/g.jsonl"), 6, "2.16.0");  // Its record is now of a newer release.
  std::ofstream(changes) << text;
  record_of({{"ReproducesC", "900"}});
  EXPECT_THAT(pasted(), HasSubstr("0 widened, 1 narrowed, 0 new"));
  EXPECT_THAT(text_of(changes), HasSubstr("where = { release = \">2.15.0\" }"));
  EXPECT_EQ(surprises(), 0U);
}

TEST_F(Propose, ReleasesOnBothSides_LeaveTheEntryToTheUser) {
  std::string text = kChanges;
  text.insert(text.rfind("2.14.0/g.jsonl\",") - 1, "\"2.16.0/g.jsonl\", ");
  std::ofstream(changes) << text;
  record_of({{"ReproducesC", "900"}});
  const ShellResult said = recapture("dev propose " + record_path);
  EXPECT_THAT(said.out, HasSubstr("releases on either side of 2.15.0 have shown"));
  EXPECT_THAT(said.out, Not(HasSubstr("[[")));
}

// Two GPUs ran 2.15.0; the file has comments.
class ProposeApply : public Propose {
 protected:
  void SetUp() override {
    Propose::SetUp();
    std::ofstream(changes) << "# Of all changes.\n\n" << kChanges << "  # The last one.\n";
  }
  // "G" and "H": for each what its tests show.
  void records_of(const std::map<std::string, std::map<std::string, std::string>>& seen) const {
    for (const auto& [gpu, tests] : seen) {
      FakeRecord record{fake_environment({{"gpu", gpu}}), {fake_test("c.Control")}, {{"documented", "900"}}};
      for (const auto& [name, text] : tests) record.tests.push_back(fake_failure("c." + name, text, "900"));
      record.write(folder + "/reports/2.15.0/" + (gpu == "G" ? "g" : "h") + ".jsonl");
    }
  }
  std::string applied() const {
    const ShellResult said = recapture("dev propose --apply " + folder + "/reports/2.15.0/*.jsonl");
    EXPECT_EQ(said.code, 0) << said.out;
    return said.out;
  }
  size_t surprises_of_both() const {
    const Rules rules = rules_of(folder);
    size_t count = 0;
    for (const char* gpu : {"g", "h"}) {
      for (const TestVerdict& row : judge_record(read_record(folder + "/reports/2.15.0/" + gpu + ".jsonl"), rules))
        count += severity_of(row.verdict) == Severity::Fail ? 1 : 0;
    }
    return count;
  }
};

TEST_F(ProposeApply, WhatBothGpusConfirm_IsNoNewsAndChangesTwoLines) {
  const std::map<std::string, std::string> same = {{"ReproducesA", "ok"}, {"ReproducesB", "ok"}, {"ReproducesC", "ok"}};
  records_of({{"G", same}, {"H", same}});
  EXPECT_THAT(applied(),
              HasSubstr("0 news; of cases/expectations.toml 2 entries confirmed, 0 widened, 0 ended, 0 new"));
  std::string expected = text_of(changes);
  EXPECT_THAT(expected, HasSubstr("# Of all changes.\n\n[[change]]\nwhat = 'a check'"));
  EXPECT_THAT(expected, HasSubstr("  where = { release = \">=2.14, <=2.15.0\" }\n"));
  EXPECT_THAT(expected, HasSubstr("  records = [\"2.14.0/g.jsonl\", \"2.15.0/g.jsonl\"]\n"));
  EXPECT_THAT(expected,
              HasSubstr("  records = [\n    \"2.14.0/g.jsonl\",\n    \"2.15.0/g.jsonl\",\n  ]\n  # The last one.\n"));
  EXPECT_EQ(surprises_of_both(), 0U);
  EXPECT_THAT(applied(), HasSubstr("0 news; of cases/expectations.toml 0 entries confirmed"));
  EXPECT_EQ(text_of(changes), expected) << "the second time it changes nothing";
}

TEST_F(ProposeApply, WhatIsNew_HasAGpuOnlyWhereTheGpusDiffer) {
  records_of({{"G", {{"ReproducesD", "901"}, {"ReproducesE", "902"}, {"ReproducesF", "900"}}},
              {"H", {{"ReproducesD", "901"}, {"ReproducesE", "900"}, {"ReproducesF", "903"}}}});
  ASSERT_EQ(surprises_of_both(), 4U);
  const std::string said = applied();
  EXPECT_THAT(said, HasSubstr("c.ReproducesD on G, H: changed\n  expected: 900\n  2.15.0 shows: 901\n"));
  EXPECT_THAT(said, HasSubstr("c.ReproducesE on G: changed\n"));
  EXPECT_THAT(said, HasSubstr("c.ReproducesF on H: changed\n"));
  EXPECT_THAT(said, HasSubstr("3 news; of cases/expectations.toml 0 entries confirmed, 0 widened, 0 ended, 3 new"));
  const std::string text = text_of(changes);
  EXPECT_THAT(text, HasSubstr("    \"c.ReproducesD\",\n  ]\n  where = { release = \">=2.15.0\" }\n"));
  EXPECT_THAT(text, HasSubstr("    \"c.ReproducesE\",\n  ]\n  where = { release = \">=2.15.0\", gpu = \"G\" }\n"));
  EXPECT_THAT(text, HasSubstr("    \"c.ReproducesF\",\n  ]\n  where = { release = \">=2.15.0\", gpu = \"H\" }\n"));
  EXPECT_EQ(surprises_of_both(), 0U);
}

TEST_F(ProposeApply, EntryThatIsWrongNow_EndsAndItsChangeIsNamed) {
  records_of({{"G", {{"ReproducesC", "900"}}}, {"H", {{"ReproducesC", "900"}}}});
  const std::string said = applied();
  EXPECT_THAT(said, HasSubstr("c.ReproducesC on G, H: regressed\n  expected: healthy\n  2.15.0 shows: 900\n"
                              "  upstream: pytorch#1\n"));
  EXPECT_THAT(said, HasSubstr("0 widened, 1 ended, 0 new\n"));
  EXPECT_THAT(text_of(changes), HasSubstr("where = { release = \">=2.14, <2.15.0\" }"));
  EXPECT_EQ(surprises_of_both(), 0U);
}

TEST_F(ProposeApply, EntryThatOneGpuContradicts_HoldsOnTheOther) {
  records_of({{"G", {{"ReproducesC", "900"}}}, {"H", {{"ReproducesC", "ok"}}}});
  EXPECT_THAT(applied(),
              HasSubstr("1 news; of cases/expectations.toml 0 entries confirmed, 0 widened, 1 ended, 1 new"));
  EXPECT_THAT(text_of(changes), HasSubstr("where = { release = \">=2.15.0\", gpu = \"H\" }"));
  EXPECT_EQ(surprises_of_both(), 0U);
}

TEST_F(ProposeApply, RecordsOfTwoReleases_AreRefused) {
  records_of({{"G", {{"ReproducesC", "ok"}}}});
  FakeRecord{fake_environment({{"release", "2.6.0"}}), {fake_test("c.Control")}}.write(folder +
                                                                                       "/reports/2.15.0/h.jsonl");
  const ShellResult said = recapture("dev propose --apply " + folder + "/reports/2.15.0/*.jsonl");
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.out, HasSubstr("of 2.6.0, and "));
  EXPECT_TRUE(said.is_one_line()) << said.out;
}

// A range has numbers alone: "==2.16.0.dev20261124+cu132" is not one.
TEST_F(ProposeApply, Nightly_HasARangeThatCanBeRead) {
  FakeRecord record{
      fake_environment({{"release", "2.16.0.dev20261124+cu132"}}), {fake_test("c.Control")}, {{"documented", "900"}}};
  record.tests.push_back(fake_failure("c.ReproducesD", "901", "900"));
  record.write(folder + "/reports/2.15.0/g.jsonl");
  EXPECT_THAT(applied(), HasSubstr("0 widened, 0 ended, 1 new"));
  EXPECT_THAT(text_of(changes), HasSubstr("where = { release = \">=2.16.0\" }"));
  EXPECT_EQ(recapture("show " + folder + "/reports/2.15.0/g.jsonl").code == 2, false) << "every verb reads the file";
}

TEST_F(Propose, BadArguments_GetOneLineAndTheirExitCode) {
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::string, std::string>>{{"dev", "takes a verb"},
                                                        {"dev propose", "RECORD is missing"},
                                                        {"dev propose " + folder + "/none.jsonl", "cannot read it"},
                                                        {"dev propose " + changes, "not a line of a record"}}) {
    const ShellResult said = recapture(arguments);
    EXPECT_EQ(said.code, 2) << arguments;
    EXPECT_THAT(said.out, HasSubstr(words)) << arguments;
    EXPECT_TRUE(said.is_one_line()) << said.out;
  }
}

}  // namespace
}  // namespace recapture

// The lints, on small trees with one error each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/base/exit.h"
#include "harness/lint/documents.h"
#include "harness/tests/lint/sources.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Tree : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root + "/cases/f");
    write("f/a.cpp",
          "// A.\nRECAPTURE_CASE = {\n    .sources = {{\"freeze race\", \"Description\"}, {\"upstream\", "
          "\"pytorch#1\"}},\n"
          "    .documented = \"x\",\n};\n\nTEST(A, Reproduces) {}\n");
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(root + "/cases/" + name) << text; }
  std::vector<std::string> documents(const std::string& lines) const {
    write("coverage.tsv", "document\tline\theading\tkind\tsays\tcovered\n" + lines);
    return document_errors(root);
  }
  std::vector<std::string> sources(const std::string& entries) const {
    write("sources.toml", entries);
    return source_errors(root);
  }
  std::string root = ::testing::TempDir() + "recapture-tree-" + std::to_string(getpid());
  const std::string good = "freeze race\t1-170\tDescription\titem\tit fails\ta.Reproduces\n";
  const std::string document = "[[source]]\nid='freeze race'\nkind='document'\ntitle='t'\nurl='https://x'\n";
  const std::string number = "[[source]]\nid='pytorch#1'\nkind='upstream'\ntitle='t'\nurl='https://x'\n";
};

TEST_F(Tree, DocumentLineWithABadCell_IsAnError) {
  EXPECT_THAT(documents(good), IsEmpty());
  EXPECT_THAT(documents(good + good), ElementsAre(HasSubstr("coverage.tsv:3: repeats an earlier claim")));
  EXPECT_THAT(documents(good + "freeze race\t171\tDescription\titem\tand\ta.Reproduces\textra\n"),
              ElementsAre(HasSubstr(":3: needs six cells")));
  EXPECT_THAT(documents(good + "freeze rice\t1\tDescription\titem\tand\ta.Reproduces\n"),
              ElementsAre(HasSubstr("'freeze rice' is not a document")));
  EXPECT_THAT(documents(good + "freeze race\t171\tDescription\tthing\tand\ta.Reproduces\n"),
              ElementsAre(HasSubstr("'thing' is not a kind")));
  EXPECT_THAT(documents(good + "freeze race\t171\tDescription\titem\tand\ta.Fix\n"),
              ElementsAre(HasSubstr("a.Fix is not a test")));
}

TEST_F(Tree, UnknownWordAfterATest_IsAnError) {
  const auto line = [&](const std::string& test) { return good + "freeze race\t171\tDescription\titem\tand\t" + test; };
  for (const char* word : {"fails", "against", "any"}) {
    EXPECT_THAT(documents(line("a.Reproduces:") + word + "\n"), IsEmpty()) << word;
  }
  for (const char* word : {"a.Reproduces:maybe\n", "a.Reproduces:\n", "a.Reproduces:fails:any\n", "a.Fix:fails\n"}) {
    EXPECT_THAT(documents(line(word)), ElementsAre(HasSubstr(" is not a test"))) << word;
  }
}

TEST_F(Tree, RangeOrFactOfADocumentLine_IsRead) {
  const auto line = [&](const std::string& tests) {
    return good + "freeze race\t171\tDescription\titem\tand\t" + tests;
  };
  EXPECT_THAT(documents(line("@>=2.2,<2.6 a.Reproduces?rank0.outstanding=no:against a.Reproduces\n")), IsEmpty());
  const auto tests = read_documents(root).back().tests();
  ASSERT_EQ(tests.size(), 2U);
  EXPECT_EQ(tests[0].id, "a.Reproduces");
  EXPECT_EQ(tests[0].shows, Shows::Against);
  EXPECT_EQ(tests[0].fact, "rank0.outstanding");
  EXPECT_EQ(tests[0].value, "no");
  for (const CoveringTest& test : tests) EXPECT_EQ(test.releases, ">=2.2,<2.6");
  EXPECT_EQ(tests[1].fact, "");
  EXPECT_THAT(documents(line("@2.2 a.Reproduces\n")), ElementsAre(HasSubstr("coverage.tsv:3: ")));
  for (const char* word : {"a.Reproduces?\n", "a.Reproduces?x\n", "a.Reproduces?x=\n", "a.Reproduces?=x\n"}) {
    EXPECT_THAT(documents(line(word)), ElementsAre(HasSubstr(" is not a test"))) << word;
  }
}

TEST_F(Tree, DocumentLineAboutReleasesOnRecord_IsAnError) {
  const std::string cell = "freeze race\t171\tDescription\titem\t";
  for (const char* covered : {"not covered: no record is older\n", "not covered: the records have 2.11.0 alone\n",
                              "not covered: no record with DDP is newer than 2.11\n"}) {
    EXPECT_THAT(documents(good + cell + "and\t" + covered),
                ElementsAre(HasSubstr("see `recapture dev tables documents`")));
  }
  EXPECT_THAT(documents(good + cell + "and, no record is of it\ta.Reproduces\n"), Not(IsEmpty()));
  EXPECT_THAT(documents(good + cell + "and\tnot covered: no record has this GPU\n"), IsEmpty());
}

TEST_F(Tree, NotCoveredWithoutAReason_IsAnError) {
  const std::string line = good + "freeze race\t171\tDescription\titem\tand\t";
  EXPECT_THAT(documents(line + "not covered: a conjecture\n"), IsEmpty());
  EXPECT_THAT(documents(line + "not covered: \n"), Not(IsEmpty()));
  EXPECT_THAT(documents(line + "not yet\n"), ElementsAre(HasSubstr(":3: 'not yet' is for what needs DDP or NCCL")));
  EXPECT_THAT(documents(good + "freeze race\t171\tNCCL\titem\tand\tnot yet\n"), IsEmpty());
}

TEST_F(Tree, GapOrWrongOrderOfDocumentLines_IsAnError) {
  const auto at = [](const std::string& lines, const std::string& says) {
    return "freeze race\t" + lines + "\tDescription\titem\t" + says + "\ta.Reproduces\n";
  };
  EXPECT_THAT(documents(at("1-160", "one") + at("1-2", "two") + at("170", "three")), IsEmpty());
  EXPECT_THAT(documents(at("1-160", "one") + at("171", "two")),
              ElementsAre(HasSubstr(":3: no claim covers lines 161 to 170 of its document")));
  EXPECT_THAT(documents(at("2-173", "one") + at("1", "two")), ElementsAre(HasSubstr(":3: stands after line 2")));
  EXPECT_THAT(documents(at("1-163", "one")), ElementsAre(HasSubstr("the lines of 'freeze race' from 164 on")));
  for (const char* cell : {"174", "0", "20-10", "1-", "-1", "one", "1-174", "99999999999", "1 ", ""}) {
    EXPECT_THAT(documents(good + at(cell, "two")), ElementsAre(HasSubstr("' names no lines of the 173"))) << cell;
  }
}

TEST_F(Tree, LineNumberOfADocumentOfPages_IsAnError) {
  const auto at = [](const std::string& lines) {
    return "CUDA graph guide\t" + lines + "\tMemory Issues\titem\tit grows\ta.Reproduces\n";
  };
  EXPECT_THAT(documents(good + at("-")), IsEmpty());
  EXPECT_THAT(documents(good + at("1")), ElementsAre(HasSubstr(":3: its document has no lines; write '-'")));
}

TEST_F(Tree, CaseAtNoLineOfItsDocument_IsAnError) {
  EXPECT_THAT(documents("freeze race\t1-170\tDescription\titem\tit fails\tnot covered: why\n"),
              ElementsAre(HasSubstr("a stands at no line")));
  EXPECT_THAT(documents("freeze race\t1-170\tElsewhere\titem\tit fails\ta.Reproduces\n"),
              ElementsAre(HasSubstr("a: cites 'freeze race' under 'Description'")));
}

TEST_F(Tree, UnknownOrUncitedSource_IsAnError) {
  EXPECT_THAT(sources(document + number), IsEmpty());
  EXPECT_THAT(sources(document), ElementsAre(HasSubstr("cites pytorch#1, which cases/sources.toml lacks")));
  EXPECT_THAT(sources(document + number + "[[source]]\nid='pytorch#2'\nkind='upstream'\ntitle='t'\nurl='https://x'\n"),
              ElementsAre(HasSubstr("nothing cites pytorch#2")));
  EXPECT_THAT(sources(document + number + number), ElementsAre(HasSubstr("stands here a second time")));
  EXPECT_THAT(sources(document + "[[source]]\nid='pytorch#1'\nkind='rumour'\ntitle='t'\nurl='ftp://x'\n"),
              ElementsAre(HasSubstr("does not begin with https://"), HasSubstr("'rumour' is not a kind")));
}

// date_errors() for a number with this date as the cause of a change since that release.
class Dates : public Tree {
 protected:
  void SetUp() override {
    Tree::SetUp();
    std::filesystem::create_directories(root + "/ci");
    matrix("{ version = '2.1.2', date = 2023-12-14, began = 2023-10-04 }, { version = '2.13.0', date = 2026-07-08 }");
  }
  void matrix(const std::string& releases) const { write("../ci/matrix.toml", "release = [" + releases + "]\n"); }
  std::vector<std::string> dates(const std::string& date, const std::string& since,
                                 const std::string& numbers = "pytorch#1") const {
    write("sources.toml", document + number + (date.empty() ? "" : "date=" + date + "\n"));
    write("expectations.toml",
          "\n[[change]]\nwhat='w'\nnumber='" + numbers + "'\n" + (since.empty() ? "" : "since='" + since + "'\n") +
              "[[change.expect]]\ntests=['a.Reproduces']\nwhere={}\nresult='healthy'\nrecords=['r']\n");
    return date_errors(root);
  }
};

TEST_F(Dates, NumberOlderThanTheRelease_IsFine) {
  EXPECT_THAT(dates("2026-07-07", "2.13"), IsEmpty());
  EXPECT_THAT(dates("2026-07-07", "2.13.0"), IsEmpty());
  EXPECT_THAT(dates("2023-10-03", "2.1"), IsEmpty());
  EXPECT_THAT(dates("2026-07-07", "2.13", "pytorch#1, pytorch#2"), IsEmpty()) << "source_errors names the other";
}

TEST_F(Dates, NumberYoungerThanTheRelease_IsNamedWithItsLine) {
  const std::string place = root + "/cases/expectations.toml:2: ";
  EXPECT_THAT(dates("2026-07-17", "2.13"),
              ElementsAre(place + "pytorch#1 is of 2026-07-17, and cannot be in 2.13, which came out on 2026-07-08"));
  EXPECT_THAT(dates("2026-07-08", "2.13"), ElementsAre(HasSubstr("cannot be in 2.13")));
  EXPECT_THAT(dates("2026-07-17", "2.13", "pytorch#2, pytorch#1"), ElementsAre(HasSubstr("pytorch#1 is of")));
  EXPECT_THAT(dates("2026-07-17", "2.12.1"), ElementsAre(HasSubstr("came out on 2026-07-08"))) << "the next known one";
}

TEST_F(Dates, LineOfSeveralReleases_IsHeldToItsFirstOne) {
  EXPECT_THAT(dates("2023-10-05", "2.1"), ElementsAre(HasSubstr("in 2.1, which came out on 2023-10-04")));
  EXPECT_THAT(dates("2023-10-05", "2.1.1"), IsEmpty()) << "a patch release resolves to the listed one";
  EXPECT_THAT(dates("2023-12-14", "2.1.1"), ElementsAre(HasSubstr("in 2.1.1, which came out on 2023-12-14")));
}

TEST_F(Dates, MissingDate_IsNamedWhereItIsNeeded) {
  EXPECT_THAT(dates("", ""), IsEmpty());
  EXPECT_THAT(dates("", "2.13"), ElementsAre(AllOf(HasSubstr("sources.toml:6: needs 'date'"),
                                                   HasSubstr("expectations.toml:2 cites pytorch#1"))));
  EXPECT_THAT(dates("2026-07-07", "2.14"),
              ElementsAre(HasSubstr("expectations.toml:2: since 2.14, which is newer than all")));
  EXPECT_THROW(dates("'2026-07-07'", "2.13"), ExitError) << "no text";
  EXPECT_THROW(dates("2026-02-30", "2.13"), ExitError) << "no day";
  matrix("{ version = '2.13.0' }");
  EXPECT_THROW(dates("2026-07-07", "2.13"), ExitError);
  matrix("{ version = '2.13.1', date = 2026-08-08 }");
  EXPECT_THROW(dates("2026-07-07", "2.13"), ExitError) << "without the day of 2.13.0";
}

}  // namespace
}  // namespace recapture

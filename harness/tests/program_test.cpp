// The programs in plain PyTorch beside the cases: their form, their hash, and how their tests are judged.
#include "harness/model/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/model/catalogue.h"
#include "harness/model/tree.h"
#include "harness/report/program_diff.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/verdict.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;

constexpr const char* kSmallProgram = R"("""It fails."""

import torch

DOCUMENTED = "1 # not 2"


def fails():
    # A comment.
    return 1  # cause


def fix_it_now():
    return 2


def main(name="fails"):
    print(name)
)";

std::string with_text(std::string text, const std::string& before, const std::string& now) {
  const size_t at = text.find(before);
  EXPECT_NE(at, text.npos) << before;
  return at == text.npos ? text : text.replace(at, before.size(), now);
}

TEST(ProgramHash, CommentsBlankLinesDocstringAndMain_DoNotCount) {
  const std::string hash = program_hash(kSmallProgram);
  EXPECT_EQ(program_hash(with_text(kSmallProgram, "It fails.", "It fails, \\\"always\\\".")), hash);
  EXPECT_EQ(program_hash(with_text(kSmallProgram, "    # A comment.\n", "\n\n")), hash);
  EXPECT_EQ(program_hash(with_text(kSmallProgram, "  # cause", "")), hash);
  EXPECT_EQ(program_hash(with_text(kSmallProgram, "print(name)", "print()")), hash);
}

TEST(ProgramHash, CodeAndWhatLooksLikeAComment_Count) {
  const std::string hash = program_hash(kSmallProgram);
  EXPECT_NE(program_hash(with_text(kSmallProgram, "return 2", "return 3")), hash);
  EXPECT_NE(program_hash(with_text(kSmallProgram, "    return 2", "  return 2")), hash);
  EXPECT_NE(program_hash(with_text(kSmallProgram, "1 # not 2", "1 # not 3")), hash);
  EXPECT_NE(program_hash(with_text(kSmallProgram, "import torch\n", "")), hash);
}

TEST(ProgramTests, NamesOfFunctions_AreThoseOfTheFixes) {
  EXPECT_EQ(test_of_function("fails"), "PythonReproduces");
  EXPECT_EQ(test_of_function("fix_read_after_replay"), "PythonFixReadAfterReplay");
  EXPECT_EQ(test_of_function("main"), "");
  EXPECT_THAT(functions_in(kSmallProgram), ElementsAre("fails", "fix_it_now"));
  EXPECT_EQ(program_function(kSmallProgram, "fix_it_now"), "def fix_it_now():\n    return 2\n");
  EXPECT_EQ(kind_of("PythonReproduces"), Kind::Reproduces);
  EXPECT_EQ(kind_of("PythonFixItNow"), Kind::Fix);
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(ProgramDiff, FailureAndFix_DifferInWhatTheirReaderWouldMark) {
  const std::string program =
      "def fails():\n    x = 1\n    y = 2\n    y.item()  # cause\n    z = \"# 3\"  # Three.\n    w = 4\n    v = 5\n\n\n"
      "def fix_it():\n    x = 1\n    y = 2\n    # fix: y.item()\n    z = \"# 3\"\n    w = 4\n    v = 6  # fix: v = 5\n";
  EXPECT_THAT(report::program_diff(program, "fix_it", 0),
              ElementsAre(" y = 2", "-y.item()", " z = \"# 3\"", " w = 4", "-v = 5", "+v = 6"));
  EXPECT_THAT(report::program_diff(program, "fix_that", 0), IsEmpty());
}

TEST(ProgramDiff, FixInOtherCode_IsComparedWithWhatItsMarksReplace) {
  std::string program = "def fails():\n";
  for (int i = 0; i < 13; ++i) program += "    a" + std::to_string(i) + "()\n";
  program += "\n\ndef fix_it():\n";
  for (int i = 0; i < 13; ++i) program += "    b" + std::to_string(i) + "()\n";
  program += "    c()  # fix: d()\n    e()  # fix\n    # fix: f()\n    g()\n";
  EXPECT_THAT(report::program_diff(program, "fix_it", 0),
              ElementsAre(" b12()", "-d()", "+c()", "+e()", "-f()", " g()"));
}

// Text from the first line that begins with `begin`.
std::string from_line(const std::string& text, const std::string& begin) {
  const size_t at = text.find("\n" + begin);
  return at == text.npos ? "" : text.substr(at + 1);
}

class ProgramOfACase : public ::testing::TestWithParam<std::string> {
 protected:
  const CaseProgram program = programs_in_tree(kRoot, {GetParam()}).at(GetParam());
  const std::string source = contents(program.path);
};

std::vector<std::string> cases_with_program() {
  std::vector<std::string> ids;
  for (const auto& [id, program] : programs_in_tree(kRoot)) ids.push_back(id);
  return ids;
}

INSTANTIATE_TEST_SUITE_P(Cases, ProgramOfACase, ::testing::ValuesIn(cases_with_program()),
                         [](const auto& param) { return param.param; });

TEST_P(ProgramOfACase, EachFixOfTheCase_HasItsFunction) {
  const Catalogue catalogue = read_catalogue(kRoot);
  const CatalogueCase* one = find_case(catalogue, GetParam());
  ASSERT_NE(one, nullptr) << program.path << " stands beside no case";
  EXPECT_EQ(one->family, program.family);
  std::vector<std::string> wanted{"PythonReproduces"}, in_catalogue;
  for (const CatalogueTest& test : one->tests) {
    if (is_of_program(test.name)) {
      in_catalogue.push_back(test.name);
      if (test.kind == Kind::Fix && !repeats(*one, test)) {
        EXPECT_NE(test.fix, "") << test.name << " has no sentence in .fixes";
        wanted.push_back(test.name);
      }
    } else if (test.kind == Kind::Fix) {
      wanted.push_back("Python" + test.name);
    }
  }
  EXPECT_THAT(tests_of(program), ::testing::UnorderedElementsAreArray(wanted));
  EXPECT_EQ(in_catalogue, tests_of(program))
      << "`recapture dev catalogue | xz -9e > cases/catalogue.json.xz` renews it";
}

TEST_P(ProgramOfACase, EachFunction_FitsOnAScreenAndHasItsMark) {
  for (const std::string& function : program.functions) {
    EXPECT_NE(test_of_function(function), "") << function << " is neither fails() nor a fix";
    const std::string text = program_function(source, function);
    const auto lines = std::ranges::count(text, '\n');
    EXPECT_THAT(lines - 1, AllOf(Ge(5), Le(25))) << function << " has " << lines - 1 << " lines";
    static const RE2 kCause("# cause($|:)"), kFix("# fix($|:| stays: )");
    const bool has_mark = std::ranges::any_of(split_lines(text), [&](const std::string& line) {
      return RE2::PartialMatch(line, function == "fails" ? kCause : kFix);
    });
    EXPECT_TRUE(has_mark) << function << " has no line with a mark";
  }
}

TEST_P(ProgramOfACase, Main_IsThatOfAllPrograms) {
  const std::string example = contents(kRoot + "/cases/sync/item_in_capture.py");
  if (getenv("RECAPTURE_RENEW") != nullptr) {
    std::ofstream(program.path) << source.substr(0, source.find("def main(")) << from_line(example, "def main(");
    return;
  }
  EXPECT_EQ(from_line(source, "def main("), from_line(example, "def main("))
      << "RECAPTURE_RENEW=1 build/harness/tests/unit_test --gtest_filter='*Main_Is*' renews it";
  EXPECT_NE(from_line(source, "def main("), "");
}

TEST_P(ProgramOfACase, Import_IsOfTorchAndTheStandardLibrary) {
  static const RE2 kImport(R"((?m)^\s*(?:import|from) (\w+))");
  const std::set<std::string> allowed = {
      "contextlib", "copy",    "datetime",  "gc",       "inspect",           "multiprocessing", "os",
      "re",         "signal",  "sys",       "tempfile", "threading",         "torch",           "queue",
      "time",       "weakref", "traceback", "unittest", "transformer_engine"};
  for (const Match& match : all_matches(source, kImport)) {
    EXPECT_TRUE(allowed.contains(std::string(match[1]))) << program.path << " imports " << match[1];
  }
  EXPECT_EQ(source.find("recapture"), source.npos) << program.path << " names something of ours";
}

TEST_P(ProgramOfACase, Difference_FitsOnAScreen) {
  for (const std::string& function : program.functions) {
    if (function == "fails") continue;
    EXPECT_THAT(report::program_diff(source, function, 0).size(), AllOf(Ge(1U), Le(25U))) << function;
  }
}

TEST_P(ProgramOfACase, FirstLine_IsItsDocstring) {
  static const RE2 kDocstring(R"(""".+\.""")");
  EXPECT_TRUE(RE2::FullMatch(source.substr(0, source.find('\n')), kDocstring)) << program.path;
}

TEST(ProgramShown, Summary_HasAtMostTwentyFiveLines) {
  std::string ids;
  for (const auto& [id, program] : programs_in_tree(kRoot)) ids += " " + id;
  std::vector<size_t> lines = {0};  // Of each summary, with the empty line before the rule.
  bool begins = true;
  for (const std::string& line : split_lines(shell(kRecapture + " show" + ids).out)) {
    const bool is_rule = line == std::string(80, '-');
    if (is_rule) lines.push_back(0);
    if (!is_rule && !(begins && line.empty())) ++lines.back();
    begins = is_rule;
  }
  lines.back() += 1;
  EXPECT_THAT(lines, Each(Le(25U + 1)));
  EXPECT_EQ(lines.size(), programs_in_tree(kRoot).size());
}

// A tree with one case and its program, and a record of both.
class ProgramBesideItsCase : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root + "/cases/f");
    write("c.cpp", "int x = 1;\n");
    write("c.py", kSmallProgram);
    FakeRecord record;
    record.about_case = {{"hash", cases_in_tree(root).at("c").code}};
    record.tests = {fake_test("c.Control"), fake_failure("c.Reproduces", "D"),
                    of_program(fake_failure("c.PythonReproduces", "D")), of_program(fake_test("c.PythonFixItNow"))};
    record.write(root + "/r.jsonl");
  }
  void TearDown() override { fs::remove_all(root); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(root + "/cases/f/" + name) << text;
  }
  Json of_program(Json line) const {
    line["program"] = programs_in_tree(root).at("c").code;
    return line;
  }
  std::vector<std::string> stale() const {
    std::vector<std::string> names;
    for (const TestVerdict& row : judge_record(read_record(root + "/r.jsonl"), rules_of(root))) {
      if (row.verdict == Verdict::Stale) names.push_back(row.name);
    }
    return names;
  }

  const std::string root = ::testing::TempDir() + "recapture-program-" + std::to_string(getpid());
};

TEST_F(ProgramBesideItsCase, EditOfTheProgram_MakesItsOwnTestsStale) {
  EXPECT_THAT(stale(), IsEmpty());
  write("c.py", with_text(kSmallProgram, "return 2", "return 3"));
  EXPECT_THAT(stale(), ElementsAre("PythonReproduces", "PythonFixItNow"));
}

TEST_F(ProgramBesideItsCase, EditOfTheCase_LeavesThoseOfTheProgram) {
  write("c.cpp", "int x = 2;\n");
  EXPECT_THAT(stale(), ElementsAre("Control", "Reproduces"));
}

TEST_F(ProgramBesideItsCase, NewProgram_MakesNothingStale) {
  fs::remove(root + "/cases/f/c.py");
  FakeRecord record;
  record.about_case = {{"hash", cases_in_tree(root).at("c").code}};
  record.tests = {fake_test("c.Control"), fake_failure("c.Reproduces", "D")};
  record.write(root + "/r.jsonl");
  write("c.py", kSmallProgram);
  EXPECT_THAT(stale(), IsEmpty());
}

// The verdicts of rows by name.
std::map<std::string, Verdict> verdicts_in(const FakeRecord& made) {
  const std::string path = ::testing::TempDir() + "recapture-program-rows-" + std::to_string(getpid()) + ".jsonl";
  made.write(path);
  std::map<std::string, Verdict> verdicts;
  for (const TestVerdict& row : judge_record(read_record(path), {})) verdicts[row.name] = row.verdict;
  fs::remove(path);
  return verdicts;
}

TEST(ProgramJudged, ControlOfTheCase_SaysNothingAboutTheProgram) {
  Json broken = fake_test("c.Control", {{"assertions", {"a.cpp:1: no"}}});
  broken.update(fake_ending(false));
  const auto verdicts =
      verdicts_in({.tests = {broken, fake_failure("c.Reproduces", "D"), fake_failure("c.PythonReproduces", "D")}});
  EXPECT_EQ(verdicts.at("Reproduces"), Verdict::Inconclusive);
  EXPECT_EQ(verdicts.at("PythonReproduces"), Verdict::AsDocumented);
}

TEST(ProgramJudged, FixIsNotNeeded_WhereItsOwnProgramIsHealthy) {
  const auto verdicts =
      verdicts_in({.tests = {fake_test("c.Control"), fake_failure("c.Reproduces", "D"), fake_test("c.FixA"),
                             fake_failure("c.PythonReproduces", "ok"), fake_test("c.PythonFixA")}});
  EXPECT_EQ(verdicts.at("FixA"), Verdict::AsDocumented);
  EXPECT_EQ(verdicts.at("PythonFixA"), Verdict::NotNeeded);
}

}  // namespace
}  // namespace recapture

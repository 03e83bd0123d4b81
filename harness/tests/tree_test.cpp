// What must be true of the tree itself: cases are whole and named as they should be, every line of the documents names
// the tests that cover it, expectations are all used, and the committed records still mean what the verdicts beside
// them say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "harness/case/pattern.h"
#include "harness/case/signature.h"
#include "harness/case/source_hash.h"
#include "harness/check/documents.h"
#include "harness/check/expectations.h"
#include "harness/check/signatures.h"
#include "harness/check/sources.h"
#include "harness/judge/catalogue.h"
#include "harness/judge/row.h"
#include "harness/judge/version.h"
#include "harness/record/exit.h"
#include "harness/tests/shell.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

const std::string kRoot = RECAPTURE_ROOT;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> case_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/cases")) {
    if (entry.path().extension() == ".cpp") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string camel_case(const std::string& stem) {
  std::string name;
  bool upper = true;
  for (char c : stem) {
    if (c == '_') {
      upper = true;
      continue;
    }
    name += upper ? static_cast<char>(toupper(c)) : c;
    upper = false;
  }
  return name;
}

struct Tests {
  std::set<std::string> suites;
  std::vector<std::string> names;
};

Tests tests_in(const std::string& source) {
  static const std::regex kTest(R"((?:^|\n)TEST(?:_F)?\(\s*(\w+),\s*(\w+)\s*\))");
  Tests tests;
  for (std::sregex_iterator at(source.begin(), source.end(), kTest), end; at != end; ++at) {
    tests.suites.insert((*at)[1]);
    tests.names.push_back((*at)[2]);
  }
  return tests;
}

TEST(Cases, AreWholeAndNamedAsTheyShouldBe) {
  std::set<std::string> stems;
  for (const fs::path& file : case_files()) {
    const std::string stem = file.stem(), source = contents(file);
    const std::string path = "cases/" + file.parent_path().filename().string() + "/" + stem + ".cpp";
    SCOPED_TRACE(path);
    EXPECT_TRUE(stems.insert(stem).second) << "the name is taken";
    EXPECT_EQ(source.rfind("// ", 0), 0U) << "a case opens with a sentence about what fails";
    const std::string alone = "// Alone:  g++ " + path + " $(ci/libtorch --flags) -o " + stem + "\n";
    EXPECT_THAT(source, HasSubstr(alone));
    const Tests tests = tests_in(source);
    for (const std::string& suite : tests.suites) EXPECT_EQ(suite, camel_case(stem));
    std::set<Kind> kinds;
    for (const std::string& name : tests.names) {
      const auto kind = kind_of(name);
      EXPECT_TRUE(kind.has_value()) << name << " is neither Control…, Reproduces… nor Fix…";
      if (kind) kinds.insert(*kind);
    }
    EXPECT_TRUE(kinds.count(Kind::Control)) << "no Control";
    if (source.find("No failure is to be reproduced here") != std::string::npos) continue;  // It shows who is innocent.
    EXPECT_TRUE(kinds.count(Kind::Reproduces)) << "no Reproduces";
    EXPECT_TRUE(kinds.count(Kind::Fix) || source.find("No fix") != std::string::npos)
        << "no Fix, and no words 'No fix …' that say why";
    EXPECT_TRUE(source.find("TRIGGER(") != std::string::npos || source.find("trigger_on()") != std::string::npos)
        << "no trigger: it cannot be seen not to reproduce";
    EXPECT_EQ(source.find("sleep_for"), std::string::npos);
  }
  EXPECT_GE(stems.size(), 5U);
}

// What a user is told: of each failure what it does to a program, of each fix what to do.
TEST(Catalogue, HasAnEffectForEveryFailureAndASentenceForEveryFix) {
  std::set<std::string> sentences;
  size_t fixes = 0;
  for (const CatalogueCase& one : read_catalogue(kRoot)) {
    const std::string source = contents(kRoot + "/cases/" + one.family + "/" + one.id + ".cpp");
    const bool has_rate = source.find("REPRODUCES_AT_RATE(") != std::string::npos;
    EXPECT_EQ(has_rate, source.find(".stopping = ") != std::string::npos)
        << one.id << ": what ends the tries of a rate?";
    for (const CatalogueTest& test : one.tests) {
      SCOPED_TRACE(one.id + "." + test.name);
      if (test.kind == word(Kind::Reproduces)) {
        EXPECT_TRUE(effect_of(test.effect).has_value()) << test.effect;
      }
      if (test.kind != word(Kind::Fix)) continue;
      ++fixes;
      EXPECT_TRUE(sentences.insert(one.id + test.fix).second) << "twice: " << test.fix;
      EXPECT_TRUE(test.fix.size() >= 30 && test.fix.size() <= 150 && test.fix.back() == '.') << test.fix;
    }
  }
  EXPECT_GE(fixes, 200U);
}

// No record may outlive the code that it was made with, wherever that lies.
TEST(Stale, IsEveryCaseWhoseFixtureHasAnotherTokenAndNoneForAComment) {
  std::map<std::string, std::string> fixtures;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/fixtures")) {
    const fs::path& path = entry.path();
    // The one runs by itself, the other answers --environment and no test.
    const bool is_in_no_test = path.parent_path().filename() == "tests" || path.filename() == "environment.cpp";
    if ((path.extension() != ".cpp" && path.extension() != ".h") || is_in_no_test) continue;
    fixtures[path.lexically_relative(kRoot)] = contents(path);
  }
  ASSERT_GE(fixtures.size(), 20U);
  const auto hashes = [&](const std::string& changed, const std::string& text) {
    std::map<std::string, std::string> all;
    for (const fs::path& file : case_files()) {
      all[file.stem()] = code_hash(contents(file), [&](const std::string& path) -> std::optional<std::string> {
        if (path == changed) return text;
        const auto known = fixtures.find(path);
        return known == fixtures.end() ? std::nullopt : std::optional(known->second);
      });
    }
    return all;
  };
  const auto now = hashes("", "");
  for (const auto& [path, text] : fixtures) {
    EXPECT_EQ(hashes(path, "// Another sentence.\n" + text + "\n/* and one more */\n"), now) << path;
    const size_t token = text.find("namespace recapture");
    ASSERT_NE(token, std::string::npos) << path;
    std::string changed = text;
    changed.insert(token, "constexpr int another_token = 1;\n");
    EXPECT_NE(hashes(path, changed), now) << path << " may change without any record's noticing";
  }
}

TEST(Documents, AreWholeAndNameTestsThatExist) {
  std::map<std::string, int> claims;
  for (const DocumentLine& line : read_documents(kRoot)) ++claims[line.document];
  EXPECT_THAT(claims, ElementsAre(Pair("CUDA graph guide", Ge(60)), Pair("capture failures", Ge(200)),
                                  Pair("freeze race", Ge(60)), Pair("gradient aliasing", Ge(60)),
                                  Pair("load corruption", Ge(40))));
  EXPECT_THAT(document_errors(kRoot), IsEmpty());
}

// What a command prints, both outputs together.
std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string out;
  std::array<char, 4096> buffer{};
  for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) out.append(buffer.data(), got);
  pclose(pipe);
  return out;
}

const std::string kRecapture = "'" RECAPTURE_BUILD "/recapture' --root '" RECAPTURE_ROOT "'";

class Reports : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { records = new std::vector<Record>(read_records_below(kRoot + "/reports")); }
  static void TearDownTestSuite() { delete records; }
  static std::vector<Record>* records;
};
std::vector<Record>* Reports::records = nullptr;

TEST_F(Reports, StandWhereTheirEnvironmentSays) {
  EXPECT_GE(records->size(), 10U);
  for (const Record& record : *records) {
    const std::string path = fs::path(record.path).lexically_relative(kRoot + "/reports");
    EXPECT_TRUE(is_report_path(path, record.environment)) << path << " is not " << report_path(record.environment);
  }
}

// What a machine without a GPU must have is known by the record of one, and a new release must not lose that.
TEST_F(Reports, HaveOneWithoutAGpuOfTheNewestRelease) {
  EXPECT_TRUE(fs::exists(kRoot + "/reports/" + read_matrix(kRoot).back() + "/host.jsonl"));
}

// Of two runs of 23 November 2026 whose runner lost what another thread told late; the next run of these releases has
// it.
bool lost_its_call(const Record& record, const Row& row) {
  const std::string release = record.where("release");
  return row.test == "pinned_background_thread_in_capture.Reproduces" && record.where("revision") == "b9cf13c" &&
         (release == "2.13.0" || release == "2.14.1");
}

TEST_F(Reports, NameTheCallWhereTheCaseDemandsOne) {
  const Rules rules = rules_of(kRoot, {.recorder = true});
  size_t named = 0;
  for (const Record& record : *records) {
    if (record.where("gpu").empty()) continue;
    for (const Row& row : judge_record(record, rules)) {
      EXPECT_EQ(row.verdict == Verdict::Missing, lost_its_call(record, row))
          << record.path << ": " << row.test << " was reproduced, by whom?";
      named += row.result == Result::Reproduced && record.find(row.test)->has("culprit") ? 1 : 0;
    }
  }
  EXPECT_GE(named, 100U);
}

TEST_F(Reports, HoldSignaturesThatAreReadAsTheyWereWritten) {
  size_t read = 0;
  for (const Record& record : *records) {
    for (const TestRecord& test : record.tests) {
      const auto signature = Signature::read(test.text("seen"));
      if (!signature) continue;
      EXPECT_EQ(signature->text(), test.text("seen")) << record.path << ": " << test.id();
      ++read;
    }
  }
  EXPECT_GE(read, 500U);
}

TEST_F(Reports, NeedEveryExpectationAndNoneHidesAnother) {
  EXPECT_THAT(
      expectation_errors(expectations_of(read_changes(kRoot)), read_matrix(kRoot), *records, kRoot + "/reports"),
      IsEmpty());
}

TEST_F(Reports, ShowNoFailureThatAForeignSignatureTakes) {
  EXPECT_THAT(loose_signatures(*records, rules_of(kRoot)), IsEmpty());
}

// The hashes of old records are those of sources that stand in the history, which a shallow clone lacks.
TEST(Hashes, OfOldRecordsAreOfTheSourcesThatTheyName) {
  std::istringstream table(contents(kRoot + "/reports/hashes.tsv"));
  std::string line;
  std::getline(table, line);
  size_t checked = 0;
  while (std::getline(table, line)) {
    std::istringstream cells(line);
    std::string id, recorded, now, commit;
    ASSERT_TRUE(cells >> id >> recorded >> now >> commit) << line;
    const std::string git = "git -C '" + kRoot + "' ";
    std::istringstream files(output_of(git + "ls-tree -r --name-only " + commit + " -- cases"));
    for (std::string path; std::getline(files, path);) {
      if (fs::path(path).filename() != id + ".cpp") continue;
      const std::string source = output_of(git + "show " + commit + ":" + path);
      EXPECT_EQ(hash_of(code_only(source)), recorded) << id;
      EXPECT_EQ(source_hash(source), now) << id;
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << "this clone has no history";
  EXPECT_GE(checked, 100U);
}

TEST(Sources, AreAllKnownAndAllCited) { EXPECT_THAT(source_errors(kRoot), IsEmpty()); }

TEST(ReportsReadme, IsWhatTheRecordsGive) {
  EXPECT_EQ(contents(kRoot + "/reports/README.md"), output_of(kRecapture + " show --markdown"))
      << "run `recapture show --markdown > reports/README.md`";
}

// A question to the records, and the answer, in a session of README.md: "…" alone stands for some lines, and behind a
// text for the rest of its line.
struct Session {
  std::string question;
  std::vector<std::string> answer;
};

std::vector<Session> sessions_in(const std::string& text) {
  static const std::regex kAsks(R"(\$ build/recapture ((?:list|show|compare|history|bisect)(?: .*)?))");
  std::vector<Session> sessions;
  std::istringstream lines(text);
  bool is_asked = false;
  std::smatch asked;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, asked, kAsks)) {
      sessions.push_back({asked[1], {}});
      is_asked = true;
    } else if (line == "```" || line.rfind("$ ", 0) == 0) {
      is_asked = false;
    } else if (is_asked) {
      sessions.back().answer.push_back(line);
    }
  }
  return sessions;
}

TEST(Readme, ShowsWhatIsPrinted) {
  const std::string kRest = "…";
  const auto is_shown = [&](const std::string& shown, const std::string& line) {
    const size_t begun = shown.rfind(kRest);
    return shown == line || (begun != shown.npos && begun + kRest.size() == shown.size() &&
                             line.compare(0, begun, shown, 0, begun) == 0);
  };
  const std::vector<Session> sessions = sessions_in(contents(kRoot + "/README.md"));
  EXPECT_EQ(sessions.size(), 6U);
  for (const auto& [question, answer] : sessions) {
    std::istringstream said(output_of(kRecapture + " " + question));
    std::vector<std::string> printed;
    for (std::string line; std::getline(said, line);) printed.push_back(line);
    auto next = printed.begin();
    bool after_some = false;
    for (const std::string& shown : answer) {
      if (shown == kRest) {
        after_some = true;
        continue;
      }
      const auto last = after_some || next == printed.end() ? printed.end() : next + 1;
      const auto found = std::find_if(next, last, [&](const std::string& line) { return is_shown(shown, line); });
      if (found == last) {
        ADD_FAILURE() << question << " does not print\n" << shown;
        after_some = true;
        break;
      }
      next = found + 1;
      after_some = false;
    }
    EXPECT_TRUE(after_some || next == printed.end()) << question << " goes on with\n"
                                                     << (next == printed.end() ? "" : *next);
  }
}

TEST(ReportsPage, IsWhatTheRecordsGive) {
  const bool same = contents(kRoot + "/reports/index.html") == output_of(kRecapture + " page --output -");
  EXPECT_TRUE(same) << "run `recapture page --output reports/index.html`";
}

// What CI runs follows from ci/matrix.toml.
TEST(Workflows, AreWhatTheProgramPrints) {
  for (const auto& [what, file] :
       {std::pair("github", "ci/github.yml"), {"gitlab", "ci/gitlab.yml"}, {"slurm", "ci/slurm.sh"}}) {
    const Said said = shell(kRecapture + " ci " + what);
    EXPECT_EQ(said.code, 0);
    EXPECT_TRUE(contents(kRoot + "/" + file) == said.out) << "run `recapture ci " << what << " > " << file << "`";
  }
}

// One list of packages: whoever adds a package, or a list of them, adds it to the container.
TEST(Container, HasAllThatTheListsOfPackagesNameAndNoListOfItsOwn) {
  const std::string lists = contents(kRoot + "/ci/packages"), recipe = contents(kRoot + "/ci/Containerfile");
  static const std::regex kList(R"((?:^|\n)([A-Z]+_PACKAGES)=\()"), kNeeds(R"(need_packages (.*) &&)");
  std::smatch needs;
  ASSERT_TRUE(std::regex_search(recipe, needs, kNeeds));
  std::string expected;
  for (std::sregex_iterator at(lists.begin(), lists.end(), kList), end; at != end; ++at) {
    expected += "\"${" + (*at)[1].str() + "[@]}\" ";
  }
  EXPECT_EQ(needs[1].str(), expected + "git");
  EXPECT_EQ(recipe.find("apt-get"), std::string::npos) << "packages are installed by ci/packages";
}

// Whoever clones it fetches all of it, and so does a machine that it is copied to.
TEST(Tree, StaysBelow16MiB) {
  const Said git = shell("git -C '" + kRoot + "' rev-parse --git-dir");
  if (git.code != 0) GTEST_SKIP() << "no git, or no clone: " << git.out;
  const Said files = shell("cd '" + kRoot + "' && git ls-files -z | xargs -0 stat --printf='%s %n\\n'");
  ASSERT_EQ(files.code, 0) << files.out;
  uintmax_t all = 0, size = 0;
  std::istringstream lines(files.out);
  for (std::string name; lines >> size && std::getline(lines, name);) all += size;
  EXPECT_GT(all, 1U << 20) << files.out;
  EXPECT_LT(all, 16U << 20);
}

// Floors from the top down: each may use those below it, and none above it.
TEST(Harness, UsesNothingAboveItself) {
  const std::vector<std::string> floors = {"case",  "recorder", "record", "judge",   "show",
                                           "check", "explain",  "blame",  "compare", "history",
                                           "night", "page",     "triage", "run",     "commands"};
  const auto floor_of = [&](const std::string& folder) {
    const bool is_beside_show =
        folder == "check" || folder == "explain" || folder == "blame" || folder == "compare" || folder == "history";
    if (is_beside_show) return 4L;
    return std::find(floors.begin(), floors.end(), folder) - floors.begin();
  };
  static const std::regex kInclude(R"re(#include "harness/(\w+)/)re");
  size_t files = 0;
  for (const std::string& folder : floors) {
    for (const auto& entry : fs::directory_iterator(kRoot + "/harness/" + folder)) {
      if (!entry.is_regular_file()) continue;  // What a bundle brings stands on no floor.
      const std::string source = contents(entry.path());
      ++files;
      EXPECT_EQ(source.find("#include \"fixtures/"), std::string::npos) << entry.path();
      for (std::sregex_iterator at(source.begin(), source.end(), kInclude), end; at != end; ++at) {
        const std::string used = (*at)[1];
        const bool below = used == folder || floor_of(used) < floor_of(folder);
        EXPECT_TRUE(below) << entry.path() << " includes " << used << "/";
      }
    }
  }
  EXPECT_GE(files, 40U);
}

// DESIGN.md, "What can go wrong around a test": each line names the tests that hold it.
TEST(Promise, NamesTestsThatExist) {
  std::vector<std::string> tests;
  static const std::regex kTest(R"(TEST(?:_F)?\((\w+), *(\w+)\))"), kName(R"(`(\w+\.[\w…*]+)`)");
  for (const auto& entry : fs::directory_iterator(kRoot + "/harness/tests")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string source = contents(entry.path());
    for (std::sregex_iterator at(source.begin(), source.end(), kTest), end; at != end; ++at) {
      tests.push_back((*at)[1].str() + "." + (*at)[2].str());
    }
  }
  const std::string design = contents(kRoot + "/DESIGN.md");
  const size_t from = design.find("## What can go wrong around a test"), to = design.find("\n## ", from + 1);
  ASSERT_NE(to, std::string::npos);
  std::istringstream lines(design.substr(from, to - from));
  size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("| ", 0) != 0 || line.rfind("| what", 0) == 0 || line.rfind("| ---", 0) == 0) continue;
    ++rows;
    const std::string cell = line.substr(line.rfind(" | ", line.size() - 3));
    EXPECT_TRUE(cell.find('`') != std::string::npos) << "no test: " << line;
    for (std::sregex_iterator at(cell.begin(), cell.end(), kName), end; at != end; ++at) {
      const std::string pattern = std::regex_replace((*at)[1].str(), std::regex("…"), "*");
      const auto is_it = [&](const std::string& test) { return matches(pattern, test); };
      EXPECT_TRUE(std::any_of(tests.begin(), tests.end(), is_it)) << (*at)[1] << " in " << line;
    }
  }
  EXPECT_GE(rows, 60U);
}

}  // namespace
}  // namespace recapture

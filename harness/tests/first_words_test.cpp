// What people type first, rightly and wrongly: data/first_words.tsv, run over the committed tree as a user would.
#include <gmock/gmock.h>
#include <re2/re2.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "harness/base/text.h"
#include "harness/explain/causes.h"
#include "harness/model/catalogue.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Line {
  std::string code, command, words;
};
struct Section {
  std::string name;
  std::vector<Line> lines;
};

const std::vector<Section>& sections() {
  static const std::vector<Section> all = [] {
    std::vector<Section> found;
    std::ifstream file(kRoot + "/harness/tests/data/first_words.tsv");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("## ", 0) == 0) found.push_back({line.substr(3), {}});
      if (line.empty() || line.front() == '#') continue;
      const size_t command = line.find('\t') + 1, words = line.find('\t', command) + 1;
      found.back().lines.push_back(
          {line.substr(0, command - 1), line.substr(command, words - 1 - command), line.substr(words)});
    }
    return found;
  }();
  return all;
}

// The folder that the commands run in.
class Desk {
 public:
  Desk() {
    fs::create_directories(folder + "/full");
    const auto write = [&](const char* name, const std::string& text) { std::ofstream(folder + "/" + name) << text; };
    write("train.py", "def step(x):\n  return x\n");
    write("steps.py", "import sys\nprint(sys.argv[1:])\n");
    write("error.txt",
          "Traceback (most recent call last):\n  File \"train.py\", line 12, in <module>\n    value = loss.item()\n"
          "RuntimeError: CUDA error: operation not permitted when stream is capturing\n");
    write("empty.txt", "");
    write("picture.png", "\x89PNG\r\n");
    write("broken.toml", "scope = [\n");
    write("full/notes", "mine\n");
    write("bare", "#!/bin/sh\nexec python3 -S \"$@\"\n");  // No site-packages, and so no PyTorch.
    write("folder",
          "#!/bin/sh\nPYTHONPATH=$(dirname \"$0\")/spaces exec python3 -S \"$@\"\n");  // Finds a folder torch/ alone.
    fs::create_directories(folder + "/spaces/torch");
    for (const char* python : {"bare", "folder"}) fs::permissions(folder + "/" + python, fs::perms::owner_all);
  }
  ~Desk() { fs::remove_all(folder); }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  ShellResult type(const std::string& command) const {
    return shell("cd '" + folder + "' && TREE='" + kRoot + "' && recapture() { " + kRecapture + " \"$@\"; } && " +
                 command);
  }

  const std::string folder = ::testing::TempDir() + "recapture-desk-" + std::to_string(getpid());
};

class FirstWords : public ::testing::TestWithParam<Section> {};

TEST_P(FirstWords, GetTheirAnswerAndExitCode) {
  const Desk desk;
  const bool has_gpu = fs::exists("/dev/nvidiactl");
  for (const auto& [code, command, words] : GetParam().lines) {
    if (has_gpu && code.ends_with("host")) continue;
    const ShellResult said = desk.type(command);
    const int expected = std::atoi(code.c_str());
    EXPECT_EQ(said.code, expected) << command << "\n" << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << command;
    if (expected == 0 || code.find('+') != code.npos) continue;
    EXPECT_EQ(std::ranges::count(said.out, '\n'), 1) << command << "\n" << said.out;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, FirstWords, ::testing::ValuesIn(sections()), [](const auto& info) {
  std::string name = info.param.name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

// Of a verb's help: the number of its examples, and its paragraph of exit codes.
struct Help {
  std::ptrdiff_t examples = 0;
  std::string codes;
};

Help help_of(const std::string& verb) {
  const std::string text = shell(kRecapture + " " + verb + " --help").out;
  const size_t examples = text.find("\nExamples:\n"), codes = text.find("Exit codes: ");
  if (examples == text.npos || codes == text.npos) return {};
  const std::string shown = text.substr(examples, text.find("\n\n", examples) - examples);
  return {std::ranges::count(shown, '\n') - 1, text.substr(codes)};
}

std::vector<std::string> all_verbs() {
  std::vector<std::string> verbs;
  for (const std::string group : {"", "nightly ", "dev "}) {
    std::istringstream lines(shell(kRecapture + " " + group + "--help").out);
    bool is_listed = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("Verbs", 0) == 0) is_listed = true;
      if (!line.empty() && line.front() != ' ' && line.rfind("Verbs", 0) != 0) is_listed = false;
      if (!is_listed || line.rfind("  ", 0) != 0) continue;
      const std::string name = line.substr(2, line.find(' ', 2) - 2);
      if (!name.empty() && name != "nightly" && name != "dev") verbs.push_back(group + name);
    }
  }
  return verbs;
}

const std::vector<std::string>& all_verbs_once() {
  static const std::vector<std::string> verbs = all_verbs();
  return verbs;
}

TEST(VerbHelp, HasTwoExamplesAndExitCodesOfItsOwn) {
  const std::vector<std::string>& verbs = all_verbs_once();
  EXPECT_GE(verbs.size(), 26U);
  std::map<std::string, std::string> verb_with;
  for (const std::string& verb : verbs) {
    const Help help = help_of(verb);
    EXPECT_EQ(help.examples, 2) << verb;
    EXPECT_NE(help.codes, "") << verb;
    const auto [known, is_new] = verb_with.emplace(help.codes, verb);
    EXPECT_TRUE(is_new) << verb << " and " << known->second << " have the same exit codes";
  }
}

// A code that a first word gets is one that the verb's help names.
TEST(VerbHelp, NamesTheExitCodesThatOccur) {
  std::map<std::string, std::string> codes_of;
  size_t checked = 0;
  for (const Section& section : sections()) {
    for (const auto& [code, command, words] : section.lines) {
      std::istringstream in(command.substr(std::min(command.find("recapture "), command.size())));
      std::string program, verb, below;
      in >> program >> verb >> below;
      if (verb == "nightly" || verb == "dev") verb += " " + below;
      const std::vector<std::string>& verbs = all_verbs_once();
      if (std::ranges::find(verbs, verb) == verbs.end()) continue;
      if (!codes_of.contains(verb)) codes_of[verb] = help_of(verb).codes;
      if (codes_of[verb].rfind("Exit codes: those of ", 0) == 0) continue;  // The program's, or run's.
      const std::string number = std::to_string(std::atoi(code.c_str()));
      EXPECT_TRUE(RE2::PartialMatch(codes_of[verb], "[ \n]" + number + " ")) << command << " ends with " << number;
      ++checked;
    }
  }
  EXPECT_GT(checked, 100U);
}

// At least three a verb that users type.
TEST(FirstWordsTable, HasThreeOfEachVerb) {
  std::map<std::string, size_t> count;
  size_t all = 0;
  for (const Section& section : sections()) {
    for (const Line& line : section.lines) {
      ++all;
      for (const std::string& verb : all_verbs_once()) {
        if ((line.command + " ").find("recapture " + verb + " ") != line.command.npos) ++count[verb];
      }
    }
  }
  EXPECT_GE(all, 200U);
  for (const std::string& verb : all_verbs_once()) EXPECT_GE(count[verb], 3U) << verb;
}

// Of any two releases.
TEST(CompareSummary, HasAtMostFortyLines) {
  for (const std::string from : {"2.1", "2.6", "2.9", "2.14", "2.15"}) {
    for (const std::string to : {"2.2", "2.7", "2.11", "2.13"}) {
      const ShellResult said = shell(kRecapture + " compare " + from + " " + to);
      const std::string title = said.out.substr(0, said.out.find('\n'));
      EXPECT_THAT(title, testing::ContainsRegex("^" + from + R"(\.[0-9]+ -> )" + to + R"(\.[0-9]+ on )")) << said.out;
      EXPECT_LE(std::ranges::count(said.out, '\n'), 40) << said.out;
      std::istringstream lines(said.out);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 114U) << line;
    }
  }
}

// The numbers are those of the whole text, and each command that is printed prints what was counted.
TEST(CompareSummary, EveryCountHasACommandThatPrintsIt) {
  const std::string summary = shell(kRecapture + " compare 2.6 2.11").out;
  const std::string all = shell(kRecapture + " compare 2.6 2.11 --all").out;
  size_t seen = 0;
  std::istringstream lines(summary);
  for (std::string line; std::getline(lines, line);) {
    std::string number, what, part;
    if (!RE2::FullMatch(line, R"(  (\d+) (.+?)  +recapture (compare 2\.6 2\.11 --only .+))", &number, &what, &part))
      continue;
    const std::string printed = shell(kRecapture + " " + part).out;
    const size_t title = printed.find('\n');
    EXPECT_THAT(all, HasSubstr(printed.substr(title + 1))) << "a part of the whole";
    if (what.find("test") != what.npos) {
      int tests = 0, one = 0;
      for (re2::StringPiece rest(printed); RE2::FindAndConsume(&rest, R"((?m)^  (\d+): )", &one);) tests += one;
      EXPECT_EQ(std::to_string(tests), number) << line;
    } else {
      int changes = 0;
      for (re2::StringPiece rest(printed); RE2::FindAndConsume(&rest, R"(\n\n  \w)");) ++changes;
      EXPECT_EQ(std::to_string(changes), number) << line;
    }
    ++seen;
  }
  EXPECT_GE(seen, 6U);
}

// The summary of each case in the tree.
TEST(ShowCase, Summary_HasAtMostTwentyFiveLines) {
  const ShellResult said = shell(kRecapture + " show '*_*'");
  const std::string rule = "\n" + std::string(80, '-') + "\n\n";
  size_t cases = 0, with_code = 0;
  for (size_t at = 0; at < said.out.size();) {
    const size_t end = std::min(said.out.find(rule, at), said.out.size());
    const std::string one = said.out.substr(at, end - at), name = one.substr(0, one.find('\n'));
    EXPECT_LE(std::ranges::count(one, '\n'), 25) << one;
    EXPECT_THAT(one, HasSubstr("\nthe error ")) << name;
    EXPECT_THAT(one, HasSubstr("\nmore ")) << name;
    std::istringstream lines(one);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 114U) << line;
    with_code += one.find("\n      ") != one.npos ? 1 : 0;
    ++cases;
    at = end + rule.size();
  }
  EXPECT_GT(cases, 250U);
  EXPECT_GT(with_code, cases * 8 / 10) << "most fixes show their code";
}

// `blame` and `explain` print these names in parentheses.
TEST(ShowCase, EachCauseWithoutACase_IsShown) {
  std::vector<std::string> names;
  for (const explain::Cause& cause : explain::read_causes(kRoot, read_catalogue(kRoot))) {
    if (!cause.has_case) names.push_back(cause.id);
  }
  ASSERT_GE(names.size(), 30U);
  const ShellResult said = shell(kRecapture + " show " + join(names, " "));
  EXPECT_EQ(said.code, 0) << said.out;
  for (const std::string& name : names) EXPECT_THAT("\n" + said.out, HasSubstr("\n" + name + ": "));
}

TEST(Doctor, Answer_HasAtMostFifteenLines) {
  const std::string said = shell(kRecapture + " doctor").out;
  std::istringstream lines(said);
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.empty() ? 0 : 1;
  EXPECT_LE(count, 15U) << said;
  EXPECT_GE(count, 12U) << said;
}

// The part of docs/reference/cli.md about each verb, which another test compares with the program.
std::vector<std::pair<std::string, std::string>> verbs_of_users() {
  const std::string cli = contents(kRoot + "/docs/reference/cli.md");
  std::vector<std::pair<std::string, std::string>> verbs;
  const size_t begin = cli.find("\n## Verbs\n"), last = cli.find("\n## ", begin + 4);
  for (size_t at = cli.find("\n### ", begin); at < last;) {
    const size_t name = at + 5, end = std::min(cli.find("\n### ", name), last);
    verbs.emplace_back(cli.substr(name, cli.find('\n', name) - name), cli.substr(at, end - at));
    at = end;
  }
  return verbs;
}

TEST(Help, EachVerb_HasTwoExamplesOfItsOwnOptions) {
  for (const auto& [verb, text] : verbs_of_users()) {
    if (verb == "help") continue;
    size_t examples = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("* `", 0) != 0) continue;
      ++examples;
      EXPECT_THAT(line, HasSubstr("recapture " + verb));
      std::istringstream words(line.substr(2, line.find("`:") - 2));
      for (std::string word; words >> word && word != "--";) {
        if (word.rfind("--", 0) == 0) {
          EXPECT_THAT(text, HasSubstr("`" + word)) << line;
        }
      }
    }
    EXPECT_GE(examples, 2U) << verb;
    EXPECT_THAT(text, HasSubstr("Exit codes: ")) << verb;
  }
}

TEST(FirstWordsTable, HasThreeInputsOfEachVerb) {
  size_t verbs = 0;
  for (const auto& [name, text] : verbs_of_users()) {
    ++verbs;
    const std::string verb = "recapture " + name;
    size_t count = 0;
    for (const Section& section : sections()) {
      for (const Line& each : section.lines) count += each.command.find(verb) != std::string::npos ? 1 : 0;
    }
    EXPECT_GE(count, 3U) << verb;
  }
  EXPECT_GE(verbs, 14U);
}

}  // namespace
}  // namespace recapture

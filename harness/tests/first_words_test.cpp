// What people type first, rightly and wrongly: data/first_words.tsv, run over the committed tree as a user would.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harness/base/text.h"
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
    fs::permissions(folder + "/bare", fs::perms::owner_all);
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

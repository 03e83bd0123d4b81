// The exact text that each verb prints, for four committed records and one run of fakes. After an intended change,
// RECAPTURE_RENEW=1 rewrites the files, and git shows the differences:
//   RECAPTURE_RENEW=1 build/harness/tests/harness_test --gtest_filter='*Golden*'
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness/tests/fake_tree.h"
#include "harness/tests/small_tree.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void expect_golden(const std::string& name, const ShellResult& said) {
  const std::string path = fmt::format("{}/harness/tests/golden/{}.txt", kRoot, name);
  const std::string text = fmt::format("{}exit status {}\n", said.out, said.code);
  if (std::getenv("RECAPTURE_RENEW") != nullptr) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, contents(path))
      << "after an intended change: RECAPTURE_RENEW=1 build/harness/tests/harness_test --gtest_filter='*Golden*'";
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

struct Command {
  const char *name, *arguments;
};

class Golden : public ::testing::TestWithParam<Command> {};

// The verbs that read records.
TEST_P(Golden, Text_IsThatOfItsFile) {
  // With a matrix of its own: a new release changes no text.
  static const SmallTree tree({"2.6.0/nvidia-h200.jsonl.gz", "2.6.0/host.jsonl.gz", "2.6.0/host.trigger.jsonl.gz",
                               "2.9.1/nvidia-h200.jsonl.gz"},
                              {"2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0"});
  const std::string arguments = replaced(GetParam().arguments, "REPORTS", tree.reports);
  ShellResult said = tree.recapture(replaced(arguments, "GOLDEN", kRoot + "/harness/tests/golden"));
  said.out = replaced(said.out, tree.folder, "TREE");
  expect_golden(GetParam().name, said);
}

INSTANTIATE_TEST_SUITE_P(Verbs, Golden,
                         ::testing::Values(Command{"list", "list --tests item_in_capture"},
                                           Command{"show_case", "show item_in_capture"},
                                           Command{"show_case_all", "show item_in_capture --all"},
                                           Command{"show_folder", "show REPORTS/2.6.0"},
                                           Command{"show_record", "show REPORTS/2.6.0/host.trigger.jsonl.gz"},
                                           Command{"explain", "explain --release 2.9.1 GOLDEN/error.log"},
                                           Command{"compare", "compare 2.6 2.9"},
                                           Command{"compare_markdown", "compare 2.6 2.9 --markdown"},
                                           Command{"gate", "gate 2.6.0 2.9.1 --policy GOLDEN/policy.toml"},
                                           Command{"bisect", "bisect item_in_capture.Reproduces"},
                                           Command{"history", "history item_in_capture"}),
                         [](const auto& info) { return info.param.name; });

class GoldenRun : public FakeTree {};

TEST_F(GoldenRun, Text_IsThatOfItsFile) {
  ShellResult said = recapture("run --jobs 1 --revision abc --record " + record());
  said.out = replaced(said.out, folder, "TREE");
  RE2::GlobalReplace(&said.out, R"(\d+\.\d s)", "0.0 s");
  RE2::GlobalReplace(&said.out, "note: tests do not have [^\n]*\n", "");  // Depends on the user's variables.
  expect_golden("run", said);
}

// What a command prints on a terminal, which ends lines with \r\n.
ShellResult on_terminal(const std::string& folder, const std::string& command) {
  std::ofstream(folder + "/typed") << command << "\n";
  return shell("script -qec 'sh " + folder + "/typed' /dev/null");
}

class Terminal : public FakeTree {};

TEST_F(Terminal, Run_CountsInOneLineAndNamesItsRecordAtTheEnd) {
  const ShellResult said = on_terminal(folder, command("run --jobs 1 --revision abc --record " + record()));
  EXPECT_THAT(said.out, ContainsRegex("\r\x1b\\[K0 of [0-9]+ done, 0:0[0-9], .*running "));
  EXPECT_THAT(said.out, EndsWith("record: " + record() + "\r\n"));
  EXPECT_THAT(recapture("run --jobs 1 --record " + folder + "/2.jsonl").out, Not(HasSubstr(" done, ")))
      << "elsewhere there is a line for each test";
}

TEST(LongWork, OnATerminal_ShowsProgressAndItsResult) {
  static const SmallTree tree({"2.6.0/host.jsonl.gz", "2.9.1/nvidia-h200.jsonl.gz", "2.6.0/nvidia-h200.jsonl.gz"});
  const std::string page = tree.folder + "/page.html";
  const ShellResult said = on_terminal(tree.folder, tree.command("page --output " + page));
  EXPECT_THAT(said.out, HasSubstr("\r\x1b[Kpage: reading the records\r\x1b[K"));
  EXPECT_THAT(said.out, ContainsRegex("\r\x1b\\[Kpage: comparing releases, 0 of [1-9][0-9]* pairs\r\x1b\\[K"));
  EXPECT_THAT(said.out, EndsWith("\r\x1b[Kwrote " + page + "\r\n"));
  EXPECT_EQ(tree.recapture("page --output " + page).out, "wrote " + page + "\n");
  EXPECT_THAT(on_terminal(tree.folder, tree.command("operators F.one_hot")).out,
              StartsWith("\r\x1b[Koperators: reading the records\r\x1b[K"));
}

class GoldenNight : public FakeTree {};

TEST_F(GoldenNight, Text_IsThatOfItsFile) {
  const std::string plan = folder + "/plan.json";
  std::ofstream(plan) << R"([{"release": "2.6.0", "gpu": "h200", "shard": "1/1"}])";
  int night = 0;
  for (const char* record : {"2.6.0/nvidia-h200.jsonl.gz", "2.6.0/nvidia-h200.run-2.jsonl.gz"}) {
    const std::string machine = fmt::format("{}/machine-{}/2.6.0", folder, ++night);
    fs::create_directories(machine);
    write_file(machine + "/" + fs::path(record).filename().string(),
               packed_by_gzip(record_text(fmt::format("{}/reports/{}", kRoot, record))));
    ShellResult said =
        recapture(fmt::format("nightly collect --plan {0} {1}/nights/{2} {1}/machine-{2}", plan, folder, night));
    said.out = replaced(said.out, folder, "TREE");
    expect_golden(fmt::format("nightly_collect_{}", night), said);
  }
  expect_golden("nightly_diff", recapture("nightly diff --first " + folder + "/nights"));
}

}  // namespace
}  // namespace recapture

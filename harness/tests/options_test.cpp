// The command line, and files other than records that the program reads and writes: an error gets one line and its exit
// code, before hours of running.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "harness/base/exit.h"
#include "harness/tests/fake_tree.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Options = FakeTree;

TEST_F(Options, BadArguments_GetOneLineAndTheirExitCode) {
  EXPECT_EQ(recapture("run twofold.ControlHolds --record " + record()).code, 0);
  mkfifo((folder + "/fifo").c_str(), 0600);
  std::ofstream(folder + "/plain.jsonl") << R"({"recapture":2,"release":"2.15.0"})" << '\n';
  const std::string r = record(), fifo = folder + "/fifo", test = " twofold.ControlHolds";
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"run --shard 1/2x", 2, "--shard takes i/n"},
      {"run --shard 1/2/3", 2, "--shard takes i/n"},
      {"run --shard +1/2", 2, "--shard takes i/n"},
      {"run --shard 4294967297/4294967297", 2, "--shard takes i/n"},
      {"run --shard ''", 2, "--shard is empty"},
      {"run --shard=", 2, "--shard= has no value"},
      {"run --resume ''", 2, "--resume is empty"},
      {"run --record= twofold", 2, "--record= has no value"},
      {"show ''", 2, "is empty"},
      {"run --exec=7", 2, "exec"},
      {"run --continue=false --record " + r, 2, "continue"},
      {"run --record a --resume " + r, 2, "--record and --resume cannot be combined"},
      {"run --continue --resume " + r, 2, "--continue and --resume cannot be combined"},
      {"run --continue" + test, 2, "--continue needs --record FILE"},
      {"run --resume " + folder + "/plain.jsonl", 2, "has no plan, so what is left to run is unknown"},
      {"run --require tpu" + test, 2, "--require takes gpu or recorder, not 'tpu'"},
      {"run --env NAME" + test, 2, "--env takes NAME=VALUE, not 'NAME'"},
      {"list --release 2.15.0", 2, "--release goes with --built"},
      {"show", 4, "no records below reports/"},
      {"show " + folder + "/ci", 4, "no records below "},
      {"show " + folder + " " + folder, 2, "show takes one folder"},
      {"show --junit " + folder + "/x.xml " + r + " " + r, 2, "--junit takes one record"},
      {"run --break trigger" + test, 4, "--break trigger concerns none of these tests"},
      {"show --gpu H", 2, "--gpu goes with cases, or with --left"},
      {"show --left --markdown", 2, "--left goes with --gpu, --gpus, --records and --json alone"},
      {"show --gpus 2", 2, "--gpus goes with --left"},
      {"show --left --gpus 1", 2, "--gpus takes a number from 2 on"},
      {"run --left --break trigger" + test, 2, "--left and --break cannot be combined"},
      {"dev place " + folder + "/plain.jsonl", 2, "plain.jsonl: no test has run"},
      {"show --markdown --json " + r, 2, "--json, --markdown and --junit cannot be combined"},
      {"show --markdown --junit x.xml " + r, 2, "cannot be combined"},
      {"show --json --junit x.xml " + r, 2, "cannot be combined"},
      {"show --junit " + r + " " + r, 2, "is not XML"},
      {"run --junit " + r + " --record " + r + "2" + test, 2, "is not XML"},
      {"run --junit " + r + "2 --record " + r + "2" + test, 2, "is the record"},
      {"run --junit /proc/x.xml" + test, 7, "/proc/x.xml: cannot write it"},
      {"run --junit " + folder + test, 2, "is a folder"},
      {"run --junit " + folder + "/none/x.xml" + test, 7, "cannot write it"},
      {"show " + fifo, 2, "is not a regular file"},
      {"show /dev/zero", 2, "is not a regular file"},
      {"run --resume " + fifo, 2, "is not a regular file"},
      {"run --record " + fifo + test, 2, "is not a regular file"},
      {"run --continue --record " + fifo + test, 2, "is not a regular file"},
      {"run --record " + folder + test, 2, "is a folder"},
      {"run --resume " + folder, 2, "Is a directory"},
      {"dev merge " + r + " " + r, 2, "exists already"},
      {"dev merge " + folder + "/m " + folder, 2, "Is a directory"},
      {"run --record /" + std::string(5000, 'x') + test, 7, "File name too long"},
  };
  const std::string before = text_of(r);
  for (const auto& [arguments, code, words] : table) {
    const ShellResult said = recapture(arguments);
    EXPECT_EQ(said.code, code) << arguments << "\n" << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << arguments;
    EXPECT_TRUE(said.is_one_line()) << arguments << "\n" << said.out;
  }
  EXPECT_EQ(text_of(r), before);
  EXPECT_FALSE(fs::exists(r + "2")) << "nothing was run";
}

TEST_F(Options, JUnitFile_IsWrittenAndOverwritten) {
  const std::string xml = folder + "/j.xml";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(recapture("run twofold.ControlHolds --junit " + xml).code, 0);
    EXPECT_THAT(text_of(xml), HasSubstr("<testsuite "));
  }
}

TEST_F(Options, ExitCodes_AreTheSameInHelpAndReference) {
  const std::string readme = text_of(RECAPTURE_ROOT "/docs/reference/exit-codes.md"), help = recapture("--help").out;
  std::string table = "| code | meaning |\n| --- | --- |\n", list = "Exit codes:\n";
  for (const ExitMeaning& row : kExitMeanings) {
    table += fmt::format("| {} | {} |\n", static_cast<int>(row.code), row.meaning);
    list += fmt::format("  {:<4} {}\n", static_cast<int>(row.code), row.meaning);
  }
  EXPECT_THAT(readme, HasSubstr(table + "\n"));
  EXPECT_THAT(help, HasSubstr(list));
}

TEST_F(Options, ClosedPipe_EndsNeitherRunNorShow) {
  const std::string tests = " twofold.ReproducesHealthy twofold.ControlHolds";
  const ShellResult cut =
      shell("{ " + command("run --record " + record() + tests) + "; echo $? >'" + folder + "/code'; } | true");
  EXPECT_EQ(cut.out, "");
  EXPECT_EQ(text_of(folder + "/code"), "5\n");
  EXPECT_EQ(read_record(record()).end, "complete");
  const ShellResult shown = shell("{ " + command("show " + record()) + "; echo $? >'" + folder + "/code'; } | true");
  EXPECT_EQ(shown.out, "");
  EXPECT_EQ(text_of(folder + "/code"), "5\n") << "files that are not read are still found";
}

TEST_F(Options, ClosedOutputs_LeaveTheRecordIntact) {
  const std::vector<std::string> closings = {">&-", "2>&-", "<&-", "<&- >&- 2>&-"};
  for (const std::string& closed : closings) {
    fs::remove(record());
    const ShellResult said = shell(command("run twofold.ControlHolds --record " + record()) + " " + closed);
    EXPECT_EQ(said.code, 0) << closed;
    EXPECT_EQ(verdicts(record()).size(), 2U) << closed;
    EXPECT_EQ(shell(command("run nobody") + " " + closed).code, 2) << closed;
  }
  fs::remove(record());
  const ShellResult full = shell(command("run twofold.ControlHolds --record " + record()) + " >/dev/full");
  EXPECT_EQ(full.code, 7);
  EXPECT_EQ(full.out, "recapture: standard output: No space left on device\n");
  EXPECT_EQ(read_record(record()).end, "complete");
}

TEST_F(Options, DamagedCache_IsRebuilt) {
  const std::string cache = folder + "/build/2.15.0/catalog.json";
  for (const std::string text : {"[", "7", "{\"twofold\":3}", R"({"twofold":{"binary":7}})",
                                 R"({"twofold":{"binary":"1-0","description":[]}})"}) {
    std::ofstream(cache) << text;
    const ShellResult said = recapture("run twofold.ControlHolds");
    EXPECT_EQ(said.code, 0) << text << "\n" << said.out;
    EXPECT_THAT(text_of(cache), HasSubstr("A case is of two minds"));
  }
  fs::remove(cache);
  mkfifo(cache.c_str(), 0600);
  EXPECT_EQ(recapture("run twofold.ControlHolds").code, 0);
}

TEST_F(Options, UnreadableRecord_DoesNotHideTheOthers) {
  const std::string reports = folder + "/reports/2.15.0";
  EXPECT_EQ(recapture("run twofold.ControlHolds --record " + reports + "/host.jsonl").code, 0);
  std::ofstream(reports + "/other.jsonl") << "no record\n";
  std::ofstream(reports + "/third.jsonl") << "nor this\n";
  for (const std::string& what : {std::string("show"), "show " + reports + "/host.jsonl",
                                  "show " + reports + "/host.jsonl " + reports + "/other.jsonl"}) {
    const ShellResult said = recapture(what);
    EXPECT_EQ(said.code, 2) << what;
    EXPECT_THAT(said.out, HasSubstr("1 as documented")) << what;
    EXPECT_THAT(said.out, HasSubstr(".jsonl:1: not a line of a record")) << what;
  }
  const ShellResult all = recapture("show");
  for (const char* which : {"other.jsonl:1: ", "third.jsonl:1: "}) EXPECT_THAT(all.out, HasSubstr(which));
}

TEST_F(Options, DeletedWorkingFolder_GetsOneLine) {
  const ShellResult said = shell("mkdir '" + folder + "/gone' && cd '" + folder + "/gone' && rmdir ../gone && " +
                                 command("run twofold.ControlHolds --record r.jsonl"));
  EXPECT_EQ(said.code, 7);
  EXPECT_TRUE(said.is_one_line()) << said.out;
}

TEST_F(Options, DuplicateCaseOrTest_IsRefused) {
  fs::create_directories(cases + "/../other");
  fs::copy(cases + "/twofold", cases + "/../other/twofold");
  const ShellResult families = recapture("run");
  EXPECT_EQ(families.code, 2);
  EXPECT_THAT(families.out, HasSubstr("two cases have one name: "));
  fs::remove_all(cases + "/../other");
  fs::rename(cases + "/twofold", cases + "/twofold.real");
  std::ofstream(cases + "/twofold") << "#!/bin/sh\n\"$0.real\" \"$@\" | sed s/ReproducesHealthy/FixHolds/\n";
  fs::permissions(cases + "/twofold", fs::perms::owner_all);
  const ShellResult tests = recapture("run");
  EXPECT_EQ(tests.code, 2);
  EXPECT_THAT(tests.out, HasSubstr("twofold cannot describe itself: two of its tests are named FixHolds"));
}

// They would stand in the record and on the terminal as they are.
TEST_F(Options, NameOfACaseOrTestThatIsNotPlain_IsRefused) {
  fs::rename(cases + "/twofold", cases + "/twofold.real");
  for (const char* name :
       {R"(Fix\\u001b[31m)", R"(Fix\\r)", R"(Fix\\u202e)", R"(Fix\x1b)", R"(Fix\xff)", "Fix Holds"}) {
    std::ofstream(cases + "/twofold") << "#!/bin/sh\n\"$0.real\" \"$@\" | sed 's|FixHolds|" << name << "|'\n";
    fs::permissions(cases + "/twofold", fs::perms::owner_all);
    for (const char* verb : {"run", "list --built"}) {
      const ShellResult said = recapture(verb);
      EXPECT_NE(said.code, 0) << name;
      EXPECT_TRUE(said.is_one_line()) << said.out;
      EXPECT_THAT(said.out, AllOf(HasSubstr("twofold cannot describe itself: "), Not(HasSubstr("\x1b")),
                                  Not(HasSubstr("\r")), Not(HasSubstr("\xff")), Not(HasSubstr("json."))));
    }
  }
  fs::remove(cases + "/twofold");
  for (const char* name : {"two\x1b[31m", "two\r", "two\xff", "two fold"}) {
    fs::copy(cases + "/twofold.real", cases + "/" + name);
    const ShellResult said = recapture("run");
    EXPECT_EQ(said.code, 2) << said.out;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, AllOf(HasSubstr(": a case's name has letters, digits and '_'"), Not(HasSubstr("\x1b")),
                                Not(HasSubstr("\r")), Not(HasSubstr("\xff"))));
    fs::remove(cases + "/" + name);
  }
}

TEST_F(Options, CaseWithoutAnEnvironment_EndsTheRun) {
  fs::rename(cases + "/twofold", cases + "/twofold.real");
  std::ofstream(cases + "/twofold")
      << "#!/bin/sh\nif [ \"$1\" = --environment ]; then echo no library >&2; exit 3; fi\n"
      << "exec \"$0.real\" \"$@\"\n";
  fs::permissions(cases + "/twofold", fs::perms::owner_all);
  const ShellResult said = recapture("run twofold.ControlHolds --record " + record());
  EXPECT_EQ(said.code, 7);
  EXPECT_THAT(said.out, HasSubstr("twofold cannot report its environment: no library"));
  EXPECT_FALSE(fs::exists(record()));
}

TEST_F(Options, NoCasesVerbOrMemory_GetsALineAndACode) {
  fs::remove_all(fs::path(cases).parent_path());
  const ShellResult said = recapture("run --record " + record());
  EXPECT_EQ(said.code, 7);
  EXPECT_THAT(said.out, HasSubstr("no cases are built; in a clone `ci/suite` installs LibTorch and builds them"));
  const ShellResult none = shell(RECAPTURE_BUILD "/recapture");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.out, recapture("--help").out);
#ifndef __SANITIZE_ADDRESS__  // It reserves terabytes of addresses at start.
  for (const char* limit_kb : {"25000", "30000", "40000", "50000", "60000"}) {  // Each runs out in another place.
    const ShellResult cramped = shell("ulimit -v " + std::string(limit_kb) +
                                      "; exec " RECAPTURE_BUILD "/recapture --root " RECAPTURE_ROOT " show");
    EXPECT_EQ(cramped.code, 7) << limit_kb << cramped.out;
    EXPECT_THAT(cramped.out, HasSubstr("out of memory")) << limit_kb;
  }
#endif
}

TEST_F(Options, Typo_IsAnsweredWithTheNearest) {
  const std::pair<const char*, const char*> table[] = {
      {"hsitory x", "there is no verb 'hsitory'; did you mean history?"},
      {"nightly dif", "there is no verb 'nightly dif'; did you mean nightly diff?"},
      {"diff nights", "there is no verb 'diff'; did you mean nightly diff?"},
      {"tables", "there is no verb 'tables'; did you mean dev tables?"},
      {"help dev tabels", "there is no verb 'dev tabels'; did you mean dev tables?"},
      {"help show all", "there is no verb 'show all'; see --help"},
      {"dev nothing",
       "there is no verb 'dev nothing'; `recapture dev` takes merge, pack, place, tables, catalogue, test, propose, "
       "complete or gates"},
      {"run --relase 2.6", "there is no option '--relase'; did you mean --release?"},
      {"history --sicne=2026-01-01", "there is no option '--sicne'; did you mean --since?"},
      {"nightly diff x --markdwon", "there is no option '--markdwon'; did you mean --markdown?"},
      {"--rot /nowhere show", "there is no option '--rot'; did you mean --root?"},
      {"--vresion", "there is no option '--vresion'; did you mean --version?"},
      {"show --driver", "there is no option '--driver'; `recapture show --help` lists them"},
      {"nightly", "`recapture nightly` takes a verb: plan, collect or diff"},
      {"dev", "`recapture dev` takes a verb: merge, pack, place, tables, catalogue, test, propose, complete or gates"},
  };
  for (const auto& [arguments, line] : table) {
    const ShellResult said = recapture(arguments);
    EXPECT_EQ(said.code, 2) << arguments;
    EXPECT_EQ(said.out, std::string("recapture: ") + line + "\n") << arguments;
  }
}

TEST_F(Options, Help_ListsTheVerbsOfUsersFirst) {
  const std::string help = recapture("--help").out;
  size_t at = 0;
  for (const char* next : {"\nVerbs:\n", "\n  list ", "\n  triage ", "\nVerbs for maintainers:\n", "\n  baseline ",
                           "\n  nightly ", "\n  dev "}) {
    const size_t found = help.find(next, at);
    ASSERT_NE(found, std::string::npos) << next << " in\n" << help;
    at = found;
  }
  EXPECT_EQ(recapture("help").out, help);
  EXPECT_THAT(recapture("help nightly").out, HasSubstr("\n  collect "));
  EXPECT_THAT(recapture("help nightly diff").out, HasSubstr("Usage: recapture nightly diff [OPTIONS] nights\n"));
  EXPECT_EQ(recapture("help nightly diff").out, recapture("nightly diff --help").out);
}

TEST_F(Options, SimultaneousRuns_WriteSeparateRecords) {
  const std::string run = command("run twofold.ControlHolds --jobs 1 >/dev/null || echo lost");
  const ShellResult said = shell(run + " & " + run + " & " + run + " & wait");
  EXPECT_EQ(said.out, "");
  EXPECT_EQ(records_below(folder + "/build/records").size(), 3U);
}

}  // namespace
}  // namespace recapture

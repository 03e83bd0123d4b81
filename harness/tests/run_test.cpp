// The program as its user runs it, with a case that misbehaves in every way and a fake GPU.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "harness/base/file.h"
#include "harness/model/record_files.h"
#include "harness/model/tree.h"
#include "harness/run/estimate.h"
#include "harness/run/plan.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/verdict/judge.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A tree and a build folder: the real program with a fake canary, and the liar as the only case.
class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder + "/ci");
    fs::create_directories(folder + "/build/2.15.0/cases/lies");
    std::ofstream(folder + "/ci/matrix.toml") << "[[release]]\nversion = '2.6.0'\n[[release]]\nversion = '2.15.0'\n";
    fs::copy(RECAPTURE_BUILD "/recapture", folder + "/build/recapture");
    fs::copy(RECAPTURE_BUILD "/harness/tests/fake_canary", folder + "/build/canary");
    fs::copy(RECAPTURE_BUILD "/harness/tests/liar", folder + "/build/2.15.0/cases/lies/liar");
    canary({R"({"gpus":0,"canary":"none","reason":"no driver"})"});
  }
  void TearDown() override { fs::remove_all(folder); }

  void canary(const std::vector<std::string>& answers) {
    std::ofstream file(folder + "/build/canary.txt");
    for (const std::string& answer : answers) file << answer << '\n';
  }
  std::string command(const std::string& arguments) const { return "'" + folder + "/build/recapture' " + arguments; }
  ShellResult recapture(const std::string& arguments) const { return shell(command(arguments)); }
  std::string record() const { return folder + "/r.jsonl"; }
  // Runs tests of the liar and returns the row of the first one.
  TestVerdict row_of(const std::string& test, const std::string& more = "") {
    fs::remove(record());
    recapture("run --record " + record() + " liar." + test + " " + more);
    const auto rows = judge_record(read_record(record()), {});
    return rows.empty() ? TestVerdict{} : rows.front();
  }
  const std::string folder = ::testing::TempDir() + "recapture-run-" + std::to_string(getpid());
};

TEST_F(Program, EveryWayOfLying_HasItsOwnResult) {
  const std::vector<std::pair<std::string, Result>> truth = {
      {"ControlHolds", Result::Holds},
      {"ControlBreaks", Result::Broken},
      {"ReproducesAsDocumented", Result::Reproduced},
      {"ReproducesHealthy", Result::Healthy},
      {"ReproducesSomethingElse", Result::Different},
      {"ReproducesAmbiguously", Result::Invalid},
      {"ReproducesWithAnotherCall", Result::Different},
      {"ReproducesBesideABrokenAssertion", Result::Invalid},
      {"ReproducesAtARate", Result::Reproduced},
      {"ReproducesNever", Result::Unseen},
      {"ReproducesAndCrashes", Result::Crashed},
      {"ReproducesThenCrashesInAProbe", Result::Reproduced},
      {"ReproducesAndLeavesSilently", Result::Invalid},
      {"ReproducesWithoutAWord", Result::Invalid},
      {"ReproducesNothing", Result::Broken},
      {"FixFloodsItsOutput", Result::Holds},
      {"FixIsSkipped", Result::Unavailable},
      {"FixIsNotApplicable", Result::Inapplicable},
  };
  for (const char* how : {"", "--exec"}) {
    for (const auto& [test, result] : truth) {
      EXPECT_EQ(to_string(row_of(test, how).result), to_string(result)) << test << " " << how;
    }
  }
}

TEST_F(Program, HangingTest_IsKilledAtItsDeadline) {
  for (const char* how : {"", "--exec"}) EXPECT_EQ(row_of("ReproducesAndHangs", how).result, Result::Hung) << how;
}

TEST_F(Program, FloodOfOutput_IsBoundedInTheRecord) {
  EXPECT_EQ(row_of("FixFloodsItsOutput").result, Result::Holds);
  EXPECT_LT(fs::file_size(record()), 20000U);
}

TEST_F(Program, ChildrenOfATest_AreKilled) {
  for (const char* how : {"", "--exec"}) {
    EXPECT_EQ(row_of("FixLeavesChildrenBehind", how).result, Result::Holds);
    const Record seen = read_record(record());
    for (const char* key : {"child", "orphan"}) {
      const pid_t pid = std::stoi(seen.tests.at(0).object("facts").text(key));
      // A killed process may wait briefly for init to reap it; a zombie counts as dead.
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      std::string id, name, state = "gone";
      stat >> id >> name >> state;
      EXPECT_TRUE(kill(pid, 0) != 0 || state == "Z" || state == "gone") << key << " " << how << " " << state;
    }
  }
}

TEST_F(Program, ResultOfTheRun_DecidesTheExitCode) {
  EXPECT_EQ(recapture("run liar.ReproducesAsDocumented liar.ControlHolds --record " + folder + "/0").code, 0);
  EXPECT_EQ(recapture("run liar.ReproducesSomethingElse --record " + folder + "/1").code, 1);
  EXPECT_EQ(recapture("run liar.ControlBreaks --record " + folder + "/1b").code, 1);
  EXPECT_EQ(recapture("run liar.FixIsSkipped --record " + folder + "/4").code, 4);
  EXPECT_EQ(recapture("run liar.ReproducesHealthy --record " + folder + "/5").code, 5);
  EXPECT_EQ(recapture("run liar.ReproducesNever --record " + folder + "/6").code, 6);
}

TEST_F(Program, Surprise_IsConfirmedByPlainExec) {
  recapture("run liar.ReproducesHealthy --record " + record());
  const Record seen = read_record(record());
  EXPECT_EQ(seen.tests.at(0).text("how"), "fork");
  ASSERT_EQ(seen.confirmations.at("liar.ReproducesHealthy").size(), 2U);
  EXPECT_EQ(seen.confirmations.at("liar.ReproducesHealthy")[0].text("how"), "exec");
}

TEST_F(Program, BrokenOnPurpose_MustChangeTheResult) {
  const ShellResult off = recapture("run liar.ReproducesAsDocumented --break trigger --record " + folder + "/t");
  EXPECT_EQ(off.code, 0) << off.out;
  EXPECT_THAT(off.out, HasSubstr("healthy"));
  const ShellResult wrong = recapture("run liar.ReproducesAsDocumented --break value --record " + folder + "/v");
  EXPECT_EQ(wrong.code, 0) << wrong.out;
  EXPECT_THAT(wrong.out, HasSubstr("different"));
  EXPECT_EQ(recapture("run liar.ReproducesSomethingElse --break trigger --record " + folder + "/n").code, 1);
  EXPECT_EQ(recapture("run liar.FixByItsRemedy --record " + folder + "/f").code, 0);
  const ShellResult caught = recapture("run liar.FixByItsRemedy --break remedy --record " + folder + "/r");
  EXPECT_EQ(caught.code, 0) << caught.out;
  EXPECT_THAT(caught.out, HasSubstr("broken"));
  EXPECT_EQ(recapture("run liar.FixWithoutNeedOfItsRemedy --break remedy --record " + folder + "/u").code, 1);
  const ShellResult nothing = recapture("run liar.FixIsSkipped --break remedy --record " + folder + "/o");
  EXPECT_EQ(nothing.code, 4) << nothing.out;
}

TEST_F(Program, BadInput_GetsOneLineAndItsExitCode) {
  const auto one_line = [](const ShellResult& said) {
    return std::count(said.out.begin(), said.out.end(), '\n') == 1 && said.out.rfind("recapture: ", 0) == 0;
  };
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"run nobody", 2, "no family or case 'nobody'"},
      {"run --shard 3/2", 2, "--shard takes i/n"},
      {"run --release 9.9.9", 2, "9.9.9"},
      {"run --release 2.6.0", 7, "no cases are built for LibTorch 2.6.0"},
      {"run --require gpu", 7, "a GPU is required, but there is none: no driver"},
      {"run --require luck", 2, "--require takes gpu or recorder"},
      {"run --jobs 0", 2, "--jobs takes a number from 1 on"},
      {"run --jobs many", 2, "--jobs"},
      {"run --gpu 0,x", 2, "--gpu takes numbers such as 0 or 0,1, not '0,x'"},
      {"run --gpu ''", 2, "--gpu is empty"},
      {"run --shuffle well", 2, "--shuffle"},
      {"run --continue", 2, "--continue needs --record FILE"},
      {"run --continue --record a --resume b", 2, "cannot be combined"},
      {"run --libtorch /nowhere", 7, "has no torch/lib/libtorch_cpu.so"},
      {"run --record /proc/r.jsonl", 7, "cannot make this record"},
      {"run --break luck", 2, "--break"},
      {"run --require gpu liar.ControlHolds", 7, "a GPU is required"},
      {"show", 4, "no records below reports/"},
      {"show /nowhere", 2, "/nowhere: cannot read it"},
      {"explode", 2, "see --help"},
      {"list --root /nowhere", 2, "has no ci/matrix.toml"},
  };
  for (const auto& [arguments, code, words] : table) {
    const ShellResult said = recapture(arguments);
    EXPECT_EQ(said.code, code) << arguments << "\n" << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << arguments;
    EXPECT_TRUE(one_line(said)) << arguments << "\n" << said.out;
  }
}

TEST_F(Program, MissingLibrary_IsNamedAsInfrastructure) {
  const std::string binary = folder + "/build/2.15.0/cases/lies/broken";
  std::ofstream(binary)
      << "#!/bin/sh\necho 'broken: error while loading shared libraries: libtorch.so: no such file' >&2\nexit 127\n";
  fs::permissions(binary, fs::perms::owner_all);
  const ShellResult said = recapture("run");
  EXPECT_EQ(said.code, 7);
  EXPECT_THAT(said.out, HasSubstr("libtorch.so"));
  EXPECT_THAT(said.out, HasSubstr("`tools/libtorch` installs it"));
}

// In a forked child, a lock held by another thread stays held forever.
TEST_F(Program, Cases_AreAskedByAProcessWithOneThread) {
  for (const char* name : {"first", "second", "third"}) {
    const std::string binary = folder + "/build/2.15.0/cases/lies/" + name;
    std::ofstream(binary) << "#!/bin/sh\nrunner=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status)\n"
                          << "ls /proc/$runner/task | wc -l >'" << folder << "/" << name << "'\nexit 1\n";
    fs::permissions(binary, fs::perms::owner_all);
  }
  EXPECT_EQ(recapture("run").code, 7);
  for (const char* name : {"first", "second", "third"}) {
    std::string threads;
    std::ifstream(folder + "/" + name) >> threads;
    EXPECT_EQ(threads, "1") << name;
  }
}

TEST_F(Program, CtrlC_AsksNoFurtherCase) {
  const std::string begun = folder + "/begun", asked = folder + "/asked", for_ever = folder + "/for_ever";
  mkfifo(begun.c_str(), 0600);
  mkfifo(for_ever.c_str(), 0600);
  fs::remove(folder + "/build/2.15.0/cases/lies/liar");
  constexpr size_t kCases = 200;
  for (size_t i = 0; i < kCases; ++i) {
    const std::string binary = folder + "/build/2.15.0/cases/lies/case" + std::to_string(i);
    std::ofstream(binary) << "#!/bin/sh\necho >>'" << asked << "'\necho >'" << begun << "'\ncat '" << for_ever << "'\n";
    fs::permissions(binary, fs::perms::owner_all);
  }
  const int reader = open(begun.c_str(), O_RDWR | O_CLOEXEC);
  const pid_t runner = fork();
  if (runner == 0) {
    execl("/bin/sh", "sh", "-c", ("exec " + command("run") + " >/dev/null 2>&1").c_str(), nullptr);
    _exit(126);
  }
  char word = 0;
  EXPECT_EQ(read(reader, &word, 1), 1);
  const auto start = std::chrono::steady_clock::now();
  kill(runner, SIGINT);
  int status = 0;
  waitpid(runner, &status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  close(reader);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  std::ifstream file(asked);
  const auto lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  EXPECT_LE(lines, static_cast<long>(std::thread::hardware_concurrency())) << "only those that were already asked";
}

TEST_F(Program, WedgedGpu_StopsTheRunAndKeepsTheResults) {
  const std::string well = R"({"gpus":1,"gpu":"G","driver":"1","canary":"ok"})";
  const std::string ill = R"({"gpus":1,"gpu":"G","driver":"1","canary":"cuLaunchKernel 700"})";
  canary({ill});
  const ShellResult at_start = recapture("run --record " + folder + "/none");
  EXPECT_EQ(at_start.code, 7);
  EXPECT_THAT(at_start.out, HasSubstr("the GPU does not answer: cuLaunchKernel 700; nothing was run"));
  canary({well, ill});
  const ShellResult at_end = recapture("run liar.ControlHolds --record " + record());
  EXPECT_EQ(at_end.code, 7) << at_end.out;
  const Record seen = read_record(record());
  EXPECT_EQ(seen.tests.size(), 1U);
  EXPECT_THAT(seen.end, HasSubstr("does not answer after the last test"));
  const ShellResult shown = recapture("show " + record());
  EXPECT_THAT(shown.out, HasSubstr("as documented")) << "finished tests are still judged";
  EXPECT_EQ(shown.code, 6) << "and the rest is unknown";
}

TEST_F(Program, FullDisk_LosesNoEarlierResult) {
  const std::string mount = folder + "/small";
  fs::create_directories(mount);
  // A file system of 16 KiB: the first lines fit, the rest does not. In its own namespace, which needs no root.
  const ShellResult said =
      shell("unshare -rm sh -c \"mount -t tmpfs -o size=16k none '" + mount + "' && head -c 10000 /dev/zero > '" +
            mount + "/filler'; " + command("run --record '" + mount + "/r.jsonl'") + "; code=\\$?; cp '" + mount +
            "/r.jsonl' '" + record() + "'; exit \\$code\"");
  if (said.out.find("unshare: ") != std::string::npos) GTEST_SKIP() << said.out;
  EXPECT_EQ(said.code, 7) << said.out;
  EXPECT_THAT(said.out, HasSubstr("No space left on device"));
  const Record seen = read_record(record());
  EXPECT_GE(seen.tests.size(), 1U);
  EXPECT_TRUE(seen.end.empty());
  EXPECT_EQ(recapture("show " + record()).code, 1) << "missing tests do not pass, finished ones still count";
}

// Copies of the liar serve as several cases.
class ParallelRun : public Program {
 protected:
  void copies(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      fs::copy(folder + "/build/2.15.0/cases/lies/liar", folder + "/build/2.15.0/cases/lies/" + name);
    }
  }
  // The same tests of each case, as arguments.
  static std::string each(const std::vector<std::string>& cases, const std::vector<std::string>& tests) {
    std::string all;
    for (const std::string& one : cases) {
      for (const std::string& test : tests) all.append(" ").append(one).append(".").append(test);
    }
    return all;
  }
  static std::vector<std::string> rows_of(const std::string& path) {
    std::vector<std::string> rows;
    for (const TestVerdict& row : judge_record(read_record(path), {})) {
      rows.push_back(row.test + " " + std::string(to_string(row.result)) + " " + std::string(to_string(row.verdict)));
    }
    return rows;
  }
  static std::vector<std::string> order_of(const std::string& path) {
    std::vector<std::string> order;
    for (const TestRecord& test : read_record(path).tests) order.push_back(test.id());
    return order;
  }
};

TEST_F(ParallelRun, SeveralJobs_GiveTheVerdictsOfOneJob) {
  const std::vector<std::string> cases = {"liar", "second", "third", "fourth", "fifth", "race"};
  copies({cases.begin() + 1, cases.end()});
  const std::string tests =
      each(cases, {"ControlHolds", "ControlBreaks", "ReproducesAsDocumented", "ReproducesHealthy", "ReproducesNever",
                   "ReproducesAndCrashes", "FixLeavesChildrenBehind", "FixIsSkipped"});
  const ShellResult one = recapture("run --jobs 1 --record " + folder + "/1" + tests);
  const ShellResult four = recapture("run --jobs 4 --record " + folder + "/4" + tests);
  const ShellResult by_itself = recapture("run --record " + folder + "/0" + tests);
  EXPECT_EQ(one.code, 1) << one.out;
  EXPECT_EQ(four.code, 1) << four.out;
  const auto rows = rows_of(folder + "/1");
  EXPECT_EQ(rows.size(), 8 * cases.size());
  EXPECT_EQ(rows_of(folder + "/4"), rows);
  EXPECT_EQ(rows_of(folder + "/0"), rows);
  EXPECT_EQ(read_record(folder + "/4").confirmations.size(), read_record(folder + "/1").confirmations.size());
  EXPECT_EQ(read_record(folder + "/4").end, "complete");
  EXPECT_THAT(four.out, HasSubstr("40 tests side by side in "));
  EXPECT_THAT(four.out, HasSubstr("8 tests of races alone in "));
}

TEST_F(ParallelRun, Races_RunAloneAfterTheRest) {
  const std::vector<std::string> cases = {"liar", "race_first", "race_second", "second", "third"};
  copies({cases.begin() + 1, cases.end()});
  recapture("run --jobs 3 --record " + record() + each(cases, {"ControlTakesItsTime"}));
  const Record seen = read_record(record());
  ASSERT_EQ(seen.tests.size(), cases.size());
  int overlaps = 0;
  for (const TestRecord& a : seen.tests) {
    for (const TestRecord& b : seen.tests) {
      const auto at = [](const TestRecord& test, const char* fact) {
        return std::stoll(test.object("facts").text(fact));
      };
      if (a.id() == b.id() || at(a, "began_ms") >= at(b, "left_ms") || at(b, "began_ms") >= at(a, "left_ms")) continue;
      ++overlaps;
      EXPECT_NE(a.id().rfind("race", 0), 0U) << a.id() << " ran beside " << b.id();
    }
  }
  EXPECT_GT(overlaps, 0) << "nothing ran side by side";
  EXPECT_EQ(seen.tests[3].id().rfind("race", 0), 0U) << "races come last";
}

TEST_F(ParallelRun, KilledWorker_EndsTheRunThatCanBeContinued) {
  copies({"second", "third"});
  const std::string tests = each({"liar", "second", "third"}, {"ControlHolds"}) + " second.ControlKillsItsRunner";
  const ShellResult killed = shell("RECAPTURE_LIAR_KILLS=9 " + command("run --jobs 3 --record " + record() + tests));
  EXPECT_EQ(killed.code, 7) << killed.out;
  EXPECT_THAT(killed.out, HasSubstr("was killed by signal 9 in second.ControlKillsItsRunner"));
  const Record cut = read_record(record());
  EXPECT_THAT(cut.end, HasSubstr("was killed by signal 9"));
  EXPECT_NE(cut.find("second.ControlHolds"), nullptr);
  const ShellResult rest = recapture("run --continue --record " + record() + tests);
  EXPECT_EQ(rest.code, 0) << rest.out;
  EXPECT_EQ(read_record(record()).tests.size(), 4U);
}

// Someone else stops the worker, not the run.
TEST_F(ParallelRun, WorkerStoppedAlone_LeavesTheRunIncomplete) {
  const std::string tests = " liar.ControlHolds liar.ControlKillsItsRunner liar.FixIsSkipped liar.FixIsNotApplicable";
  const ShellResult told = shell("RECAPTURE_LIAR_KILLS=15 " + command("run --record " + record() + tests));
  EXPECT_EQ(told.code, 7) << told.out;
  EXPECT_THAT(told.out, HasSubstr("a process that runs tests left with 130 in liar.ControlKillsItsRunner; the rest was "
                                  "not run, --resume " +
                                  record() + " runs it"));
  EXPECT_EQ(read_record(record()).tests.size(), 1U);
  const ShellResult rest = recapture("run --resume " + record());
  EXPECT_EQ(rest.code, 0) << rest.out;
  EXPECT_EQ(read_record(record()).tests.size(), 4U);
}

TEST_F(ParallelRun, Seed_DecidesTheOrder) {
  const std::vector<std::string> cases = {"liar", "race", "second", "third", "fourth"};
  copies({cases.begin() + 1, cases.end()});
  const std::string tests = each(cases, {"ControlHolds", "ReproducesAsDocumented", "FixIsSkipped"});
  recapture("run --jobs 1 --record " + folder + "/plain" + tests);
  for (const char* seed : {"7", "8"}) {
    const std::string n = seed;
    recapture("run --jobs 1 --shuffle " + n + " --record " + folder + "/" + n + tests);
    recapture("run --jobs 1 --shuffle " + n + " --record " + folder + "/again" + n + tests);
    EXPECT_EQ(order_of(folder + "/" + n), order_of(folder + "/again" + n));
    EXPECT_NE(order_of(folder + "/" + n), order_of(folder + "/plain"));
    EXPECT_EQ(rows_of(folder + "/" + n), rows_of(folder + "/plain")) << "a record is read in the plan's order";
    EXPECT_EQ(order_of(folder + "/" + n).back().rfind("race", 0), 0U) << "races still come last";
  }
  EXPECT_NE(order_of(folder + "/7"), order_of(folder + "/8"));
}

TEST_F(ParallelRun, TestsSideBySide_ReportsHowLongTheyTook) {
  copies({"second"});
  canary({R"({"gpus":2,"gpu":"G","driver":"1","canary":"ok"})"});
  const std::string tests =
      each({"liar", "second"}, {"ControlHolds", "ReproducesAsDocumented", "FixByItsRemedy", "ReproducesAtARate",
                                "FixWithoutNeedOfItsRemedy", "FixIsSkipped", "FixIsNotApplicable",
                                "ControlTakesItsTime", "ReproducesThenCrashesInAProbe", "FixFloodsItsOutput"});
  const ShellResult said = recapture("run --jobs 2 --gpu 0,1 --record " + record() + tests);
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("20 tests side by side in "));
  std::ifstream file(record());
  std::string line, last;
  while (std::getline(file, line)) last = line;
  const Json took = Json::parse(last).at("volatile");
  for (const char* key : {"seconds", "side_by_side_s", "alone_s"}) EXPECT_TRUE(took.contains(key)) << key;
  EXPECT_EQ(took.at("jobs"), 2);
}

TEST_F(Program, Continue_StartsResumesOrReportsComplete) {
  const std::string tests = " liar.ControlHolds liar.ReproducesHealthy";
  const std::string line = "run --continue --record " + record() + tests;
  const ShellResult made = recapture(line);
  EXPECT_EQ(made.code, 5) << made.out;
  const ShellResult complete = recapture(line);
  EXPECT_EQ(complete.code, 5) << "same as the run itself";
  EXPECT_THAT(complete.out, HasSubstr("r.jsonl is complete"));
  // The same record, cut short: without its end, and without the last test's lines.
  std::ifstream file(record());
  std::string kept, one;
  while (std::getline(file, one) && one.find("\"test\":\"liar.ReproducesHealthy") == std::string::npos)
    kept += one + "\n";
  file.close();
  std::ofstream(record()) << kept;
  const ShellResult resumed = recapture(line);
  EXPECT_EQ(resumed.code, 5) << resumed.out;
  EXPECT_EQ(resumed.out.find("liar.ControlHolds"), std::string::npos) << "it was not run again";
  EXPECT_EQ(read_record(record()).end, "complete");
  std::ofstream(record(), std::ios::trunc).close();  // Killed before its first line.
  EXPECT_EQ(recapture("run --continue --record " + record() + " liar.ControlHolds").code, 0);
}

// Each record below reports/ contains what the others lack.
TEST_F(Program, Left_RunsWhatReportsLackAndPlaceAddsIt) {
  const auto plan = [](const std::string& path) { return read_record(path).plan; };
  const std::string first = folder + "/first.jsonl", second = folder + "/second.jsonl";
  EXPECT_EQ(recapture("run --left liar.ControlHolds --record " + first).code, 0);
  const ShellResult placed = recapture("dev place " + first);
  EXPECT_EQ(placed.code, 0) << placed.out;
  const std::string path = folder + "/reports/2.15.0/host.jsonl.gz";
  EXPECT_EQ(placed.out, path + "\n");
  EXPECT_EQ(recapture("dev place " + first).out, first + ": is in place\n");
  const std::string head = contents_of(path).substr(0, 8);
  EXPECT_EQ(head, std::string("\x1f\x8b\x08\0\0\0\0\0", 8)) << "neither name nor time";

  const ShellResult none = recapture("run --left liar.ControlHolds");
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.out, ::testing::EndsWith("nothing is left to run of LibTorch 2.15.0 on no GPU\n"));
  canary({R"({"gpus":1,"gpu":"G","driver":"1","gpu_id":"1","compute_capability":"9.0","canary":"ok"})"});
  EXPECT_THAT(recapture("run --left liar.ControlHolds").out,
              HasSubstr("nothing is left to run of LibTorch 2.15.0 on G"));
  canary({R"({"gpus":0,"canary":"none","reason":"no driver"})"});

  const std::string rest = "run --left --continue --record " + second + " liar.ControlHolds liar.ReproducesHealthy";
  EXPECT_EQ(recapture(rest).code, 5);
  EXPECT_EQ(plan(second), std::vector<std::string>{"liar.ReproducesHealthy"});
  // Cut before its test; meanwhile another record has that test. It resumes with its own plan.
  std::ifstream file(second);
  std::string kept, line;
  for (int i = 0; i < 3 && std::getline(file, line); ++i) kept += line + "\n";
  file.close();
  fs::copy(second, folder + "/copy.jsonl");
  EXPECT_EQ(recapture("dev place " + folder + "/copy.jsonl").out, folder + "/reports/2.15.0/host.run-2.jsonl.gz\n");
  std::ofstream(second) << kept;
  EXPECT_EQ(recapture(rest).code, 5);
  EXPECT_EQ(read_record(second).end, "complete");
  EXPECT_EQ(plan(second).size(), 1U);

  EXPECT_EQ(recapture("run --left --break trigger").code, 2);
  std::ofstream(folder + "/half.jsonl") << kept;
  const ShellResult empty = recapture("dev place " + folder + "/half.jsonl");
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.out, HasSubstr("half.jsonl: no test has run"));
  fs::create_directories(folder + "/cases/lies");
  std::ofstream(folder + "/cases/lies/liar.cpp") << "int another;\n";
  const ShellResult stale = recapture("dev place " + folder + "/copy.jsonl");
  EXPECT_EQ(stale.code, 2);
  EXPECT_THAT(stale.out, HasSubstr("copy.jsonl: stale, as liar changed since; build and run again"));
}

// Adds to the record a result of the case `other`, as it is in the tree of the test.
void add_other_case(const std::string& folder, const std::string& path) {
  std::string text = contents_of(path);
  CaseInfo other = read_record(path).cases.at("liar");
  other.id = "other";
  other.hash = cases_in_tree(folder).at("other").code;
  const std::string test = R"({"test":"other.Control","ending":"exited","code":0,"ended":"passed"})";
  text.insert(text.find(R"("liar.ControlHolds"])"), R"("other.Control",)");
  text.insert(text.find(R"({"end")"), other.to_json().dump() + "\n" + test + "\n");
  std::ofstream(path) << text;
}

TEST_F(Program, ResultsOfACaseNotInTheTree_AreNotPlaced) {
  const std::string path = folder + "/two.jsonl", place = folder + "/reports/2.15.0/host.jsonl.gz";
  EXPECT_EQ(recapture("run --record " + path + " liar.ControlHolds").code, 0);
  fs::create_directories(folder + "/cases/lies");
  std::ofstream(folder + "/cases/lies/other.cpp") << "int other;\n";
  const ShellResult none = recapture("dev place " + path);
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.out, HasSubstr("two.jsonl: no case in the tree has a result in it"));

  add_other_case(folder, path);
  const ShellResult placed = recapture("dev place " + path);
  EXPECT_EQ(placed.code, 0) << placed.out;
  EXPECT_THAT(placed.out, HasSubstr(place + ": left out results of cases that are not in the tree: liar\n"));
  const Record record = read_record(place);
  EXPECT_EQ(record.plan, std::vector<std::string>{"other.Control"});
  EXPECT_EQ(record.cases.count("liar"), 0U);
  EXPECT_EQ(record.tests.size(), 1U);
  EXPECT_EQ(record.end, "complete");
  EXPECT_EQ(recapture("dev place " + path).out, path + ": is in place\n");
}

TEST_F(Program, RecordWithSomeResultsOfChangedCode_IsPlacedWithANote) {
  const std::string path = folder + "/two.jsonl", place = folder + "/reports/2.15.0/host.jsonl.gz";
  EXPECT_EQ(recapture("run --record " + path + " liar.ControlHolds").code, 0);
  fs::create_directories(folder + "/cases/lies");
  for (const char* name : {"liar", "other"}) std::ofstream(folder + "/cases/lies/" + name + ".cpp") << "int other;\n";
  add_other_case(folder, path);
  const ShellResult placed = recapture("dev place " + path);
  EXPECT_EQ(placed.code, 0) << placed.out;
  EXPECT_THAT(placed.out, HasSubstr(place + ": its results of liar do not count: the code changed since\n"));
  EXPECT_EQ(unpacked_contents_of(place), contents_of(path)) << "it is kept whole";
}

TEST_F(Program, RunThatWentOnSinceItWasPlaced_ReplacesItsBeginning) {
  const std::string whole = folder + "/whole.jsonl", part = folder + "/part.jsonl";
  const std::string place = folder + "/reports/2.15.0/host.jsonl.gz";
  EXPECT_EQ(recapture("run --record " + whole + " liar.ControlHolds liar.ReproducesHealthy").code, 5);
  const std::string text = contents_of(whole), test = R"({"test":)";
  const size_t second = text.find(test, text.find(test) + 1);
  ASSERT_NE(second, text.npos);
  std::ofstream(part) << text.substr(0, second + 9);  // As it was while it wrote its second test.
  EXPECT_EQ(recapture("dev place " + part).code, 0);
  EXPECT_EQ(recapture("dev place " + whole).out, place + "\n");
  EXPECT_EQ(unpacked_contents_of(place), text);
  EXPECT_EQ(recapture("dev place " + part).out, part + ": is in place\n");
  EXPECT_EQ(unpacked_contents_of(place), text);
  std::string other = text;
  other.replace(other.find(R"("code":0)"), 8, R"("code":9)");
  std::ofstream(part) << other;
  const ShellResult said = recapture("dev place " + part);
  EXPECT_EQ(said.code, 2) << said.out;
  EXPECT_THAT(said.out, HasSubstr("part.jsonl: of the same run as " + place + ", with other results"));
}

// Placed, packed, gone on with, placed and packed again.
TEST_F(Program, PlacedRecords_ArePackedWithoutLoss) {
  const std::string whole = folder + "/whole.jsonl", part = folder + "/part.jsonl", reports = folder + "/reports";
  const std::string place = reports + "/2.15.0/host.jsonl.gz", archive = reports + "/2.15.0/records.tar.xz";
  EXPECT_EQ(recapture("run --record " + whole + " liar.ControlHolds liar.ReproducesHealthy").code, 5);
  const std::string text = contents_of(whole);
  const size_t second = text.find(R"({"test":)", text.find(R"({"test":)") + 1);
  std::ofstream(part) << text.substr(0, second + 9);
  EXPECT_EQ(recapture("dev place " + part).code, 0);
  const std::string shown = recapture("show " + place).out;
  EXPECT_EQ(recapture("dev pack").out, archive + ": 1 record, 1 of them new\n");
  EXPECT_FALSE(fs::exists(place));
  EXPECT_EQ(recapture("show " + place).out, shown);
  EXPECT_EQ(recapture("dev pack 2.15.0").out, reports + "/2.15.0: nothing to pack\n");
  EXPECT_EQ(recapture("dev place " + part).out, part + ": is in place\n");

  EXPECT_EQ(recapture("dev place " + whole).out, place + "\n") << "beside the archive, in the place of its beginning";
  const std::string of_folder = recapture("show --records " + reports).out;
  EXPECT_EQ(recapture("dev pack").code, 0);
  EXPECT_EQ(recapture("show --records " + reports).out, of_folder);
  EXPECT_EQ(record_text(place), text);

  const std::string bytes = contents_of(archive);
  write_file(reports + "/2.15.0/host.run-2.jsonl", text);
  EXPECT_EQ(recapture("dev pack").code, 0);
  EXPECT_EQ(contents_of(archive), bytes) << "a copy under another name is not stored again";
  std::ofstream(place) << "{}\n";
  EXPECT_EQ(recapture("dev pack").code, 2);
  std::string other = text;
  other.replace(other.find(R"("code":0)"), 8, R"("code":9)");
  std::ofstream(place) << other;
  const ShellResult refused = recapture("dev pack");
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.out, HasSubstr("records.tar.xz has another run of this name"));
  EXPECT_TRUE(fs::exists(place));
  EXPECT_EQ(contents_of(archive), bytes);
}

TEST_F(Program, RecordOfNoRelease_IsNotPlaced) {
  const std::string path = folder + "/none.jsonl";
  EXPECT_EQ(recapture("run --record " + path + " liar.ControlHolds").code, 0);
  std::string text = contents_of(path);
  const std::string release = R"("release":"2.15.0")";
  text.replace(text.find(release), release.size(), R"("release":"")");
  std::ofstream(path) << text;
  const ShellResult said = recapture("dev place " + path);
  EXPECT_EQ(said.code, 2) << said.out;
  EXPECT_THAT(said.out, HasSubstr("none.jsonl: its release '' is not a release"));
  EXPECT_FALSE(fs::exists(folder + "/reports"));
}

// The record with another value of a member of its first line.
void change(const std::string& path, const std::string& member, const std::string& value) {
  const std::string text = contents_of(path);
  Json first = Json::parse(text.substr(0, text.find('\n')));
  first[member] = value;
  std::ofstream(path) << first.dump() << text.substr(text.find('\n'));
}

TEST_F(Program, RecordOfAReleaseThatExistsNowhere_IsNotPlaced) {
  const std::string path = folder + "/r.jsonl";
  EXPECT_EQ(recapture("run --record " + path + " liar.ControlHolds").code, 0);
  for (const char* release : {"9.9.9", "9.9.9+cu130", "2.15.1"}) {
    change(path, "release", release);
    for (const char* origin : {"", "--origin ada "}) {
      const ShellResult said = recapture("dev place " + std::string(origin) + path);
      EXPECT_EQ(said.code, 2) << said.out;
      EXPECT_THAT(said.out, HasSubstr(std::string("r.jsonl: its release ") + release + " is not in ci/matrix.toml"));
      EXPECT_TRUE(said.is_one_line()) << said.out;
    }
  }
  EXPECT_FALSE(fs::exists(folder + "/reports"));
  for (const char* build : {"2.15.0+cu130", "2.16.0rc1", "2.16.0.dev20261124+cu132", "2.15.0+acme"}) {
    change(path, "release", build);
    EXPECT_EQ(recapture("dev place --dry-run " + path).code, 0) << build;
  }
  change(path, "release", "9.9.9");
  change(path, "label", "acme");
  EXPECT_EQ(recapture("dev place --dry-run " + path).code, 0) << "a build with a label";
}

// docs/contributing.md, "Send a record".
TEST_F(Program, SentRecord_IsOfAMachineThatTheProjectLacks) {
  const std::string path = folder + "/r.jsonl", reports = folder + "/reports";
  const auto run_on = [&](const std::string& driver) {
    canary({R"({"gpus":1,"gpu":"G","driver":")" + driver + R"(","canary":"ok"})"});
    fs::remove(path);
    EXPECT_EQ(recapture("run --record " + path + " liar.ControlHolds").code, 0);
  };
  run_on("1");
  EXPECT_EQ(recapture("dev place " + path).code, 0);
  const std::string shown = recapture("show " + reports).out;
  run_on("1");
  for (const char* release : {"2.15.0", "2.6.0"}) {  // Of a release that the machine lacks, too.
    change(path, "release", release);
    const ShellResult own = recapture("dev place --origin ada " + path);
    EXPECT_EQ(own.code, 2) << own.out;
    EXPECT_THAT(own.out, HasSubstr("r.jsonl: G, driver 1 has records of the project's own"));
    EXPECT_TRUE(own.is_one_line()) << own.out;
  }
  EXPECT_EQ(recapture("show " + reports).out, shown);
  EXPECT_EQ(std::distance(fs::directory_iterator(reports), {}), 1);

  run_on("2");
  const ShellResult other = recapture("dev place --origin ada " + path);
  EXPECT_EQ(other.code, 0) << other.out;
  EXPECT_EQ(read_record(reports + "/2.15.0/g.run-2.jsonl.gz").environment.json().value("origin", ""), "ada");
  run_on("2");
  EXPECT_EQ(recapture("dev place --origin ada " + path).code, 0) << "again of the sender's machine";
}

TEST_F(Program, MachineOfNoRecord_IsNamedInJUnitAlsoOfARunThatIsComplete) {
  const std::string path = folder + "/r.jsonl", xml = folder + "/j.xml";
  const auto on = [&](const std::string& driver) {
    canary({R"({"gpus":1,"gpu":"G","driver":")" + driver + R"(","canary":"ok"})"});
  };
  on("1");
  EXPECT_EQ(recapture("run --record " + path + " liar.ControlHolds").code, 0);
  EXPECT_EQ(recapture("dev place " + path).code, 0);
  fs::remove(path);
  on("2");
  for (int i = 0; i < 2; ++i) {  // The second has nothing left to run.
    EXPECT_EQ(recapture("run --continue --record " + path + " --junit " + xml + " liar.ControlHolds").code, 0);
    EXPECT_THAT(contents_of(xml), HasSubstr("<property name=\"nearest_machine\" value=\"G, driver 1, the same GPU with "
                                            "another driver\""));
    fs::remove(xml);
  }
}

TEST_F(Program, SurprisingRun_EndsWithSurprisesAndTheNextCommand) {
  const ShellResult calm = recapture("run liar.ControlHolds liar.ReproducesAsDocumented --record " + folder + "/calm");
  EXPECT_EQ(calm.out.find("surprised"), std::string::npos);
  EXPECT_EQ(calm.out.find("next:"), std::string::npos);
  const ShellResult said = recapture("run liar.ControlHolds liar.ReproducesSomethingElse --record " + record());
  EXPECT_THAT(said.out, HasSubstr("1 surprise:\n  liar.ReproducesSomethingElse: changed: different, else\n"));
  EXPECT_THAT(said.out, HasSubstr("next: recapture show " + record() + "\n"));
  EXPECT_THAT(said.out, HasSubstr("next: recapture run --break trigger liar "));
}

TEST(Estimates, TimeLeft_FollowsTheRecordsAndThePace) {
  const auto made = [](const char* release, const char* started, double seconds, const char* hash = "now") {
    Record record;
    record.cases["a"].hash = hash;
    record.environment = {{"release", release}, {"gpu", "G"}, {"volatile", {{"started", started}}}};
    record.add({{{"test", "a.Control"}, {"volatile", {{"seconds", seconds}}}}});
    return record;
  };
  Estimate known({made("2", "2026-02", 4), made("2", "2026-01", 3, "then"), made("1", "2026-03", 9)}, "G", "2");
  EXPECT_EQ(known.of("a.Control"), 4);
  EXPECT_EQ(known.of("b.Control"), 4) << "the mean";
  EXPECT_EQ(Estimate({made("2", "2026-01", 4), made("2", "2026-02", 16)}, "G", "2").of("a.Control"), 4)
      << "the later run shared its host";
  Record skipped = made("2", "2026-03", 0);
  *edit_line(skipped.tests.front()) = {
      {"test", "a.Control"}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {"skipped", "no GPU"}};
  EXPECT_EQ(Estimate({made("2", "2026-01", 4), skipped}, "G", "2").of("a.Control"), 4) << "it did not run there";
  EXPECT_EQ(Estimate({made("2", "2026-02", 4)}, "H", "2").of("a.Control"), 4) << "never on this GPU";
  EXPECT_EQ(Estimate({made("2", "2026-02", 4)}, "", "2").of("a.Control"), 1) << "without a GPU";
  known.plan("a.Control", false);
  known.plan("b.Control", true);
  EXPECT_NEAR(known.left(2, 0).value(), 4 / 2 + 4, 0.01);
  known.finished("a.Control");
  EXPECT_NEAR(known.left(2, 2).value(), 4, 0.01) << "as fast as before";
  EXPECT_GT(known.left(2, 8).value(), 6) << "slower than before";
  Estimate unknown({}, "", "2");
  unknown.plan("a.Control", false);
  unknown.plan("b.Control", false);
  EXPECT_FALSE(unknown.left(1, 1));
  unknown.finished("a.Control");
  EXPECT_NEAR(unknown.left(1, 3).value(), 3, 0.01);
}

TEST(Shuffling, Seed_GivesTheSameOrderEverywhere) {
  std::vector<PlannedCase> plan(5);
  for (size_t i = 0; i < plan.size(); ++i) plan[i].binary.info.id = std::string(1, static_cast<char>('a' + i));
  shuffle(plan, 20260);
  std::string order;
  for (const PlannedCase& planned : plan) order += planned.binary.info.id;
  EXPECT_EQ(order, "eabdc");
}

class StoppedRun : public Program {
 protected:
  // Starts a run, waits until its last test hangs, and sends the runner a signal.
  int stop_with(int signal) {
    const std::string pipe = folder + "/pipe";
    mkfifo(pipe.c_str(), 0600);
    const pid_t runner = fork();
    if (runner == 0) {
      setenv("RECAPTURE_LIAR_PIPE", pipe.c_str(), 1);
      const int nothing = open("/dev/null", O_WRONLY);
      dup2(nothing, 1);
      dup2(nothing, 2);
      const std::string program = folder + "/build/recapture", where = record();
      execl(program.c_str(), "recapture", "run", "--record", where.c_str(), "liar.ControlHolds",
            "liar.ReproducesAndHangs", "liar.FixIsNotApplicable", nullptr);
      _exit(126);
    }
    const int reader = open(pipe.c_str(), O_RDONLY);  // Returns once the hanging test has opened it.
    char word = 0;
    EXPECT_EQ(read(reader, &word, 1), 1);
    close(reader);
    kill(runner, signal);
    int status = 0;
    waitpid(runner, &status, 0);
    return status;
  }
};

// Whether a process is left that was started with this in its environment.
bool anybody_has(const std::string& text) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string variables(std::istreambuf_iterator<char>(file), {});
    if (variables.find(text) != std::string::npos) return true;
  }
  return false;
}

class StoppedParallelRun : public ParallelRun {
 protected:
  const std::vector<std::string> cases = {"liar", "second", "third", "fourth"};
  const std::string tests = each(cases, {"ControlHolds", "FixHangsBesideAnOrphan"});

  // Starts a run with four jobs, waits until each of them hangs, signals the runner, and checks that nothing is left of
  // it within a second.
  int stop_with(int signal) {
    copies({cases.begin() + 1, cases.end()});
    const std::string path = folder + "/pipe";
    mkfifo(path.c_str(), 0600);
    const int pipe = open(path.c_str(), O_RDWR | O_CLOEXEC);
    const pid_t runner = fork();
    if (runner == 0) {
      setenv("RECAPTURE_LIAR_PIPE", path.c_str(), 1);
      const std::string line = "exec " + command("run --jobs 4 --record " + record() + tests) + " >/dev/null 2>&1";
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(126);
    }
    char word = 0;
    for (size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(read(pipe, &word, 1), 1);
    close(pipe);
    EXPECT_TRUE(anybody_has(path));
    const auto start = std::chrono::steady_clock::now();
    kill(runner, signal);
    int status = 0;
    waitpid(runner, &status, 0);
    const auto passed = [&] { return std::chrono::steady_clock::now() - start; };
    while (anybody_has(path) && passed() < std::chrono::seconds(3)) usleep(1000);
    EXPECT_LT(passed(), std::chrono::seconds(1)) << "something outlived the run";
    return status;
  }
};

TEST_F(StoppedParallelRun, CtrlC_LeavesNothingBehind) {
  const int status = stop_with(SIGINT);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const Record seen = read_record(record());
  EXPECT_EQ(seen.end, "interrupted");
  EXPECT_EQ(seen.tests.size(), cases.size()) << "a finished test was lost";
}

TEST_F(StoppedParallelRun, Kill_LeavesNothingBehind) {
  const int status = stop_with(SIGKILL);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Record cut = read_record(record());
  EXPECT_EQ(cut.end, "");
  EXPECT_EQ(cut.tests.size(), cases.size()) << "a finished test was lost";
  const ShellResult rest = recapture("run --continue --record " + record() + tests);
  EXPECT_EQ(rest.code, 0) << rest.out;
  EXPECT_EQ(read_record(record()).tests.size(), 2 * cases.size());
}

TEST_F(StoppedRun, CtrlC_EndsTheRecordAsInterrupted) {
  const int status = stop_with(SIGINT);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const Record seen = read_record(record());
  EXPECT_EQ(seen.end, "interrupted");
  EXPECT_EQ(seen.tests.size(), 1U);
  EXPECT_EQ(recapture("show " + record()).code, 6);
}

TEST_F(StoppedRun, CtrlCWithAFullPipe_IsInterrupted) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const std::string filler(static_cast<size_t>(fcntl(ends[1], F_SETPIPE_SZ, 4096)) - 10, 'x');
  ASSERT_EQ(write(ends[1], filler.data(), filler.size()), static_cast<ssize_t>(filler.size()));
  const std::string words = folder + "/words";
  const pid_t runner = fork();
  if (runner == 0) {
    dup2(ends[1], 1);
    dup2(open(words.c_str(), O_WRONLY | O_CREAT, 0600), 2);
    const std::string program = folder + "/build/recapture", where = record();
    execl(program.c_str(), "recapture", "run", "--record", where.c_str(), "liar.ControlHolds", nullptr);
    _exit(126);
  }
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (int i = 0; i < 30000 && text_of(record()).find("{\"test\"") == std::string::npos; ++i) usleep(1000);
  // It has printed the test's verdict, or is about to.
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 100 && ended == 0; ++i) {
    kill(runner, SIGINT);
    usleep(100 * 1000);
    ended = waitpid(runner, &status, WNOHANG);
  }
  for (const int end : ends) close(end);
  ASSERT_EQ(ended, runner) << "it waits for a reader";
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(text_of(words), "recapture: interrupted; --resume " + record() + " runs the rest\n");
}

TEST_F(StoppedRun, Kill_LosesOnlyTheTestInFlight) {
  const int status = stop_with(SIGKILL);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Record cut = read_record(record());
  EXPECT_EQ(cut.tests.size(), 1U);
  ASSERT_EQ(cut.notes.size(), 1U);
  EXPECT_THAT(cut.notes[0], HasSubstr("lost in flight or not run from liar.ReproducesAndHangs on"));
  const ShellResult shown = recapture("show " + record());
  EXPECT_EQ(shown.code, 6);
  EXPECT_THAT(shown.out, HasSubstr("note: the run did not come to its end"));

  const ShellResult resumed =
      recapture("run liar.ControlHolds liar.ReproducesAndHangs liar.FixIsNotApplicable --resume " + record());
  EXPECT_EQ(resumed.code, 1) << resumed.out;  // The hang is a change.
  const Record whole = read_record(record());
  EXPECT_EQ(whole.tests.size(), 3U);
  EXPECT_EQ(whole.end, "complete");
  EXPECT_EQ(resumed.out.find("liar.ControlHolds"), std::string::npos) << "it was not run again";
}

TEST_F(Program, Shards_SplitThePlanAndMerge) {
  fs::copy(folder + "/build/2.15.0/cases/lies/liar", folder + "/build/2.15.0/cases/lies/second");
  for (const char* shard : {"1", "2"}) {
    const std::string n = shard;
    recapture("run liar.ControlHolds second.ControlHolds --shard " + n + "/2 --record " + folder + "/" + n + ".jsonl");
  }
  for (const char* shard : {"/1.jsonl", "/2.jsonl"}) {
    EXPECT_EQ(read_record(folder + shard).plan.size(), 1U);
    EXPECT_EQ(read_record(folder + shard).whole_plan.size(), 2U) << "a shard has the plan of all shards";
  }
  const ShellResult merged = recapture("dev merge " + record() + " " + folder + "/1.jsonl " + folder + "/2.jsonl");
  EXPECT_EQ(merged.code, 0) << merged.out;
  EXPECT_EQ(read_record(record()).tests.size(), 2U);
  EXPECT_EQ(recapture("show " + record()).code, 0);
}

// One on each GPU of a host.
TEST_F(Program, ShardsOfSeveralGpus_MergeIfNothingElseDiffers) {
  fs::copy(folder + "/build/2.15.0/cases/lies/liar", folder + "/build/2.15.0/cases/lies/second");
  canary({R"({"gpus":1,"gpu":"G","driver":"1","canary":"ok"})"});
  const auto shard = [&](const std::string& number, const std::string& name, const std::string& more) {
    const std::string path = folder + "/" + name + ".jsonl";
    recapture("run liar.ControlHolds second.ControlHolds --shard " + number + "/2 --record " + path + " " + more);
    return " " + path;
  };
  const std::string first = shard("1", "1", "--gpu 0"), second = shard("2", "2", "--gpu 1");
  const std::string other = shard("2", "other", "--gpu 1 --env A=1");
  const ShellResult merged = recapture("dev merge " + record() + first + second);
  EXPECT_EQ(merged.code, 0) << merged.out;
  const Environment environment = read_record(record()).environment;
  EXPECT_FALSE(environment.json().at("variables").contains("CUDA_VISIBLE_DEVICES"));
  EXPECT_EQ(environment.json().at("volatile").at("shards").at(1).value("CUDA_VISIBLE_DEVICES", ""), "1");
  const ShellResult again = recapture("dev merge " + record() + first + second);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.out, HasSubstr("exists already; merge makes a new record, so name another"));
  const ShellResult refused = recapture("dev merge " + folder + "/m.jsonl" + first + other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, HasSubstr("1.jsonl: it differs in --env A; only shards of one run can be merged"));
}

TEST_F(Program, List_NamesEveryTestAndItsKind) {
  const ShellResult said = recapture("list --built --json");
  ASSERT_EQ(said.code, 0) << said.out;
  const Json cases = Json::parse(said.out);
  ASSERT_EQ(cases.size(), 1U);
  for (const char* key : {"id", "family", "title", "sources", "nature", "fidelity", "needs", "tests"}) {
    EXPECT_TRUE(cases[0].contains(key)) << key;
  }
  EXPECT_EQ(cases[0]["id"], "liar");
  EXPECT_EQ(cases[0]["tests"][0]["kind"], "control");
  EXPECT_EQ(cases[0]["sources"][0]["document"], "none");
}

TEST_F(Program, UnavailableTest_Is77ForCTest) {
  const auto test = [&](const std::string& name) { return recapture("dev test --release 2.15.0 liar." + name).code; };
  EXPECT_EQ(test("ControlHolds"), 0);
  EXPECT_EQ(test("ReproducesHealthy"), 5);
  EXPECT_EQ(test("FixIsSkipped"), 77);
  EXPECT_EQ(test("FixIsSkipped"), 77) << "again, overwriting the last record";
  EXPECT_EQ(read_record(folder + "/build/2.15.0/ctest/liar.FixIsSkipped.jsonl").end, "complete");
}

TEST_F(Program, TestLeftOutWithoutLibTorch_Is77ForCTest) {
  Json catalogue = Json::parse(recapture("dev catalogue --release 2.15.0").out);
  for (Json& one : catalogue) {
    if (one.at("id") == "liar") one["tests"].push_back({{"name", "FixNeedsLibTorch"}, {"kind", "fix"}});
  }
  fs::create_directories(folder + "/cases");
  std::ofstream(folder + "/cases/catalogue.json") << catalogue.dump();
  fs::copy(folder + "/build/2.15.0", folder + "/build/cuda13", fs::copy_options::recursive);
  EXPECT_EQ(recapture("dev test --release cuda13 liar.ControlHolds").code, 0);
  EXPECT_EQ(recapture("dev test --release cuda13 liar.FixNeedsLibTorch").code, 77);
  EXPECT_EQ(recapture("dev test --release 2.15.0 liar.FixNeedsLibTorch").code, 7) << "it should be built";
}

// A model of ours, which behaves the same everywhere.
TEST_F(Program, SimulatedCase_RunsOnlyWithoutAGpu) {
  const std::string test = "liar.ControlHolds", again = "--continue --record " + record() + " ";
  fs::copy(folder + "/build/2.15.0/cases/lies/liar", folder + "/build/2.15.0/cases/lies/second");
  Json catalogue = Json::parse(recapture("dev catalogue --release 2.15.0").out);
  fs::create_directories(folder + "/cases");
  const auto write_catalogue = [&](const char* fidelity) {
    for (Json& one : catalogue) {
      if (one.at("id") == "liar") one["fidelity"] = fidelity;
    }
    std::ofstream(folder + "/cases/catalogue.json") << catalogue.dump();
  };
  const std::vector<std::string> gpu = {R"({"gpus":1,"gpu":"G","driver":"1","canary":"ok"})"};
  canary(gpu);
  write_catalogue("modelled");
  EXPECT_EQ(recapture("run --record " + folder + "/then.jsonl " + test).code, 0);
  write_catalogue("simulated");
  canary(gpu);
  const ShellResult alone = recapture("run --record " + record() + " " + test);
  EXPECT_EQ(alone.code, 4) << alone.out;
  EXPECT_THAT(alone.out, HasSubstr("nothing to run: liar is simulated, a model of ours, independent of the release; "
                                   "without a GPU, as under CUDA_VISIBLE_DEVICES=, a run has it"));
  canary(gpu);
  EXPECT_EQ(recapture("dev test --release 2.15.0 " + test).code, 77) << "for CTest";
  canary(gpu);
  const ShellResult beside = recapture("run " + again + test + " second.ControlHolds");
  EXPECT_EQ(beside.code, 0) << beside.out;
  EXPECT_THAT(beside.out, HasSubstr("note: left out: liar is simulated"));
  EXPECT_THAT(read_record(record()).plan, ::testing::ElementsAre("second.ControlHolds"));
  EXPECT_EQ(recapture("run " + again + test + " second.ControlHolds").code, 0) << "its plan is that of this run";

  canary({R"({"gpus":0,"canary":"none","reason":"no driver"})"});
  fs::create_directories(folder + "/runs");
  const ShellResult host = recapture("run --record " + folder + "/runs/host.jsonl " + test);
  EXPECT_EQ(host.code, 0) << host.out;
  EXPECT_THAT(host.out, HasSubstr("simulated"));
  const ShellResult history = recapture("history " + test + " --records " + folder + "/runs");
  EXPECT_EQ(history.code, 4);
  EXPECT_THAT(history.out, HasSubstr("liar: a model of ours, independent of the release, so it has no history"));
  const ShellResult bisect = recapture("bisect " + test + " --records " + folder + "/runs");
  EXPECT_EQ(bisect.code, 4);
  EXPECT_THAT(bisect.out, HasSubstr("liar is simulated: a model of ours"));
  EXPECT_THAT(recapture("list liar").out, HasSubstr("(simulated)"));
}

TEST_F(Program, CaseWithANeed_RunsWhereItIsMetAndIsElseUnavailable) {
  const std::string gpu = R"({"gpus":1,"gpu":"G","driver":"1","canary":"ok"})", none = R"({"gpus":0,"canary":"none"})";
  const std::vector<std::tuple<std::string, std::string, std::string>> table = {
      {"gpu", gpu, ""}, {"gpu", none, "no GPU"}, {"ranks", none, "no GPU"}};
  for (const auto& [needs, machine, reason] : table) {
    const std::string name = "needs_" + needs, path = folder + "/build/2.15.0/cases/lies/" + name;
    fs::copy(RECAPTURE_BUILD "/harness/tests/liar", path);
    canary({machine});
    const ShellResult said = recapture("run --record " + record() + " " + name + ".ControlHolds");
    fs::remove(path);
    const TestVerdict row = judge_record(read_record(record()), {}).front();
    fs::remove(record());
    EXPECT_EQ(row.verdict, reason.empty() ? Verdict::AsDocumented : Verdict::Unavailable) << needs << "\n" << said.out;
    EXPECT_EQ(to_string(row.observed), reason) << needs;
  }
}

TEST_F(Program, NoGpu_HostCasesRunAndTheLackIsNamed) {
  const ShellResult said = recapture("run liar.ControlHolds --record " + record());
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, HasSubstr("no GPU"));
}

}  // namespace
}  // namespace recapture

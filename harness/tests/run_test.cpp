// The program as its user runs it, over a case that lies in every way and a GPU that does as it is told.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness/judge/row.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Said {
  int code = 0;
  std::string out;
};

// A tree and a build folder of its own: the real program beside a stand-in for the canary, and the liar as only case.
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
  static Said shell(const std::string& line) {
    Said said;
    FILE* pipe = popen((line + " 2>&1 </dev/null").c_str(), "r");
    std::array<char, 4096> buffer{};
    for (size_t got = 0; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) said.out.append(buffer.data(), got);
    const int status = pclose(pipe);
    said.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return said;
  }
  Said recapture(const std::string& arguments) const { return shell(command(arguments)); }
  std::string record() const { return folder + "/r.jsonl"; }
  // Runs tests of the liar and gives the row of the first one.
  Row row_of(const std::string& test, const std::string& more = "") {
    fs::remove(record());
    recapture("run --record " + record() + " liar." + test + " " + more);
    const auto rows = judge_record(read_record(record()), {});
    return rows.empty() ? Row{} : rows.front();
  }
  std::string folder = ::testing::TempDir() + "recapture-run-" + std::to_string(getpid());
};

TEST_F(Program, TellsEveryWayOfLyingApart) {
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
      {"ReproducesNothing", Result::Invalid},
      {"FixFloodsItsOutput", Result::Holds},
      {"FixIsSkipped", Result::Unavailable},
      {"FixIsNotApplicable", Result::Inapplicable},
  };
  for (const char* how : {"", "--exec"}) {
    for (const auto& [test, result] : truth) {
      EXPECT_EQ(word(row_of(test, how).result), word(result)) << test << " " << how;
    }
  }
}

TEST_F(Program, KillsWhatHangsAtItsDeadline) {
  for (const char* how : {"", "--exec"}) EXPECT_EQ(row_of("ReproducesAndHangs", how).result, Result::Hung) << how;
}

TEST_F(Program, BoundsWhatATestPrints) {
  EXPECT_EQ(row_of("FixFloodsItsOutput").result, Result::Holds);
  EXPECT_LT(fs::file_size(record()), 20000U);
}

TEST_F(Program, LeavesNoChildOfATestAlive) {
  for (const char* how : {"", "--exec"}) {
    EXPECT_EQ(row_of("FixLeavesChildrenBehind", how).result, Result::Holds);
    const Record seen = read_record(record());
    for (const char* key : {"child", "orphan"}) {
      const pid_t pid = std::stoi(seen.tests.at(0).line.at("facts").at(key).get<std::string>());
      // A killed process may wait for a moment for init to collect it; a zombie is dead enough.
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      std::string id, name, state = "gone";
      stat >> id >> name >> state;
      EXPECT_TRUE(kill(pid, 0) != 0 || state == "Z" || state == "gone") << key << " " << how << " " << state;
    }
  }
}

TEST_F(Program, ExitCodesSayWhatHappened) {
  EXPECT_EQ(recapture("run liar.ReproducesAsDocumented liar.ControlHolds --record " + folder + "/0").code, 0);
  EXPECT_EQ(recapture("run liar.ReproducesSomethingElse --record " + folder + "/1").code, 1);
  EXPECT_EQ(recapture("run liar.ControlBreaks --record " + folder + "/1b").code, 1);
  EXPECT_EQ(recapture("run liar.FixIsSkipped --record " + folder + "/4").code, 4);
  EXPECT_EQ(recapture("run liar.ReproducesHealthy --record " + folder + "/5").code, 5);
  EXPECT_EQ(recapture("run liar.ReproducesNever --record " + folder + "/6").code, 6);
}

TEST_F(Program, ConfirmsASurpriseByPlainExec) {
  recapture("run liar.ReproducesHealthy --record " + record());
  const Record seen = read_record(record());
  EXPECT_EQ(seen.tests.at(0).text("how"), "fork");
  ASSERT_EQ(seen.confirmations.at("liar.ReproducesHealthy").size(), 2U);
  EXPECT_EQ(seen.confirmations.at("liar.ReproducesHealthy")[0].text("how"), "exec");
}

TEST_F(Program, BreaksOnPurpose) {
  const Said off = recapture("run liar.ReproducesAsDocumented --break trigger --record " + folder + "/t");
  EXPECT_EQ(off.code, 0) << off.out;
  EXPECT_THAT(off.out, HasSubstr("healthy"));
  const Said wrong = recapture("run liar.ReproducesAsDocumented --break value --record " + folder + "/v");
  EXPECT_EQ(wrong.code, 0) << wrong.out;
  EXPECT_THAT(wrong.out, HasSubstr("different"));
  EXPECT_EQ(recapture("run liar.ReproducesSomethingElse --break trigger --record " + folder + "/n").code, 1);
  EXPECT_EQ(recapture("run liar.FixByItsRemedy --record " + folder + "/f").code, 0);
  const Said caught = recapture("run liar.FixByItsRemedy --break remedy --record " + folder + "/r");
  EXPECT_EQ(caught.code, 0) << caught.out;
  EXPECT_THAT(caught.out, HasSubstr("broken"));
  EXPECT_EQ(recapture("run liar.FixWithoutNeedOfItsRemedy --break remedy --record " + folder + "/u").code, 1);
  const Said nothing = recapture("run liar.FixIsSkipped --break remedy --record " + folder + "/o");
  EXPECT_EQ(nothing.code, 4) << nothing.out;
}

TEST_F(Program, BadInputGetsOneClearLineAndItsExitCode) {
  const auto one_line = [](const Said& said) {
    return std::count(said.out.begin(), said.out.end(), '\n') == 1 && said.out.rfind("recapture: ", 0) == 0;
  };
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"run nobody", 2, "is called 'nobody'"},
      {"run --shard 3/2", 2, "--shard takes i/n"},
      {"run --release 9.9.9", 2, "9.9.9 is not a release"},
      {"run --release 2.6.0", 7, "no cases are built for LibTorch 2.6.0"},
      {"run --require gpu", 7, "a GPU is demanded and there is none: no driver"},
      {"run --require luck", 2, "--require takes gpu or recorder"},
      {"run --libtorch /nowhere", 7, "holds no torch/lib/libtorch_cpu.so"},
      {"run --record /proc/r.jsonl", 7, "cannot make this record"},
      {"run --break luck", 2, "--break"},
      {"run --require gpu liar.ControlHolds", 7, "a GPU is demanded"},
      {"show", 4, "no records below reports/"},
      {"show /nowhere", 2, "/nowhere: cannot read it"},
      {"explode", 2, "--help says what there is"},
      {"list --root /nowhere", 2, "has no ci/matrix.toml"},
  };
  for (const auto& [arguments, code, words] : table) {
    const Said said = recapture(arguments);
    EXPECT_EQ(said.code, code) << arguments << "\n" << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << arguments;
    EXPECT_TRUE(one_line(said)) << arguments << "\n" << said.out;
  }
}

TEST_F(Program, AMissingLibraryIsInfrastructureAndNamed) {
  const std::string binary = folder + "/build/2.15.0/cases/lies/broken";
  std::ofstream(binary)
      << "#!/bin/sh\necho 'broken: error while loading shared libraries: libtorch.so: no such file' >&2\nexit 127\n";
  fs::permissions(binary, fs::perms::owner_all);
  const Said said = recapture("run");
  EXPECT_EQ(said.code, 7);
  EXPECT_THAT(said.out, HasSubstr("libtorch.so"));
  EXPECT_THAT(said.out, HasSubstr("`ci/libtorch` installs it"));
}

TEST_F(Program, AWedgedGpuStopsTheRunAndKeepsTheFirstEvidence) {
  const std::string well = R"({"gpus":1,"gpu":"G","driver":"1","canary":"ok"})";
  const std::string ill = R"({"gpus":1,"gpu":"G","driver":"1","canary":"cuLaunchKernel 700"})";
  canary({ill});
  const Said at_start = recapture("run --record " + folder + "/none");
  EXPECT_EQ(at_start.code, 7);
  EXPECT_THAT(at_start.out, HasSubstr("the GPU does not answer: cuLaunchKernel 700; nothing was run"));
  canary({well, ill});
  const Said at_end = recapture("run liar.ControlHolds --record " + record());
  EXPECT_EQ(at_end.code, 7) << at_end.out;
  const Record seen = read_record(record());
  EXPECT_EQ(seen.tests.size(), 1U);
  EXPECT_THAT(seen.end, HasSubstr("does not answer after the last test"));
  EXPECT_EQ(recapture("show " + record()).code, 0) << "what ran is still judged";
}

TEST_F(Program, AFullDiskLosesNoEarlierResult) {
  const std::string mount = folder + "/small";
  fs::create_directories(mount);
  // A file system of 16 KiB: the first lines fit, the rest does not. In a namespace of its own, which takes no root.
  const Said said =
      shell("unshare -rm sh -c \"mount -t tmpfs -o size=16k none '" + mount + "' && head -c 10000 /dev/zero > '" +
            mount + "/filler'; " + command("run --record '" + mount + "/r.jsonl'") + "; code=\\$?; cp '" + mount +
            "/r.jsonl' '" + record() + "'; exit \\$code\"");
  if (said.out.find("unshare: ") != std::string::npos) GTEST_SKIP() << said.out;
  EXPECT_EQ(said.code, 7) << said.out;
  EXPECT_THAT(said.out, HasSubstr("No space left on device"));
  const Record seen = read_record(record());
  EXPECT_GE(seen.tests.size(), 1U);
  EXPECT_TRUE(seen.end.empty());
  EXPECT_EQ(recapture("show " + record()).code, 1) << "what is missing is not green, what was seen still counts";
}

class Stopped : public Program {
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

TEST_F(Stopped, ByCtrlCItSaysSoAndCanGoOn) {
  const int status = stop_with(SIGINT);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const Record seen = read_record(record());
  EXPECT_EQ(seen.end, "interrupted");
  EXPECT_EQ(seen.tests.size(), 1U);
  EXPECT_EQ(recapture("show " + record()).code, 6);
}

TEST_F(Stopped, ByKillItLosesTheTestInFlightOnly) {
  const int status = stop_with(SIGKILL);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Record cut = read_record(record());
  EXPECT_EQ(cut.tests.size(), 1U);
  ASSERT_EQ(cut.notes.size(), 1U);
  EXPECT_THAT(cut.notes[0], HasSubstr("lost in flight or not run from liar.ReproducesAndHangs on"));
  const Said shown = recapture("show " + record());
  EXPECT_EQ(shown.code, 6);
  EXPECT_THAT(shown.out, HasSubstr("note: the run did not come to its end"));

  const Said resumed =
      recapture("run liar.ControlHolds liar.ReproducesAndHangs liar.FixIsNotApplicable --resume " + record());
  EXPECT_EQ(resumed.code, 1) << resumed.out;  // The hang is a change.
  const Record whole = read_record(record());
  EXPECT_EQ(whole.tests.size(), 3U);
  EXPECT_EQ(whole.end, "complete");
  EXPECT_EQ(resumed.out.find("liar.ControlHolds"), std::string::npos) << "it was not run again";
}

TEST_F(Program, ShardsMakeUpTheWholeAndMerge) {
  fs::copy(folder + "/build/2.15.0/cases/lies/liar", folder + "/build/2.15.0/cases/lies/second");
  for (const char* shard : {"1", "2"}) {
    const std::string n = shard;
    recapture("run liar.ControlHolds second.ControlHolds --shard " + n + "/2 --record " + folder + "/" + n + ".jsonl");
  }
  const Said merged = recapture("merge " + record() + " " + folder + "/1.jsonl " + folder + "/2.jsonl");
  EXPECT_EQ(merged.code, 0) << merged.out;
  EXPECT_EQ(read_record(record()).tests.size(), 2U);
  EXPECT_EQ(recapture("show " + record()).code, 0);
}

TEST_F(Program, ListNamesEveryTestAndItsKind) {
  const Said said = recapture("list --json");
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

TEST_F(Program, WithoutAGpuHostCasesRunAndTheRestSaysWhy) {
  const Said said = recapture("run liar.ControlHolds --record " + record());
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, HasSubstr("no GPU"));
}

}  // namespace
}  // namespace recapture

// Runs that are cut, killed, started twice or split: no finished result is lost, and no missing one passes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>

#include "harness/tests/fake_tree.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// A run beside the test.
class CompareContext {
 public:
  CompareContext(const std::string& command, const std::string& output) {
    const std::string line = "exec " + command + " >'" + output + "' 2>&1 </dev/null";
    std::filesystem::remove(output);  // Output of an earlier run must not count for this one.
    pid_ = fork();
    if (pid_ == 0) {
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(126);
    }
  }
  ~CompareContext() { end_by(SIGKILL); }
  // Its exit code, or 128 and the signal's number.
  int end_by(int signal) {
    if (pid_ > 0) kill(pid_, signal);
    return wait();
  }
  int wait() {
    if (pid_ <= 0) return -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

class Resumed : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    add_case("broken");
  }
  // Twelve tests with confirmed and unconfirmed surprises, in a case whose Control holds and in one whose Control does
  // not.
  const std::string names =
      " twofold broken.ControlHolds broken.ReproducesAsDocumented broken.ReproducesOnlyByExec broken.FixHolds";
  const std::string line = "run --continue --jobs 2 --record " + record() + names;

  void write(const std::string& text) const { std::ofstream(record(), std::ios::binary | std::ios::trunc) << text; }

  std::string pipe(const std::string& extension) const {
    const std::string path = cases + "/twofold" + extension;
    mkfifo(path.c_str(), 0600);
    return path;
  }
  // Reads a word from the other side, or writes one; either side may come first.
  void meet(const std::string& path, int how) {
    pollfd one{open(path.c_str(), O_RDWR | O_CLOEXEC), POLLIN, 0};
    char word = 'w';
    if (how == O_RDONLY) {
      EXPECT_EQ(poll(&one, 1, 30000), 1) << "it did not get that far";
      EXPECT_TRUE(one.revents == 0 || read(one.fd, &word, 1) == 1);
    } else {
      EXPECT_EQ(::write(one.fd, &word, 1), 1);
    }
    open_.push_back(one.fd);
  }
  std::vector<int> open_;  // A pipe's contents are lost with its last descriptor.
  void TearDown() override {
    for (const int fd : open_) close(fd);
    FakeTree::TearDown();
  }
  // Replaces a program by one that stops if `when`, a shell's condition, holds, and reports it on the pipe.
  std::string stop_in(const std::string& program, const std::string& when) const {
    fs::remove(cases + "/twofold.begun");  // An earlier pipe may still contain a word.
    const std::string begun = pipe(".begun");
    fs::rename(program, program + ".real");
    std::ofstream(program) << "#!/bin/sh\nif " << when << "; then echo b >'" << begun << "'; exec sleep 600; fi\nexec '"
                           << program << ".real' \"$@\"\n";
    fs::permissions(program, fs::perms::owner_all);
    return begun;
  }
};

TEST_F(Resumed, CutAfterAnyLine_GivesTheVerdictsOfAnUndisturbedRun) {
  const int code = recapture(line).code;
  const auto expected = verdicts(record());
  const std::string whole = text_of(record());
  EXPECT_THAT(expected, testing::Contains("twofold.ReproducesOnlyByExec: different, inconclusive, 2"));
  EXPECT_THAT(expected, testing::Contains("broken.FixHolds: holds, inconclusive, 0"));
  size_t cuts = 0;
  for (size_t cut = 0; cut < whole.size(); cut = whole.find('\n', cut) + 1) {
    write(whole.substr(0, cut));
    const ShellResult said = recapture(line);
    EXPECT_EQ(said.code, code) << said.out;
    EXPECT_EQ(verdicts(record()), expected) << "cut after line " << cuts;
    ++cuts;
  }
  EXPECT_GT(cuts, 15U);
}

TEST_F(Resumed, CutInAnyLine_GivesTheVerdictsOfAnUndisturbedRun) {
  const int code = recapture(line).code;
  const auto expected = verdicts(record());
  const std::string whole = text_of(record());
  size_t number = 0;
  for (size_t at = 0; at < whole.size(); at = whole.find('\n', at) + 1) {
    write(whole.substr(0, (at + whole.find('\n', at)) / 2));
    // Once there is a plan, no other option is needed.
    const ShellResult said = recapture(number < 2 ? line : "run --resume " + record());
    EXPECT_EQ(said.code, code) << said.out;
    EXPECT_EQ(verdicts(record()), expected) << "cut in line " << ++number;
  }
}

TEST_F(Resumed, KilledAtAnyLine_GivesTheVerdictsOfAnUndisturbedRun) {
  recapture(line);
  const auto expected = verdicts(record());
  const std::string whole = text_of(record());
  const auto lines = [&] {
    const std::string text = text_of(record());
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto all = std::count(whole.begin(), whole.end(), '\n');
  const int watch = inotify_init1(IN_CLOEXEC);
  inotify_add_watch(watch, folder.c_str(), IN_CREATE | IN_MODIFY);
  long killed = 0;
  for (long k = 1; k < all; ++k) {
    fs::remove(record());
    CompareContext run(command(line), folder + "/out");
    std::array<char, 4096> events{};
    for (pollfd one{watch, POLLIN, 0}; lines() < k && poll(&one, 1, 30000) == 1;) {
      ASSERT_GT(read(watch, events.data(), events.size()), 0);
    }
    EXPECT_GE(lines(), k) << text_of(folder + "/out");
    if (run.end_by(SIGKILL) == 128 + SIGKILL) ++killed;
    const ShellResult said = recapture(line);
    EXPECT_EQ(verdicts(record()), expected) << "killed at line " << k << "\n" << said.out;
  }
  EXPECT_GT(killed, all / 2) << "most runs were over before they could be killed";
  close(watch);
}

TEST_F(Resumed, FullDiskAtAnyPoint_LosesNothing) {
  recapture(line);
  const auto expected = verdicts(record());
  const size_t blocks = text_of(record()).size() / 512 - 1;  // The digits of the seconds differ between runs.
  for (size_t most = 0; most <= blocks; ++most) {
    fs::remove(record());
    const ShellResult full = shell("ulimit -f " + std::to_string(most) + "; " + command(line));
    EXPECT_EQ(full.code, 7) << full.out;
    EXPECT_THAT(full.out, HasSubstr("r.jsonl: cannot write: File too large")) << most;
    const ShellResult said = recapture(line);
    EXPECT_EQ(verdicts(record()), expected) << "at most " << most << " blocks\n" << said.out;
  }
}

TEST_F(Resumed, SecondRunOfTheRecord_IsRefused) {
  const std::string begun = pipe(".begun"), go_on = pipe(".go"), tests = " twofold.ControlHolds twofold.FixWaits";
  CompareContext first(command("run --record " + record() + tests), folder + "/out");
  meet(begun, O_RDONLY);
  for (const std::string& how : {"run --resume " + record(), "run --continue --record " + record() + tests,
                                 "run --record " + record() + tests}) {
    const ShellResult second = recapture(how);
    EXPECT_EQ(second.code, 2);
    EXPECT_THAT(second.out, HasSubstr("another run is writing this record"));
    EXPECT_TRUE(second.is_one_line()) << second.out;
  }
  meet(go_on, O_WRONLY);
  EXPECT_EQ(first.wait(), 0) << text_of(folder + "/out");
  EXPECT_EQ(verdicts(record()).size(), 3U);
}

// Reading a record releases its lock, and before the first line both would ask the canary and all cases.
TEST_F(Resumed, SecondRunWhileTheFirstStarts_IsRefused) {
  const std::string canary = folder + "/build/canary", tests = " twofold.ControlHolds twofold.FixHolds";
  for (const std::string& path : {record(), folder + "/reports/2.15.0/host.jsonl"}) {
    recapture("run --record " + path + tests);
    const std::string whole = text_of(path);
    std::ofstream(path, std::ios::trunc) << whole.substr(0, whole.rfind("{\"test\""));
    const std::string begun = stop_in(canary, "true");
    CompareContext first(command("run --resume " + path), folder + "/out");
    meet(begun, O_RDONLY);
    fs::rename(canary + ".real", canary);
    const ShellResult second = recapture("run --resume " + path);
    EXPECT_EQ(second.code, 2) << second.out;
    EXPECT_THAT(second.out, HasSubstr("another run is writing this record"));
    EXPECT_EQ(first.end_by(SIGINT), 130);
    EXPECT_EQ(recapture("run --resume " + path).code, 0);
  }
}

TEST_F(Resumed, LockOfAKilledRun_EndsWithIt) {
  const std::string begun = pipe(".begun"), tests = " twofold.ControlHolds twofold.FixWaits";
  pipe(".go");  // Without a writer: the test runs until it is killed.
  CompareContext first(command("run --record " + record() + tests), folder + "/out");
  meet(begun, O_RDONLY);
  fs::remove(begun);
  first.end_by(SIGKILL);
  const ShellResult said =
      recapture("run --resume " + record());  // At once, while workers of the first run may still be ending.
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, Not(HasSubstr("twofold.ControlHolds ")));
}

TEST_F(Resumed, RecordOfADifferentRun_IsRefusedAndUnchanged) {
  const std::string tests = " twofold.ControlHolds twofold.ReproducesAsDocumented";
  recapture("run --record " + record() + tests);
  const std::string whole = text_of(record());
  const std::string cut = whole.substr(0, whole.rfind('\n', whole.size() - 2) + 1);
  const std::string other_code = [&] {
    std::string text = cut;
    return text.replace(text.find(R"("hash":")") + 8, 4, "beef");
  }();
  const std::string other_machine = [&] {
    std::string text = cut;
    return text.replace(text.find(R"("driver":"")") + 10, 0, "999.9");
  }();
  const std::vector<std::tuple<std::string, std::string, std::string>> table = {
      {cut, "--resume " + record() + " twofold.ControlHolds", "is of a run of other tests; without names"},
      {cut, "--continue --record " + record() + " twofold.ControlHolds", "is of a run of other tests"},
      {cut, "--continue --record " + record(), "is of a run of other tests"},
      {whole, "--continue --record " + record() + " twofold.ControlHolds", "is of a run of other tests"},
      {whole, "--continue --record " + record() + tests + " --break value", R"(its break is "nothing", not "value")"},
      {whole, "--continue --record " + record() + tests + " --shard 1/2", R"(its shard is "1/1", not "1/2")"},
      {whole, "--continue --record " + record() + tests + " --require gpu", R"(its --require is none, not "gpu")"},
      {whole, "--continue --record " + record() + tests + " --env A=1", R"(its --env is none, not {"A":"1"})"},
      {whole, "--continue --record " + record() + tests + " --nccl 2.30.7", R"(its --nccl is none, not "2.30.7")"},
      {whole, "--resume " + record(), "is complete; there is nothing to resume"},
      {other_code, "--resume " + record(), "twofold has been built from other code since"},
      {other_machine, "--resume " + record(), "is of another environment, which differs in driver"},
      {cut.substr(0, cut.find('\n') + 1), "--resume " + record(), "has no plan"},
      {"notes, and no record", "--continue --record " + record() + tests, "not a record"},
      {"notes, and no record", "--record " + record() + tests, "exists already"},
  };
  for (const auto& [text, arguments, words] : table) {
    write(text);
    const ShellResult said = recapture("run " + arguments);
    EXPECT_EQ(said.code, 2) << arguments;
    EXPECT_THAT(said.out, HasSubstr(words)) << arguments;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_EQ(text_of(record()), text) << arguments << " changed the record";
  }
}

TEST_F(Resumed, OptionsOfTheFirstRun_ApplyAgain) {
  const ShellResult first = recapture("run --break trigger --shard 2/2 --record " + record() + names);
  const auto expected = verdicts(record());
  const std::string whole = text_of(record());
  write(whole.substr(0, whole.rfind("{\"test\"")));
  const ShellResult said = recapture("run --resume " + record());
  EXPECT_EQ(said.code, first.code) << said.out;
  EXPECT_EQ(verdicts(record()), expected);
}

TEST_F(Resumed, LastLineOfAnInterruptedRun_ResumesIt) {
  std::ofstream(folder + "/build/canary.txt") << R"({"gpus":1,"gpu":"G","driver":"1","canary":"ok"})" << '\n';
  const std::string begun = pipe(".begun"), resume = "--resume " + record(), again = " --revision abc --env B=/b";
  pipe(".go");  // Without a writer.
  CompareContext run(command("run --gpu 0 --env A=1 --env B=/b --revision abc --record " + record() +
                             " twofold.ControlHolds twofold.FixWaits"),
                     folder + "/out");
  meet(begun, O_RDONLY);
  EXPECT_EQ(run.end_by(SIGINT), 130);
  fs::remove(begun);  // From now on it does not wait.
  EXPECT_THAT(text_of(folder + "/out"), HasSubstr("recapture: interrupted; " + resume + again + " runs the rest\n"));
  const ShellResult less = recapture("run " + resume);
  EXPECT_EQ(less.code, 2);
  EXPECT_THAT(less.out, HasSubstr("which differs in --env B, revision; start a new run, or say --revision abc"));
  const ShellResult said = recapture("run " + resume + again);
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_EQ(verdicts(record()).size(), 3U);
}

TEST_F(Resumed, RecordMarkedCompleteThatLacksATest_RunsTheTest) {
  const int code = recapture(line).code;
  const auto expected = verdicts(record());
  std::string text = text_of(record());
  const size_t lost = text.find("{\"test\":\"twofold.FixHolds\"");
  write(text.erase(lost, text.find('\n', lost) + 1 - lost));
  const ShellResult said = recapture("run --resume " + record());
  EXPECT_EQ(said.code, code) << said.out;
  EXPECT_EQ(verdicts(record()), expected);
}

TEST_F(Resumed, CaseRebuiltDuringTheRun_StopsTheRun) {
  add_case("zealous");
  const std::string begun = pipe(".begun"), go_on = pipe(".go");
  CompareContext run(command("run --jobs 1 twofold.FixWaits zealous.FixHolds --record " + record()), folder + "/out");
  meet(begun, O_RDONLY);
  fs::remove(cases + "/zealous");
  add_case("zealous");
  meet(go_on, O_WRONLY);
  EXPECT_EQ(run.wait(), 2);
  EXPECT_THAT(text_of(folder + "/out"), HasSubstr("recapture: zealous: its binary has changed since the run began; the "
                                                  "rest was not run, --resume " +
                                                  record() + " runs it\n"));
  EXPECT_EQ(read_record(record()).cases.count("zealous"), 0U);
  const ShellResult rest = recapture("run --resume " + record());
  EXPECT_EQ(rest.code, 0) << rest.out;
  EXPECT_EQ(read_record(record()).tests.size(), 2U);
}

TEST_F(Resumed, CtrlCBeforeTheFirstTest_EndsWith130) {
  const auto ends = [&](const std::string& begun) {
    CompareContext run(command("run twofold.ControlHolds"), folder + "/out");
    meet(begun, O_RDONLY);
    EXPECT_EQ(run.end_by(SIGINT), 130);
    EXPECT_EQ(text_of(folder + "/out"), "recapture: interrupted; nothing was run\n");
  };
  const std::string canary = folder + "/build/canary", twofold = cases + "/twofold";
  const std::string begun = stop_in(canary, "true");
  ends(begun);
  fs::rename(canary + ".real", canary);
  for (const char* question : {"--describe", "--environment"}) {
    stop_in(twofold, std::string("[ \"$1\" = ") + question + " ]");
    ends(begun);
    fs::rename(twofold + ".real", twofold);
  }
}

TEST_F(Resumed, RecordMovedDuringTheRun_IsNamed) {
  const std::string begun = pipe(".begun"), go_on = pipe(".go");
  CompareContext run(command("run twofold.ControlHolds twofold.FixWaits --record " + record()), folder + "/out");
  meet(begun, O_RDONLY);
  fs::rename(record(), folder + "/elsewhere.jsonl");
  meet(go_on, O_WRONLY);
  EXPECT_EQ(run.wait(), 7);
  EXPECT_THAT(text_of(folder + "/out"), HasSubstr("r.jsonl: the record was moved or deleted while it was written"));
  EXPECT_EQ(verdicts(folder + "/elsewhere.jsonl").size(), 3U) << "finished results are still there";
}

TEST_F(Resumed, RecordChangedByAnotherProgram_IsLeftAlone) {
  const std::string begun = pipe(".begun"), go_on = pipe(".go");
  CompareContext run(command("run twofold.ControlHolds twofold.FixWaits --record " + record()), folder + "/out");
  meet(begun, O_RDONLY);
  std::ofstream(record(), std::ios::app) << "a line of another program\n";
  const std::string text = text_of(record());
  meet(go_on, O_WRONLY);
  EXPECT_EQ(run.wait(), 2);
  EXPECT_THAT(text_of(folder + "/out"), HasSubstr("r.jsonl: somebody else has written to this record"));
  EXPECT_EQ(text_of(record()), text);
}

TEST_F(Resumed, CompleteRecord_StillGivesJUnit) {
  const std::string xml = folder + "/j.xml", run = "run --continue --record " + record() + " twofold.ControlHolds";
  EXPECT_EQ(recapture(run).code, 0);
  EXPECT_EQ(recapture(run + " --junit " + xml).code, 0);
  EXPECT_THAT(text_of(xml), HasSubstr("name=\"ControlHolds\""));
}

class LostCase : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    add_case("gone");
    fs::create_directories(folder + "/cases");
    ASSERT_EQ(shell(command("dev catalogue") + " >'" + catalogue + "'").code, 0);
  }
  void is_missing(const std::string& arguments, const std::string& words) {
    fs::remove(record());
    const ShellResult said = recapture("run --record " + record() + " " + arguments);
    EXPECT_EQ(said.code, 7) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
    EXPECT_EQ(recapture("show " + record()).code, 7) << "read again, it is as it was";
  }
  const std::string catalogue = folder + "/cases/catalogue.json", test = "twofold.ControlHolds gone.ControlHolds",
                    missing =
                        "gone.ControlHolds                                              unavailable  missing "
                        "       not built";
};

TEST_F(LostCase, CaseInTheCatalogue_IsMissing) {
  EXPECT_EQ(recapture("run " + test).code, 0);
  fs::permissions(cases + "/gone", fs::perms::owner_read | fs::perms::owner_write);
  is_missing(test, missing);
  fs::remove(cases + "/gone");
  is_missing(test, missing);
  is_missing("", missing);
  is_missing("--break remedy", "gone.FixHolds ");
  const ShellResult alone = recapture("run gone");
  EXPECT_EQ(alone.code, 7);
  EXPECT_THAT(alone.out, HasSubstr("gone is not built for LibTorch 2.15.0; `ci/suite 2.15.0 -- gone` builds it"));
}

TEST_F(LostCase, TestInTheCatalogue_IsMissing) {
  Json all = Json::parse(text_of(catalogue));
  all[1]["tests"].push_back({{"name", "FixThatWas"}, {"kind", "fix"}, {"fix", "as it was"}});
  std::ofstream(catalogue) << all.dump();
  is_missing("twofold", "twofold.FixThatWas                                             unavailable  missing ");
}

TEST_F(LostCase, CaseOnRecordWithoutACatalogue_IsMissing) {
  const std::string report = folder + "/reports/2.15.0/host.jsonl";
  EXPECT_EQ(recapture("run --record " + report + " " + test).code, 0);
  fs::remove(catalogue);
  fs::remove(cases + "/gone");
  is_missing(test, missing);
}

TEST_F(LostCase, MissingShard_MakesTheMergeIncomplete) {
  for (const char* shard : {"1/3", "2/3", "1/2"}) {
    recapture("run " + test + " --shard " + shard + " --record " + folder + "/" + shard[0] + shard[2]);
  }
  const std::string out = folder + "/m.jsonl ", a = folder + "/13 ", b = folder + "/23 ", of_two = folder + "/12 ";
  const ShellResult one = recapture("dev merge " + out + a);
  EXPECT_EQ(one.code, 6);
  EXPECT_THAT(one.out, HasSubstr("is incomplete: shard 2/3 is missing; shard 3/3 is missing"));
  const ShellResult shown = recapture("show " + out);
  EXPECT_EQ(shown.code, 6);
  EXPECT_THAT(shown.out, HasSubstr("1 as documented, 1 not run"));
  fs::remove(folder + "/m.jsonl");
  EXPECT_EQ(recapture("dev merge " + out + a + b).code, 0) << "the third has nothing to run";
  EXPECT_EQ(recapture("show " + out).code, 0);
  for (const auto& [parts, words] :
       std::vector<std::pair<std::string, std::string>>{{a + a, "it is shard 1/3, and so is"},
                                                        {b + of_two, "it is shard 1/2, and"},
                                                        {out, "it is not a shard of a run"}}) {
    const ShellResult said = recapture("dev merge " + folder + "/none " + parts);
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.out, HasSubstr(words));
    EXPECT_FALSE(fs::exists(folder + "/none"));
  }
  recapture("run twofold.FixHolds " + test + " --shard 3/3 --record " + folder + "/33");
  recapture("run twofold.FixHolds gone.FixHolds --shard 2/3 --record " + folder + "/23b");
  EXPECT_THAT(recapture("dev merge " + folder + "/none " + a + folder + "/23b").out, HasSubstr("had another plan"));
}

}  // namespace
}  // namespace recapture

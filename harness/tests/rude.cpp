// A case whose tests do to their runner and to each other what no test should. Only the harness's tests run it.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness/case/case.h"
#include "harness/verdict/race_rule.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

using namespace recapture;
namespace fs = std::filesystem;

namespace {
// Under another name, such as gpu_race, it describes itself otherwise.
bool is_named(const std::string& start) { return std::string(program_invocation_short_name).rfind(start, 0) == 0; }
}  // namespace

RECAPTURE_CASE = {
    .title = "A case is rude",
    .sources = {{"none", "none"}},
    .documented = "documented",
    .nature = is_named("gpu_race") ? Nature::Race : Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"threads"},
    .needs = is_named("gpu") ? "gpu" : "host",
    .deadline_s = 2,
    .connections = is_named("gpu_concurrent") ? 8 : 1,
};

namespace {
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}
// Writes to the pipe of the calling test that we have got here.
void tell() {
  const int pipe = open((variable("RECAPTURE_TEST") + "/pipe").c_str(), O_WRONLY);
  [[maybe_unused]] const ssize_t written = write(pipe, "h", 1);
  close(pipe);
}
[[noreturn]] void wait_for_ever() {
  for (;;) pause();
}
// In a process that has left its parent's session and has no parent left.
void daemonise(int generations) {
  if (fork() != 0) return;
  setsid();
  if (generations > 1) daemonise(generations - 1);
  if (fork() != 0) _exit(0);
  wait_for_ever();
}
}  // namespace

TEST(Rude, ControlHolds) {}

TEST(Rude, ControlNamesItsEnvironment) {
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const size_t equals = text.find('=');
    record("env." + text.substr(0, equals), text.substr(equals + 1));
  }
}
// Writes a file wherever it can, and reports where it found one already. Then it makes its folder unreadable.
TEST(Rude, ControlWritesEverywhere) {
  std::string found;
  for (const char* name :
       {"HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CUDA_CACHE_PATH",
        "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_HOME", "TORCH_EXTENSIONS_DIR"}) {
    const std::string folder = variable(name), file = folder + "/left";
    if (fs::exists(file)) found += std::string(" ") + name;
    fs::create_directories(folder);
    std::ofstream(file) << "left";
    EXPECT_TRUE(fs::exists(file)) << name;
  }
  if (fs::exists("left")) found += " the working folder";
  std::ofstream("left") << "left";
  fs::create_directories(variable("HOME") + "/closed/below");
  chmod((variable("HOME") + "/closed").c_str(), 0);
  record("found", found);
  record("wrote", "in " + variable("TMPDIR") + "/left");
  std::string home;
  if (FILE* out = popen("printf %s \"$HOME\"", "r")) {
    char part[4096];
    home.assign(part, std::fread(part, 1, sizeof part, out));
    pclose(out);
  }
  EXPECT_EQ(home, variable("HOME")) << "of a child";
}
TEST(Rude, ControlWritesEverywhereAgain) {
  EXPECT_FALSE(fs::exists(variable("HOME") + "/left"));
  EXPECT_FALSE(fs::exists("left"));
}
TEST(Rude, ReproducesAndHangs) {
  std::ofstream(variable("HOME") + "/left") << "left";
  tell();
  wait_for_ever();
}
// Healthy, which is a surprise; its confirmation hangs.
TEST(Rude, ReproducesAndHangsOnceMore) {
  const std::string mark = variable("RECAPTURE_TEST") + "/once";
  if (fs::exists(mark)) {
    tell();
    wait_for_ever();
  }
  std::ofstream(mark) << "once";
  REPRODUCES("healthy", "documented", "healthy");
}
TEST(Rude, FixStopsItsServer) {
  kill(getppid(), SIGSTOP);
  wait_for_ever();
}
TEST(Rude, FixKillsItsServer) {
  std::ifstream comm("/proc/" + std::to_string(getppid()) + "/comm");
  std::string name;
  comm >> name;
  if (name != "recapture") kill(getppid(), SIGKILL);  // Not what runs a test by plain exec.
}
TEST(Rude, FixStopsWhatRunsIt) {
  std::ifstream stat("/proc/" + std::to_string(getppid()) + "/stat");
  std::string id, name, state;
  pid_t parent = 0;
  stat >> id >> name >> state >> parent;
  if (name == "(recapture)") parent = 0;  // By plain exec there is no server in between.
  kill(parent > 0 ? parent : getppid(), SIGSTOP);
}
TEST(Rude, FixMovesToAnotherGroup) {
  setpgid(0, getpgid(getppid()));
  for (;;) continue;
}
TEST(Rude, FixLeavesDaemonsOfDaemons) { daemonise(3); }
TEST(Rude, ControlHasManyFacts) {
  for (int i = 0; i < 150000; ++i) record("f" + std::to_string(i), "");
}
// A call other than the documented one, whose event is dropped because too many follow.
TEST(Rude, ReproducesAmidAFlood) {
  record("culprit", R"({"api":"cuEventQuery","thread":"other"})");
  for (int i = 0; i < 1000; ++i) record("fact", std::string(4000, 'x'));
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES("documented", "documented", "healthy");
}
TEST(Rude, ReproducesWithHitsAlone) { record("hits", "3"); }
TEST(Rude, ReproducesWithWordsForNumbers) {
  record("hits", "three");
  record("tries", "99999999999999");
}
// A race that leaves the number of its tries to the runner.
TEST(Rude, ReproducesByTheRule) {
  record(kRaceRuleFact, kRaceRule);
  REPRODUCES_AT_RATE(4, 8);
}
TEST(Rude, ReproducesNeverByTheRule) {
  record(kRaceRuleFact, kRaceRule);
  REPRODUCES_AT_RATE(0, 8);
}
// In some processes only, by their numbers.
TEST(Rude, ReproducesNowAndThenByTheRule) {
  record(kRaceRuleFact, kRaceRule);
  REPRODUCES_AT_RATE(getpid() % 2, 1);
}
TEST(Rude, FixCrashesByTheRule) {
  record(kRaceRuleFact, kRaceRule);
  record("hits", "0");
  record("tries", "8");
  raise(SIGSEGV);
}
TEST(Rude, ReproducesWithACulpritOfNumbers) {
  record("culprit", R"({"api":7,"thread":[[[[]]]]})");
  REPRODUCES("documented", "documented", "healthy");
}
TEST(Rude, ReproducesTwice) {
  REPRODUCES("documented", "documented", "healthy");
  REPRODUCES("documented", "documented", "healthy");
}
TEST(Rude, FixEndsTwice) { record("ended", "passed"); }
TEST(Rude, ReproducesAfterItsEnd) {
  record("ended", "passed");
  record("seen", "documented");
}
TEST(Rude, ControlIsFollowedByFacts) {
  record("ended", "passed");
  record("another", "thread");
  raise(SIGKILL);
}
TEST(Rude, ReproducesAndCrashes) { raise(SIGSEGV); }
TEST(Rude, FixSaysPassOnly) { record("ed", "passed, edited in " + variable("HOME")); }
TEST(Rude, ControlBreaks) { EXPECT_EQ(1, 2); }

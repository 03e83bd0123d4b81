// A case that misbehaves in every way that a case can. Only the harness's tests run it.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "harness/case/case.h"

using namespace recapture;

namespace {
// A copy of this binary with this prefix declares itself a race,
bool is_race() { return std::string(program_invocation_short_name).rfind("race", 0) == 0; }
// and one named needs_gpu_python declares that it needs "gpu python".
const char* needs() {
  static const std::string kNeeds = "needs_";
  static std::string words = program_invocation_short_name;
  if (words.rfind(kNeeds, 0) != 0) return "host";
  std::replace(words.begin(), words.end(), '_', ' ');
  return words.c_str() + kNeeds.size();
}
}  // namespace

RECAPTURE_CASE = {
    .title = "A case lies",
    .sources = {{"none", "none"}},
    .documented = "documented",
    .nature = is_race() ? Nature::Race : Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"threads"},
    .needs = needs(),
    .deadline_s = 2,
    .fixes = {{"FixIsNotApplicable", "Call it.", "<2.7"}, {"FixIsSkipped", "Skip it."}},
};

namespace {
// Writes to the pipe named by RECAPTURE_LIAR_PIPE that the test has got here. Opening it waits for the reader.
void tell(const char* what) {
  const char* path = std::getenv("RECAPTURE_LIAR_PIPE");
  if (path == nullptr) return;
  const int pipe = open(path, O_WRONLY);
  [[maybe_unused]] const ssize_t written = write(pipe, what, 1);
  close(pipe);
}
[[noreturn]] void wait_for_ever() {
  for (;;) pause();
}
std::string now_ms() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}
pid_t parent_of(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string id, name, state;
  pid_t parent = 0;
  stat >> id >> name >> state >> parent;
  return parent;
}
}  // namespace

TEST(Liar, ControlHolds) { EXPECT_TRUE(true); }
TEST(Liar, ControlBreaks) { EXPECT_EQ(1, 2); }
TEST(Liar, ReproducesAsDocumented) {
  std::string seen = "healthy";
  TRIGGER(seen = "documented");
  REPRODUCES(seen, "documented", "healthy");
}
TEST(Liar, ReproducesHealthy) { REPRODUCES("healthy", "documented", "healthy"); }
TEST(Liar, ReproducesSomethingElse) { REPRODUCES("else", "documented", "healthy"); }
TEST(Liar, ReproducesAmbiguously) { REPRODUCES("both", "b*", "*h"); }
TEST(Liar, ReproducesWithAnotherCall) {
  record("culprit", R"({"api":"cuEventQuery","thread":"other"})");
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES("documented", "documented", "healthy");
}
TEST(Liar, ReproducesBesideABrokenAssertion) {
  EXPECT_EQ(1, 2);
  REPRODUCES("documented", "documented", "healthy");
}
TEST(Liar, ReproducesAtARate) { REPRODUCES_AT_RATE(3, 10); }
TEST(Liar, ReproducesNever) { REPRODUCES_AT_RATE(0, 10); }
TEST(Liar, ReproducesAndCrashes) { raise(SIGSEGV); }
TEST(Liar, ReproducesThenCrashesInAProbe) {
  REPRODUCES("documented", "documented", "healthy");
  record("probing", "trim");
  raise(SIGSEGV);
}
TEST(Liar, ReproducesAndHangs) {
  tell("h");
  wait_for_ever();
}
TEST(Liar, ReproducesAndLeavesSilently) { _exit(0); }
TEST(Liar, ReproducesWithoutAWord) {}
TEST(Liar, FixByItsRemedy) {
  int value = 22;
  REMEDY(value = 14);
  EXPECT_EQ(value, 14);
}
TEST(Liar, FixWithoutNeedOfItsRemedy) {
  int value = 14;
  REMEDY(value = 14);
  EXPECT_EQ(value, 14);
}
TEST(Liar, FixFloodsItsOutput) {
  const std::string block(size_t{1} << 16, 'x');
  for (int i = 0; i < 512; ++i) {  // 32 MiB.
    [[maybe_unused]] const ssize_t written = write(1, block.data(), block.size());
  }
}
TEST(Liar, FixLeavesChildrenBehind) {
  for (const bool leaves_the_group : {false, true}) {
    const pid_t child = fork();
    if (child != 0) {
      record(leaves_the_group ? "orphan" : "child", std::to_string(child));
      continue;
    }
    if (leaves_the_group) setsid();
    wait_for_ever();
  }
}
TEST(Liar, ControlTakesItsTime) {
  record("began_ms", now_ms());
  usleep(200 * 1000);
  record("left_ms", now_ms());
}
// Forked by a server, whose parent runs the tests of a case.
TEST(Liar, ControlKillsItsRunner) {
  if (const char* signal = std::getenv("RECAPTURE_LIAR_KILLS")) kill(parent_of(getppid()), std::atoi(signal));
}
TEST(Liar, FixHangsBesideAnOrphan) {
  if (std::getenv("RECAPTURE_LIAR_PIPE") == nullptr) return;
  if (fork() == 0) {
    setsid();
    wait_for_ever();
  }
  tell("h");
  wait_for_ever();
}
TEST(Liar, FixIsSkipped) { GTEST_SKIP() << "nothing here"; }
TEST(Liar, FixIsNotApplicable) { NOT_APPLICABLE("no such member"); }

class LiarSetUp : public ::testing::Test {
 protected:
  void SetUp() override { FAIL() << "set-up fails"; }
};
TEST_F(LiarSetUp, ReproducesNothing) { REPRODUCES("documented", "documented", "healthy"); }

// A case whose results differ between a server and plain exec, and which waits where its test wants to disturb the run.
// Only the harness's tests run it; a copy named broken… has a Control that fails, and one named steady… has equal
// results. Files beside it change its behaviour: with .old an old release, with .away a missing requirement.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A case is of two minds",
    .sources = {{"none", "none"}},
    .documented = "documented",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"threads"},
    .needs = "host",
    .deadline_s = 60,
    .effect = Effect::Raises,
};

namespace {

bool is_served() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string words(std::istreambuf_iterator<char>(file), {});
  return words.find("--serve=") != std::string::npos;
}

std::string beside_us(const char* extension) {
  std::array<char, 4096> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return "";
  return path.data() + std::string(extension);
}

}  // namespace

TEST(Twofold, ControlHolds) {
  EXPECT_NE(std::string(program_invocation_short_name).rfind("broken", 0), 0U) << "its name selects a failing Control";
}
TEST(Twofold, ReproducesAsDocumented) { REPRODUCES("documented", "documented", "healthy"); }
TEST(Twofold, ReproducesOnlyByExec) {
  const bool is_steady = std::string(program_invocation_short_name).rfind("steady", 0) == 0;
  REPRODUCES(is_served() && !is_steady ? "else" : "documented", "documented", "healthy");
}
TEST(Twofold, ReproducesHealthy) { REPRODUCES("healthy", "documented", "healthy"); }
TEST(Twofold, ReproducesInOldReleases) {
  if (access(beside_us(".away").c_str(), F_OK) == 0) GTEST_SKIP() << "a requirement is missing";
  const bool is_old =
      beside_us("").find("/2.6.0/") != std::string::npos || access(beside_us(".old").c_str(), F_OK) == 0;
  REPRODUCES(is_old ? "documented" : "healthy", "documented", "healthy");
}
TEST(Twofold, FixHolds) { EXPECT_TRUE(true); }
// If there is a pipe beside the binary, reports on it that the test has begun and waits for a word on the other one.
TEST(Twofold, FixWaits) {
  const int begun = open(beside_us(".begun").c_str(), O_WRONLY);
  if (begun < 0) return;
  EXPECT_EQ(write(begun, "b", 1), 1);
  close(begun);
  const int go_on = open(beside_us(".go").c_str(), O_RDONLY);
  char word = 0;
  EXPECT_EQ(read(go_on, &word, 1), 1);
}

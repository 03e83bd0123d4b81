// A case with ranks that end in every way that a rank can. Only the harness's tests run it.

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include "fixtures/ranks/ranks.h"
#include "harness/case/case.h"

using namespace recapture;

namespace {
// A copy of this binary with such a name needs GPUs.
bool starts(const char* word) { return std::string(program_invocation_short_name).rfind(word, 0) == 0; }
}  // namespace

RECAPTURE_CASE = {
    .title = "A case has ranks",
    .sources = {{"none", "none"}},
    .documented = "documented",
    .nature = starts("race") ? Nature::Race : Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"threads"},
    .needs = starts("one_gpu") || starts("race") ? "gpu"
             : starts("all_gpus")                ? "ranks"
                                                 : "host",
    .deadline_s = 4,
};

namespace {

[[noreturn]] void wait_for_ever() {
  for (;;) pause();
}

void wait_for(const std::string& file) {
  while (access(file.c_str(), F_OK) != 0) usleep(1000);
}

// The result of two ranks if rank 1 does this once rank 0 has reported its number and waits.
template <class F>
std::string if_rank_1(F does) {
  return on_ranks(2, [&](const Rank& rank) -> std::string {
    record("pid", std::to_string(getpid()));
    const std::string told = rank.folder + "/told";
    if (rank.number == 0) {
      std::ofstream{told};
      wait_for_ever();
    }
    wait_for(told);
    does();
    return "done";
  });
}

}  // namespace

TEST(Ranked, ControlAllSeeTheSame) {
  record("parent", std::to_string(getpid()));
  EXPECT_EQ(on_ranks(3, [](const Rank& rank) { return std::to_string(rank.of); }), "3");
  EXPECT_EQ(this_rank(), nullptr);
}
TEST(Ranked, ControlEachSeesItsOwn) {
  EXPECT_EQ(on_ranks(2, [](const Rank& rank) { return std::to_string(rank.number); }), "rank 0: 0; rank 1: 1");
}
// Each waits for the other's file: two processes, one folder.
TEST(Ranked, ControlTheyMeetInTheirFolder) {
  std::string folder;
  EXPECT_EQ(on_ranks(2,
                     [](const Rank& rank) -> std::string {
                       record("folder", rank.folder);
                       std::ofstream(rank.folder + "/" + std::to_string(rank.number)) << "here";
                       wait_for(rank.folder + "/" + std::to_string(1 - rank.number));
                       return "met";
                     }),
            "met");
}
TEST(Ranked, ControlVariablesOfRanks) {
  EXPECT_EQ(on_ranks(1, [](const Rank&) { return std::string(std::getenv("RANKED")); }, {{"RANKED", "yes"}}), "yes");
}
TEST(Ranked, ReproducesInBothOfThem) {
  const std::string seen = on_ranks(2, [](const Rank& rank) -> std::string {
    std::string found = "healthy";
    TRIGGER(found = "documented");
    if (rank.number == 1) record("culprit", R"({"api":"cuEventQuery","thread":"other"})");
    record("exception", "Type" + std::to_string(rank.number));
    return found;
  });
  RAISED_BY("cuEventQuery");
  REPRODUCES(seen, "documented", "healthy");
}
TEST(Ranked, FixByItsRemedyInARank) {
  EXPECT_EQ(on_ranks(2,
                     [](const Rank&) -> std::string {
                       std::string value = "ill";
                       REMEDY(value = "well");
                       return value;
                     }),
            "well");
}
TEST(Ranked, ControlOneAborts) {
  EXPECT_EQ(if_rank_1([] { std::abort(); }), "rank 1 died first: signal 6");
}
TEST(Ranked, ControlOneCrashes) {
  EXPECT_EQ(if_rank_1([] { raise(SIGSEGV); }), "rank 1 died first: signal 11");
}
TEST(Ranked, ControlOneIsKilled) {
  EXPECT_EQ(if_rank_1([] { raise(SIGKILL); }), "rank 1 died first: signal 9");
}
TEST(Ranked, ControlOneExits) {
  EXPECT_EQ(if_rank_1([] { _exit(3); }), "rank 1 died first: exit status 3");
}
TEST(Ranked, ControlOneExitsAsIfAllWereWell) {
  EXPECT_EQ(if_rank_1([] { _exit(0); }), "rank 1 died first: exit status 0");
}
TEST(Ranked, ControlOneStops) {
  const auto body = [](const Rank& rank) -> std::string {
    record("pid", std::to_string(getpid()));
    if (rank.number == 1) raise(SIGSTOP);
    return "done";
  };
  EXPECT_EQ(on_ranks(2, body, {}, 2.5), "did not come back: rank 1");
}
TEST(Ranked, ControlNoneComesBack) {
  const auto body = [](const Rank&) -> std::string {
    record("pid", std::to_string(getpid()));
    wait_for_ever();
  };
  EXPECT_EQ(on_ranks(2, body, {}, 2.5), "did not come back: rank 0, rank 1");
}
TEST(Ranked, FixThrows) {
  EXPECT_EQ(on_ranks(2,
                     [](const Rank& rank) -> std::string {
                       if (rank.number == 1) throw std::runtime_error("thrown\nin two lines");
                       return "done";
                     }),
            "rank 0: done; rank 1: exception: thrown");
}
TEST(Ranked, FixFailsInARank) {
  EXPECT_EQ(on_ranks(2,
                     [](const Rank& rank) -> std::string {
                       EXPECT_EQ(rank.number, 0);
                       return "done";
                     }),
            "done");
}
TEST(Ranked, ControlAChildOfARankGoesWithIt) {
  EXPECT_EQ(on_ranks(1,
                     [](const Rank&) -> std::string {
                       const pid_t child = fork();
                       if (child == 0) wait_for_ever();
                       record("child", std::to_string(child));
                       return "done";
                     }),
            "done");
}
// Longer than the runner's limit for the test.
TEST(Ranked, ControlHangsBeyondItsDeadline) {
  on_ranks(
      2,
      [](const Rank&) -> std::string {
        record("pid", std::to_string(getpid()));
        wait_for_ever();
      },
      {}, 60);
}
TEST(Ranked, ControlMulticastIsOff) {
  EXPECT_EQ(on_ranks(1, [](const Rank&) { return "on: " + multicast_on(); },
                     {{"NCCL_NVLS_ENABLE", "1"}, {"NVSHMEM_DISABLE_NVLS", "0"}}),
            "on: ");
}
TEST(Ranked, ControlMulticastThatIsOnIsSeen) {
  EXPECT_EQ(on_ranks(1,
                     [](const Rank&) {
                       setenv("NCCL_NVLS_ENABLE", "1", 1);
                       unsetenv("NVSHMEM_DISABLE_NVLS");
                       return multicast_on();
                     }),
            "NCCL_NVLS_ENABLE=1, NVSHMEM_DISABLE_NVLS is not set");
}
TEST(Ranked, ControlSeesGpus) {
  const char* escape_control = std::getenv("CUDA_VISIBLE_DEVICES");
  record("visible", escape_control ? escape_control : "");
}

// Another NCCL instead of LibTorch's own, as with `run --nccl`.
#include "harness/model/expectations.h"
#include "harness/store/result_matrix.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/stand_in.h"

namespace recapture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A case that loads like LibTorch for CUDA 13. It uses a preloaded NCCL, except 2.29.2, and fails in the loader with
// 2.27.7.
class ChosenNccl : public StandIn {
 protected:
  void SetUp() override {
    StandIn::SetUp();
    add("rude", "rude");
    for (const char* library : {"nccl-cuda13/2.30.4/libnccl.so.2", "nccl-cuda13/2.30.7/libnccl.so.2",
                                "nccl-cuda13/2.29.2/libnccl.so.2", "nccl-cuda13/2.27.7/libnccl.so.2",
                                "nccl-cuda12/2.21.5/libnccl.so.2", "cuda-runtime/13.0.96/libcudart.so.13"}) {
      const std::filesystem::path path = folder + "/cache/" + library;
      std::filesystem::create_directories(path.parent_path());
      std::filesystem::copy(RECAPTURE_BUILD "/harness/tests/libslow_disk.so", path);
    }
    std::filesystem::rename(cases() + "/rude", folder + "/rude");
    says(R"(echo "{\"libtorch\":\"2.15.0\",\"cuda_runtime\":\"13.0\",\"nccl\":\"$nccl\"}")");
  }
  void says(const std::string& of_its_environment) const {
    script("build/2.15.0/cases/lies/rude", R"(
nccl=2.28.9
case "$1$LD_PRELOAD" in
  --environment*nccl-cuda13/2.30.7/*) nccl=2.30.7 ;;
  --environment*nccl-cuda13/2.27.7/*) echo "$0: symbol lookup error: libtorch_cuda.so: undefined symbol: ncclNew" >&2
                                      exit 127 ;;
  --environment*) ;;
  *) exec ')" + folder + R"(/rude' "$@" ;;
esac
)" + of_its_environment);
  }
  ShellResult chosen(const std::string& options) const {
    std::filesystem::remove(record());
    return with_cache("run rude.ControlNamesItsEnvironment --record " + record() + " " + options);
  }
  ShellResult with_cache(const std::string& arguments) const {
    return shell("RECAPTURE_CACHE='" + folder + "/cache' " + command(arguments));
  }
  std::string preloaded() const { return fact_of("rude.ControlNamesItsEnvironment", "env.LD_PRELOAD"); }
};

TEST_F(ChosenNccl, ChosenVersion_IsPreloadedAndAMachineOfItsOwn) {
  for (const char* how : {"", " --exec"}) {
    const ShellResult said = chosen(std::string("--nccl 2.30") + how);
    EXPECT_EQ(said.code, 0) << said.out;
    EXPECT_THAT(said.out, HasSubstr(", NCCL 2.30.7"));
    EXPECT_THAT(preloaded(), HasSubstr("nccl-cuda13/2.30.7/libnccl.so.2"));  // The newest of 2.30.
    const Record run = read_record(record());
    EXPECT_EQ(run.env("nccl"), "2.30.7");
    EXPECT_EQ(run.env("nccl_by"), "preload");
    EXPECT_EQ(run.machine(), "2.15.0, no GPU, NCCL 2.30.7");
    EXPECT_EQ(report_path(run.environment), "2.15.0/host.nccl-2.30.7.jsonl");
  }
  EXPECT_EQ(chosen("").code, 0);
  const Record own = read_record(record());
  EXPECT_EQ(own.env("nccl"), "2.28.9");
  EXPECT_FALSE(own.environment.json().contains("nccl_by"));
  EXPECT_EQ(own.machine(), "2.15.0, no GPU");
}

TEST_F(ChosenNccl, WithAChosenCudaRuntime_BothArePreloaded) {
  const ShellResult said = chosen("--nccl 2.30.7 --cuda-runtime 13.0 --env A=1");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(preloaded(), HasSubstr("cuda-runtime/13.0.96/libcudart.so.13:"));
  EXPECT_THAT(preloaded(), HasSubstr("nccl-cuda13/2.30.7/libnccl.so.2"));
  const Record run = read_record(record());
  EXPECT_EQ(run.machine(), "2.15.0, no GPU, A=1, CUDA runtime 13.0, NCCL 2.30.7");
  EXPECT_THAT(report_path(run.environment),
              ::testing::MatchesRegex("2.15.0/host.A-1-....\\.cuda-13.0.nccl-2.30.7.jsonl"));
}

TEST_F(ChosenNccl, ResumedRun_KeepsTheChosenVersion) {
  ASSERT_EQ(with_cache("run rude.ControlNamesItsEnvironment rude.ControlHolds --nccl 2.30.7 --record " + record()).code,
            0);
  std::istringstream whole(text_of(record()));
  std::string cut, line;
  while (std::getline(whole, line)) {
    if (line.find(R"("ControlNamesItsEnvironment","ending")") == line.npos &&
        line.find(R"("test":"rude.ControlNamesItsEnvironment")") == line.npos && line.find(R"({"end")") != 0) {
      cut += line + "\n";
    }
  }
  std::ofstream(record()) << cut;
  ASSERT_TRUE(line_of("rude.ControlNamesItsEnvironment").empty());
  const ShellResult said = with_cache("run --resume " + record());
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(preloaded(), HasSubstr("nccl-cuda13/2.30.7/libnccl.so.2"));
}

TEST_F(ChosenNccl, VersionThatLacksASymbol_IsUnavailableAndNamesIt) {
  const ShellResult said = chosen("--nccl 2.27.7");
  EXPECT_EQ(said.code, 4) << said.out;
  EXPECT_THAT(said.out, HasSubstr("NCCL has no ncclNew, which LibTorch 2.15.0 needs"));
  EXPECT_EQ(line_of("rude.ControlNamesItsEnvironment").value("ending", ""), "not started");
  EXPECT_EQ(read_record(record()).env("nccl"), "2.27.7");
}

TEST_F(ChosenNccl, WrongOrAbsentVersion_IsOneLineWithItsExitCode) {
  for (const auto& [version, code, words] :
       {std::tuple{"2.31.2", 7, "nccl-cuda13; `tools/libtorch 2.15.0 --nccl 2.31.2` gets it"},
        {"2.21.5", 7, "NCCL 2.21.5 is not in "},  // Exists for CUDA 12, which this LibTorch does not use.
        {"2.29.2", 7, "LibTorch 2.15.0 does not use NCCL 2.29.2: it loaded 2.28.9"},
        {"2", 2, "--nccl takes a version such as 2.30.7, not '2'"},
        {"newest", 2, "not 'newest'"}}) {
    const ShellResult said = chosen(std::string("--nccl ") + version);
    EXPECT_EQ(said.code, code) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_FALSE(std::filesystem::exists(record()));
  }
  says(R"(echo '{"libtorch":"2.15.0","cuda_runtime":"13.0"}')");
  const ShellResult none = chosen("--nccl 2.30.7");
  EXPECT_EQ(none.code, 7);
  EXPECT_THAT(none.out, HasSubstr("LibTorch 2.15.0 does not use NCCL 2.30.7: it has none"));
}

Record run_with(const Json& more) {
  Record run;
  run.environment = fake_environment(more);
  run.path = more.dump();
  return run;
}

TEST(NcclOfARecord, ChosenVersion_IsAnotherMachineAndTheOwnOneIsNot) {
  const Record old = run_with(Json::object()), own = run_with({{"nccl", "2.28.9"}}),
               newer = run_with({{"nccl", "2.30.7"}, {"nccl_by", "preload"}});
  const ResultMatrix board({old, own, newer}, {});
  EXPECT_EQ(board.machine_of(old), "2.15.0, G");
  EXPECT_EQ(board.machine_of(own), "2.15.0, G") << "older records lack a release's own NCCL";
  EXPECT_EQ(board.machine_of(newer), "2.15.0, G, NCCL 2.30.7");
}

TEST(NcclOfARecord, RangeOfAnExpectation_CoversOnlyVersionsInIt) {
  Where where;
  where.nccl = ">=2.23, <2.28";
  EXPECT_TRUE(where.covers(run_with({{"nccl", "2.27.7"}})));
  EXPECT_FALSE(where.covers(run_with({{"nccl", "2.28.9"}})));
  EXPECT_FALSE(where.covers(run_with(Json::object()))) << "the version is unknown";
}

// Two releases, one of them also with another NCCL.
TEST_F(ChosenNccl, Compare_UsesTheOwnVersionUnlessAnotherIsAskedFor) {
  const auto write = [&](const std::string& name, const std::string& seen, const Json& more) {
    Json environment = fake_environment({{"release", name.substr(0, name.find('/'))}});
    environment.update(more);
    FakeRecord{environment, {fake_failure("c.Reproduces", seen)}}.write(folder + "/reports/" + name);
  };
  write("2.6.0/g.jsonl", "ok", Json::object());
  write("2.15.0/g.jsonl", "ok", {{"nccl", "2.28.9"}});
  write("2.15.0/g.nccl-2.27.7.jsonl", "D",
        {{"nccl", "2.27.7"}, {"nccl_by", "preload"}, {"volatile", {{"started", "2026-01-02T00:00:00Z"}}}});
  const std::string line = "compare 2.6.0 2.15.0 --records " + folder + "/reports";
  const ShellResult own = recapture(line + " --all");
  EXPECT_THAT(own.out, HasSubstr("2.15.0 also ran with another NCCL than its own; --nccl chooses of 2.27.7, its own"));
  EXPECT_THAT(own.out, Not(HasSubstr("breaks programs that run today")));
  const ShellResult other = recapture(line + " --nccl 2.27.7");
  EXPECT_THAT(other.out, HasSubstr("breaks programs that run today"));
  const ShellResult none = recapture(line + " --nccl 2.31.2");
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.out, HasSubstr("neither side ran with NCCL 2.31.2"));
}

}  // namespace
}  // namespace recapture

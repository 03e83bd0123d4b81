// A test has only its own folders, and only permitted variables of its runner.
#include <re2/re2.h>

#include "harness/run/process.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/stand_in.h"

namespace recapture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Hermetic : public StandIn {
 protected:
  void SetUp() override {
    StandIn::SetUp();
    add("rude", "rude");
  }
  std::string seen(const std::string& variable) const {
    return fact_of("rude.ControlNamesItsEnvironment", "env." + variable);
  }
  // Runs a test with these variables.
  ShellResult with(const std::string& variables, const std::string& options = "") {
    std::filesystem::remove(record());
    return shell(variables + " " + command("run rude.ControlNamesItsEnvironment --record " + record() + " " + options));
  }
};

TEST_F(Hermetic, FilesOfAnotherTest_AreNotFound) {
  for (const char* how : {"", "--exec"}) {
    for (int night = 0; night < 2; ++night) {
      std::filesystem::remove(record());
      const ShellResult said = recapture(
          "run rude.ControlWritesEverywhere rude.ControlWritesEverywhereAgain --record " + record() + " " + how);
      EXPECT_EQ(said.code, 0) << said.out;
      EXPECT_EQ(fact_of("rude.ControlWritesEverywhere", "found"), "") << how;
      EXPECT_EQ(fact_of("rude.ControlWritesEverywhere", "wrote"), "in (scratch)/tmp/left") << how;
      EXPECT_THAT(files_left(), IsEmpty()) << how;
    }
  }
  EXPECT_FALSE(std::filesystem::exists("left"));
}

TEST_F(Hermetic, KilledTest_LeavesNoFolder) {
  recapture("run rude.ReproducesAndCrashes rude.FixMovesToAnotherGroup --record " + record());
  EXPECT_THAT(files_left(), IsEmpty());
}

TEST_F(Hermetic, FolderOfAKilledRun_IsRemovedByTheNextRun) {
  const pid_t runner = start("run rude.ReproducesAndHangs --record " + record());
  ASSERT_EQ(files_left().size(), 1U);
  const std::string other = folder + "/tmp/recapture-run-of-somebody";
  std::filesystem::create_directories(other);  // Without a lock it is not recognised as a leftover.
  EXPECT_EQ(recapture("run rude.ControlHolds --record " + folder + "/beside").code, 0);
  EXPECT_EQ(files_left().size(), 2U) << "the folder of a running run stays";
  kill(runner, SIGKILL);
  waitpid(runner, nullptr, 0);
  wait_until_none_is_left();  // Its worker kills what the test left.
  EXPECT_EQ(files_left().size(), 2U);
  EXPECT_EQ(recapture("run rude.ControlHolds --record " + folder + "/after").code, 0);
  EXPECT_EQ(files_left(), std::vector<std::string>{other});
}

TEST_F(Hermetic, VariablesOfTheRunner_ReachATestOnlyIfAllowed) {
  for (const char* how : {"", "--exec"}) {
    const ShellResult said = with(
        "CUDA_LAUNCH_BLOCKING=1 TORCH_NCCL_AVOID_RECORD_STREAMS=1 LD_PRELOAD= NVIDIA_TF32_OVERRIDE=0 NO_OF_OURS=1 "
        "PYTORCH_CUDA_ALLOC_CONF=x http_proxy=http://x PYTHONPATH=/x GTEST_COLOR=yes "
        "CUDA_VISIBLE_DEVICES=GPU-1 NVIDIA_VISIBLE_DEVICES=all SLURM_JOB_ID=7 LC_MESSAGES=C TERM=dumb "
        "RECAPTURE_CACHE=/srv/kept/",
        how);
    EXPECT_EQ(said.code, 0) << said.out;
    for (const char* name : {"CUDA_LAUNCH_BLOCKING", "TORCH_NCCL_AVOID_RECORD_STREAMS", "LD_PRELOAD", "NO_OF_OURS",
                             "NVIDIA_TF32_OVERRIDE", "PYTORCH_CUDA_ALLOC_CONF", "http_proxy", "PYTHONPATH"}) {
      EXPECT_EQ(seen(name), "") << name << how;
    }
    EXPECT_EQ(seen("CUDA_VISIBLE_DEVICES"), "GPU-1");
    EXPECT_EQ(seen("NVIDIA_VISIBLE_DEVICES"), "all");
    EXPECT_EQ(seen("SLURM_JOB_ID"), "7");
    EXPECT_EQ(seen("LC_MESSAGES"), "C");
    EXPECT_EQ(seen("HOME"), "(scratch)/home");
    EXPECT_EQ(seen("RECAPTURE_CACHE"), "(cache)");
    EXPECT_EQ(seen("PYTHONDONTWRITEBYTECODE"), "1");
    EXPECT_THAT(said.out, HasSubstr("note: tests do not have "));
    for (const char* name : {"CUDA_LAUNCH_BLOCKING", "TORCH_NCCL_AVOID_RECORD_STREAMS", "NVIDIA_TF32_OVERRIDE",
                             "PYTORCH_CUDA_ALLOC_CONF", "GTEST_COLOR"}) {
      EXPECT_THAT(said.out, HasSubstr(name));
    }
    const Json recorded = read_record(record()).environment.json().at("variables");
    EXPECT_THAT(recorded.value("CUDA_VISIBLE_DEVICES", ""), HasSubstr("hash "));
    EXPECT_EQ(recorded.value("NVIDIA_VISIBLE_DEVICES", ""), "all");
    EXPECT_FALSE(recorded.contains("CUDA_LAUNCH_BLOCKING"));
    EXPECT_FALSE(recorded.contains("SLURM_JOB_ID"));
  }
}

// On a shared host NVLink multicast can put other users' GPUs out of service.
TEST_F(Hermetic, MulticastVariables_ReachEveryProcessAndCannotBeChanged) {
  script("build/canary",
         "env >'" + folder + "/of_canary'\n" + R"(echo '{"gpus":0,"canary":"none","reason":"no driver"}'; exit 77)");
  script("build/2.15.0/cases/lies/asked",
         "env >'" + folder + "/of'$1\nexec '" + RECAPTURE_BUILD + "/harness/tests/rude' \"$@\"");
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"NCCL_NVLS_ENABLE", "0"}, {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"}, {"NVSHMEM_DISABLE_NVLS", "1"}};
  std::string variables;
  for (const auto& [name, value] : wanted) variables += name + "=" + value + " ";
  for (const char* how : {"", "--exec"}) {
    EXPECT_EQ(with(variables, how).code, 0);
    for (const auto& [name, value] : wanted) {
      EXPECT_EQ(seen(name), value) << how;
      EXPECT_EQ(read_record(record()).environment.json().at("variables").value(name, ""), value);
      for (const char* whose : {"/of_canary", "/of--describe"}) {
        EXPECT_THAT(text_of(folder + whose), HasSubstr(name + "=" + value + "\n")) << whose;
      }
    }
  }
  std::filesystem::remove(record());
  shell(variables + command("run asked.ControlHolds --record " + record()));
  for (const auto& [name, value] : wanted) {
    EXPECT_THAT(text_of(folder + "/of--environment"), HasSubstr(name + "=" + value + "\n"));
    EXPECT_THAT(text_of(folder + "/of--break=nothing"), HasSubstr(name + "=" + value + "\n")) << "of a server";
    for (const std::string change : {"=1", "=", "=0"}) {
      const ShellResult said = with(variables, "--env " + name + change);
      EXPECT_EQ(said.code, 2) << said.out;
      EXPECT_EQ(said.out.rfind("recapture: --env cannot set " + name, 0), 0U) << said.out;
      EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 1) << said.out;
      EXPECT_FALSE(std::filesystem::exists(record()));
    }
  }
  // A program's own variables do not override these.
  ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  const auto [observed, answer] =
      ask({"/usr/bin/env", {}, {{"NCCL_NVLS_ENABLE", "1"}, {"NVSHMEM_DISABLE_NVLS", "0"}}}, 10);
  ::unsetenv("NCCL_NVLS_ENABLE");
  EXPECT_THAT(answer, HasSubstr("NCCL_NVLS_ENABLE=0\n"));
  EXPECT_EQ(answer.find("NVSHMEM_DISABLE_NVLS"), std::string::npos) << "it is not set by default";
}

// A test runs in its own folder, where a relative path would be wrong.
TEST_F(Hermetic, RelativeCachePath_IsMadeAbsolute) {
  for (const char* how : {"", "--exec"}) {
    EXPECT_EQ(with("cd / && RECAPTURE_CACHE=cache", how).code, 0);
    EXPECT_EQ(seen("RECAPTURE_CACHE"), "(cache)") << "which stands for /cache " << how;
  }
}

TEST_F(Hermetic, VariableOfTheEnvOption_IsAnAxisOfTheRecord) {
  const std::string value = "expandable_segments:True,x=1";
  for (const char* how : {"", "--exec"}) {
    const ShellResult said =
        with("PYTORCH_CUDA_ALLOC_CONF=other", "--env PYTORCH_CUDA_ALLOC_CONF=" + value + " --env TORCH_LOGS= " + how);
    EXPECT_EQ(said.code, 0) << said.out;
    EXPECT_EQ(seen("PYTORCH_CUDA_ALLOC_CONF"), value);
    const Json env = read_record(record()).environment.json().at("env");
    EXPECT_EQ(env, Json({{"PYTORCH_CUDA_ALLOC_CONF", value}, {"TORCH_LOGS", ""}}));
  }
  const Record on_purpose = read_record(record());
  EXPECT_EQ(on_purpose.machine(), "2.15.0, no GPU, PYTORCH_CUDA_ALLOC_CONF=" + value + ", TORCH_LOGS=");
  EXPECT_THAT(recapture("show " + record()).out, HasSubstr("PYTORCH_CUDA_ALLOC_CONF=" + value)) << "in its heading";
  const std::string path = report_path(on_purpose.environment);
  EXPECT_EQ(path.rfind("2.15.0/host.PYTORCH-CUDA-ALLOC-CONF-expandable-segments-True", 0), 0U) << path;
  EXPECT_EQ(with("").code, 0);
  EXPECT_EQ(report_path(read_record(record()).environment), "2.15.0/host.jsonl");
  EXPECT_FALSE(read_record(record()).environment.json().contains("env"));
  for (const char* wrong : {"''", "A", "=1", "1A=1", "'A B=1'", "LD_PRELOAD=x", "GTEST_FILTER=x", "RECAPTURE_EVENTS=1",
                            "HOME=/x", "TMPDIR=/x", "PATH=/x", "CUDA_VISIBLE_DEVICES=1", "CUDA_CACHE_PATH=/x",
                            "CUDA_INJECTION64_PATH=/x", "LD_LIBRARY_PATH=/x", "A=1 --env A=2"}) {
    const ShellResult said = with("", std::string("--env ") + wrong);
    EXPECT_EQ(said.code, 2) << wrong << said.out;
    EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 1) << said.out;
  }
}

class OnAGpu : public Hermetic {
 protected:
  void SetUp() override {
    Hermetic::SetUp();
    script("build/canary", R"(echo '{"gpus":1,"gpu":"G","driver":"1","cuda_driver":"13.0","canary":"ok"}')");
    for (const char* name : {"gpu_usual", "gpu_concurrent", "gpu_race"}) add("rude", name);
  }
  // The variable in the test of each case, and the record's member.
  std::vector<std::pair<std::string, Json>> connections(const std::string& options) const {
    std::filesystem::remove(record());
    const ShellResult said = recapture(
        "run rude.ControlNamesItsEnvironment gpu_usual.ControlNamesItsEnvironment "
        "gpu_concurrent.ControlNamesItsEnvironment gpu_race.ControlNamesItsEnvironment --record " +
        record() + " " + options);
    EXPECT_EQ(said.code, 0) << said.out;
    std::vector<std::pair<std::string, Json>> all;
    for (const std::string name : {"rude", "gpu_usual", "gpu_concurrent", "gpu_race"}) {
      const std::string test = name + ".ControlNamesItsEnvironment";
      all.emplace_back(fact_of(test, "env.CUDA_DEVICE_MAX_CONNECTIONS"), line_of(test).value("connections", Json()));
    }
    return all;
  }
};

TEST_F(OnAGpu, ACase_HasTheConnectionsOfItsDescription) {
  const std::pair<std::string, Json> none{"", Json()}, one{"1", 1}, by_env{"4", Json()};
  for (const std::string how : {"", "--exec "}) {
    EXPECT_THAT(connections(how), ElementsAre(none, one, none, none)) << how;
    EXPECT_EQ(read_record(record()).environment.machine.variables, "") << "it is no machine of its own";
    EXPECT_THAT(connections(how + "--env CUDA_DEVICE_MAX_CONNECTIONS=4"), ElementsAre(by_env, by_env, by_env, by_env))
        << how;
  }
}

TEST_F(OnAGpu, Verbose_ShowsWhatBoundsTheRun) {
  const ShellResult usual = recapture("run gpu_usual.ControlHolds --record " + folder + "/usual");
  EXPECT_THAT(usual.out, AllOf(Not(HasSubstr("critical path")), Not(HasSubstr("bare")))) << usual.out;
  const ShellResult said = recapture(
      "run gpu_usual.ControlHolds gpu_race.ControlHolds rude.ControlHolds --jobs 2 "
      "--verbose --record " +
      record());
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_TRUE(RE2::PartialMatch(said.out, R"(critical path: 1 test in [0-9.]+ s; the other workers ended [0-9.]+ s )"))
      << said.out;
  EXPECT_TRUE(
      RE2::PartialMatch(said.out, R"(as many bare contexts: [0-9.]+ s \(1 with 1 connection at [0-9.]+ a second\))"))
      << said.out;
  EXPECT_THAT(text_of(record()), HasSubstr("as_many_bare_contexts_s"));
  EXPECT_THAT(text_of(folder + "/usual"), Not(HasSubstr("as_many_bare_contexts_s")));
}

// A case that loads like LibTorch: it takes runtime 13.0, fails in the loader with 13.1, and continues with its own if
// one of another major release is preloaded.
class ChosenRuntime : public Hermetic {
 protected:
  void SetUp() override {
    Hermetic::SetUp();
    for (const char* library :
         {"13.0.88/libcudart.so.13", "13.0.96/libcudart.so.13", "13.1.80/libcudart.so.13", "12.9.79/libcudart.so.12"}) {
      const std::filesystem::path path = folder + "/cache/cuda-runtime/" + library;
      std::filesystem::create_directories(path.parent_path());
      std::filesystem::copy(RECAPTURE_BUILD "/harness/tests/libslow_disk.so", path);
    }
    std::filesystem::rename(cases() + "/rude", folder + "/rude");
    script("build/2.15.0/cases/lies/rude", R"(
case "$1$LD_PRELOAD" in
  --environment*/13.0.96/*) echo '{"libtorch":"2.15.0","cuda_runtime":"13.0"}' ;;
  --environment*/13.1.80/*) echo "$0: symbol lookup error: libtorch_cuda.so: undefined symbol: cudaNew_v2, version libcudart.so.13" >&2
                            exit 127 ;;
  --environment*) echo '{"libtorch":"2.15.0","cuda_runtime":"13.2"}' ;;
  *) exec ')" + folder + R"(/rude' "$@" ;;
esac)");
  }
  ShellResult chosen(const std::string& version, const std::string& options = "") {
    std::filesystem::remove(record());
    return shell(
        "RECAPTURE_CACHE='" + folder + "/cache' " +
        command("run rude.ControlNamesItsEnvironment --cuda-runtime " + version + " --record " + record() + options));
  }
};

TEST_F(ChosenRuntime, ChosenVersion_IsPreloadedAndHasARecordOfItsOwn) {
  for (const char* how : {"", " --exec"}) {
    const ShellResult said = chosen("13.0", how);
    EXPECT_EQ(said.code, 0) << said.out;
    EXPECT_THAT(seen("LD_PRELOAD"), HasSubstr("cuda-runtime/13.0.96/libcudart.so.13"));  // The newest of 13.0.
    const Environment environment = read_record(record()).environment;
    EXPECT_EQ(environment.json().at("cuda_runtime"), "13.0");
    EXPECT_EQ(environment.json().at("cuda_runtime_by"), "preload");
    EXPECT_EQ(report_path(environment), "2.15.0/host.cuda-13.0.jsonl");
  }
  EXPECT_THAT(recapture("run rude.ControlNamesItsEnvironment --record " + folder + "/own.jsonl").out,
              HasSubstr("13.2"));
  EXPECT_FALSE(read_record(folder + "/own.jsonl").environment.json().contains("cuda_runtime_by"));
}

TEST_F(ChosenRuntime, VersionThatLacksASymbol_IsUnavailableAndNamesIt) {
  const ShellResult said = chosen("13.1.80");
  EXPECT_EQ(said.code, 4) << said.out;
  EXPECT_THAT(said.out, HasSubstr("the CUDA runtime has no cudaNew_v2, which LibTorch 2.15.0 needs"));
  EXPECT_EQ(line_of("rude.ControlNamesItsEnvironment").value("ending", ""), "not started");
  EXPECT_EQ(read_record(record()).env("cuda_runtime"), "13.1.80");
}

TEST_F(ChosenRuntime, WrongOrAbsentVersion_IsOneLineWithItsExitCode) {
  for (const auto& [version, code, words] : {std::tuple{"13.7", 7, "CUDA runtime 13.7 is not in "},
                                             {"12.9", 7, "does not use CUDA runtime 12.9: it loaded 13.2"},
                                             {"13", 2, "--cuda-runtime takes a version such as 12.9, not '13'"},
                                             {"newest", 2, "not 'newest'"}}) {
    const ShellResult said = chosen(version);
    EXPECT_EQ(said.code, code) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
    EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 1) << said.out;
  }
}

}  // namespace
}  // namespace recapture

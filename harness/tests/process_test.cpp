// What tests, cases and the canary can do to the runner, and how it handles that.
#include <fmt/format.h>
#include <sys/ptrace.h>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/run/line.h"
#include "harness/run/machine.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/stand_in.h"

namespace recapture {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Processes : public StandIn {
 protected:
  void SetUp() override {
    StandIn::SetUp();
    add("rude", "rude");
  }
  ShellResult run(const std::string& tests, const std::string& more = "") {
    std::filesystem::remove(record());
    return recapture("run --record " + record() + " " + tests + " " + more);
  }
};

TEST_F(Processes, CanaryThatMakesNoSense_StopsTheRun) {
  const std::vector<std::pair<std::string, std::string>> canaries = {
      {"kill -SEGV $$", "killed by signal 11"},
      {"echo garbage", "left with 0 and said 'garbage"},
      {"exit 0", "left with 0"},
      {"exit 77", "left with 77"},
      {"echo nobody home >&2; exit 3", "left with 3 and said 'nobody home"},
      {R"(echo '{"gpus":0,"canary":"none"}')", "left with 0"},
      {R"(echo '{"gpus":1,"canary":"ok"}'; exit 1)", "left with 1"},
      {R"(echo '{"gpus":0,"canary":"ok"}')", "left with 0"},
      {R"(echo '{"gpus":"many","canary":7}'; exit 77)", "left with 77"},
      {R"(echo '{"gpus":2,"canary":"GPU 1: cuLaunchKernel 700"}'; exit 1)", "GPU 1: cuLaunchKernel 700"},
      {R"(echo '{"gpus":0,"canary":"cuInit 999"}'; exit 1)", "cuInit 999"},
  };
  for (const auto& [lines, words] : canaries) {
    script("build/canary", lines);
    const ShellResult said = run("rude.ControlHolds");
    EXPECT_EQ(said.code, 7) << lines << said.out;
    EXPECT_THAT(said.out, HasSubstr("the GPU does not answer: ")) << lines;
    EXPECT_THAT(said.out, HasSubstr(words)) << lines;
    EXPECT_FALSE(std::filesystem::exists(record())) << lines;
  }
  std::filesystem::remove(folder + "/build/canary");
  const ShellResult missing = run("rude.ControlHolds");
  EXPECT_EQ(missing.code, 7) << missing.out;
  EXPECT_THAT(missing.out, HasSubstr("canary: No such file or directory"));
}

// The result of these lines of Python, which call tools/pack as `pack`.
std::string with_pack(const std::string& lines) {
  return "python3 -B -c \"import importlib.machinery as m, importlib.util as u, pathlib; "
         "l = m.SourceFileLoader('pack', '" RECAPTURE_ROOT
         "/tools/pack'); pack = u.module_from_spec(u.spec_from_loader('pack', l)); l.exec_module(pack); " +
         lines + "\"";
}

// Triton compiles on the machine, with headers whose folder differs between releases.
TEST(Packs, TritonFiles_AreKeptIfItCompilesWithThem) {
  const ShellResult said =
      shell(with_pack("print(*[int(pack.is_needed('triton/' + name)) for name in ("
                      "'third_party/cuda/include/cuda.h', 'third_party/cuda/lib/libdevice.10.bc', "
                      "'third_party/cuda/bin/ptxas', 'backends/nvidia/include/cuda.h', "
                      "'backends/nvidia/lib/libdevice.10.bc', 'backends/nvidia/bin/ptxas-blackwell', "
                      "'backends/nvidia/bin/cuobjdump', 'backends/amd/lib/ockl.bc')])"));
  EXPECT_EQ(said.out, "1 1 1 1 1 1 0 0\n");
}

// A library that is left out may define operator delete; all libraries would call the stub's.
TEST(Packs, StubOfALibrary_DefinesNoOperatorNew) {
  const std::string folder = ::testing::TempDir() + "recapture-stub-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/l.cpp") << "void* operator new(unsigned long) { return nullptr; }\n"
                                      "void operator delete(void*, unsigned long) noexcept {}\n"
                                      "extern \"C\" int leftOut() { return 0; }\n";
  const ShellResult said =
      shell("cd '" + folder + "' && g++ -w -shared -fPIC l.cpp -o libleft.so.1 && " +
            with_pack("pathlib.Path('stub.so').write_bytes(pack.stub_of(pathlib.Path('libleft.so.1')))") +
            " && nm -D --defined-only stub.so | grep -c ' T leftOut'; nm -D --defined-only stub.so | grep -c ' _Z'");
  EXPECT_EQ(said.out, "1\n0\n");
  std::filesystem::remove_all(folder);
}

// A test that called a library left out by tools/pack, followed by a lot of other output.
TEST_F(Processes, LibraryLeftOutOfAPack_MakesItsTestUnavailable) {
  std::filesystem::create_directories(folder + "/site");
  std::ofstream(folder + "/site/recapture_pack.json") << R"({"left_out": ["libcufft.so.12", "libcurand.so.10"]})";
  const std::string environment_line =
      R"({"libtorch":"2.15.0","cuda_runtime":"13.0","library":")" + folder + R"(/site/torch/lib/libtorch_cpu.so"})";
  script("build/2.15.0/cases/lies/packed",
         std::string("case $1 in\n") + "--describe) exec '" RECAPTURE_BUILD "/harness/tests/rude' \"$@\" ;;\n" +
             "--environment) echo '" + environment_line + "' ;;\n" + "*) echo '" + std::string(kLeftOut) +
             "libcufft.so.12 (cufftPlan1d)'; seq 1000; kill -ABRT $$ ;;\nesac");
  const ShellResult said = recapture("run packed.ControlHolds --exec --record " + record());
  EXPECT_EQ(said.code, 4) << said.out;
  EXPECT_THAT(said.out,
              HasSubstr("unavailable: left out of this pack: libcufft.so.12 (cufftPlan1d) (1: packed.ControlHolds)\n"));
  const Environment environment = read_record(record()).environment;
  EXPECT_EQ(environment.json().at("left_out"), (Json{"libcufft.so.12", "libcurand.so.10"}));
  EXPECT_EQ(environment.json().at("packed"), true);
  std::ofstream(folder + "/site/recapture_pack.json") << "{}";
  const ShellResult damaged = recapture("run packed.ControlHolds --exec --record " + folder + "/second");
  EXPECT_EQ(damaged.code, 7);
  EXPECT_THAT(damaged.out, HasSubstr("recapture_pack.json does not say what is left out"));
}

// Operators are hundreds of tests, and their server takes seconds to start.
TEST_F(Processes, TestsOfOperators_AreSharedByWorkersThatKeepTheirServer) {
  const std::string starts = folder + "/starts";
  script("build/2.15.0/cases/lies/operators", "case $2 in --serve=*) echo $$ >>'" + starts + "' ;; esac\nexec '" +
                                                  RECAPTURE_BUILD + "/harness/tests/rude' \"$@\"");
  const auto servers = [&](const std::string& tests, int jobs) {
    std::filesystem::remove(starts);
    const ShellResult said = run(tests, "--jobs " + std::to_string(jobs));
    EXPECT_THAT(files_left(), IsEmpty());
    const std::string each = text_of(starts);
    return std::pair(said.code, std::count(each.begin(), each.end(), '\n'));
  };
  const std::string four = "operators.ControlHolds operators.ControlNamesItsEnvironment operators.ControlWrites*";
  EXPECT_EQ(servers(four + " rude.ControlHolds", 2), std::pair(0, std::ptrdiff_t{2}));
  EXPECT_EQ(servers(four, 1), std::pair(0, std::ptrdiff_t{1}));
  EXPECT_EQ(servers("operators.FixKillsItsServer operators.FixEndsTwice", 1).second, 2) << "another after its end";
}

// The canary itself, on the fake driver.
TEST_F(Processes, Canary_AsksEveryGpu) {
  std::filesystem::create_directories(folder + "/lib");
  for (const char* name : {"/lib/libcuda.so.1", "/lib/libnvidia-ml.so.1"}) {
    std::filesystem::copy(RECAPTURE_BUILD "/harness/tests/libfake_driver.so", folder + name);
  }
  const auto canary = [&](const std::string& variables) {
    const ShellResult said =
        shell("LD_LIBRARY_PATH='" + folder + "/lib' " + variables + " '" RECAPTURE_BUILD "/canary'");
    return std::pair(said.code, Json::parse(said.out, nullptr, false));
  };
  const auto [code, well] = canary("FAKE_OTHERS=1");
  EXPECT_EQ(code, 0);
  EXPECT_EQ(well.value("canary", ""), "ok");
  EXPECT_EQ(well.value("gpus", 0), 2);
  EXPECT_EQ(well.value("driver", ""), "580.1");
  EXPECT_EQ(well.value("compute_capability", ""), "9.0");
  EXPECT_EQ(well.value("mig", ""), "off");
  EXPECT_EQ(well.value("others", 0), 2) << "one on each";
  EXPECT_EQ(well.value("unlike", "?"), "");
  EXPECT_EQ(canary("FAKE_UNLIKE=1").second.value("unlike", ""), "Other");
  EXPECT_EQ(canary("FAKE_UNLIKE=1").second.value("gpu", ""), "Fake");
  EXPECT_EQ(canary("FAKE_MIG=1").second.value("mig", ""), "on");
  EXPECT_EQ(canary("FAKE_BROKEN=1").second.value("canary", ""),
            "GPU 1: cuLaunchKernel 700: an illegal memory access was encountered");
  EXPECT_EQ(canary("FAKE_BROKEN=1 FAKE_GPUS=8").second.at("bad"), Json({1})) << "the others were asked too";
  EXPECT_EQ(canary("FAKE_BROKEN=1").first, 1);
  EXPECT_EQ(canary("FAKE_BROKEN=0 FAKE_GPUS=1").second.value("canary", ""),
            "cuLaunchKernel 700: an illegal memory access was encountered");
  for (const char* capability : {"52", "61", "70", "75", "90", "100", "121"}) {
    EXPECT_EQ(canary(std::string("FAKE_CAPABILITY=") + capability).first, 0) << capability << " is not dead";
  }
  EXPECT_EQ(canary("FAKE_NVML=9").second.value("nvml", ""), "missing");
  EXPECT_EQ(canary("FAKE_COMPUTE_MODE=3").second.value("compute_mode", ""), "exclusive process");
  EXPECT_FALSE(well.contains("nvml") || well.contains("compute_mode")) << "only what is unusual";
  for (const char* none : {"FAKE_INIT=100", "FAKE_INIT=34", "FAKE_GPUS=0"}) {
    EXPECT_EQ(canary(none).first, 77) << none;
    EXPECT_EQ(canary(none).second.value("canary", ""), "none") << none;
  }
  for (const char* dead : {"FAKE_INIT=999", "FAKE_INIT=3", "FAKE_INIT=803"}) {
    EXPECT_EQ(canary(dead).first, 1) << dead;
    EXPECT_THAT(canary(dead).second.value("canary", ""), HasSubstr("cuInit ")) << dead;
  }
  EXPECT_EQ(
      canary("FAKE_INIT=802").second.value("canary", ""),
      "cuInit 802: system not yet initialized; with NVSwitch, is nvidia-fabricmanager running, and of the driver's "
      "version?");
}

TEST_F(Processes, OneBadGpuOfSeveral_IsLeftOut) {
  script("build/canary", R"sh(case "$CUDA_VISIBLE_DEVICES" in
  '') echo '{"gpus":3,"gpu":"G","driver":"1","canary":"GPU 1: cuLaunchKernel 700","bad":[1]}'; exit 1 ;;
  0,2) echo '{"gpus":2,"gpu":"G","driver":"1","canary":"ok"}' ;;
  *) echo '{"gpus":2,"gpu":"G","driver":"1","canary":"GPU 1: cuLaunchKernel 700","bad":[1]}'; exit 1 ;;
esac)sh");
  const ShellResult said = run("rude.ControlHolds");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("note: a GPU does not answer and is left out: GPU 1: cuLaunchKernel 700; the run has "
                                  "GPUs 0,2, and --gpu chooses others"));
  std::filesystem::remove(record());
  const ShellResult named = run("rude.ControlHolds", "--gpu 0,1");
  EXPECT_EQ(named.code, 7) << named.out;
  EXPECT_THAT(named.out, HasSubstr("the GPU does not answer: GPU 1: cuLaunchKernel 700; --gpu 0 runs on the rest; "
                                   "nothing was run"));
}

TEST_F(Processes, MachineWithItsOwnWays_IsNotedAndRecorded) {
  script(
      "build/canary",
      R"(echo '{"gpus":1,"gpu":"G","driver":"","canary":"ok","nvml":"missing","compute_mode":"exclusive process"}')");
  const ShellResult said = run("rude.ControlHolds");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("note: NVML (libnvidia-ml.so.1) is missing, so the driver's version is not known"));
  EXPECT_THAT(said.out, HasSubstr("note: the GPU's compute mode is exclusive process"));
  const Record seen = read_record(record());
  EXPECT_EQ(seen.env("nvml"), "missing");
  EXPECT_EQ(seen.env("compute_mode"), "exclusive process");
}

TEST_F(Processes, WhatIsUnusualAboutAMachine_IsShownWithItsRecord) {
  script("build/canary", R"(echo '{"gpus":1,"gpu":"G","driver":"1","canary":"ok","mig":"on","nvml":"missing"}')");
  std::filesystem::create_directories(folder + "/mps");
  std::ofstream(folder + "/mps/control");
  setenv("CUDA_MPS_PIPE_DIRECTORY", (folder + "/mps").c_str(), 1);
  setenv("container", "pod\nman", 1);  // Counts unless the tests themselves run in one that is known.
  const ShellResult said = run("rude.ControlHolds");
  const std::string container = escape_control(run::container_here());
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  unsetenv("container");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("note: an MPS server runs here"));
  EXPECT_THAT(said.out, HasSubstr("note: this is a container (" + container + ")\n"));
  const Record seen = read_record(record());
  EXPECT_EQ(seen.env("mps"), "on");
  EXPECT_EQ(seen.env("container"), container);
  EXPECT_THAT(recapture("show " + record()).out,
              HasSubstr("\nmachine: MIG, MPS, a container (" + container + "), no NVML\n"));
  std::string text = contents_of(record());
  text.replace(text.find(R"("mig":"on")"), 10, R"("mig":"off","wsl":"WSL2","compute_mode":"prohibited")");
  std::ofstream(record()) << text;
  const Record other = read_record(record());
  EXPECT_THAT(recapture("show " + record()).out, HasSubstr("\nmachine: compute mode prohibited, MPS, WSL2, a cont"));
  EXPECT_EQ(other.environment.kind, seen.environment.kind) << "the same machine";
  EXPECT_EQ(report_path(other.environment), report_path(seen.environment));
}

TEST_F(Processes, ContainerAndWsl2_AreKnownByTheirFiles) {
  namespace fs = std::filesystem;
  for (const char* name : {"proc", "run"}) fs::create_directories(folder + "/system/" + name);
  const std::string root = folder + "/system";
  std::ofstream(root + "/proc/version") << "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)\n";
  EXPECT_FALSE(run::is_wsl(root));
  std::ofstream(root + "/proc/version") << "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1)\n";
  EXPECT_TRUE(run::is_wsl(root));
  EXPECT_EQ(run::container_here(root), "");
  setenv("APPTAINER_CONTAINER", "/i.sif", 1);
  EXPECT_EQ(run::container_here(root), "Apptainer");
  unsetenv("APPTAINER_CONTAINER");
  std::ofstream(root + "/run/.containerenv");
  EXPECT_EQ(run::container_here(root), "Podman");
  std::ofstream(root + "/.dockerenv");
  EXPECT_EQ(run::container_here(root), "Docker");
}

TEST_F(Processes, SharedOrDividedGpu_IsNotedAndRecorded) {
  script("build/canary", R"(echo '{"gpus":1,"gpu":"G","driver":"1","canary":"ok","mig":"on","others":2}')");
  const ShellResult said = run("rude.ControlHolds");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("note: 2 other processes compute on the GPU"));
  EXPECT_THAT(said.out, HasSubstr("note: the GPU is divided (MIG)"));
  const Record seen = read_record(record());
  EXPECT_EQ(seen.env("mig"), "on");
  EXPECT_EQ(seen.environment.json().at("volatile").at("others"), 2);
}

TEST_F(Processes, GpusOfTwoModels_AreRefused) {
  script("build/canary", R"(echo '{"gpus":2,"gpu":"G","driver":"1","canary":"ok","unlike":"H"}')");
  const ShellResult said = run("rude.ControlHolds --gpu 0,1");
  EXPECT_EQ(said.code, 2) << said.out;
  EXPECT_TRUE(said.is_one_line()) << said.out;
  EXPECT_THAT(said.out,
              HasSubstr("a record is of one kind of GPU, and here are G and H; --gpu or CUDA_VISIBLE_DEVICES chooses"));
  EXPECT_FALSE(std::filesystem::exists(record()));
}

TEST_F(Processes, NamedGpuThatIsAbsent_StopsTheRun) {
  // As in CUDA: all GPUs from the first missing one on are ignored.
  script("build/canary", R"sh(case "$CUDA_VISIBLE_DEVICES" in
  0*) echo '{"gpus":1,"gpu":"G","driver":"1","canary":"ok"}' ;;
  *) echo '{"gpus":0,"canary":"none","reason":"the driver has no GPU: cuInit says 100"}'; exit 77 ;;
esac)sh");
  for (const char* gpus : {"7", "0,7"}) {
    const ShellResult said = run("rude.ControlHolds", std::string("--gpu ") + gpus);
    EXPECT_EQ(said.code, 7) << said.out;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr("GPU 7, which --gpu names, is not here; nothing was run"));
    EXPECT_FALSE(std::filesystem::exists(record()));
  }
  EXPECT_EQ(run("rude.ControlHolds", "--gpu 0").code, 0);
}

// A case that needs a GPU. If the file `takes` exists, its second test makes the GPU disappear; if `full` exists, the
// third one finds no GPU although there is one.
class GpuCase : public Processes {
 protected:
  void SetUp() override {
    Processes::SetUp();
    script("build/canary", "[ ! -e '" + folder + R"sh(/gone' ] || { echo '{"gpus":0,"canary":"cuInit 999"}'; exit 1; }
echo '{"gpus":1,"gpu":"G","driver":"1","canary":"ok"}')sh");
    script("build/2.15.0/cases/lies/needy", "cd '" + folder + R"sh('
end() { echo "ended=$1" >&9; exit "$2"; }
skip() { echo "skipped=no GPU: $1" >&9; end skipped 77; }
for word; do
  case $word in
    --describe) echo '{"title":"t","sources":[],"documented":"d","nature":"defect","fidelity":"modelled",' \
                     '"needs":"gpu","deadline_s":5,"effect":"raises","hash":"0",' \
                     '"tests":["N.ControlHolds","N.FixTakesTheGpu","N.FixFindsNone"]}'; exit ;;
    --environment) echo '{"libtorch":"0","cuda_runtime":"0","library":"/"}'; exit ;;
    --serve=*) exit 1 ;;
    *.FixTakesTheGpu) [ ! -e takes ] || touch gone ;;
    *.FixFindsNone) [ ! -e gone ] || skip 'unspecified launch failure'
                    [ ! -e full ] || skip 'out of memory' ;;
  esac
done
end passed 0)sh");
  }
  void touch(const char* name) const { std::ofstream(folder + "/" + name).close(); }
};

TEST_F(GpuCase, GpuLostBeforeATest_LeavesTheTestNotRun) {
  touch("takes");
  const ShellResult lost = run("needy", "--jobs 1");
  EXPECT_EQ(lost.code, 7) << lost.out;
  EXPECT_THAT(lost.out,
              HasSubstr("the GPU does not answer after needy.FixFindsNone: cuInit 999; the rest was not run"));
  EXPECT_EQ(read_record(record()).tests.size(), 2U);
  for (const char* name : {"takes", "gone"}) std::filesystem::remove(folder + "/" + name);
  const ShellResult rest = recapture("run --resume " + record());
  EXPECT_EQ(rest.code, 0) << rest.out;
  EXPECT_EQ(line_of("needy.FixFindsNone").value("ended", ""), "passed");
}

TEST_F(GpuCase, TestThatFindsNoGpuThoughThereIsOne_IsMissing) {
  EXPECT_EQ(run("needy").code, 0);
  touch("full");
  for (const char* how : {"", "--require gpu"}) {
    const ShellResult said = run("needy", how);
    EXPECT_EQ(said.code, 7) << said.out;
    EXPECT_THAT(said.out, HasSubstr("needy.FixFindsNone: missing: unavailable, no GPU: out of memory"));
    EXPECT_EQ(read_record(record()).end, "complete");
    EXPECT_EQ(recapture("show " + record()).code, 7) << "read again, it is as it was";
  }
}

// The list at a run's end also prints tests' observations on the terminal.
TEST_F(Processes, Surprises_AreListedWithoutControlCharacters) {
  script("build/2.15.0/cases/lies/evil", R"sh(for word; do
  case $word in
    --describe) echo '{"title":"t","sources":[],"documented":"d","nature":"defect","fidelity":"modelled",' \
                     '"needs":"host","deadline_s":5,"effect":"raises","hash":"0","tests":["E.Reproduces"]}'; exit ;;
    --environment) echo '{"libtorch":"0","cuda_runtime":"0","library":"/"}'; exit ;;
    --serve=*) exit 1 ;;
  esac
done
printf 'seen=\033]52;c;cm0=\007\033[31mPWNED\ndocumented=900\nhealthy=ok\nended=failed\n' >&9
exit 1)sh");
  const ShellResult said = run("evil");
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, HasSubstr("\n1 surprise:\n  evil.Reproduces: changed: different, \\x1b]52;c;cm0="));
  EXPECT_EQ(said.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(said.out.find('\x07'), std::string::npos);
}

TEST_F(Processes, NoisyOrDeadServer_DoesNotFailTheTest) {
  const std::string otherwise = "\nexec '" RECAPTURE_BUILD "/harness/tests/rude' \"$@\"";
  script("build/2.15.0/cases/lies/noisy", "case $2 in --serve=*) seq 100000 ;; esac" + otherwise);
  const ShellResult noisy = run("noisy.ControlHolds");
  EXPECT_EQ(noisy.code, 0) << noisy.out;
  EXPECT_EQ(noisy.out.find("has no server"), std::string::npos) << noisy.out;
  EXPECT_EQ(line_of("noisy.ControlHolds").value("how", ""), "fork");
  script("build/2.15.0/cases/lies/mute", "case $2 in --serve=*) exit 1 ;; esac" + otherwise);
  const ShellResult mute = run("mute.ControlHolds");
  EXPECT_EQ(mute.code, 0) << mute.out;
  EXPECT_THAT(mute.out,
              HasSubstr("note: mute has no server that answers, so each of its tests loads LibTorch again\n"));
  EXPECT_EQ(line_of("mute.ControlHolds").value("how", ""), "exec");
}

TEST_F(Processes, CtrlCAtAnyPoint_EndsTheRunWithinASecond) {
  const auto stop = [&](const std::string& arguments) {
    const pid_t runner = start(arguments);
    kill(runner, SIGINT);
    EXPECT_EQ(ended_within(runner, 1), 130) << arguments << out();
    EXPECT_THAT(left(), IsEmpty()) << arguments;
    EXPECT_THAT(files_left(), IsEmpty()) << arguments;
    std::filesystem::remove(record());
  };
  stop("run rude.ReproducesAndHangs --record " + record());
  stop("run rude.ReproducesAndHangs --exec --record " + record());
  stop("run rude.ReproducesAndHangsOnceMore --record " + record());
  add("rude_server", "never_ready");
  stop("run never_ready --record " + record());
  script("build/canary", "echo h >'" + pipe() + "'; exec sleep 1000");
  stop("run rude.ControlHolds --record " + record());
}

TEST_F(Processes, CtrlCOnABusyDisk_EndsTheRunWithinASecond) {
  setenv("LD_PRELOAD", RECAPTURE_BUILD "/harness/tests/libslow_disk.so", 1);
  setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
  setenv("RECAPTURE_DISK_IS_BUSY", (folder + "/busy").c_str(), 1);
  const pid_t runner = start("run rude.ControlHolds rude.ReproducesAndHangs --record " + record());
  unsetenv("LD_PRELOAD");
  std::ofstream(folder + "/busy").close();
  kill(runner, SIGINT);
  pollfd end{static_cast<int>(syscall(SYS_pidfd_open, runner, 0)), POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 1000), 1) << "it waits for the disk";
  close(end.fd);
  std::filesystem::remove(folder + "/busy");
  EXPECT_EQ(ended_within(runner, 1), 130);
  EXPECT_EQ(read_record(record()).end, "interrupted");
  EXPECT_NE(read_record(record()).find("rude.ControlHolds"), nullptr);
}

TEST_F(Processes, DiskWaitInterruptedByASignal_GoesOn) {
  const ShellResult said = shell("LD_PRELOAD='" RECAPTURE_BUILD
                                 "/harness/tests/libslow_disk.so' RECAPTURE_DISK_IS_INTERRUPTED=1 "
                                 "ASAN_OPTIONS=verify_asan_link_order=0 " +
                                 command("run rude.ControlHolds --record " + record()));
  EXPECT_EQ(said.code, 0) << said.out;
}

TEST_F(Processes, CtrlCDuringADescription_LeavesNothingBehind) {
  add("rude_server", "hangs_in_describe");
  const pid_t runner = start("run rude.ControlHolds --record " + record());
  kill(runner, SIGINT);
  EXPECT_NE(ended_within(runner, 1), 0);
  EXPECT_THAT(left(), IsEmpty());
  EXPECT_THAT(files_left(), IsEmpty());
}

TEST_F(Processes, AHangUp_LeavesNothingBehind) {
  const pid_t runner = start("run rude.ReproducesAndHangs --record " + record());
  kill(runner, SIGHUP);
  EXPECT_EQ(ended_within(runner, 1), 130);
  EXPECT_EQ(read_record(record()).end, "interrupted");
  EXPECT_THAT(left(), IsEmpty());
  EXPECT_THAT(files_left(), IsEmpty());
}

TEST_F(Processes, TestThatStopsItsServerOrLeavesItsGroup_EndsAtItsDeadline) {
  for (const char* test : {"rude.FixStopsItsServer", "rude.FixMovesToAnotherGroup"}) {
    const pid_t runner = fork();
    if (runner == 0) {
      const std::string where = record();
      execl("/bin/sh", "sh", "-c",
            ("exec env " + command(std::string("run ") + test + " rude.ControlHolds --record " + where) +
             " >/dev/null 2>&1")
                .c_str(),
            nullptr);
      _exit(126);
    }
    EXPECT_EQ(ended_within(runner, 20), 1) << test;  // Hung, which is a change, and confirmed twice.
    EXPECT_EQ(line_of(test).value("ending", ""), "deadline") << test;
    EXPECT_EQ(line_of("rude.ControlHolds").value("ended", ""), "passed") << "the run went on after " << test;
    EXPECT_THAT(left(), IsEmpty()) << test;
    std::filesystem::remove(record());
  }
}

TEST_F(Processes, WorkerStoppedByATest_GoesOn) {
  const ShellResult said = run("rude.FixStopsWhatRunsIt rude.ControlHolds");
  EXPECT_EQ(said.code, 0) << said.out;
}

TEST_F(Processes, DaemonsOfDaemons_EndWithTheirTest) {
  for (const char* how : {"", "--exec"}) {
    EXPECT_EQ(run("rude.FixLeavesDaemonsOfDaemons", how).code, 0);
    EXPECT_THAT(left(), IsEmpty()) << how;
  }
}

TEST_F(Processes, DaemonsOfADescription_EndWithIt) {
  add("rude_server", "describes_with_a_daemon");
  const ShellResult said = recapture("list --built");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(left(), IsEmpty());
  EXPECT_THAT(files_left(), IsEmpty());
}

TEST_F(Processes, FalseAnswerOfAServer_KillsNoOtherProcess) {
  for (const char* how : {"says_words", "ends_with_much", "says_nothing"}) {
    add("rude_server", how);
    const ShellResult said = run(how);
    EXPECT_EQ(said.code, 6) << how << said.out;
    EXPECT_EQ(line_of(std::string(how) + ".ControlHolds").value("ending", ""), "not started") << how;
    EXPECT_THAT(left(), IsEmpty()) << how;
  }
  // An unrelated process group.
  const pid_t another = fork();
  if (another == 0) {
    setpgid(0, 0);
    for (;;) pause();
  }
  setpgid(another, another);
  std::ofstream(folder + "/another") << another;
  add("rude_server", "names_another");
  const ShellResult said = run("names_another");
  EXPECT_NE(said.code, 0) << said.out;
  EXPECT_EQ(line_of("names_another.ControlHolds").value("ending", ""), "deadline");
  EXPECT_EQ(kill(another, 0), 0);
  int status = 0;
  EXPECT_EQ(waitpid(another, &status, WNOHANG), 0) << "it was killed";
  kill(another, SIGKILL);
  waitpid(another, nullptr, 0);
}

// A traced process stays with its tracer after SIGKILL, like a process inside the driver.
TEST_F(Processes, TestThatCannotBeKilled_StopsTheRun) {
  for (const std::string how : {"", "--exec"}) {
    const pid_t runner = start("run rude.ReproducesAndHangs rude.ControlHolds " + how + " --record " + record());
    pid_t hanging = 0;
    for (pid_t one : left()) {
      const std::string words = text_of("/proc/" + std::to_string(one) + "/cmdline");
      if (words.find("/lies/rude") != std::string::npos)
        hanging = std::max(hanging, one);  // The server came before it.
    }
    ASSERT_GT(hanging, 0);
    if (ptrace(PTRACE_SEIZE, hanging, nullptr, nullptr) != 0) {
      kill(runner, SIGKILL);
      waitpid(runner, nullptr, 0);
      GTEST_SKIP() << "tracing is not permitted on this machine";
    }
    EXPECT_EQ(ended_within(runner, 30), 7) << out();
    EXPECT_THAT(out(), HasSubstr("cannot be killed"));
    EXPECT_EQ(line_of("rude.ReproducesAndHangs").value("ending", ""), "deadline");
    EXPECT_THAT(line_of("rude.ReproducesAndHangs").value("contradiction", ""), HasSubstr("could not be killed"));
    waitpid(hanging, nullptr, __WALL);  // Releases it.
    std::filesystem::remove(record());
  }
}

TEST_F(Processes, ChildFromBeforeTheRun_IsNotKilled) {
  const ShellResult said = shell("sh -c 'sleep 1000 >/dev/null 2>&1 & echo $! >\"" + folder + "/job\"; exec env " +
                                 command("run rude.FixLeavesDaemonsOfDaemons --record " + record()) + "'");
  EXPECT_EQ(said.code, 0) << said.out;
  const pid_t job = std::stoi(text_of(folder + "/job"));
  EXPECT_EQ(kill(job, SIGTERM), 0) << "the job was killed with the tests";
}

TEST_F(Processes, CrashWithSigchldIgnored_IsRecordedAsACrash) {
  for (const char* how : {"--jobs=1", "--exec"}) {
    std::filesystem::remove(record());
    const pid_t runner = fork();
    if (runner == 0) {
      signal(SIGCHLD, SIG_IGN);  // Not in a shell, which would reset it.
      setenv("TMPDIR", (folder + "/tmp").c_str(), 1);
      const int nothing = open("/dev/null", O_WRONLY);
      dup2(nothing, 1);
      dup2(nothing, 2);
      const std::string program = folder + "/build/recapture", where = record();
      execl(program.c_str(), "recapture", "run", "rude.ReproducesAndCrashes", "--record", where.c_str(), how, nullptr);
      _exit(126);
    }
    EXPECT_EQ(ended_within(runner, 20), 1) << how;
    EXPECT_EQ(line_of("rude.ReproducesAndCrashes").value("ending", ""), "signal") << how;
  }
}

TEST_F(Processes, ImpossibleEvents_AreAContradictionInTheLine) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"ControlHasManyFacts", "more than 1000 facts"},
      {"ReproducesAmidAFlood", "it said more than 2 MiB of events"},
      {"ReproducesWithHitsAlone", "one of hits and tries"},
      {"ReproducesWithWordsForNumbers", "its hits is 'three', which is not a number"},
      {"ReproducesTwice", "it said twice what it had seen"},
      {"FixEndsTwice", "it said ended=passed after its end"},
      {"ReproducesAfterItsEnd", "it said seen=documented after its end"},
  };
  for (const auto& [test, words] : table) {
    const ShellResult said = run("rude." + test);
    EXPECT_THAT(line_of("rude." + test).value("contradiction", ""), HasSubstr(words)) << said.out;
    EXPECT_EQ(said.out.find("please report"), std::string::npos) << said.out;
    EXPECT_NE(recapture("show " + record()).code, 7) << "it can be read again";
  }
  run("rude.ReproducesWithACulpritOfNumbers");
  EXPECT_FALSE(line_of("rude.ReproducesWithACulpritOfNumbers").contains("culprit"));
  EXPECT_THAT(fact_of("rude.ReproducesWithACulpritOfNumbers", "culprit"), HasSubstr("\"api\":7"));
  run("rude.ControlIsFollowedByFacts");
  const Json line = line_of("rude.ControlIsFollowedByFacts");
  EXPECT_FALSE(line.contains("contradiction"));
  EXPECT_FALSE(line.contains("facts")) << "it came after the end";
  EXPECT_EQ(line.value("ended", ""), "passed");
  EXPECT_EQ(line.value("ending", ""), "signal") << "the record has both";
}

TEST_F(Processes, RaceByTheRule_IsRepeatedUntilTheRuleEndsIt) {
  const auto facts = [&](const std::string& test, const std::string& how = "") {
    run("rude." + test, how);
    const Json line = line_of("rude." + test);
    return fmt::format("{} of {} in {}, stopped by {}, {} {}", line.value("hits", -1), line.value("tries", -1),
                       line.value("processes", -1), line.value("stopped_by", "nothing"), line.value("ending", ""),
                       line.value("ended", ""));
  };
  for (const char* how : {"", "--exec"}) {
    EXPECT_EQ(facts("ReproducesByTheRule", how), "12 of 24 in 3, stopped by hits, exited passed") << how;
  }
  EXPECT_EQ(facts("ReproducesNeverByTheRule"), "0 of 64 in 8, stopped by tries, exited failed");
  EXPECT_EQ(facts("FixCrashesByTheRule"), "0 of 8 in -1, stopped by nothing, signal ");
  EXPECT_EQ(facts("ReproducesByTheRule", "--break trigger"), "4 of 8 in -1, stopped by nothing, exited passed");
  run("rude.ReproducesNowAndThenByTheRule");
  const Json line = line_of("rude.ReproducesNowAndThenByTheRule");
  EXPECT_EQ(line.value("stopped_by", ""), line.value("hits", 0) >= 10 ? "hits" : "tries");
  EXPECT_EQ(line.value("ended", ""), line.value("hits", 0) > 0 ? "passed" : "failed") << "of a process with a hit";
  EXPECT_EQ(recapture("show " + record()).code, 0) << "no contradiction";
}

TEST_F(Processes, GoogleTestVariablesAndAShortHome_ChangeNothing) {
  const std::string tests =
      " rude.ControlBreaks rude.ControlHolds rude.FixSaysPassOnly --record " + record() + " --exec >/dev/null";
  shell(
      "GTEST_BREAK_ON_FAILURE=1 GTEST_THROW_ON_FAILURE=1 GTEST_CATCH_EXCEPTIONS=0 GTEST_TOTAL_SHARDS=5 "
      "GTEST_SHARD_INDEX=1 GTEST_SHARD_STATUS_FILE=" +
      folder + "/shard GTEST_STREAM_RESULT_TO=localhost:1 TESTBRIDGE_TEST_ONLY=x GTEST_REPEAT=2 HOME=ed " +
      command("run" + tests));
  EXPECT_EQ(line_of("rude.ControlBreaks").value("ended", ""), "failed");
  EXPECT_EQ(line_of("rude.ControlBreaks").value("ending", ""), "exited");
  EXPECT_EQ(line_of("rude.ControlHolds").value("ended", ""), "passed");
  EXPECT_EQ(fact_of("rude.FixSaysPassOnly", "ed"), "passed, edited in (scratch)/home");
  EXPECT_FALSE(std::filesystem::exists(folder + "/shard"));
}

TEST_F(Processes, RefusedResource_IsAnInfrastructureError) {
  const std::vector<std::tuple<std::string, std::string>> table = {
      {"ulimit -n 8; exec env " + command("run rude.ControlHolds --record " + record()), "open files"},
      {"exec env TMPDIR=/nowhere '" + folder + "/build/recapture' run rude.ControlHolds --record " + record(),
       "TMPDIR names another place"},
      {"exec env TMPDIR=/proc '" + folder + "/build/recapture' run rude.ControlHolds --record " + record(),
       "TMPDIR names another place"},
      {"ulimit -f 0; exec env " + command("run rude.ControlHolds --record " + record()), "File too large"},
  };
  for (const auto& [line, words] : table) {
    const ShellResult said = shell("sh -c '" + line + "'");
    EXPECT_EQ(said.code, 7) << line << said.out;
    EXPECT_THAT(said.out, HasSubstr("recapture: ")) << line;
    EXPECT_EQ(said.out.find("please report"), std::string::npos) << said.out;
    std::filesystem::remove(record());
  }
}

TEST_F(Processes, DeletedWorkingFolder_DoesNotStopTheRun) {
  const ShellResult said = shell("mkdir '" + folder + "/gone' && cd '" + folder + "/gone' && rmdir '" + folder +
                                 "/gone' && " + command("run rude.ControlHolds --record " + record()));
  EXPECT_EQ(said.code, 0) << said.out;
}

TEST(Anonymous, KnownFolders_AreHiddenAndNothingElse) {
  Anonymous anonymous;
  anonymous.hide("ed", "~");
  anonymous.hide("/", "~");
  anonymous.hide("/home/ed", "~");
  anonymous.hide("/home/ed/tree/", "");
  anonymous.hide("/tmp/x", "(scratch)");
  anonymous.hide("/w", "(work)");
  EXPECT_EQ(anonymous("passed /home/ed /home/eddy /home/ed/a -I/home/ed/b"), "passed ~ /home/eddy ~/a -I~/b");
  EXPECT_EQ(anonymous("/home/ed/tree/cases/a.cpp"), "cases/a.cpp") << "the longer folder first";
  EXPECT_EQ(anonymous("/tmp/x/y /tmp/xy /w/y"), "(scratch)/y /tmp/xy (work)/y");
  EXPECT_EQ(anonymous("in /home/ed/tr[cut]"), "in ~/tr[cut]");
  EXPECT_EQ(anonymous("in /home/e[cut]"), "in [cut]");
  EXPECT_EQ(anonymous("in /srv/e[cut]"), "in /srv/e[cut]");
}

}  // namespace
}  // namespace recapture

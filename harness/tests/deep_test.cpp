// Work that is silently not in a graph: what the recorder sees of it, what `recapture blame --deep` reports, and both
// together in real processes with a fake driver and a fake CUPTI. Also tools/blame and tools/prices with these.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "harness/base/json.h"
#include "harness/blame/report.h"
#include "harness/case/events.h"
#include "harness/recorder/calls.h"
#include "harness/recorder/captures.h"
#include "harness/report/blame.h"
#include "harness/run/line.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(DeepCalls, CallThatQueuesWork_HasTheOffsetOfItsStream) {
  // As in generated_cuda_meta.h.
  struct KernelParameters {
    void* function;
    unsigned sizes[7];
    void* stream;
  };
  struct PeerParameters {
    uint64_t to;
    void* its_context;
    uint64_t from;
    void* context;
    size_t size;
    void* stream;
  };
  struct Memset2DParameters {
    uint64_t where;
    size_t pitch;
    unsigned short what;
    size_t width, height;
    void* stream;
  };
  EXPECT_EQ(call_of("cuLaunchKernel_ptsz").stream, offsetof(KernelParameters, stream));
  EXPECT_EQ(call_of("cuMemcpyPeerAsync").stream, offsetof(PeerParameters, stream));
  EXPECT_EQ(call_of("cuMemsetD2D16Async").stream, offsetof(Memset2DParameters, stream));
  EXPECT_EQ(call_of("cuLaunchKernelEx").stream, recapture::Call::kInConfig);
  for (const char* api : {"cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz", "cuMemsetD32Async", "cuGraphLaunch"}) {
    EXPECT_EQ(call_of(api).kind, CallKind::Work) << api;
  }
  for (const char* api : {"cuMemcpyHtoD_v2", "cuMemcpyBatchAsync", "cuMemFreeAsync", "cuLaunchHostFunc", "cuLaunch"}) {
    EXPECT_EQ(call_of(api).kind, CallKind::Other) << api;
  }
}

TEST(DeepCaptures, SeveralOfAThread_LatestOpenOneIsItsOwn) {
  Captures captures;
  EXPECT_EQ(captures.begun(16, CaptureMode::Global, 100), 1U);
  EXPECT_EQ(captures.begun(17, CaptureMode::Relaxed, 100), 2U);
  EXPECT_EQ(captures.latest_of(100)->number, 2U);
  EXPECT_EQ(captures.latest_of(200), nullptr);
  captures.ended(17, 100, 0);
  EXPECT_EQ(captures.latest_of(100)->number, 1U);
}

std::string silent(const std::string& api, int offset, int capture = 1) {
  return fmt::format(R"({{"event":"silent","pid":7,"api":"{}","stream":0,"capture":{},"thread":{{"id":1,"handle":5}},)"
                     R"("frames":[{{"function":"f","module":"/m","offset":{}}}]}})"
                     "\n",
                     api, capture, offset);
}

TEST(DeepJudging, SameCallAtTheSameLine_IsCountedInOneEntry) {
  const auto all = blame::read_report(silent("cuLaunchKernel", 1) + silent("cuLaunchKernel", 1, 2) +
                                      silent("cuLaunchKernel", 2) + silent("cuMemsetD8Async", 1));
  ASSERT_THAT(all, SizeIs(1));
  ASSERT_THAT(all[0].silent, SizeIs(3));
  EXPECT_EQ(all[0].silent[0].times, 2U);
  EXPECT_FALSE(all[0].silent[0].begun);
}

TEST(DeepJudging, FailedCapture_HasTheModeAndStreamItBeganWith) {
  const std::string begun =
      R"({"event":"begun","pid":7,"capture":2,"stream":16,"mode":"relaxed","thread":{"id":1,"handle":5}})"
      "\n";
  const std::string failed = R"({"event":"failed","pid":7,"api":"cuEventQuery","code":900,"thread":{"id":2}})"
                             "\n";
  const std::string end =
      R"({"event":"failed","pid":7,"api":"cuStreamEndCapture","code":901,"capture":2,"thread":{"id":1}})"
      "\n";
  const auto all = blame::read_report(begun + failed + end);
  ASSERT_THAT(all[0].failures, SizeIs(1));
  ASSERT_TRUE(all[0].failures[0].begun);
  EXPECT_EQ(all[0].failures[0].begun->mode, "relaxed");
  EXPECT_THAT(report::render_text(all[0].failures[0], ""), HasSubstr("begun    on stream 0x10, capture mode relaxed"));
}

class Deep : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder + "/tmp");
    for (const char* driver : {"deep", "old", "without"}) fs::create_directories(folder + "/" + driver);
    const std::string built = RECAPTURE_BUILD "/harness/tests/lib";
    fs::copy(built + "fake_driver.so", folder + "/deep/libcuda.so.1");
    fs::copy(built + "fake_driver.so", folder + "/without/libcuda.so.1");
    fs::copy(built + "fake_old_driver.so", folder + "/old/libcuda.so.1");
    fs::create_symlink("libcuda.so.1", folder + "/deep/libcupti.so.13");
    fs::create_symlink("libcuda.so.1", folder + "/old/libcupti.so.13");
    // Found before the machine's own.
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) {
      std::ofstream(folder + "/without/" + name) << "no library";
    }
    for (const char* variable : {"RECAPTURE_EVENTS", "RECAPTURE_BLAME", "RECAPTURE_RECORDER", "RECAPTURE_DEEP",
                                 "RECAPTURE_CHAIN", "LD_PRELOAD", "CUDA_INJECTION64_PATH"}) {
      unsetenv(variable);
    }
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string environment(const std::string& driver) const {
    return "TMPDIR='" + folder + "/tmp' LD_LIBRARY_PATH='" + folder + "/" + driver + "' ";
  }
  ShellResult blame(const std::string& program, const std::string& driver = "deep",
                    const std::string& variables = "") const {
    ShellResult said = shell("cd '" + folder + "' && " + environment(driver) + variables +
                             " '" RECAPTURE_BUILD "/recapture' blame --deep --verbose --log '" + folder + "/log' -- " +
                             program + " >/dev/null 2>&1");
    said.out = text_of(folder + "/log");
    return said;
  }
  Json blame_json(const std::string& program, const std::string& driver = "deep") const {
    shell(environment(driver) + "'" RECAPTURE_BUILD "/recapture' blame --deep --json --log '" + folder + "/log' -- " +
          program);
    return parse_json(text_of(folder + "/log")).at("processes").at(0);
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static int line_with(const std::string& path, const std::string& words) {
    std::ifstream file(path);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.find(words) != line.npos) return number;
    }
    ADD_FAILURE() << path << " has no line with " << words;
    return 0;
  }
  // A Python program with the driver, two streams and a capture as a with block.
  std::string python(const std::string& body) const {
    std::ofstream(folder + "/train.py") << R"(import ctypes, os, signal, sys, threading
cu = ctypes.CDLL("libcuda.so.1")
stream, side, graph, sized = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(4)
cu.cuInit(0)
cu.cuStreamCreate(ctypes.byref(stream), 1)
cu.cuStreamCreate(ctypes.byref(side), 1)
class capture:
    def __enter__(self):
        cu.cuStreamBeginCapture_v2(stream, 0)
    def __exit__(self, *error):
        cu.cuStreamEndCapture(stream, ctypes.byref(graph))
def launch(on):
    cu.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, on, None, None)
def memset(on):
    cu.cuMemsetD8Async(None, 0, sized, on)
)" << body;
    return folder + "/train.py";
  }
  static size_t count(const std::string& text, const std::string& words) {
    size_t number = 0;
    for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++number;
    return number;
  }

  const std::string folder = ::testing::TempDir() + "recapture-deep-" + std::to_string(getpid());
  const std::string failures = "'" RECAPTURE_BUILD "/harness/tests/failures' ";
  const std::string source = RECAPTURE_ROOT "/examples/blame/failures.cpp";
};

TEST_F(Deep, WorkOutsideTheGraph_NamesCallStreamAndLine) {
  const std::string script = python(R"(
def step():
    for i in range(3):
        launch(None)  # outside
    launch(stream)
    memset(side)  # aside
with capture():  # begins
    step()
launch(None)
)");
  const ShellResult said = blame("python3 " + script);
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out,
              HasSubstr("cuLaunchKernel was done at once and is in no graph, though a capture was open; 3 times\n"
                        "  kernel   mul(float*)\n  on       the default stream, which did not capture\n"));
  EXPECT_THAT(said.out, HasSubstr(fmt::format("train.py:{} in step\n", line_with(script, "# outside"))));
  EXPECT_THAT(said.out, ContainsRegex("cuMemsetD8Async was done at once[^\n]*open\n  on       stream 0x"));
  EXPECT_THAT(said.out, HasSubstr(fmt::format("train.py:{} in step\n", line_with(script, "# aside"))));
  EXPECT_THAT(said.out, ContainsRegex("begun    on stream 0x[^\n]*, capture mode global, by thread"));
  EXPECT_THAT(said.out, HasSubstr(fmt::format("train.py:{} in <module>\n", line_with(script, "# begins"))));
  EXPECT_EQ(count(said.out, "recapture blame: process"), 2U) << said.out;
}

// Their stream is in the struct of the first parameter.
TEST_F(Deep, ExtendedLaunch_IsJudgedByTheStreamInItsConfig) {
  const std::string script = python(R"(
class Config(ctypes.Structure):
    _fields_ = [("sizes", ctypes.c_uint * 7), ("stream", ctypes.c_void_p)]
def extended(on):
    cu.cuLaunchKernelEx(ctypes.byref(Config((0,) * 7, on)), None, None, None)
with capture():
    extended(stream)
    extended(side)  # aside
    extended(None)  # outside
)");
  const Json process = blame_json("python3 " + script);
  ASSERT_THAT(process.at("silent"), SizeIs(2));
  EXPECT_EQ(process.at("silent").at(0).at("python").at(1).at("line"), line_with(script, "# aside"));
  EXPECT_EQ(process.at("silent").at(1).at("stream"), "0x0");
}

TEST_F(Deep, AllWorkInTheGraph_ReportsNothing) {
  for (const char* driver : {"deep", "old"}) {
    EXPECT_EQ(blame(failures + "nothing", driver).out,
              "recapture blame: no capture has failed in the process that used CUDA\n");
  }
  const std::string script = python("launch(None)\nmemset(side)\nwith capture():\n    launch(stream)\nlaunch(None)\n");
  EXPECT_THAT(blame("python3 " + script).out, Not(HasSubstr("is in no graph")));
}

TEST_F(Deep, WorkOfAThreadThatTheCaptureWaitsFor_IsReported) {
  // It runs once the capturing thread waits for it.
  const std::string script = python(R"(
main, its = threading.get_native_id(), threading.get_ident()
def waits():
    joins = sys._current_frames()[its].f_code.co_filename == threading.__file__
    return joins and open(f"/proc/self/task/{main}/stat").read().split()[2] == "S"
def prepare():
    while not waits(): pass
    launch(side)  # prepared
with capture():
    launch(stream)
    helper = threading.Thread(target=prepare, name="helper")
    helper.start(); helper.join()  # waits
)");
  const ShellResult said = blame("python3 " + script);
  EXPECT_THAT(said.out, HasSubstr(fmt::format("train.py:{} in prepare\n", line_with(script, "# prepared"))));
  EXPECT_THAT(said.out, HasSubstr("which does not capture\n"));
  EXPECT_THAT(said.out, HasSubstr("the main one, which stood still at\n"));
  EXPECT_THAT(said.out, HasSubstr(fmt::format("train.py:{} in <module>\n", line_with(script, "# waits"))));
  EXPECT_EQ(blame_json(failures + "silent_in_thread").at("silent").at(0).at("capturing"), false);
  EXPECT_THAT(blame_json(failures + "work_beside").at("silent"), IsEmpty()) << "the thread is detached";
}

// Autograd's thread does the capturing thread's work: it is not disturbed by another thread's capture.
TEST_F(Deep, OtherThreadOnTheCapturingStream_IsPartOfTheCapture) {
  const auto causes_of = [&](const std::string& its, const char* driver, const char* how) {
    return blame("python3 " + python(fmt::format(fmt::runtime(R"(
def helper(its):
    cu.cuStreamSynchronize(its)  # mask.nonzero()
with capture():
    launch(stream)
    helper = threading.Thread(target=helper, args=({},))
    helper.start(); helper.join()
)"),
                                                 its)),
                 driver, how)
        .out;
  };
  for (const auto& [driver, how] :
       {std::pair("deep", ""), std::pair("old", ""), std::pair("deep", "RECAPTURE_RECORDER=cupti ")}) {
    EXPECT_THAT(causes_of("stream", driver, how),
                AllOf(HasSubstr("(nonzero_in_capture)"), Not(HasSubstr("(wait_in_other_thread)"))))
        << driver << how;
    EXPECT_THAT(causes_of("None", driver, how),
                AllOf(HasSubstr("(wait_in_other_thread)"), Not(HasSubstr("(nonzero_in_capture)"))))
        << driver << how;
  }
}

TEST_F(Deep, CaptureThatRecordedNothing_IsReportedAsAnEmptyGraph) {
  const Json process = blame_json(failures + "empty_graph");
  ASSERT_THAT(process.at("silent"), SizeIs(1));
  EXPECT_EQ(process.at("silent").at(0).at("what"), "empty graph");
  EXPECT_EQ(process.at("silent").at(0).at("begun").at("mode"), "global");
  EXPECT_THAT(process.at("failures"), IsEmpty());
  EXPECT_THAT(blame(failures + "empty_graph").out, HasSubstr("recorded nothing: its graph is empty\n"));
}

TEST_F(Deep, RefusedCopy_IsReportedAndIsNotTheCulprit) {
  for (const char* driver : {"deep", "old"}) {
    const Json process = blame_json(failures + "refused_copy", driver);
    EXPECT_EQ(process.at("refused").at(0).at("api"), "cuMemcpyBatchAsync") << driver;
    EXPECT_EQ(process.at("refused").at(0).at("stack").at(0).at("line"), line_with(source, "// REFUSED refused_copy"));
  }
  const std::string script = python("with capture():\n    cu.cuMemcpyBatchAsync()\n    cu.cuEventQuery(None)\n");
  const Json process = blame_json("python3 " + script, "old");
  EXPECT_EQ(process.at("failures").at(0).at("culprit").at("api"), "cuEventQuery");
}

// Also if the log reports an end after the capture is gone, as on a GPU.
TEST_F(Deep, AbandonedCapture_HasItsOwnCulprit) {
  const std::string script = python(R"(
cu.cuStreamBeginCapture_v2(stream, 1)
cu.cuStreamSynchronize(stream)  # breaks the first
cu.cuStreamBeginCapture_v2(side, 1)
cu.cuStreamSynchronize(side)  # breaks the second
cu.cuStreamEndCapture(side, ctypes.byref(graph))
)");
  for (const char* order : {"", "FAKE_LOG_LAST=1 "}) {
    const ShellResult said = blame("python3 " + script, "deep", order);
    const size_t ended = said.out.find(" and broke the capture\n"), first = said.out.find("# breaks the first\n"),
                 second = said.out.find("# breaks the second\n");
    ASSERT_NE(first, said.out.npos) << order << said.out;
    EXPECT_LT(ended, second) << order << said.out;
    EXPECT_LT(second, first) << order << said.out;
    EXPECT_EQ(count(said.out, "end      none was seen"), 1U) << order << said.out;
    EXPECT_EQ(count(said.out, "which captures; capture mode thread_local\n"), 2U) << order << said.out;
    EXPECT_EQ(count(said.out, "begun    on stream"), 2U) << order << said.out;
  }
}

TEST_F(Deep, LongLists_ShowTenAndCountTheRest) {
  std::string places = "with capture():\n    launch(stream)\n";
  for (int i = 0; i < 15; ++i) places += "    launch(None)\n";
  const ShellResult said = blame("python3 " + python(places));
  EXPECT_EQ(count(said.out, "was done at once"), 10U);
  EXPECT_THAT(said.out, HasSubstr("and 5 more\n"));

  const std::string loop = "python3 " + python("with capture():\n    for i in range(2100): launch(None)\n");
  EXPECT_THAT(
      blame(loop).out,
      AllOf(HasSubstr("; 2000 times\n"),
            HasSubstr("only its first 2000 calls that are in no graph were kept, and at least 64 more were not\n")));
  EXPECT_EQ(blame_json(loop).at("cut").at("silent"), 64);
}

TEST_F(Deep, FailedCapture_HasItsModeAndTheLineItBeganAt) {
  for (const char* driver : {"deep", "old"}) {
    const Json failure = blame_json(failures + "malloc_in_thread", driver).at("failures").at(0);
    EXPECT_EQ(failure.at("culprit").at("mode"), "global") << driver;
    EXPECT_EQ(failure.at("culprit").at("capturing"), false);
    EXPECT_EQ(failure.at("begun").at("mode"), "global");
    EXPECT_EQ(failure.at("begun").at("thread").at("main"), true);
    EXPECT_EQ(failure.at("begun").at("stack").at(0).at("line"),
              line_with(source, "cuStreamBeginCapture(*failure.captured"));
  }
}

// The suite's own record of the call that broke a capture.
TEST_F(Deep, LineOfATest_HasTheCulpritsLineAndTheDriversText) {
  const std::string program = RECAPTURE_BUILD "/harness/tests/case_of_failures";
  const auto culprit = [&](const std::string& command, const std::string& driver, const std::string& recorder,
                           const std::string& first = "") {
    shell(environment(driver) + first + "RECAPTURE_EVENTS=3 RECAPTURE_RECORDER=" + recorder +
          " CUDA_INJECTION64_PATH='" RECAPTURE_BUILD "/librecorder.so' " + command + " 3>'" + folder + "/events'");
    Observation seen;
    seen.ending = Observation::Ending::Exited;
    std::istringstream events(text_of(folder + "/events"));
    for (std::string line; std::getline(events, line);) seen.events.push_back(parse_event(line));
    return line_of({"c.Reproduces", "exec", "", program}, seen, Anonymous()).value("culprit", Json::object());
  };
  const Json told = culprit("'" + program + "' malloc", "deep", "aloof");
  EXPECT_EQ(told.value("api", ""), "cuMemAlloc_v2");
  EXPECT_EQ(told.value("mode", ""), "global");
  EXPECT_EQ(told.value("thread", ""), "capturing");
  EXPECT_EQ(told.value("file", ""), "cases/examples/blame/failures.cpp");
  EXPECT_EQ(told.value("line", 0), line_with(source, "CULPRIT malloc"));
  EXPECT_EQ(told.value("log", ""),
            "API call conflicts with a stream capture sequence initiated from the calling thread");
  EXPECT_FALSE(told.contains("at"));
  EXPECT_EQ(culprit("'" + program + "' malloc", "deep", "always", "FAKE_LOG_LAST=1 "), told)
      << "whether the log or CUPTI reports first";
  EXPECT_FALSE(culprit("'" + program + "' malloc", "old", "always").contains("log")) << "a driver without one";

  const std::string script = python("with capture():\n    cu.cuEventQuery(None)  # breaks it\n");
  const std::string line = fmt::format("{}:{} <module>", script, line_with(script, "breaks it"));
  EXPECT_EQ(culprit("python3 " + script, "deep", "always").value("python", Json::array()).at(0), line);
  EXPECT_FALSE(culprit("python3 " + script, "deep", "aloof").contains("python")) << "it would disturb a race";
}

TEST_F(Deep, KilledProgram_IsReported) {
  const std::string script =
      python("with capture():\n    launch(None)  # outside\n    os.kill(os.getpid(), signal.SIGKILL)\n");
  const ShellResult said = blame("python3 " + script);
  EXPECT_EQ(said.code, 128 + SIGKILL);
  EXPECT_THAT(said.out, HasSubstr(fmt::format("train.py:{} in ", line_with(script, "def launch") + 1)));
}

TEST_F(Deep, WithoutCupti_NamesThePackageAndReportsFailures) {
  const ShellResult said = blame(failures + "malloc", "without");
  EXPECT_THAT(
      said.out,
      ContainsRegex("process [^\n]*: --deep reported nothing: CUPTI is not to be found; install nvidia-cuda-cupti"));
  EXPECT_THAT(said.out, HasSubstr("cuMemAlloc_v2 returned 900"));
  EXPECT_EQ(said.code, 3);
  EXPECT_THAT(blame(failures + "malloc", "deep", "FAKE_PROFILER=1").out,
              AllOf(HasSubstr("a profiler or debugger is attached; captures that fail are reported all the same\n"),
                    HasSubstr("cuMemAlloc_v2 returned 900")));
}

TEST_F(Deep, CiBlame_ExpectedReportPassesAndAMissingCulpritFails) {
  const std::string judge = environment("deep") + "'" RECAPTURE_ROOT "/tools/blame' --failures " + failures +
                            "--recapture '" RECAPTURE_BUILD "/recapture' --jobs 1 ";
  ShellResult said = shell(judge + "--deep --output '" + folder + "/r' cpp/malloc cpp/silent_memset cpp/nothing");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("4 of 4 as they should be")) << "malloc_in_thread too";
  EXPECT_THAT(text_of(folder + "/r.txt"), HasSubstr("cuMemAlloc_v2 returned 900"));
  // The fake cuCtxSynchronize is not in its log.
  said = shell(judge + "cpp/context_synchronize cpp/nothing");
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.out,
              AllOf(ContainsRegex("WRONG  cpp/context_synchronize[^\n]*no culprit"), HasSubstr("1 of 2 as they")));
  EXPECT_EQ(shell("FAKE_INIT=100 " + judge + "cpp/nothing").code, 77) << "no GPU";
  EXPECT_EQ(shell(judge + "no-such-program").code, 2);
}

// The program under blame differs from the one that is checked.
TEST_F(Deep, CiBlame_WrongLineCallOrCauseFails) {
  const std::string swapped = folder + "/recapture";
  std::ofstream(swapped)
      << "#!/bin/sh\nfor word; do shift; [ \"$word\" = \"$FROM\" ] && word=$TO; set -- \"$@\" \"$word\"; "
         "done\nexec '" RECAPTURE_BUILD "/recapture' \"$@\"\n";
  fs::permissions(swapped, fs::perms::owner_all);
  for (const auto& [from, to, words] :
       {std::tuple("malloc_in_thread", "malloc", "the line is "), std::tuple("nothing", "malloc", "1 failures, not 0"),
        std::tuple("free", "host_free", "the call is cuMemFreeHost"),
        std::tuple("free", "nothing", "0 failures, not 1"),
        std::tuple("event_query", "query_in_thread", "the cause is event_query_in_other_thread, not event_query_in_"),
        std::tuple("silent_memset", "silent_in_thread", "silent: [('cuMemsetD8Async', "),
        std::tuple("silent_memset", "nothing", "silent: [], not cuMemsetD8Async at line"),
        std::tuple("nothing", "silent_memset", "silent: cuMemsetD8Async, though nothing is")}) {
    const ShellResult said =
        shell(environment("deep") + "FROM=" + from + " TO=" + to + " '" RECAPTURE_ROOT "/tools/blame' --failures " +
              failures + " --deep --jobs 1 --recapture '" + swapped + "' cpp/" + from);
    EXPECT_EQ(said.code, 1) << from << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << from << " " << to;
  }
}

// tools/prices on given pairs: each has a replay, an eager launch and a capture.
class Prices : public Deep {
 protected:
  // `pairs` pairs with these ratios, and that spread around them.
  ShellResult table(size_t pairs, double replay, double eager, double capture, double spread) const {
    Json all = Json::array();
    for (size_t i = 0; i < pairs; ++i) {
      const double by = i % 2 == 0 ? 1 + spread : 1 / (1 + spread);
      all.push_back({{10, 5, 100}, {10 * replay * by, 5 * eager * by, 100 * capture * by}});
    }
    const Json way = {{"program", "C++"}, {"pairs", all}, {"why_not", ""}};
    std::ofstream(folder + "/p.json") << Json{{"machine", "M"}, {"ways", {{"recapture blame", way}}}};
    return shell("'" RECAPTURE_ROOT "/tools/prices' '" + folder + "/p.json'");
  }
};

TEST_F(Prices, Intervals_DecideWhetherThePromiseHolds) {
  EXPECT_EQ(table(24, 1.001, 1.0, 1.0, 0.005).code, 0);
  EXPECT_EQ(table(24, 0.9, 0.9, 0.9, 0.005).code, 0) << "faster";
  EXPECT_EQ(table(24, 1.14, 1.0, 1.0, 0.005).code, 1);
  EXPECT_THAT(table(24, 1.14, 1.0, 1.0, 0.005).out, HasSubstr("The promise is broken: a replay."));
  EXPECT_THAT(table(24, 1.0, 1.05, 1.05, 0.005).out, HasSubstr("The promise is broken: an eager launch, a capture."));
  EXPECT_EQ(table(24, 1.005, 1.0, 1.0, 0.05).code, 6) << "too wide";
  EXPECT_EQ(table(19, 1.0, 1.0, 1.0, 0.005).code, 6) << "too few";
  EXPECT_EQ(table(1, 1.0, 1.0, 1.0, 0.005).code, 7);
}

TEST_F(Prices, RatiosOfPairs_GiveStudentsInterval) {
  // 25 pairs that alternate between 1.02 and 1/1.02: the mean of 13 logarithms up and 12 down, and 2.064 standard
  // errors.
  EXPECT_THAT(table(25, 1.0, 1.0, 1.0, 0.02).out, HasSubstr("| recapture blame | 25 | 1.001 [0.992, 1.009] |"));
  EXPECT_THAT(table(20, 1.0, 1.0, 1.0, 0.02).out, HasSubstr("| 20 | 1.000 [0.991, 1.010] |")) << "2.093";
}

// Each process has a random speed: in single pairs it hides everything else, in the minimum of six it has disappeared.
TEST_F(Prices, EnoughPairs_CompareTheLeastOfEachSix) {
  const auto drawn = [&](size_t pairs) {
    Json all = Json::array();
    for (size_t i = 0; i < pairs; ++i) {
      const double bare = i % 2 == 0 ? 12.7 : 14.2, other = i % 3 == 0 ? 12.7 : 14.2;
      all.push_back({{bare, 5, 100}, {other * (i % 4 < 2 ? 1.001 : 1.002), 5.0 + 0.001 * (i % 5), 100.0 - i % 2}});
    }
    const Json way = {{"program", "C++"}, {"pairs", all}, {"why_not", ""}};
    std::ofstream(folder + "/p.json") << Json{{"machine", "M"}, {"ways", {{"recapture blame", way}}}};
    return shell("'" RECAPTURE_ROOT "/tools/prices' '" + folder + "/p.json'");
  };
  EXPECT_EQ(drawn(59).code, 1) << "59 are too few for groups";
  const ShellResult enough = drawn(120);
  EXPECT_EQ(enough.code, 0) << enough.out;
  EXPECT_THAT(enough.out, HasSubstr("| recapture blame | 120, the least of each 6 | 1.001 [1.001, 1.001] |"));
}

TEST_F(Prices, MeasuredSlowdown_BreaksThePromise) {
  const std::string prices = environment("deep") +
                             "'" RECAPTURE_ROOT "/tools/prices' --blame --recapture '" RECAPTURE_BUILD
                             "/recapture' --python false --pairs 4 --output '" +
                             folder + "/p.json'";
  // The fake's calls take longer if a library is injected.
  const ShellResult said = shell("FAKE_COST=5000 " + prices);
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, HasSubstr("The promise is broken: a replay, an eager launch, a capture.\n"));
  EXPECT_THAT(said.out, HasSubstr("| recapture blame --deep | 4 | "));
  EXPECT_THAT(said.out, HasSubstr("| torch.profiler | not measured: "));
  const Json report = parse_json(text_of(folder + "/p.json"));
  EXPECT_THAT(report.at("ways").at("CUDA_LOG_FILE").at("pairs"), SizeIs(4));
  const ShellResult one = shell(prices + " --ways CUDA_LOG --pairs 1");
  EXPECT_EQ(one.code, 7) << one.out;
  EXPECT_THAT(one.out, HasSubstr("| CUDA_LOG_FILE | not measured")) << "one pair has no interval";
  EXPECT_THAT(one.out, Not(HasSubstr("| recapture blame")));
  const ShellResult without = shell("FAKE_INIT=100 " + prices);
  EXPECT_EQ(without.code, 7) << without.out;
}

}  // namespace
}  // namespace recapture

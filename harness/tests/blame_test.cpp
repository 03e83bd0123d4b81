// Which call broke which capture: what the recorder reads from the driver's log, how blame judges it, and both together
// in real processes, C++ and Python, with a fake driver.
#include "harness/report/blame.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/base/exit.h"
#include "harness/base/json.h"
#include "harness/blame/causes.h"
#include "harness/blame/report.h"
#include "harness/blame/source.h"
#include "harness/case/events.h"
#include "harness/recorder/driver_log.h"
#include "harness/recorder/frames.h"
#include "harness/recorder/python_text.h"
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
using ::testing::StartsWith;

TEST(DriverLog, LineOfTheLog_GivesItsCallAndCodeOrItsSentence) {
  for (const char* before : {"", "[23:57:31.242][139912224974400][CUDA][E] ", "[22:21:32.099][25642][CUDA][E][cuX] "}) {
    for (const char* after : {"", "\n"}) {
      const std::string call =
          std::string(before) + "Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2" + after;
      EXPECT_EQ(driver_log::read_line(call).api, "cuMemAlloc_v2") << call;
      EXPECT_EQ(driver_log::read_line(call).code, 900) << call;
      const std::string sentence = std::string(before) + "buffer cannot be NULL" + after;
      EXPECT_EQ(driver_log::read_line(sentence).sentence, "buffer cannot be NULL");
      EXPECT_EQ(driver_log::read_line(sentence).api, "");
    }
  }
  const std::string with_end("Returning 1 (X) from cuA\0", 25);
  EXPECT_EQ(driver_log::read_line(with_end).api, "cuA");
  for (const char* odd : {"", "[", "[]", "Returning ", "Returning 900", "Returning (x) from"}) {
    EXPECT_EQ(driver_log::read_line(odd).api, "") << odd;
  }
}

TEST(DriverLog, CallAndCode_GiveTheirPartInABrokenCapture) {
  EXPECT_EQ(part_of("cuMemAlloc_v2", 900), Part::Suspect);
  EXPECT_EQ(part_of("cuStreamWaitEvent", 905), Part::Suspect);
  EXPECT_EQ(part_of("cuModuleLoadData", 900), Part::Suspect);
  EXPECT_EQ(part_of("cuGraphExecDestroy", 900), Part::Suspect);
  EXPECT_EQ(part_of("cuStreamSynchronize", 901), Part::Victim);
  EXPECT_EQ(part_of("cuStreamEndCapture", 901), Part::Ended);
  EXPECT_EQ(part_of("cuStreamEndCapture_ptsz", 904), Part::EndedBy);
  EXPECT_EQ(part_of("cuStreamEndCapture", 908), Part::EndedBy);
  EXPECT_EQ(part_of("cuStreamEndCapture", 903), Part::Suspect) << "measured: it breaks the capture and leaves it open";
  EXPECT_EQ(part_of("cuStreamBeginCapture_v2", 906), Part::Suspect) << "measured: beside a blocking capture";
  EXPECT_EQ(part_of("cuStreamWaitEvent_ptsz", 1), Part::Possible);
  for (const auto& [api, code] : {std::pair("cuMemcpyBatchAsync_v2", 900), std::pair("cuStreamBeginCapture_v2", 900),
                                  std::pair("cuStreamBeginCapture_v2", 401), std::pair("cuStreamEndCapture", 401)}) {
    EXPECT_EQ(part_of(api, code), Part::Refused) << api << code;
  }
  for (const auto& [api, code] :
       {std::pair("cuStreamIsCapturing", 906), std::pair("cuMemFreeAsync", 1), std::pair("cuCtxGetDevice", 201),
        std::pair("cuMemAlloc_v2", 2), std::pair("cuGraphExecUpdate_v2", 910), std::pair("cuCtxSynchronize", 909)}) {
    EXPECT_EQ(part_of(api, code), Part::None) << api << code;
  }
}

TEST(DriverLog, SecondSuspect_IsNotNamedBeforeABrokenCaptureEnds) {
  driver_log::Accuser accuser;
  EXPECT_FALSE(accuser.names(Part::Possible));
  EXPECT_TRUE(accuser.names(Part::Suspect));
  EXPECT_FALSE(accuser.names(Part::Suspect));
  EXPECT_FALSE(accuser.names(Part::Victim));
  EXPECT_FALSE(accuser.names(Part::Ended));
  EXPECT_TRUE(accuser.names(Part::Refused));
  EXPECT_TRUE(accuser.names(Part::Suspect));
  EXPECT_FALSE(accuser.names(Part::Refused));
  EXPECT_FALSE(accuser.names(Part::Ended));
  EXPECT_TRUE(accuser.names(Part::Ended)) << "of a call that was not logged";
  EXPECT_TRUE(accuser.names(Part::EndedBy));
}

TEST(PythonText, FaulthandlerOutput_GivesThreadsAndTheirFrames) {
  const auto threads = python::read_threads(
      "Thread 0x00007f05f49ff6c0 (most recent call first):\n"
      "  File \"/a \"b\", line 2 in c/t.py\", line 12 in load\n"
      "  File \"<frozen runpy>\", line 870 in run\n"
      "\n"
      "Thread 0x00007f0000000001 [worker] (most recent call first):\n"
      "  <no Python frame>\n"
      "\n"
      "Current thread 0x00007f05f564bc40 [python] (most recent call first):\n"
      "  File \"t.py\", line 17 in <module>\n"
      "Extension modules: numpy (total: 1)\n"
      "Current thread's C stack trace (most recent call first):\n"
      "  Binary file \"/usr/bin/python3\", at _Py_DumpStack+0x52 [0x1]\n",
      1);
  ASSERT_THAT(threads, SizeIs(3));
  EXPECT_EQ(threads[0].handle, 0x7f05f49ff6c0U);
  ASSERT_THAT(threads[0].frames, SizeIs(2));
  EXPECT_EQ(python::text(threads[0].frames[0]), "/a \"b\", line 2 in c/t.py:12 load");
  EXPECT_THAT(threads[1].frames, IsEmpty());
  ASSERT_THAT(threads[2].frames, SizeIs(1));
  EXPECT_EQ(python::text(threads[2].frames[0]), "t.py:17 <module>");
  EXPECT_THAT(python::read_threads("", 1), IsEmpty());
  EXPECT_THAT(python::read_threads("  File \"t.py\", line 1 in f\n", 1), IsEmpty());
  const auto one = python::read_threads("Stack (most recent call first):\n  File \"t.py\", line 1 in f\n", 5);
  ASSERT_THAT(one, SizeIs(1));
  EXPECT_EQ(one[0].handle, 5U);
}

// Checked for thousands of addresses in every library of this process.
TEST(Places, AddressInALibrary_HasTheModuleAndSymbolOfDladdr) {
  std::vector<uintptr_t> addresses;
  dl_iterate_phdr(
      [](dl_phdr_info* module, size_t, void* all) {
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& segment = module->dlpi_phdr[i];
          const bool is_code = segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0;
          const bool is_kernels = std::string_view(module->dlpi_name).substr(0, 10) == "linux-vdso";
          for (uintptr_t at = 0; is_code && !is_kernels && at < segment.p_memsz; at += 1777) {
            static_cast<std::vector<uintptr_t>*>(all)->push_back(module->dlpi_addr + segment.p_vaddr + at);
          }
        }
        return 0;
      },
      &addresses);
  size_t named = 0;
  for (const uintptr_t address : addresses) {
    const auto* where = reinterpret_cast<const void*>(address);
    const Place place = place_of(where);
    Dl_info info{};
    ASSERT_NE(dladdr(where, &info), 0);
    EXPECT_EQ(reinterpret_cast<const void*>(place.begin), info.dli_fbase);
    // If two symbols share an address, either may be named.
    void* ours = place.symbol.empty() ? nullptr : dlsym(RTLD_DEFAULT, place.symbol.c_str());
    EXPECT_EQ(place.symbol.empty(), info.dli_sname == nullptr) << info.dli_fname << " " << place.symbol;
    if (info.dli_sname != nullptr && place.symbol != info.dli_sname && ours != nullptr) {
      EXPECT_EQ(ours, info.dli_saddr) << info.dli_fname << " " << place.symbol << " " << info.dli_sname;
    }
    named += place.symbol.empty() ? 0 : 1;
  }
  EXPECT_GT(named, 100U) << "of " << addresses.size();
}

TEST(Places, ModuleNamedLikeAKnownLibrary_IsNotTheProgramsOwn) {
  const auto is_own = [](const std::string& module) { return blame::native_frames({{"f", module, 1}}).front().own; };
  for (const char* own :
       {"/a/train", "/a/libcustom_ops.so", "/a/libcudagraphs_of_ours.so", "/a/libnvme_cache.so", "/a/libcurve.so.1",
        "/a/libtorch_extension.so", "/a/libc10d_of_ours.so", "/a/python_model", "/a/python3_model", "/a/pythonic"}) {
    EXPECT_TRUE(is_own(own)) << own;
  }
  for (const char* library : {"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                              "/a/libcuda.so.1",
                              "/a/libcudart.so.13",
                              "/a/libcudart-9335f6a2.so.12",
                              "/a/libcublasLt.so.13",
                              "/a/libcudnn_ops.so.9",
                              "/a/libcufft.so.12",
                              "/a/libcupti.so.13",
                              "/a/libcurand.so.10",
                              "/a/libcusolver.so.12",
                              "/a/libcusparseLt.so.0",
                              "/a/libnvrtc-builtins.so.13.0",
                              "/a/libnvJitLink.so.13",
                              "/a/libnvidia-ptxjitcompiler.so.1",
                              "/a/libnccl.so.2",
                              "/a/libtorch.so",
                              "/a/libtorch_cuda_linalg.so",
                              "/a/libtorch_python.so",
                              "/a/libc10.so",
                              "/a/libc10_cuda.so",
                              "/a/libpython3.11.so.1.0",
                              "/a/bin/python",
                              "/a/bin/python3",
                              "/a/bin/python3.11",
                              "/a/site-packages/x/libcustom_ops.so"}) {
    EXPECT_FALSE(is_own(library)) << library;
  }
}

TEST(Places, CodeThatInductorWrites_IsNotTheProgramsOwn) {
  const auto frames =
      blame::python_frames({{"/tmp/torchinductor_me/2g/c2g.py", 101, "call"}, {"train.py", 12, "scale"}});
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_FALSE(frames[0].own);
  EXPECT_TRUE(frames[1].own);
}

TEST(Places, FunctionThatALibraryDoesNotExport_HasItsNameIfTheLibraryHasSymbols) {
  const std::string folder = ::testing::TempDir() + "symbols-" + std::to_string(getpid()) + "/site-packages";
  fs::create_directories(folder);
  std::ofstream(folder + "/x.c") << "static __attribute__((noinline)) int hidden(int x) { return x * 3; }\n"
                                    "int shown(int x) { return hidden(x) + 1; }\n";
  const auto name = [&](const std::string& more) {
    shell("cd '" + folder + "' && cc -O1 -shared -fPIC x.c -o x.so && nm x.so | grep hidden >symbols && " + more);
    std::ifstream symbols(folder + "/symbols");
    uintptr_t offset = 0;
    symbols >> std::hex >> offset;
    const blame::SourceFrame frame = blame::native_frames({{"", folder + "/x.so", offset}}).front();
    EXPECT_FALSE(frame.own);
    return frame.function;
  };
  EXPECT_EQ(name("true"), "hidden");
  EXPECT_THAT(name("strip x.so"), StartsWith("x.so+0x"));
  fs::remove_all(fs::path(folder).parent_path());
}

std::string failed(const std::string& api, int code, int thread = 1, int pid = 7) {
  return fmt::format(R"({{"event":"failed","pid":{},"api":"{}","code":{},"thread":{{"id":{},"handle":{},"name":"t"}}}})"
                     "\n",
                     pid, api, code, thread, 1000 + thread);
}

// The same line with more members.
std::string with(std::string line, const std::string& members) { return line.insert(line.size() - 2, "," + members); }

// The log's members for a call, and those of --deep and CUPTI.
constexpr char kOwn[] = R"("sentence":"… initiated from the calling thread","capturing":true)";
constexpr char kBeside[] = R"("sentence":"… initiated from another thread","capturing":false)";
std::string in_capture(int number, int latest, const std::string& mode) {
  return fmt::format(R"("capturing":true,"capture":{},"latest":{},"mode":"{}")", number, latest, mode);
}

std::vector<blame::Failure> failures(const std::string& text) {
  const auto processes = blame::read_report(text);
  return processes.empty() ? std::vector<blame::Failure>() : processes[0].failures;
}

TEST(Judging, SeveralFailedCalls_FirstBreakingOneIsTheCulprit) {
  const auto all = failures(failed("cuMemcpyBatchAsync", 900) + failed("cuEventQuery", 900, 2) +
                            failed("cuStreamSynchronize", 901) + failed("cuStreamEndCapture", 901));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].culprit->api, "cuEventQuery");
  EXPECT_EQ(all[0].culprit->capturing, false) << "another thread has ended the capture";
  ASSERT_THAT(all[0].victims, SizeIs(1));
  EXPECT_EQ(all[0].victims[0].api, "cuStreamSynchronize");
  EXPECT_EQ(all[0].capturing()->id, 1);
}

TEST(Judging, TwoBrokenCaptures_EachHasItsOwnCulprit) {
  const auto all = failures(failed("cuEventQuery", 900) + failed("cuStreamEndCapture", 901) +
                            failed("cuMemAlloc_v2", 900) + failed("cuStreamEndCapture", 901));
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[1].culprit->api, "cuMemAlloc_v2");
}

TEST(Judging, EndThatFailsWith904_IsItsOwnCulprit) {
  const auto all = failures(failed("cuEventQuery", 900) + failed("cuStreamEndCapture", 904));
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].culprit->api, "cuStreamEndCapture");
  EXPECT_EQ(all[1].culprit->api, "cuEventQuery");
  EXPECT_FALSE(all[1].end) << "the broken capture is unknown";
}

TEST(Judging, OneCallBreaksTwoCaptures_IsOneFailureWithTwoEnds) {
  const std::string once = failed("cuEventQuery", 900, 3) + failed("cuStreamEndCapture", 901, 1);
  auto all = failures(once + failed("cuStreamEndCapture", 901, 2));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].ends, 2U);
  all = failures(once + failed("cuStreamSynchronize", 901, 2) + failed("cuStreamEndCapture", 901, 2));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(all[0].victims, SizeIs(1));
  all = failures(once + failed("cuStreamEndCapture", 901, 1));
  ASSERT_THAT(all, SizeIs(2)) << "a second capture of the same thread came later";
  EXPECT_FALSE(all[1].culprit);
}

TEST(Judging, VictimBeforeAnySuspect_FailureHasNoCulprit) {
  const auto all = failures(failed("cuStreamSynchronize", 901) + failed("cuStreamEndCapture", 901));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_FALSE(all[0].culprit);
  const auto late =
      failures(failed("cuStreamSynchronize", 901) + failed("cuEventQuery", 900, 2) + failed("cuStreamEndCapture", 901));
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_FALSE(late[0].culprit) << "the capture was broken before";
  EXPECT_THAT(late[0].victims, SizeIs(2));
  const auto killed = failures(failed("cuStreamSynchronize", 901));
  ASSERT_THAT(killed, SizeIs(1)) << "901 means that a capture was broken";
  EXPECT_FALSE(killed[0].culprit);
  EXPECT_FALSE(killed[0].end);
  EXPECT_THAT(report::render_text(killed[0], "CUPTI"),
              StartsWith("a capture was broken by a call that was not recorded\n"));
  EXPECT_THAT(report::render_text(killed[0], "the driver's log"),
              HasSubstr("; RECAPTURE_RECORDER=cupti records more\n"));
  const auto explained = failures(with(failed("cuEventQuery", 900, 3), kBeside) + failed("cuStreamEndCapture", 901, 1) +
                                  failed("cuStreamSynchronize", 901, 2));
  ASSERT_THAT(explained, SizeIs(1)) << "in a second capture that the same call broke";
  EXPECT_THAT(explained[0].victims, SizeIs(1));
}

TEST(Judging, EndThatFailsWith903_IsTheCulpritAndNotTheEnd) {
  const auto all = failures(failed("cuStreamEndCapture", 903) + failed("cuStreamEndCapture", 901));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].culprit->code, 903);
  EXPECT_EQ(all[0].end->code, 901);
  EXPECT_THAT(report::render_text(all[0], ""),
              ContainsRegex("^cuStreamEndCapture returned 903 [^\n]* and broke the capture"));
}

TEST(Judging, TwoCapturingThreadsFail_EachIsCulpritOfItsOwnCapture) {
  const std::string one = with(failed("cuEventQuery", 900, 1), kOwn) + failed("cuLaunchKernel", 901, 1);
  const std::string other = with(failed("cuMemAlloc_v2", 900, 2), kOwn);
  const std::string its_end = failed("cuStreamEndCapture", 901, 1), others_end = failed("cuStreamEndCapture", 901, 2);
  for (const auto& [ends, first] : {std::pair(its_end + others_end, 0), std::pair(others_end + its_end, 1)}) {
    const auto all = failures(one + other + ends);
    ASSERT_THAT(all, SizeIs(2));
    EXPECT_EQ(all[first].culprit->api, "cuEventQuery");
    EXPECT_THAT(all[first].victims, SizeIs(1));
    EXPECT_EQ(all[1 - first].culprit->api, "cuMemAlloc_v2");
    EXPECT_THAT(all[1 - first].victims, IsEmpty());
  }
  EXPECT_THAT(failures(one + other), SizeIs(2)) << "the process ended before its captures";
  // A broken capture may still be refused calls that a valid one is refused; so the order counts if one capture was
  // open.
  const auto order =
      failures(with(failed("cuEventQuery", 900, 2), kBeside) + with(failed("cuMemAlloc_v2", 900, 1), kOwn) + its_end);
  ASSERT_THAT(order, SizeIs(1));
  EXPECT_EQ(order[0].culprit->api, "cuEventQuery");
}

TEST(Judging, ErrorOfAnEarlierCapture_IsNotTheCulpritOfALaterOne) {
  const std::string abandoned = with(failed("cuStreamSynchronize", 900), in_capture(1, 1, "thread_local"));
  const std::string second = with(failed("cuMemAlloc_v2", 900), in_capture(2, 2, "thread_local"));
  const std::string end = with(failed("cuStreamEndCapture", 901), in_capture(2, 2, "thread_local"));
  const auto all = failures(abandoned + second + end);
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].culprit->api, "cuMemAlloc_v2");
  EXPECT_EQ(all[1].culprit->api, "cuStreamSynchronize");
  EXPECT_FALSE(all[1].end);
  const auto unknown = failures(abandoned + end);
  ASSERT_THAT(unknown, SizeIs(2));
  EXPECT_FALSE(unknown[0].culprit);
}

TEST(Judging, SecondBrokenCapture_SharesTheCulpritOnlyIfTheCallReachesIt) {
  const std::string own = with(failed("cuEventQuery", 900, 1), kOwn) + failed("cuStreamEndCapture", 901, 1);
  const auto later = failures(own + failed("cuStreamEndCapture", 901, 2));
  ASSERT_THAT(later, SizeIs(2)) << "another thread's capture, later, and another cause";
  EXPECT_FALSE(later[1].culprit);
  const auto both = [](int number, const char* mode) {
    return failures(with(failed("cuEventQuery", 900, 1), in_capture(1, 2, "global")) +
                    with(failed("cuStreamEndCapture", 901, 1), in_capture(1, 2, "global")) +
                    with(failed("cuStreamEndCapture", 901, 2), in_capture(number, number, mode)));
  };
  ASSERT_THAT(both(2, "global"), SizeIs(1));
  EXPECT_EQ(both(2, "global")[0].ends, 2U);
  EXPECT_THAT(both(2, "relaxed"), SizeIs(2));
  EXPECT_THAT(both(3, "global"), SizeIs(2)) << "the capture had not begun";
  const auto nested = failures(with(failed("cuEventQuery", 900), in_capture(2, 2, "thread_local")) +
                               with(failed("cuStreamEndCapture", 901), in_capture(2, 2, "thread_local")) +
                               with(failed("cuStreamEndCapture", 901), in_capture(1, 2, "thread_local")));
  ASSERT_THAT(nested, SizeIs(1)) << "a capture inside another of the same thread";
  EXPECT_EQ(nested[0].ends, 2U);
}

TEST(Judging, AmbiguousErrorCode_CountsOnlyWithoutAnotherSuspect) {
  const std::string wait = failed("cuStreamWaitEvent", 1), end = failed("cuStreamEndCapture", 901);
  EXPECT_THAT(failures(wait), IsEmpty());
  ASSERT_THAT(failures(wait + end), SizeIs(1));
  EXPECT_EQ(failures(wait + end)[0].culprit->api, "cuStreamWaitEvent");
  EXPECT_EQ(failures(wait + failed("cuMemAlloc_v2", 900) + end)[0].culprit->api, "cuMemAlloc_v2");
  const auto update = blame::read_report(failed("cuGraphExecUpdate_v2", 910));
  EXPECT_THAT(update.at(0).failures, IsEmpty());
  EXPECT_THAT(update.at(0).refused, IsEmpty());
}

// With the log and with CUPTI: the first error is not the one to name.
TEST(Judging, VictimHeardByCupti_IsNotTheCulprit) {
  const std::string heard = R"({"event":"heard","pid":7,"by":"CUPTI","why_not":"","program":"a"})"
                            "\n";
  const auto broken = failures(heard + with(failed("cuStreamEndCapture", 901), in_capture(1, 1, "global")));
  ASSERT_THAT(broken, SizeIs(1));
  EXPECT_FALSE(broken[0].culprit);
  const auto begin = failures(heard + with(failed("cuStreamBeginCapture_v2", 906), in_capture(1, 1, "global")));
  ASSERT_THAT(begin, SizeIs(1)) << "measured: the capture beside it is broken";
  EXPECT_EQ(begin[0].culprit->code, 906);
}

// An exception that ended a thread's capture, in which calls of these numbers may have failed.
std::string given_up(const std::string& at, int failed_before, const std::string& type = "ValueError", int thread = 1) {
  return fmt::format(
      R"({{"event":"given up","pid":7,"at":"{}","failed_before":{},"thread":{{"id":{},"handle":{}}},)"
      R"("raised":[{{"type":"{}","text":"shape","frames":[{{"file":"/t.py","line":3,"function":"f"}}]}}]}})"
      "\n",
      at, failed_before, thread, 1000 + thread, type);
}

TEST(Judging, ExceptionWithoutAFailedCall_IsTheCulprit) {
  const auto all = failures(given_up("inside", 0));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_TRUE(all[0].is_by_exception());
  EXPECT_EQ(all[0].given_up->root()->type, "ValueError");
  EXPECT_EQ(all[0].capturing()->id, 1);
  EXPECT_EQ(all[0].times, 1U);
}

TEST(Judging, ExceptionAfterAFailedCall_FollowsFromIt) {
  const std::string broken = failed("cuEventQuery", 900) + failed("cuStreamEndCapture", 901);
  const auto all = failures(broken + given_up("inside", 0));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].culprit->api, "cuEventQuery");
  EXPECT_EQ(all[0].given_up->root()->type, "ValueError");
  EXPECT_THAT(failures(broken + given_up("inside", 2)), SizeIs(2)) << "the capture began after these calls";
  EXPECT_THAT(failures(broken + given_up("inside", 0, "ValueError", 2)), SizeIs(2))
      << "they are in another thread's capture";
  const auto open = failures(failed("cuEventQuery", 900) + given_up("exit", 0));
  ASSERT_THAT(open, SizeIs(1)) << "the capture never ended";
  EXPECT_EQ(open[0].culprit->api, "cuEventQuery");
}

TEST(Judging, ExceptionBeforeAJoin_IsTheCulpritAnd904IsNot) {
  const std::string end = failed("cuStreamEndCapture", 904);
  const auto left = failures(end + given_up("inside", 0));
  ASSERT_THAT(left, SizeIs(1));
  EXPECT_TRUE(left[0].is_by_exception());
  EXPECT_EQ(left[0].end->code, 904);
  const auto raised = failures(end + given_up("end", 0));
  ASSERT_THAT(raised, SizeIs(1)) << "the end itself raised it";
  EXPECT_EQ(raised[0].culprit->code, 904);
}

TEST(Judging, SameExceptionInManyCaptures_IsOneFailure) {
  const auto all = failures(given_up("inside", 0) + given_up("inside", 0) + given_up("inside", 0, "KeyError"));
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].times, 2U);
}

TEST(Judging, LineBeforeTheProcessesFirst_IsOfTheSameProcess) {
  const auto all = blame::read_report(R"({"event":"torch","pid":7,"version":"2.11.0+cu130"})"
                                      "\n"
                                      R"({"event":"heard","pid":7,"by":"the driver's log","why_not":""})"
                                      "\n");
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].torch, "2.11.0+cu130");
  EXPECT_EQ(all[0].by, "the driver's log");
}

TEST(Judging, LibraryOfATorchPackage_GivesItsRelease) {
  const std::string folder = ::testing::TempDir() + "torch-" + std::to_string(getpid());
  const auto release = [&](const std::string& file, const std::string& text) {
    fs::create_directories(folder + "/lib");
    std::ofstream(folder + "/" + file) << text;
    const auto all = blame::read_report(fmt::format(R"({{"event":"heard","pid":7,"torch":"{}/lib/libtorch_cuda.so"}})"
                                                    "\n",
                                                    folder));
    fs::remove_all(folder);
    return all.at(0).torch;
  };
  EXPECT_EQ(release("version.py", "from typing import Optional\n__version__ = '2.9.1+cu128'\n"), "2.9.1+cu128");
  EXPECT_EQ(release("build-version", "2.8.0+cu129\n"), "2.8.0+cu129");
  EXPECT_EQ(release("other", "2.8.0\n"), "");
}

// The tree's tables, without the records of a release.
const blame::Knowledge& knowledge() {
  static const blame::Knowledge kKnowledge = [] {
    blame::Knowledge all;
    all.catalogue = read_catalogue(RECAPTURE_ROOT);
    all.causes = explain::read_causes(RECAPTURE_ROOT, all.catalogue);
    all.operators = blame::read_operators(RECAPTURE_ROOT, all.catalogue);
    return all;
  }();
  return kKnowledge;
}

// The causes of a call that broke its own thread's capture, by the functions on its stack, innermost first.
std::vector<std::string> causes_of(const std::string& api, int code, const std::vector<recapture::Frame>& frames,
                                   const blame::Process& process = {}) {
  blame::Failure failure;
  failure.culprit.emplace();
  failure.culprit->api = api;
  failure.culprit->code = code;
  failure.culprit->in_log = true;
  failure.culprit->frames = frames;
  std::vector<std::string> ids;
  for (const explain::Found& one : blame::causes_of(process, failure, knowledge()).explanation.causes) {
    ids.push_back(one.id);
  }
  return ids;
}

// These stacks are from records.
TEST(Causes, ImplicitDependencyOnAutogradsThread_IsTheTapeOrDdp) {
  const std::vector<recapture::Frame> stack = {
      {"", "/t/libc10_cuda.so", 0x21a7b},
      {"torch::autograd::Engine::evaluate_function(…)", "/t/libtorch_cpu.so", 1},
      {"torch::autograd::Engine::thread_main(…)", "/t/libtorch_cpu.so", 2}};
  EXPECT_THAT(causes_of("cuStreamWaitEvent", 906, stack),
              ::testing::ElementsAre("gradient_tape_on_default_stream", "ddp_on_default_stream"));
  blame::Process rank;
  rank.rank = "0";
  EXPECT_THAT(causes_of("cuStreamWaitEvent", 906, stack, rank),
              ::testing::ElementsAre("ddp_on_default_stream", "gradient_tape_on_default_stream"));
  EXPECT_THAT(causes_of("cuStreamWaitEvent", 906, {}), Not(::testing::Contains("ddp_on_default_stream")));
}

TEST(Causes, AllocationByPyTorch_IsOfAStreamThatDoesNotCapture) {
  const std::vector<recapture::Frame> stack = {{"", "/t/libc10_cuda.so", 0x2f4ca},
                                               {"at::detail::empty_cuda(…)", "/t/libtorch_cuda.so", 1}};
  EXPECT_THAT(causes_of("cuMemAlloc_v2", 900, stack),
              ::testing::ElementsAre("side_stream_without_fork", "allocation_on_uncaptured_stream"));
  EXPECT_THAT(causes_of("cuMemAlloc_v2", 900, {{"dalloc", "/p/program", 1}}),
              ::testing::ElementsAre("raw_malloc_in_capture"));
}

TEST(Causes, OperatorThatWaits_IsNamedByTheOutermost) {
  const auto frame = [](const std::string& name) {
    return recapture::Frame{"at::_ops::" + name + "::call(…)", "/t/libtorch_cpu.so", 1};
  };
  const recapture::Frame interpreter{"_PyEval_EvalFrameDefault", "/u/bin/python3.12", 1};
  EXPECT_THAT(
      causes_of("cuStreamSynchronize", 900, {frame("_local_scalar_dense"), frame("item"), frame("linalg_inv")}).at(0),
      "library_that_synchronises_in_capture");
  EXPECT_THAT(causes_of("cuStreamSynchronize", 900, {frame("nonzero"), frame("index_Tensor")}).at(0),
              "boolean_index_in_capture");
  EXPECT_THAT(causes_of("cuStreamSynchronize", 900, {frame("nonzero"), interpreter, frame("index_Tensor")}).at(0),
              "nonzero_in_capture")
      << "Python called it";
  EXPECT_THAT(causes_of("cuStreamSynchronize", 900, {frame("copy_"), frame("index_Tensor")}),
              Not(::testing::Contains("boolean_index_in_capture")))
      << "the indices come from the host";
  EXPECT_THAT(causes_of("cuStreamSynchronize", 900, {frame("is_nonzero")}).at(0), "host_branch_in_capture");
  EXPECT_THAT(causes_of("cuGraphExecUpdate_v2", 900, {}), IsEmpty()) << "not known";
}

TEST(Causes, StreamSynchronizedByTheProgramItself_IsNoOtherWait) {
  EXPECT_EQ(causes_of("cuStreamSynchronize", 900, {{"", "/p/program", 1}}).at(0), "stream_synchronize_in_capture");
  EXPECT_EQ(causes_of("cuStreamSynchronize", 900, {{"", "/t/libtorch_cuda.so", 1}, {"", "/p/program", 2}}).at(0),
            "host_wait_in_capture");
}

TEST(Causes, CaptureEndedByAnotherThread_IsKnownByItsCode) {
  EXPECT_EQ(causes_of("cuStreamEndCapture", 908, {{"", "/p/program", 1}}).at(0), "capture_ended_by_other_thread");
}

TEST(Causes, FinalizerThatDestroysNoGraph_IsNotTakenForOne) {
  blame::Failure failure;
  failure.culprit.emplace();
  failure.culprit->code = 900;
  failure.culprit->in_log = true;
  failure.culprit->python = {{0, {{"train.py", 18, "__del__"}, {"train.py", 24, "<module>"}}}};
  const auto ids = [&](const std::string& api) {
    failure.culprit->api = api;
    std::vector<std::string> found;
    for (const explain::Found& one : blame::causes_of({}, failure, knowledge()).explanation.causes)
      found.push_back(one.id);
    return found;
  };
  EXPECT_THAT(ids("cuMemHostUnregister"), Not(::testing::Contains("graph_destroyed_in_capture")));
  EXPECT_THAT(ids("cuGraphExecDestroy"), ::testing::Contains("graph_destroyed_in_capture"));
}

TEST(Causes, CaptureInsideACapture_IsNotASynchronization) {
  blame::Failure failure;
  failure.culprit.emplace();
  failure.culprit->api = "cuCtxSynchronize";
  failure.culprit->code = 900;
  failure.culprit->in_log = true;
  const auto first = [&] { return blame::causes_of({}, failure, knowledge()).explanation.causes.at(0).id; };
  EXPECT_EQ(first(), "device_synchronize_in_capture");
  failure.culprit->python = {{0, {{"/t/torch/cuda/graphs.py", 9, "__enter__"}, {"train.py", 5, "<module>"}}}};
  EXPECT_EQ(first(), "capture_inside_capture");
}

TEST(Causes, DeviceSynchronizedByAnotherThread_NeedsNoOtherMode) {
  blame::Failure failure;
  failure.culprit.emplace();
  failure.culprit->api = "cuCtxSynchronize";
  failure.culprit->code = 900;
  failure.culprit->sentence = "API call conflicts with a stream capture sequence initiated from another thread";
  const blame::Causes causes = blame::causes_of({}, failure, knowledge());
  ASSERT_THAT(causes.explanation.causes, SizeIs(1));
  EXPECT_EQ(causes.explanation.causes[0].id, "device_synchronize_in_capture");
}

TEST(Causes, OperatorOnRecord_HasTheRecordsAnswer) {
  blame::Knowledge all = knowledge();
  all.answers.known = {{"linalg.inv", "torch.linalg.inv"}, {"item", "torch.Tensor.item"}};
  all.answers.not_captured["linalg.inv"] = {"linalg.inv", "torch.linalg.inv: refused in 2.11.0", "Call inv_ex."};
  blame::Failure failure;
  failure.culprit.emplace();
  failure.culprit->api = "cuStreamSynchronize";
  failure.culprit->code = 900;
  failure.culprit->in_log = true;
  failure.culprit->frames = {{"at::_ops::item::call(…)", "/t/libtorch_cpu.so", 1},
                             {"at::_ops::linalg_inv::call(…)", "/t/libtorch_cpu.so", 1}};
  const auto lines = [&] {
    std::vector<std::string> found;
    for (const OperatorAnswer& one : blame::causes_of({}, failure, all).explanation.operators)
      found.push_back(one.line);
    return found;
  };
  EXPECT_THAT(lines(), ::testing::ElementsAre("torch.linalg.inv: refused in 2.11.0"));
  blame::Process process;
  process.failures = {failure};
  const blame::Answer answer =
      blame::answer_of({process}, "", [&](const blame::Process&) -> const blame::Knowledge& { return all; });
  EXPECT_THAT(report::render_text(answer, {}), HasSubstr("  operator torch.linalg.inv: refused in 2.11.0\n"));
  failure.culprit->api = "cuMemAlloc_v2";
  EXPECT_THAT(lines(), IsEmpty()) << "no wait";
  failure.culprit->api = "cuStreamSynchronize";
  failure.culprit->frames.pop_back();
  EXPECT_THAT(lines(), IsEmpty()) << "the records have no answer for item()";
}

TEST(Causes, Exception_IsExplainedByItsOwnTextAlone) {
  const auto causes = [](const std::string& text) {
    blame::Failure failure;
    failure.given_up = blame::GivenUp{"inside", {}, {{"RuntimeError", text, {}}}, {}, {}, 0, 0};
    return blame::causes_of({}, failure, knowledge()).explanation.causes.at(0).id;
  };
  EXPECT_EQ(causes("Attempt to increase offset for a CUDA generator not in capture mode."), "unregistered_generator");
  EXPECT_EQ(causes("expected 3 tensors; x[mask].item() torch.cuda.synchronize() watchdog"), "exception_in_capture");
}

TEST(Causes, ExceptionWithAKnownText_IsNotExplainedByWordsOfItsLine) {
  const std::string file = ::testing::TempDir() + "line-" + std::to_string(getpid()) + ".py";
  std::ofstream(file) << "target.copy_(source, non_blocking=True)\n";
  blame::Failure failure;
  failure.given_up = blame::GivenUp{"inside",
                                    {},
                                    {{"RuntimeError",
                                      "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless",
                                      {{file, 1, "upload"}}}},
                                    {},
                                    {},
                                    0,
                                    0};
  const blame::Causes causes = blame::causes_of({}, failure, knowledge());
  fs::remove(file);
  EXPECT_EQ(causes.explanation.causes.at(0).id, "pageable_copy_in_capture");
}

TEST(Causes, WrongTableOfOperators_IsOneLineWithItsPlace) {
  const std::string folder = ::testing::TempDir() + "operators-" + std::to_string(getpid());
  for (const auto& [text, words] :
       {std::pair("", "has no [[operator]]"),
        std::pair("[[operator]]\nname = 'f'\ninstead = 'g'", "either aten or file"),
        std::pair("[[operator]]\nname = 'f'\naten = ['f']", "either case or instead"),
        std::pair("[[operator]]\nname = 'f'\naten = ['f']\ncase = 'none'", "there is no case 'none'"),
        std::pair("[[operator]]\nname = 'f'\nfolder = 'g'", "folder")}) {
    fs::create_directories(folder + "/cases");
    std::ofstream(folder + "/cases/operators.toml") << text;
    try {
      blame::read_operators(folder, {});
      ADD_FAILURE() << text;
    } catch (const ExitError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("operators.toml"), HasSubstr(words)));
    }
    fs::remove_all(folder);
  }
}

TEST(Rendering, Colours_AreThereOnlyIfWanted) {
  const auto processes = blame::read_report(failed("cuEventQuery", 900) + failed("cuStreamEndCapture", 901));
  const blame::Answer answer =
      blame::answer_of(processes, "", [](const blame::Process&) -> const blame::Knowledge& { return knowledge(); });
  EXPECT_THAT(report::render_text(answer, {false, true}), HasSubstr("\x1b[1;31mcuEventQuery returned 900"));
  EXPECT_THAT(report::render_text(answer, {false, false}), Not(HasSubstr("\x1b")));
}

TEST(Judging, TruncatedLine_MakesTheReportIncomplete) {
  const std::string line = failed("cuEventQuery", 900);
  EXPECT_TRUE(blame::is_whole(""));
  EXPECT_TRUE(blame::is_whole(line + line));
  EXPECT_FALSE(blame::is_whole(line + line.substr(0, 40)));
  EXPECT_FALSE(blame::is_whole(line.substr(0, 40) + line)) << "there is room again";
  EXPECT_FALSE(blame::is_whole(line.substr(0, line.size() - 1)));
}

TEST(Judging, LinesOfTwoProcesses_AreSeparatedAndGarbageIsSkipped) {
  const std::string heard =
      R"({"event":"heard","pid":7,"by":"the driver's log","why_not":"","program":"a\u0000b\u0000"})"
      "\n";
  const auto all =
      blame::read_report(heard + failed("cuEventQuery", 900, 1, 8) + "garbage\n{\"event\":7}\n[]\n{\"pid\":\"x\"" +
                         "\n" + failed("cuMemAlloc_v2", 900) + heard + R"({"event":"failed","pid":7)");
  std::vector<int> pids;
  for (const blame::Process& process : all) {
    if (!process.failures.empty()) pids.push_back(process.pid);
  }
  EXPECT_THAT(pids, ::testing::ElementsAre(7, 8));
  EXPECT_EQ(all[0].program, "a b");
}

// End to end in real processes.
class Blame : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* part : {"/lib", "/old", "/tmp"}) fs::create_directories(folder + part);
    fs::copy(RECAPTURE_BUILD "/harness/tests/libfake_driver.so", folder + "/lib/libcuda.so.1");
    fs::copy(RECAPTURE_BUILD "/harness/tests/libfake_old_driver.so", folder + "/old/libcuda.so.1");
    fs::create_symlink("libcuda.so.1", folder + "/old/libcupti.so.13");
    for (const char* variable : {kEventsVariable, "RECAPTURE_BLAME", "RECAPTURE_RECORDER", "RECAPTURE_CHAIN", "RANK",
                                 "LOCAL_RANK", "LD_PRELOAD", "CUDA_INJECTION64_PATH"}) {
      unsetenv(variable);
    }
  }
  void TearDown() override {
    EXPECT_THAT(fs::directory_iterator(folder + "/tmp"), ::testing::Eq(fs::directory_iterator())) << "files are left";
    fs::remove_all(folder);
  }

  std::string environment(const std::string& driver = "lib") const {
    return "TMPDIR='" + folder + "/tmp' LD_LIBRARY_PATH='" + folder + "/" + driver + "' ";
  }
  std::string command(const std::string& arguments) const {
    return "'" RECAPTURE_BUILD "/recapture' blame " + arguments;
  }
  // blame's output for it; the program's own output is separate.
  ShellResult blame(const std::string& program, const std::string& variables = "",
                    const std::string& driver = "lib") const {
    ShellResult said = shell("cd '" + folder + "' && " + environment(driver) + variables + " " +
                             command("--verbose --log '" + folder + "/log' -- " + program) + " >'" + folder + "/out'");
    said.out = text_of(folder + "/log");
    return said;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder + "/" + name) << text;
    return folder + "/" + name;
  }
  // The number of the line that contains `words`.
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
  // A Python program with the driver, a stream and a capture as a with block.
  std::string python(const std::string& body) const {
    return write("train.py", R"(import ctypes, os, sys, threading
cu = (ctypes.PyDLL if "gil" in sys.argv else ctypes.CDLL)("libcuda.so.1")
stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
class capture:
    def __enter__(self):
        cu.cuStreamBeginCapture_v2(stream, 0)
    def __exit__(self, *error):
        cu.cuStreamEndCapture(stream, ctypes.byref(graph))
def start():
    cu.cuInit(0)
    cu.cuStreamCreate(ctypes.byref(stream), 0)
)" + body);
  }
  // A Python program with a fake PyTorch, whose captures have torch.cuda.graph's methods and order of calls.
  std::string torch(const std::string& body) const {
    fs::create_directories(folder + "/torch/cuda");
    write("torch/__init__.py", "__version__ = '2.11.0+cu130'\nfrom torch import cuda\n");
    write("torch/cuda/__init__.py", "from torch.cuda.graphs import CUDAGraph, graph\nimport torch.after\n");
    write("torch/after.py", "");
    write("torch/cuda/graphs.py", R"(import ctypes
cu = ctypes.CDLL("libcuda.so.1")
stream = ctypes.c_void_p()
class _CUDAGraph:
    def capture_begin(self, pool=None, capture_error_mode="global"):
        if pool == "refused": raise RuntimeError("no pool of this name")
        if pool == "default": raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        cu.cuStreamBeginCapture_v2(stream, 0)
    def capture_end(self):
        if hasattr(self, "other"): raise RuntimeError("not this stream")
        self.made = ctypes.c_void_p()
        if cu.cuStreamEndCapture(stream, ctypes.byref(self.made)): raise RuntimeError("CUDA error")
class CUDAGraph(_CUDAGraph):
    def capture_begin(self, pool=None, capture_error_mode="global"):
        super().capture_begin(pool=pool, capture_error_mode=capture_error_mode)
    def capture_end(self): super().capture_end()
class graph:
    def __init__(self, cuda_graph): self.cuda_graph = cuda_graph
    def __enter__(self): self.cuda_graph.capture_begin()
    def __exit__(self, *error): self.cuda_graph.capture_end()
)");
    return write("train.py", R"(import ctypes, sys, threading
import torch
from torch.cuda import graphs
cu = graphs.cu
cu.cuInit(0)
cu.cuStreamCreate(ctypes.byref(graphs.stream), 0)
def refuse():
    raise RuntimeError("Cannot copy between CPU and CUDA tensors during CUDA graph capture unless "
                       "the CPU tensor is pinned.")
)" + body);
  }
  static std::string python_library() {
    const ShellResult where = shell(
        "python3 -c \"import sysconfig; v = sysconfig.get_config_var; print(v('LIBDIR') + '/' + v('INSTSONAME'))\"");
    const std::string library = where.out.substr(0, where.out.find('\n'));
    if (library.find(".so") != library.npos) return library;
    return "libpython3." + where.out.substr(where.out.find("python3.") + 8, 2) + ".so.1.0";
  }
  static std::string at(const std::string& path, const std::string& words, const std::string& function) {
    return fmt::format("{}:{} in {}\n", fs::path(path).filename().string(), line_with(path, words), function);
  }
  static size_t count(const std::string& text, const std::string& words) {
    size_t number = 0;
    for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++number;
    return number;
  }

  const std::string folder = ::testing::TempDir() + "recapture-blame-" + std::to_string(getpid());
  const std::string breaker = "'" RECAPTURE_BUILD "/harness/tests/breaker' ";
  const std::string source = RECAPTURE_ROOT "/harness/tests/breaker.cpp";
};

TEST_F(Blame, BreakInAnotherThread_NamesCallThreadAndLine) {
  const ShellResult said = blame(breaker + "thread");
  EXPECT_EQ(said.code, 3);
  EXPECT_THAT(said.out,
              HasSubstr("cuMemAlloc_v2 returned 900 (operation not permitted when stream is capturing) and broke"));
  EXPECT_THAT(said.out, HasSubstr("initiated from another thread"));
  EXPECT_THAT(said.out, HasSubstr("\"loader\", which does not capture"));
  EXPECT_THAT(said.out,
              ContainsRegex(fmt::format("breaker.cpp:{} in [^\n]*work", line_with(source, "here work breaks it"))));
  EXPECT_THAT(said.out, HasSubstr("\"breaker\", the main one\n"));
  EXPECT_THAT(said.out, HasSubstr("(allocation_in_other_thread)\n"));
  EXPECT_THAT(said.out, Not(HasSubstr("raw_malloc_in_capture")));
}

TEST_F(Blame, LaterErrors_AreListedAsVictimsAfterTheCulprit) {
  const ShellResult said = blame(breaker + "sync");
  EXPECT_THAT(said.out,
              ContainsRegex(fmt::format("breaker.cpp:{} in [^\n]*step", line_with(source, "here step breaks it"))));
  EXPECT_THAT(said.out, HasSubstr("which captures\n"));
  EXPECT_THAT(said.out, HasSubstr("victims  cuStreamSynchronize returned 901"));
  EXPECT_THAT(said.out, HasSubstr("end      cuStreamEndCapture returned 901"));
  EXPECT_EQ(count(said.out, "recapture blame: process"), 1U);
  EXPECT_THAT(blame(breaker + "poll").out,
              HasSubstr("901 (operation failed due to a previous error during capture), 64 times\n"
                        "           and 935 more calls\n"));
  EXPECT_EQ(count(blame(breaker + "twice").out, "and broke the capture"), 2U);
  EXPECT_THAT(blame(breaker + "unjoined").out, AllOf(HasSubstr("cuStreamEndCapture returned 904 (capturing stream has "
                                                               "unjoined work), and the capture failed"),
                                                     HasSubstr("(side_stream_not_joined)")));
}

TEST_F(Blame, BenignOrRefusedCalls_AreNotBlamed) {
  EXPECT_EQ(blame(breaker + "benign").out, "recapture blame: no capture has failed in the process that used CUDA\n");
  const ShellResult refused = blame(breaker + "refused");
  EXPECT_THAT(refused.out, HasSubstr("cuMemcpyBatchAsync returned 900"));
  EXPECT_THAT(refused.out, HasSubstr("cuStreamBeginCapture_v2 returned 401"));
  EXPECT_EQ(count(refused.out, "it broke no capture"), 2U);
  EXPECT_THAT(refused.out, EndsWith("no capture has failed in the process that used CUDA\n"));
  EXPECT_THAT(blame(breaker + "unlogged").out,
              HasSubstr("by a call that was not recorded; RECAPTURE_RECORDER=cupti records more\n"));
  EXPECT_THAT(blame(breaker + "unlogged", "", "old").out, HasSubstr("by a call that was not recorded\n"));
}

TEST_F(Blame, ManyRefusedCalls_DoNotHideTheCulprit) {
  const std::string script = python(R"(
start()
with capture():
    for i in range(100): cu.cuMemcpyBatchAsync()
    for i in range(70): cu.cuStreamBeginCapture_v2(stream, 0)
    cu.cuStreamBeginCapture_v2(None, 0)
    cu.cuEventQuery(None)  # breaks it
)");
  for (const char* driver : {"lib", "old"}) {
    const ShellResult said = blame("python3 " + script, "", driver);
    EXPECT_THAT(said.out, ContainsRegex("cuEventQuery returned 900 [^\n]* and broke the capture\n")) << driver;
    EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "breaks it", "<module>"))) << driver;
    EXPECT_EQ(count(said.out, "it broke no capture, which goes on without it\n"), 10U) << driver;
    EXPECT_THAT(said.out, HasSubstr("and 54 more\n")) << driver;
    EXPECT_THAT(said.out, HasSubstr("calls that were refused were kept, and at least 64 more were not\n")) << driver;
  }
}

TEST_F(Blame, LongLists_ShowTenAndCountTheRest) {
  const std::string script = python(R"(
start()
for i in range(12):
    with capture():
        cu.cuMemcpyBatchAsync()
        cu.cuEventQuery(None)
)");
  const ShellResult said = blame("python3 " + script);
  EXPECT_EQ(count(said.out, "and broke the capture"), 10U);
  EXPECT_EQ(count(said.out, "it broke no capture"), 10U);
  EXPECT_EQ(count(said.out, "and 2 more\n"), 2U);
}

TEST_F(Blame, BreakWithCode903Or1_NamesCallAndLine) {
  const std::string body = R"(
start()
side = ctypes.c_void_p()
cu.cuStreamCreate(ctypes.byref(side), 0)
with capture():
    cu.cuEventRecord(None, stream)
    cu.cuStreamWaitEvent(side, None, 0)
    {}  # breaks it
)";
  for (const auto& [call, words] :
       {std::pair("cu.cuStreamEndCapture(side, ctypes.byref(graph))", "cuStreamEndCapture returned 903 "),
        std::pair("cu.cuStreamWaitEvent(stream, ctypes.c_void_p(1), 0)", "cuStreamWaitEvent returned 1 ")}) {
    const std::string script = python(fmt::format(fmt::runtime(body), call));
    for (const char* driver : {"lib", "old"}) {
      const ShellResult said = blame("python3 " + script, "", driver);
      EXPECT_THAT(said.out, ContainsRegex(std::string(words) + "[^\n]* and broke the capture\n")) << driver;
      EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "breaks it", "<module>"))) << driver;
      EXPECT_EQ(count(said.out, "recapture blame: process"), 1U) << said.out;
    }
  }
}

TEST_F(Blame, TwoThreadsCaptureAtOnce_EachHasItsCulprit) {
  const std::string script = python(R"(
start()
turn = threading.Barrier(2)
def one():
    own, made = ctypes.c_void_p(), ctypes.c_void_p()
    cu.cuStreamCreate(ctypes.byref(own), 0)
    cu.cuStreamBeginCapture_v2(own, 1)
    turn.wait()
    cu.cuEventQuery(None)  # breaks one
    turn.wait(); turn.wait()
    cu.cuStreamEndCapture(own, ctypes.byref(made))
def two():
    own, made = ctypes.c_void_p(), ctypes.c_void_p()
    cu.cuStreamCreate(ctypes.byref(own), 0)
    cu.cuStreamBeginCapture_v2(own, 1)
    turn.wait(); turn.wait()
    cu.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(1))  # breaks two
    turn.wait()
    cu.cuStreamEndCapture(own, ctypes.byref(made))
threads = [threading.Thread(target=act) for act in (one, two)]
for thread in threads: thread.start()
for thread in threads: thread.join()
)");
  for (const char* driver : {"lib", "old"}) {
    const ShellResult said = blame("python3 " + script, "", driver);
    EXPECT_EQ(count(said.out, " and broke the capture\n"), 2U) << driver << said.out;
    EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "# breaks one", "one"))) << driver;
    EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "# breaks two", "two"))) << driver;
    EXPECT_THAT(said.out, AllOf(Not(HasSubstr("  victims ")), Not(HasSubstr("it broke 2 captures")))) << driver;
  }
}

TEST_F(Blame, BrokenCaptureThatNeverEnds_IsReported) {
  const std::string script = python(R"(
start()
cu.cuStreamBeginCapture_v2(stream, 0)
cu.cuCtxSynchronize()
cu.cuStreamSynchronize(stream)  # finds it broken
os._exit(9)
)");
  const ShellResult said = blame("python3 " + script);
  EXPECT_EQ(said.code, 9);
  EXPECT_THAT(said.out, HasSubstr("a capture was broken by a call that was not recorded"));
  EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "finds it broken", "<module>")));
  EXPECT_THAT(said.out, AllOf(HasSubstr("end      none was seen"), Not(HasSubstr("no capture has failed"))));
}

TEST_F(Blame, ProgramUnderBlame_KeepsItsOutputExitCodeAndArguments) {
  for (const char* what : {"sync", "benign", "without-cuda", "abort", "segv", "kill", "term"}) {
    const auto run = [&](const std::string& line) {
      const ShellResult said =
          shell("ulimit -c 0; exec 2>'" + folder + "/err' >'" + folder + "/out'; " + environment() + line);
      return fmt::format("{} {}{}", said.code, text_of(folder + "/out"), text_of(folder + "/err"));
    };
    EXPECT_EQ(run("exec " + breaker + what), run("exec " + command("--log '" + folder + "/log' -- " + breaker + what)))
        << what;
  }
  // Its arguments are unchanged, and its variables except for the two that we need.
  const std::string shown = folder + "/shown";
  blame("sh -c 'printf \"%s,\" \"$@\" >" + shown + "; env >>" + shown + "' sh -- --json '' 'a b' -x --",
        "CUDA_LOG_FILE=mine");
  EXPECT_THAT(text_of(shown), StartsWith("--,--json,,a b,-x,--,"));
  EXPECT_THAT(text_of(shown), HasSubstr("\nCUDA_LOG_FILE=mine\n"));
  EXPECT_EQ(count(text_of(shown), "\nRECAPTURE_"), 1U);
}

TEST_F(Blame, KilledOrAbortedProgram_IsReported) {
  for (const auto& [what, code] : {std::pair("kill", 128 + SIGKILL), std::pair("abort", 128 + SIGABRT),
                                   std::pair("segv", 128 + SIGSEGV), std::pair("term", 128 + SIGTERM)}) {
    const ShellResult said = blame(breaker + what);
    EXPECT_EQ(said.code, code) << what;
    EXPECT_THAT(said.out, HasSubstr("cuStreamSynchronize returned 900")) << what;
    EXPECT_THAT(said.out, HasSubstr("end      none was seen")) << what;
  }
  EXPECT_THAT(blame(breaker + "closed").out, HasSubstr("cuStreamSynchronize returned 900")) << "all descriptors closed";
}

TEST_F(Blame, SignalToBlame_ReachesTheProgram) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    const std::string line = "exec 2>/dev/null; exec env " + environment() + command("-- " + breaker + "wait");
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const pid_t blame = fork();
    if (blame == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(126);
    }
    close(ends[1]);
    std::string out;
    bool sent = false;
    for (char c = 0; read(ends[0], &c, 1) == 1;) {
      out += c;
      if (!sent && out == "out\nready\n") sent = kill(blame, number) == 0;
    }
    close(ends[0]);
    int status = 0;
    waitpid(blame, &status, 0);
    EXPECT_EQ(out, fmt::format("out\nready\nsignal {}\n", number));
    EXPECT_EQ(WEXITSTATUS(status), 3);
  }
}

TEST_F(Blame, ForkExecAndRanks_AreReportedPerProcess) {
  ShellResult said = blame(breaker + "fork");
  EXPECT_EQ(count(said.out, "recapture blame: process"), 2U);
  EXPECT_THAT(said.out, AllOf(HasSubstr("cuMemAlloc_v2 returned 900"), HasSubstr("cuStreamSynchronize returned 900")));
  said = blame(breaker + "exec");
  EXPECT_THAT(said.out, AllOf(HasSubstr("breaker exec)"), HasSubstr("breaker thread)")));
  EXPECT_EQ(count(blame(breaker + "fork-later").out, "recapture blame: process"), 2U);
  said = blame("sh -c 'for i in 0 1; do RANK=$i LOCAL_RANK=$i " + breaker.substr(1, breaker.size() - 3) +
               " sync & done; wait'");
  EXPECT_THAT(said.out, AllOf(HasSubstr(", rank 0, local rank 0 ("), HasSubstr(", rank 1, local rank 1 (")));
}

TEST_F(Blame, BreakInAPythonThread_NamesThePythonLine) {
  const std::string script = python(R"(
def load():
    cu.cuEventQuery(None)  # breaks it
def main():
    with capture():
        worker = threading.Thread(target=load, name="loader")
        worker.start(); worker.join()  # waits
start()
main()
sys.exit(5)
)");
  for (const char* gil : {"", " gil"}) {  // Whether the thread that initialises CUDA holds the GIL.
    const ShellResult said = blame("python3 " + script + gil);
    EXPECT_EQ(said.code, 5);
    EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "breaks it", "load") +
                                    "               cu.cuEventQuery(None)  # breaks it\n"));
    EXPECT_THAT(said.out, HasSubstr(", the main one, which stood at\n"));
    EXPECT_THAT(said.out, HasSubstr("           " + at(script, "# waits", "main")));
    EXPECT_THAT(said.out, HasSubstr("(event_query_in_other_thread)"));
  }
}

TEST_F(Blame, BreakInANativeThread_NamesTheCallingPythonLine) {
  const std::string script = python(R"(
start()
def backward():
    cu.fakeBackward()  # from here
with capture():
    backward()
)");
  const ShellResult said = blame("python3 " + script);
  EXPECT_THAT(said.out, HasSubstr("cuEventQuery returned 900"));
  EXPECT_THAT(said.out, Not(HasSubstr("  python ")));
  EXPECT_THAT(said.out, HasSubstr("which stood at\n           " + at(script, "from here", "backward")));
}

// All of these are one call, cuStreamSynchronize: the advice depends on its caller and thread.
TEST_F(Blame, SameCallFromOtherPlaces_HasOtherCauses) {
  const std::string body = R"(
start()
def helper(stream):
    cu.cuStreamSynchronize(stream)  # {}
with capture():
    {}
)";
  const std::string here = "helper(stream)";
  const auto there = [](const char* its) {
    return fmt::format("t = threading.Thread(target=helper, args=({},)); t.start(); t.join()", its);
  };
  const auto causes_of = [&](const std::string& source, const std::string& call) {
    return blame("python3 " + python(fmt::format(fmt::runtime(body), source, call))).out;
  };
  const std::string item = causes_of("loss.item()", here);
  EXPECT_THAT(item, AllOf(HasSubstr("(item_in_capture)"), HasSubstr("try: Call item() after graph.replay()"),
                          Not(HasSubstr("(stream_synchronize_in_capture)"))));
  EXPECT_THAT(causes_of("batch.cuda()", here), HasSubstr("(pageable_copy_in_capture)"));
  const std::string beside = causes_of("batch.cuda()", there("None"));
  EXPECT_THAT(beside, AllOf(HasSubstr("(wait_in_other_thread)"), HasSubstr("capture_error_mode=\"thread_local\""),
                            Not(HasSubstr("_in_capture)"))));
  EXPECT_THAT(causes_of("as the loop of ProcessGroupNCCL's", there("None")), HasSubstr("(watchdog_query_in_capture)"));
  EXPECT_THAT(causes_of("mask.nonzero()", there("stream")), HasSubstr("(nonzero_in_capture)"))
      << "on the capturing stream, as autograd's thread";
  EXPECT_THAT(causes_of("nothing more is known", here), HasSubstr("(host_wait_in_capture)"));
}

TEST_F(Blame, RefusalOfPyTorchs_IsReportedWithItsLine) {
  const std::string script = torch(R"(
def step():
    refuse()  # in step
def capture():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        step()
what = sys.argv[1]
if what == "uncaught": capture()
if what == "thread":
    thread = threading.Thread(target=capture, name="capture")
    thread.start(); thread.join()
if what == "fallback":
    for i in range(int(sys.argv[2])):
        try: capture()
        except RuntimeError: pass
if what == "begin":
    try: torch.cuda.CUDAGraph().capture_begin(pool=sys.argv[2])  # refused
    except RuntimeError: pass
if what == "end":
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    graph.other = 1
    try: graph.capture_end()  # not ended
    except RuntimeError: pass
if what == "open":
    torch.cuda.CUDAGraph().capture_begin()  # left open
    refuse()
)");
  for (const auto& [what, code] : {std::pair("uncaught", 1), std::pair("thread", 0), std::pair("fallback 2", 0)}) {
    const ShellResult said = blame("python3 -B " + script + " " + what);
    EXPECT_EQ(said.code, code) << what;
    EXPECT_EQ(count(said.out, "an exception ended the capture, and no CUDA call had failed"), 1U) << said.out;
    EXPECT_THAT(said.out, HasSubstr("  raised   RuntimeError: Cannot copy between CPU and CUDA tensors during"))
        << what;
    EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "raise RuntimeError(\"Cannot", "refuse"))) << what;
    EXPECT_THAT(said.out, HasSubstr("           " + at(script, "# in step", "step"))) << what;
    EXPECT_THAT(said.out, HasSubstr("(pageable_copy_in_capture)\n")) << what;
    EXPECT_THAT(said.out, Not(HasSubstr("no capture has failed"))) << what;
  }
  EXPECT_THAT(blame("python3 -B " + script + " fallback 3").out, HasSubstr("no CUDA call had failed; 3 times\n"));
  EXPECT_THAT(blame("python3 -B " + script + " fallback 300").out,
              AllOf(HasSubstr("no CUDA call had failed; 256 times\n"),
                    HasSubstr("exceptions that ended a capture were kept, and at least 32 more were not\n")));
  const ShellResult begin = blame("python3 -B " + script + " begin refused");
  EXPECT_THAT(begin.out, AllOf(HasSubstr("an exception kept the capture from beginning"),
                               HasSubstr(at(script, "# refused", "<module>"))));
  EXPECT_THAT(blame("python3 -B " + script + " begin default").out, HasSubstr("(capture_on_default_stream)\n"))
      << "torch.cuda.graphs' own lines do not count";
  const ShellResult end = blame("python3 -B " + script + " end");
  EXPECT_THAT(end.out, AllOf(HasSubstr("the end of the capture raised an exception"),
                             HasSubstr(at(script, "# not ended", "<module>")), HasSubstr("  cause    not known\n")));
  EXPECT_EQ(count(end.out, "recapture blame: process"), 1U) << end.out;
  const ShellResult open = blame("python3 -B " + script + " open");
  EXPECT_THAT(open.out, AllOf(HasSubstr("an exception ended the program, and a capture never ended"),
                              HasSubstr("begun    " + at(script, "# left open", "<module>"))));
}

TEST_F(Blame, FirstCompilationInACapture_IsNamedHoweverDeepItFails) {
  const std::string script = torch(R"(
from torch._dynamo import convert_frame
def step():
    convert_frame.compile(refuse)  # in step
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    step()
)");
  fs::create_directories(folder + "/torch/_dynamo");
  write("torch/_inductor.py", "def lower(left, act):\n    return lower(left - 1, act) if left else act()\n");
  write("torch/_dynamo/convert_frame.py", "from torch import _inductor\ndef compile(act): _inductor.lower(90, act)\n");
  const ShellResult said = blame("python3 -B " + script);
  EXPECT_THAT(said.out, HasSubstr("(compiled_function_in_python_capture)\n"));
}

TEST_F(Blame, ExceptionThatLeavesNoCapture_IsNotReported) {
  const std::string script = torch(R"(
graph = torch.cuda.CUDAGraph()
batches = iter([1])
with torch.cuda.graph(graph):
    while True:
        try: next(batches)
        except StopIteration: break
try: raise KeyError("before")
except KeyError:
    with torch.cuda.graph(graph): pass
graph.capture_begin()
try:
    while True: next(batches)
except StopIteration:
    graph.capture_end()
import signal
signal.raise_signal(signal.SIGINT)
)");
  const ShellResult said = blame("python3 -B " + script);
  EXPECT_THAT(said.out, StartsWith("recapture blame: no capture has failed"));
}

TEST_F(Blame, ExceptionThatFollowsFromACall_IsNoFailureOfItsOwn) {
  const std::string script = torch(R"(
def capture(broken):
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        if broken: cu.cuEventQuery(None)
        else: cu.cuEventRecord(None, graphs.stream)
        raise ValueError("shape")  # raised
for broken in True, False:
    try: capture(broken)
    except Exception as error: print(type(error).__name__)
)");
  const ShellResult said = blame("python3 -B " + script);
  EXPECT_EQ(count(said.out, "recapture blame: process"), 2U) << said.out;
  EXPECT_THAT(said.out, ContainsRegex("cuEventQuery returned 900 [^\n]* and broke the capture\n"));
  EXPECT_THAT(said.out, HasSubstr("an exception ended the capture, so that cuStreamEndCapture returned 904"));
  EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "# raised", "capture")));
  EXPECT_EQ(text_of(folder + "/out"), "RuntimeError\nRuntimeError\n");
}

TEST_F(Blame, TracebackUnderBlame_IsTheProgramsOwn) {
  const std::string script = torch(R"(
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    cu.cuEventRecord(None, graphs.stream)
    refuse()
)");
  const auto run = [&](const std::string& line) {
    return shell("cd '" + folder + "' && " + environment() + line + " 2>&1 >/dev/null");
  };
  const ShellResult bare = run("python3 -B " + script);
  EXPECT_THAT(bare.out, HasSubstr("During handling of the above exception"));
  EXPECT_EQ(run(command("--log '" + folder + "/log' -- python3 -B " + script)).out, bare.out);
}

TEST_F(Blame, TorchImportedAfterCuda_IsFollowed) {
  torch("");
  const std::string script = python(R"(
start()
import torch
from torch.cuda import graphs
graphs.stream = stream
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    raise ValueError("shape")  # raised
)");
  const ShellResult said = blame("python3 -B " + script);
  EXPECT_THAT(said.out, HasSubstr("  raised   ValueError: shape\n"));
}

TEST_F(Blame, ExceptionThatEndsACppProgram_IsReportedIfACaptureIsOpen) {
  const auto run = [&](const std::string& what) {
    return blame("sh -c 'ulimit -c 0; exec " + breaker.substr(1, breaker.size() - 3) + " " + what + "' 2>/dev/null");
  };
  const ShellResult said = run("throw");
  EXPECT_EQ(said.code, 128 + SIGABRT);
  EXPECT_THAT(
      said.out,
      AllOf(HasSubstr("an uncaught exception ended the program while a capture was open"),
            HasSubstr("  raised   std::runtime_error: shape is not static\n"),
            ContainsRegex(fmt::format("breaker.cpp:{} in [^\n]*refuse", line_with(source, "here refuse throws")))));
  EXPECT_THAT(run("throw-number").out, HasSubstr("  raised   int\n"));
  EXPECT_THAT(run("throw-outside").out, StartsWith("recapture blame: no capture has failed"));
}

TEST_F(Blame, EndOfACppProgramWithItsOwnLibrary_IsReportedByItsAbort) {
  const auto run = [&](const std::string& what) {
    return blame("sh -c 'ulimit -c 0; exec " RECAPTURE_BUILD "/harness/tests/static_breaker " + what + "' 2>/dev/null");
  };
  const ShellResult said = run("throw");
  EXPECT_EQ(said.code, 128 + SIGABRT);
  EXPECT_THAT(
      said.out,
      AllOf(HasSubstr("an uncaught exception ended the program while a capture was open"),
            HasSubstr("(exception_in_capture)"), Not(HasSubstr("  raised")),
            ContainsRegex(fmt::format("breaker.cpp:{} in [^\n]*refuse", line_with(source, "here refuse throws")))));
  EXPECT_THAT(run("abort-in-capture").out, AllOf(HasSubstr("abort() ended the program while a capture was open"),
                                                 HasSubstr("  cause    not known")));
  EXPECT_THAT(run("throw-outside").out, StartsWith("recapture blame: no capture has failed"));
  EXPECT_THAT(run("abort-outside").out, StartsWith("recapture blame: no capture has failed"));
}

TEST_F(Blame, DefaultReport_HasAtMostTenLinesACaptureAndOneRemedyThatHolds) {
  const std::string script = torch(R"(
def load():
    cu.cuEventQuery(None)  # breaks it
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    worker = threading.Thread(target=load)
    worker.start(); worker.join()  # waits
)");
  shell("cd '" + folder + "' && " + environment() + command("--log '" + folder + "/log' -- python3 -B " + script));
  const std::string said = text_of(folder + "/log");
  EXPECT_LE(count(said, "\n"), 11U) << said;  // With the empty line at the end.
  EXPECT_THAT(said,
              AllOf(HasSubstr("  at       " + at(script, "# breaks it", "load")),
                    HasSubstr("which stood at " + at(script, "# waits", "<module>")),
                    HasSubstr("(event_query_in_other_thread)\n"), HasSubstr("  fix      holds in 2.11.0: "),
                    HasSubstr("  read     recapture show event_query_in_other_thread\n"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(count(said, "  fix  "), 1U);
}

TEST_F(Blame, PythonThatForksAndSpawns_IsReportedPerProcess) {
  const std::string script = python(R"(
import multiprocessing
def child(number):
    start()
    with capture():
        cu.cuEventQuery(None)  # in a child
if __name__ == "__main__":
    for method in "fork", "spawn":
        worker = multiprocessing.get_context(method).Process(target=child, args=(1,))
        worker.start(); worker.join()
    start()
    if os.fork() == 0:
        for i in range(20):
            with capture(): cu.cuEventQuery(None)  # forked
        os._exit(0)
    for i in range(20):
        with capture(): cu.cuEventQuery(None)  # parent
    os.wait()
)");
  const ShellResult said = blame("python3 " + script);
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(count(said.out, at(script, "in a child", "child")), 2U) << said.out;
  EXPECT_EQ(count(said.out, at(script, "# forked", "<module>")), 10U);
  EXPECT_EQ(count(said.out, at(script, "# parent", "<module>")), 10U);
  EXPECT_EQ(count(said.out, "and 10 more\n"), 2U);
}

TEST_F(Blame, ManyThreadsFailAtOnce_DoNotDeadlock) {
  const std::string script = python(R"(
start()
def load():
    for i in range(200): cu.cuEventQuery(None)
with capture():
    threads = [threading.Thread(target=load) for i in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
)");
  const ShellResult said = blame("python3 " + script);
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, HasSubstr("and 1536 more calls\n"));
}

// faulthandler prints only the newest hundred threads.
TEST_F(Blame, BreakInTheOldestOfManyThreads_NamesThePythonLine) {
  const std::string script = python(R"(
start()
go, done = threading.Event(), threading.Event()
def load():
    go.wait()
    cu.cuEventQuery(None)  # breaks it
with capture():
    oldest = threading.Thread(target=load)
    oldest.start()
    others = [threading.Thread(target=done.wait) for i in range(120)]
    for other in others: other.start()
    go.set(); oldest.join(); done.set()
)");
  const ShellResult said = blame("python3 " + script);
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "breaks it", "load")));
}

// The thread with the GIL waits for the driver, and the driver waits for us. Then only the failing thread's frames are
// read.
TEST_F(Blame, GilHeldByAnotherThread_NamesTheLineOfTheFailingThreadAlone) {
  const std::string script = python(R"(
start()
def hold():
    ctypes.PyDLL("libcuda.so.1").fakeHolding()
with capture():
    holder = threading.Thread(target=hold)
    holder.start()
    cu.fakeFailingWhileHeld()  # breaks it
    holder.join()
)");
  const ShellResult said = blame("python3 " + script);
  EXPECT_EQ(said.code, 0);
  EXPECT_THAT(said.out, HasSubstr("  python   " + at(script, "breaks it", "<module>")));
  EXPECT_THAT(said.out, Not(HasSubstr(" in hold\n")));
}

// A thread that loads a library holds the loader's lock, and may wait for the driver in the library's constructor,
// while the driver waits for us.
TEST_F(Blame, LibraryCallingCudaInItsConstructor_DoesNotDeadlock) {
  const std::string library = RECAPTURE_BUILD "/harness/tests/libchained.so";
  const ShellResult said = blame(breaker + "thread", "FAKE_LOADS='" + library + "'");
  EXPECT_EQ(said.code, 3);
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("cuMemAlloc_v2 returned 900"), HasSubstr("victims  cuEventQuery returned 900")));
}

TEST_F(Blame, FileBelowTheWorkingDirectory_IsNamedByItsRelativePath) {
  const std::string script = python("\nstart()\nwith capture():\n    cu.cuEventQuery(None)  # breaks it\n");
  EXPECT_THAT(blame("python3 -B train.py").out, HasSubstr("  python   " + at(script, "breaks it", "<module>")));
  EXPECT_THAT(blame("sh -c 'cd / && exec python3 -B " + script + "'").out, HasSubstr("  python   train.py:"));
  const ShellResult elsewhere = shell("cd / && " + environment() + command("-- python3 -B " + script) + " 2>&1");
  EXPECT_THAT(elsewhere.out, HasSubstr("  at       " + folder + "/" + at(script, "breaks it", "<module>")));
}

TEST_F(Blame, FileSizeLimitOfZero_LeavesTheProgramsExitCode) {
  const std::string script = python("\nstart()\nwith capture():\n    cu.cuEventQuery(None)\nsys.exit(6)\n");
  EXPECT_EQ(blame("sh -c 'ulimit -f 0; exec python3 -B " + script + "'").code, 6);
  const std::string program = breaker.substr(1, breaker.size() - 3);
  EXPECT_EQ(blame("sh -c 'ulimit -f 0; exec " + program + " sync >/dev/null 2>&1'").code, 3);
}

// A truncated report is no fact about the program.
TEST_F(Blame, TruncatedOrRemovedReport_IsReportedAsSuch) {
  const std::string program = breaker.substr(1, breaker.size() - 3);
  const ShellResult cut = blame("sh -c 'ulimit -f 1; exec " + program + " sync >/dev/null 2>&1'");
  EXPECT_THAT(cut.out, EndsWith("the report is incomplete: a line of it is cut: File too large\n"));
  const ShellResult gone = blame("sh -c '" + program + " sync; rm -f \"$TMPDIR\"/*'");
  EXPECT_THAT(gone.out, EndsWith("is gone; the program has removed it\n"));
  EXPECT_THAT(cut.out + gone.out, Not(HasSubstr("no capture has failed")));
  const ShellResult none = blame("sh -c 'ulimit -f 0; exec " + program + " sync >/dev/null 2>&1'");
  EXPECT_THAT(none.out, AllOf(HasSubstr("nothing was recorded: the program could not write "),
                              EndsWith(": File too large\n"), Not(HasSubstr("no call"))));
  EXPECT_TRUE(fs::is_empty(folder + "/tmp")) << "the link is removed";
}

TEST_F(Blame, RanksUnderABlameEach_ShareALog) {
  const std::string program = breaker.substr(1, breaker.size() - 3);
  const auto rank = [&](const std::string& number, const std::string& words) {
    return environment() + "RANK=" + number + " " +
           command("--log '" + folder + "/shared' -- sh -c '" + words + "' >/dev/null");
  };
  shell("cd '" + folder + "'; " + rank("0", "touch up; while [ ! -e go ]; do sleep 0.01; done; " + program + " sync") +
        " & while [ ! -e up ]; do sleep 0.01; done; " + rank("1", "touch go; " + program + " thread") + "; wait");
  const std::string shared = text_of(folder + "/shared");
  EXPECT_THAT(shared, AllOf(HasSubstr(", rank 0 ("), HasSubstr("cuStreamSynchronize returned 900")));
  EXPECT_THAT(shared, AllOf(HasSubstr(", rank 1 ("), HasSubstr("cuMemAlloc_v2 returned 900")));
}

TEST_F(Blame, PythonStartedAfterCuda_NamesThePythonLine) {
  const std::string library = python_library();
  // Also if the call keeps the GIL.
  for (const char* library_of_calls : {"cu", "ctypes.PyDLL('libcuda.so.1')"}) {
    const std::string script = python(std::string("\nstart()\nwith capture():\n    ") + library_of_calls +
                                      ".cuEventQuery(None)  # breaks it\n");
    for (const char* when : {"embed ", "embed-late "}) {
      const ShellResult said = blame(breaker + when + library + " " + script);
      if (said.code == 4) GTEST_SKIP() << "no " << library;
      EXPECT_EQ(said.code, 0);
      EXPECT_THAT(said.out, HasSubstr(at(script, "breaks it", "<module>"))) << when << library_of_calls;
    }
  }
}

// The thread that registers faulthandler's signals runs Python code with the GIL, and that may give it to a thread that
// waits for the driver, inside which the call has failed.
TEST_F(Blame, ImportHookThatReleasesTheGil_DoesNotDeadlock) {
  const std::string script = python(R"(
import time
start()
holding = ctypes.PyDLL("libcuda.so.1").fakeHolding
sys.modules.pop("faulthandler", None)
asked = threading.Event()
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "faulthandler":
            asked.set()
            time.sleep(0.1)
sys.meta_path.insert(0, Finder())
def hold():
    asked.wait()
    holding()
holder = threading.Thread(target=hold)
holder.start()
with capture():
    cu.cuEventQuery(None)  # breaks it
asked.set()
holder.join()
print("done", flush=True)
)");
  const ShellResult said = blame("timeout 60 " + breaker + "embed-late " + python_library() + " " + script);
  if (said.code == 4) GTEST_SKIP() << "no " << python_library();
  EXPECT_EQ(said.code, 0) << "124 means that it hangs";
  EXPECT_THAT(text_of(folder + "/out"), HasSubstr("done\n"));
  EXPECT_THAT(said.out, HasSubstr("cuEventQuery returned 900"));
}

TEST_F(Blame, InjectionLibraryAlreadySet_IsCalledToo) {
  const std::string called = folder + "/called", chained = RECAPTURE_BUILD "/harness/tests/libchained.so";
  const ShellResult said =
      blame(breaker + "sync", "CHAINED_FILE='" + called + "' CUDA_INJECTION64_PATH='" + chained + "'");
  EXPECT_EQ(text_of(called), "called\n");
  EXPECT_THAT(said.out, HasSubstr("cuStreamSynchronize returned 900"));
  EXPECT_THAT(blame(breaker + "sync", "CUDA_INJECTION64_PATH=/none.so").out,
              HasSubstr("cuStreamSynchronize returned 900"));
}

TEST_F(Blame, DriverWithoutALog_IsHeardThroughCupti) {
  const ShellResult said = blame(breaker + "thread", "", "old");
  EXPECT_THAT(said.out, HasSubstr("cuMemAlloc_v2 returned 900"));
  EXPECT_THAT(said.out, HasSubstr("which does not capture; capture mode global\n"));
  EXPECT_THAT(blame(breaker + "thread", "RECAPTURE_RECORDER=log", "old").out,
              EndsWith("nothing was recorded, this driver has no log that can be heard (since R575)\n"));
}

TEST_F(Blame, ProgramWithoutCuda_ReportsThatNothingWasHeard) {
  EXPECT_EQ(blame(breaker + "without-cuda").out,
            "recapture blame: nothing was recorded: the program has made no call to CUDA's driver\n");
  EXPECT_EQ(blame("true").code, 0);
  EXPECT_EQ(blame("false").code, 1);
  const std::string report = write("report", "");
  shell(environment() + "RECAPTURE_BLAME='" + report +
        "' LD_PRELOAD='libcuda.so.1 " RECAPTURE_BUILD "/librecorder.so' " + breaker + "sync");
  EXPECT_THAT(text_of(report), HasSubstr(R"("api":"cuStreamSynchronize","code":900)"));
}

TEST_F(Blame, NothingRecorded_HasOneReason) {
  const std::string begin = "recapture blame: nothing was recorded: ";
  const auto said = [&](const std::string& before, const std::string& program) {
    return shell("cd '" + folder + "' && " + before + command("-- " + program)).out;
  };
  EXPECT_EQ(said(environment(), "true"), begin + "the program has made no call to CUDA's driver\n");
  fs::create_directories(folder + "/deaf");
  fs::copy(RECAPTURE_BUILD "/harness/tests/libchained.so", folder + "/deaf/libcuda.so.1");
  EXPECT_EQ(said(environment("deaf"), "true"),
            begin + "this CUDA driver loads no library that CUDA_INJECTION64_PATH names\n");
  EXPECT_THAT(said("ulimit -f 0; " + environment(), "true"),
              AllOf(StartsWith(begin + folder + "/tmp/recapture-blame-"),
                    EndsWith(" cannot be written: File too large; TMPDIR names another folder\n")));
  const std::string running = said(environment(), "sh -c 'sleep 60 >/dev/null 2>&1 </dev/null & echo $! >pid'");
  const std::string pid = text_of(folder + "/pid");
  shell("kill " + pid);
  EXPECT_EQ(running, begin + "process " + pid.substr(0, pid.find('\n')) +
                         " of the program still runs; wait for it in the program\n");
  if (shell("ldconfig -p | grep -q libcuda.so.1").code != 0) {
    EXPECT_EQ(said(environment("none"), "true"), begin + "there is no CUDA driver (libcuda.so.1) here\n");
  }
}

TEST_F(Blame, JsonReport_HasCulpritVictimsCausesAndCounts) {
  const std::string script = python("\nstart()\nwith capture():\n    cu.cuEventQuery(None)  # breaks it\n");
  shell(environment() + command("--json --log '" + folder + "/log' python3 " + script));
  const Json all = parse_json(text_of(folder + "/log"));
  const Json& failure = all.at("processes").at(0).at("failures").at(0);
  EXPECT_EQ(failure.at("culprit").at("api"), "cuEventQuery");
  EXPECT_EQ(failure.at("culprit").at("capturing"), true);
  EXPECT_EQ(failure.at("culprit").at("python").at(0).at("line"), line_with(script, "breaks it"));
  EXPECT_EQ(failure.at("culprit").at("python").at(0).at("file"), script);
  EXPECT_EQ(failure.at("end").at("code"), 901);
  EXPECT_EQ(failure.at("explanation").at("causes").at(0).at("id"), "event_query_in_capture");
  EXPECT_EQ(all.at("not_whole"), "");
  EXPECT_EQ(all.at("processes").at(0).at("cut"), (Json{{"failed", 0}, {"refused", 0}, {"silent", 0}, {"given_up", 0}}));
  shell(environment() + command("--json --log '" + folder + "/log' " + breaker + "poll"));
  const Json poll = parse_json(text_of(folder + "/log")).at("processes").at(0).at("failures").at(0);
  EXPECT_THAT(poll.at("victims"), SizeIs(64));
  EXPECT_EQ(poll.at("unreported"), 935);
}

// The runner's events if the recorder reads the log.
TEST_F(Blame, EventsForTheRunner_HaveTheSameCulprit) {
  const std::string script = python("\nstart()\nwith capture():\n    cu.cuEventQuery(None)  # breaks it\n");
  const std::string events = folder + "/events";
  const ShellResult said =
      shell(environment() + "RECAPTURE_EVENTS=9 CUDA_INJECTION64_PATH='" RECAPTURE_BUILD "/librecorder.so' python3 " +
            script + " 9>'" + events + "'");
  EXPECT_EQ(said.out, "");
  const std::string text = text_of(events);
  EXPECT_THAT(text, StartsWith("recorder=on\nculprit={"));
  const size_t from = text.find("culprit=");
  const auto [key, value] = parse_event(std::string_view(text).substr(from, text.size() - 1 - from));
  const Json culprit = parse_json(value);
  EXPECT_EQ(culprit.at("api"), "cuEventQuery");
  EXPECT_EQ(culprit.at("thread"), "capturing");
  EXPECT_EQ(culprit.at("mode"), "unknown");
  EXPECT_EQ(culprit.at("python").at(0), fmt::format("{}:{} <module>", script, line_with(script, "breaks it")));
}

TEST_F(Blame, BadInput_IsOneLineWithItsExitCode) {
  write("data", "");
  fs::permissions(folder + "/data", fs::perms::owner_read);
  for (const auto& [arguments, code, words] : {std::tuple<std::string, int, std::string>{"", 2, "no program"},
                                               {"--", 2, "no program"},
                                               {"-- '" + folder + "/none'", 2, "No such file or directory"},
                                               {"-- no-such-program-anywhere", 2, "No such file or directory"},
                                               {"-- '" + folder + "/data'", 2, "Permission denied"},
                                               {"-- '" + folder + "'", 2, "Permission denied"},
                                               {"--log '" + folder + "/none/log' -- true", 7, "cannot write it"},
                                               {"--release 0.1 -- true", 2, "0.1"},
                                               {"--root /nowhere -- true", 2, "no ci/matrix.toml"}}) {
    const ShellResult said = shell(environment() + command(arguments));
    EXPECT_EQ(said.code, code) << arguments << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << arguments;
    EXPECT_TRUE(said.is_one_line()) << arguments << said.out;
  }
  const ShellResult unwritable = shell("TMPDIR='" + folder + "/none' " + command("-- true"));
  EXPECT_EQ(unwritable.code, 7);
  EXPECT_THAT(unwritable.out, HasSubstr("cannot make it"));
  ShellResult no_pipe;  // The number of open files depends on our parent.
  for (int most = 4; most < 100 && no_pipe.out.find("cannot make a pipe") == no_pipe.out.npos; ++most) {
    no_pipe = shell(fmt::format("ulimit -n {}; {}exec {}", most, environment(), command("-- true")));
  }
  EXPECT_EQ(no_pipe.code, 7);
  EXPECT_THAT(no_pipe.out, HasSubstr("cannot make a pipe: Too many open files"));
  fs::copy(RECAPTURE_BUILD "/recapture", folder + "/recapture");
  const ShellResult said =
      shell(environment() + "'" + folder + "/recapture' --root '" RECAPTURE_ROOT "' blame -- true");
  EXPECT_EQ(said.code, 7);
  EXPECT_THAT(said.out, HasSubstr("librecorder.so is not there"));
  EXPECT_TRUE(said.is_one_line()) << said.out;
}

TEST_F(Blame, KeptEvents_AreJudgedAsThoseOfAProgram) {
  const std::string events = write("events", "");
  shell("cd '" + folder + "' && " + environment() + "RECAPTURE_BLAME='" + events +
        "' CUDA_INJECTION64_PATH='" RECAPTURE_BUILD "/librecorder.so' " + breaker + "sync >out");
  const ShellResult said = shell(command("--json --log '" + folder + "/log' --read '" + events + "'"));
  EXPECT_EQ(said.code, 0) << said.out;
  const Json answer = Json::parse(text_of(folder + "/log"));
  const Json& failure = answer.at("processes").at(0).at("failures").at(0);
  EXPECT_EQ(failure.at("culprit").at("api"), "cuStreamSynchronize");
  EXPECT_THAT(failure.at("at").get<std::string>(), ContainsRegex("breaker.cpp:[0-9]+ in [^\n]*step"));
  EXPECT_THAT(failure.at("text").get<std::string>(), StartsWith("cuStreamSynchronize returned 900"));
  EXPECT_THAT(answer.at("text").get<std::string>(), StartsWith("recapture blame: process"));
  EXPECT_EQ(shell(command("--read /nowhere 2>&1")).code, 2);
  EXPECT_EQ(shell(command("--read '" + events + "' -- true 2>&1")).code, 2);
  std::ofstream(events, std::ios::app) << "{\"event\":\"fai";
  EXPECT_THAT(shell(command("--read '" + events + "' 2>&1")).out, HasSubstr("the report is incomplete"));
}

TEST_F(Blame, QuietlyUnderBlame_OnlyAProgramThatUsesCudaIsReported) {
  const auto quiet = [&](const std::string& what) {
    shell("cd '" + folder + "' && " + environment() +
          command("--quiet --log '" + folder + "/log' -- " + breaker + what) + " >out");
    return text_of(folder + "/log");
  };
  EXPECT_EQ(quiet("without-cuda"), "");
  EXPECT_THAT(quiet("benign"), StartsWith("recapture blame: no capture has failed"));
  EXPECT_THAT(quiet("sync"), HasSubstr("cuStreamSynchronize returned 900"));
}

TEST_F(Blame, FeaturesOfAProgram_AreWritten) {
  const std::string script = torch(R"(
def capture(**options):
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(**options)
    if "reads" in sys.argv: refuse()
    graph.capture_end()
if "thread" in sys.argv:
    stop = threading.Event()
    worker = threading.Thread(target=stop.wait, name="loader"); worker.start()
if "pool" in sys.argv: capture(pool="one")
if "none" not in sys.argv: capture()
if "thread" in sys.argv: stop.set()
if "kill" in sys.argv:
    import os; os._exit(0)
)");
  const auto features = [&](const std::string& what) {
    const std::string path = folder + "/features.toml";
    fs::remove(path);
    const ShellResult said = shell(
        "cd '" + folder + "' && " + environment() +
        command("--features '" + path + "' --log '" + folder + "/log' -- python3 -B " + script) + what + " 2>err");
    EXPECT_EQ(count(text_of(folder + "/err"), "Traceback"), what == " reads" ? 1U : 0U) << text_of(folder + "/err");
    return text_of(path);
  };
  EXPECT_THAT(features(""),
              AllOf(HasSubstr("captures = 1\nmodes = [\"global\"]"), HasSubstr("\"threads\" = \"not used\"\n"),
                    HasSubstr("\"several graphs\" = \"not used\"\n"),
                    HasSubstr("\"generators\" = \"assumed\"  # PyTorch's operators are not recorded")))
      << "the stand-in for PyTorch records no operators";
  EXPECT_THAT(features(" thread"), HasSubstr("\"threads\" = \"used\"  # loader beside a capture\n"));
  EXPECT_THAT(features(" pool"), AllOf(HasSubstr("\"memory pools\" = \"used\"  # a capture was given a pool\n"),
                                       HasSubstr("\"several graphs\" = \"used\"")));
  EXPECT_THAT(features(" reads"), AllOf(HasSubstr("\"failed captures\" = \"used\""),
                                        HasSubstr("\"DDP\" = \"assumed\"  # the program failed\n")));
  EXPECT_THAT(features(" none"),
              HasSubstr("\"DDP\" = \"assumed\"  # captures that are not PyTorch's cannot be observed\n"));
  EXPECT_THAT(features(" kill"), HasSubstr("\"DDP\" = \"assumed\"  # a process did not come to its end\n"));
}

TEST_F(Blame, FeaturesOfAProgramWithoutPython_AreAssumed) {
  const std::string script = write("run", "#!/bin/sh\n" + breaker + "benign >out\nexit 0\n");
  shell("cd '" + folder + "' && " + environment() +
        command("--features '" + folder + "/f' --log '" + folder + "/log' -- sh " + script));
  EXPECT_THAT(text_of(folder + "/f"),
              HasSubstr("\"threads\" = \"assumed\"  # a process used CUDA and cannot be observed"));
}

TEST_F(Blame, ProgramOfAGate_SetsItsScope) {
  const std::string script = torch("with torch.cuda.graph(torch.cuda.CUDAGraph()): print('out')\n");
  const ShellResult said = shell("cd '" + folder + "' && " + environment() +
                                 "'" RECAPTURE_BUILD "/recapture' gate --json 2.6.0 2.15.0 -- python3 -B " + script +
                                 " 2>'" + folder + "/err'");
  const Json answer = Json::parse(said.out);  // The program's own output is separate.
  EXPECT_EQ(answer.at("schema"), 2);
  EXPECT_EQ(answer.at("features").at("captures"), 1);
  EXPECT_EQ(answer.at("features").at("program"), "python3 -B " + script);
  EXPECT_THAT(text_of(folder + "/err"), HasSubstr("out\n"));
  EXPECT_EQ(answer.at("exit"), said.code);
}

}  // namespace
}  // namespace recapture

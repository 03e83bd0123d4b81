// The recorder's state and texts, without CUDA and without CUPTI; and the library itself without both.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/case/cuda_errors.h"
#include "harness/case/events.h"
#include "harness/recorder/calls.h"
#include "harness/recorder/captures.h"
#include "harness/recorder/culprit.h"
#include "harness/recorder/find_cupti.h"
#include "harness/recorder/frames.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

constexpr long kMain = 100, kOther = 200;
constexpr uintptr_t kStream = 16, kSecond = 17;
constexpr int kUnsupported = 900, kInvalidated = 901, kUnmatched = 903, kUnjoined = 904, kCapturedEvent = 907;

TEST(Captures, Capture_IsOpenFromBeginToEnd) {
  Captures captures;
  EXPECT_EQ(captures.open(), 0u);
  captures.begun(kStream, CaptureMode::Global, kMain);
  EXPECT_EQ(captures.open(), 1u);
  EXPECT_TRUE(captures.capturing(kMain));
  EXPECT_FALSE(captures.capturing(kOther));
  captures.ended(kStream, kMain, 0);
  EXPECT_EQ(captures.open(), 0u);
  EXPECT_FALSE(captures.capturing(kMain));
}

TEST(Captures, FailedEnd_ClosesTheCaptureUnlessItIsUnmatched) {
  for (int code : {0, 401, 901, 904, 908}) {
    Captures captures;
    captures.begun(kStream, CaptureMode::Global, kMain);
    captures.ended(kStream, kMain, code);
    EXPECT_EQ(captures.open(), 0u) << code;
  }
  for (int code : {903}) {
    Captures captures;
    captures.begun(kStream, CaptureMode::Global, kMain);
    captures.ended(kStream, kOther, code);
    EXPECT_EQ(captures.open(), 1u) << code;
    EXPECT_TRUE(captures.capturing(kMain)) << code;
  }
}

TEST(Captures, EndWithoutABegin_CountsForNothing) {
  Captures captures;
  captures.ended(kStream, kMain, 0);
  captures.destroyed(kStream);
  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.ended(kSecond, kMain, 0);
  EXPECT_EQ(captures.open(), 1u);
}

TEST(Captures, DestroyedStream_EndsItsCapture) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.begun(kSecond, CaptureMode::Global, kMain);
  captures.destroyed(kStream);
  EXPECT_EQ(captures.open(), 1u);
}

TEST(Captures, SecondBeginOnAStream_ReplacesTheFirst) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.begun(kStream, CaptureMode::Relaxed, kOther);
  EXPECT_EQ(captures.open(), 1u);
  EXPECT_FALSE(captures.capturing(kMain));
  EXPECT_EQ(captures.mode(kOther, CaptureMode::Global), CaptureMode::Relaxed);
}

TEST(Captures, PerThreadStream_IsAStreamOfEachThread) {
  Captures captures;
  captures.begun(Captures::kPerThreadStream, CaptureMode::Global, kMain);
  captures.begun(Captures::kPerThreadStream, CaptureMode::Global, kOther);
  EXPECT_EQ(captures.open(), 2u);
  captures.ended(Captures::kPerThreadStream, kOther, 0);
  EXPECT_TRUE(captures.capturing(kMain));
  EXPECT_FALSE(captures.capturing(kOther));
}

TEST(Captures, MoreThanTheLimit_AreLeftOut) {
  Captures captures;
  for (size_t i = 0; i < Captures::kMost + 3; ++i) captures.begun(kStream + i, CaptureMode::Global, kMain);
  EXPECT_EQ(captures.open(), Captures::kMost);
  for (size_t i = 0; i < Captures::kMost + 3; ++i) captures.ended(kStream + i, kMain, 0);
  EXPECT_EQ(captures.open(), 0u);
}

TEST(Captures, OpenCapture_IsFoundByItsStream) {
  Captures captures;
  EXPECT_EQ(captures.latest(), 0u);
  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.begun(kSecond, CaptureMode::Relaxed, kMain);
  ASSERT_NE(captures.on(kStream, kOther), nullptr) << "whichever thread ends it";
  EXPECT_EQ(captures.on(kStream, kOther)->number, 1u);
  captures.ended(kSecond, kMain, 0);
  EXPECT_EQ(captures.on(kSecond, kMain), nullptr);
  EXPECT_EQ(captures.latest(), 2u);
}

// blame decides by itself; this only determines which calls need not be reported.
TEST(Captures, Thread_BreaksItsOwnAndTheGlobalOnesOfOthers) {
  Captures captures;
  captures.begun(kStream, CaptureMode::ThreadLocal, kMain);
  captures.begun(kSecond, CaptureMode::ThreadLocal, kOther);
  EXPECT_TRUE(captures.broken_by(kMain));
  EXPECT_FALSE(captures.broken_by(kMain)) << "it was already broken";
  EXPECT_TRUE(captures.lack_culprit()) << "the other thread's capture is valid";
  EXPECT_TRUE(captures.broken_by(kOther));
  EXPECT_FALSE(captures.lack_culprit());
  captures.begun(kStream, CaptureMode::Global, kMain);
  EXPECT_TRUE(captures.broken_by(kOther));
  EXPECT_FALSE(captures.lack_culprit());
}

TEST(Accusation, SeveralFailuresInACapture_OnlyTheFirstIsNamed) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  EXPECT_TRUE(captures.lack_culprit());
  EXPECT_TRUE(captures.mark_culprit(kUnsupported));
  EXPECT_FALSE(captures.lack_culprit());
  EXPECT_FALSE(captures.mark_culprit(kInvalidated));
  EXPECT_FALSE(captures.mark_culprit(kUnsupported));
  EXPECT_FALSE(captures.accuse_end(kStream, kMain, kInvalidated));
}

TEST(Accusation, EveryCapture_HasItsOwnCulprit) {
  Captures captures;
  for (uintptr_t stream : {kStream, kSecond, kStream}) {
    captures.begun(stream, CaptureMode::Global, kMain);
    EXPECT_TRUE(captures.lack_culprit());
    EXPECT_TRUE(captures.mark_culprit(kUnsupported));
    EXPECT_FALSE(captures.accuse_end(stream, kMain, kInvalidated));
    captures.ended(stream, kMain, kInvalidated);
    EXPECT_FALSE(captures.lack_culprit());
  }
}

TEST(Accusation, HealthyCapture_HasNoCulprit) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.ended(kStream, kMain, 0);
  EXPECT_FALSE(captures.lack_culprit());
  captures.begun(kStream, CaptureMode::Global, kMain);
  EXPECT_TRUE(captures.mark_culprit(kUnsupported));
}

TEST(Accusation, EndThatFailsByItself_IsNamed) {
  for (int code : {kUnjoined, kInvalidated, kUnmatched}) {
    Captures captures;
    captures.begun(kStream, CaptureMode::Global, kMain);
    EXPECT_TRUE(captures.accuse_end(kStream, kMain, code)) << code;
    EXPECT_FALSE(captures.lack_culprit()) << code;
  }
}

TEST(Accusation, FailingCall_BreaksAllOpenCaptures) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.begun(kSecond, CaptureMode::Global, kOther);
  EXPECT_TRUE(captures.mark_culprit(kUnsupported));
  EXPECT_FALSE(captures.lack_culprit());
  EXPECT_FALSE(captures.mark_culprit(kUnsupported));
  EXPECT_FALSE(captures.accuse_end(kStream, kMain, kInvalidated));
  captures.ended(kStream, kMain, kInvalidated);
  EXPECT_FALSE(captures.accuse_end(kSecond, kOther, kInvalidated));
}

TEST(Accusation, CaptureBegunBesideABrokenOne_HasItsOwnCulprit) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  EXPECT_TRUE(captures.mark_culprit(kUnsupported));
  captures.begun(kSecond, CaptureMode::Global, kOther);
  EXPECT_TRUE(captures.lack_culprit());
  EXPECT_FALSE(captures.mark_culprit(kInvalidated));
  EXPECT_FALSE(captures.accuse_end(kStream, kMain, kUnjoined));
  EXPECT_TRUE(captures.lack_culprit());
  EXPECT_TRUE(captures.accuse_end(kSecond, kOther, kUnjoined));
  EXPECT_FALSE(captures.lack_culprit());
}

TEST(Accusation, SecondCaptureOnABrokenStream_HasItsOwnCulprit) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  EXPECT_TRUE(captures.mark_culprit(kUnsupported));
  captures.begun(kStream, CaptureMode::Global, kMain);  // The end was missed.
  EXPECT_TRUE(captures.lack_culprit());
  EXPECT_TRUE(captures.mark_culprit(kInvalidated));
}

TEST(Accusation, PerThreadStream_EndsItsOwnCapture) {
  Captures captures;
  captures.begun(Captures::kPerThreadStream, CaptureMode::ThreadLocal, kMain);
  EXPECT_TRUE(captures.mark_culprit(kUnsupported));
  captures.begun(Captures::kPerThreadStream, CaptureMode::ThreadLocal, kOther);
  EXPECT_FALSE(captures.accuse_end(Captures::kPerThreadStream, kMain, kUnjoined));
  EXPECT_TRUE(captures.accuse_end(Captures::kPerThreadStream, kOther, kUnjoined));
}

TEST(Accusation, NoOpenCapture_OneCallIsNamedUntilTheNextCapture) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  EXPECT_TRUE(captures.mark_culprit(kUnsupported));
  captures.ended(kStream, kMain, kInvalidated);
  EXPECT_TRUE(captures.mark_culprit(kCapturedEvent));
  EXPECT_FALSE(captures.mark_culprit(kCapturedEvent));
  captures.ended(kSecond, kMain, 401);  // Ends nothing.
  EXPECT_FALSE(captures.mark_culprit(kCapturedEvent));
  EXPECT_FALSE(captures.lack_culprit());

  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.ended(kStream, kMain, 0);
  EXPECT_TRUE(captures.mark_culprit(kCapturedEvent));
  EXPECT_FALSE(captures.mark_culprit(kCapturedEvent));

  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.destroyed(kStream);
  EXPECT_TRUE(captures.mark_culprit(kCapturedEvent));
}

// The runner keeps one culprit for each test, so no rule may suppress the first.
TEST(Accusation, FirstErrorOfAProcess_IsAlwaysNamed) {
  for (int code = kFirstCaptureError; code <= kLastCaptureError; ++code) {
    for (int open : {0, 1, 2}) {
      for (bool end : {false, true}) {
        for (bool one_before : {false, true}) {
          Captures captures;
          if (one_before) {
            captures.begun(kStream, CaptureMode::Global, kMain);
            captures.ended(kStream, kMain, 0);
          }
          if (open > 0) captures.begun(kStream, CaptureMode::Global, kMain);
          if (open > 1) captures.begun(kSecond, CaptureMode::ThreadLocal, kOther);
          EXPECT_TRUE(end ? captures.accuse_end(kStream, kMain, code) : captures.mark_culprit(code))
              << code << " " << open;
        }
      }
    }
  }
}

TEST(CaptureMode, NoCapture_HasNoMode) {
  EXPECT_EQ(Captures().mode(kMain, CaptureMode::Global), CaptureMode::None);
  EXPECT_EQ(Captures().mode(kMain, CaptureMode::Relaxed), CaptureMode::None);
}

TEST(CaptureMode, ThreadWithACapture_HasItsOwnMode) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Relaxed, kMain);
  captures.begun(kSecond, CaptureMode::Global, kOther);
  EXPECT_EQ(captures.mode(kMain, CaptureMode::Global), CaptureMode::Relaxed);
  EXPECT_EQ(captures.mode(kOther, CaptureMode::Global), CaptureMode::Global);
}

TEST(CaptureMode, ThreadWithoutACapture_HasTheStrictestMode) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Relaxed, kMain);
  captures.begun(kSecond, CaptureMode::ThreadLocal, kMain);
  EXPECT_EQ(captures.mode(kOther, CaptureMode::Global), CaptureMode::ThreadLocal);
}

TEST(CaptureMode, ExchangedMode_OnlyLoosens) {
  Captures captures;
  captures.begun(kStream, CaptureMode::ThreadLocal, kMain);
  EXPECT_EQ(captures.mode(kMain, CaptureMode::Global), CaptureMode::ThreadLocal);
  EXPECT_EQ(captures.mode(kMain, CaptureMode::Relaxed), CaptureMode::Relaxed);
}

TEST(Frames, Function_HasItsNameOrElseItsOffset) {
  EXPECT_EQ(frame_text("at::native::item(at::Tensor const&)", "/opt/torch/lib/libtorch_cpu.so", 0x10),
            "at::native::item(at::Tensor const&)");
  EXPECT_EQ(frame_text("", "/opt/torch/lib/libtorch_cpu.so", 0x1f0), "libtorch_cpu.so+0x1f0");
  EXPECT_EQ(frame_text("", "program", 0x1f0), "program+0x1f0");
  EXPECT_EQ(frame_text(std::string(200, 'f'), "program", 0), std::string(200, 'f'));
  EXPECT_EQ(frame_text(std::string(201, 'f'), "program", 0), std::string(197, 'f') + "...");
}

TEST(Frames, FileName_SeparatesCudaFromLibTorch) {
  EXPECT_TRUE(is_cuda_library("/usr/lib/x86_64-linux-gnu/libcuda.so.1"));
  EXPECT_TRUE(is_cuda_library("/opt/lib/libcudart.so.13"));
  EXPECT_TRUE(is_cuda_library("/opt/lib/libcudart-d0da41ae.so.11.0"));
  EXPECT_TRUE(is_cuda_library("libcupti.so.12"));
  EXPECT_FALSE(is_cuda_library("/opt/torch/lib/libtorch_cuda.so"));
  EXPECT_FALSE(is_cuda_library("/opt/torch/lib/libc10_cuda.so"));
  EXPECT_FALSE(is_cuda_library("/opt/libcuda.so/program"));
  EXPECT_FALSE(is_cuda_library("/opt/lib/libcudnn.so.9"));
}

TEST(Frames, Callers_AreNamedWithoutTheRecorder) {
  EXPECT_FALSE(frames_above(nullptr, 8).empty());
  Dl_info self{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(&base_name), &self), 0);
  const std::string program = std::string(base_name(self.dli_fname)) + "+0x";
  const std::vector<std::string> above = texts(frames_above(self.dli_fbase, 8));
  ASSERT_FALSE(above.empty());
  for (const std::string& frame : above) EXPECT_NE(frame.substr(0, program.size()), program);
}

TEST(Calls, NameOfACall_GivesItsKind) {
  EXPECT_EQ(kind_of_call("cuStreamBeginCapture"), CallKind::BeginGlobal);
  EXPECT_EQ(kind_of_call("cuStreamBeginCapture_v2"), CallKind::Begin);
  EXPECT_EQ(kind_of_call("cuStreamBeginCaptureToGraph"), CallKind::BeginToGraph);
  EXPECT_EQ(kind_of_call("cuStreamBeginCaptureToCig"), CallKind::Other);
  EXPECT_EQ(kind_of_call("cuStreamEndCapture"), CallKind::End);
  EXPECT_EQ(kind_of_call("cuStreamEndCaptureToCig"), CallKind::Other);
  EXPECT_EQ(kind_of_call("cuStreamDestroy_v2"), CallKind::Destroy);
  EXPECT_EQ(kind_of_call("cuThreadExchangeStreamCaptureMode"), CallKind::Exchange);
  EXPECT_EQ(kind_of_call("cuEventElapsedTime_v2"), CallKind::Event);
  EXPECT_EQ(kind_of_call("cuStreamGetCaptureInfo_v3"), CallKind::Query);
  EXPECT_EQ(kind_of_call("cuMemAlloc_v2"), CallKind::Other);
  EXPECT_FALSE(call_of("cuStreamBeginCapture_v2").per_thread);
  EXPECT_TRUE(call_of("cuStreamBeginCapture_v2_ptsz").per_thread);
  EXPECT_EQ(call_of("cuStreamBeginCapture_v2_ptsz").kind, CallKind::Begin);
}

TEST(Calls, CaptureAndEventCalls_AreAlwaysHeard) {
  for (const char* api : {"cuStreamBeginCapture_v2", "cuStreamBeginCaptureToGraph", "cuStreamEndCapture_ptsz",
                          "cuStreamDestroy_v2", "cuThreadExchangeStreamCaptureMode", "cuEventQuery"}) {
    EXPECT_TRUE(is_always_heard(call_of(api).kind)) << api;
  }
  for (const char* api : {"cuLaunchKernel", "cuMemcpyAsync", "cuStreamIsCapturing", "cuEventRecord"}) {
    EXPECT_FALSE(is_always_heard(call_of(api).kind)) << api;
  }
}

TEST(CulpritLine, Culprit_IsOneFlatObject) {
  const Culprit full{"cuStreamSynchronize", 900, true, CaptureMode::Global, {"f(char const*)", "program+0x10"}};
  EXPECT_EQ(json(full),
            "{\"api\":\"cuStreamSynchronize\",\"code\":900,\"thread\":\"capturing\",\"mode\":\"global\","
            "\"frames\":[\"f(char const*)\",\"program+0x10\"]}");
  Culprit told = full;
  told.frames = {};
  told.python = {"train.py:3 in step"};
  told.log = "";
  told.at = {16, 4096};
  EXPECT_EQ(json(told), R"({"api":"cuStreamSynchronize","code":900,"thread":"capturing","mode":"global","frames":[],)"
                        R"("python":["train.py:3 in step"],"log":"","at":[16,4096]})");
  const Culprit bare{"cuEventQuery", 907, false, CaptureMode::None, {}};
  EXPECT_EQ(json(bare), "{\"api\":\"cuEventQuery\",\"code\":907,\"thread\":\"other\",\"mode\":\"none\",\"frames\":[]}");
}

// docs/reference/record-format.md has a row on the object that the runner keeps: what the recorder reports, with the
// place in the case in place of addresses, the driver's text, and the rank that a test of ranks adds.
TEST(CulpritLine, EachMember_IsInTheRecordFormat) {
  const Culprit full{"cuStreamSynchronize", 900, true, CaptureMode::Global, {"f"}, {"g"}, "text", {5}};
  nlohmann::json object = nlohmann::json::parse(json(full));
  object.erase("at");
  for (const char* member : {"file", "line", "rank"}) object[member] = nullptr;
  std::ifstream page(RECAPTURE_ROOT "/docs/reference/record-format.md");
  std::string row;
  while (std::getline(page, row) && row.rfind("| `culprit` |", 0) != 0) {
  }
  for (const auto& [member, value] : object.items()) EXPECT_THAT(row, ::testing::HasSubstr("`" + member + "`"));
}

TEST(CulpritLine, QuotesAndBackslashes_AreEscaped) {
  const std::string line = json({"cuInit", 900, false, CaptureMode::None, {R"(operator""_s)", R"(a\b)", "/a b~"}});
  EXPECT_THAT(line, ::testing::EndsWith(R"("frames":["operator\"\"_s","a\\b","/a b~"]})"));
}

TEST(CulpritLine, AnyName_IsWrittenInAscii) {
  const std::string cut_in_a_character = "caf\xc3";
  const std::string line = json({"cuInit", 900, false, CaptureMode::None, {"a\nb\xc3\xa9", cut_in_a_character}});
  EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20 && c < 0x7f; })) << line;
  const nlohmann::json frames = nlohmann::json::parse(line)["frames"];
  EXPECT_EQ(frames[0], "a\nb\xc3\xa9");
  EXPECT_THAT(frames[1].get<std::string>(), ::testing::StartsWith("caf"));
}

TEST(CulpritLine, Event_IsReadBackUnchanged) {
  const Culprit culprit{"cuMemAlloc_v2", 900, false, CaptureMode::ThreadLocal, {"a\\b", "c\"d"}};
  const std::string line = culprit_event(culprit);
  ASSERT_EQ(line.back(), '\n');
  const auto [said, value] = parse_event(std::string_view(line).substr(0, line.size() - 1));
  EXPECT_EQ(said, key::culprit);
  EXPECT_EQ(value, json(culprit));
}

TEST(CulpritLine, LongLine_LosesItsOutermostFrames) {
  Culprit culprit{"cuMemAlloc_v2", 900, false, CaptureMode::Global, {}};
  for (int i = 0; i < 8; ++i) culprit.frames.push_back(frame_text(std::string(200, '\\'), "", 0));
  const std::string line = culprit_event(culprit);
  EXPECT_LE(line.size(), kLongestValue);
  const std::string value = parse_event(std::string_view(line).substr(0, line.size() - 1)).second;
  EXPECT_EQ(value.find("[cut]"), value.npos);
  EXPECT_EQ(value.substr(value.size() - 3), "\"]}");
  EXPECT_NE(value.find("\\\\"), value.npos);
}

TEST(CulpritSentence, Culprit_IsOneReadableSentence) {
  EXPECT_EQ(sentence({"cuStreamSynchronize", 900, true, CaptureMode::Global, {"f()", "main"}}),
            "cuStreamSynchronize returned 900 on a capturing thread, capture mode global; called from f() < main");
  EXPECT_EQ(sentence({"cuEventQuery", 907, false, CaptureMode::None, {}}),
            "cuEventQuery returned 907 on a thread that captures nothing, no capture open");
}

TEST(CaptureErrors, CodeFrom900To910_IsACaptureError) {
  EXPECT_FALSE(is_capture_error(0));
  EXPECT_FALSE(is_capture_error(899));
  EXPECT_TRUE(is_capture_error(900));
  EXPECT_TRUE(is_capture_error(910));
  EXPECT_FALSE(is_capture_error(911));
}

// The installed library, in processes without a CUDA driver.
constexpr char kLibrary[] = RECAPTURE_BUILD "/librecorder.so";

// Calls it like the driver; exits with its result.
[[noreturn]] void initialize() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::fputs(dlerror(), stderr);
    std::_Exit(100);
  }
  auto* initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (!initialize) std::_Exit(101);
  const int first = initialize(), again = initialize();
  std::_Exit(first == again ? first : 102);
}

class Library : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "fast";
    for (const char* variable : {kEventsVariable, "RECAPTURE_RECORDER_LOG", "RECAPTURE_RECORDER"}) unsetenv(variable);
  }
};

TEST_F(Library, PreloadedIntoAProgram_ChangesNothing) {
  const std::string command = std::string("LD_PRELOAD='") + kLibrary + "' /bin/echo fine 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::array<char, 4096> text{};
  const size_t size = fread(text.data(), 1, text.size(), pipe);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(std::string(text.data(), size), "fine\n");
}

TEST_F(Library, Loading_NeedsNoLibraryOfCuda) {
  ASSERT_NE(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  EXPECT_NE(loaded("librecorder.so"), "");
  for (const char* start : {"libcuda.so", "libcudart", "libcupti", "libtorch", "libc10"}) EXPECT_EQ(loaded(start), "");
}

TEST_F(Library, NoDriver_PrintsTheReasonOnce) {
  EXPECT_EXIT(initialize(), ::testing::ExitedWithCode(1),
              "^recapture recorder, process [0-9]+: off, the process has no CUDA driver loaded\n$");
}

TEST_F(Library, NoDriver_AppendsTheReasonToTheLog) {
  const std::string log = ::testing::TempDir() + "recorder_test." + std::to_string(getpid()) + ".log";
  std::ofstream(log) << "before\n";
  setenv("RECAPTURE_RECORDER_LOG", log.c_str(), 1);
  EXPECT_EXIT(initialize(), ::testing::ExitedWithCode(1), "^$");
  std::ifstream file(log);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, ::testing::StartsWith("before\nrecapture recorder, process "));
  EXPECT_THAT(text, ::testing::EndsWith(": off, the process has no CUDA driver loaded\n"));
  std::filesystem::remove(log);
}

TEST_F(Library, NoDriver_SendsTheReasonAsAnEvent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  setenv(kEventsVariable, std::to_string(ends[1]).c_str(), 1);
  EXPECT_EXIT(initialize(), ::testing::ExitedWithCode(1), "^$");
  close(ends[1]);
  std::array<char, 4096> text{};
  const ssize_t size = read(ends[0], text.data(), text.size());
  close(ends[0]);
  ASSERT_GT(size, 0);
  EXPECT_EQ(std::string(text.data(), static_cast<size_t>(size)),
            event_line(key::recorder, "the process has no CUDA driver loaded"));
}

}  // namespace
}  // namespace recapture

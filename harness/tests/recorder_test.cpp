// What the recorder of CUDA calls keeps in mind and how it words it, without CUDA and without CUPTI.
#include <gtest/gtest.h>

#include <string>

#include "fixtures/recorder/captures.h"
#include "harness/events.h"

namespace recapture {
namespace {

constexpr long kMain = 100, kOther = 200;
constexpr uintptr_t kStream = 16, kSecond = 17;

TEST(Captures, ACaptureIsOpenFromItsBeginToItsEnd) {
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

TEST(Captures, AFailedEndClosesTheCaptureUnlessItCameToTheWrongPlace) {
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

TEST(Captures, EndsWithoutABeginCountForNothing) {
  Captures captures;
  captures.ended(kStream, kMain, 0);
  captures.destroyed(kStream);
  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.ended(kSecond, kMain, 0);
  EXPECT_EQ(captures.open(), 1u);
}

TEST(Captures, AStreamThatIsDestroyedTakesItsCaptureAlong) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.begun(kSecond, CaptureMode::Global, kMain);
  captures.destroyed(kStream);
  EXPECT_EQ(captures.open(), 1u);
}

TEST(Captures, ASecondBeginOnAStreamReplacesTheOneThatEndedUnseen) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Global, kMain);
  captures.begun(kStream, CaptureMode::Relaxed, kOther);
  EXPECT_EQ(captures.open(), 1u);
  EXPECT_FALSE(captures.capturing(kMain));
  EXPECT_EQ(captures.mode(kOther, CaptureMode::Global), CaptureMode::Relaxed);
}

TEST(Captures, TheStreamOfEachThreadIsManyStreams) {
  Captures captures;
  captures.begun(Captures::kPerThreadStream, CaptureMode::Global, kMain);
  captures.begun(Captures::kPerThreadStream, CaptureMode::Global, kOther);
  EXPECT_EQ(captures.open(), 2u);
  captures.ended(Captures::kPerThreadStream, kOther, 0);
  EXPECT_TRUE(captures.capturing(kMain));
  EXPECT_FALSE(captures.capturing(kOther));
}

TEST(Captures, MoreThanItHoldsAreLeftOut) {
  Captures captures;
  for (size_t i = 0; i < Captures::kMost + 3; ++i) captures.begun(kStream + i, CaptureMode::Global, kMain);
  EXPECT_EQ(captures.open(), Captures::kMost);
  for (size_t i = 0; i < Captures::kMost + 3; ++i) captures.ended(kStream + i, kMain, 0);
  EXPECT_EQ(captures.open(), 0u);
}

TEST(CaptureMode, NoCaptureHasNoMode) {
  EXPECT_EQ(Captures().mode(kMain, CaptureMode::Global), CaptureMode::None);
  EXPECT_EQ(Captures().mode(kMain, CaptureMode::Relaxed), CaptureMode::None);
}

TEST(CaptureMode, AThreadGoesByItsOwnCaptureBeforeThoseOfOthers) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Relaxed, kMain);
  captures.begun(kSecond, CaptureMode::Global, kOther);
  EXPECT_EQ(captures.mode(kMain, CaptureMode::Global), CaptureMode::Relaxed);
  EXPECT_EQ(captures.mode(kOther, CaptureMode::Global), CaptureMode::Global);
}

TEST(CaptureMode, AThreadWithoutACaptureGoesByTheStrictest) {
  Captures captures;
  captures.begun(kStream, CaptureMode::Relaxed, kMain);
  captures.begun(kSecond, CaptureMode::ThreadLocal, kMain);
  EXPECT_EQ(captures.mode(kOther, CaptureMode::Global), CaptureMode::ThreadLocal);
}

TEST(CaptureMode, AnExchangedModeOnlyLoosens) {
  Captures captures;
  captures.begun(kStream, CaptureMode::ThreadLocal, kMain);
  EXPECT_EQ(captures.mode(kMain, CaptureMode::Global), CaptureMode::ThreadLocal);
  EXPECT_EQ(captures.mode(kMain, CaptureMode::Relaxed), CaptureMode::Relaxed);
}

TEST(Frames, AFunctionGoesByItsNameAndOtherwiseByItsPlace) {
  EXPECT_EQ(frame_text("at::native::item(at::Tensor const&)", "/opt/torch/lib/libtorch_cpu.so", 0x10),
            "at::native::item(at::Tensor const&)");
  EXPECT_EQ(frame_text("", "/opt/torch/lib/libtorch_cpu.so", 0x1f0), "libtorch_cpu.so+0x1f0");
  EXPECT_EQ(frame_text("", "program", 0x1f0), "program+0x1f0");
  EXPECT_EQ(frame_text(std::string(200, 'f'), "program", 0), std::string(200, 'f'));
  EXPECT_EQ(frame_text(std::string(201, 'f'), "program", 0), std::string(197, 'f') + "...");
}

TEST(Frames, TheLibrariesOfCudaAreToldFromThoseOfLibTorch) {
  EXPECT_TRUE(is_cuda_library("/usr/lib/x86_64-linux-gnu/libcuda.so.1"));
  EXPECT_TRUE(is_cuda_library("/opt/lib/libcudart.so.13"));
  EXPECT_TRUE(is_cuda_library("/opt/lib/libcudart-d0da41ae.so.11.0"));
  EXPECT_TRUE(is_cuda_library("libcupti.so.12"));
  EXPECT_FALSE(is_cuda_library("/opt/torch/lib/libtorch_cuda.so"));
  EXPECT_FALSE(is_cuda_library("/opt/torch/lib/libc10_cuda.so"));
  EXPECT_FALSE(is_cuda_library("/opt/libcuda.so/program"));
  EXPECT_FALSE(is_cuda_library("/opt/lib/libcudnn.so.9"));
}

TEST(CulpritLine, IsOneFlatObject) {
  const Culprit full{"cuStreamSynchronize", 900, true, CaptureMode::Global, {"f(char const*)", "program+0x10"}};
  EXPECT_EQ(json(full),
            "{\"api\":\"cuStreamSynchronize\",\"code\":900,\"thread\":\"capturing\",\"mode\":\"global\","
            "\"frames\":[\"f(char const*)\",\"program+0x10\"]}");
  const Culprit bare{"cuEventQuery", 907, false, CaptureMode::None, {}};
  EXPECT_EQ(json(bare), "{\"api\":\"cuEventQuery\",\"code\":907,\"thread\":\"other\",\"mode\":\"none\",\"frames\":[]}");
}

TEST(CulpritLine, QuotesWhatJsonWouldTakeForItsOwn) {
  EXPECT_EQ(json_text("operator\"\"_s"), "\"operator\\\"\\\"_s\"");
  EXPECT_EQ(json_text("a\\b"), "\"a\\\\b\"");
  EXPECT_EQ(json_text("a\nb\xc3\xa9"), "\"a?b??\"");
}

TEST(CulpritLine, ComesOutOfAnEventAsItWentIn) {
  const Culprit culprit{"cuMemAlloc_v2", 900, false, CaptureMode::ThreadLocal, {"a\\b", "c\"d"}};
  const std::string line = culprit_event(culprit);
  ASSERT_EQ(line.back(), '\n');
  const auto [key, value] = parse_event(std::string_view(line).substr(0, line.size() - 1));
  EXPECT_EQ(key, "culprit");
  EXPECT_EQ(value, json(culprit));
}

TEST(CulpritLine, LosesItsOutermostFramesRatherThanItsEnd) {
  Culprit culprit{"cuMemAlloc_v2", 900, false, CaptureMode::Global, {}};
  for (int i = 0; i < 8; ++i) culprit.frames.push_back(frame_text(std::string(200, '\\'), "", 0));
  const std::string line = culprit_event(culprit);
  EXPECT_LE(line.size(), kLongestValue);
  const std::string value = parse_event(std::string_view(line).substr(0, line.size() - 1)).second;
  EXPECT_EQ(value.find("[cut]"), value.npos);
  EXPECT_EQ(value.substr(value.size() - 3), "\"]}");
  EXPECT_NE(value.find("\\\\"), value.npos);
}

TEST(CulpritSentence, IsForReading) {
  EXPECT_EQ(sentence({"cuStreamSynchronize", 900, true, CaptureMode::Global, {"f()", "main"}}),
            "cuStreamSynchronize returned 900 on a capturing thread, capture mode global; called from f() < main");
  EXPECT_EQ(sentence({"cuEventQuery", 907, false, CaptureMode::None, {}}),
            "cuEventQuery returned 907 on a thread that captures nothing, no capture open");
}

TEST(CaptureErrors, AreTheCodesFrom900To910) {
  EXPECT_FALSE(is_capture_error(0));
  EXPECT_FALSE(is_capture_error(899));
  EXPECT_TRUE(is_capture_error(900));
  EXPECT_TRUE(is_capture_error(910));
  EXPECT_FALSE(is_capture_error(911));
}

}  // namespace
}  // namespace recapture

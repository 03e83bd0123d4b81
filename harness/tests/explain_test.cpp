// Causes found in pasted texts: real threads, and the rules one by one.
#include "harness/explain/explain.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "harness/base/exit.h"
#include "harness/base/letter_case.h"
#include "harness/base/regex.h"
#include "harness/base/xz.h"
#include "harness/case/cuda_errors.h"
#include "harness/model/record_files.h"
#include "harness/report/explanation.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/small_tree.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const Catalogue& catalogue() {
  static const Catalogue kAll = read_catalogue(kRoot);
  return kAll;
}

Explanation explained(const std::string& text, const std::vector<TestVerdict>& rows = {}) {
  static const std::vector<Cause> kCauses = read_causes(kRoot, catalogue());
  return diagnose(parse_error_text(text), kCauses, catalogue(), rows);
}

std::vector<std::string> ids(const Explanation& explanation, std::optional<Role> role = {}) {
  std::vector<std::string> all;
  for (const Found& one : explanation.causes) {
    if (!role || one.role == role) all.push_back(one.id);
  }
  return all;
}

// Of a 900 whose call nothing in the text names: the error's own case, then what mostly raises it.
auto only_the_error() { return ElementsAre("e900_unsupported", "item_in_capture", "pageable_copy_in_capture"); }

// reports/2.11.0/nvidia-h200.blame.txt.xz: blame's failures on an H200, as lines of the driver's log.
TEST(Explain, DriverLogOfEachBlamedFailure_IsACaptureFailure) {
  static const RE2 kCulprit(R"((\w+) returned (\d+) \(.*\) and broke the capture)");
  const std::string report = kRoot + "/reports/2.11.0/nvidia-h200.blame.txt.xz";
  std::istringstream file(unpacked_by_xz(contents(report), report, 1U << 20));
  int failures = 0;
  std::string log, path, sentence;
  bool on_path = false;
  const auto judge = [&] {
    if (log.empty()) return;
    ++failures;
    const Explanation explanation = explained("[CUDA][E] " + sentence + "\n" + log + path);
    EXPECT_EQ(explanation.answer, Answer::CaptureFailure) << log << path;
  };
  for (std::string line; std::getline(file, line);) {
    std::string call, code;
    const std::string head = line.substr(0, 9);
    if (line.rfind("recapture blame: ", 0) == 0) {
      judge();
      log.clear(), path.clear();
      sentence = "API call conflicts with a stream capture sequence initiated from the calling thread";
    } else if (RE2::FullMatch(line, kCulprit, &call, &code)) {
      const auto* error = std::find_if(std::begin(kCudaErrors), std::end(kCudaErrors),
                                       [&](const CudaError& one) { return std::to_string(one.code) == code; });
      log = fmt::format("[CUDA][E] Returning {} ({}) from {}\n", error->code, driver_name(error->name), call);
    } else if (head == "  driver ") {
      sentence = line.substr(11);
    }
    on_path =
        head == "  python " || head == "  through" || head == "  c++    " || (on_path && head == std::string(9, ' '));
    if (on_path) path += line + "\n";
  }
  judge();
  EXPECT_GT(failures, 40);
}

TEST(Explain, SynchronizationInsideALibrary_IsNotItsCompilation) {
  const Explanation explanation = explained(
      "[CUDA][E] Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuCtxSynchronize\n"
      "  File \"site-packages/numba_cuda/numba/cuda/cudadrv/driver.py\", line 9, in synchronize\n");
  EXPECT_THAT(ids(explanation, Role::Culprit), ElementsAre("device_synchronize_in_capture"));
}

// Checks the texts of a file, each with the answer and one of its first causes, or with "first" the first itself.
// Returns their number.
int expect_answers(const std::string& name) {
  const std::string path = kRoot + "/harness/tests/data/" + name;
  std::istringstream file(name.ends_with(".xz") ? unpacked_by_xz(contents(path), path, 1U << 24) : contents(path));
  int texts = 0;
  for (std::string line; std::getline(file, line); ++texts) {
    const Json expected = Json::parse(line);
    const std::string place = expected.value("url", expected.value("about", ""));
    const Explanation explanation = explained(expected.at("text"));
    EXPECT_EQ(to_string(explanation.answer), expected.at("answer").get<std::string>()) << place;
    auto first = ids(explanation);
    if (first.size() > 3) first.resize(3);
    const std::string cause = expected.at("cause");
    EXPECT_TRUE(cause.empty() || std::find(first.begin(), first.end(), cause) != first.end()) << place;
    if (expected.value("first", false)) {
      auto right = expected.value("or", std::vector<std::string>());
      right.push_back(cause);
      EXPECT_THAT(right, Contains(first.empty() ? "" : first.front())) << place;
    }
    const auto culprits = ids(explanation, Role::Culprit);
    EXPECT_TRUE(explanation.answer != Answer::CannotTell || culprits.empty()) << place;
    // The thread names these as well, and no others may be culprits.
    if (!expected.contains("or") || culprits.empty()) continue;
    auto right = expected.at("or").get<std::vector<std::string>>();
    right.push_back(cause);
    EXPECT_THAT(right, Contains(culprits.front())) << place;
  }
  return texts;
}

// harness/tests/data/threads.jsonl.xz: what users pasted, where, and the cause that the thread established.
TEST(Explain, RealThreads_GiveTheEstablishedCauses) { EXPECT_EQ(expect_answers("threads.jsonl.xz"), 655); }

// harness/tests/data/texts.jsonl.xz: invented texts, one or more of each kind.
TEST(Explain, EachKindOfText_GivesItsAnswer) { EXPECT_EQ(expect_answers("texts.jsonl.xz"), 440); }

// harness/tests/data/others.jsonl: threads without a failure of a capture or a graph. Seven are about graphs: those
// cannot be distinguished. An error that any program may have is named as such.
TEST(Explain, ThreadsOnSomethingElse_GiveNoCauseOfGraphs) {
  std::ifstream file(kRoot + "/harness/tests/data/others.jsonl");
  int texts = 0, on_graphs = 0;
  for (std::string line; std::getline(file, line); ++texts) {
    const Json one = Json::parse(line);
    const Explanation explanation = explained(one.at("text"));
    on_graphs += explanation.answer == Answer::CannotTell ? 1 : 0;
    EXPECT_THAT(explanation.answer, AnyOf(Answer::NotOne, Answer::CannotTell)) << one.at("url");
    EXPECT_THAT(ids(explanation, Role::Culprit), ::testing::Each(AnyOf("out_of_memory", "illegal_memory_access")))
        << one.at("url");
  }
  EXPECT_EQ(texts, 62);
  EXPECT_EQ(on_graphs, 7);
}

TEST(Explain, ErrorsOfAnotherKind_AreNoCaptureFailures) {
  for (const char* text :
       {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB; 30 GiB in private pools (e.g., CUDA "
        "Graphs)",
        "RuntimeError: CUDA error: an illegal memory access was encountered", "ValueError: not enough values to unpack",
        "RuntimeError: CUDA error: device-side assert triggered", "skipping cudagraphs due to mutated inputs",
        "Cuda error: operation not supported", "port 901 is in use", "epoch 900: loss 0.901"}) {
    const Explanation explanation = explained(text);
    EXPECT_EQ(explanation.answer, Answer::NotOne) << text << ": " << explanation.summary;
  }
}

TEST(Explain, ErrorWithoutACall_CannotBeExplained) {
  const Explanation explanation = explained(
      "RuntimeError: CUDA error: operation not permitted when stream is capturing\n"
      "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n");
  EXPECT_EQ(explanation.answer, Answer::CannotTell);
  EXPECT_THAT(ids(explanation, Role::Possible), only_the_error());
  EXPECT_THAT(ids(explanation), only_the_error());
  EXPECT_THAT(explanation.remedies, IsEmpty()) << "of an unknown call none is known";
  EXPECT_THAT(explanation.summary, HasSubstr("900"));
  EXPECT_THAT(explanation.summary, HasSubstr("recapture blame"));
}

// Its first words alone are those of 800.
TEST(Explain, ErrorThatATerminalWrapsOrALoggerCuts_StaysThatError) {
  const std::string rank = "[rank0]: torch.AcceleratorError: CUDA error: operation not permitted";
  for (const char* rest : {"\nwhen stream is capturing\n", " when stream is capt...\n"}) {
    const std::string text = rank + rest;
    const Explanation explanation = explained(text);
    EXPECT_EQ(explanation.answer, Answer::CannotTell) << text;
    EXPECT_THAT(explanation.summary, HasSubstr("CUDA error 900 ")) << text;
  }
}

TEST(Explain, MessageThatReportsNoFailure_ComesAfterOneThatDoes) {
  const std::string skipped = "skipping cudagraphs due to mutated inputs (2 instances)\n",
                    moved = "    assert dst.data_ptr() == src.data_ptr()\nAssertionError\n";
  EXPECT_EQ(explained(skipped).answer, Answer::NotOne);
  const Explanation both = explained(skipped + moved);
  EXPECT_EQ(both.answer, Answer::GraphFailure);
  EXPECT_EQ(ids(both).front(), "parameter_at_new_address");
  EXPECT_THAT(ids(both), Contains("mutated_input_without_graphs"));
}

TEST(Explain, CauseWithoutACase_ComesAfterItsCaseThatTheTextNamesToo) {
  const auto first = ids(explained("cuStreamSynchronize failed: operation not permitted when stream is capturing\n"));
  EXPECT_THAT(first, ElementsAre("stream_synchronize_in_capture", "host_wait_in_capture"));
}

TEST(Explain, ErrorOfItsOwnCause_NeedsNoWords) {
  for (const auto& [text, cause] : std::vector<std::pair<std::string, std::string>>{
           {"CUDA error 904", "side_stream_not_joined"},
           {"CUDA error 906", "default_stream_work_beside_blocking_capture"},
           {"CUDA error 907", "query_of_captured_event"},
           {"CUDA error 910", "e910_exec_update_failure"}}) {
    EXPECT_EQ(ids(explained(text), Role::Culprit).front(), cause) << text;
  }
  for (const char* text : {"CUDA error 900", "CUDA error 901"}) {
    EXPECT_THAT(ids(explained(text), Role::Culprit), IsEmpty()) << text;
    EXPECT_THAT(explained(text).remedies, IsEmpty()) << "of an unknown call no remedy is known";
  }
  EXPECT_THAT(ids(explained("CUDA error 900"), Role::Possible), only_the_error());
  EXPECT_THAT(ids(explained("CUDA error 901"), Role::Possible), ElementsAre("e901_invalidated"));
}

TEST(Explain, AnotherFailure_IsNamedWithItsLine) {
  const std::string config = "config: cudagraph_mode=FULL, cudagraph_capture_sizes=[1, 2], enforce_eager=False\n",
                    trace = "Traceback (most recent call last):\n  File \"load.py\", line 3, in load\n    open(p)\n",
                    error = "FileNotFoundError: [Errno 2] No such file or directory: 'm'\n";
  const Explanation explanation = explained(config + trace + error);
  EXPECT_EQ(explanation.answer, Answer::NotOne);
  EXPECT_THAT(explanation.summary, HasSubstr("another one in line 5: FileNotFoundError"));
  EXPECT_EQ(explained("Capturing CUDA graphs: 100%|####| 7/7\nGraph capturing finished in 3 secs\n").answer,
            Answer::NotOne);
  const std::string own = "  File \"torch/_inductor/cudagraph_trees.py\", line 3, in run\n    f(x)\n" + error;
  EXPECT_EQ(explained(own).answer, Answer::CannotTell) << "raised by code about graphs";
  EXPECT_EQ(
      explained("serve --cuda-graph-sizes 8 --tp 2\nCUDA error: an illegal memory access was encountered\n").answer,
      Answer::CannotTell)
      << "an error of a program with graphs";
}

TEST(Explain, DriverLogWithVictims_FirstCallIsTheCause) {
  const Explanation explanation = explained(
      "[CUDA][E] Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuEventSynchronize\n"
      "[CUDA][E] Returning 901 (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) from cuMemcpyDtoHAsync_v2\n"
      "[CUDA][E] Returning 901 (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) from cuStreamEndCapture\n");
  ASSERT_THAT(explanation.causes, Not(IsEmpty()));
  EXPECT_EQ(explanation.causes.front().id, "event_synchronize_in_capture");
  EXPECT_THAT(explanation.causes.front().evidence, HasSubstr("line 1: "));
  EXPECT_THAT(ids(explanation, Role::Victim), ElementsAre("e901_invalidated"));
}

TEST(Explain, ExceptionInTheCapture_IsTheCauseOfThe904) {
  const Explanation explanation = explained(
      "  File \"model.py\", line 12, in forward\nKeyError: 'mask'\n\n"
      "During handling of the above exception, another exception occurred:\n\n"
      "RuntimeError: CUDA error: capturing stream has unjoined work\n");
  ASSERT_THAT(explanation.causes, Not(IsEmpty()));
  EXPECT_EQ(explanation.causes.front().id, "exception_in_capture");
  EXPECT_THAT(explanation.causes.front().evidence, HasSubstr("KeyError"));
  EXPECT_THAT(ids(explanation, Role::Victim), ElementsAre("e904_unjoined"));
}

TEST(Explain, Error906_ListsThreadLocalModeAsUseless) {
  const Explanation explanation = explained(
      "loss.backward()\nCUDA error: operation would make the legacy stream depend on a capturing blocking stream");
  const auto useless = std::find_if(explanation.remedies.begin(), explanation.remedies.end(),
                                    [](const FixAdvice& remedy) { return remedy.useless; });
  ASSERT_NE(useless, explanation.remedies.end());
  EXPECT_THAT(useless->text, HasSubstr("thread_local"));
  EXPECT_EQ(useless->holds, false);
}

const std::string kError900 = "RuntimeError: CUDA error: operation not permitted when stream is capturing\n";

TEST(Explain, PackageListsAndStartupMessages_AreNoCause) {
  for (const std::string text :
       {"[pip3] numba-cuda==0.19\n[conda] torch.fft 1.0\ntorch.linalg==2.1\nrmm    25.2.0\n",
        "[Thread debugging using libthread_db enabled]\n[New Thread 0x7f00 (LWP 7)]\n",
        "Nvidia driver version: 535.129.03\nCUDA_MODULE_LOADING set to: LAZY\n",
        "INFO 07-15 00:26:20 [loader.py:34] the DataLoader has a pin memory thread\n",
        "torch.compile takes 12.30 s\nUsing FLASH_ATTN\ntriton, cusolver, cusparse, cufft and Inductor are there\n"}) {
    EXPECT_THAT(ids(explained(text + kError900)), only_the_error()) << text;
    EXPECT_THAT(ids(explained(kError900 + text)), only_the_error()) << text;
  }
}

TEST(Explain, NameFarFromTheError_IsIgnored) {
  const std::string name = "  y = x.cpu()\n", log = [] {
    std::string lines;
    for (int i = 0; i < 300; ++i) lines += "a line\n";
    return lines;
  }();
  EXPECT_THAT(ids(explained(name + log + kError900)), only_the_error());
  EXPECT_THAT(ids(explained(kError900 + log + name)), only_the_error());
  EXPECT_THAT(ids(explained(kError900 + log + name + kError900 + log)), ElementsAre("cpu_copy_in_capture"));
}

TEST(Explain, HintsAlone_GiveNoCause) {
  EXPECT_THAT(ids(explained("driver 535, a thread, a destructor, warmup\n" + kError900)), only_the_error());
  EXPECT_THAT(ids(explained("CUDA error: operation would make the legacy stream depend on a capturing blocking stream"),
                  Role::Culprit),
              ElementsAre("default_stream_work_beside_blocking_capture"));
}

TEST(Explain, GeneralCauseOf906_ComesAfterSpecificOnes) {
  const Explanation explanation = explained(
      "  Variable._execution_engine.run_backward(\n"
      "CUDA error: operation would make the legacy stream depend on a capturing blocking stream\n"
      "Search for `cudaErrorStreamCaptureImplicit' in the documentation\n");
  EXPECT_THAT(ids(explanation, Role::Culprit),
              ElementsAre("gradient_tape_on_default_stream", "first_use_on_default_stream_in_python",
                          "default_stream_work_beside_blocking_capture"));
}

TEST(Explain, AdviceInAMessage_IsNoEvidence) {
  EXPECT_THAT(
      ids(explained(kError900 + "Possible solutions:\n1. disable torch compile by not using --enable-torch-compile\n"
                                "2. disable cuda graph by --disable-cuda-graph\n"),
          Role::Culprit),
      IsEmpty());
  const std::string refused =
      "RuntimeError: Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is "
      "pinned. Please use tensor.pin_memory() or allocate the tensor with pin_memory=True.\n";
  EXPECT_THAT(ids(explained("static_x.copy_(batch)\n" + refused)), ElementsAre("pageable_copy_in_capture"));
  EXPECT_THAT(ids(explained("n = torch.tensor([3], device=x.device)\n" + refused)),
              ElementsAre("tensor_literal_in_capture", "pageable_copy_in_capture"));
}

TEST(Explain, CompiledFunction_IsACauseOnlyWhileItCompiles) {
  const std::string call = "  File \"torch/_dynamo/eval_frame.py\", line 832, in compile_wrapper\n";
  EXPECT_THAT(ids(explained(call + kError900)), only_the_error());
  EXPECT_THAT(
      ids(explained(call + "  File \"torch/_dynamo/convert_frame.py\", line 1, in _compile_inner\n" + kError900)),
      ElementsAre("compiled_function_in_python_capture"));
  EXPECT_THAT(ids(explained("TorchRuntimeError: torch.compile cannot JIT compile during CUDA graph capture.")),
              ElementsAre("compiled_function_in_python_capture"));
}

TEST(Explain, ChainedException_IsTheCauseOfTheErrorThatFollows) {
  const std::string missing = "ModuleNotFoundError: No module named 'x'\n",
                    trace = "Traceback (most recent call last):\n",
                    chain = "\nDuring handling of the above exception, another exception occurred:\n\n", far(20, '\n');
  const auto culprits = [](const std::string& text) { return ids(explained(text), Role::Culprit); };
  EXPECT_THAT(culprits(trace + missing + chain + trace + far + kError900), ElementsAre("exception_in_capture"));
  EXPECT_THAT(culprits(missing + trace + kError900), IsEmpty());
  EXPECT_THAT(culprits(missing + far + kError900), IsEmpty());
  EXPECT_THAT(culprits(trace + kError900 + chain + trace + missing + chain + trace + kError900), IsEmpty());
  EXPECT_THAT(culprits("RuntimeError: The following operation failed in the TorchScript interpreter.\n" + kError900),
              IsEmpty());
}

TEST(Explain, ExceptionWrappedByAFramework_IsTheCause) {
  const std::string failed = "Exception: Capture cuda graph failed: ";
  EXPECT_THAT(ids(explained("ValueError: no head_dim 96\n" + failed + "no head_dim 96")),
              ElementsAre("exception_in_capture"));
  EXPECT_THAT(ids(explained(failed + "no head_dim 96")), ElementsAre("exception_in_capture"));
  EXPECT_THAT(ids(explained(
                  "Traceback (most recent call last):\n  File \"a.py\", line 9, in forward\n    assert rows % 4 == 0\n"
                  "AssertionError\n\nDuring handling of the above exception, another exception occurred:\n\n"
                  "Traceback (most recent call last):\n  File \"b.py\", line 3, in capture\n    raise Exception(\n" +
                  failed)),
              ElementsAre("exception_in_capture"));
  EXPECT_THAT(ids(explained(failed + "NCCL error: unhandled cuda error")), ElementsAre("communicator_made_in_capture"));
  EXPECT_THAT(ids(explained(failed + "CUDA out of memory.")), ElementsAre("out_of_memory"));
}

TEST(Explain, ErrorAfterACaptureError_IsItsVictim) {
  const std::string reset =
      "[W CUDAGraph.cpp:197] Warning: CUDA warning: operation not permitted when stream is capturing (function "
      "reset)\n";
  const Explanation alone = explained(reset), after = explained("loss.item()\n" + kError900 + reset);
  EXPECT_THAT(ids(alone, Role::Culprit), ElementsAre("graph_destroyed_in_capture"));
  EXPECT_THAT(ids(after, Role::Culprit), ElementsAre("item_in_capture"));
  EXPECT_THAT(ids(after, Role::Victim), ElementsAre("graph_destroyed_in_capture"));
  const Explanation offset =
      explained(kError900 + "RuntimeError: Offset increment outside graph capture encountered unexpectedly.\n");
  EXPECT_EQ(offset.answer, Answer::CannotTell);
  EXPECT_THAT(ids(offset, Role::Victim), ElementsAre("random_numbers_after_failed_capture"));
}

TEST(Explain, CutError_IsReadToItsEnd) {
  const Explanation cut =
      explained("with torch.cuda.graph(g): in step 3\nRuntimeError: CUDA error: operation not permitt");
  EXPECT_THAT(ids(cut), only_the_error());
  EXPECT_EQ(explained("with torch.cuda.graph(g):\nRuntimeError: CUDA error: operation").answer, Answer::CannotTell)
      << "too short";
  EXPECT_THAT(ids(explained("in torch.cuda.graph(g): CUDA error: operation not permitted")),
              Not(Contains("e900_unsupported")))
      << "it is an 800";
}

TEST(Explain, LineOfAnError_CountsByItsForm) {
  EXPECT_THAT(
      ids(explained("RuntimeError: the fused path is unsupported during CUDA graph capture (rows=3)"), Role::Culprit),
      ElementsAre("library_refuses_capture"));
  EXPECT_THAT(ids(explained("we think that the fused path is unsupported during CUDA graph capture"), Role::Culprit),
              IsEmpty());
  const Explanation build =
      explained("cuda_graph.h(91): error: identifier \"cudaStreamCaptureModeRelaxed\" is undefined\n");
  EXPECT_EQ(build.answer, Answer::NotOne);
  EXPECT_THAT(build.summary, HasSubstr("does not compile"));
}

TEST(Explain, ErrorThatGraphsAloneHave_IsNotAnOther) {
  const std::string text =
      "  File \"sampler.py\", line 9, in f\n    y = pick(p)\nRuntimeError: probability is negative\n";
  EXPECT_EQ(explained(text).answer, Answer::NotOne);
  EXPECT_EQ(explained(text + "It does not occur with --enforce-eager.").answer, Answer::CannotTell);
}

TEST(Explain, CodeInProse_IsPossible) {
  const Explanation quoted = explained("mixed prefill fails in `int(seq_lens.max())`\n" + kError900);
  EXPECT_EQ(ids(quoted).front(), "item_in_capture");
}

TEST(Explain, CallMentionedWithoutAnError_IsOnlyPossible) {
  const auto culprits = [](const std::string& text) { return ids(explained(text), Role::Culprit); };
  const Explanation mentioned = explained("cuMemAlloc requested 20480 bytes\ncuMemAlloc: 0x7f\n\n" + kError900);
  EXPECT_THAT(ids(mentioned, Role::Possible),
              ElementsAre("raw_malloc_in_capture", "e900_unsupported", "item_in_capture"));
  EXPECT_EQ(mentioned.answer, Answer::CannotTell);
  for (const std::string text : {"cudaMalloc(20480 bytes) failed: operation not permitted when stream is capturing\n",
                                 "CUDA error: operation not permitted when stream is capturing\n  in function alloc at "
                                 "a.cu:1\n  cudaMalloc(&p, n)\n",
                                 "CUDA error: operation not permitted when stream is capturing\n\n\n\n#3 0x00007f in "
                                 "cudaMalloc () from lib\n"}) {
    EXPECT_THAT(culprits(text), ElementsAre("raw_malloc_in_capture")) << text;
  }
  EXPECT_THAT(culprits("cudaMalloc failed: operation failed due to a previous error during capture\n"), IsEmpty());
}

const std::string kInvalidated = "RuntimeError: CUDA error: operation failed due to a previous error during capture\n";

TEST(Explain, CallThatReturnsALone901_IsItsVictim) {
  const std::string trace = "Traceback (most recent call last):\n", call = "    dist.all_reduce(x)\n",
                    file = "  File \"x.py\", line 3, in f\n", pid = "(Worker pid=7) ERROR 07-15 core.py:9] ",
                    failure = "Cuda failure 901 'operation failed due to a previous error during capture'\n";
  for (const std::string& text :
       {trace + file + call + kInvalidated, file + call + kInvalidated, "dist.all_reduce(x)\n" + kInvalidated,
        pid + trace + pid + file + pid + call + pid + kInvalidated,
        "RuntimeError: NCCL error ncclUnhandledCudaError: " + failure,
        "RuntimeError: NCCL error ncclUnhandledCudaError: Call to CUDA function failed.\nNCCL WARN " + failure,
        trace + file + call +
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:333, unhandled cuda error\n"
            "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n" +
            failure,
        "host:7:8 [0] enqueue.cc:9 NCCL WARN " + failure + trace + file + call +
            "RuntimeError: NCCL error: unhandled cuda error, NCCL version 2.21.5\n",
        kInvalidated + "Exception raised from f at ProcessGroupNCCL.cpp:691 (most recent call first):\n"
                       "frame #5: at::native::_local_scalar_dense(at::Tensor const&) + 0x1b2\n"
                       "#3 0x00007f in cudaMalloc () from lib\n"}) {
    const Explanation explanation = explained(text);
    EXPECT_EQ(explanation.answer, Answer::CannotTell) << text << explanation.summary;
    EXPECT_THAT(ids(explanation), ElementsAre("e901_invalidated")) << text;
  }
}

TEST(Explain, CallApartFromThe901_IsTheCulprit) {
  const std::string trace = "Traceback (most recent call last):\n    dist.all_reduce(x)\n" + kInvalidated;
  const auto culprits = [](const std::string& text) { return ids(explained(text), Role::Culprit); };
  EXPECT_THAT(culprits("y = loss.item()\n\n" + trace), ElementsAre("item_in_capture"));
  EXPECT_THAT(culprits("frame #5: at::native::_local_scalar_dense(at::Tensor const&)\n\n" + kInvalidated),
              ElementsAre("item_in_capture"));
  EXPECT_THAT(culprits("[W] cudaHostRegister in KV offload\n[CUDA][E] Returning 901 from cuStreamEndCapture\n"),
              ElementsAre("host_register_in_other_thread"));
  EXPECT_THAT(culprits("ValueError: no such mask\n\nDuring handling of the above exception, another exception "
                       "occurred:\n\n" +
                       trace),
              ElementsAre("exception_in_capture"));
  EXPECT_THAT(culprits(kError900 + trace), ElementsAre("communicator_made_in_capture"))
      << "the 901 is not the only error";
}

TEST(Explain, ConsequenceOfAnError_ComesLast) {
  const std::string assertion =
      "RuntimeError: captures_underway.empty() INTERNAL ASSERT FAILED at \"CUDACachingAllocator.cpp\":2939\n";
  EXPECT_THAT(ids(explained("    torch.cuda.empty_cache()\n" + assertion)),
              ElementsAre("empty_cache_in_capture", "empty_cache_after_failed_capture"));
  EXPECT_THAT(ids(explained(assertion)), ElementsAre("empty_cache_after_failed_capture"));
}

TEST(Explain, NumberThatMayBeACudaError_IsNotRuledOut) {
  for (const std::string text :
       {"error 901", "error 904\n", "code 901", "status=905", "RuntimeError: error 901", "my program: error code: 906.",
        "901", "Traceback (most recent call last):\n\n\n\n\n\n\n  File \"torch/_ops.py\"\nRuntimeError: error 901"}) {
    const Explanation explanation = explained(text);
    EXPECT_EQ(explanation.answer, Answer::CannotTell) << text;
    EXPECT_THAT(explanation.summary, HasSubstr("cannot tell: if 90")) << text;
  }
  for (const std::string text : {"cudaError_t = 901", "x.cu:12: 901", "x.cu(12): 901\n", "cuda_util.cc\nerror 901"}) {
    const Explanation explanation = explained(text);
    EXPECT_EQ(explanation.answer, Answer::CannotTell) << text;
    EXPECT_THAT(explanation.summary, HasSubstr("CUDA error 901 (cudaErrorStreamCaptureInvalidated)")) << text;
  }
  EXPECT_THAT(ids(explained("cuda_util.cc\nerror 900\ny = loss.item()\n"), Role::Culprit),
              ElementsAre("item_in_capture"));
}

TEST(Explain, NumberOfSomethingElse_IsNoCaptureFailure) {
  const std::string log(20, '\n');
  for (const std::string& text :
       {std::string("HTTP status 900"), std::string("HTTPError: 907"), std::string("mysql: error code 907: locked"),
        std::string("  File \"a.py\", line 901, in f\nValueError: no"), std::string("x.cu:901: warning"),
        std::string("error 9010, error 905.5"), "the printer says error code 907" + log + "paper jam",
        std::string("CUDA error: out of memory\nerror 901")}) {
    const Explanation explanation = explained(text);
    EXPECT_EQ(explanation.answer, Answer::NotOne) << text << ": " << explanation.summary;
  }
}

TEST(Explain, PrintWithoutATensor_IsNoCause) {
  EXPECT_THAT(ids(explained("print(\"step\", step)\n" + kError900)), only_the_error());
  EXPECT_THAT(ids(explained("  File \"torch/_tensor_str.py\", line 138, in __init__\n" + kError900)),
              ElementsAre("print_in_capture"));
}

TEST(Explain, CallThatRaisesAnotherError_IsNoCause) {
  const Explanation explanation = explained("loss.backward()\nx.item()\n" + kError900);
  EXPECT_THAT(ids(explanation), ElementsAre("item_in_capture"));
  EXPECT_THAT(explanation.remedies, Not(IsEmpty()));
  for (const FixAdvice& remedy : explanation.remedies) EXPECT_THAT(remedy.text, Not(HasSubstr("906")));
}

TEST(Explain, OtherCudaErrors_AreNamedByNumberOrCause) {
  const Explanation launch = explained("CUDA error: unspecified launch failure"),
                    memory = explained("NCCL WARN Cuda failure 'out of memory'");
  EXPECT_THAT(launch.summary, HasSubstr("719"));
  EXPECT_THAT(ids(memory), ElementsAre("out_of_memory"));
  EXPECT_THAT(memory.remedies, Not(IsEmpty()));
}

TEST(Explain, MarkedLine_CountsAndItsNeighboursDoNot) {
  EXPECT_THAT(
      ids(explained("      9 y = x.cpu()\n---> 10 f1 = Tensor.item(t0)\n     11 y = x.nonzero()\n" + kError900)),
      ElementsAre("item_in_capture"));
  EXPECT_THAT(ids(explained("  File \"a.py\", line 5, in forward\n      y = x.cpu()\n      n = torch.ops.aten.item(x)\n"
                            "          ~~~~~~~~~~~~~~~~~~~ <--- HERE\n      z = x.nonzero()\n" +
                            kError900)),
              ElementsAre("item_in_capture"));
}

TEST(Explain, SpecificMessage_GivesItsCause) {
  for (const auto& [text, cause] : std::vector<std::pair<std::string, std::string>>{
           {"unique_by_key: failed to synchronize: " + kError900, "library_that_synchronises_in_capture"},
           {kError900 + "  DeviceSegmentedSort::SortPairs(a, b)\n", "library_that_synchronises_in_capture"},
           {"philox_cuda_state for an unexpected CUDA generator used during capture.", "unregistered_generator"},
           {"it->second->use_count > 0 INTERNAL ASSERT FAILED at \"CUDACachingAllocator.cpp\"",
            "pool_of_destroyed_graphs"},
           {"false INTERNAL ASSERT FAILED Unknown CUDA graph CaptureStatus21852", "capture_status_without_answer"}}) {
    EXPECT_THAT(ids(explained(text), Role::Culprit), ElementsAre(cause)) << text;
  }
  EXPECT_EQ(explained("Unknown CUDA graph CaptureStatus21852").answer, Answer::NotOne);
  EXPECT_THAT(ids(explained("g2.replay() leaves the output as it was")), IsEmpty());
}

// Calls that are rare in a driver's log, each with its own error.
TEST(Explain, RareCallInTheDriverLog_GivesItsCause) {
  for (const auto& [line, cause] : std::vector<std::pair<std::string, std::string>>{
           {"Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuStreamGetId", "callback_in_capture"},
           {"Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuGraphUpload", "graph_used_in_capture"},
           {"Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuCtxSetLimit", "device_setting_in_capture"},
           {"Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuProfilerStart", "device_setting_in_capture"},
           {"Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemPoolTrimTo", "raw_pool_call_in_capture"},
           {"Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemcpyBatchAsync", "copy_refused_in_capture"},
           {"Returning 906 (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) from cuStreamIsCapturing",
            "errors_that_break_nothing"}}) {
    const Explanation explanation = explained("[CUDA][E] " + line + "\n");
    ASSERT_THAT(explanation.causes, Not(IsEmpty())) << line;
    EXPECT_EQ(explanation.causes.front().id, cause) << line;
  }
}

TEST(Explain, DestroyedCublasHandle_AdvisesNoOtherCaptureMode) {
  const Explanation explanation = explained(
      "cublasDestroy(handle) in a worker thread\nCUDA error: operation not permitted when stream is capturing");
  ASSERT_THAT(explanation.causes, Not(IsEmpty()));
  EXPECT_EQ(explanation.causes.front().id, "cublas_handle_destroyed_in_other_thread");
  EXPECT_TRUE(std::any_of(explanation.remedies.begin(), explanation.remedies.end(), [](const FixAdvice& remedy) {
    return remedy.useless && remedy.text.find("Another capture mode") == 0;
  }));
  for (const FixAdvice& remedy : explanation.remedies) {
    if (remedy.cause == "cublas_handle_destroyed_in_other_thread" && !remedy.useless) {
      EXPECT_THAT(remedy.text, Not(HasSubstr("thread_local")));
    }
  }
}

TestVerdict fix_that_holds() {
  TestVerdict row;
  row.test = "item_in_capture.FixReadAfterReplay";
  row.case_id = "item_in_capture";
  row.kind = Kind::Fix;
  row.result = Result::Holds;
  return row;
}

TEST(Explain, RemedyOnRecord_IsMarkedAsHolding) {
  const TestVerdict fix = fix_that_holds();
  const std::string text = "loss.item()\nCUDA error: operation not permitted when stream is capturing";
  const Explanation explanation = explained(text, {fix});
  ASSERT_THAT(explanation.remedies, SizeIs(2));
  EXPECT_EQ(explanation.remedies[0].holds, true);
  EXPECT_EQ(explanation.remedies[1].holds, std::nullopt);
}

std::vector<std::string> remedies_of(const std::string& text, const std::vector<TestVerdict>& rows = {}) {
  std::vector<std::string> texts;
  for (const FixAdvice& one : explained(text, rows).remedies) texts.push_back(one.text);
  return texts;
}

// host_reads_in_python_capture is about copies, prints and branches.
TEST(Explain, CaseAboutSeveralCauses_GivesEachItsOwnRemedies) {
  const auto trace = [](const std::string& statement) {
    return "Traceback (most recent call last):\n  File \"m.py\", line 3, in f\n    " + statement + "\n" + kError900;
  };
  EXPECT_THAT(remedies_of(trace("print(hidden)")),
              ElementsAre("Print the tensor after graph.replay(), not inside the torch.cuda.graph block."));
  EXPECT_THAT(remedies_of(trace("if loss > 3:")).front(), HasSubstr("torch.where(condition, a, b)"));
  EXPECT_THAT(remedies_of(trace("if loss > 3:")), Not(Contains(HasSubstr("cpu()"))));
  EXPECT_THAT(remedies_of(trace("y = x.cpu()")), Not(Contains(HasSubstr("Print"))));
}

// The same fix, in C++ and in Python.
TEST(Explain, FixOfBothLanguages_IsOneRemedyUnlessOnlyTheOtherIsOnRecord) {
  const std::string trace =
      "Traceback (most recent call last):\n  File \"m.py\", line 3, in f\n    x.item()\n" + kError900;
  EXPECT_THAT(remedies_of(trace), SizeIs(2));
  EXPECT_THAT(remedies_of(trace), Contains(HasSubstr("outside the torch.cuda.graph block")));
  EXPECT_THAT(remedies_of(trace, {fix_that_holds()}),
              Contains("Call item() after graph.replay(), outside the capture."));
}

TEST(Explain, CauseWithTheRemediesOfOneAbove_IsNotPrintedAgain) {
  const std::string text =
      render_text(explained("Traceback (most recent call last):\n  File \"m.py\", line 3, in f\n    F.dropout(x)\n"
                            "RuntimeError: philox_cuda_state for an unexpected CUDA generator used during capture.\n"),
                  "");
  EXPECT_THAT(text, HasSubstr("culprit: unregistered_generator\n"));
  EXPECT_THAT(text, HasSubstr("the same text: unregistered_generator_in_python"));
  EXPECT_THAT(text, Not(HasSubstr("culprit: unregistered_generator_in_python")));
}

TEST(Explain, NoRecordWithTheRemedies_IsNoted) {
  const TestVerdict fix = fix_that_holds();
  const std::string text = "loss.item()\n" + kError900, note = "no record of 2.8.0 has these remedies";
  EXPECT_THAT(render_text(explained(text), "2.8.0"), HasSubstr("  " + note + "\n  try: Call item()"));
  EXPECT_THAT(render_text(explained(text, {fix}), "2.8.0"), Not(HasSubstr(note)));
  EXPECT_THAT(render_text(explained(text), ""), Not(HasSubstr("no record")));
}

TEST(Explain, RemedyThatFailsOnOneMachine_DoesNotHold) {
  TestVerdict holds;
  holds.test = "item_in_capture.FixReadAfterReplay";
  holds.case_id = "item_in_capture";
  holds.kind = Kind::Fix;
  holds.result = Result::Holds;
  TestVerdict broken = holds;
  broken.result = Result::Broken;
  const std::string text = "loss.item()\nCUDA error: operation not permitted when stream is capturing";
  EXPECT_EQ(explained(text, {holds, broken}).remedies.front().holds, false);
  EXPECT_EQ(explained(text, {broken, holds}).remedies.front().holds, false);
}

TEST(Explain, RecordThatSomebodySent_ChangesNoRemedy) {
  const SmallTree tree({"2.8.0/nvidia-h200.jsonl.gz"});
  const auto answer = [&] {
    return shell("printf 'loss.item()\\nCUDA error: operation not permitted when stream is capturing\\n' | " +
                 tree.command("explain --release 2.8.0"))
        .out;
  };
  const std::string before = answer(), fix = "item_in_capture.FixReadAfterReplay";
  const std::string text = record_text(kRoot + "/reports/2.8.0/nvidia-h200.jsonl.gz");
  for (const char* origin : {"somebody", ""}) {
    std::istringstream lines(text);
    std::ofstream sent(tree.reports + "/2.8.0/another.jsonl");
    for (std::string words; std::getline(lines, words);) {
      Json line = Json::parse(words);
      if (line.contains("recapture")) line.update({{"gpu", "Another"}, {"origin", origin}});
      if (line.value("test", "") == fix) line.update({{"code", 1}, {"ended", "failed"}});
      sent << line.dump() << "\n";
    }
    sent.close();
    EXPECT_EQ(answer() == before, *origin != '\0') << answer();
  }
}

TEST(Explain, ControlCharactersInALog_AreEscaped) {
  const Explanation explanation =
      explained("\x1b]52;c;x\x07 loss.item()\nCUDA error: operation not permitted when stream is capturing");
  EXPECT_THAT(explanation.causes.front().evidence, HasSubstr("\\x1b"));
  EXPECT_THAT(explanation.causes.front().evidence, Not(HasSubstr("\x1b")));
}

TEST(Explain, EachAnswerAndBadInput_HasItsExitCode) {
  const std::string program = "'" RECAPTURE_BUILD "/recapture' --root '" + kRoot + "' explain ";
  const std::tuple<std::string, int, std::string> table[] = {
      {"printf 'loss.item()\\nCUDA error: operation not permitted when stream is capturing\\n' | " + program, 0,
       "culprit: item_in_capture"},
      {"echo 'CUDA error: operation failed due to a previous error during capture' | " + program, 6,
       "e901_invalidated"},
      {"echo 'error 901' | " + program, 6, "if 901 is an error of CUDA's (cudaErrorStreamCaptureInvalidated)"},
      {"printf 'loss.item()\\nCUDA error: operation not permitted when stream is capturing\\n' | " + program +
           "--release 2.1.0",  // With records, but not in ci/matrix.toml.
       0, "no record of 2.1.0 has these remedies"},
      {program + "<'" + kRoot + "'", 2, "standard input cannot be read: Is a directory"},
      {program, 2, "there is no text"},
      {"echo 'CUDA error: operation not permitted when stream is capturing' | gzip | " + program, 2,
       "the input is packed by gzip (zcat unpacks it); explain reads only text"},
      {"printf '\\211PNG\\r\\n' | " + program, 2, "the input is a picture"},
      {program + "/nowhere/log", 2, "cannot read it"},
  };
  for (const auto& [line, code, words] : table) {
    const ShellResult said = shell(line);
    EXPECT_EQ(said.code, code) << line << "\n" << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << line;
  }
}

TEST(Explain, InterruptedWhileReading_ExitsWith130) {
  const std::string number = ::testing::TempDir() + "recapture-explain-" + std::to_string(getpid());
  FILE* program = popen(
      ("echo $$ >'" + number + "'; exec '" RECAPTURE_BUILD "/recapture' --root '" + kRoot + "' explain 2>/dev/null")
          .c_str(),
      "w");
  const std::string text(1 << 20, 'x');  // More than a pipe holds: after writing it, the program is reading.
  EXPECT_EQ(fwrite(text.data(), 1, text.size(), program), text.size());
  pid_t pid = 0;
  std::ifstream(number) >> pid;
  std::remove(number.c_str());
  ASSERT_GT(pid, 0);
  kill(pid, SIGTERM);
  const int status = pclose(program);  // The text ends after the signal.
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

const std::string kRead = "  File \"m.py\", line 3, in f\n    y = x.cpu()\n" + kError900;

std::string log_of(size_t bytes) {
  std::string log;
  for (int i = 0; log.size() < bytes; ++i) log += fmt::format("INFO step {} loss 0.901 in 900 ms, status 200\n", i);
  return log;
}

TEST(Explain, LongLog_IsExplainedWithItsOwnLineNumbers) {
  const std::string log = log_of(3 << 20);
  const auto lines = std::count(log.begin(), log.end(), '\n');
  const Explanation explanation = explained(log + kRead + log);
  ASSERT_THAT(ids(explanation), ElementsAre("cpu_copy_in_capture"));
  EXPECT_EQ(explanation.causes.front().evidence, fmt::format("line {}: y = x.cpu()", lines + 2));
}

TEST(Explain, LineWithoutAnEnd_IsReadInPieces) {
  const std::string far(3 << 20, 'x');
  const Explanation explanation =
      explained("head\n" + far + " y = x.cpu() " + kError900.substr(0, kError900.size() - 1) + " " + far);
  ASSERT_THAT(ids(explanation), ElementsAre("cpu_copy_in_capture"));
  EXPECT_THAT(explanation.causes.front().evidence, HasSubstr("line 2: "));
}

TEST(LogReader, LongLog_KeepsOnlyWhatStandsNearAnError) {
  LogReader reader;
  const std::string log = log_of(2 << 20);
  for (int i = 0; i < 10; ++i) reader.add(log);
  reader.add(kRead);
  const std::vector<LogLine> lines = reader.finish();
  EXPECT_THAT(lines.size(), ::testing::AllOf(::testing::Ge(200U), ::testing::Le(300U)));
  EXPECT_EQ(lines.back().number, static_cast<size_t>(10 * std::count(log.begin(), log.end(), '\n') + 3));
}

TEST(LogReader, ErrorsWithoutEnd_KeepALimit) {
  LogReader reader;
  for (int i = 0; i < 100000; ++i) reader.add(kRead);
  size_t bytes = 0;
  for (const LogLine& line : reader.finish()) bytes += line.text.size();
  EXPECT_THAT(bytes, ::testing::AllOf(::testing::Ge(kMostKept / 2), ::testing::Le(2 * kMostKept)));
}

TEST(LogReader, OtherEncodings_AreReadAsText) {
  const auto lines_of = [](std::string_view text, size_t piece) {
    LogReader reader;
    for (size_t at = 0; at < text.size(); at += piece) reader.add(text.substr(at, piece));
    std::string lines;
    for (const LogLine& line : reader.finish()) lines += fmt::format("{}:{}|", line.number, line.text);
    return lines;
  };
  using namespace std::string_literals;
  for (const size_t piece : {1, 3, 100}) {
    EXPECT_EQ(lines_of("\xff\xfe"
                       "a\0\n\0\xe9\0"s,
                       piece),
              "1:a|2:\xc3\xa9|")
        << "UTF-16, little end first";
    EXPECT_EQ(lines_of("\xfe\xff"
                       "\0a\0\n\0b"s,
                       piece),
              "1:a|2:b|");
    EXPECT_EQ(lines_of("a\0b\0c\0"s, piece), "1:abc|") << "without a mark";
    EXPECT_EQ(lines_of("\xff\xfe"
                       "\x3d\xd8\x00\xde"
                       "\x3d\xd8"
                       "x\0"s,
                       piece),
              "1:\xf0\x9f\x98\x80\xef\xbf\xbdx|")
        << "a pair, and half of one";
    EXPECT_EQ(lines_of("\xef\xbb\xbf"
                       "a",
                       piece),
              "1:a|");
    EXPECT_EQ(lines_of("\x1b[31mred\x1b[0m text", 100), "1:red text|");
    EXPECT_EQ(lines_of("10%\r20%\r\nnext\n", 100), "1:10%|1:20%|2:next|");
    EXPECT_EQ(lines_of("{\"m\": \"a\\nb \\\"c\\\"\"}\nC:\\new\n", 100), "1:{\"m\": \"a|1:b \"c\"\"}|2:C:\\new|");
    EXPECT_EQ(lines_of("", piece), "");
  }
}

TEST(Explain, WordsOnAReplay_ArePossibleAlone) {
  const Explanation explanation = explained("The block table is stale in each CUDA graph replay of a longer batch.");
  EXPECT_EQ(explanation.answer, Answer::CannotTell);
  EXPECT_THAT(ids(explanation, Role::Possible), ::testing::Contains("host_logic_frozen"));
  EXPECT_THAT(ids(explained("The block table is copied before each CUDA graph replay.")), IsEmpty());
  const Explanation capture = explained("The block table is stale in each CUDA graph replay.\n" + kError900);
  EXPECT_THAT(ids(capture), Not(::testing::Contains("host_logic_frozen"))) << "a capture failed";
}

// github.com/ggml-org/llama.cpp/issues/12420: the same loop occurs without CUDA graphs.
// An illegal access in a replay: the words around it are not those of a capture.
TEST(Explain, ErrorOfAReplay_HasNoCauseOfCaptures) {
  const Explanation explanation = explained(
      "  File \"/src/vllm/v1/spec_decode/gemma4.py\", line 105, in _greedy_sample\n"
      "    self._centroids_graphs[size].replay()\n"
      "  File \"/lib/site-packages/torch/cuda/graphs.py\", line 139, in replay\n    super().replay()\n"
      "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n");
  EXPECT_EQ(explanation.answer, Answer::CannotTell);
  EXPECT_THAT(ids(explanation), Contains("input_freed_after_capture"));
  EXPECT_THAT(ids(explanation), Not(Contains(AnyOf("nothing_captured", "communicator_made_in_capture"))));
}

TEST(Explain, UpdateThatFailedInALog_IsNoClaim) {
  const Explanation explanation = explained(
      "llama.cpp occasionally hangs during the execution of `update_cuda_graph_executable` and repeatedly logs \"CUDA "
      "graph update failed\".\nIf I switch OFF cuda graph, then I get occasionally this with the same endless loop:\n"
      "ggml_backend_sched_alloc_splits: failed to allocate graph, reserving (backend_ids_changed = 1)");
  EXPECT_EQ(explanation.answer, Answer::CannotTell);
  EXPECT_THAT(ids(explanation, Role::Culprit), IsEmpty());
}

TEST(Explain, WordsAlone_AreAGuessWithQuestions) {
  const Explanation capture = explained("Another thread calls cudaMalloc, which breaks the graph capture.");
  EXPECT_EQ(capture.answer, Answer::CaptureFailure);
  EXPECT_THAT(ids(capture), ::testing::Contains("call_of_another_thread"));
  EXPECT_THAT(ids(capture, Role::Culprit), IsEmpty());
  EXPECT_THAT(capture.summary, HasSubstr("a capture failure, guessed from words alone: "));
  const Explanation replay = explained("The learning rate is baked into the graph, so each replay has the first one.");
  EXPECT_EQ(replay.answer, Answer::GraphFailure);
  EXPECT_THAT(replay.summary, HasSubstr("a failure of a captured graph, guessed from words alone: "));
  EXPECT_THAT(ids(explained("empty_cache() broke my graph capture"), Role::Culprit), IsEmpty());
  EXPECT_EQ(capture.guessed_from, Complaint::Capture);
  EXPECT_EQ(replay.guessed_from, Complaint::Replay);
  EXPECT_EQ(explained("With CUDA graphs on two GPUs the training hangs in a replay.").guessed_from, Complaint::Hang);
  EXPECT_THAT(report::render_text(replay, ""), ::testing::ContainsRegex("\n  3\\. .*`recapture check MODULE:STEP`"));
  EXPECT_EQ(report::render_json(replay, "").at("questions").size(), 3U);
  // A message of CUDA's is no guess, even if the cause stays open.
  const Explanation printed = explained("CUDA error: operation failed due to a previous error during capture");
  EXPECT_EQ(printed.guessed_from, std::nullopt);
  EXPECT_TRUE(report::render_json(printed, "").at("questions").empty());
}

TEST(Explain, TracebackBelowA901_IsThatOfAVictim) {
  EXPECT_THAT(ids(explained("RuntimeError: CUDA error: operation failed due to a previous error during capture\n"
                            "File site-packages/torch/cuda/graphs.py:364, in make_graphed_callables\n"
                            "    363 with torch.cuda.graph(bwd_graph, pool=mempool):\n"
                            "--> 364     grad_inputs = torch.autograd.grad(\n"),
                  Role::Culprit),
              IsEmpty());
}

TEST(Explain, FirstRefusedCall_ComesBeforeThoseThatFollow) {
  const std::string refused = "CUDA failure 900: operation not permitted when stream is capturing ; expr=";
  EXPECT_EQ(
      ids(explained(refused + "cudaGraphLaunch(exec, stream);\n" + refused + "cudaGraphExecDestroy(exec);\n")).front(),
      "graph_used_in_capture");
  EXPECT_EQ(
      ids(explained(refused + "cudaGraphExecDestroy(exec);\n" + refused + "cudaGraphLaunch(exec, stream);\n")).front(),
      "graph_destroyed_in_capture");
}

TEST(Explain, TextInChinese_IsReadByItsWords) {
  EXPECT_THAT(ids(explained("CUDA Graph 重放时输入被重新分配, 图读到失效的地址")),
              ::testing::Contains("input_rebound"));
  EXPECT_THAT(ids(explained("CUDA Graph 捕获失败: 另一个多线程 cudaMalloc")),
              ::testing::Contains("raw_malloc_in_capture"));
}

// Other users' words for a cause count if there is no better evidence.
TEST(Terms, TextWithoutAPattern_HasThePossibleCausesOfItsWords) {
  std::vector<Cause> causes(2);
  causes[0].id = "grown", causes[0].scope = explain::Scope::Graph;
  causes[1].id = "other", causes[1].scope = explain::Scope::Graph;
  const Terms terms = explain::weigh_terms(causes, {},
                                           {{"grown", "workspace enlarged replay scratch moved"},
                                            {"grown", "workspace enlarged replay buffer scratch moved"},
                                            {"other", "seed repeats replay generator"},
                                            {"other", "seed repeats replay generator dropout"}});
  for (Cause& cause : causes) cause.terms = terms.at(cause.id);
  EXPECT_EQ(causes[0].terms.count("replay"), 0U) << "each cause has it";
  EXPECT_EQ(causes[0].terms.count("buffer"), 0U) << "one text has it";
  const auto guess = [&](const std::string& text) { return explain::find_causes(parse_error_text(text), causes); };
  const std::string words = "An enlarged scratch moved, so the workspaces of my CUDA graph are ";
  const Explanation explanation = guess(words + "wrong");
  EXPECT_THAT(ids(explanation), ElementsAre("grown"));
  EXPECT_THAT(ids(explanation, Role::Culprit), IsEmpty());
  EXPECT_EQ(explanation.answer, Answer::CannotTell);
  EXPECT_THAT(ids(guess(words + "never written")), ElementsAre("grown")) << "a complaint without a word for wrong";
  EXPECT_THAT(ids(guess(words + "quick")), IsEmpty()) << "nothing is wrong";
  EXPECT_THAT(ids(guess("An enlarged scratch moved, so the workspaces of my program are wrong")), IsEmpty())
      << "not on graphs";
  EXPECT_THAT(ids(guess(words + "wrong\n" + kError900)), IsEmpty()) << "an error weighs more";
}

TEST(Terms, ExampleCountsForLess_ForTheCausesThatItNamesBesideItsOwn) {
  std::vector<Cause> causes(3);
  causes[0].id = "own", causes[1].id = "second", causes[2].id = "third";
  const Terms terms = explain::weigh_terms(causes, {},
                                           {{"own", "workspace enlarged", "", {"second", "unknown"}},
                                            {"own", "workspace enlarged", "", {"second"}},
                                            {"second", "scratch moved"},
                                            {"second", "scratch moved"}});
  EXPECT_GT(terms.at("own").at("workspac"), terms.at("second").at("workspac"));
  EXPECT_EQ(terms.count("third"), 0U);
  EXPECT_EQ(terms.count("unknown"), 0U) << "no cause of that name";
}

TEST(Terms, Word_IsReadWithoutItsEnding) {
  EXPECT_THAT(explain::terms_of("Replays REPLAYED, page_table 12 of a"),
              ElementsAre("page", "page_tabl", "replay", "tabl"));
}

TEST(Terms, Table_IsReadAsItIsWritten) {
  const std::string root = ::testing::TempDir() + "recapture-terms-" + std::to_string(getpid());
  std::filesystem::create_directories(root + "/cases");
  EXPECT_THAT(explain::read_terms(root), IsEmpty()) << "there is no table";
  const Terms terms = {{"a", {{"replay", 12}, {"stream", 30}}}, {"b", {{"seed", 1}}}};
  const std::string path = root + "/cases/terms.tsv.xz";
  std::ofstream(path) << packed_by_xz(explain::render_terms(terms));
  EXPECT_EQ(explain::read_terms(root), terms);
  for (const char* wrong : {"a\treplay", "a\treplay:", "a\treplay:x", "a\treplay:-1", "a\treplay:1x seed:2"}) {
    std::ofstream(path) << packed_by_xz(std::string(wrong) + "\n");
    try {
      explain::read_terms(root);
      ADD_FAILURE() << wrong;
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage);
      EXPECT_THAT(stop.what(),
                  AllOf(HasSubstr("terms.tsv.xz:1: 'replay"), HasSubstr("' is not a term with a weight such as")));
    }
  }
  std::filesystem::remove_all(root);
}

TEST(Terms, ExampleWithoutItsTexts_IsRefusedWithItsLine) {
  const std::string path = ::testing::TempDir() + "recapture-examples-" + std::to_string(getpid());
  const std::string good = R"({"cause":"a","text":"It fails.","url":"u"})";
  for (const char* wrong : {"{", "[]", R"({"cause":"a"})", R"({"cause":1,"text":"b"})", R"({"cause":"a","text":2})",
                            R"({"cause":"a","cause":"b","text":"c"})"}) {
    std::ofstream(path) << packed_by_xz(good + "\n" + wrong + "\n");
    try {
      explain::read_examples(path);
      ADD_FAILURE() << wrong;
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage);
      EXPECT_THAT(stop.what(), HasSubstr(":2: no object with a cause and a text"));
    }
  }
  std::ofstream(path) << packed_by_xz(good + "\n" + R"({"cause":"","text":"Of no cause."})" + "\n");
  const auto examples = explain::read_examples(path);
  ASSERT_EQ(examples.size(), 1U);
  EXPECT_EQ(examples[0].text, "It fails.");
  std::filesystem::remove(path);
}

// `recapture dev tables terms` makes it from the threads.
TEST(Terms, CommittedTable_IsThatOfTheThreads) {
  const auto examples = explain::read_examples(kRoot + "/harness/tests/data/threads.jsonl.xz");
  EXPECT_GT(examples.size(), 300U);
  const Terms made = explain::weigh_terms(read_causes(kRoot, catalogue()), catalogue(), examples);
  EXPECT_EQ(explain::read_terms(kRoot), made) << "build/recapture dev tables terms | xz -9e > cases/terms.tsv.xz";
}

TEST(Explain, TextOfHip_HasNoRecord) {
  const std::string text = "loss.item()\nHIP error: operation not permitted when stream is capturing\n";
  const Explanation explanation = explained(text, {fix_that_holds()});
  EXPECT_TRUE(explanation.is_hip);
  ASSERT_THAT(explanation.remedies, Not(IsEmpty()));
  for (const FixAdvice& remedy : explanation.remedies) EXPECT_EQ(remedy.holds, std::nullopt) << remedy.text;
  EXPECT_THAT(explained("HIP error: operation not permitted when stream is capturing").summary,
              HasSubstr("HIP error 900 (hipErrorStreamCaptureUnsupported)"));
  EXPECT_THAT(ids(explained("hipErrorStreamCaptureUnsupported returned from hipModuleUnload")),
              ElementsAre("module_unloaded_in_capture"));
}

TEST(Explain, TextOfAnotherVendor_HasNoRecord) {
  const std::string text = "x.item()\nRuntimeError: NPU function error: aclrtMemcpy, error code is 107030\n";
  const Explanation explanation = explained(text, {fix_that_holds()});
  ASSERT_THAT(explanation.remedies, Not(IsEmpty()));
  for (const FixAdvice& remedy : explanation.remedies) EXPECT_EQ(remedy.holds, std::nullopt) << remedy.text;
}

TEST(Explain, Release_ChangesRemediesAlone) {
  const std::string text = "loss.item()\n" + kError900;
  Json without = render_json(explained(text)), with = render_json(explained(text, {fix_that_holds()}), "2.11.0");
  EXPECT_NE(without, with);
  for (Json* one : {&without, &with}) {
    one->erase("remedies");
    one->erase("release");
  }
  EXPECT_EQ(without, with);
}

TEST(Explain, ReleaseAndProgram_AreReadFromTheText) {
  const auto release = [](const std::string& text) { return parse_error_text(text).release; };
  EXPECT_EQ(release("PyTorch version: 2.9.1+cu128"), "2.9.1");
  EXPECT_EQ(release("[pip3] torch==2.7.1"), "2.7.1");
  EXPECT_EQ(release("torch                       2.8.0+cu126      pypi_0"), "2.8.0");
  EXPECT_EQ(release("torchvision==0.20.0\ntorch-geometric 2.6.1\nPython version: 3.10.12"), "");
  const std::string trace =
      "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n    main()\n" + kRead;
  EXPECT_EQ(parse_error_text(trace).script, "train.py");
  EXPECT_THAT(render_text(explained(trace), ""), HasSubstr("recapture blame -- python train.py\n"));
  const std::string cut = "  File \"layers/moe.py\", line 9, in forward\n    main()\n" + kRead;
  EXPECT_EQ(parse_error_text(cut).script, "") << "it begins below the program";
  EXPECT_EQ(
      parse_error_text("  File \"/usr/lib/python3/dist-packages/x.py\", line 1, in f\n    g()\n" + kError900).script,
      "");
}

// By the failed statement, else by the outermost operator of the stack, else by the message.
TEST(Explain, TextOfAnOperator_NamesIt) {
  const std::vector<Operator> operators = {{"linalg.inv", "torch.linalg.inv"},
                                           {"nonzero", "torch.nonzero"},
                                           {"item", "torch.Tensor.item"},
                                           {"masked_select", "torch.masked_select"}};
  const auto names = [&](const std::string& text) {
    const ErrorText parsed = parse_error_text(text);
    std::vector<std::string> all;
    for (const Operator* one : named_operators(parsed, explained(text), operators)) {
      all.push_back(one->name);
    }
    return all;
  };
  const auto trace = [](const std::string& statement) {
    return "Traceback (most recent call last):\n  File \"train.py\", line 9, in step\n    " + statement + "\n" +
           kError900;
  };
  EXPECT_THAT(names(trace("y = torch.linalg.inv(a)")), ElementsAre("linalg.inv"));
  EXPECT_THAT(names(trace("i = (x > 0).nonzero()")), ElementsAre("nonzero"));
  EXPECT_THAT(names(trace("y = model(a)")), IsEmpty());
  EXPECT_THAT(names(kError900 + "frame #4: at::_ops::item::call(at::Tensor const&)\n"
                                "frame #9: at::_ops::linalg_inv::call(at::Tensor const&)\n"),
              ElementsAre("linalg.inv"));
  EXPECT_THAT(names(kError900 + "data dependent operator: aten.masked_select.default\n"), ElementsAre("masked_select"));
  EXPECT_THAT(names("ValueError: aten.masked_select.default\n"), IsEmpty()) << "no capture failed";
}

// docs/reference/explain-json.md
TEST(Explain, Json_HasTheMembersOfItsSchema) {
  const Json json = render_json(explained("loss.item()\n" + kError900));
  const auto keys = [](const Json& object) {
    std::vector<std::string> all;
    for (const auto& [key, value] : object.items()) all.push_back(key);
    std::sort(all.begin(), all.end());
    return all;
  };
  EXPECT_THAT(keys(json), ElementsAre("answer", "causes", "guess", "operators", "platform", "questions", "release",
                                      "remedies", "schema", "summary"));
  EXPECT_THAT(keys(json.at("causes").at(0)),
              ElementsAre("also", "evidence", "has_case", "id", "link", "role", "simulated", "title", "why"));
  EXPECT_THAT(keys(json.at("remedies").at(0)), ElementsAre("cause", "holds", "price", "text", "useless"));
  EXPECT_EQ(json.at("schema"), 1);
}

TEST(Pasted, ErrorInAText_IsFoundByNumberNameOrMessage) {
  const auto codes = [](const std::string& text) {
    std::vector<int> all;
    for (const NamedError& error : parse_error_text(text).errors) all.push_back(error.code);
    return all;
  };
  EXPECT_THAT(codes("CUDA_ERROR_UNKNOWN (code: 901) in a graph capture"), ElementsAre(999, 901));
  EXPECT_THAT(codes("hipErrorStreamCaptureUnsupported"), ElementsAre(900));
  EXPECT_THAT(codes("Warp CUDA error 905: dependency created on uncaptured work in another stream"), ElementsAre(905));
  EXPECT_THAT(codes("Invalid capture."), ElementsAre(901));
  EXPECT_THAT(codes("musaErrorStreamCaptureUnjoined"), ElementsAre(904));
  EXPECT_THAT(codes("aclrtSynchronizeStream, error code is 107027"), ElementsAre(900));
  EXPECT_THAT(codes("rtStreamEndCapture: a stream that was not joined to the original stream"), ElementsAre(904));
  EXPECT_THAT(codes("step 107027 of 200000"), IsEmpty());
  EXPECT_THAT(codes("cudaError_t = 901"), ElementsAre(901));
  EXPECT_THAT(codes("x.cu:12: 901"), ElementsAre(901));
  EXPECT_THAT(codes("error 901"), IsEmpty());
  EXPECT_THAT(codes("cudaErrorInvalidValueOfMine"), IsEmpty());
  EXPECT_THAT(codes("took 901 ms"), IsEmpty());
  EXPECT_THAT(codes(std::string("\0\xff\n\n901", 6)), IsEmpty());
}

TEST(Pasted, CueWithoutAStar_MatchesFullWordsOnly) {
  const ErrorText text = parse_error_text("one\ncapturing\ncudaMallocHost\n");
  EXPECT_EQ(find_evidence(text, "captur"), 0U);
  EXPECT_EQ(find_evidence(text, "captur*"), 2U);
  EXPECT_EQ(find_evidence(text, "cudaMalloc"), 0U);
  EXPECT_EQ(find_evidence(text, "cudaMalloc* + captur*"), 3U);
  EXPECT_EQ(find_evidence(text, "*"), 0U);
}

TEST(Causes, MalformedOrUselessEntry_IsRefused) {
  const std::string root = ::testing::TempDir() + "recapture-causes-" + std::to_string(getpid());
  std::filesystem::create_directories(root + "/cases");
  const std::string cause = "[[cause]]\nid='c'\ntitle='t'\nfixes=['f']\n";
  const std::pair<std::string, std::string> table[] = {
      {"", "has no [[cause]]"},
      {"cause = [5]\n", "a cause is a table"},
      {cause, "nothing can speak for it"},
      {"[[cause]]\nid='c'\ntitle='t'\nsays=['s']\n", "no case of that id"},
      {cause + "says=['s']\n" + cause + "says=['s']\n", "'c' is there twice"},
      {cause + "says=['g2 + g2']\n", "the parts of 'g2 + g2' are searched one by one"},
      {cause + "says=['capture + Capture']\n", "let them differ"},
      {cause + "names=['capture + 401']\n", "of 4 letters or more"},
      {cause + "codes=[906]\nsays=['s']\nhints=['legacy stream']\n", "stands in the text of error 906 itself"},
      {cause + "scope='replay'\nsays=['s']\n", "'scope' is capture, graph or other, not 'replay'"},
      {cause + "statements=['x(?=y)']\n", "'x(?=y)' in 'statements': invalid perl operator"},
      {cause + "symptoms=['(']\n", "'(' in 'symptoms': missing )"},
      {cause + "says=['s']\nalso=['nowhere']\n", "'nowhere' in 'also' is not a case"},
      {cause + "says=['s']\nalso=['item_in_capture']\nalso_fixes=['FixNone']\n",
       "no case in 'also' has the fix 'FixNone'"},
  };
  for (const auto& [text, words] : table) {
    std::ofstream(root + "/cases/diagnoses.toml") << text;
    try {
      read_causes(root, catalogue());
      ADD_FAILURE() << text;
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage) << text;
      EXPECT_THAT(stop.what(), HasSubstr(words));
    }
  }
  std::filesystem::remove_all(root);
}

// By a cause, beside one, as the victim of every capture error, or with the reason why no text names it.
TEST(Causes, EachCase_IsNamedOrHasAReason) {
  std::set<std::string> named = {"e901_invalidated", "e904_unjoined"};
  for (const Cause& cause : read_causes(kRoot, catalogue())) {
    named.insert(cause.id);
    named.insert(cause.also.begin(), cause.also.end());
  }
  const auto unnamed = read_unnamed(kRoot, catalogue());
  for (const CatalogueCase& one : catalogue()) {
    const auto reason = unnamed.find(one.id);
    EXPECT_NE(named.count(one.id) != 0, reason != unnamed.end())
        << one.id
        << " belongs in cases/diagnoses.toml: as a [[cause]], in an 'also', or below [[unnamed]]; in one of them";
    EXPECT_TRUE(reason == unnamed.end() || !reason->second.empty()) << one.id;
  }
  EXPECT_LT(unnamed.size(), 16U);
}

TEST(Causes, WithoutACase_SayWhy) {
  for (const Cause& cause : read_causes(kRoot, catalogue())) {
    EXPECT_EQ(cause.no_case.empty(), cause.has_case || !cause.also.empty()) << cause.id;
  }
}

TEST(Causes, EachCue_IsFoundInItsOwnText) {
  for (const Cause& cause : read_causes(kRoot, catalogue())) {
    for (const auto* cues : {&cause.says, &cause.calls, &cause.names, &cause.hints}) {
      for (const std::string& cue : *cues) {
        std::string text = cue;
        for (size_t at = text.find(" + "); at != std::string::npos; at = text.find(" + ")) text.replace(at, 3, "\n");
        EXPECT_NE(find_evidence(parse_error_text(text), cue), 0U) << cause.id << ": " << cue;
      }
    }
  }
}

}  // namespace
}  // namespace recapture

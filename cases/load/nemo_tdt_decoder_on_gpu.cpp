// NeMo's own TDT decoder breaks torch.load for CUDA tensors the first time that it decodes with CUDA graphs.
//
// This is the report's path from the label-looping decoder on. All of it is the released code, which compiles the
// conditions of its two loops, captures them as nodes of one graph, and replays it. Only its networks are random and
// small, and its caller, transcribe(), is left out. The compilation before the capture breaks torch.load. `ci/nemo
// 2.6.0` and `ci/nemo 2.7.0` fetch what this needs.
//
// Alone:  g++ cases/load/nemo_tdt_decoder_on_gpu.cpp $(tools/libtorch --flags) -o nemo_tdt_decoder_on_gpu

#include "fixtures/cuda/capture.h"
#include "fixtures/python/nemo_decoder.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "NeMo's released TDT decoder breaks torch.load the first time that it decodes with CUDA graphs",
    .sources = {{"load corruption", "Describe the bug"},
                {"load corruption", "Key diagnostic findings"},
                {"load corruption", "Steps/Code to reproduce bug"},
                {"load corruption", "Additional context"},
                {"CUDA compatibility", "Minor Version Compatibility"}},
    .documented = "TypeError: 'str' object is not callable (CUDA tensors)",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.load", "runtime compilation", "conditional nodes", "NeMo"},
    .features = {"torch.load", "NeMo"},
    .needs = "gpu python nemo",
    .deadline_s = 120,
    .fixes = {{"FixDisableCudaGraphs2_6",
               "Call disable_cuda_graphs() on the model's decoding computer before the first transcribe()."},
              {"FixDisableCudaGraphs2_7",
               "Call model.decoding.decoding.decoding_computer.disable_cuda_graphs() before the first transcribe()."}},
};

class NemoTdtDecoderOnGpu : public NemoDecoderTest {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
    NemoDecoderTest::SetUp();
  }

  // Decodes once, with graphs or after disable_cuda_graphs(), and evaluates `shown`.
  std::string decoded(const std::string& graphs, const std::string& shown) {
    return python(R"py(
import sys, traceback
import torch
from decoding import *
decoder, calls = computer("cuda"), []
run_nvrtc = tdt.run_nvrtc
def noted(*arguments):
    calls.append([f.name for f in traceback.extract_stack()][-6:-1])
    return run_nvrtc(*arguments)
tdt.run_nvrtc = noted
assert decoder.cuda_graphs_mode.value == "full_graph", decoder.cuda_graphs_mode
if not graphs:
    assert decoder.disable_cuda_graphs()
touched = []
def profile(frame, event, argument):
    name = frame.f_code.co_filename if event == "call" else getattr(argument, "__module__", None) or ""
    if event in ("call", "c_call") and ("pickle" in name or "serialization" in name):
        touched.append(name)
sys.setprofile(profile)
said = decode(decoder, "cuda")
sys.setprofile(None)
torch.cuda.synchronize()
seen = eval(shown)
)py",
                  {{"graphs", graphs}, {"shown", shown}});
  }
};

constexpr char kLoads[] = "'; '.join(load(count, 'cuda') for count in (3, 10))";
constexpr char kIntact[] = "intact; intact";
constexpr char kBroken[] = "intact; TypeError: 'str' object is not callable";

TEST_F(NemoTdtDecoderOnGpu, Control) {
  if (!load("2.6.0")) return;
  EXPECT_EQ(decoded("", kLoads), kIntact);
}

// The graph with its two loops decodes what PyTorch's loops decode, at the first replay and at the next.
TEST_F(NemoTdtDecoderOnGpu, ControlDecodesAlike) {
  if (!load("2.6.0")) return;
  EXPECT_EQ(decoded("yes", "[said == decode(computer('cpu'), 'cpu'), said == decode(decoder, 'cuda'), said[0] != []]"),
            "[True, True, True]");
}

TEST_F(NemoTdtDecoderOnGpu, ControlTouchesNoPickle) {
  if (!load("2.6.0")) return;
  EXPECT_EQ(decoded("yes", "touched"), "[]");
}

TEST_F(NemoTdtDecoderOnGpu, Reproduces2_6) {
  if (!load("2.6.0")) return;
  std::string graphs;
  TRIGGER(graphs = "yes");
  REPRODUCES(decoded(graphs, kLoads), kBroken, kIntact);
}

TEST_F(NemoTdtDecoderOnGpu, Reproduces2_7) {
  if (!load("2.7.0")) return;
  std::string graphs;
  TRIGGER(graphs = "yes");
  REPRODUCES(decoded(graphs, kLoads), kBroken, kIntact);
}

// Up to three CUDA tensors load; four and more do not.
TEST_F(NemoTdtDecoderOnGpu, ReproducesFromFourTensorsOn) {
  if (!load("2.6.0")) return;
  std::string graphs;
  TRIGGER(graphs = "yes");
  REPRODUCES(decoded(graphs, "[count for count in range(1, 11) if load(count, 'cuda') != 'intact']"),
             "[4, 5, 6, 7, 8, 9, 10]", "[]");
}

TEST_F(NemoTdtDecoderOnGpu, ReproducesOnThePath) {
  if (!load("2.6.0")) return;
  std::string graphs;
  TRIGGER(graphs = "yes");
  REPRODUCES(decoded(graphs, "'; '.join(' > '.join(names) for names in calls)"),
             "__call__ > cuda_graphs_impl > _graph_reinitialize > _full_graph_compile > "
             "_create_outer_while_loop_kernel; __call__ > cuda_graphs_impl > _graph_reinitialize > "
             "_full_graph_compile > _create_inner_while_loop_kernel",
             "");
}

TEST_F(NemoTdtDecoderOnGpu, FixDisableCudaGraphs2_6) {
  if (!load("2.6.0")) return;
  std::string graphs = "yes";
  REMEDY(graphs = "");
  EXPECT_EQ(decoded(graphs, kLoads), kIntact);
}

TEST_F(NemoTdtDecoderOnGpu, FixDisableCudaGraphs2_7) {
  if (!load("2.7.0")) return;
  std::string graphs = "yes";
  REMEDY(graphs = "");
  EXPECT_EQ(decoded(graphs, kLoads), kIntact);
}

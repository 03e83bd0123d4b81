// NeMo's own TDT decoder breaks torch.load with the kernels that it compiles for its graph, and not by decoding.
//
// The label-looping decoder and everything that it uses of NeMo are the released files; its networks are random and
// small. Without a GPU the decoder has no graph: it decodes, and torch.load keeps working. The function that compiles
// the condition of its outer loop, with which its graph begins, can still be called. It reads the compiler's log into
// Python's shared one-byte object, and fails only when it loads the kernel into a GPU. A GPU that the machine has is
// hidden here; nemo_tdt_decoder_on_gpu has the whole path. `ci/nemo 2.6.0` and `ci/nemo 3.0.0` fetch what this needs:
// the report's release and the newest.
//
// Alone:  g++ cases/load/nemo_tdt_decoder.cpp $(tools/libtorch --flags) -o nemo_tdt_decoder

#include <cstdlib>

#include "fixtures/python/nemo_decoder.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "NeMo's released TDT decoder breaks torch.load when it compiles its loops, and not when it decodes",
    .sources = {{"load corruption", "Describe the bug"},
                {"load corruption", "Key diagnostic findings"},
                {"load corruption", "Additional context"}},
    .documented =
        "The corruption is triggered specifically by the CUDA graph capture/replay in "
        "GreedyBatchedTDTLabelLoopingComputer; TypeError: 'tuple' object is not callable (CPU tensors)",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"torch.load", "runtime compilation", "conditional nodes", "NeMo"},
    .features = {"torch.load", "NeMo"},
    .needs = "host python nemo",
    .deadline_s = 120,
    .fixes = {{"FixNoGraphs2_6",
               "Call disable_cuda_graphs() on the model's decoding computer before the first transcribe()."},
              {"FixNoGraphs3_0",
               "Call model.decoding.decoding.decoding_computer.disable_cuda_graphs() before the first transcribe()."}},
};

class NemoTdtDecoder : public NemoDecoderTest {
 protected:
  void SetUp() override {
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    NemoDecoderTest::SetUp();
  }

  // Decodes and then, with `compile`, compiles the condition of the outer loop, unless the decoder has no graphs.
  std::string after(const std::string& compile, const std::string& graphs = "yes") {
    return python(R"py(
from decoding import *
decoder = computer("cpu")
said = decode(decoder, "cpu")
assert decoder.cuda_graphs_mode.value == "no_while_loops"
if not graphs:
    assert decoder.disable_cuda_graphs() and not decoder.disable_cuda_graphs()
if compile and decoder.cuda_graphs_mode:
    try:
        decoder._create_outer_while_loop_kernel()
    except Exception as e:
        assert "Nvrtc" not in str(e), e  # It was compiled, and not loaded.
assert decode(decoder, "cpu") == said and len(said[0]) > 0
seen = "; ".join(load(count) for count in (3, 4, 10))
)py",
                  {{"compile", compile}, {"graphs", graphs}});
  }
};

constexpr char kIntact[] = "intact; intact; intact";
constexpr char kBroken[] =
    "intact; TypeError: 'tuple' object is not callable; TypeError: 'tuple' object is not callable";

TEST_F(NemoTdtDecoder, ControlDecodes2_6) {
  if (!load("2.6.0")) return;
  EXPECT_EQ(after(""), kIntact);
}

TEST_F(NemoTdtDecoder, ControlDecodes3_0) {
  if (!load("3.0.0")) return;
  EXPECT_EQ(after(""), kIntact);
}

TEST_F(NemoTdtDecoder, Reproduces2_6) {
  if (!load("2.6.0")) return;
  std::string compile;
  TRIGGER(compile = "yes");
  REPRODUCES(after(compile), kBroken, kIntact);
}

TEST_F(NemoTdtDecoder, Reproduces3_0) {
  if (!load("3.0.0")) return;
  std::string compile;
  TRIGGER(compile = "yes");
  REPRODUCES(after(compile), kBroken, kIntact);
}

TEST_F(NemoTdtDecoder, FixNoGraphs2_6) {
  if (!load("2.6.0")) return;
  std::string graphs = "yes";
  REMEDY(graphs = "");
  EXPECT_EQ(after("yes", graphs), kIntact);
}

TEST_F(NemoTdtDecoder, FixNoGraphs3_0) {
  if (!load("3.0.0")) return;
  std::string graphs = "yes";
  REMEDY(graphs = "");
  EXPECT_EQ(after("yes", graphs), kIntact);
}

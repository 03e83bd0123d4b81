// With torch._dynamo turned off, and seen to be off, torch.load() fails all the same after the log was read.
//
// The report tried that to rule Dynamo out. corruption_table.ReproducesWithoutDynamo sets the variable and looks at the
// load alone; here a function is compiled in the same process, by a backend that counts what it is given: one graph
// with Dynamo on, none with it off, by either switch. No fix is here: turning Dynamo off was one that did not help, and
// those that do are shown by nvrtc_log_in_shared_bytes and corruption_table.
//
// Alone:  g++ cases/load/load_without_dynamo.cpp $(tools/libtorch --flags) -o load_without_dynamo

#include <stdlib.h>

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Turning torch._dynamo off turns it off, and torch.load() is broken nonetheless",
    .sources = {{"load corruption", "Key diagnostic findings"}},
    .documented = "Disabling torch._dynamo has no effect.",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"torch.load", "runtime compilation", "torch.compile", "NeMo"},
    .features = {"torch.load", "runtime compilation"},
    .needs = "host python",
    .deadline_s = 120,
};

class LoadWithoutDynamo : public PythonTest {
 protected:
  void SetUp() override {
    PythonTest::SetUp();
    if (!IsSkipped() && !nvrtc().reason.empty()) GTEST_SKIP() << nvrtc().reason;
  }
  // NVRTC's log read as in the reported code, into a bytes object of one byte.
  std::string read_log() {
    return python(R"py(
import ctypes
nvrtc = ctypes.CDLL(library)
program, size = ctypes.c_void_p(), ctypes.c_size_t()
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"__global__ void f() {}", b"f.cu", 0, None, None) == 0
assert nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_80")) == 0
assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
log = b" " * size.value
assert nvrtc.nvrtcGetProgramLog(program, log) == 0
seen = size.value
)py",
                  {{"library", nvrtc().path}});
  }
  // How many graphs Dynamo made of a function, and what a load of ten tensors gave.
  std::string graphs_and_load(const std::string& before = "pass") {
    return python(R"py(
import io, torch
from collections import OrderedDict
import torch._dynamo
exec(before)
graphs = []

@torch.compile(backend=lambda graph, inputs: graphs.append(graph) or graph.forward)
def func(x):
    return x * 2 + 1

assert func(torch.ones(3)).tolist() == [3, 3, 3]
saved = OrderedDict((f"layer.{i}", torch.full((3, 5), i + 0.5)) for i in range(10))
buffer = io.BytesIO()
torch.save(saved, buffer)
buffer.seek(0)
try:
    loaded = torch.load(buffer, weights_only=False)
    load = "intact" if all(torch.equal(loaded[k], saved[k]) for k in saved) else "wrong"
except Exception as e:
    load = f"{type(e).__name__}: {e}"
seen = f"graphs: {len(graphs)}; load: {load}"
)py",
                  {{"before", before}});
  }
};

constexpr char kOff[] = "import torch._dynamo; torch._dynamo.config.disable = True";
constexpr char kBroken[] = "graphs: 0; load: TypeError: 'tuple' object is not callable";
constexpr char kIntact[] = "graphs: 0; load: intact";

TEST_F(LoadWithoutDynamo, ControlDynamoOn) { EXPECT_EQ(graphs_and_load(), "graphs: 1; load: intact"); }

TEST_F(LoadWithoutDynamo, ControlByVariable) {
  setenv("TORCHDYNAMO_DISABLE", "1", 1);
  EXPECT_EQ(graphs_and_load(), kIntact);
}

TEST_F(LoadWithoutDynamo, ControlBySetting) { EXPECT_EQ(graphs_and_load(kOff), kIntact); }

TEST_F(LoadWithoutDynamo, ReproducesByVariable) {
  setenv("TORCHDYNAMO_DISABLE", "1", 1);
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(graphs_and_load(), kBroken, kIntact);
}

TEST_F(LoadWithoutDynamo, ReproducesBySetting) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(graphs_and_load(kOff), kBroken, kIntact);
}

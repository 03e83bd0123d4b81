// On real CUDA tensors, torch.load fails after a graph whose kernel was compiled first; compiling it is what does it.
//
// The report's program in small: a decoder that compiles a kernel with NVRTC, reads its empty log into b" " * 1,
// captures in thread_local mode and replays. Afterwards ten CUDA tensors do not load. Without the compilation the same
// capture and replays are harmless, and without the capture the compilation alone does the same harm. Switching the
// decoder's graphs off beforehand, the report's remedy, helps because then it does not compile either.
//
// Alone:  g++ cases/load/kernel_compiled_for_capture.cpp $(ci/libtorch --flags) -o kernel_compiled_for_capture

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title =
        "After a kernel was compiled and a graph captured, torch.load of CUDA tensors fails, with or without the graph",
    .sources = {{"load corruption", "Steps/Code to reproduce bug"}, {"load corruption", "Describe the bug"}},
    .documented = "Before inference: torch.load OK. After inference: TypeError: 'str' object is not callable",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes =
        {{"FixPrivateBuffer",
          "Give nvrtcGetProgramLog a mutable buffer of its own, such as a bytearray(size), instead of b' ' * size."},
         {"FixNoGraphs",
          "Call disable_cuda_graphs() on the decoder before the first transcribe(), so that it compiles no kernel."}},
};

constexpr char kCompile[] = R"py(
import ctypes
nvrtc = ctypes.CDLL(library)
program, size = ctypes.c_void_p(), ctypes.c_size_t()
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"__global__ void f() {}", b"f.cu", 0, None, None) == 0
assert nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_80")) == 0
assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
log = (ctypes.c_char * size.value).from_buffer(bytearray(size.value)) if private == "yes" else b" " * size.value
assert nvrtc.nvrtcGetProgramLog(program, log) == 0
seen = size.value
)py";

constexpr char kCapture[] = R"py(
import torch
x = torch.ones(1, device="cuda")
stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
    y = x * 2
seen = []
for value in (3, 4):
    x.fill_(value)
    graph.replay()
    seen.append(y.item())
)py";

constexpr char kSaveAndLoad[] = R"py(
import io, torch
from collections import OrderedDict
def attempt(count, shape):
    saved = OrderedDict((f"layer.{i}", torch.randn(shape, device="cuda")) for i in range(count))
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    buffer.seek(0)
    try:
        loaded = torch.load(buffer, weights_only=False)
    except TypeError as e:
        return f"TypeError: {e}"
    if list(loaded) == list(saved) and all(torch.equal(loaded[k], saved[k]) for k in saved):
        return "intact"
    return "shapes " + str(sorted({tuple(t.shape) for t in loaded.values()}))
seen = "; ".join(attempt(*row) for row in [(3, (3, 5)), (10, (32, 32)), (1, (32, 32))])
)py";

class KernelCompiledForCapture : public GpuPythonTest {
 protected:
  void SetUp() override {
    GpuPythonTest::SetUp();
    if (IsSkipped()) return;
    if (!nvrtc().reason.empty()) GTEST_SKIP() << nvrtc().reason;
    ASSERT_EQ(load(), kIntact);
  }
  std::string compile(const char* private_buffer = "no") {
    return python(kCompile, {{"library", nvrtc().path}, {"private", private_buffer}});
  }
  std::string capture_and_replay() { return python(kCapture); }
  std::string load() { return python(kSaveAndLoad); }

  const std::string kIntact = "intact; intact; intact";
  const std::string kBroken = "intact; TypeError: 'str' object is not callable; shapes [(0, 0)]";
};

TEST_F(KernelCompiledForCapture, ControlCaptureAlone) {
  EXPECT_EQ(capture_and_replay(), "[6.0, 8.0]");
  EXPECT_EQ(load(), kIntact);
}

TEST_F(KernelCompiledForCapture, Reproduces) {
  TRIGGER(ASSERT_EQ(compile(), "1"));
  EXPECT_EQ(capture_and_replay(), "[6.0, 8.0]");
  REPRODUCES(load(), kBroken, kIntact);
}

TEST_F(KernelCompiledForCapture, ReproducesWithoutCapture) {
  TRIGGER(ASSERT_EQ(compile(), "1"));
  REPRODUCES(load(), kBroken, kIntact);
}

// The report's attempt at a repair: it gives the GPU's memory back and leaves the byte as it is.
TEST_F(KernelCompiledForCapture, ReproducesAfterEmptyCache) {
  TRIGGER(ASSERT_EQ(compile(), "1"));
  EXPECT_EQ(capture_and_replay(), "[6.0, 8.0]");
  EXPECT_EQ(python(R"py(
import torch
block = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
del block
before = torch.cuda.memory_reserved()
torch.cuda.empty_cache()
seen = before - torch.cuda.memory_reserved() >= 64 << 20
)py"),
            "True");
  REPRODUCES(load(), kBroken, kIntact);
}

TEST_F(KernelCompiledForCapture, FixPrivateBuffer) {
  const char* buffer = "no";
  REMEDY(buffer = "yes");
  EXPECT_EQ(compile(buffer), "1");
  EXPECT_EQ(capture_and_replay(), "[6.0, 8.0]");
  EXPECT_EQ(load(), kIntact);
}

// The report's remedy: disable_cuda_graphs() before the first call, so that there is nothing to compile.
TEST_F(KernelCompiledForCapture, FixNoGraphs) {
  EXPECT_EQ(python("import torch\nseen = [(torch.full((1,), float(v), device='cuda') * 2).item() for v in (3, 4)]"),
            "[6.0, 8.0]");
  EXPECT_EQ(load(), kIntact);
}

// torch.load of CUDA tensors fails after a graph was captured whose kernel was compiled first; the compilation is why.
//
// The report's program in small: a decoder of our own compiles a kernel with NVRTC, reads its empty log into b" " * 1,
// captures in thread_local mode and replays. Afterwards ten CUDA tensors do not load. Without the compilation the same
// capture and replays do no harm, and without the capture the compilation alone does the same harm. The report's
// remedy, disable_cuda_graphs() before the first call, helps because the decoder then compiles nothing. nemo_run_nvrtc
// runs the released code that compiles and reads the log.
//
// Alone:  g++ cases/load/kernel_compiled_for_capture.cpp $(tools/libtorch --flags) -o kernel_compiled_for_capture

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "torch.load of CUDA tensors fails after a kernel was compiled with NVRTC, with or without a capture",
    .sources = {{"load corruption", "Steps/Code to reproduce bug"}, {"load corruption", "Describe the bug"}},
    .documented = "Before inference: torch.load OK. After inference: TypeError: 'str' object is not callable",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"torch.load", "runtime compilation", "NeMo"},
    .features = {"torch.load", "runtime compilation"},
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

// A decoder that, like NeMo's, compiles its kernel when it first needs a graph.
constexpr char kDecoder[] = R"py(
import torch
class Decoder:
    use_graphs, graph = True, None
    def disable_cuda_graphs(self):
        self.use_graphs = False
    def __call__(self, value):
        x = torch.full((1,), float(value), device="cuda")
        if not self.use_graphs:
            return (x * 2).item()
        if self.graph is None:
            exec(compile_kernel, globals())
            self.x, self.graph = x.clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self.y = self.x * 2
        self.x.copy_(x)
        self.graph.replay()
        return self.y.item()
decoder = Decoder()
if disable == "yes":
    decoder.disable_cuda_graphs()
seen = [decoder(value) for value in (3, 4)]
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

// The report's attempt at a repair: it gives the GPU's memory back, and the byte stays as it is.
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

TEST_F(KernelCompiledForCapture, FixNoGraphs) {
  std::string disable = "no";
  REMEDY(disable = "yes");
  EXPECT_EQ(python(kDecoder,
                   {{"compile_kernel", kCompile}, {"library", nvrtc().path}, {"private", "no"}, {"disable", disable}}),
            "[6.0, 8.0]");
  EXPECT_EQ(load(), kIntact);
}

// After NVRTC's log went into b" " * 1, a file with four CUDA tensors or more cannot be loaded, and one with three can.
//
// This is the report's table for its own kind of tensors, row by row from one to ten. A tensor on the GPU is saved with
// a location of its own, so four of them reach the memo index 32, which is read as the broken byte. corruption_table
// has the same rows for tensors on the CPU and for the text of the location alone; here the tensors are on the GPU and
// are loaded back to it. Their size makes no difference.
//
// Alone:  g++ cases/load/cuda_tensors_by_count.cpp $(tools/libtorch --flags) -o cuda_tensors_by_count

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "After a log was read into a shared byte, torch.load fails for four CUDA tensors or more",
    .sources = {{"load corruption", "Key diagnostic findings"}},
    .documented = "3 or fewer always works; 4 or more always fails: TypeError: 'str' object is not callable",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"torch.load", "runtime compilation", "NeMo"},
    .features = {"torch.load", "runtime compilation"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixPrivateBuffer",
               "Give nvrtcGetProgramLog a mutable buffer of its own, such as a bytearray(size), instead of b' ' * "
               "size."}},
};

constexpr char kReadLog[] = R"py(
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

constexpr char kLoad[] = R"py(
import io, torch
from collections import OrderedDict

def attempt(count, shape):
    saved = OrderedDict((f"layer.{i}", torch.full(shape, i + 0.5, device="cuda")) for i in range(count))
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    buffer.seek(0)
    try:
        loaded = torch.load(buffer, weights_only=False)
    except Exception as e:
        return type(e).__name__ + ": " + str(e).split("\n")[0]
    if list(loaded) == list(saved) and all(t.is_cuda and torch.equal(t, saved[k]) for k, t in loaded.items()):
        return "intact"
    return "shapes " + str(sorted({tuple(t.shape) for t in loaded.values()}))

results = {}
for count in eval(counts):
    results.setdefault(attempt(count, eval(shape)), []).append(str(count))
seen = "; ".join(" ".join(counts) + ": " + result for result, counts in results.items())
)py";

constexpr char kBroken[] = "1 2 3: intact; 4 5 6 7 8 9 10: TypeError: 'str' object is not callable";
constexpr char kIntact[] = "1 2 3 4 5 6 7 8 9 10: intact";

class CudaTensorsByCount : public GpuPythonTest {
 protected:
  void SetUp() override {
    GpuPythonTest::SetUp();
    if (IsSkipped()) return;
    if (!nvrtc().reason.empty()) GTEST_SKIP() << nvrtc().reason;
    ASSERT_EQ(load("range(1, 2)", "(3, 5)"), "1: intact");  // What is imported later may be wrong itself.
  }
  std::string read_log(const char* private_buffer = "no") {
    return python(kReadLog, {{"library", nvrtc().path}, {"private", private_buffer}});
  }
  std::string load(const char* counts, const char* shape) {
    return python(kLoad, {{"counts", counts}, {"shape", shape}});
  }
};

TEST_F(CudaTensorsByCount, Control) { EXPECT_EQ(load("range(1, 11)", "(3, 5)"), kIntact); }

TEST_F(CudaTensorsByCount, Reproduces) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(load("range(1, 11)", "(3, 5)"), kBroken, kIntact);
}

TEST_F(CudaTensorsByCount, ReproducesWhateverTheSize) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(load("range(1, 11)", "(512, 1025)"), kBroken, kIntact);
}

TEST_F(CudaTensorsByCount, FixPrivateBuffer) {
  const char* buffer = "no";
  REMEDY(buffer = "yes");
  EXPECT_EQ(read_log(buffer), "1");
  EXPECT_EQ(load("range(1, 11)", "(3, 5)"), kIntact);
}

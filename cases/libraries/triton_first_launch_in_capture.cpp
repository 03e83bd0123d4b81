// The first launch of a Triton kernel in a capture compiles and loads the kernel there.
//
// Compiling runs on the host. Loading calls cuModuleLoadData(), which drivers older than CUDA 12.3 refuse in a capture,
// and for a kernel with more than 48 KiB of shared memory also cuFuncSetCacheConfig(). vLLM's report is of kernels that
// the warm-up did not launch. For autotuners, see triton_autotuner_in_capture. Each test starts with an empty Triton
// cache.
//
// Alone:  g++ cases/libraries/triton_first_launch_in_capture.cpp $(tools/libtorch --flags) -o triton_first_launch_in_capture

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a Triton kernel is launched for the first time in a capture",
    .sources = {{"upstream", "vllm#36587"}},
    .documented =
        "RuntimeError: Triton Error [CUDA]: operation not permitted when stream is capturing, in load_binary: 900, "
        "then 901",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"runtime compilation", "extensions"},
    .features = {"runtime compilation", "extensions"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes = {{"FixLaunchBefore",
               "Launch every kernel before the capture, with the types, alignments and constants that the capture "
               "has."}},
};

class TritonFirstLaunchInCapture : public CompiledTest {
 protected:
  // How the capture ended, or what two replays computed, a number for each.
  std::string replays(const std::string& before, const std::string& captured, const std::string& result) {
    return compiled(R"py(
import os, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
sys.path.insert(0, tempfile.mkdtemp())
with open(sys.path[0] + "/kernels.py", "w") as file:  # Triton reads the source of a kernel from its file.
    file.write('''
import triton
import triton.language as tl

@triton.jit
def double(y, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

@triton.jit
def sum_of_products(y, a, b, steps, WIDTH: tl.constexpr):
    i = tl.arange(0, WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    total = tl.zeros((WIDTH, WIDTH), dtype=tl.float32)
    for step in range(steps):
        total += tl.dot(tl.load(a + step * WIDTH * WIDTH + i), tl.load(b + step * WIDTH * WIDTH + i))
    tl.store(y + i, total)
''')
from kernels import double, sum_of_products

x, y = torch.ones(200, device="cuda"), torch.zeros(200, device="cuda")
a = torch.ones(2, 128, 128, device="cuda", dtype=torch.float16)
b = torch.ones(2, 128, 128, device="cuda", dtype=torch.float16)
sums = torch.zeros(128, 128, device="cuda")
launched = []

def launch_small():
    launched.append(double[(4,)](y, x, 200, BLOCK=64))

# Tiles of 32 KiB, of which two at least are in shared memory at once.
def launch_large():
    launched.append(sum_of_products[(1,)](sums, a, b, 2, WIDTH=128, num_stages=2))
    assert launched[-1].metadata.shared > 48 * 1024, launched[-1].metadata.shared

{before}
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph):
        {captured}
if str(seen) == "ok > ok":
    seen = []
    for value in (3, 5):
        x.fill_(value)
        a.fill_(value)
        graph.replay()
        seen.append({result})
)py",
                    {{"before", before}, {"captured", captured}, {"result", result}});
  }

  const std::string kSmall = "launch_small()", kLarge = "launch_large()";
  const std::string kLastOfY = "y.tolist()[199]", kLastOfSums = "sums.tolist()[127][127]";
};

constexpr char kDoubled[] = "[6.0, 10.0]", kSums[] = "[768.0, 1280.0]";

TEST_F(TritonFirstLaunchInCapture, Control) { EXPECT_EQ(replays(kSmall, kSmall, kLastOfY), kDoubled); }

TEST_F(TritonFirstLaunchInCapture, ControlLargeKernel) { EXPECT_EQ(replays(kLarge, kLarge, kLastOfSums), kSums); }

TEST_F(TritonFirstLaunchInCapture, Reproduces) {
  std::string before = kSmall;
  TRIGGER(before = "pass");
  REPRODUCES(replays(before, kSmall, kLastOfY), "900 > 901", kDoubled);
}

TEST_F(TritonFirstLaunchInCapture, ReproducesLargeKernel) {
  std::string before = kLarge;
  TRIGGER(before = "pass");
  REPRODUCES(replays(before, kLarge, kLastOfSums), "900 > 901", kSums);
}

TEST_F(TritonFirstLaunchInCapture, FixLaunchBefore) {
  REMEDY_STAYS("drivers from CUDA 12.3 on load a kernel in a capture, so the test holds without it");
  EXPECT_EQ(replays(kSmall, kSmall, kLastOfY), kDoubled);
}

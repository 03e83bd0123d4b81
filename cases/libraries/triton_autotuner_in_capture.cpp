// A Triton kernel invalidates the capture that it is launched in if its autotuner has not chosen a configuration yet.
//
// The first launch with a new key times every configuration and waits for the GPU. A warm-up chooses for its own key
// only: another value of a key argument, or another data type, is another key. After that, the kernel is captured like
// any other. A kernel without an autotuner may be launched for the first time in a capture: with the driver on record
// (580), compiling and loading it are allowed there.
//
// Alone:  g++ cases/libraries/triton_autotuner_in_capture.cpp $(tools/libtorch --flags) -o triton_autotuner_in_capture

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a Triton kernel whose autotuner has not chosen yet invalidates the capture",
    .sources = {{"upstream", "triton#10596"}},
    .documented =
        "the sync call inside do_bench invalidates the stream: operation not permitted when stream is "
        "capturing (900), then 901",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"runtime compilation", "extensions"},
    .features = {"runtime compilation", "extensions"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes = {{"FixWarmUp",
               "Launch the kernel before the capture once with each key that the capture uses: the same values of the "
               "key arguments and the same data types."},
              {"FixOneConfiguration",
               "Launch the kernel without its autotuner in the capture: kernel.fn[grid](..., BLOCK=128)."}},
};

class TritonAutotunerInCapture : public CompiledTest {
 protected:
  // How the capture ended, or what two replays computed.
  std::string replays(const std::string& warm_up, const std::string& captured = "double[(4,)](y, x, 200)") {
    return compiled(R"py(
import os, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
sys.path.insert(0, tempfile.mkdtemp())
with open(sys.path[0] + "/kernels.py", "w") as file:  # Triton reads the source of a kernel from its file.
    file.write('''
import triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"BLOCK": block}) for block in (64, 128)], key=["n"])
@triton.jit
def double(y, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
''')
from kernels import double

x, y = torch.ones(200, device="cuda"), torch.zeros(200, device="cuda")
{warm_up}
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph):
        {captured}
if str(seen) == "ok > ok":
    seen = []
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        seen.append(y.tolist()[199])
)py",
                    {{"warm_up", warm_up}, {"captured", captured}});
  }

  const std::string kOneConfiguration = "double.fn[(4,)](y, x, 200, BLOCK=128)";
  const std::string kSameKey = "double[(4,)](y, x, 200)", kOtherKey = "double[(4,)](y, x, 100)";
};

constexpr char kDoubled[] = "[6.0, 10.0]";

TEST_F(TritonAutotunerInCapture, Control) { EXPECT_EQ(replays(kSameKey), kDoubled); }

// The kernel is compiled and loaded in the capture.
TEST_F(TritonAutotunerInCapture, ControlFirstLaunch) { EXPECT_EQ(replays("pass", kOneConfiguration), kDoubled); }

TEST_F(TritonAutotunerInCapture, Reproduces) {
  std::string warm_up = kSameKey;
  TRIGGER(warm_up = "pass");
  RAISED_BY("cuCtxSynchronize*");
  REPRODUCES(replays(warm_up), "900 > 901", kDoubled);
}

TEST_F(TritonAutotunerInCapture, ReproducesOtherKey) {
  std::string warm_up = kSameKey;
  TRIGGER(warm_up = kOtherKey);
  RAISED_BY("cuCtxSynchronize*");
  REPRODUCES(replays(warm_up), "900 > 901", kDoubled);
}

TEST_F(TritonAutotunerInCapture, FixWarmUp) {
  std::string warm_up = kOtherKey;
  REMEDY(warm_up = kSameKey);
  EXPECT_EQ(replays(warm_up), kDoubled);
}

TEST_F(TritonAutotunerInCapture, FixOneConfiguration) {
  std::string captured = "double[(4,)](y, x, 200)";
  REMEDY(captured = kOneConfiguration);
  EXPECT_EQ(replays(kOtherKey, captured), kDoubled);
}

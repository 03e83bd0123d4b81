// The released NeMo's own run_nvrtc, of the oldest 2.x and of the newest release, breaks torch.load for the process.
//
// This is the defect of nvrtc_log_in_shared_bytes in the code that the report ran: the decoder compiles the predicate
// of its while loops with run_nvrtc before it captures them, and run_nvrtc reads the log into b" " * 1. Nothing is
// replaced: the module is the one in the wheel, and NVRTC is the real one. run_nvrtc reads the log before it loads the
// kernel, so on a machine without a GPU it fails after the harm is done. The module is compiled from source here, for
// the reason that bytecode_cache_hides_damage gives. `ci/nemo 2.0.0` and `ci/nemo 3.0.0` fetch what this needs. No
// release has the merged remedy (Speech #16235) yet; FixMutableBuffer puts its line into 3.0.0.
//
// Alone:  g++ cases/load/nemo_run_nvrtc.cpp $(tools/libtorch --flags) -o nemo_run_nvrtc

#include "fixtures/python/nemo.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "NeMo's released run_nvrtc breaks torch.load, before any capture",
    .sources = {{"load corruption", "Describe the bug"}, {"load corruption", "Steps/Code to reproduce bug"}},
    .documented =
        "TypeError: 'str' object is not callable (CUDA tensors), 'tuple' object is not callable (CPU tensors)",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.load", "runtime compilation", "conditional nodes", "NeMo"},
    .features = {"torch.load", "NeMo"},
    .needs = "host python nemo",
    .deadline_s = 120,
    .fixes = {{"FixMutableBuffer",
               "Replace buf = b' ' * size with buf = bytearray(size) in run_nvrtc() of NeMo's cuda_python_utils.py."}},
};

// Makes run_nvrtc known to the programs after it. `fix` replaces the buffer's line; empty, it leaves the code as it is.
constexpr char kImport[] = R"py(
import ctypes, glob, sys, tempfile, types
import torch
sys.path.insert(0, folder)
ctypes.CDLL(glob.glob(folder + "/nvidia/cuda_nvrtc/lib/libnvrtc.so.*")[0])  # Found by its name from now on.
import numpy, packaging.version
sys.modules["numba"] = None  # ci/nemo brings none, and the machine's own would be asked for its CUDA.
with tempfile.TemporaryDirectory() as sys.pycache_prefix:  # A cache that is empty: the module is compiled.
    from nemo.core.utils import cuda_python_utils
sys.pycache_prefix = None
if fix:
    with open(cuda_python_utils.__file__) as file:
        source = file.read()
    old = 'buf = b" " * size\n'
    assert source.count(old) == 1
    exec(compile(source.replace(old, fix + "\n"), cuda_python_utils.__file__, "exec"), vars(cuda_python_utils))
seen = cuda_python_utils.__name__
)py";

// The kernel that NeMo's label-looping decoders give it has this shape. Fails only where there is no GPU, at its end.
constexpr char kRunNvrtc[] = R"py(
from nemo.core.utils import cuda_python_utils
source = r"""
typedef __device_builtin__ unsigned long long cudaGraphConditionalHandle;
extern "C" __device__ __cudart_builtin__ void cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned);
extern "C" __global__ void loop_conditional(cudaGraphConditionalHandle handle, const bool *decisions) {
  cudaGraphSetConditional(handle, *decisions);
}
"""
try:
    cuda_python_utils.run_nvrtc(source, b"loop_conditional", b"while_conditional.cu")
    seen = "loaded"
except Exception as e:
    seen = "compiled, not loaded" if "Nvrtc" not in str(e) else str(e)
)py";

constexpr char kSaveAndLoad[] = R"py(
import io, torch
from collections import OrderedDict
saved = OrderedDict((f"layer.{i}", torch.full(eval(shape), i + 0.5)) for i in range(int(count)))
buffer = io.BytesIO()
tag_of = torch.serialization.location_tag
if tag == "cuda":  # What torch.save writes for a CUDA tensor: a str of its own for each storage.
    torch.serialization.location_tag = lambda storage: "cuda:" + str(0)
torch.save(saved, buffer)
torch.serialization.location_tag = tag_of
buffer.seek(0)
loaded = torch.load(buffer, map_location="cpu", weights_only=False)
same = list(loaded) == list(saved) and all(torch.equal(loaded[k], saved[k]) for k in saved)
seen = "intact" if same else f"shapes {sorted({tuple(t.shape) for t in loaded.values()})}"
)py";

class NemoRunNvrtc : public NemoTest {
 protected:
  // Imports the module of a release; false, and the test is skipped, where it was not fetched.
  bool import(const std::string& release, const std::string& fix = "") {
    const std::string folder = folder_with({"complete", "nemo/core/utils/cuda_python_utils.py"}, release);
    if (folder.empty()) return false;
    const std::string module = python(kImport, {{"folder", folder}, {"fix", fix}});
    EXPECT_EQ(module, "nemo.core.utils.cuda_python_utils");
    return module == "nemo.core.utils.cuda_python_utils";
  }
  std::string run_nvrtc() { return python(kRunNvrtc); }
  std::string load(int count, const char* tag = "cpu", const char* shape = "(3, 5)") {
    return python(kSaveAndLoad, {{"count", std::to_string(count)}, {"tag", tag}, {"shape", shape}});
  }
  // The report's observations in a line: three and ten tensors of both kinds, and one with its shape.
  std::string table() {
    std::string all = load(3);
    all += "; " + load(10);
    all += "; " + load(3, "cuda");
    all += "; " + load(10, "cuda");
    return all + "; " + load(1, "cpu", "(32, 32)");
  }
};

const char kIntact[] = "intact; intact; intact; intact; intact";
const char kBroken[] =
    "intact; TypeError: 'tuple' object is not callable; intact; TypeError: 'str' object is not callable; shapes [(0, "
    "0)]";
const testing::Matcher<std::string> kRan = testing::AnyOf("loaded", "compiled, not loaded");

TEST_F(NemoRunNvrtc, Control2_0) {
  if (!import("2.0.0")) return;
  EXPECT_EQ(table(), kIntact);
}

TEST_F(NemoRunNvrtc, Control3_0) {
  if (!import("3.0.0")) return;
  EXPECT_EQ(table(), kIntact);
}

TEST_F(NemoRunNvrtc, Reproduces2_0) {
  if (!import("2.0.0")) return;
  TRIGGER(ASSERT_THAT(run_nvrtc(), kRan));
  REPRODUCES(table(), kBroken, kIntact);
}

TEST_F(NemoRunNvrtc, Reproduces3_0) {
  if (!import("3.0.0")) return;
  TRIGGER(ASSERT_THAT(run_nvrtc(), kRan));
  REPRODUCES(table(), kBroken, kIntact);
}

TEST_F(NemoRunNvrtc, FixMutableBuffer) {
  std::string fix;
  REMEDY(fix = "buf = bytearray(size)");
  if (!import("3.0.0", fix)) return;
  EXPECT_THAT(run_nvrtc(), kRan);
  EXPECT_EQ(table(), kIntact);
}

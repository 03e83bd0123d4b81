// After NVRTC's log went into b" " * 1, torch.load shows the report's whole table, down to what does not help.
//
// Every row follows from one broken byte. What fails is what reads the byte 0x20 alone from a stream: the memo index
// 32, which four tensors reach and three do not, whatever their size, and any dimension of 32, which loads as 0 without
// an error. pickle.loads parses memory and reads no single bytes, so the report found it unaffected. It is, unless a
// tensor has 32 elements: that count is read from a stream inside the pickle. The byte's object is immortal: garbage
// collection, reloading and deleting do not reach it, but another process has its own. The case
// nvrtc_log_in_shared_bytes shows the cause; here the log is read from Python, through ctypes, as in the reported code,
// which nemo_run_nvrtc runs itself.
//
// Alone:  g++ cases/load/corruption_table.cpp $(tools/libtorch --flags) -o corruption_table

#include <stdlib.h>

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A log read into a shared one-byte object gives the report's table of torch.load's failures, row by row",
    .sources = {{"load corruption", "Key diagnostic findings"}, {"load corruption", "Steps/Code to reproduce bug"}},
    .documented = "3 or fewer always works; 4 or more always fails; raw pickle is unaffected; irreversible",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"torch.load", "runtime compilation", "NeMo"},
    .features = {"torch.load", "runtime compilation"},
    .needs = "host python",
    .deadline_s = 120,
    .effects = {{"ReproducesWrongShapes", Effect::SilentlyWrong}},
    .fixes =
        {{"FixFreshProcess",
          "Call torch.load() in a fresh process; nothing repairs one whose shared byte NVRTC's log has overwritten."}},
};

constexpr char kReadLog[] = R"py(
import ctypes, sys
nvrtc = ctypes.CDLL(library)
program, size = ctypes.c_void_p(), ctypes.c_size_t()
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"__global__ void f() {}", b"f.cu", 0, None, None) == 0
assert nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_80")) == 0
assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
log = b" " * size.value
assert nvrtc.nvrtcGetProgramLog(program, log) == 0
sys.decoder = nvrtc, program, log  # What a model would hold.
seen = size.value
)py";

constexpr char kTry[] = R"py(
import gc, importlib, io, pickle, torch
from collections import OrderedDict

tags = {"cpu": torch.serialization.location_tag, "cuda": lambda storage: "cuda:" + str(0)}  # A CUDA tag: one str each.

def attempt(count, shape=(3, 5), tag="cpu", raw=False):
    saved = OrderedDict((f"layer.{i}", torch.full(shape, i + 0.5)) for i in range(count))
    torch.serialization.location_tag = tags[tag]
    try:
        if raw:
            loaded = pickle.loads(pickle.dumps(saved))
        else:
            buffer = io.BytesIO()
            torch.save(saved, buffer)
            buffer.seek(0)
            loaded = torch.load(buffer, map_location="cpu", weights_only=False)
    except Exception as e:
        return type(e).__name__ + ": " + str(e).split("\n")[0]
    if list(loaded) == list(saved) and all(torch.equal(loaded[k], saved[k]) for k in saved):
        return "intact"
    return "shapes " + str(sorted({tuple(t.shape) for t in loaded.values()}))
)py";

class CorruptionTable : public PythonTest {
 protected:
  void SetUp() override {
    PythonTest::SetUp();
    if (!IsSkipped() && !nvrtc().reason.empty()) GTEST_SKIP() << nvrtc().reason;
  }
  // After a load, as in the report: modules that are compiled with the byte broken can be wrong themselves
  // (nvrtc_log_in_shared_bytes.ReproducesInFStringsCompiledLater).
  std::string read_log() {
    EXPECT_EQ(tried("attempt(1)"), "intact");
    return python(kReadLog, {{"library", nvrtc().path}});
  }
  std::string tried(const std::string& expression) { return python(kTry + ("seen = " + expression)); }

  // Some rows of the table, as "what: result; …".
  std::string table(const std::vector<std::pair<const char*, const char*>>& rows) {
    std::string all;
    for (const auto& [what, expression] : rows) {
      const std::string result = tried(expression);
      record("table." + std::string(what), result);
      all += (all.empty() ? "" : "; ") + std::string(what) + ": " + result;
    }
    return all;
  }
};

constexpr char kIrreversible[] = R"py(
import sys
before = attempt(4)
vars(sys).pop("decoder", None)
gc.collect()
torch.cuda.empty_cache()
importlib.reload(pickle)
importlib.reload(torch.serialization)
after = attempt(4)
seen = before + ", then " + after
)py";

TEST_F(CorruptionTable, Control) {
  for (const char* row :
       {"1", "3", "4", "10", "40", "4, (1,)", "3, (4096, 4096)", "3, (32, 32)", "10, (32, 32), raw=True",
        "1, (4, 8), raw=True", "3, tag='cuda'", "4, tag='cuda'", "10, tag='cuda'"}) {
    EXPECT_EQ(tried(std::string("attempt(") + row + ")"), "intact") << row;
  }
}

TEST_F(CorruptionTable, ReproducesCpuTags) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(table({{"1", "attempt(1)"}, {"3", "attempt(3)"}, {"4", "attempt(4)"}, {"10", "attempt(10)"}}),
             "1: intact; 3: intact; 4: TypeError: 'tuple' object is not callable; "
             "10: TypeError: 'tuple' object is not callable",
             "1: intact; 3: intact; 4: intact; 10: intact");
}

TEST_F(CorruptionTable, ReproducesCudaTags) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(table({{"1 cuda", "attempt(1, tag='cuda')"},
                    {"3 cuda", "attempt(3, tag='cuda')"},
                    {"4 cuda", "attempt(4, tag='cuda')"},
                    {"10 cuda", "attempt(10, tag='cuda')"}}),
             "1 cuda: intact; 3 cuda: intact; 4 cuda: TypeError: 'str' object is not callable; "
             "10 cuda: TypeError: 'str' object is not callable",
             "1 cuda: intact; 3 cuda: intact; 4 cuda: intact; 10 cuda: intact");
}

TEST_F(CorruptionTable, ReproducesSizeDoesNotMatter) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(table({{"3 large", "attempt(3, (4096, 4096))"}, {"4 small", "attempt(4, (1,))"}}),
             "3 large: intact; 4 small: TypeError: 'tuple' object is not callable", "3 large: intact; 4 small: intact");
}

TEST_F(CorruptionTable, ReproducesRawPickleIntact) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(table({{"10 raw", "attempt(10, (32, 32), raw=True)"}, {"10", "attempt(10)"}}),
             "10 raw: intact; 10: TypeError: 'tuple' object is not callable", "10 raw: intact; 10: intact");
}

// Our addition to the report: a tensor's own pickle holds a stream of the old format, from which the element count 32
// is read.
TEST_F(CorruptionTable, ReproducesRawPickleOf32Elements) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(
      table({{"1 raw of 4x8", "attempt(1, (4, 8), raw=True)"}, {"1 raw of 4x9", "attempt(1, (4, 9), raw=True)"}}),
      "1 raw of 4x8: RuntimeError: storage has wrong byte size: expected *; 1 raw of 4x9: intact",
      "1 raw of 4x8: intact; 1 raw of 4x9: intact");
}

TEST_F(CorruptionTable, ReproducesIrreversible) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(python(kTry + std::string(kIrreversible)),
             "TypeError: 'tuple' object is not callable, then TypeError: 'tuple' object is not callable",
             "intact, then intact");
}

TEST_F(CorruptionTable, ReproducesWithoutDynamo) {
  setenv("TORCHDYNAMO_DISABLE", "1", 1);
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(tried("attempt(10)"), "TypeError: 'tuple' object is not callable", "intact");
}

TEST_F(CorruptionTable, ReproducesWrongShapes) {
  TRIGGER(ASSERT_EQ(read_log(), "1"));
  REPRODUCES(table({{"1 of 32x32", "attempt(1, (32, 32))"},
                    {"3 of 32x32", "attempt(3, (32, 32))"},
                    {"1 of 5x32", "attempt(1, (5, 32))"},
                    {"1 of 31x33", "attempt(1, (31, 33))"}}),
             "1 of 32x32: shapes [(0, 0)]; 3 of 32x32: shapes [(0, 0)]; 1 of 5x32: shapes [(5, 0)]; 1 of 31x33: intact",
             "1 of 32x32: intact; 3 of 32x32: intact; 1 of 5x32: intact; 1 of 31x33: intact");
}

// One process reads the log and cannot load any more; the next one can, and so can their parent.
TEST_F(CorruptionTable, FixFreshProcess) {
  const std::string load = kTry + std::string("seen = attempt(10) + ', ' + attempt(3, (32, 32))");
  const std::string read_and_load = load + kReadLog + load;
  EXPECT_EQ(python_in_child(read_and_load, {{"library", nvrtc().path}}),
            "TypeError: 'tuple' object is not callable, shapes [(0, 0)]");
  std::string next = read_and_load;
  REMEDY(next = load);
  EXPECT_EQ(python_in_child(next, {{"library", nvrtc().path}}), "intact, intact");
  EXPECT_EQ(python(load), "intact, intact");
}

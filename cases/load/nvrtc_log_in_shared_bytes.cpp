// torch.load fails, or loads wrong shapes without a word, after NVRTC's log was read into a bytes object of size one.
//
// The log of a compilation without warnings is a single NUL, so a caller that asks for its size and makes b" " * size
// gets Python's one shared object for the byte 0x20. NVRTC writes the NUL into it, and from then on every one-byte read
// of 0x20 in this process gives 0. torch.load unpickles in one-byte reads from a stream. So the memo index 32, which
// the fourth tensor is the first to use, becomes 0 and replaces the first memoised object, a function or class that the
// next tensor calls. In its place is a tuple for CPU tensors, which share one location tag, or a str for CUDA tensors,
// which have one each. A dimension of 32 becomes 0 already in the first tensor. No capture and no GPU is involved: the
// report blames the graph because the decoder compiles a kernel for it. The report's own code is in nemo_run_nvrtc.
//
// Alone:  g++ cases/load/nvrtc_log_in_shared_bytes.cpp $(tools/libtorch --flags) -o nvrtc_log_in_shared_bytes

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "NVRTC's empty log, written into a shared one-byte object, breaks torch.load for the rest of the process",
    .sources = {{"load corruption", "Describe the bug"}, {"load corruption", "Steps/Code to reproduce bug"}},
    .documented =
        "TypeError: 'str' object is not callable (CUDA tensors), 'tuple' object is not callable (CPU tensors)",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"torch.load", "runtime compilation", "NeMo"},
    .features = {"torch.load", "runtime compilation"},
    .needs = "host python",
    .deadline_s = 120,
    .effects = {{"ReproducesSilentShape", Effect::SilentlyWrong},
                {"ReproducesInFStringsCompiledLater", Effect::SilentlyWrong}},
    .fixes =
        {{"FixPrivateBuffer",
          "Allocate the log's buffer with PyByteArray_FromStringAndSize() or bytearray(size), not as a bytes object."}},
};

// Saves and loads an OrderedDict of `count` tensors and says how it went; `shape`, `tag` and the rest are given as
// text.
constexpr char kSaveAndLoad[] = R"py(
import io, torch
from collections import OrderedDict
saved = OrderedDict((f"layer.{i}", torch.randn(eval(shape))) for i in range(int(count)))
buffer = io.BytesIO()
tag_of = torch.serialization.location_tag
if tag == "cuda":  # What torch.save writes for a CUDA tensor: a str of its own for each storage.
    torch.serialization.location_tag = lambda storage: "cuda:" + str(0)
torch.save(saved, buffer)
torch.serialization.location_tag = tag_of
buffer.seek(0)
loaded = torch.load(buffer, map_location="cpu", weights_only=weights_only == "True")
shapes = {tuple(t.shape) for t in loaded.values()}
same = list(loaded) == list(saved) and all(torch.equal(loaded[k], saved[k]) for k in saved)
seen = "intact" if same else f"loaded with shape {sorted(shapes)}"
)py";

class NvrtcLogInSharedBytes : public PythonTest {
 protected:
  void SetUp() override {
    PythonTest::SetUp();
    if (IsSkipped()) return;
    if (!nvrtc().reason.empty()) GTEST_SKIP() << nvrtc().reason;
    ASSERT_EQ(nvrtc().nvrtcCreateProgram(&program, "__global__ void nothing() {}", "nothing.cu", 0, nullptr, nullptr),
              0);
    const char* options[] = {"--gpu-architecture=compute_80"};
    ASSERT_EQ(nvrtc().nvrtcCompileProgram(program, 1, options), 0);
    ASSERT_EQ(nvrtc().nvrtcGetProgramLogSize(program, &size), 0);
    ASSERT_EQ(size, 1u) << "NVRTC has something to say; the log must be empty here.";
    ASSERT_EQ(load(1),
              "intact");  // As in the report. Modules that are compiled after the damage can be wrong themselves.
  }

  std::string load(int count, const char* tag = "cpu", const char* shape = "(3, 5)",
                   const char* weights_only = "False") {
    return python(kSaveAndLoad,
                  {{"count", std::to_string(count)}, {"tag", tag}, {"shape", shape}, {"weights_only", weights_only}});
  }

  // The address that Python gives for the content of b" " * size, which the caller takes for a buffer of its own.
  char* blanks() { return api().PyBytes_AsString(api().PyBytes_FromStringAndSize(" ", 1)); }

  Nvrtc::Program program = nullptr;
  size_t size = 0;
};

TEST_F(NvrtcLogInSharedBytes, Control) {
  for (const int count : {1, 3, 4, 10}) {
    EXPECT_EQ(load(count), "intact") << count;
    EXPECT_EQ(load(count, "cuda"), "intact") << count;
    EXPECT_EQ(load(count, "cpu", "(32, 32)"), "intact") << count;
    EXPECT_EQ(load(count, "cpu", "(3, 5)", "True"), "intact") << count;
  }
}

TEST_F(NvrtcLogInSharedBytes, ControlLogIsNulAlone) {
  char log[] = {'x', 'x'};
  EXPECT_EQ(nvrtc().nvrtcGetProgramLog(program, log), 0);
  EXPECT_EQ(log[0], '\0');
  EXPECT_EQ(log[1], 'x');
  EXPECT_EQ(blanks(), blanks()) << "This Python has no shared object for one byte.";
}

TEST_F(NvrtcLogInSharedBytes, ReproducesFourAndMore) {
  TRIGGER(nvrtc().nvrtcGetProgramLog(program, blanks()));
  EXPECT_EQ(load(3), "intact");
  const std::string ten = load(10);
  EXPECT_EQ(load(4), ten);
  REPRODUCES(ten, "TypeError: 'tuple' object is not callable", "intact");
}

TEST_F(NvrtcLogInSharedBytes, ReproducesCudaTags) {
  TRIGGER(nvrtc().nvrtcGetProgramLog(program, blanks()));
  EXPECT_EQ(load(3, "cuda"), "intact");
  const std::string ten = load(10, "cuda");
  EXPECT_EQ(load(4, "cuda"), ten);
  REPRODUCES(ten, "TypeError: 'str' object is not callable", "intact");
}

TEST_F(NvrtcLogInSharedBytes, ReproducesSilentShape) {
  TRIGGER(nvrtc().nvrtcGetProgramLog(program, blanks()));
  const std::string three = load(3, "cpu", "(32, 32)");
  EXPECT_EQ(load(1, "cpu", "(32, 32)"), three);
  REPRODUCES(three, "loaded with shape [(0, 0)]", "intact");
}

TEST_F(NvrtcLogInSharedBytes, ReproducesWeightsOnly) {
  TRIGGER(nvrtc().nvrtcGetProgramLog(program, blanks()));
  REPRODUCES(load(10, "cpu", "(3, 5)", "True"), "UnpicklingError: Weights only load failed*", "intact");
}

// Our addition: from Python 3.12 on the compiler has the text of an f-string as bytes, and a blank between two values
// is the shared object. So a module that has no bytecode yet, and is imported after the damage, writes "strname" for
// "str name"; PyTorch 2.11 itself then cannot be imported, since it writes the schemas of its operators like that.
TEST_F(NvrtcLogInSharedBytes, ReproducesInFStringsCompiledLater) {
  if (python("import sys; seen = sys.version_info >= (3, 12)") != "True") {
    NOT_APPLICABLE("before 3.12 Python compiled f-strings without such objects");
  }
  TRIGGER(nvrtc().nvrtcGetProgramLog(program, blanks()));
  REPRODUCES(python("seen = eval('f\"{1} {2}\"')"), "12", "1 2");
}

TEST_F(NvrtcLogInSharedBytes, FixPrivateBuffer) {
  char* buffer = blanks();
  REMEDY(buffer = api().PyByteArray_AsString(api().PyByteArray_FromStringAndSize(" ", static_cast<ssize_t>(size))));
  EXPECT_EQ(nvrtc().nvrtcGetProgramLog(program, buffer), 0);
  EXPECT_EQ(buffer[0], '\0');
  EXPECT_EQ(blanks()[0], ' ');
  for (const int count : {1, 3, 4, 10}) {
    EXPECT_EQ(load(count), "intact") << count;
    EXPECT_EQ(load(count, "cuda"), "intact") << count;
    EXPECT_EQ(load(count, "cpu", "(32, 32)"), "intact") << count;
    EXPECT_EQ(load(count, "cpu", "(3, 5)", "True"), "intact") << count;
  }
}

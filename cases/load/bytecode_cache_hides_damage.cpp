// The same program breaks torch.load in its first run and not in its second: Python's bytecode cache decides.
//
// NVRTC's empty log does harm if the buffer b" " * 1, which is the constant b" " itself, is Python's shared one-byte
// object. Python's compiler takes the constant from the table of shared objects. The loader of a .pyc file allocates
// the object first and then reads the byte into it, so a constant from the cache is private, and the NUL harms nobody.
// A program that was just installed or edited therefore fails once and works on every later start, and it fails on
// every start where no cache is written: under PYTHONDONTWRITEBYTECODE=1, which many container images set, or in a
// read-only folder. The report names a container; whoever runs the program twice in an ordinary environment sees
// nothing. The report does not have this; it is our own finding. Each run here is an interpreter of its own, which
// imports a small module that reads the log as the reported code does.
//
// Alone:  g++ cases/load/bytecode_cache_hides_damage.cpp $(tools/libtorch --flags) -o bytecode_cache_hides_damage

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "fixtures/cuda/nvrtc.h"
#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title =
        "Whether NVRTC's log breaks torch.load depends on whether the module was compiled or came from a .pyc file",
    .sources = {{"upstream", "NeMo#15790"}, {"load corruption", "Describe the bug"}},
    .documented = "broken in the first run, healthy in the second; broken in every run without a bytecode cache",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"torch.load", "runtime compilation", "NeMo"},
    .features = {"torch.load", "runtime compilation"},
    .needs = "host python",
    .deadline_s = 120,
    .fixes = {{"FixPrivateBuffer",
               "Read NVRTC's log into (ctypes.c_char * size).from_buffer(bytearray(size)), never into b' ' * size."}},
};

constexpr char kModule[] = R"py(import ctypes


def compile_kernel(library, private):
    nvrtc = ctypes.CDLL(library)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"__global__ void f() {}", b"f.cu", 0, None, None) == 0
    assert nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_80")) == 0
    assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
    log = (ctypes.c_char * size.value).from_buffer(bytearray(size.value)) if private else b" " * size.value
    assert nvrtc.nvrtcGetProgramLog(program, log) == 0
)py";

constexpr char kRun[] = R"py(
import io, sys, torch
from collections import OrderedDict
sys.path.insert(0, folder)
import reader
if read:
    reader.compile_kernel(library, bool(private))
saved = OrderedDict((f"layer.{i}", torch.full((3, 5), i + 0.5)) for i in range(10))
buffer = io.BytesIO()
torch.save(saved, buffer)
buffer.seek(0)
loaded = torch.load(buffer, weights_only=False)
seen = "intact" if all(torch.equal(loaded[k], saved[k]) for k in saved) else "wrong values"
)py";

class BytecodeCacheHidesDamage : public PythonTest {
 protected:
  void SetUp() override {
    PythonTest::SetUp();
    if (IsSkipped()) return;
    if (!nvrtc().reason.empty()) GTEST_SKIP() << nvrtc().reason;
    const char* parent = std::getenv("TMPDIR");
    folder = std::string(parent && *parent ? parent : "/tmp") + "/recapture-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    std::ofstream(folder + "/reader.py") << kModule;
  }
  void TearDown() override {
    if (!folder.empty()) remove(folder);
  }

  // Not std::filesystem: some LibTorch libraries export parts of it that do not work in other programs.
  static void remove(const std::string& tree) {
    const auto one = [](const char* path, const struct stat*, int, FTW*) { return std::remove(path); };
    nftw(tree.c_str(), one, 8, FTW_DEPTH | FTW_PHYS);
  }

  // Imports the module in a fresh interpreter, has it read the log, then saves and loads ten tensors.
  std::string run() {
    const Variables given = {{"folder", folder}, {"library", nvrtc().path}, {"read", read}, {"private", buffer}};
    const std::string seen = python_in_child(kRun, given, environment);
    return seen == "TypeError: 'tuple' object is not callable" ? "broken" : seen;
  }
  void delete_cache() { remove(folder + "/__pycache__"); }

  std::string folder;
  std::string read = "yes", buffer = "";
  // What the outer environment says about the cache must not decide here.
  Variables environment = {{"PYTHONDONTWRITEBYTECODE", ""}, {"PYTHONPYCACHEPREFIX", ""}};
};

TEST_F(BytecodeCacheHidesDamage, ControlWithoutLog) {
  read = "";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(), "intact");
  environment["PYTHONDONTWRITEBYTECODE"] = "1";
  delete_cache();
  EXPECT_EQ(run(), "intact");
  EXPECT_NE(access((folder + "/__pycache__").c_str(), F_OK), 0);
}

// The cause by itself: the object that a one-byte read returns is the compiled constant and not the unmarshalled one.
TEST_F(BytecodeCacheHidesDamage, ControlOnlyCompiledConstantIsShared) {
  EXPECT_EQ(python_in_child(R"py(
import io, marshal
code = compile('b" " * 1', "<constant>", "eval")
shared = io.BytesIO(b" x").read(1)
seen = eval(code) is shared, eval(marshal.loads(marshal.dumps(code))) is shared
)py"),
            "(True, False)");
}

TEST_F(BytecodeCacheHidesDamage, ReproducesOnFirstRunAlone) {
  read = "";
  TRIGGER(read = "yes");
  const std::string first = run(), second = run();
  delete_cache();
  const std::string third = run(), fourth = run();
  REPRODUCES(first + ", " + second + "; cache deleted: " + third + ", " + fourth,
             "broken, intact; cache deleted: broken, intact", "intact, intact; cache deleted: intact, intact");
}

TEST_F(BytecodeCacheHidesDamage, ReproducesInEveryRunWithoutCache) {
  TRIGGER(environment["PYTHONDONTWRITEBYTECODE"] = "1");
  const std::string first = run(), second = run(), third = run();
  REPRODUCES(first + ", " + second + ", " + third, "broken, broken, broken", "broken, intact, intact");
}

TEST_F(BytecodeCacheHidesDamage, FixPrivateBuffer) {
  REMEDY(buffer = "yes");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(), "intact");
  environment["PYTHONDONTWRITEBYTECODE"] = "1";
  delete_cache();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run(), "intact");
}

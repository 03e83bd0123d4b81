// In Python, a torch.compile function called for the first time in a capture fails.
//
// The document's program. The first call compiles. Dynamo saves the generator's state before and restores it after,
// which a capture refuses up to 2.9, and wraps the refusal in an error of its own. No CUDA call is involved, and a
// compiler backend that generates no code, for which neither Triton nor a C compiler is needed, fails in the same way.
//
// Alone:  g++ cases/python/compiled_function_in_python_capture.cpp $(tools/libtorch --flags) -o compiled_function_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, the first call of a compiled function fails in a capture",
    .sources = {{"capture failures", "torch.compile During Graph Capture"}},
    .documented =
        "torch._dynamo.exc.InternalTorchDynamoError: RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during "
        "CUDA graph capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"torch.compile", "generators"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 180,
    .fixes = {{"FixWarmUp",
               "Call the torch.compile function once with the same inputs before the capture, so that it is already "
               "compiled."},
              {"FixWarmUpWithoutInductor",
               "Call the function once before the capture even with torch.compile(backend='eager'), because Dynamo "
               "still traces it."}},
};

class CompiledFunctionInPythonCapture : public PythonProgramTest {
 protected:
  // Inductor generates a Triton kernel, and Triton compiles a C module that launches it.
  std::string missing() {
    return python(R"py(
import importlib, os, shutil, sys, sysconfig
def can_import(module):
    try:
        return importlib.import_module(module)
    except ImportError:  # Triton itself, or what it imports: setuptools, up to the Triton of 2.6.
        return None
seen = ", ".join(what for what, found in {
    "Triton": can_import("triton.compiler.compiler"),
    "a C compiler": os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"),
    "Python.h": os.path.exists(sysconfig.get_path("include") + "/Python.h"),
}.items() if not found)
)py");
  }

  std::string with(const std::string& compile, const std::string& warm_up) {
    return run(R"py(
import os
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # No compiler processes.
import torch

{compile}
def func(x):
    return x**2 + 3*x + 5

x = torch.randn(8, device="cuda")
graph = torch.cuda.CUDAGraph()
{warm_up}
with Outcome() as seen:
    with torch.cuda.graph(graph):
        y = func(x)
if str(seen) == "ok > ok":
    for value in (2, 3):
        x.fill_(value)
        graph.replay()
        seen = f"{seen} {y.unique().tolist()}"
)py",
               {{"compile", compile}, {"warm_up", warm_up}});
  }

  const std::string kDocumented =
      "InternalTorchDynamoError: RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph "
      "capture* > ok";
  const std::string kHealthy = "ok > ok [15.0] [23.0]";
};

TEST_F(CompiledFunctionInPythonCapture, ControlNotCompiled) { EXPECT_EQ(with("", "pass"), kHealthy); }

TEST_F(CompiledFunctionInPythonCapture, Reproduces) {
  if (const std::string what = missing(); !what.empty()) GTEST_SKIP() << "torch.compile needs " << what;
  std::string warm_up = "pass";
  WITHOUT_TRIGGER(warm_up = "func(x)");
  REPRODUCES(with("@torch.compile", warm_up), kDocumented, kHealthy);
}

TEST_F(CompiledFunctionInPythonCapture, ReproducesWithoutInductor) {
  std::string warm_up = "pass";
  WITHOUT_TRIGGER(warm_up = "func(x)");
  REPRODUCES(with("@torch.compile(backend='eager')", warm_up), kDocumented, kHealthy);
}

TEST_F(CompiledFunctionInPythonCapture, FixWarmUp) {
  if (const std::string what = missing(); !what.empty()) GTEST_SKIP() << "torch.compile needs " << what;
  std::string warm_up = "pass";
  REMEDY(warm_up = "func(x)");
  EXPECT_EQ(with("@torch.compile", warm_up), kHealthy);
}

TEST_F(CompiledFunctionInPythonCapture, FixWarmUpWithoutInductor) {
  if (breaks_remedies() && capture_may_read_rng_state()) {
    NOT_APPLICABLE("this release needs no remedy: a capture may read the generator's state");
  }
  std::string warm_up = "pass";
  REMEDY(warm_up = "func(x)");
  EXPECT_EQ(with("@torch.compile(backend='eager')", warm_up), kHealthy);
}

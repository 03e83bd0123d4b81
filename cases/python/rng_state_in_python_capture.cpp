// In Python, torch.cuda.get_rng_state() and set_rng_state() are refused in a capture.
//
// The document's program. Both are fine in the warm-up. In the capture the seed and the offset would be read and
// written once, at capture time, and no replay would do it again, so LibTorch refuses; the capture itself goes on.
// From 2.10 on the state may be read, and set if the seed stays the same.
//
// Alone:  g++ cases/python/rng_state_in_python_capture.cpp $(ci/libtorch --flags) -o rng_state_in_python_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, reading or setting the GPU generator's state in a capture is refused",
    .sources = {{"capture failures", "RNG State Operations: Use Graph-Safe APIs"}, {"upstream", "pytorch#162505"}},
    .documented =
        "RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture; RuntimeError: Please "
        "ensure to utilize the CUDAGeneratorImpl::set_state_index method during capturing",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixGraphSafeState",
               "Use a torch.Generator registered by graph.register_generator_state(), and its graphsafe_get_state() "
               "and graphsafe_set_state()."}},
};

using RngStateInPythonCapture = PythonProgramTest;

constexpr char kProgram[] = R"py(
import torch
graph = torch.cuda.CUDAGraph()
for i in range(2):
    rng_state = torch.cuda.get_rng_state()
    torch.cuda.set_rng_state(rng_state)
    x = torch.randint(1024, (1,), device="cuda")
with Outcome() as seen:
    with torch.cuda.graph(graph):
        {line}
        x = torch.randint(1024, (1,), device="cuda")
)py";

TEST_F(RngStateInPythonCapture, Control) { EXPECT_EQ(run(kProgram, {{"line", "pass"}}), "ok > ok"); }

TEST_F(RngStateInPythonCapture, ReproducesGet) {
  std::string line = "pass";
  TRIGGER(line = "rng_state = torch.cuda.get_rng_state()");
  REPRODUCES(run(kProgram, {{"line", line}}),
             "RuntimeError: Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture* > ok", "ok > ok");
}

TEST_F(RngStateInPythonCapture, ReproducesSet) {
  std::string line = "pass";
  TRIGGER(line = "torch.cuda.set_rng_state(rng_state)");
  REPRODUCES(run(kProgram, {{"line", line}}),
             "RuntimeError: Please ensure to utilize the CUDAGeneratorImpl::set_state_index method during "
             "capturing* > ok",
             "ok > ok");
}

TEST_F(RngStateInPythonCapture, FixGraphSafeState) {
  if (value_of("hasattr(torch.Generator, 'graphsafe_get_state')") != "True") {
    NOT_APPLICABLE("this release has no graph-safe generator state");
  }
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
gen = torch.Generator(device="cuda")
gen.manual_seed(1234)
graph.register_generator_state(gen)
with torch.cuda.graph(graph):
    state = gen.graphsafe_get_state()
    gen.graphsafe_set_state(state)
    x = torch.randint(1024, (1,), generator=gen, device="cuda")
seen = []
for i in range(4):
    graph.replay()
    seen.append(x.item())
)py"),
            "[840, 565, 216, 574]");
}

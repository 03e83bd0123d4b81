// In Python, torch.cuda.get_rng_state() and set_rng_state() are refused in a capture.
//
// The document's program. Both work in the warm-up. In a capture they would read and write the seed and the offset
// once, when the graph is captured, and not at each replay. So LibTorch refuses them, and the capture itself goes on.
// From 2.10 on the state may be read, and set if the seed stays the same.
//
// Alone:  g++ cases/python/rng_state_in_python_capture.cpp $(tools/libtorch --flags) -o rng_state_in_python_capture

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
    .tags = {"generators"},
    .features = {"generators"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixGraphSafeState",
               "Use graphsafe_get_state() and graphsafe_set_state() of torch.Generators that "
               "graph.register_generator_state() has registered."}},
};

using RngStateInPythonCapture = PythonProgramTest;

constexpr char kProgram[] = R"py(
import torch
graph = torch.cuda.CUDAGraph()
torch.cuda.manual_seed(1234)
for i in range(2):
    rng_state = torch.cuda.get_rng_state()
    torch.cuda.set_rng_state(rng_state)
    x = torch.randint(1024, (1,), device="cuda")
with Outcome() as seen:
    with torch.cuda.graph(graph):
        {line}
        x = torch.randint(1024, (1,), device="cuda")
)py";

TEST_F(RngStateInPythonCapture, Control) {
  EXPECT_EQ(run(std::string(kProgram) + R"py(
for i in range(2):
    graph.replay()
    seen = f"{seen} {x.item()}"
)py",
                {{"line", "pass"}}),
            "ok > ok 216 574");
}

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
  std::string safe = "";
  REMEDY(safe = "graphsafe_");
  EXPECT_EQ(run(R"py(
import torch
graph = torch.cuda.CUDAGraph()
gen, other, eager = [torch.Generator(device="cuda") for _ in range(3)]
gen.manual_seed(1234)
other.manual_seed(5678)
eager.manual_seed(5678)
expected = [torch.randint(1024, (1,), generator=eager, device="cuda").item() for i in range(4)]
graph.register_generator_state(gen)
graph.register_generator_state(other)
with torch.cuda.graph(graph):
    state = gen.{safe}get_state()
    gen.{safe}set_state(other.{safe}get_state())
    y = torch.randint(1024, (1,), generator=gen, device="cuda")
    gen.{safe}set_state(state)
    x = torch.randint(1024, (1,), generator=gen, device="cuda")
drawn, others = [], []
for i in range(4):
    graph.replay()
    drawn.append(x.item())
    others.append(y.item())
seen = drawn, others == expected
)py",
                {{"safe", safe}}),
            "([840, 565, 216, 574], True)");
}

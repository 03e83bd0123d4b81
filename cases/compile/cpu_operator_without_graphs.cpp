// torch.compile(mode="reduce-overhead") uses no CUDA graph for a function with an operator on the CPU.
//
// Without graph_partition, one such operator leaves the whole function without a graph, and one line of log reports it.
// With graph_partition, the default from 2.9 on, Inductor splits the function there and records a graph for each part
// on the GPU. Only 2.9 and 2.10 warn of the split, and none of the copies between the parts, which wait for the GPU in
// each call.
//
// Alone:  g++ cases/compile/cpu_operator_without_graphs.cpp $(tools/libtorch --flags) -o cpu_operator_without_graphs

#include "fixtures/python/compiled_settings.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function with an operator on the CPU runs without CUDA graphs, or in parts",
    .sources = {{"CUDAGraph Trees", "Reasons for Skipping CUDAGraph"}},
    .documented = "skipping cudagraphs due to cpu device",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "host reads"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effect = Effect::Warns,
    .effects = {{"ReproducesInParts", Effect::Works}},
    .fixes = {{"FixStayOnTheGpu", "Keep every tensor of the compiled function on the GPU."},
              {"FixComputeOutside",
               "Split the function: compile the parts that stay on the GPU, and call the operator on the CPU between "
               "them."}},
};

class CpuOperatorWithoutGraphs : public CompiledSettingsTest {
 protected:
  std::string five_calls(const std::string& setting, const std::string& function) {
    return compiled(R"py(
graph_partition({setting})
{function}

right = True
for value in (1, 2, 3, 4, 5):
    torch.compiler.cudagraph_mark_step_begin()
    y = step(torch.full((8,), float(value), device="cuda"))
    right &= y.tolist() == [(value + 1.0) * 6 * n for n in range(1, 9)]
seen = f"{'right' if right else 'wrong'}, {counts()}, {warning()}"
)py",
                    {{"setting", setting}, {"function", function}});
  }

  // Inductor leaves cumsum() on the CPU to ATen: no C++ compiler is needed.
  const std::string kOnTheCpu = R"py(
@torch.compile(mode="reduce-overhead")
def step(x):
    y = torch.cumsum((x + 1).cpu(), 0)
    return y.cuda() * 6)py";
  const std::string kOnTheGpu = R"py(
@torch.compile(mode="reduce-overhead")
def step(x):
    return torch.cumsum(x + 1, 0) * 6)py";
  const std::string kSplit = R"py(
@torch.compile(mode="reduce-overhead")
def before(x):
    return x + 1

@torch.compile(mode="reduce-overhead")
def after(x):
    return x * 6

def step(x):
    return after(torch.cumsum(before(x).cpu(), 0).cuda()))py";
};

constexpr char kGraph[] = "right, 1 graphs, 4 launches, no warning";

TEST_F(CpuOperatorWithoutGraphs, Control) { EXPECT_EQ(five_calls("False", kOnTheGpu), kGraph); }

TEST_F(CpuOperatorWithoutGraphs, Reproduces) {
  std::string function = kOnTheGpu;
  TRIGGER(function = kOnTheCpu);
  REPRODUCES(five_calls("False", function), "right, 0 graphs, 0 launches, skipping cudagraphs due to *cpu*", kGraph);
}

TEST_F(CpuOperatorWithoutGraphs, ReproducesInParts) {
  if (!has_graph_partition()) NOT_APPLICABLE("this release has no graph_partition");
  std::string function = kOnTheGpu;
  TRIGGER(function = kOnTheCpu);
  REPRODUCES(five_calls("True", function), "right, 2 graphs, 8 launches, no warning", kGraph);
}

TEST_F(CpuOperatorWithoutGraphs, FixStayOnTheGpu) {
  std::string function = kOnTheCpu;
  REMEDY(function = kOnTheGpu);
  EXPECT_EQ(five_calls("False", function), kGraph);
}

TEST_F(CpuOperatorWithoutGraphs, FixComputeOutside) {
  std::string function = kOnTheCpu;
  REMEDY(function = kSplit);
  EXPECT_EQ(five_calls("False", function), "right, 2 graphs, 8 launches, no warning");
}

// torch.compile(mode="reduce-overhead") uses no CUDA graph for a function that reads a value on the host.
//
// By default item() splits a compiled function in two. With torch._dynamo.config.capture_scalar_outputs it stays in the
// function as aten._local_scalar_dense, which is on the list of operators that are incompatible with CUDA graphs.
// Without graph_partition the whole function then runs without a graph, and one line of log reports it. With
// graph_partition, the default from 2.9 on, Inductor splits the function at the operator and passes the value to the
// part behind it, which is recorded from 2.10 on. A whole number that is added to a tensor of floats arrives there as a
// float, which CUDAGraph Trees do not accept: recording that part fails by an assertion, which has no message before
// 2.15.
//
// Alone:  g++ cases/compile/host_value_without_graphs.cpp $(tools/libtorch --flags) -o host_value_without_graphs

#include "fixtures/python/compiled_settings.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function that reads a value on the host runs without CUDA graphs",
    .sources = {{"CUDAGraph Trees", "Reasons for Skipping CUDAGraph"}},
    .documented =
        "skipping cudagraphs due to disabling cudagraphs due to incompatible op aten._local_scalar_dense.default",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "host reads"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effect = Effect::Warns,
    .effects = {{"ReproducesInParts", Effect::Raises}},
    .fixes = {{"FixStayOnTheGpu", "Compute with the CUDA tensor instead of the value that item() returns."},
              {"FixReadBefore", "Call item() before the compiled function, and pass the value as a tensor."}},
};

class HostValueWithoutGraphs : public CompiledSettingsTest {
 protected:
  std::string calls(const std::string& setting, const std::string& times, const std::string& expression,
                    const std::string& argument = "n") {
    return compiled(R"py(
torch._dynamo.config.capture_scalar_outputs = True
graph_partition({setting})

@torch.compile(mode="reduce-overhead")
def step(x, n):
    return x * 2 + {expression}

right = True
try:
    for value in (1, 2, 3, 4, 5):
        for time in range({times}):
            n = torch.tensor(value, device="cuda")
            y = step(torch.full((8,), 10.0, device="cuda"), {argument})
            right &= y.tolist() == [20.0 + value] * 8
    seen = f"{'right' if right else 'wrong'}, {counts()}, {warning()}"
except AssertionError as assertion:
    seen = raised_in(assertion)
)py",
                    {{"setting", setting}, {"times", times}, {"expression", expression}, {"argument", argument}});
  }

  const std::string kOnTheHost = "n.item()", kOnTheGpu = "n";
};

constexpr char kGraph[] = "right, 1 graphs, 4 launches, no warning";

TEST_F(HostValueWithoutGraphs, Control) { EXPECT_EQ(calls("False", "1", kOnTheGpu), kGraph); }

TEST_F(HostValueWithoutGraphs, Reproduces) {
  std::string expression = kOnTheGpu;
  TRIGGER(expression = kOnTheHost);
  REPRODUCES(calls("False", "1", expression),
             "right, 0 graphs, 0 launches, skipping cudagraphs due to disabling cudagraphs due to incompatible op "
             "aten._local_scalar_dense*",
             kGraph);
}

// Each value twice: once for a warm-up, once for a recording.
TEST_F(HostValueWithoutGraphs, ReproducesInParts) {
  if (!has_graph_partition()) NOT_APPLICABLE("this release has no graph_partition");
  std::string expression = kOnTheGpu;
  TRIGGER(expression = kOnTheHost);
  REPRODUCES(calls("True", "2", expression), "AssertionError in _allocate_and_copy_recording_inputs",
             "right, 1 graphs, 9 launches, no warning");
}

TEST_F(HostValueWithoutGraphs, FixStayOnTheGpu) {
  std::string expression = kOnTheHost;
  REMEDY(expression = kOnTheGpu);
  EXPECT_EQ(calls("False", "1", expression), kGraph);
}

TEST_F(HostValueWithoutGraphs, FixReadBefore) {
  std::string expression = kOnTheHost, argument = "n";
  REMEDY(expression = kOnTheGpu);
  REMEDY(argument = "torch.full((), n.item(), device='cuda')");
  EXPECT_EQ(calls("False", "1", expression, argument), kGraph);
}

// With dynamic shapes, torch.compile(mode="reduce-overhead") records one CUDA graph for each size of its inputs.
//
// The compiled code serves all sizes; the graphs do not. Ten sizes make ten graphs, and each size costs a warm-up and a
// recording. One warning comes, after the ninth size (the 51st in 2.6). cudagraph_skip_dynamic_graphs, which the
// warning names, misses an operator with a dynamic input and a static result from 2.10 on: median() of all rows is
// recorded for each number of rows. 2.10.0 takes the graph of another number, and the call raises.
//
// Alone:  g++ cases/compile/graph_for_each_size.cpp $(tools/libtorch --flags) -o graph_for_each_size

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function records one CUDA graph for each size of its inputs",
    .sources = {{"CUDAGraph Trees", "Dynamic Shape Support"},
                {"upstream", "pytorch#128424"},
                {"upstream", "pytorch#196385"}},
    .documented =
        "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size. Recording too many "
        "CUDAGraphs may lead to extra overhead.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 300,
    .effect = Effect::Leaks,
    .fixes = {{"FixPadding", "Pad the inputs to a few sizes."},
              {"FixSkipDynamicGraphs",
               "Set torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True if sizes change all the time, "
               "unless an operator's result has a fixed size."},
              {"FixCaptureSizes",
               "Name the sizes that are worth a graph in torch._inductor.config.triton.cudagraph_capture_sizes, where "
               "the release has it."},
              {"FixRerecordLimit",
               "Set torch._inductor.config.triton.cudagraph_dynamic_shape_rerecord_limit, where the release has it."}},
};

class GraphForEachSize : public CompiledTest {
 protected:
  // Three calls with each size. `shape` is the size of the tensor that the function gets.
  std::string doubled(const std::string& sizes, const std::string& config = "pass", const std::string& shape = "size") {
    return compiled(R"py(
triton = __import__("torch._inductor.config")._inductor.config.triton
triton.cudagraph_dynamic_shape_warn_limit = 8
{config}
@torch.compile(mode="reduce-overhead", dynamic=True)
def double(x):
    return x * 2

right = True
for size in {sizes}:
    for value in (1, 2, 3):
        x = torch.full(({shape},), float(value), device="cuda")
        right &= double(x)[:size].tolist() == [2.0 * value] * size
seen = f"{'right' if right else 'wrong'}, {counts()}, {warning()}"
)py",
                    {{"sizes", sizes}, {"config", config}, {"shape", shape}});
  }

  // The report's program.
  std::string medians(const std::string& mode) {
    return compiled(R"py(
__import__("torch._inductor.config")._inductor.config.triton.cudagraph_skip_dynamic_graphs = True

@torch.compile(mode="{mode}", fullgraph=True)
def scale(rows, weight):
    return torch.median(rows) * (weight + weight)

weight = torch.ones(64, device="cuda")
right = True
for n in (10, 13, 16, 19, 22) * 2:
    rows = torch.full((n, 64), float(n), device="cuda")
    torch._dynamo.mark_dynamic(rows, 0)
    right &= scale(rows, weight).tolist() == [2.0 * n] * 64
seen = f"{'right' if right else 'wrong'}, {counts()}"
)py",
                    {{"mode", mode}});
  }

  bool has(const std::string& setting) {
    return value_of("hasattr(__import__('torch._inductor.config')._inductor.config.triton, '" + setting + "')") ==
           "True";
  }

  const std::string kTen = "range(16, 176, 16)", kOne = "[16] * 10";
};

constexpr char kOneGraph[] = "right, 1 graphs, 29 launches, no warning";

TEST_F(GraphForEachSize, Control) { EXPECT_EQ(doubled(kOne), kOneGraph); }

TEST_F(GraphForEachSize, Reproduces) {
  std::string sizes = kOne;
  TRIGGER(sizes = kTen);
  REPRODUCES(doubled(sizes),
             "right, 10 graphs, 20 launches, CUDAGraph supports dynamic shapes by recording a new graph for each "
             "distinct input size.*",
             kOneGraph);
}

TEST_F(GraphForEachSize, ReproducesWithSkipDynamicGraphs) {
  std::string mode = "default";
  TRIGGER(mode = "reduce-overhead");
  REPRODUCES(medians(mode), "right, 5 graphs, 5 launches", "right, 0 graphs, 0 launches");
}

TEST_F(GraphForEachSize, FixPadding) {
  std::string shape = "size";
  REMEDY(shape = "160");
  EXPECT_EQ(doubled(kTen, "pass", shape), kOneGraph);
}

TEST_F(GraphForEachSize, FixSkipDynamicGraphs) {
  std::string config = "pass";
  REMEDY(config = "triton.cudagraph_skip_dynamic_graphs = True");
  EXPECT_THAT(doubled(kTen, config), ::testing::StartsWith("right, 0 graphs, 0 launches"));
}

TEST_F(GraphForEachSize, FixCaptureSizes) {
  if (!has("cudagraph_capture_sizes")) NOT_APPLICABLE("this release has no cudagraph_capture_sizes");
  std::string config = "pass";
  REMEDY(config = "triton.cudagraph_capture_sizes = (16, 32)");
  EXPECT_THAT(doubled(kTen, config), ::testing::StartsWith("right, 2 graphs, 4 launches"));
}

TEST_F(GraphForEachSize, FixRerecordLimit) {
  if (!has("cudagraph_dynamic_shape_rerecord_limit")) {
    NOT_APPLICABLE("this release has no cudagraph_dynamic_shape_rerecord_limit");
  }
  std::string config = "pass";
  REMEDY(config = "triton.cudagraph_dynamic_shape_rerecord_limit = 2");
  EXPECT_THAT(doubled(kTen, config), ::testing::StartsWith("right, 2 graphs, 4 launches"));
}

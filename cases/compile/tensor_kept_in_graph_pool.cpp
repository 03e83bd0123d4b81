// A compiled function fails if a custom operator that it calls keeps a tensor.
//
// Within a function compiled with mode="reduce-overhead" every allocation comes from the memory pool of CUDAGraph
// Trees. Everything but the outputs must be free again when the function ends. A cache, workspace or counter that a
// custom operator allocates in its first call and keeps is not free, so the first call raises. PyTorch checks this
// because a later recording could otherwise reuse the memory.
//
// Alone:  g++ cases/compile/tensor_kept_in_graph_pool.cpp $(tools/libtorch --flags) -o tensor_kept_in_graph_pool

#include "fixtures/python/compiled_settings.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function fails if a custom operator in it keeps a tensor",
    .sources = {{"PyTorch source", "torch/_inductor/cudagraph_trees.py: check_memory_pool"}},
    .documented = "RuntimeError: Detected 1 tensor(s) in the cudagraph pool not tracked as outputs.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "extensions", "memory pools"},
    .features = {"torch.compile", "extensions"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes =
        {{"FixAllocateBefore",
          "Call the operator once outside the compiled function, so that what it keeps lies "
          "outside the pool."},
         {"FixTagTheOperator",
          "Tag the operator with torch._C.Tag.cudagraph_unsafe, where the release has it: Inductor then leaves it out "
          "of the graphs."},
         {"FixNoCudaGraphs", "Compile with mode='max-autotune-no-cudagraphs' or without a mode."}},
};

class TensorKeptInGraphPool : public CompiledSettingsTest {
 protected:
  std::string five_calls(const std::string& keep, const std::string& before = "pass", const std::string& tags = "",
                         const std::string& mode = "reduce-overhead") {
    return compiled(R"py(
kept = []

@torch.library.custom_op("recapture::scale", mutates_args=(){tags})
def scale(x: torch.Tensor) -> torch.Tensor:
    factor = torch.full_like(x, 2.0) if not kept else kept[0]
    {keep}
    return x * factor

@scale.register_fake
def _(x):
    return torch.empty_like(x)

@torch.compile(mode="{mode}")
def step(x):
    return scale(x + 1) + 1

{before}
right = True
for value in (1, 2, 3, 4, 5):
    y = step(torch.full((8,), float(value), device="cuda"))
    right &= y.tolist() == [2.0 * value + 3] * 8
seen = f"{'right' if right else 'wrong'}, {counts()}"
)py",
                    {{"keep", keep}, {"before", before}, {"tags", tags}, {"mode", mode}});
  }

  const std::string kKeep = "kept[:] = [factor]";
};

constexpr char kGraph[] = "right, 1 graphs, 4 launches";

TEST_F(TensorKeptInGraphPool, Control) { EXPECT_EQ(five_calls("pass"), kGraph); }

TEST_F(TensorKeptInGraphPool, Reproduces) {
  std::string keep = "pass";
  TRIGGER(keep = kKeep);
  REPRODUCES(five_calls(keep), "RuntimeError: Detected 1 tensor(s) in the cudagraph pool not tracked as outputs.*",
             kGraph);
}

TEST_F(TensorKeptInGraphPool, FixAllocateBefore) {
  std::string before = "pass";
  REMEDY(before = "scale(torch.ones(8, device='cuda'))");
  EXPECT_EQ(five_calls(kKeep, before), kGraph);
}

// A graph for what comes before the operator, and one for what follows.
TEST_F(TensorKeptInGraphPool, FixTagTheOperator) {
  if (value_of("hasattr(torch._C.Tag, 'cudagraph_unsafe')") != "True") {
    NOT_APPLICABLE("this release has no torch._C.Tag.cudagraph_unsafe");
  }
  std::string tags;
  REMEDY(tags = ", tags=(torch._C.Tag.cudagraph_unsafe,)");
  EXPECT_EQ(five_calls(kKeep, "graph_partition(True)", tags), "right, 2 graphs, 8 launches");
}

TEST_F(TensorKeptInGraphPool, FixNoCudaGraphs) {
  std::string mode = "reduce-overhead";
  REMEDY(mode = "max-autotune-no-cudagraphs");
  EXPECT_EQ(five_calls(kKeep, "pass", "", mode), "right, 0 graphs, 0 launches");
}

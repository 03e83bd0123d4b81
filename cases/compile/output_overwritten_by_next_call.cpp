// The next call of a function compiled with mode="reduce-overhead" overwrites its earlier outputs.
//
// Outputs lie in the graph's memory. Each call of the compiled function begins a new generation and reuses that memory.
// PyTorch marks the outputs of a warm-up or a recording, so reading them later raises the documented error. It does not
// mark the outputs of a replay: every replay returns the same tensor, and the kept one silently has the new values.
// torch.compiler.cudagraph_mark_step_begin(), which the message advises, begins a generation too. It helps where one
// step calls several compiled functions (two_compiled_functions_in_a_row), but not here.
//
// Alone:  g++ cases/compile/output_overwritten_by_next_call.cpp $(tools/libtorch --flags) -o output_overwritten_by_next_call

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, an output of a compiled function is overwritten by the function's next call",
    .sources = {{"CUDAGraph Trees", "Limitations"}, {"upstream", "pytorch#170604"}},
    .documented =
        "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effects = {{"ReproducesInReplays", Effect::SilentlyWrong}},
    .fixes =
        {{"FixClone", "Clone the output outside the compiled function before its next call."},
         {"FixCloneByPyTorch",
          "Set torch._inductor.config.triton.cudagraph_trees_generation_cloning = 'user_visible', where the release "
          "has it."}},
};

class OutputOverwrittenByNextCall : public CompiledTest {
 protected:
  // The outputs of two calls, both read after the second. `earlier` has the inputs of the calls before them.
  std::string outputs(const std::string& compile, const std::string& earlier, const std::string& keep = "",
                      const std::string& begin = "pass") {
    return compiled(R"py(
{compile}
def my_model(x):
    return x * 2

def call(value):
    {begin}
    return my_model(torch.full((8,), float(value), device="cuda"))

for value in {earlier}:
    call(value)
y1 = call(4)
{keep}
y2 = call(5)
seen = f"{y1.tolist()[0]} {y2.tolist()[0]}"
)py",
                    {{"compile", compile}, {"earlier", earlier}, {"keep", keep}, {"begin", begin}});
  }

  const std::string kPlain = "@torch.compile";
  const std::string kGraphs = "@torch.compile(mode='reduce-overhead')";
  const std::string kNone = "()", kRecorded = "(1, 2, 3)";
};

constexpr char kOverwritten[] =
    "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run*";
constexpr char kBoth[] = "8.0 10.0";

TEST_F(OutputOverwrittenByNextCall, Control) { EXPECT_EQ(outputs(kPlain, kRecorded), kBoth); }

TEST_F(OutputOverwrittenByNextCall, Reproduces) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(outputs(compile, kNone), kOverwritten, kBoth);
}

TEST_F(OutputOverwrittenByNextCall, ReproducesMaxAutotune) {
  std::string compile = kPlain;
  TRIGGER(compile = "@torch.compile(mode='max-autotune')");
  REPRODUCES(outputs(compile, kNone), kOverwritten, kBoth);
}

TEST_F(OutputOverwrittenByNextCall, ReproducesWithMarkedSteps) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(outputs(compile, kNone, "", "torch.compiler.cudagraph_mark_step_begin()"), kOverwritten, kBoth);
}

TEST_F(OutputOverwrittenByNextCall, ReproducesInReplays) {
  std::string compile = kPlain;
  TRIGGER(compile = kGraphs);
  REPRODUCES(outputs(compile, kRecorded), "10.0 10.0", kBoth);
}

TEST_F(OutputOverwrittenByNextCall, FixClone) {
  std::string keep;
  REMEDY(keep = "y1 = y1.clone()");
  EXPECT_EQ(outputs(kGraphs, kRecorded, keep), kBoth);
}

TEST_F(OutputOverwrittenByNextCall, FixCloneByPyTorch) {
  if (value_of("hasattr(__import__('torch._inductor.config')._inductor.config.triton, "
               "'cudagraph_trees_generation_cloning')") != "True") {
    NOT_APPLICABLE("this release has no cudagraph_trees_generation_cloning");
  }
  std::string compile = kGraphs;
  REMEDY(compile = "torch._inductor.config.triton.cudagraph_trees_generation_cloning = 'user_visible'\n" + kGraphs);
  EXPECT_EQ(outputs(compile, kRecorded), kBoth);
}

// A function compiled with mode="reduce-overhead" cannot read the output of another such function.
//
// Each call of a compiled function begins a new generation of CUDAGraph Trees, which frees the outputs of the last one.
// So g(f(x)) fails: calling g frees the output of f, which g then reads. A model whose blocks are compiled one by one
// fails in its first step. With torch.compiler.cudagraph_mark_step_begin() before each step, all calls of the step
// belong to one generation. In 2.1, which does not have that call, reading a freed output can end the process with
// signal 11.
//
// Alone:  g++ cases/compile/two_compiled_functions_in_a_row.cpp $(tools/libtorch --flags) -o two_compiled_functions_in_a_row

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, the output of a compiled function is freed before another one reads it",
    .sources = {{"upstream", "pytorch#160281"}, {"upstream", "pytorch#152887"}, {"CUDAGraph Trees", "Limitations"}},
    .documented =
        "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "several graphs"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes = {{"FixMarkSteps",
               "Call torch.compiler.cudagraph_mark_step_begin() once before each step, not between its functions."},
              {"FixClone", "Clone the first function's output before you pass it to the second."},
              {"FixOneFunction", "Compile one function that calls both."}},
};

class TwoCompiledFunctionsInARow : public CompiledTest {
 protected:
  std::string five_steps(const std::string& step, const std::string& begin = "pass") {
    return compiled(R"py(
def add(x):
    return x + 1

def double(x):
    return x * 2

f = torch.compile(add, mode="reduce-overhead")
g = torch.compile(double, mode="reduce-overhead")
fg = torch.compile(lambda x: double(add(x)), mode="reduce-overhead")

seen = []
for value in (1, 2, 3, 4, 5):
    x = torch.full((8,), float(value), device="cuda")
    {begin}
    y = {step}
    seen.append(y.tolist()[0])
seen = f"{seen}, {counts()}"
)py",
                    {{"step", step}, {"begin", begin}});
  }

  const std::string kMark = "torch.compiler.cudagraph_mark_step_begin()";
};

constexpr char kOverwritten[] =
    "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run*";
constexpr char kTwoGraphs[] = "[4.0, 6.0, 8.0, 10.0, 12.0], 2 graphs, 8 launches";

// Both functions in each step, without the output of one in the other.
TEST_F(TwoCompiledFunctionsInARow, Control) { EXPECT_EQ(five_steps("g(x + 1)", "f(x)"), kTwoGraphs); }

TEST_F(TwoCompiledFunctionsInARow, Reproduces) {
  std::string step = "g(f(x).clone())";
  TRIGGER(step = "g(f(x))");
  REPRODUCES(five_steps(step), kOverwritten, kTwoGraphs);
}

// One function twice, like equal blocks of a model.
TEST_F(TwoCompiledFunctionsInARow, ReproducesWithOneFunctionTwice) {
  std::string step = "g(g(x).clone())";
  TRIGGER(step = "g(g(x))");
  REPRODUCES(five_steps(step), kOverwritten, "[4.0, 8.0, 12.0, 16.0, 20.0], 1 graphs, 9 launches");
}

TEST_F(TwoCompiledFunctionsInARow, FixMarkSteps) {
  std::string begin = "pass";
  REMEDY(begin = kMark);
  EXPECT_EQ(five_steps("g(f(x))", begin), kTwoGraphs);
}

TEST_F(TwoCompiledFunctionsInARow, FixClone) {
  std::string step = "g(f(x))";
  REMEDY(step = "g(f(x).clone())");
  EXPECT_EQ(five_steps(step), kTwoGraphs);
}

TEST_F(TwoCompiledFunctionsInARow, FixOneFunction) {
  std::string step = "g(f(x))";
  REMEDY(step = "fg(x)");
  EXPECT_EQ(five_steps(step), "[4.0, 6.0, 8.0, 10.0, 12.0], 1 graphs, 4 launches");
}

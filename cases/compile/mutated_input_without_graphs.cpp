// torch.compile(mode="reduce-overhead") uses no CUDA graph for a function that changes one of its inputs in place.
//
// A graph works on a copy of its inputs at fixed addresses, so a change would not reach the caller's tensor. The
// compiled code therefore runs without a graph in every call. Results are right, at the launch cost that the mode is
// meant to avoid, and one line of log is the only sign. Parameters, buffers and outputs of an earlier graph may be
// changed: their addresses are fixed.
//
// Alone:  g++ cases/compile/mutated_input_without_graphs.cpp $(tools/libtorch --flags) -o mutated_input_without_graphs

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function that changes an input in place runs without CUDA graphs",
    .sources = {{"CUDAGraph Trees", "Input Mutation Support"}, {"upstream", "pytorch#121861"}},
    .documented = "skipping cudagraphs due to mutated inputs",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effect = Effect::Warns,
    .fixes = {{"FixReturnTheNewValue",
               "Return the new value from the compiled function, and copy it into the tensor outside."},
              {"FixChangeAnOutput",
               "Change only what an earlier compiled function of the same step returned, and mark steps with "
               "torch.compiler.cudagraph_mark_step_begin()."}},
};

class MutatedInputWithoutGraphs : public CompiledTest {
 protected:
  std::string five_calls(const std::string& function, const std::string& call) {
    return compiled(R"py(
{function}

right = True
for value in (1, 2, 3, 4, 5):
    torch.compiler.cudagraph_mark_step_begin()
    x = torch.full((8,), float(value), device="cuda")
    {call}
    right &= x.tolist() == [value + 1.0] * 8 and y.tolist() == [2.0 * value + 2] * 8
seen = f"{'right' if right else 'wrong'}, {counts()}, {warning()}"
)py",
                    {{"function", function}, {"call", call}});
  }

  const std::string kInPlace = R"py(
@torch.compile(mode="reduce-overhead")
def step(x):
    x.add_(1)
    return x * 2)py";
  const std::string kReturned = R"py(
@torch.compile(mode="reduce-overhead")
def step(x):
    x = x + 1
    return x, x * 2)py";
  const std::string kCallInPlace = "y = step(x)", kCallAndCopy = "new, y = step(x); x.copy_(new)";
};

constexpr char kGraph[] = "right, 1 graphs, 4 launches, no warning";

TEST_F(MutatedInputWithoutGraphs, Control) { EXPECT_EQ(five_calls(kReturned, kCallAndCopy), kGraph); }

// A buffer of a module keeps its address.
TEST_F(MutatedInputWithoutGraphs, ControlBuffer) {
  EXPECT_EQ(compiled(R"py(
class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(8, device="cuda"))
    def forward(self, x):
        self.steps.add_(1)
        return x * self.steps

counter = torch.compile(Counter(), mode="reduce-overhead")
right = True
for value in (1, 2, 3, 4, 5):
    y = counter(torch.full((8,), 10.0, device="cuda"))
    right &= y.tolist() == [10.0 * value] * 8
seen = f"{'right' if right else 'wrong'}, {counts()}, {warning()}"
)py"),
            kGraph);
}

TEST_F(MutatedInputWithoutGraphs, Reproduces) {
  std::string function = kReturned, call = kCallAndCopy;
  TRIGGER(function = kInPlace; call = kCallInPlace);
  REPRODUCES(five_calls(function, call), "right, 0 graphs, 0 launches, skipping cudagraphs due to mutated inputs*",
             kGraph);
}

TEST_F(MutatedInputWithoutGraphs, FixReturnTheNewValue) {
  std::string function = kInPlace, call = kCallInPlace;
  REMEDY(function = kReturned; call = kCallAndCopy);
  EXPECT_EQ(five_calls(function, call), kGraph);
}

// Two functions, hence two graphs.
TEST_F(MutatedInputWithoutGraphs, FixChangeAnOutput) {
  const std::string both =
      "@torch.compile(mode='reduce-overhead')\ndef first(x):\n    return torch.relu(x)\n" + kInPlace;
  std::string call = "y = step(x)";
  REMEDY(call = "z = first(x); y = step(z); x = z.clone()");
  EXPECT_EQ(five_calls(both, call), "right, 2 graphs, 8 launches, no warning");
}

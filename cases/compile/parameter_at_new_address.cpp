// A compiled function records its CUDA graph again when a parameter gets new memory.
//
// Graphs read parameters at the addresses of the recording. PyTorch compares the addresses in each call and records the
// function again if one has changed, without a message. A program that gives parameters new memory in every step, by
// param.data = …, records in every step. Before 2.5 the call raises instead.
//
// Alone:  g++ cases/compile/parameter_at_new_address.cpp $(tools/libtorch --flags) -o parameter_at_new_address

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function records its CUDA graph again for each new address of a parameter",
    .sources = {{"CUDAGraph Trees", "Input Mutation Support"}, {"upstream", "pytorch#126822"}},
    .documented =
        "We check to make sure that these inputs are stable at runtime, and if they're not we will re-record.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "several graphs"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effect = Effect::Leaks,
    .fixes =
        {{"FixCopyIntoTheParameter", "Write new values into the parameter: param.copy_(value) under torch.no_grad()."},
         {"FixPassAsInput",
          "Pass a tensor whose address changes as an argument of the compiled function; its values are copied to a "
          "fixed address in each call."}},
};

class ParameterAtNewAddress : public CompiledTest {
 protected:
  std::string eight_steps(const std::string& update, const std::string& call = "scale(x)") {
    return compiled(R"py(
class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8, device="cuda"))
    def forward(self, x):
        return x * self.weight

module = Scale()
scale = torch.compile(module, mode="reduce-overhead")
multiply = torch.compile(lambda x, y: x * y, mode="reduce-overhead")
values = [torch.full((8,), float(value), device="cuda") for value in range(1, 9)]
right = True
with torch.no_grad():
    for step, value in enumerate(values, 1):
        {update}
        x = torch.full((8,), 3.0, device="cuda")
        y = {call}
        right &= y.tolist() == [3.0 * step] * 8
seen = f"{'right' if right else 'wrong'}, {counts()}, {warning()}"
)py",
                    {{"update", update}, {"call", call}});
  }

  const std::string kReplace = "module.weight.data = value", kCopy = "module.weight.copy_(value)";
};

constexpr char kOneGraph[] = "right, 1 graphs, 7 launches, no warning";

TEST_F(ParameterAtNewAddress, Control) { EXPECT_EQ(eight_steps(kCopy), kOneGraph); }

TEST_F(ParameterAtNewAddress, Reproduces) {
  std::string update = kCopy;
  TRIGGER(update = kReplace);
  REPRODUCES(eight_steps(update), "right, 7 graphs, 7 launches, no warning", kOneGraph);
}

TEST_F(ParameterAtNewAddress, FixCopyIntoTheParameter) {
  std::string update = kReplace;
  REMEDY(update = kCopy);
  EXPECT_EQ(eight_steps(update), kOneGraph);
}

TEST_F(ParameterAtNewAddress, FixPassAsInput) {
  std::string call = "scale(x)";
  REMEDY(call = "multiply(x, value)");
  EXPECT_EQ(eight_steps(kReplace, call), kOneGraph);
}

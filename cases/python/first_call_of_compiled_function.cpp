// The first call of a torch.compile function reads the generator's state and puts it back after compiling.
//
// That is why it fails in a capture, up to 2.9 (compiled_function_in_python_capture); here it is seen on the host,
// whose generator's state Dynamo keeps in the same place. The backend draws random numbers itself while it compiles,
// and what is drawn afterwards is the same as without a compilation. A call of what is already compiled does none of
// that.
//
// Alone:  g++ cases/python/first_call_of_compiled_function.cpp $(tools/libtorch --flags) -o first_call_of_compiled_function

#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, the first call of a compiled function reads and restores the generator's state",
    .sources = {{"capture failures", "torch.compile During Graph Capture"}},
    .documented =
        "TorchDynamo's preserve_global_state decorator saves and restores the RNG state to ensure "
        "compilation doesn't affect the random sequence",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "generators"},
    .features = {"torch.compile"},
    .needs = "host python",
    .deadline_s = 120,
    .effect = Effect::Works,
    .fixes = {{"FixWarmUp",
               "Call the torch.compile function once before code that must not touch the generator's state, such as a "
               "capture."}},
};

class FirstCallOfCompiledFunction : public PythonTest {
 protected:
  void SetUp() override {
    PythonTest::SetUp();
    if (IsSkipped()) return;
    const std::string there = python(R"py(
import torch._dynamo.convert_frame
seen = str(hasattr(torch._dynamo.convert_frame, "preserve_global_state"))
)py");
    if (there == "False") NOT_APPLICABLE("Dynamo of this release keeps the global state by no such function");
  }

  // What touches the generator in a call of func(), in order, and whether the next numbers are those that come without
  // the call. `warm_up` is run before.
  std::string call(const std::string& compile, const std::string& warm_up) {
    return python(R"py(
import sys
import torch
import torch._dynamo.convert_frame
preserving = torch._dynamo.convert_frame.preserve_global_state(lambda: None).__code__
touched = []

def noted(name):
    real = getattr(torch.random, name)
    def call(*arguments):
        by = "preserve_global_state" if sys._getframe(1).f_code is preserving else "another"
        touched.append(f"{name} by {by}")
        return real(*arguments)
    setattr(torch.random, name, call)

noted("get_rng_state")
noted("set_rng_state")

def backend(graph, inputs):
    torch.rand(100)
    touched.append("rand by the backend")
    return graph.forward

def func(x):
    return x**2 + 3*x + 5

func = eval(compile)
x = torch.full((8,), 2.0)
exec(warm_up)
torch.manual_seed(1234)
expected = torch.rand(4)
torch.manual_seed(1234)
touched.clear()
y = func(x)
same = torch.equal(torch.rand(4), expected)
seen = f"{y.unique().tolist()}; {', '.join(touched) or 'nothing'}; {'the same' if same else 'other'} numbers"
)py",
                  {{"compile", compile}, {"warm_up", warm_up}});
  }
  const std::string compiled = "torch.compile(func, backend=backend)";
};

constexpr char kNothing[] = "[15.0]; nothing; the same numbers";

TEST_F(FirstCallOfCompiledFunction, ControlNotCompiled) { EXPECT_EQ(call("func", "pass"), kNothing); }

TEST_F(FirstCallOfCompiledFunction, Reproduces) {
  std::string warm_up = "pass";
  WITHOUT_TRIGGER(warm_up = "func(x)");
  REPRODUCES(call(compiled, warm_up),
             "[15.0]; get_rng_state by preserve_global_state, rand by the backend, set_rng_state by "
             "preserve_global_state; the same numbers",
             kNothing);
}

TEST_F(FirstCallOfCompiledFunction, FixWarmUp) {
  std::string warm_up = "pass";
  REMEDY(warm_up = "func(x)");
  for (int round = 0; round < 2; ++round) EXPECT_EQ(call(compiled, warm_up), kNothing);
}

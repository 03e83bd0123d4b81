// A compiled function records one CUDA graph under torch.inference_mode() and another under torch.no_grad().
//
// The two modes share neither compiled code nor graphs: Dynamo's guards compare dispatch keys, which differ between
// them. A model that is warmed up in one mode and evaluated in the other compiles and records a second time, without a
// message, and keeps the first graph's memory. From 2.4 to 2.10 that recording raises: the tensors of the random number
// generator, which the first capture made, must not change outside inference mode.
//
// Alone:  g++ cases/compile/recorded_in_inference_mode.cpp $(tools/libtorch --flags) -o recorded_in_inference_mode

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function that was warmed up in inference mode records again under no_grad()",
    .sources = {{"PyTorch source", "torch/csrc/dynamo/guards.cpp: TensorCheck::check"}},
    .documented = "not documented; found by trying",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .effect = Effect::Leaks,
    .fixes = {{"FixOneMode",
               "Warm up and run in the same mode: torch.inference_mode() or torch.no_grad() throughout."}},
};

class RecordedInInferenceMode : public CompiledTest {
 protected:
  std::string calls(const std::string& first, const std::string& then) {
    return compiled(R"py(
@torch.compile(mode="reduce-overhead")
def double(x):
    return x * 2

seen = []
def call(value):
    seen.append(double(torch.full((8,), float(value), device="cuda")).tolist()[0])

with torch.{first}():
    for value in (1, 2, 3):
        call(value)
with torch.{then}():
    for value in (4, 5, 6):
        call(value)
seen = f"{seen}, {counts()}"
)py",
                    {{"first", first}, {"then", then}});
  }
};

constexpr char kGraph[] = "[2.0, 4.0, 6.0, 8.0, 10.0, 12.0], 1 graphs, 5 launches";

TEST_F(RecordedInInferenceMode, Control) { EXPECT_EQ(calls("no_grad", "no_grad"), kGraph); }

TEST_F(RecordedInInferenceMode, Reproduces) {
  std::string first = "no_grad";
  TRIGGER(first = "inference_mode");
  REPRODUCES(calls(first, "no_grad"), "[2.0, 4.0, 6.0, 8.0, 10.0, 12.0], 2 graphs, 4 launches", kGraph);
}

TEST_F(RecordedInInferenceMode, FixOneMode) {
  std::string then = "no_grad";
  REMEDY(then = "inference_mode");
  EXPECT_EQ(calls("inference_mode", then), kGraph);
}

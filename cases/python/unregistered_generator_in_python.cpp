// In Python, a torch.Generator that was not registered with the graph cannot be used in its capture.
//
// The document's program and its numbers, from a generator with the seed 1234. LibTorch refuses before any CUDA call,
// so the capture itself goes on and ends without an error. From 2.14 on a generator is registered at its first use in
// the capture.
//
// Alone:  g++ cases/python/unregistered_generator_in_python.cpp $(tools/libtorch --flags) -o unregistered_generator_in_python

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a custom generator that is not registered with the graph is refused in the capture",
    .sources = {{"capture failures", "Custom Generator: Registration Required"}},
    .documented = "RuntimeError: Attempt to increase offset for a CUDA generator not in capture mode.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Verbatim,
    .tags = {"generators"},
    .features = {"generators"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixRegisterBeforeCapture", "Call graph.register_generator_state(generator) before the capture begins."},
              {"FixUseDefaultGenerator",
               "Use the default generator, seeded with torch.cuda.manual_seed(), and pass no generator= argument."}},
};

class UnregisteredGeneratorInPython : public PythonProgramTest {
 protected:
  bool can_register() { return value_of("hasattr(torch.cuda.CUDAGraph, 'register_generator_state')") == "True"; }
};

constexpr char kProgram[] = R"py(
import torch
gen = torch.Generator(device="cuda")
gen.manual_seed(1234)
graph = torch.cuda.CUDAGraph()
drawn = []
for i in range(2):
    x = torch.randint(1024, (1,), generator=gen, device="cuda")
    drawn.append(x.item())
{line}
with Outcome() as outcome:
    with torch.cuda.graph(graph):
        x = torch.randint(1024, (1,), generator=gen, device="cuda")
seen = f"{drawn} {outcome}"
)py";

// The generator is used before the capture and between replays, and not inside.
TEST_F(UnregisteredGeneratorInPython, Control) {
  EXPECT_EQ(run(R"py(
import torch
gen = torch.Generator(device="cuda")
gen.manual_seed(1234)
graph = torch.cuda.CUDAGraph()
x = torch.zeros(1, device="cuda", dtype=torch.long)
seen = []
for i in range(2):
    x.copy_(torch.randint(1024, (1,), generator=gen, device="cuda"))
    seen.append(x.item())
with torch.cuda.graph(graph):
    y = x * 2
for i in range(4):
    x.copy_(torch.randint(1024, (1,), generator=gen, device="cuda"))
    graph.replay()
    seen.append(y.item() // 2)
)py"),
            "[840, 565, 216, 574, 727, 457]");
}

TEST_F(UnregisteredGeneratorInPython, Reproduces) {
  if (!trigger_on() && !can_register()) NOT_APPLICABLE("this release cannot register a custom generator");
  std::string line = "pass";
  WITHOUT_TRIGGER(line = "graph.register_generator_state(gen)");
  REPRODUCES(run(kProgram, {{"line", line}}),
             "[840, 565] RuntimeError: Attempt to increase offset for a CUDA generator not in capture mode* > ok",
             "[840, 565] ok > ok");
}

TEST_F(UnregisteredGeneratorInPython, FixRegisterBeforeCapture) {
  if (!can_register()) NOT_APPLICABLE("this release cannot register a custom generator");
  std::string line = "pass";
  REMEDY(line = "graph.register_generator_state(gen)");
  EXPECT_EQ(run(R"py(
import torch
gen = torch.Generator(device="cuda")
gen.manual_seed(1234)
graph = torch.cuda.CUDAGraph()
seen = []
for i in range(2):
    x = torch.randint(1024, (1,), generator=gen, device="cuda")
    seen.append(x.item())
{line}
with torch.cuda.graph(graph):
    x = torch.randint(1024, (1,), generator=gen, device="cuda")
for i in range(4):
    graph.replay()
    seen.append(x.item())
)py",
                {{"line", line}}),
            "[840, 565, 216, 574, 727, 457]");
}

TEST_F(UnregisteredGeneratorInPython, FixUseDefaultGenerator) {
  std::string generator = "generator=gen, ";
  REMEDY(generator = "");
  EXPECT_EQ(run(R"py(
import torch
gen = torch.Generator(device="cuda")
gen.manual_seed(1234)
torch.cuda.manual_seed(1234)
graph = torch.cuda.CUDAGraph()
seen = [torch.randint(1024, (1,), {generator}device="cuda").item() for i in range(2)]
with torch.cuda.graph(graph):
    x = torch.randint(1024, (1,), {generator}device="cuda")
for i in range(4):
    graph.replay()
    seen.append(x.item())
)py",
                {{"generator", generator}}),
            "[840, 565, 216, 574, 727, 457]");
}

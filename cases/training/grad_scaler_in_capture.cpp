// GradScaler.step() in a capture reads on the host whether a gradient was infinite, which invalidates the capture.
//
// The scaler skips the optimizer's step if a gradient has overflowed, and decides that on the host. A fused optimizer
// takes the scaler's tensors and decides on the GPU. scaler.update() runs on the GPU and can be captured.
//
// Alone:  g++ cases/training/grad_scaler_in_capture.cpp $(tools/libtorch --flags) -o grad_scaler_in_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, GradScaler.step() invalidates the capture that it is called in",
    .sources = {{"CUDA semantics: graphs", "Usage with torch.cuda.amp"},
                {"PyTorch source", "torch/amp/grad_scaler.py: _maybe_opt_step"}},
    .documented = "scaler.step and scaler.update run eagerly: cudaErrorStreamCaptureUnsupported(900) in a capture",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"optimizer", "autocast", "host reads"},
    .features = {"optimizer"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes =
        {{"FixStepOutside",
          "Capture scaler.scale(loss).backward(), and call scaler.step() and scaler.update() after graph.replay()."},
         {"FixFusedOptimizer",
          "Pass fused=True and capturable=True to Adam or AdamW: it decides on the GPU whether to skip the step."}},
};

class GradScalerInCapture : public PythonProgramTest {
 protected:
  // Compares the parameter with eager code after each of four replays. In the second one a gradient overflows.
  std::string replays(const std::string& optimizer, const std::string& inside, const std::string& outside) {
    return run(R"py(
import torch
scaler_of = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler

class Run:
    def __init__(self):
        self.weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
        self.x = torch.ones(4, device="cuda")
        weight = self.weight
        self.optimizer = {optimizer}
        self.scaler = scaler_of(init_scale=1024.0)
    def backward(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale((self.weight * self.weight * self.x).sum()).backward()
    def scaled(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()

captured, eager = Run(), Run()
stream = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(stream):
    for run in (captured, eager):
        for i in range(3):
            run.backward()
            run.scaled()
torch.cuda.synchronize()
captured.optimizer.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph, stream=stream):
        captured.backward()
        if "{inside}" == "step":
            captured.scaled()
if str(seen) == "ok > ok":
    right = True
    for value in (1, float("inf"), 3, 2):
        captured.x.fill_(value)
        eager.x.fill_(value)
        graph.replay()
        if "{outside}" == "step":
            captured.scaled()
        eager.backward()
        eager.scaled()
        right &= torch.allclose(captured.weight, eager.weight, rtol=1e-4)
    seen = "right" if right else "wrong"
)py",
               {{"optimizer", optimizer}, {"inside", inside}, {"outside", outside}});
  }
};

constexpr char kAdam[] = "torch.optim.Adam([weight], lr=0.1, capturable=True)";
constexpr char kFused[] = "torch.optim.Adam([weight], lr=0.1, capturable=True, fused=True)";

TEST_F(GradScalerInCapture, Control) { EXPECT_EQ(replays(kAdam, "", "step"), "right"); }

TEST_F(GradScalerInCapture, Reproduces) {
  std::string inside, outside = "step";
  TRIGGER(inside = "step"; outside = "");
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(replays(kAdam, inside, outside), "900 > 901", "right");
}

TEST_F(GradScalerInCapture, FixStepOutside) {
  std::string inside = "step", outside;
  REMEDY(inside = ""; outside = "step");
  EXPECT_EQ(replays(kAdam, inside, outside), "right");
}

TEST_F(GradScalerInCapture, FixFusedOptimizer) {
  std::string optimizer = kAdam;
  REMEDY(optimizer = kFused);
  EXPECT_EQ(replays(optimizer, "step", ""), "right");
}

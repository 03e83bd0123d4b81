// A Python optimizer's step cannot be captured, or is frozen by the capture, unless the optimizer supports captures.
//
// Adam counts its steps on the host and divides by a correction that depends on the count. With capturable=True the
// count is a CUDA tensor; without it, step() refuses to be captured. Adagrad has no such option and does not refuse:
// with lr_decay, every replay has the learning rate of the captured step. LBFGS reads losses on the host, which no
// capture allows. SGD keeps only its learning rate on the host: a number is frozen, and a CUDA tensor is read back.
//
// Alone:  g++ cases/training/optimizer_without_capturable.cpp $(tools/libtorch --flags) -o optimizer_without_capturable

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, an optimizer's step is refused or frozen by a capture unless it is capturable",
    .sources = {{"PyTorch documentation", "torch.optim.Adam: capturable"},
                {"upstream", "pytorch#76368"},
                {"upstream", "pytorch#118018"},
                {"upstream", "pytorch#106802"}},
    .documented =
        "RuntimeError: Attempting CUDA graph capture of step() for an instance of Adam but param_groups' capturable is "
        "False.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"optimizer", "host reads"},
    .features = {"optimizer"},
    .needs = "gpu python",
    .deadline_s = 120,
    .effects = {{"ReproducesAdagradFrozen", Effect::SilentlyWrong},
                {"ReproducesLearningRateFrozen", Effect::SilentlyWrong}},
    .fixes = {{"FixCapturable", "Pass capturable=True to an optimizer that has the option."},
              {"FixTensorLearningRate",
               "Pass lr as a CUDA tensor to a capturable optimizer, and fill_() it between replays."},
              {"FixStepOutside",
               "Capture forward and backward, call optimizer.step() after graph.replay(), and keep the capture's .grad "
               "tensors, which zero_grad() drops."}},
};

class OptimizerWithoutCapturable : public PythonProgramTest {
 protected:
  // Compares the parameter with eager code after each of three replays, which follow three warm-ups: "right", or the
  // values of both; or how the capture failed. `between` runs before each replay but the first.
  std::string replays(const std::string& optimizer, const std::string& inside = "step()",
                      const std::string& outside = "pass", const std::string& between = "pass") {
    return run(R"py(
import torch

class Run:
    def __init__(self):
        self.weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
        self.x = torch.ones(4, device="cuda")
        weight = self.weight
        self.optimizer = {optimizer}
        self.rate = self.optimizer.param_groups[0]
    def loss(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = (self.weight * self.weight * self.x).sum()
        loss.backward()
        return loss
    def step(self):
        self.loss()
        self.optimizer.step()
    def step_with_closure(self):
        self.optimizer.step(self.loss)

def between(rate):
    {between}

# As a user writes it, on the stream of the capture.
captured, eager = Run(), Run()
stream = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(stream):
    for run in (captured, eager):
        for i in range(3):
            (run.step_with_closure if "closure" in "{inside}" else run.step)()
torch.cuda.synchronize()
captured.optimizer.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph, stream=stream):
        captured.{inside}
if str(seen) == "ok > ok":
    right, replayed, expected = True, [], []
    for i, value in enumerate((3, 1, 2)):
        if i > 0:
            between(captured.rate)
            between(eager.rate)
        captured.x.fill_(value)
        eager.x.fill_(value)
        graph.replay()
        {outside}
        eager.step()
        right &= torch.allclose(captured.weight, eager.weight, rtol=1e-4)
        replayed.append(round(captured.weight.tolist()[0], 3))
        expected.append(round(eager.weight.tolist()[0], 3))
    seen = "right" if right else f"{replayed} instead of {expected}"
)py",
               {{"optimizer", optimizer}, {"inside", inside}, {"outside", outside}, {"between", between}});
  }
};

constexpr char kAdam[] = "torch.optim.Adam([weight], lr=0.1)";
constexpr char kCapturable[] = "torch.optim.Adam([weight], lr=0.1, capturable=True)";
constexpr char kDecayingAdagrad[] = "torch.optim.Adagrad([weight], lr=0.1, lr_decay=1.0)";
constexpr char kPlainSgd[] = "torch.optim.SGD([weight], lr=0.1)";

TEST_F(OptimizerWithoutCapturable, Control) { EXPECT_EQ(replays(kCapturable), "right"); }

TEST_F(OptimizerWithoutCapturable, ControlSgd) { EXPECT_EQ(replays(kPlainSgd), "right"); }

TEST_F(OptimizerWithoutCapturable, Reproduces) {
  std::string optimizer = kCapturable;
  TRIGGER(optimizer = kAdam);
  REPRODUCES(
      replays(optimizer),
      "RuntimeError: Attempting CUDA graph capture of step() for an instance of Adam but *capturable is False* > "
      "ok",
      "right");
}

TEST_F(OptimizerWithoutCapturable, ReproducesAdagradFrozen) {
  std::string optimizer = "torch.optim.Adagrad([weight], lr=0.1)";
  TRIGGER(optimizer = kDecayingAdagrad);
  REPRODUCES(replays(optimizer), "[0.827, 0.821, 0.809] instead of [0.827, 0.822, 0.814]", "right");
}

TEST_F(OptimizerWithoutCapturable, ReproducesLbfgs) {
  std::string optimizer = kPlainSgd, inside = "step()";
  TRIGGER(optimizer = "torch.optim.LBFGS([weight], lr=0.1, max_iter=2)"; inside = "step_with_closure()");
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(replays(optimizer, inside), "900 > 901", "right");
}

TEST_F(OptimizerWithoutCapturable, ReproducesTensorLearningRateOfSgd) {
  std::string optimizer = kPlainSgd;
  TRIGGER(optimizer = "torch.optim.SGD([weight], lr=torch.tensor(0.1, device='cuda'))");
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(replays(optimizer), "900 > 901", "right");
}

// A scheduler's new rate after the capture.
TEST_F(OptimizerWithoutCapturable, ReproducesLearningRateFrozen) {
  std::string between = "pass";
  TRIGGER(between = "rate['lr'] = rate['lr'] / 2");
  REPRODUCES(replays(kPlainSgd, "step()", "pass", between), "[0.205, 0.164, 0.098] instead of [0.205, 0.184, 0.166]",
             "right");
}

TEST_F(OptimizerWithoutCapturable, FixCapturable) {
  std::string optimizer = kAdam;
  REMEDY(optimizer = kCapturable);
  EXPECT_EQ(replays(optimizer), "right");
}

TEST_F(OptimizerWithoutCapturable, FixTensorLearningRate) {
  std::string optimizer = kCapturable, between = "rate['lr'] = rate['lr'] / 2";
  REMEDY(optimizer = "torch.optim.Adam([weight], lr=torch.tensor(0.1, device='cuda'), capturable=True)");
  REMEDY(between = "rate['lr'].mul_(0.5)");
  EXPECT_EQ(replays(optimizer, "step()", "pass", between), "right");
}

TEST_F(OptimizerWithoutCapturable, FixStepOutside) {
  std::string inside = "step()", outside = "pass";
  REMEDY(inside = "loss()"; outside = "captured.optimizer.step()");
  EXPECT_EQ(replays(kDecayingAdagrad, inside, outside), "right");
}

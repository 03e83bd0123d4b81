// Reading a gradient norm on the host invalidates the capture of a training step.
//
// clip_grad_norm_() computes the norm and clips on the GPU, which can be captured. With error_if_nonfinite=True it
// reads the norm on the host to decide whether to raise. A program that branches on the returned norm reads it too.
// Both wait for the GPU.
//
// Alone:  g++ cases/training/gradient_norm_read_in_capture.cpp $(tools/libtorch --flags) -o gradient_norm_read_in_capture

#include "fixtures/python/python_programs.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, clip_grad_norm_() with error_if_nonfinite, or a branch on its result, invalidates a capture",
    .sources = {{"PyTorch source", "torch/nn/utils/clip_grad.py: _get_total_norm"},
                {"CUDA semantics: graphs", "Constraints"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"optimizer", "host reads"},
    .features = {"host reads"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixReadAfterReplay",
               "Leave error_if_nonfinite off in the capture, keep the returned norm, and read it after "
               "graph.replay()."},
              {"FixDecideOnTheGpu",
               "Replace the branch by torch.where() on the norm: set the gradients to zero if it is not "
               "finite."}},
};

class GradientNormReadInCapture : public PythonProgramTest {
 protected:
  // The parameter after three replays. Its gradient is x, clipped to a norm of 1.
  std::string replays(const std::string& clip, const std::string& last = "3", const std::string& after = "pass") {
    return run(R"py(
import torch
weight = torch.nn.Parameter(torch.zeros(4, device="cuda"))
x = torch.ones(4, device="cuda")
optimizer = torch.optim.SGD([weight], lr=1.0)

def step():
    optimizer.zero_grad(set_to_none=True)
    (weight * x).sum().backward()
    {clip}
    optimizer.step()
    return norm

def clipped(**options):
    return torch.nn.utils.clip_grad_norm_([weight], 1.0, **options)

stream = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(stream):
    for i in range(3):
        step()
torch.cuda.synchronize()
with torch.no_grad():
    weight.zero_()
optimizer.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with Outcome() as seen:
    with torch.cuda.graph(graph, stream=stream):
        norm = step()
if str(seen) == "ok > ok":
    seen = []
    for value in (1, 2, {last}):
        x.fill_(value)
        graph.replay()
        {after}
        seen.append(round(weight.tolist()[0], 3))
)py",
               {{"clip", clip}, {"last", last}, {"after", after}});
  }
};

constexpr char kClip[] = "norm = clipped()";
constexpr char kClipped[] = "[-0.5, -1.0, -1.5]";

TEST_F(GradientNormReadInCapture, Control) { EXPECT_EQ(replays(kClip), kClipped); }

TEST_F(GradientNormReadInCapture, Reproduces) {
  std::string clip = kClip;
  TRIGGER(clip = "norm = clipped(error_if_nonfinite=True)");
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(replays(clip), "900 > 901", kClipped);
}

TEST_F(GradientNormReadInCapture, ReproducesBranch) {
  std::string clip = kClip;
  TRIGGER(clip = "norm = clipped()\n    if not torch.isfinite(norm):\n        return norm");
  RAISED_BY("cuStreamSynchronize");
  REPRODUCES(replays(clip), "900 > 901", kClipped);
}

// The step with an infinite gradient is undone.
TEST_F(GradientNormReadInCapture, FixReadAfterReplay) {
  std::string clip = "norm = clipped(error_if_nonfinite=True)";
  REMEDY(clip = kClip);
  const std::string undo =
      "before = torch.full_like(weight, seen[-1] if seen else 0.0)\n"
      "        if not torch.isfinite(norm):\n"
      "            with torch.no_grad():\n"
      "                weight.copy_(before)";
  EXPECT_EQ(replays(clip, "float('inf')", undo), "[-0.5, -1.0, -1.0]");
}

TEST_F(GradientNormReadInCapture, FixDecideOnTheGpu) {
  std::string clip = "norm = clipped()\n    if not torch.isfinite(norm):\n        return norm";
  REMEDY(clip = "norm = clipped()\n    weight.grad = torch.where(torch.isfinite(norm), weight.grad, 0.0)");
  EXPECT_EQ(replays(clip, "float('inf')"), "[-0.5, -1.0, -1.0]");
}

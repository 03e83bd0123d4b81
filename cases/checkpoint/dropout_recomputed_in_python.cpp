// torch.utils.checkpoint without preserve_rng_state recomputes dropout with another mask, on the host as well.
//
// The trade-off that the document names for its remedy, in the function that it names, of both kinds and without a
// graph: the output was computed with one mask, and the gradient belongs to another. With the state preserved, as
// checkpoint() does by default, output and gradient are those of the same step without a checkpoint, with the same
// seed. dropout_recomputed_in_graph and dropout_recomputed_on_host have a checkpoint of their own instead.
//
// Alone:  g++ cases/checkpoint/dropout_recomputed_in_python.cpp $(tools/libtorch --flags) -o dropout_recomputed_in_python

#include "fixtures/python/python.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, checkpoint(preserve_rng_state=False) recomputes with another dropout mask",
    .sources = {{"capture failures", "Activation Checkpointing with RNG State Preservation"}},
    .documented = "dropout and other random operations may produce different values during forward and recomputation",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"checkpointing", "generators"},
    .features = {"checkpointing", "generators"},
    .needs = "host python",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixPreserveRngState",
               "Leave preserve_rng_state of torch.utils.checkpoint.checkpoint() at True where checkpointed blocks have "
               "dropout, outside captures."},
              {"FixKeepDropoutOutsideCheckpoint",
               "Take nn.Dropout out of the module given to checkpoint() and apply it to what checkpoint() returns."}},
};

class DropoutRecomputedInPython : public PythonTest {
 protected:
  // A step of a block with dropout, from one seed: the elements that the output keeps and those of the gradient.
  // `forward` is an expression of x, block, dropout and checkpoint; `reference`, one that it must be equal to.
  std::string masks(const std::string& forward, const std::string& reference) {
    return python(R"py(
import torch
from torch.utils.checkpoint import checkpoint
torch.manual_seed(5)
linear, dropout = torch.nn.Linear(64, 64, bias=False), torch.nn.Dropout(0.5)
torch.nn.init.eye_(linear.weight)
block = torch.nn.Sequential(linear, dropout)

def step(forward):
    torch.manual_seed(1234)
    x = torch.ones(4, 64, requires_grad=True)
    y = eval(forward, globals(), {"x": x})
    y.sum().backward()
    return y.detach(), x.grad

seen = []
for turn in range(2):
    y, gradient = step(forward)
    expected, _ = step(reference)
    assert 0 < int((y != 0).sum()) < y.numel()
    mask = "same mask" if torch.equal(y != 0, gradient != 0) else "another mask"
    seen.append(mask + (", right" if torch.equal(y, expected) else ", wrong"))
seen = "; ".join(seen)
)py",
                  {{"forward", forward}, {"reference", reference}});
  }
  static std::string checkpointed(const std::string& what, const std::string& use_reentrant,
                                  const std::string& preserve) {
    return "checkpoint(" + what + ", x, use_reentrant=" + use_reentrant + ", preserve_rng_state=" + preserve + ")";
  }
};

constexpr char kAnother[] = "another mask, right; another mask, right";
constexpr char kSame[] = "same mask, right; same mask, right";

TEST_F(DropoutRecomputedInPython, Control) { EXPECT_EQ(masks("block(x)", "block(x)"), kSame); }

TEST_F(DropoutRecomputedInPython, Reproduces) {
  std::string preserve = "True";
  TRIGGER(preserve = "False");
  REPRODUCES(masks(checkpointed("block", "True", preserve), "block(x)"), kAnother, kSame);
}

TEST_F(DropoutRecomputedInPython, ReproducesWithoutReentrance) {
  std::string preserve = "True";
  TRIGGER(preserve = "False");
  REPRODUCES(masks(checkpointed("block", "False", preserve), "block(x)"), kAnother, kSame);
}

TEST_F(DropoutRecomputedInPython, FixPreserveRngState) {
  std::string preserve = "False";
  REMEDY(preserve = "True");
  EXPECT_EQ(masks(checkpointed("block", "True", preserve), "block(x)"), kSame);
  EXPECT_EQ(masks(checkpointed("block", "False", preserve), "block(x)"), kSame);
}

TEST_F(DropoutRecomputedInPython, FixKeepDropoutOutsideCheckpoint) {
  for (const char* use_reentrant : {"True", "False"}) {
    std::string forward = checkpointed("block", use_reentrant, "False");
    REMEDY(forward = "dropout(" + checkpointed("linear", use_reentrant, "False") + ")");
    EXPECT_EQ(masks(forward, "block(x)"), kSame);
  }
}

// A hook on the parameter sees the second gradient where the first one should be.
//
// The hook runs after the replay and before the sum. It reads the existing .grad and the incoming gradient: both are
// the graph's buffer, so both show 11 22 33 44, and the first micro-batch's 3 5 7 9 is lost before anything is added.
// The fixture is make_graphed_callables() in C++; grad_of_python_graphed_callable runs PyTorch's own.
//
// Alone:  g++ cases/gradient/grad_overwritten_before_hook.cpp $(tools/libtorch --flags) -o grad_overwritten_before_hook

#include "fixtures/torch/graphed_callable.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A gradient hook finds the existing gradient overwritten by the incoming one",
    .sources = {{"gradient aliasing", "Actual output"}, {"gradient aliasing", "Minimal repro"}},
    .documented = "pre_accum_existing_value: [11.0, 22.0, 33.0, 44.0], pre_accum_incoming_value: the same",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixCloneParameterGradients",
          "Clone the parameter gradients in Graphed.backward(), so that hooks find the accumulated .grad unchanged."}},
};

class GradOverwrittenBeforeHook : public GraphedScaleTest {
 protected:
  void SetUp() override {
    GraphedScaleTest::SetUp();
    if (!IsSkipped()) capture(graphed, weight);
  }
  // From here on a hook notes what it sees before the sum is formed.
  void watch() {
    weight.register_hook([this](const at::Tensor& grad) {
      incoming = values(grad);
      existing = values(weight.grad());
    });
  }
  GraphedScale graphed;
  std::vector<double> existing, incoming;
};

// The first micro-batch runs without the graph, so .grad is not the graph's buffer.
TEST_F(GradOverwrittenBeforeHook, Control) {
  (x1 * weight).sum().backward();
  watch();
  step(graphed, x2);
  EXPECT_EQ(existing, (std::vector<double>{3, 5, 7, 9}));
  EXPECT_EQ(incoming, (std::vector<double>{11, 22, 33, 44}));
}

TEST_F(GradOverwrittenBeforeHook, Reproduces) {
  WITHOUT_TRIGGER(graphed.clone_parameter_grad = true);
  step(graphed, x1);
  watch();
  step(graphed, x2);
  EXPECT_EQ(incoming, (std::vector<double>{11, 22, 33, 44}));
  REPRODUCES(existing, (std::vector<double>{11, 22, 33, 44}), (std::vector<double>{3, 5, 7, 9}));
}

TEST_F(GradOverwrittenBeforeHook, FixCloneParameterGradients) {
  REMEDY(graphed.clone_parameter_grad = true);
  step(graphed, x1);
  watch();
  step(graphed, x2);
  EXPECT_EQ(existing, (std::vector<double>{3, 5, 7, 9}));
  EXPECT_EQ(incoming, (std::vector<double>{11, 22, 33, 44}));
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{14, 27, 40, 53}));
}

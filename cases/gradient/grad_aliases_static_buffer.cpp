// A parameter's gradient becomes the graph's own buffer, so the second micro-batch counts twice and the first not at
// all.
//
// make_graphed_callables() replays a captured backward pass and hands autograd a detached view of the buffer that the
// replay writes. AccumulateGrad finds that nobody else holds this tensor and keeps it as .grad without a copy. The next
// replay then overwrites .grad before the sum is formed: g2 + g2 instead of g1 + g2. Graphed and Replay below are that
// wrapper in C++, with the report's module, weights and micro-batches; grad_of_python_graphed_callable runs PyTorch's
// own. The clone is the report's proposal; preallocating is our own addition.
//
// Alone:  g++ cases/gradient/grad_aliases_static_buffer.cpp $(tools/libtorch --flags) -o grad_aliases_static_buffer

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

RECAPTURE_CASE = {
    .title = "A graphed callable's parameter gradient aliases the graph's static buffer",
    .sources = {{"gradient aliasing", "Bug description"},
                {"gradient aliasing", "Minimal repro"},
                {"gradient aliasing", "Actual output"}},
    .documented = "final_grad: [22.0, 44.0, 66.0, 88.0]",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixCloneParameterGradients",
          "Return static_grad.detach().clone() for every parameter from make_graphed_callables' Graphed.backward()."},
         {"FixPreallocateGradients",
          "Set param.grad = torch.zeros_like(param) before the first backward(), then use "
          "zero_grad(set_to_none=False)."}},
};

namespace {

struct Graphed {
  std::unique_ptr<Graph> forward, backward;
  at::Tensor x, y, grad_y, grad_weight;  // The static buffers.
  bool owned = false;                    // Whether the gradient handed out is a copy.
};

struct Replay : torch::autograd::Function<Replay> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor&, Graphed* graphed) {
    context->saved_data["graphed"] = reinterpret_cast<int64_t>(graphed);
    graphed->x.copy_(x);
    graphed->forward->replay();
    return graphed->y.detach();
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    auto* graphed = reinterpret_cast<Graphed*>(context->saved_data["graphed"].toInt());
    graphed->grad_y.copy_(grads[0]);
    graphed->backward->replay();
    const at::Tensor alias = graphed->grad_weight.detach();
    return {at::Tensor(), graphed->owned ? alias.clone() : alias, at::Tensor()};
  }
};

}  // namespace

class GradAliasesStaticBuffer : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    weight = at::tensor({1, 2, 3, 4}, at::kFloat).to(at::kCUDA).requires_grad_();
    x1 = at::tensor({1, 2, 3, 4, 2, 3, 4, 5}, at::kFloat).view({2, 4}).to(at::kCUDA);
    x2 = at::tensor({10, 20, 30, 40, 1, 2, 3, 4}, at::kFloat).view({2, 4}).to(at::kCUDA);
    graphed.forward = make_graph();
    graphed.backward = make_graph();
    graphed.x = at::ones({2, 4}, at::kCUDA);
    graphed.grad_y = at::ones({2, 4}, at::kCUDA);
    torch::autograd::grad({graphed.x * weight}, {weight}, {graphed.grad_y});  // The warm-up; starts autograd's thread.

    graphed.forward->capture_begin();
    graphed.y = graphed.x * weight;
    EXPECT_GT(captured_nodes(stream), 0);
    graphed.forward->capture_end();
    graphed.backward->capture_begin(graphed.forward->pool());
    graphed.grad_weight = torch::autograd::grad({graphed.y}, {weight}, {graphed.grad_y})[0];
    EXPECT_GT(captured_nodes(stream), 0);
    graphed.backward->capture_end();
  }
  void step(const at::Tensor& x) { Replay::apply(x, weight, &graphed).sum().backward(); }

  at::Tensor weight, x1, x2;
  Graphed graphed;
};

// The first micro-batch runs without the graph, so .grad is not the graph's buffer.
TEST_F(GradAliasesStaticBuffer, Control) {
  (x1 * weight).sum().backward();
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
  step(x2);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{14, 27, 40, 53}));
  step(x1);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{17, 32, 47, 62}));
}

TEST_F(GradAliasesStaticBuffer, Reproduces) {
  WITHOUT_TRIGGER(graphed.owned = true);
  step(x1);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
  step(x2);
  REPRODUCES(values(weight.grad()), (std::vector<double>{22, 44, 66, 88}), (std::vector<double>{14, 27, 40, 53}));
}

TEST_F(GradAliasesStaticBuffer, FixCloneParameterGradients) {
  REMEDY(graphed.owned = true);
  step(x1);
  EXPECT_NE(weight.grad().data_ptr(), graphed.grad_weight.data_ptr());
  step(x2);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{14, 27, 40, 53}));
}

TEST_F(GradAliasesStaticBuffer, FixPreallocateGradients) {
  // Where .grad is defined, AccumulateGrad adds to it and steals nothing.
  REMEDY(weight.mutable_grad() = at::zeros_like(weight));
  for (int round = 0; round < 2; ++round) {
    step(x1);
    step(x2);
    EXPECT_EQ(values(weight.grad()), (std::vector<double>{14, 27, 40, 53}));
    weight.mutable_grad().zero_();
  }
}

// After the first backward pass a parameter's .grad has the address of the graph's static gradient buffer.
//
// AccumulateGrad looks at how many owners the incoming tensor has, and a freshly detached view has no other. It does
// not look at who owns the memory. The value is right at this point; only the address gives the alias away. The fixture
// is make_graphed_callables() in C++; grad_of_python_graphed_callable runs PyTorch's own. Preallocating is our own
// addition.
//
// Alone:  g++ cases/gradient/grad_points_into_graph.cpp $(tools/libtorch --flags) -o grad_points_into_graph

#include "fixtures/torch/graphed_callable.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A parameter's gradient points into the graph's memory after the first backward pass",
    .sources = {{"gradient aliasing", "Actual output"}, {"gradient aliasing", "Bug description"}},
    .documented = "first_grad_ptr, pre_accum_existing_ptr and pre_accum_incoming_ptr: 133201995498496",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"graphed callables", "autograd"},
    .features = {"graphed callables", "autograd"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixCloneParameterGradients",
          "Clone each parameter gradient before Graphed.backward() returns it, so that .grad has memory of its own."},
         {"FixPreallocateGradients",
          "Assign torch.zeros_like(param) to param.grad before the first backward(), so that it keeps memory of its "
          "own."}},
};

class GradPointsIntoGraph : public GraphedScaleTest {
 protected:
  void SetUp() override {
    GraphedScaleTest::SetUp();
    if (!IsSkipped()) capture(graphed, weight);
  }
  std::string owner() const {
    return weight.grad().data_ptr() == graphed.grad_weight.data_ptr() ? "the graph's buffer" : "its own buffer";
  }
  GraphedScale graphed;
};

// The first backward pass runs without the graph; the graph's gradients are then added to .grad.
TEST_F(GradPointsIntoGraph, Control) {
  (x1 * weight).sum().backward();
  EXPECT_EQ(owner(), "its own buffer");
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
  step(graphed, x2);
  EXPECT_EQ(owner(), "its own buffer");
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{14, 27, 40, 53}));
}

TEST_F(GradPointsIntoGraph, Reproduces) {
  WITHOUT_TRIGGER(graphed.clone_parameter_grad = true);
  step(graphed, x1);
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{3, 5, 7, 9}));
  REPRODUCES(owner(), "the graph's buffer", "its own buffer");
}

// The first gradient, and the existing and the incoming one of the second pass, have one address.
TEST_F(GradPointsIntoGraph, ReproducesThreeEqualPointers) {
  WITHOUT_TRIGGER(graphed.clone_parameter_grad = true);
  step(graphed, x1);
  const void* first = weight.grad().data_ptr();
  const void *existing = nullptr, *incoming = nullptr;
  weight.register_hook([&](const at::Tensor& grad) {
    incoming = grad.data_ptr();
    existing = weight.grad().data_ptr();
  });
  step(graphed, x2);
  EXPECT_EQ(existing, first);
  REPRODUCES(incoming == existing ? "one address" : "two addresses", "one address", "two addresses");
}

TEST_F(GradPointsIntoGraph, FixCloneParameterGradients) {
  REMEDY(graphed.clone_parameter_grad = true);
  step(graphed, x1);
  EXPECT_EQ(owner(), "its own buffer");
  step(graphed, x2);
  EXPECT_EQ(owner(), "its own buffer");
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{14, 27, 40, 53}));
}

TEST_F(GradPointsIntoGraph, FixPreallocateGradients) {
  REMEDY(weight.mutable_grad() = at::zeros_like(weight));
  step(graphed, x1);
  EXPECT_EQ(owner(), "its own buffer");
  step(graphed, x2);
  EXPECT_EQ(owner(), "its own buffer");
  EXPECT_EQ(values(weight.grad()), (std::vector<double>{14, 27, 40, 53}));
}

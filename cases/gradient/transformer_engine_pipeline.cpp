// TransformerEngine's graphed callables of an interleaved pipeline double a micro-batch from the second step on.
//
// Megatron-LM's schedule has a pair of graphs for each layer and micro-batch, which TransformerEngine captures in the
// order in which they run (_order). The first step is right: each micro-batch's gradient has its own buffer, and .grad,
// which is the buffer of the first, takes the sum. In the next step zero_grad(set_to_none=False) keeps .grad in the
// first graph's buffer. The replay fills that buffer, and autograd then adds the same values to it again.
//
// The schedule, two layers and three micro-batches, is that of TransformerEngine's own test, which sets .grad
// beforehand and so cannot detect this. All of graph.py of a wheel is real: 2.18.0, or what `run --transformer-engine`
// chose, and 2.20.2. With _reuse_graph_input_output_buffers it holds static tensors weakly once they are not needed any
// more. Which ones can be seen without a GPU; the consequences only on one (transformer_engine_on_gpu). The graph is
// modelled, by fixtures/python/host_graph.h.
//
// Alone:  g++ cases/gradient/transformer_engine_pipeline.cpp $(tools/libtorch --flags) -o transformer_engine_pipeline

#include "fixtures/python/transformer_engine_pipeline.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In TransformerEngine's interleaved pipeline, a micro-batch counts twice from the second step on",
    .sources = {{"gradient aliasing", "PR fix notes"}, {"upstream", "TransformerEngine#2937"}},
    .documented = "This can corrupt retained grads or break gradient accumulation semantics",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd", "several graphs"},
    .features = {"graphed callables", "autograd"},
    .needs = "host python transformer_engine",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixUpgrade",
               "Use TransformerEngine 2.19 or newer, and leave clone_param_grads_on_return of "
               "make_graphed_callables() on."},
              {"FixUpgradeWithReusedBuffers",
               "Use TransformerEngine 2.19 or newer with _reuse_graph_input_output_buffers."},
              {"FixUpgradeHoldsParametersWeakly",
               "Use TransformerEngine 2.19 or newer, whose reused buffers include those of parameter gradients."},
              {"FixKeepGradients",
               "Give each parameter a .grad tensor before the first backward, and call zero_grad(set_to_none=False) "
               "from then on."}},
};

class TransformerEnginePipeline : public TransformerEnginePipelineTest<PythonTest> {};

TEST_F(TransformerEnginePipeline, Control) {
  if (!load(release())) return;
  EXPECT_EQ(steps({.graphed = false}), kRightSteps);
}

// As in TransformerEngine's own test.
TEST_F(TransformerEnginePipeline, ControlGradientsAreThere) {
  if (!load(release())) return;
  EXPECT_EQ(steps({.options = "_reuse_graph_input_output_buffers=True", .keep_grad = true}), kRightSteps);
}

TEST_F(TransformerEnginePipeline, Reproduces) {
  if (!load(release())) return;
  Pipeline pipeline{.graphed = false};
  TRIGGER(pipeline.graphed = true);
  REPRODUCES(steps(pipeline), "[66.0, 126.0], [86.0, 166.0], [86.0, 166.0]", kRightSteps);
}

// No parameter's gradient that is returned without a copy is held weakly.
TEST_F(TransformerEnginePipeline, ControlHoldsNoParameterWeakly) {
  if (!load(kFixed)) return;
  EXPECT_EQ(held_weakly("_reuse_graph_input_output_buffers=True, clone_param_grads_on_return=False"), "none");
  EXPECT_EQ(held_weakly(""), "none");
}

TEST_F(TransformerEnginePipeline, FixUpgrade) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load(version)) return;
  EXPECT_EQ(steps({}), kRightSteps);
}

TEST_F(TransformerEnginePipeline, FixUpgradeWithReusedBuffers) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load(version)) return;
  EXPECT_EQ(steps({.options = "_reuse_graph_input_output_buffers=True"}), kRightSteps);
}

TEST_F(TransformerEnginePipeline, FixUpgradeHoldsParametersWeakly) {
  std::string version = release();
  REMEDY(version = kFixed);
  if (!load(version)) return;
  EXPECT_EQ(held_weakly("_reuse_graph_input_output_buffers=True"), "6 of shape (4,)");
}

TEST_F(TransformerEnginePipeline, FixKeepGradients) {
  if (!load(release())) return;
  Pipeline pipeline;
  REMEDY(pipeline.keep_grad = true);
  EXPECT_EQ(steps(pipeline), kRightSteps);
}

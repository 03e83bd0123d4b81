// A generator that is registered with one graph is still refused in the capture of another.
//
// Each registration joins a generator to one graph. Two graphs may share a generator that is registered with both: each
// replay of either then takes the next number of the one sequence. The document has one graph; two are our own
// addition.
//
// Alone:  g++ cases/rng/generator_shared_by_two_graphs.cpp $(tools/libtorch --flags) -o generator_shared_by_two_graphs

#include "fixtures/torch/generator_test.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A generator registered with one graph is refused in another graph's capture",
    .sources = {{"capture failures", "Custom Generator: Registration Required"}},
    .documented = "RuntimeError: Attempt to increase offset for a CUDA generator not in capture mode.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"generators", "several graphs"},
    .features = {"generators", "several graphs"},
    .fixes =
        {{"FixRegisterWithBothGraphs",
          "Call register_generator_state() on both graphs before their captures; from 2.14 on sharing needs no call.",
          "<2.14"}},
};

class GeneratorSharedByTwoGraphs : public GeneratorTest {
 protected:
  at::Tensor capture_draw(Graph& into) {
    into.capture_begin();
    const at::Tensor drawn = draw(generator);
    EXPECT_GT(captured_nodes(stream), 0);
    into.capture_end();
    return drawn;
  }
};

TEST_F(GeneratorSharedByTwoGraphs, Control) {
  REGISTER_OR_SKIP(*graph, generator);
  const at::Tensor x = capture_draw(*graph);
  EXPECT_EQ(replay(*graph, x, 4), (std::vector<double>{216, 574, 727, 457}));
}

TEST_F(GeneratorSharedByTwoGraphs, Reproduces) {
  REGISTER_OR_SKIP(*graph, generator);
  const at::Tensor x = capture_draw(*graph);
  const auto second = make_graph();
  WITHOUT_TRIGGER(register_generator(*second, generator));
  second->capture_begin();
  const Failure first = failure_of([&] { draw(generator); });
  const std::string status = capture_status(stream);
  const Failure end = failure_of([&] { second->capture_end(); });
  EXPECT_EQ(replay(*graph, x, 2), (std::vector<double>{216, 574}));  // The first graph is unharmed.
  REPRODUCES(seen(first, status, end),
             "check \"Attempt to increase offset for a CUDA generator not in capture mode.*\" > active > ok",
             "ok > active > ok");
}

TEST_F(GeneratorSharedByTwoGraphs, FixRegisterWithBothGraphs) {
  NEEDS_REGISTRATION();
  const auto second = make_graph();
  REGISTER_OR_SKIP(*graph, generator);
  REMEDY(register_generator(*second, generator));
  const at::Tensor x = capture_draw(*graph), y = capture_draw(*second);
  EXPECT_EQ(replay(*graph, x, 1), std::vector<double>{216});
  EXPECT_EQ(replay(*second, y, 1), std::vector<double>{574});
  EXPECT_EQ(replay(*graph, x, 1), std::vector<double>{727});
  EXPECT_EQ(values(draw(generator)), std::vector<double>{457});  // Eager code goes on where the graphs stopped.
}

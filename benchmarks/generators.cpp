// Registered generators and graph-safe states.
//
// Before a replay LibTorch writes seed and offset of each registered generator to the GPU. The baseline draws the same
// numbers from the default generator, which every graph registers.
#include <stdexcept>

#include "benchmarks/work.h"

namespace recapture {
namespace {

void draw(const at::Generator& from) { at::rand({1}, from, at::TensorOptions(at::kCUDA)); }

struct Generators {
  Generators(int count, bool custom) : all(count, at::cuda::detail::getDefaultCUDAGenerator(0)), custom(custom) {
    for (at::Generator& one : all) {
      if (custom) one = make_cuda_generator();
    }
  }
  std::shared_ptr<Graph> capture() const {
    std::shared_ptr<Graph> graph = make_graph();
    for (const at::Generator& one : all) {
      if (custom && register_generator(*graph, one) == Registration::Impossible) {
        throw std::runtime_error("this release cannot register a custom generator");
      }
    }
    graph->capture_begin();
    for (const at::Generator& one : all) draw(one);
    graph->capture_end();
    return graph;
  }
  std::vector<at::Generator> all;
  bool custom;
};

Work capture(int count, bool custom) {
  return [generators = Generators(count, custom)] { generators.capture(); };
}

Work replay(int count, bool custom) {
  const Generators generators(count, custom);
  return [generators, graph = generators.capture()] { graph->replay(); };
}

// A generator with a second state to switch to.
struct TwoStates {
  TwoStates() : generator(make_cuda_generator()), own(graphsafe_get_state(generator)), other(make_cuda_generator()) {
    if (!own.defined()) throw std::runtime_error("no graph-safe generator state in this release");
    numbers = generator.get_state();
    other_numbers = other.get_state();
  }
  at::Generator generator, own, other;
  at::Tensor numbers, other_numbers;
};

Work draw_twice(bool from_two_states) {
  const auto states = std::make_shared<TwoStates>();
  std::shared_ptr<Graph> graph = make_graph();
  register_generator(*graph, states->generator);
  if (from_two_states) register_generator(*graph, states->other);
  graph->capture_begin();
  draw(states->generator);
  if (from_two_states) graphsafe_set_state(states->generator, states->other);
  draw(states->generator);
  if (from_two_states) graphsafe_set_state(states->generator, states->own);
  graph->capture_end();
  return [=] {
    (void)states;  // The graph's generators.
    graph->replay();
  };
}

const Registered kAll([] {
  for (const int count : {1, 8, 64}) {
    const auto registered = [&](const std::string& what, Clock clock, Work (*work)(int, bool)) {
      price(
          {"generator_registered_in_capture.FixRegisterBeforeCapture",
           "generator_shared_by_two_graphs.FixRegisterWithBothGraphs",
           "unregistered_generator.FixRegisterBeforeCapture",
           "unregistered_generator_in_python.FixRegisterBeforeCapture"},
          (what + counted(count, "registered generator") + " in place of the default one").c_str(), clock,
          [=] { return work(count, false); }, [=] { return work(count, true); });
    };
    registered("a replay that draws from ", Clock::Gpu, replay);
    registered("a capture that draws from ", Clock::Host, capture);
  }
  price(
      {"rng_state_in_python_capture.FixGraphSafeState", "rng_state_read_in_capture.FixUseGraphSafeState"},
      "reading a generator's state", Clock::Host,
      [] { return [states = TwoStates()] { states.generator.get_state(); }; },
      [] { return [states = TwoStates()] { graphsafe_get_state(states.generator); }; });
  price(
      {"rng_state_set_in_capture.FixSwitchGraphSafeStates"}, "switching a generator to another state and back",
      Clock::Host,
      [] {
        return [states = TwoStates()]() mutable {
          states.generator.set_state(states.other_numbers);
          states.generator.set_state(states.numbers);
        };
      },
      [] {
        return [states = TwoStates()]() mutable {
          graphsafe_set_state(states.generator, states.other);
          graphsafe_set_state(states.generator, states.own);
        };
      });
  price(
      {"rng_state_set_in_capture.FixSwitchGraphSafeStates"},
      "a replay that draws twice, from two states in place of one", Clock::Gpu, [] { return draw_twice(false); },
      [] { return draw_twice(true); });
});

}  // namespace
}  // namespace recapture

// A branch, a shape, a counter or the question "am I capturing?" is settled in the capture for all replays.
//
// A replay runs no host code. What the host decided while the graph was captured stays decided, and what it counted
// there is not counted again. Code that asks whether a capture is open, and computes something else then, gives other
// numbers in the graph than without one. A condition on a CUDA tensor is another matter: it invalidates the capture
// (host_branch_in_capture).
//
// Alone:  g++ cases/replay/host_logic_frozen.cpp $(tools/libtorch --flags) -o host_logic_frozen

#include <functional>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "What the host decides in a capture, such as a branch or a shape, stays decided in every replay",
    .sources = {{"CUDA graph guide", "Numerical Errors"}},
    .documented = "the captured branch and shape are replayed: 4 of 8 elements; host state changes once only",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"any program"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixSelectOnTheGpu",
               "Keep the condition in a CUDA tensor, compute both branches and select with torch.where()."},
              {"FixGraphForEachBranch",
               "Capture a graph for each branch, or shape, and let the host replay the right one."},
              {"FixComputeTheSame",
               "Compute the same in a capture as without one, whatever is_current_stream_capturing() says."},
              {"FixPadToTheLargest",
               "Capture the largest shape, and fill what a smaller input leaves over with values without effect; an "
               "index needs a slot of its own, as 0 is a live one."},
              {"FixCountAtTheReplay",
               "Change counters and other host state beside graph.replay(), not in the captured code."}},
};

using Values = std::vector<double>;

class HostLogicFrozen : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({8}, 3.0, at::kCUDA);
    on_gpu = at::ones({}, at::device(at::kCUDA).dtype(at::kBool));
  }

  void capture(const std::function<at::Tensor()>& body, Graph& into) {
    into.capture_begin();
    y = body();
    EXPECT_GT(captured_nodes(stream), 0);
    into.capture_end();
  }
  void capture(const std::function<at::Tensor()>& body) { capture(body, *graph); }

  // What three replays leave in the first element; `before` comes before each, with its number.
  Values three_replays(const std::function<void(int)>& before = [](int) {}) {
    Values all;
    for (const int number : {0, 1, 2}) {
      x.fill_(5 + 2 * number);
      before(number);
      graph->replay();
      all.push_back(values(y.reshape(-1).slice(0, 0, 1))[0]);
    }
    return all;
  }

  // One more while the condition holds, one less otherwise. It holds in the capture and in the first step.
  at::Tensor branch() { return condition ? x + 1 : x - 1; }
  at::Tensor branch_on_gpu() { return at::where(on_gpu, x + 1, x - 1); }
  void set_condition(bool holds) {
    condition = holds;
    on_gpu.fill_(holds);
  }

  at::Tensor scaled_by_context() {
    const bool capturing = c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
    return capturing ? x * 2 : x * 3;
  }

  // Sums after replays for 4, 8 and 8 elements of a graph that was captured for `count`.
  Values sums(int64_t count) {
    capture([&] { return x.slice(0, 0, count).sum(); });
    Values all;
    for (const int64_t length : {4, 8, 8}) {
      x.zero_();
      x.slice(0, 0, length).fill_(1);
      graph->replay();
      all.push_back(values(y)[0]);
    }
    return all;
  }

  at::Tensor x, y, on_gpu;
  bool condition = true;
  int steps = 0;
};

TEST_F(HostLogicFrozen, ControlEager) {
  for (const int number : {0, 1, 2}) {
    x.fill_(5 + 2 * number);
    set_condition(number == 0);
    EXPECT_EQ(values(branch())[0], number == 0 ? 6 : 4 + 2 * number);
    EXPECT_EQ(values(scaled_by_context())[0], 15 + 6 * number);
    ++steps;
  }
  EXPECT_EQ(steps, 3);
}

// As long as the condition holds, the branch may be frozen.
TEST_F(HostLogicFrozen, Control) {
  capture([&] { return branch(); });
  EXPECT_EQ(three_replays(), (Values{6, 8, 10}));
}

TEST_F(HostLogicFrozen, ReproducesBranch) {
  capture([&] {
    TRIGGER(return branch());
    return branch_on_gpu();
  });
  const Values seen = three_replays([&](int number) { set_condition(number == 0); });
  REPRODUCES(seen, (Values{6, 8, 10}), (Values{6, 6, 8}));
}

TEST_F(HostLogicFrozen, ReproducesQuestionForTheCapture) {
  capture([&] {
    TRIGGER(return scaled_by_context());
    return x * 3;
  });
  REPRODUCES(three_replays(), (Values{10, 14, 18}), (Values{15, 21, 27}));
}

TEST_F(HostLogicFrozen, ReproducesShape) {
  int64_t count = 8;
  TRIGGER(count = 4);
  REPRODUCES(sums(count), (Values{4, 4, 4}), (Values{4, 8, 8}));
}

TEST_F(HostLogicFrozen, ReproducesCounter) {
  capture([&] {
    TRIGGER(++steps);
    return x * 2;
  });
  three_replays([&](int) { WITHOUT_TRIGGER(++steps); });
  REPRODUCES(steps, 1, 3);
}

TEST_F(HostLogicFrozen, FixSelectOnTheGpu) {
  capture([&] {
    REMEDY(return branch_on_gpu());
    return branch();
  });
  EXPECT_EQ(three_replays([&](int number) { set_condition(number == 0); }), (Values{6, 6, 8}));
}

TEST_F(HostLogicFrozen, FixGraphForEachBranch) {
  const auto other = make_graph();
  capture([&] { return branch(); });
  const at::Tensor more = y;
  set_condition(false);
  capture([&] { return branch(); }, *other);
  const at::Tensor less = y;
  for (const int number : {0, 1, 2}) {
    x.fill_(5 + 2 * number);
    bool holds = true;
    REMEDY(holds = number == 0);
    (holds ? graph : other)->replay();
    EXPECT_EQ(values(holds ? more : less)[0], number == 0 ? 6 : 4 + 2 * number);
  }
}

TEST_F(HostLogicFrozen, FixComputeTheSame) {
  capture([&] {
    REMEDY(return x * 3);
    return scaled_by_context();
  });
  EXPECT_EQ(three_replays(), (Values{15, 21, 27}));
}

TEST_F(HostLogicFrozen, FixPadToTheLargest) {
  int64_t count = 4;
  REMEDY(count = 8);
  EXPECT_EQ(sums(count), (Values{4, 8, 8}));
}

TEST_F(HostLogicFrozen, FixCountAtTheReplay) {
  capture([&] {
    WITHOUT_REMEDY(++steps);
    return x * 2;
  });
  EXPECT_EQ(three_replays([&](int) { REMEDY(++steps); }), (Values{10, 14, 18}));
  EXPECT_EQ(steps, 3);
}

// A workspace that grows after a capture moves, and the graph goes on writing to where it was.
//
// Libraries keep one workspace for all of their calls, and replace it by a larger one when a call needs more. A graph
// that was captured before has the old address, which the allocator has given to somebody else by then: the replay's
// own result is right, and another tensor holds the library's scratch. Programs that capture from the largest batch to
// the smallest expect the first capture to need most; an attention kernel that is chosen for small batches alone may
// need more.
//
// Alone:  g++ cases/replay/workspace_grown_after_capture.cpp $(tools/libtorch --flags) -o workspace_grown_after_capture

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A graph writes to a workspace that has been replaced by a larger one, over another tensor's values",
    .sources = {{"upstream", "TensorRT-LLM#16319"},
                {"upstream", "flashinfer#4553"},
                {"upstream", "triton#9259"},
                {"upstream", "vllm#55341"}},
    .documented = "Resizing the shared workspace after an earlier graph was captured invalidates the workspace address",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"extensions", "several graphs"},
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixGrowBeforeAnyCapture",
          "Run every shape once without a graph before the first capture, so that workspaces have their largest size."},
         {"FixKeepTheOldWorkspace",
          "Keep a workspace that has been replaced alive for as long as a graph may refer to it."},
         {"FixCaptureAgain", "Capture the graphs again after a workspace of theirs has grown."}},
};

namespace {

constexpr int64_t kSmall = 1 << 20, kLarge = 5 << 20;  // Elements: 4 and 20 MiB.

// What keeps scratch memory between its calls.
struct Library {
  at::Tensor workspace;
  std::vector<at::Tensor> retired;
  bool keeps_retired = false;

  void reserve(int64_t size) {
    if (workspace.defined() && workspace.numel() >= size) return;
    if (keeps_retired && workspace.defined()) retired.push_back(workspace);
    workspace = at::empty({size}, at::kCUDA);
  }
  at::Tensor doubled(const at::Tensor& x) {
    reserve(x.numel());
    const at::Tensor scratch = workspace.slice(0, 0, x.numel());
    scratch.copy_(x);
    return scratch * 2;
  }
};

}  // namespace

class WorkspaceGrownAfterCapture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({kSmall}, 3.0, at::kCUDA);
    large = at::full({kLarge}, 3.0, at::kCUDA);
  }

  void capture() {
    graph = make_graph();
    library.reserve(kSmall);
    graph->capture_begin();
    y = library.doubled(x);
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
  }

  // What three replays leave in a tensor of ones that the program makes after the call that needs more.
  std::vector<double> foreign_values() {
    const at::Tensor other = at::ones({kSmall}, at::kCUDA);
    std::vector<double> all;
    for (const int value : {5, 7, 9}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(y.slice(0, kSmall - 1)), std::vector<double>{2.0 * value});
      all.push_back(values(other.slice(0, kSmall - 1))[0]);
    }
    return all;
  }

  Library library;
  at::Tensor x, large, y;
  const std::vector<double> intact{1, 1, 1};
};

TEST_F(WorkspaceGrownAfterCapture, ControlEager) {
  for (const int value : {5, 7, 9}) {
    x.fill_(value);
    library.doubled(large);
    EXPECT_EQ(values(library.doubled(x).slice(0, kSmall - 1)), std::vector<double>{2.0 * value});
  }
}

TEST_F(WorkspaceGrownAfterCapture, Control) {
  capture();
  library.doubled(x);
  EXPECT_EQ(foreign_values(), intact);
}

TEST_F(WorkspaceGrownAfterCapture, Reproduces) {
  capture();
  TRIGGER(library.doubled(large));
  REPRODUCES(foreign_values(), (std::vector<double>{5, 7, 9}), intact);
}

TEST_F(WorkspaceGrownAfterCapture, FixGrowBeforeAnyCapture) {
  REMEDY(library.doubled(large));
  capture();
  library.doubled(large);
  EXPECT_EQ(foreign_values(), intact);
}

TEST_F(WorkspaceGrownAfterCapture, FixKeepTheOldWorkspace) {
  REMEDY(library.keeps_retired = true);
  capture();
  library.doubled(large);
  EXPECT_EQ(foreign_values(), intact);
}

TEST_F(WorkspaceGrownAfterCapture, FixCaptureAgain) {
  capture();
  library.doubled(large);
  REMEDY(capture());
  EXPECT_EQ(foreign_values(), intact);
}

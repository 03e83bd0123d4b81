// An event that one capture recorded cannot order a second capture after it.
//
// Recorded in a capture, an ordinary event names a node of that capture's graph. A second capture that waits for it
// would depend on the first graph, and the wait is refused. No document names the code. It is not 905, as for an event
// of uncaptured work: cudaStreamWaitEvent returns cudaErrorInvalidValue (1) for an event of a capture that is over.
// What orders two graphs is an external event: one graph records it and the other waits for it, each time they run. The
// fixes replay the graphs on two streams that nothing else orders, and the first graph spins before it writes.
//
// Alone:  g++ cases/streams/event_between_two_graphs.cpp $(tools/libtorch --flags) -o event_between_two_graphs

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture cannot wait for an event that another capture recorded",
    .sources = {{"capture failures", "Quick Reference"},
                {"upstream", "pytorch#155372"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented = "For cross-graph synchronization: use torch.cuda.Event(external=True)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "events", "several graphs"},
    .features = {"events", "several graphs"},
    .fixes = {{"FixExternalEventOfCuda",
               "Use cudaEventRecordWithFlags() with cudaEventRecordExternal in one capture, cudaStreamWaitEvent() with "
               "cudaEventWaitExternal in the other."},
              {"FixExternalEventOfLibTorch",
               "Record a torch.cuda.Event(external=True) in the first capture, and wait for it in the second."}},
    .connections = 8,
};

constexpr int64_t kSpinCycles = 20'000'000;  // About 10 ms.

class EventBetweenTwoGraphs : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    side = c10::cuda::getStreamFromPool();
    second = make_graph();
    x = at::full({4}, 1, at::kCUDA);
    between = at::zeros({4}, at::kCUDA);
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void write_between() {
    at::cuda::sleep(kSpinCycles);
    between.copy_(x);
  }

  template <class F>
  void capture_second(F&& wait) {
    const c10::cuda::CUDAStreamGuard guard(side);
    second->capture_begin();
    wait();
    y = between * 2;
    EXPECT_GT(captured_nodes(side), 0);
    second->capture_end();
  }

  void replay_both(int value) {
    x.fill_(value);
    graph->replay();
    const c10::cuda::CUDAStreamGuard guard(side);
    second->replay();
    EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
  }

  at::Tensor x, between, y;
  c10::cuda::CUDAStream side = stream;
  std::unique_ptr<Graph> second;
};

TEST_F(EventBetweenTwoGraphs, Control) {
  graph->capture_begin();
  write_between();
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  capture_second([] {});
  graph->replay();
  second->replay();  // On the same stream, which orders the two.
  EXPECT_EQ(values(y), (std::vector<double>{2, 2, 2, 2}));
}

TEST_F(EventBetweenTwoGraphs, Reproduces) {
  at::cuda::CUDAEvent written;
  graph->capture_begin();
  write_between();
  written.record(stream);
  graph->capture_end();
  const c10::cuda::CUDAStreamGuard guard(side);
  second->capture_begin();
  const Failure first = failure_of([&] { TRIGGER(written.block(side)); });
  const std::string status = capture_status(side);
  const Failure end = failure_of([&] { second->capture_end(); });
  REPRODUCES(seen(first, status, end), "1 > invalidated > 901", "ok > active > ok");
}

TEST_F(EventBetweenTwoGraphs, FixExternalEventOfCuda) {
  cudaEvent_t written = nullptr;
  ASSERT_CUDA(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
  unsigned record_flags = cudaEventRecordDefault, wait_flags = cudaEventWaitDefault;
  REMEDY(record_flags = cudaEventRecordExternal; wait_flags = cudaEventWaitExternal);
  graph->capture_begin();
  write_between();
  ASSERT_CUDA(cudaEventRecordWithFlags(written, stream, record_flags));
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  capture_second([&] { ASSERT_CUDA(cudaStreamWaitEvent(side, written, wait_flags)); });
  for (const int value : {5, 7}) replay_both(value);
}

TEST_F(EventBetweenTwoGraphs, FixExternalEventOfLibTorch) {
#ifdef cudaEventExternal
  unsigned flags = cudaEventDisableTiming;
  REMEDY(flags |= cudaEventExternal);
  at::cuda::CUDAEvent written(flags);
  graph->capture_begin();
  write_between();
  written.record(stream);
  EXPECT_GT(captured_nodes(stream), 0);
  graph->capture_end();
  capture_second([&] { written.block(side); });
  for (const int value : {5, 7}) replay_both(value);
#else
  NOT_APPLICABLE("this release has no external events");
#endif
}

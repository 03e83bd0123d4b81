// What queries, waits and work on the legacy stream do beside an open capture, by its mode and by its kind of stream.
//
// That the mode decides about a query of something that does not capture is in unsafe_calls_by_mode, on non-blocking
// streams. Here the same holds on blocking ones, which a program gets from cudaStreamCreate. Two rules do not depend on
// the mode at all. A wait for work that was issued before the capture is refused everywhere (905). And work on the
// legacy stream, which waits for every blocking stream, is refused beside the capture of one in every mode and to every
// thread (906): thread-local mode, the remedy that is advised most, cannot help. Beside a non-blocking stream the same
// work succeeds; it runs at once and is not in the graph.
//
// No fix is here: the calls have cases of their own, with their remedies.
//
// Alone:  g++ cases/threads/queries_by_mode_and_stream.cpp $(tools/libtorch --flags) -o queries_by_mode_and_stream

#include "fixtures/cuda/by_mode.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "No capture mode permits waiting for earlier work, or legacy work beside a blocking capture stream",
    .sources = {{"CUDA runtime API", "Stream Management: cudaThreadExchangeStreamCaptureMode"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureIsolation"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureImplicit"},
                {"CUDA programming guide", "Prohibited and Unhandled Operations"}},
    .documented =
        "global: prohibited to every thread; thread-local: to the capturing thread; relaxed: not prohibited; "
        "905 and 906 in each",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"threads", "events", "default stream", "side streams", "host reads", "raw CUDA calls"},
    .features = {"threads"},
};

class QueriesByModeAndStream : public GpuTest {};

TEST_F(QueriesByModeAndStream, ControlNoCall) {
  EXPECT_EQ(by_mode([](const Beside&) { return cudaSuccess; }), kAllowed);
}

TEST_F(QueriesByModeAndStream, ReproducesEventQuery) {
  const auto call = [](const Beside& its) {
    TRIGGER(return cudaEventQuery(its.event));
    return cudaSuccess;
  };
  RAISED_BY("cuEventQuery*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(QueriesByModeAndStream, ReproducesStreamQuery) {
  const auto call = [](const Beside& its) {
    TRIGGER(return cudaStreamQuery(its.idle));
    return cudaSuccess;
  };
  RAISED_BY("cuStreamQuery*");
  REPRODUCES(by_mode(call), kUnsafe, kAllowed);
}

TEST_F(QueriesByModeAndStream, ReproducesDeviceSynchronize) {
  const auto call = [](const Beside&) {
    TRIGGER(return cudaDeviceSynchronize());
    return cudaSuccess;
  };
  RAISED_BY("cuCtxSynchronize*");
  REPRODUCES(by_mode(call), kRefused, kAllowed);
}

TEST_F(QueriesByModeAndStream, ReproducesWaitForEarlierWork) {
  const auto call = [](const Beside& its) {
    TRIGGER(return cudaStreamWaitEvent(its.capturing, its.event, 0));
    return cudaSuccess;
  };
  RAISED_BY("cuStreamWaitEvent*");
  REPRODUCES(by_mode(call), everywhere("905>901"), kAllowed);
}

TEST_F(QueriesByModeAndStream, ReproducesLegacyWork) {
  void* memory = nullptr;
  ASSERT_CUDA(cudaMalloc(&memory, 1));
  const auto call = [&](const Beside&) {
    TRIGGER(return cudaMemsetAsync(memory, 1, 1, cudaStreamLegacy));
    return cudaSuccess;
  };
  RAISED_BY("cuMemsetD8Async*");
  REPRODUCES(by_mode(call), by_kind(kAllowed, everywhere("906>901")), kAllowed);
}

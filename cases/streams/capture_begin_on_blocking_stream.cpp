// LibTorch 2.12 and 2.13 cannot begin a capture on a stream that waits for the default stream.
//
// Since 2.12 each capture has a state of its random numbers, and capture_begin() makes it once CUDA captures already:
// on the default stream, so that it lies in no graph's pool. A stream that a program makes with cudaStreamCreate is
// blocking: while it captures, nothing may touch the default stream, not even the allocator's question whether that
// captures. So capture_begin() itself ends in 906, whatever the program does, and leaves the stream capturing.
// LibTorch's own streams are non-blocking and are not affected. 2.14 makes the state at the first random number, and
// there the capture begins; 2.11 and older have no such state. No document has it: this suite found it, as Controls
// that fail in 2.12.1 and 2.13.0.
//
// Alone:  g++ cases/streams/capture_begin_on_blocking_stream.cpp $(tools/libtorch --flags) -o capture_begin_on_blocking_stream

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture cannot begin on a blocking stream, since PyTorch allocates on the default stream inside it",
    .sources = {{"upstream", "pytorch#176752"},
                {"CUDA runtime API", "Data types used by CUDA Runtime: cudaErrorStreamCaptureImplicit"}},
    .documented = "cudaErrorStreamCaptureImplicit(906)",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"side streams", "default stream", "raw CUDA calls"},
    .features = {"side streams"},
    .fixes = {{"FixNonBlockingStream",
               "Create your own stream with cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) before you "
               "capture on it."},
              {"FixPoolStream",
               "Capture on a stream of c10::cuda::getStreamFromPool(), all of which are non-blocking."}},
};

class CaptureBeginOnBlockingStream : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    x = at::full({4}, 1, at::kCUDA);
    x.mul(2);  // Loads the kernel, which must not happen beside an open capture.
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  // A stream of the program's own, made current.
  void use_own_stream(unsigned flags) {
    cudaStream_t own = nullptr;
    ASSERT_CUDA(cudaStreamCreateWithFlags(&own, flags));
    stream = c10::cuda::getStreamFromExternal(own, 0);
    c10::cuda::setCurrentCUDAStream(stream);
  }

  void capture_and_replay() {
    graph->capture_begin();
    const at::Tensor y = x * 2;
    EXPECT_GT(captured_nodes(stream), 0);
    graph->capture_end();
    for (const int value : {5, 7}) {
      x.fill_(value);
      graph->replay();
      EXPECT_EQ(values(y), std::vector<double>(4, 2.0 * value));
    }
  }

  at::Tensor x;
};

TEST_F(CaptureBeginOnBlockingStream, Control) {
  use_own_stream(cudaStreamNonBlocking);
  capture_and_replay();
}

TEST_F(CaptureBeginOnBlockingStream, Reproduces) {
  unsigned flags = cudaStreamNonBlocking;
  TRIGGER(flags = cudaStreamDefault);
  use_own_stream(flags);
  const Failure begin = failure_of([&] { graph->capture_begin(); });
  if (!begin) graph->capture_end();
  REPRODUCES(begin.text, "906", "ok");
}

TEST_F(CaptureBeginOnBlockingStream, FixNonBlockingStream) {
  unsigned flags = cudaStreamDefault;
  REMEDY(flags = cudaStreamNonBlocking);
  use_own_stream(flags);
  capture_and_replay();
}

TEST_F(CaptureBeginOnBlockingStream, FixPoolStream) {
  use_own_stream(cudaStreamDefault);
  REMEDY(stream = c10::cuda::getStreamFromPool(); c10::cuda::setCurrentCUDAStream(stream));
  capture_and_replay();
}

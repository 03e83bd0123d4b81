// A capture that an exception leaves open makes every later call an error, and the first one seen is a victim's.
//
// Between begin and end an exception is thrown, and whoever catches it does not know of the capture. The stream goes on
// capturing. Work on it is accepted, recorded into a graph that nobody launches, and never runs. Allocations are
// refused to this thread (900), under a global capture to every thread, and the first refusal also invalidates the
// capture, so that from then on the stream's own work fails (901) as well. A new capture cannot begin on the stream
// (401). A report of such a program had several fixes aimed at the allocations that failed. What LibTorch's pool of
// streams adds to it is in stream_pool_after_abandoned_capture.
//
// Alone:  g++ cases/aftermath/capture_left_open.cpp $(tools/libtorch --flags) -o capture_left_open

#include <stdexcept>
#include <thread>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A capture that an exception leaves open makes every later call an error",
    .sources = {{"upstream", "fak#932"}},
    .documented =
        "the panic leaks the open capture, so every later allocation fails too; the visible error is a victim",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"failed captures", "raw CUDA calls", "threads"},
    .features = {"failed captures"},
    .effects = {{"ReproducesLostWork", Effect::SilentlyWrong}},
    .fixes =
        {{"FixEndOnUnwinding",
          "Call cudaStreamEndCapture() in the destructor of a guard object, so that an exception cannot skip it."},
         {"FixEndWhereItIsCaught",
          "Where the exception is caught, call cudaStreamEndCapture() on the stream, and ignore what it returns."}},
};

class CaptureLeftOpen : public RuntimeTest {
 protected:
  // As a program has it: the exception skips the end.
  void capture_and_throw() {
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
    TRIGGER(throw std::runtime_error("not enough values to unpack"));
    ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  }

  // The program goes on after the exception.
  void fail_to_capture() {
    try {
      capture_and_throw();
    } catch (const std::runtime_error&) {
    }
  }

  static Failure allocate() {
    void* memory = nullptr;
    return failure_of_code(cudaMalloc(&memory, 1 << 20));
  }

  // That nothing is left of the failed capture.
  void expect_a_capture_works() {
    EXPECT_EQ(capture_status(stream), "none");
    EXPECT_EQ(allocate().text, "ok");
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
    EXPECT_EQ(captured_nodes(stream), 1);
    ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
    const cudaGraphExec_t exec = instantiated(captured);
    for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
  }
};

TEST_F(CaptureLeftOpen, Control) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  EXPECT_EQ(captured_nodes(stream), 1);
  ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(launch(instantiated(captured), 3), 3);
  expect_a_capture_works();
}

TEST_F(CaptureLeftOpen, Reproduces) {
  fail_to_capture();
  const std::string status = capture_status(stream);
  const Failure allocation = allocate();
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(status + " > " + allocation.text, "active > 900", "none > ok");
}

TEST_F(CaptureLeftOpen, ReproducesInAnotherThread) {
  fail_to_capture();
  Failure allocation;
  std::thread([&] { allocation = allocate(); }).join();
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(allocation.text, "900", "ok");
}

// Each call after the first refusal, which invalidates the capture.
TEST_F(CaptureLeftOpen, ReproducesEveryLaterCall) {
  fail_to_capture();
  std::string later;
  for (const Failure& failure : {allocate(), allocate(), failure_of_code(cudaMemsetAsync(out, 1, 1, stream)),
                                 failure_of_code(cudaDeviceSynchronize())}) {
    later += failure.text + " ";
  }
  RAISED_BY("cuMemAlloc*");
  REPRODUCES(later, "900 900 901 900 ", "ok ok ok ok ");
}

TEST_F(CaptureLeftOpen, ReproducesNoNewCapture) {
  fail_to_capture();
  const Failure begin = failure_of_code(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  REPRODUCES(begin.text, "401", "ok");
}

// The copy is accepted, and goes into the graph of the open capture.
TEST_F(CaptureLeftOpen, ReproducesLostWork) {
  ASSERT_CUDA(cudaMemset(in, 5, 1));
  ASSERT_CUDA(cudaMemset(out, 1, 1));
  fail_to_capture();
  const Failure copy = failure_of_code(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
  (void)cudaStreamEndCapture(stream, &captured);  // So that the byte can be read.
  (void)cudaGetLastError();
  ASSERT_CUDA(cudaDeviceSynchronize());
  unsigned char left = 0;
  ASSERT_CUDA(cudaMemcpy(&left, out, 1, cudaMemcpyDeviceToHost));
  REPRODUCES(copy.text + " > " + std::to_string(left), "ok > 1", "ok > 5");
}

TEST_F(CaptureLeftOpen, FixEndOnUnwinding) {
  struct EndsCapture {
    cudaStream_t its;
    ~EndsCapture() {
      cudaGraph_t unused = nullptr;
      REMEDY((void)cudaStreamEndCapture(its, &unused));
    }
  };
  try {
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const EndsCapture guard{stream};
    ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
    throw std::runtime_error("not enough values to unpack");
  } catch (const std::runtime_error&) {
  }
  expect_a_capture_works();
}

TEST_F(CaptureLeftOpen, FixEndWhereItIsCaught) {
  try {
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ASSERT_CUDA(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream));
    throw std::runtime_error("not enough values to unpack");
  } catch (const std::runtime_error&) {
    REMEDY((void)cudaStreamEndCapture(stream, &captured));
  }
  expect_a_capture_works();
}

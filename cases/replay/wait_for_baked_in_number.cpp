// A wait for a number that the host raises with each call is void from the second replay on: the graph has the number
// of the capture.
//
// Custom collectives and pipelines synchronise through memory: the producer writes a sequence number behind its data,
// and the consumer waits until the number is there, by cuStreamWaitValue32() or in a kernel. Eager code passes a number
// that is one higher in each call. A graph keeps the number that the capture saw. The first replay waits for it; in all
// later ones the flag has reached it long ago, and the consumer reads before the producer has written. The replay
// returns success, with the data of the step before.
//
// A host function holds the producer here; in a program its work takes time.
//
// Alone:  g++ cases/replay/wait_for_baked_in_number.cpp $(tools/libtorch --flags) -o wait_for_baked_in_number

#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <vector>

#include "fixtures/cuda/gate.h"
#include "fixtures/cuda/gpu.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A wait for a sequence number passes at once from the second replay on, because the number is baked in",
    .sources = {{"upstream", "torchcomms#1177"}},
    .documented =
        "signal values from the capture are replayed identically: the wait passes prematurely on a later replay",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"raw CUDA calls", "side streams", "extensions"},
    .features = {"side streams"},
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixResetTheFlagInTheGraph",
               "Let the graph set the flag back behind its wait, and wait for the same number in each replay."},
              {"FixWaitForAnEvent",
               "Let the replay's stream wait for an event of the producer, outside of the graph, before each replay."}},
    .connections = 8,
};

namespace {

template <class F>
F driver_function(const char* name) {
  return reinterpret_cast<F>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

}  // namespace

class WaitForBakedInNumber : public GpuTest {
 protected:
  using Values = std::vector<int>;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    wait_value = driver_function<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32_v2");
    write_value = driver_function<decltype(&cuStreamWriteValue32)>("cuStreamWriteValue32_v2");
    if (!wait_value || !write_value) NOT_APPLICABLE("this driver has no stream memory operations");
    producer = another_stream();
    ASSERT_CUDA(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
    for (void** each : {&data, &out, &flag}) {
      ASSERT_CUDA(cudaMalloc(each, sizeof(unsigned)));
      ASSERT_CUDA(cudaMemset(*each, 0, sizeof(unsigned)));
    }
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  void wait_for(unsigned number) {
    EXPECT_EQ(wait_value(stream, reinterpret_cast<CUdeviceptr>(flag), number, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  }
  void write_flag(cudaStream_t on, unsigned number) {
    EXPECT_EQ(write_value(on, reinterpret_cast<CUdeviceptr>(flag), number, 0), CUDA_SUCCESS);
  }

  // The consumer: waits for a number and takes the data.
  void consume(unsigned number, bool resets = false) {
    wait_for(number);
    EXPECT_EQ(cudaMemcpyAsync(out, data, sizeof(unsigned), cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    if (resets) write_flag(stream, 0);
  }
  void capture(unsigned number, bool resets = false) {
    ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    consume(number, resets);
    EXPECT_GT(captured_nodes(stream), 0);
    cudaGraph_t captured = nullptr;
    ASSERT_CUDA(cudaStreamEndCapture(stream, &captured));
    ASSERT_CUDA(cudaGraphInstantiateWithFlags(&exec, captured, 0));
  }

  // The producer: 10 * step, and then the number, both behind the gate.
  void produce(int step, unsigned number) {
    gate.close();
    EXPECT_EQ(gate.hold(producer), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(data, 10 * step, 1, producer), cudaSuccess);
    write_flag(producer, number);
    EXPECT_EQ(cudaEventRecord(written, producer), cudaSuccess);
  }

  // What the consumer has taken. Where it waits, the gate must be opened first.
  int taken(bool waits) {
    if (waits) gate.open();
    int value = 0;
    EXPECT_EQ(cudaMemcpyAsync(&value, out, sizeof value, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    gate.open();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return value;
  }

  // Three steps of a graph that was captured in the first one.
  Values replays(bool resets, bool waits_for_event) {
    capture(1, resets);
    Values all;
    for (const int step : {1, 2, 3}) {
      const bool waits = resets || waits_for_event || step == 1;
      produce(step, resets ? 1 : step);
      if (waits_for_event) {
        EXPECT_EQ(cudaStreamWaitEvent(stream, written, 0), cudaSuccess);
      }
      EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
      all.push_back(taken(waits));
    }
    return all;
  }

  decltype(&cuStreamWaitValue32) wait_value = nullptr;
  decltype(&cuStreamWriteValue32) write_value = nullptr;
  Gate gate;
  decltype(stream) producer = stream;
  cudaEvent_t written = nullptr;
  cudaGraphExec_t exec = nullptr;
  void *data = nullptr, *out = nullptr, *flag = nullptr;
};

const std::vector<int> kInOrder = {10, 20, 30}, kOneBehind = {10, 10, 20};

TEST_F(WaitForBakedInNumber, ControlEager) {
  Values all;
  for (const int step : {1, 2, 3}) {
    produce(step, step);
    consume(step);
    all.push_back(taken(/*waits=*/true));
  }
  EXPECT_EQ(all, kInOrder);
}

// The producer is done before each replay.
TEST_F(WaitForBakedInNumber, Control) {
  capture(1);
  Values all;
  for (const int step : {1, 2, 3}) {
    produce(step, step);
    gate.open();
    ASSERT_CUDA(cudaStreamSynchronize(producer));
    ASSERT_CUDA(cudaGraphLaunch(exec, stream));
    all.push_back(taken(/*waits=*/false));
  }
  EXPECT_EQ(all, kInOrder);
}

TEST_F(WaitForBakedInNumber, Reproduces) {
  bool resets = true;
  TRIGGER(resets = false);
  REPRODUCES(replays(resets, /*waits_for_event=*/false), kOneBehind, kInOrder);
}

TEST_F(WaitForBakedInNumber, FixResetTheFlagInTheGraph) {
  bool resets = false;
  REMEDY(resets = true);
  EXPECT_EQ(replays(resets, /*waits_for_event=*/false), kInOrder);
}

TEST_F(WaitForBakedInNumber, FixWaitForAnEvent) {
  bool waits_for_event = false;
  REMEDY(waits_for_event = true);
  EXPECT_EQ(replays(/*resets=*/false, waits_for_event), kInOrder);
}

// A host function in a graph must neither call CUDA nor wait for a lock that the launching thread holds.
//
// CUDA runs a host function as part of a stream's work. It refused each CUDA call from one with error 800, which the
// documentation does not promise. A lock is worse: if the launching thread holds it while it waits for the graph, and
// the host function needs it, both wait forever. In Python, that lock is usually the GIL. Here the launching thread
// holds the lock and only queries the stream, which is not done (600) before the lock is released.
//
// Alone:  g++ cases/nodes/host_function_calls_cuda.cpp $(tools/libtorch --flags) -o host_function_calls_cuda

#include <future>
#include <mutex>
#include <string>

#include "fixtures/cuda/runtime.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "A host function in a graph cannot call CUDA, and deadlocks on a lock of the launching thread",
    .sources = {{"CUDA graph nodes", "cudaLaunchHostFunc"}},
    .documented =
        "The host function must not make any CUDA API calls. Attempting to use a CUDA API may result in "
        "cudaErrorNotPermitted (800), but this is not required. The host function must not perform any synchronization "
        "that may depend on outstanding CUDA work not mandated to run earlier.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "threads"},
    .features = {"raw CUDA calls"},
    .effects = {{"ReproducesLock", Effect::Hangs}},
    .fixes = {{"FixCallAfterTheLaunch",
               "Let the host function only note what has to be done, and call CUDA after the launch has ended."},
              {"FixReleaseTheLock", "Release every lock before you wait for a graph whose host function takes it."}},
    .connections = 8,
};

constexpr char kRefused[] = "800 800 800", kAllowed[] = "0 0 0";

class HostFunctionCallsCuda : public RuntimeTest {
 protected:
  struct Calls {
    cudaStream_t stream = nullptr;  // An idle one.
    bool in_the_function = false;
    int runs = 0;  // Of the function.
    std::string returned;

    void make() {
      void* memory = nullptr;
      returned = std::to_string(cudaStreamQuery(stream));
      returned += " " + std::to_string(cudaMalloc(&memory, 1));
      returned += " " + std::to_string(cudaDeviceSynchronize());
    }
  };

  static void CUDART_CB note(void* pointer) {
    Calls& calls = *static_cast<Calls*>(pointer);
    ++calls.runs;
    if (calls.in_the_function) calls.make();
  }

  struct Lock {
    std::mutex mutex;
    std::promise<void> reached;
  };

  static void CUDART_CB take(void* pointer) {
    Lock& lock = *static_cast<Lock*>(pointer);
    lock.reached.set_value();
    const std::lock_guard<std::mutex> guard(lock.mutex);
  }

  template <class F>
  cudaGraphExec_t captured_with(F function, void* data) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(out, in, 1, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    EXPECT_EQ(cudaLaunchHostFunc(stream, function, data), cudaSuccess);
    EXPECT_EQ(captured_nodes(stream), 2);
    EXPECT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
    return instantiated(captured);
  }

  // What the calls returned that the function made, or this thread after the launch.
  std::string launch_and_call(cudaGraphExec_t exec, Calls& calls, int value) {
    calls.runs = 0;
    calls.returned = "not made";
    EXPECT_EQ(launch(exec, value), value);
    EXPECT_EQ(calls.runs, 1);
    if (!calls.in_the_function) calls.make();
    return calls.returned;
  }

  // What a query of the stream returns once the function has begun. This thread holds the lock that the function takes,
  // and releases it before the query or after it. It waits for the stream only without the lock.
  int launch_and_query(cudaGraphExec_t exec, Lock& lock, int value, bool release_before) {
    lock.reached = std::promise<void>();
    std::unique_lock<std::mutex> held(lock.mutex);
    EXPECT_EQ(cudaMemsetAsync(in, value, 1, stream), cudaSuccess);
    if (const cudaError_t error = cudaGraphLaunch(exec, stream)) return error;
    lock.reached.get_future().wait();
    if (release_before) {
      held.unlock();
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    }
    const cudaError_t query = cudaStreamQuery(stream);
    if (!release_before) held.unlock();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    unsigned char left = 0;
    EXPECT_EQ(cudaMemcpy(&left, out, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(left, value);
    return query;
  }
};

TEST_F(HostFunctionCallsCuda, Control) {
  Calls calls;
  calls.stream = side;
  const cudaGraphExec_t exec = captured_with(note, &calls);
  for (const int value : {5, 7}) EXPECT_EQ(launch_and_call(exec, calls, value), kAllowed);
}

TEST_F(HostFunctionCallsCuda, Reproduces) {
  Calls calls;
  calls.stream = side;
  TRIGGER(calls.in_the_function = true);
  const cudaGraphExec_t exec = captured_with(note, &calls);
  REPRODUCES(launch_and_call(exec, calls, 5), kRefused, kAllowed);
}

TEST_F(HostFunctionCallsCuda, ReproducesLock) {
  Lock lock;
  const cudaGraphExec_t exec = captured_with(take, &lock);
  bool release_before = true;
  TRIGGER(release_before = false);
  REPRODUCES(launch_and_query(exec, lock, 5, release_before), 600, 0);
}

TEST_F(HostFunctionCallsCuda, FixCallAfterTheLaunch) {
  Calls calls;
  calls.stream = side;
  WITHOUT_REMEDY(calls.in_the_function = true);
  const cudaGraphExec_t exec = captured_with(note, &calls);
  for (const int value : {5, 7}) EXPECT_EQ(launch_and_call(exec, calls, value), kAllowed);
}

TEST_F(HostFunctionCallsCuda, FixReleaseTheLock) {
  Lock lock;
  const cudaGraphExec_t exec = captured_with(take, &lock);
  bool release_before = false;
  REMEDY(release_before = true);
  for (const int value : {5, 7}) EXPECT_EQ(launch_and_query(exec, lock, value, release_before), 0);
}

// A host function in a graph must neither call CUDA nor wait for a lock that the launching thread holds.
//
// CUDA runs a host function as part of a stream's work. It refused each CUDA call from one with error 800, which the
// documentation does not promise. A lock is worse: if the launching thread holds it while it waits for the graph, and
// the host function needs it, both wait forever. In Python, that lock is usually the GIL.
//
// Alone:  g++ cases/nodes/host_function_calls_cuda.cpp $(tools/libtorch --flags) -o host_function_calls_cuda

#include <condition_variable>
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
        "cudaErrorNotPermitted (800), but this is not required.",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Translated,
    .tags = {"raw CUDA calls", "threads"},
    .effects = {{"ReproducesLock", Effect::Hangs}},
    .fixes = {{"FixCallAfterTheLaunch",
               "Let the host function only note what has to be done, and call CUDA after the launch has ended."},
              {"FixReleaseTheLock", "Release every lock before you wait for a graph whose host function takes it."}},
};

class HostFunctionCallsCuda : public RuntimeTest {
 protected:
  struct Calls {
    bool made = false;
    void* memory = nullptr;
    cudaStream_t stream = nullptr;
    std::string seen = "not run";
  };

  static void CUDART_CB call(void* pointer) {
    Calls& calls = *static_cast<Calls*>(pointer);
    calls.seen = "ok ok ok";
    if (!calls.made) return;
    calls.seen = std::to_string(cudaStreamQuery(calls.stream)) + " " + std::to_string(cudaMalloc(&calls.memory, 1)) +
                 " " + std::to_string(cudaDeviceSynchronize());
  }

  struct Lock {
    std::mutex held;   // Held by the launching thread.
    std::mutex mutex;  // Guards the members below.
    std::condition_variable changed;
    bool is_reached = false, is_free = false;
  };

  // A real function would block here. This one only tries the lock, which shows whether it would.
  static void CUDART_CB take(void* pointer) {
    Lock& lock = *static_cast<Lock*>(pointer);
    const bool taken = lock.held.try_lock();
    if (taken) lock.held.unlock();
    const std::lock_guard<std::mutex> guard(lock.mutex);
    lock.is_reached = true;
    lock.is_free = taken;
    lock.changed.notify_all();
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

  // Whether the function finds the lock free. If `hold`, the launching thread holds it until the function has run.
  std::string launched_with_lock(cudaGraphExec_t exec, Lock& lock, bool hold) {
    lock.is_reached = false;
    std::unique_lock<std::mutex> held(lock.held, std::defer_lock);
    if (hold) held.lock();
    EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    std::unique_lock<std::mutex> guard(lock.mutex);
    lock.changed.wait(guard, [&] { return lock.is_reached; });
    return lock.is_free ? "free" : "held";
  }
};

TEST_F(HostFunctionCallsCuda, Control) {
  Calls calls;
  const cudaGraphExec_t exec = captured_with(call, &calls);
  for (const int value : {5, 7}) EXPECT_EQ(launch(exec, value), value);
  EXPECT_EQ(calls.seen, "ok ok ok");
}

TEST_F(HostFunctionCallsCuda, Reproduces) {
  Calls calls;
  calls.stream = side;
  TRIGGER(calls.made = true);
  const cudaGraphExec_t exec = captured_with(call, &calls);
  EXPECT_EQ(launch(exec, 5), 5);
  REPRODUCES(calls.seen, "800 800 800", "ok ok ok");
}

TEST_F(HostFunctionCallsCuda, ReproducesLock) {
  Lock lock;
  const cudaGraphExec_t exec = captured_with(take, &lock);
  bool hold = false;
  TRIGGER(hold = true);
  const std::string seen = launched_with_lock(exec, lock, hold);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  REPRODUCES(seen, "held", "free");
}

TEST_F(HostFunctionCallsCuda, FixCallAfterTheLaunch) {
  Calls calls;
  calls.stream = side;
  WITHOUT_REMEDY(calls.made = true);
  const cudaGraphExec_t exec = captured_with(call, &calls);
  for (const int value : {5, 7}) {
    EXPECT_EQ(launch(exec, value), value);
    EXPECT_EQ(calls.seen, "ok ok ok");
    REMEDY(ASSERT_CUDA(cudaMalloc(&calls.memory, 1)));
  }
}

TEST_F(HostFunctionCallsCuda, FixReleaseTheLock) {
  Lock lock;
  const cudaGraphExec_t exec = captured_with(take, &lock);
  bool hold = true;
  REMEDY(hold = false);
  for (const int value : {5, 7}) {
    EXPECT_EQ(launched_with_lock(exec, lock, hold), "free");
    EXPECT_EQ(launch(exec, value), value);
  }
}

// What each remedy for the freeze race costs a call, with 1 and with 33 callers. On the host.
//
// unguarded is the racing code with one caller only, for with two it fails; the others are the remedies of the case
// freeze_remedies_under_load: the mutex and the report's semaphore let one call at a time pass, the shared freeze and
// inference mode let all calls compute at once. A call of this small model takes microseconds, so these are the
// remedies' own prices, not what a transcription would feel.
#include <benchmark/benchmark.h>

#include "fixtures/freeze/freeze_torch.h"

using namespace recapture;

namespace {

struct Shared {
  TorchTranscriber model;
  std::mutex mutex;
  Semaphore semaphore{1};
  SharedFreeze<TorchTranscriber> freeze{model};
  at::Tensor input = speech(1);
};

Shared& shared() {
  static Shared all;
  return all;
}

void unguarded(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(shared().model.transcribe(shared().input));
}
void mutex(benchmark::State& state) {
  for (auto _ : state) {
    const std::lock_guard<std::mutex> hold(shared().mutex);
    benchmark::DoNotOptimize(shared().model.transcribe(shared().input));
  }
}
void semaphore_of_one(benchmark::State& state) {
  for (auto _ : state) {
    const std::unique_lock<Semaphore> hold(shared().semaphore);
    benchmark::DoNotOptimize(shared().model.transcribe(shared().input));
  }
}
void shared_freeze(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(shared().freeze.transcribe(shared().input));
}
void inference_mode(benchmark::State& state) {
  for (auto _ : state) {
    const c10::InferenceMode guard;
    benchmark::DoNotOptimize(shared().model.forward(shared().input));
  }
}

}  // namespace

BENCHMARK(unguarded)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(mutex)->Threads(1)->Threads(33)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(semaphore_of_one)->Threads(1)->Threads(33)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(shared_freeze)->Threads(1)->Threads(33)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(inference_mode)->Threads(1)->Threads(33)->UseRealTime()->Unit(benchmark::kMicrosecond);

BENCHMARK_MAIN();

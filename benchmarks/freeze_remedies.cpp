// The remedies for the freeze race, with one caller and with 33, on the host.
//
// They are compared with the racing code with one caller, since it fails with two. The mutex and the report's semaphore
// serialise the calls; the shared freeze and inference mode let all calls compute in parallel. A call of this small
// model takes microseconds, so these are the costs of the remedies themselves, not of a transcription. The times
// include starting the 33 threads.
#include <thread>

#include "benchmarks/work.h"
#include "fixtures/freeze/freeze_torch.h"

namespace recapture {
namespace {

constexpr int kCallers = 33, kCallsEach = 100;

struct Shared {
  TorchTranscriber model;
  std::mutex mutex;
  Semaphore semaphore{1};
  SharedFreeze<TorchTranscriber> freeze{model};
  at::Tensor input = speech(1);
};

using Call = void (*)(Shared&);

void unguarded(Shared& s) { s.model.transcribe(s.input); }
void mutex(Shared& s) {
  const std::lock_guard<std::mutex> hold(s.mutex);
  s.model.transcribe(s.input);
}
void semaphore(Shared& s) {
  const std::unique_lock<Semaphore> hold(s.semaphore);
  s.model.transcribe(s.input);
}
void shared_freeze(Shared& s) { s.freeze.transcribe(s.input); }
void no_freezing(Shared& s) {
  const c10::InferenceMode guard;
  s.model.forward(s.input);
}

Work one_call(Call call) {
  return [=, shared = std::make_shared<Shared>()] { call(*shared); };
}

Work calls_by_one(Call call) {
  return [one = one_call(call)] {
    for (int i = 0; i < kCallers * kCallsEach; ++i) one();
  };
}

Work calls_at_once(Call call) {
  return [one = one_call(call)] {
    std::vector<std::thread> threads;
    for (int caller = 0; caller < kCallers; ++caller) {
      threads.emplace_back([&] {
        for (int i = 0; i < kCallsEach; ++i) one();
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
}

void prices_of(std::initializer_list<const char*> fixes, Call call) {
  price(
      fixes, "a call of a small model on the host", Clock::Host, [] { return one_call(unguarded); },
      [=] { return one_call(call); });
  price(
      fixes, "100 such calls by each of 33 callers at once, in place of 3,300 by one without the remedy", Clock::Host,
      [] { return calls_by_one(unguarded); }, [=] { return calls_at_once(call); });
}

const Registered kAll([] {
  prices_of({"freeze_race_by_concurrency.FixLock", "freeze_race_in_transcribe.FixLock",
             "freeze_remedies_under_load.FixMutex"},
            mutex);
  prices_of({"freeze_race_in_transcribe.FixSemaphore", "freeze_remedies_under_load.FixSemaphore"}, semaphore);
  prices_of({"freeze_remedies_under_load.FixSharedFreeze", "frozen_for_ever_by_overlap.FixSharedFreeze",
             "settings_lost_in_overlap.FixSharedFreeze", "train_mode_after_transcribe.FixSharedFreeze"},
            shared_freeze);
  prices_of({"freeze_remedies_under_load.FixNoFreezing", "train_mode_after_transcribe.FixNoFreezing"}, no_freezing);
});

}  // namespace
}  // namespace recapture

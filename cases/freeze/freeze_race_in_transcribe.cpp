// transcribe() called by two threads on one model fails on its way out, when it unfreezes what it froze on its way in.
//
// A model of our own (fixtures/freeze/), which throws both errors itself; nemo_as_frozen and nemo_transcribe have them
// from the released code. Each call freezes the model's parts and notes what it found in one attribute,
// _frozen_grad_map; it unfreezes them by that map and deletes it. The attribute belongs to the part and not to the
// call: the first call to unfreeze takes it away from all others. Which error they raise depends on where they are
// then: before the check that the map exists (ValueError), or between that check and a later use (AttributeError, at
// three places). The model is that state machine, one step for each access that Python makes, on torch::nn::Module; the
// test decides the order of the steps.
//
// Alone:  g++ cases/freeze/freeze_race_in_transcribe.cpp $(tools/libtorch --flags) -o freeze_race_in_transcribe

#include "fixtures/freeze/freeze_torch.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In a model of NeMo, transcribe() by two threads at once raises ValueError or AttributeError",
    .sources = {{"freeze race", "Description"},
                {"freeze race", "Race condition mechanism"},
                {"freeze race", "Expected behavior"}},
    .documented = "ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Simulated,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host",
    .fixes = {{"FixLock",
               "Take one threading.Lock (in C++ a std::mutex) around every transcribe() call on a shared model."},
              {"FixSemaphore", "Guard every transcribe() call on a shared model with one threading.Semaphore(1)."}},
};

class FreezeRaceInTranscribe : public ::testing::Test {
 protected:
  TorchTranscriber model;
  at::Tensor first, second;
  std::mutex mutex;
  Semaphore semaphore{1};
};

constexpr char kAttributeError[] = "AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map'";

TEST_F(FreezeRaceInTranscribe, ControlOneAfterTheOther) {
  Caller a([&] { first = model.transcribe(speech(0)); });
  Caller b([&] { second = model.transcribe(speech(7)); });
  a.finish();
  b.finish();
  EXPECT_EQ(a.outcome(), "ok");
  EXPECT_EQ(b.outcome(), "ok");
  EXPECT_EQ(values(first), transcript(0));
  EXPECT_EQ(values(second), transcript(7));
  EXPECT_EQ(model.encoder.grad(), "trainable");
  EXPECT_EQ(model.encoder.map(), "no map");
}

TEST_F(FreezeRaceInTranscribe, ReproducesValueError) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.unfreeze looks for the map");
  TRIGGER(b.until("encoder.unfreeze looks for the map"));
  a.finish();
  b.finish();
  REPRODUCES(b.outcome(), "ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`",
             "ok");
}

// The map is there when B looks, and gone when B reads what it says about the first parameter.
TEST_F(FreezeRaceInTranscribe, ReproducesAttributeError) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.unfreeze looks for the map");
  TRIGGER(b.until("encoder.unfreeze finds weight"));
  a.finish();
  b.finish();
  REPRODUCES(b.outcome(), kAttributeError, "ok");
}

// B has read all of the map and looks once more before it deletes it; A deletes it in between.
TEST_F(FreezeRaceInTranscribe, ReproducesAttributeErrorInDelete) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.unfreeze deletes the map");
  TRIGGER(b.until("encoder.unfreeze deletes the map"));
  a.finish();
  b.finish();
  REPRODUCES(b.outcome(), kAttributeError, "ok");
}

// Freezing is no safer: B finds A's map and is about to add to it when A deletes it. B's own unfreeze() then fails too,
// and Python raises that later error, with the AttributeError as its context.
TEST_F(FreezeRaceInTranscribe, ReproducesAttributeErrorInFreeze) {
  Caller a([&] { model.encoder.as_frozen([] {}); });
  Caller b([&] { model.encoder.freeze(); });
  a.until("encoder.unfreeze looks for the map");
  TRIGGER(b.until("encoder.freeze updates the map"));
  a.finish();
  b.finish();
  REPRODUCES(b.outcome(), kAttributeError, "ok");
}

TEST_F(FreezeRaceInTranscribe, FixLock) {
  const auto call = [&](at::Tensor& result, int input) {
    std::unique_lock<std::mutex> hold(mutex, std::defer_lock);
    REMEDY(Caller::acquire(hold));
    result = model.transcribe(speech(input));
  };
  Caller a([&] { call(first, 0); });
  Caller b([&] { call(second, 7); });
  a.until("encoder.unfreeze looks for the map");
  b.until("encoder.unfreeze looks for the map");
  EXPECT_EQ(b.outcome(), "waiting for the lock");
  a.finish();
  b.finish();
  EXPECT_EQ(a.outcome(), "ok");
  ASSERT_EQ(b.outcome(), "ok");
  EXPECT_EQ(values(first), transcript(0));
  EXPECT_EQ(values(second), transcript(7));
  EXPECT_EQ(model.encoder.grad(), "trainable");
}

TEST_F(FreezeRaceInTranscribe, FixSemaphore) {
  const auto call = [&](at::Tensor& result, int input) {
    std::unique_lock<Semaphore> hold(semaphore, std::defer_lock);
    REMEDY(Caller::acquire(hold));
    result = model.transcribe(speech(input));
  };
  Caller a([&] { call(first, 0); });
  Caller b([&] { call(second, 7); });
  a.until("encoder.unfreeze finds weight");
  b.until("encoder.unfreeze finds weight");
  EXPECT_EQ(b.outcome(), "waiting for the lock");
  a.finish();
  b.finish();
  EXPECT_EQ(a.outcome(), "ok");
  ASSERT_EQ(b.outcome(), "ok");
  EXPECT_EQ(values(first), transcript(0));
  EXPECT_EQ(values(second), transcript(7));
  EXPECT_EQ(model.encoder.grad(), "trainable");
}

// transcribe() leaves the frozen parts in train mode, and another call's forward runs in it, with other results.
//
// A model of our own (fixtures/freeze/); nemo_transcribe shows the mode with the released code. unfreeze() ends in
// train(), whatever the mode was before, and it runs after transcribe() has restored the mode of the whole model. So
// the encoder of a model in eval mode is in train mode after every call, even with one thread, and the lock that ends
// the race's errors does not change that. A forward that does not set the mode itself, or that set it before another
// call's train(), normalises by its own batch, changes the running statistics that all later calls use, and raises
// nothing.
//
// Alone:  g++ cases/freeze/train_mode_after_transcribe.cpp $(tools/libtorch --flags) -o train_mode_after_transcribe

#include "fixtures/freeze/freeze_torch.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In a model of NeMo, transcribe() leaves its parts in train mode, in which other calls then run",
    .sources = {{"freeze race", "Expected behavior"}, {"upstream", "NeMo#15771"}},
    .documented = "Concurrent transcribe() calls return valid results when the model is in eval mode.",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Simulated,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixSharedFreeze",
               "Note each part's training flag before the first caller's freeze(); set it again after the last one's "
               "unfreeze()."},
              {"FixNoFreezing",
               "Call forward() under torch.inference_mode() on the model in eval() mode, instead of transcribe()."}},
};

class TrainModeAfterTranscribe : public ::testing::Test {
 protected:
  std::string modes() {
    return model.mode() + " | " + model.encoder.mode() + " " + model.decoder.mode() + " " + model.joint.mode();
  }
  std::string judged(const std::string& outcome) {
    return outcome + (result.defined() && values(result) == transcript() ? ", right" : ", wrong");
  }
  TorchTranscriber model;
  at::Tensor result;
};

TEST_F(TrainModeAfterTranscribe, Control) {
  model.encoder.as_frozen([&] { EXPECT_EQ(model.encoder.mode(), "eval"); });
  EXPECT_EQ(modes(), "eval | eval eval eval");
  EXPECT_EQ(values(model.forward(speech())), transcript());
}

TEST_F(TrainModeAfterTranscribe, ReproducesByOneThread) {
  const auto saved = model.begin();
  for (auto* part : model.parts()) part->freeze();
  model.forward(speech());
  model.end(saved);
  for (auto* part : model.parts()) TRIGGER(part->unfreeze(true));
  REPRODUCES(modes(), "eval | train train train", "eval | eval eval eval");
}

TEST_F(TrainModeAfterTranscribe, ReproducesUnderTheLock) {
  std::mutex mutex;
  Caller a([&] {
    const std::lock_guard<std::mutex> hold(mutex);
    TRIGGER(model.transcribe(speech()));
  });
  a.finish();
  const std::string mode = model.encoder.mode();
  result = model.forward(speech());
  REPRODUCES(judged(mode), "train, wrong", "eval, right");
}

// A has set eval mode and is about to compute when B ends.
TEST_F(TrainModeAfterTranscribe, ReproducesInTheOthersForward) {
  Caller a([&] { result = model.forward((model.begin(), speech())); });
  Caller b([&] { model.transcribe(speech()); });
  b.until("encoder.unfreeze sets train mode");
  a.until("encoder.forward");
  TRIGGER(b.until("decoder.unfreeze"));
  a.finish();
  b.finish();
  REPRODUCES(judged(a.outcome()), "ok, wrong", "ok, right");
}

// The same with all of transcribe() and without an error in either call: B deletes its map before A begins, and sets
// train mode after A has frozen the encoder.
TEST_F(TrainModeAfterTranscribe, ReproducesWithoutAnyError) {
  Caller a([&] { result = model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  b.until("encoder.unfreeze sets train mode");
  WITHOUT_TRIGGER(b.finish());
  a.until("decoder.freeze");
  b.finish();
  a.finish();
  REPRODUCES(b.outcome() + " and " + judged(a.outcome()), "ok and ok, wrong", "ok and ok, right");
}

// B begins while the model is in train mode, remembers that, and restores it while A runs.
TEST_F(TrainModeAfterTranscribe, ReproducesByTheModeThatWasRemembered) {
  model.train(true, "training");
  Caller a([&] { result = model.forward((model.begin(), speech())); });
  Caller b([&] { model.end(model.begin()); });
  b.until("begin saves dither");
  a.until("encoder.forward");
  TRIGGER(b.finish());
  a.finish();
  REPRODUCES(judged(a.outcome()), "ok, wrong", "ok, right");
}

// The wrong mode does lasting damage: the running statistics are no longer those that were loaded.
TEST_F(TrainModeAfterTranscribe, ReproducesInTheRunningStatistics) {
  TRIGGER(model.transcribe(speech()));
  model.forward(speech());
  REPRODUCES(values(model.encoder.part.running_mean()), "{ 1.5, 3.5 }", "{ 0, 0 }");
}

TEST_F(TrainModeAfterTranscribe, FixSharedFreeze) {
  SharedFreeze<TorchTranscriber> counted(model);
  bool shared = false;
  REMEDY(shared = true);
  at::Tensor first, second;
  const auto call = [&](int input) {
    return shared ? counted.transcribe(speech(input)) : model.transcribe(speech(input));
  };
  Caller a([&] { first = call(0); });
  Caller b([&] { second = call(7); });
  a.until("encoder.forward");
  b.finish();
  a.finish();
  const at::Tensor later = call(3);
  EXPECT_EQ(modes(), "eval | eval eval eval");
  ASSERT_EQ(a.outcome() + ", " + b.outcome(), "ok, ok");
  EXPECT_EQ(values(first), transcript(0));
  EXPECT_EQ(values(second), transcript(7));
  EXPECT_EQ(values(later), transcript(3));
}

TEST_F(TrainModeAfterTranscribe, FixNoFreezing) {
  bool freezes = true;
  REMEDY(freezes = false);
  for (const int input : {0, 7}) {
    EXPECT_EQ(values(freezes ? model.transcribe(speech(input)) : model.forward(speech(input))), transcript(input));
  }
  EXPECT_EQ(modes(), "eval | eval eval eval");
  EXPECT_EQ(model.encoder.grad(), "trainable");
}

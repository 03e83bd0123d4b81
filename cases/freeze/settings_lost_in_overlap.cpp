// Two calls that overlap leave the preprocessor without dither and padding, and the log quiet, for the rest of the
// process.
//
// A model of our own (fixtures/freeze/); nemo_transcribe shows the same with the released code. transcribe() saves
// dither, pad_to and the log's verbosity, sets them to 0, 0 and "warning", and restores what it saved. A second call in
// between saves the zeros of the first, and restores those after the first has restored the true values. Neither call
// has to fail for that: the settings are restored before anything is unfrozen.
//
// Alone:  g++ cases/freeze/settings_lost_in_overlap.cpp $(tools/libtorch --flags) -o settings_lost_in_overlap

#include "fixtures/freeze/freeze_torch.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In a model of NeMo, dither, padding and verbosity are lost when two calls of transcribe() overlap",
    .sources = {{"freeze race", "Description"}, {"upstream", "NeMo#15771"}},
    .documented = "transcribe() mutates shared state in _transcribe_on_begin() and _transcribe_on_end()",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Simulated,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host",
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixLock",
          "Hold one lock around transcribe(), so that no call saves another's zeroed dither and pad_to as its own."},
         {"FixSharedFreeze",
          "Let the first caller save and zero dither, pad_to and the log's verbosity, and only the last one restore "
          "them."}},
};

class SettingsLostInOverlap : public ::testing::Test {
 protected:
  // What two overlapping calls leave, and one more call after them.
  std::string settings_later() {
    const std::string left = model.settings();
    outcome_of([&] { model.transcribe(speech()); });
    return left + ", then " + model.settings();
  }
  TorchTranscriber model;
};

TEST_F(SettingsLostInOverlap, ControlOneAfterTheOther) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.forward");
  EXPECT_EQ(model.settings() + ", " + model.log(), "zeroed, warning");
  a.finish();
  b.finish();
  EXPECT_EQ(settings_later(), "as configured, then as configured");
  EXPECT_EQ(model.log(), "info");
}

TEST_F(SettingsLostInOverlap, ReproducesInDitherAndPadding) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.forward");
  TRIGGER(b.until("encoder.forward"));
  a.finish();
  b.finish();
  REPRODUCES(settings_later(), "zeroed, then zeroed", "as configured, then as configured");
}

TEST_F(SettingsLostInOverlap, ReproducesInTheLog) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.forward");
  TRIGGER(b.until("encoder.forward"));
  a.finish();
  b.finish();
  REPRODUCES(model.log(), "warning", "info");
}

// Only the settings overlap and not the freezing: no call fails, and the loss is silent.
TEST_F(SettingsLostInOverlap, ReproducesWithoutAnyError) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.freeze");
  TRIGGER(b.until("encoder.freeze"));  // B has saved and cleared the settings, and frozen nothing.
  a.finish();
  b.finish();
  REPRODUCES(a.outcome() + ", " + b.outcome() + ", " + model.settings(), "ok, ok, zeroed", "ok, ok, as configured");
}

TEST_F(SettingsLostInOverlap, FixLock) {
  std::mutex mutex;
  at::Tensor first, second;
  const auto call = [&](at::Tensor& result, int input) {
    std::unique_lock<std::mutex> hold(mutex, std::defer_lock);
    REMEDY(Caller::acquire(hold));
    result = model.transcribe(speech(input));
  };
  Caller a([&] { call(first, 0); });
  Caller b([&] { call(second, 7); });
  a.until("encoder.forward");
  b.until("encoder.forward");
  EXPECT_TRUE(b.waiting());
  a.finish();
  b.finish();
  EXPECT_EQ(model.settings() + ", " + model.log(), "as configured, info");
  ASSERT_EQ(b.outcome(), "ok");
  EXPECT_EQ(values(first), transcript(0));
  EXPECT_EQ(values(second), transcript(7));
}

TEST_F(SettingsLostInOverlap, FixSharedFreeze) {
  SharedFreeze<TorchTranscriber> counted(model);
  bool shared = false;
  REMEDY(shared = true);
  at::Tensor first, second;
  const auto call = [&](int input) {
    return shared ? counted.transcribe(speech(input)) : model.transcribe(speech(input));
  };
  Caller a([&] { first = call(0); });
  Caller b([&] { second = call(7); });
  a.until("joint.forward");
  b.until("joint.forward");
  a.finish();
  EXPECT_EQ(model.settings() + ", " + model.log(), "zeroed, warning");
  b.finish();
  EXPECT_EQ(model.settings() + ", " + model.log(), "as configured, info");
  ASSERT_EQ(b.outcome(), "ok");
  EXPECT_EQ(values(first), transcript(0));
  EXPECT_EQ(values(second), transcript(7));
}

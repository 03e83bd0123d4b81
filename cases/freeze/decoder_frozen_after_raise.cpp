// A call whose encoder.unfreeze() fails never unfreezes the decoder and the joint network.
//
// A model of our own (fixtures/freeze/), which throws the ValueError itself; nemo_transcribe has the error from the
// released code. The three parts are unfrozen one after the other, and nothing catches the first one's ValueError. The
// other two stay frozen, and each keeps its map. The next call, though it is alone, writes what it finds ("false") into
// that map and restores it: what one failed request left behind outlives all later ones that succeed.
//
// Alone:  g++ cases/freeze/decoder_frozen_after_raise.cpp $(tools/libtorch --flags) -o decoder_frozen_after_raise

#include "fixtures/freeze/freeze_torch.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In a model of NeMo, decoder and joint network stay frozen after the encoder's unfreeze() has failed",
    .sources = {{"freeze race", "Description"}, {"upstream", "NeMo#15771"}},
    .documented = "ValueError by encoder.unfreeze(partial=True) in _transcribe_on_end()",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Simulated,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host",
    .effects = {{"ReproducesForEveryLaterCall", Effect::SilentlyWrong}},
    .fixes =
        {{"FixLock",
          "Serialise all transcribe() calls on a model with one lock, so that no unfreeze() fails halfway through."}},
};

class DecoderFrozenAfterRaise : public ::testing::Test {
 protected:
  std::string left() const {
    return model.encoder.grad() + " " + model.encoder.map() + " | " + model.decoder.grad() + " " + model.decoder.map() +
           " | " + model.joint.grad() + " " + model.joint.map();
  }
  TorchTranscriber model;
};

TEST_F(DecoderFrozenAfterRaise, ControlOneAfterTheOther) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.finish();
  b.finish();
  EXPECT_EQ(b.outcome(), "ok");
  EXPECT_EQ(left(), "trainable no map | trainable no map | trainable no map");
}

// B freezes the encoder before A leaves, and the other two after A has left.
TEST_F(DecoderFrozenAfterRaise, Reproduces) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.unfreeze looks for the map");
  TRIGGER(b.until("decoder.freeze"));
  a.finish();
  b.finish();
  REPRODUCES(left(), "frozen no map | frozen map | frozen map",
             "trainable no map | trainable no map | trainable no map");
}

TEST_F(DecoderFrozenAfterRaise, ReproducesForEveryLaterCall) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.unfreeze looks for the map");
  TRIGGER(b.until("decoder.freeze"));
  a.finish();
  b.finish();
  const std::string later = outcome_of([&] { model.transcribe(speech()); });
  REPRODUCES(later + ": " + left(), "ok: frozen no map | frozen no map | frozen no map",
             "ok: trainable no map | trainable no map | trainable no map");
}

TEST_F(DecoderFrozenAfterRaise, FixLock) {
  std::mutex mutex;
  at::Tensor first, second;
  const auto call = [&](at::Tensor& result, int input) {
    std::unique_lock<std::mutex> hold(mutex, std::defer_lock);
    REMEDY(Caller::acquire(hold));
    result = model.transcribe(speech(input));
  };
  Caller a([&] { call(first, 0); });
  Caller b([&] { call(second, 7); });
  a.until("encoder.unfreeze looks for the map");
  b.until("decoder.freeze");
  EXPECT_TRUE(b.waiting());
  a.finish();
  b.finish();
  EXPECT_EQ(left(), "trainable no map | trainable no map | trainable no map");
  ASSERT_EQ(b.outcome(), "ok");
  EXPECT_EQ(values(first), transcript(0));
  EXPECT_EQ(values(second), transcript(7));
}

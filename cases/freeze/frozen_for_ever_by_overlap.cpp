// Two calls that overlap leave parameters frozen for the rest of the process, without an error.
//
// A model of our own (fixtures/freeze/); nemo_as_frozen shows the same with the released code. freeze() notes each
// parameter's requires_grad and clears it; where there is a map already, it writes into that. A second call finds the
// parameters cleared by the first and notes "false" over the first one's "true", and so the first call, which raises
// nothing, restores "false". Every later call finds and restores the same. If the second call comes while the first is
// still clearing, its notes are mixed, and the part stays half frozen, both in the older form of freeze(), which reads
// and clears parameter by parameter, and in the newer one, which reads all of them first.
//
// Alone:  g++ cases/freeze/frozen_for_ever_by_overlap.cpp $(tools/libtorch --flags) -o frozen_for_ever_by_overlap

#include "fixtures/freeze/freeze_torch.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In a model of NeMo, parameters stay frozen for ever after two calls of transcribe() have overlapped",
    .sources = {{"freeze race", "Race condition mechanism"}, {"upstream", "NeMo#15771"}},
    .documented = "overwrites _frozen_grad_map; inconsistent state",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Simulated,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host",
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixSharedFreeze",
          "Let only the first of overlapping callers call freeze(), and only the last one unfreeze(partial=True)."}},
};

class FrozenForEverByOverlap : public ::testing::Test {
 protected:
  // What a first call returned, and what is left after it and one more call, which is alone.
  std::string after(const Caller& a) {
    return a.outcome() + ", " + model.encoder.grad() + ", then " + outcome_of([&] { model.transcribe(speech()); }) +
           ", " + model.encoder.grad();
  }
  TorchTranscriber model;
};

TEST_F(FrozenForEverByOverlap, ControlOneAfterTheOther) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.forward");
  EXPECT_EQ(model.encoder.grad(), "frozen");
  a.finish();
  b.finish();
  EXPECT_EQ(after(a), "ok, trainable, then ok, trainable");
}

TEST_F(FrozenForEverByOverlap, Reproduces) {
  Caller a([&] { model.transcribe(speech()); });
  Caller b([&] { model.transcribe(speech()); });
  a.until("encoder.unfreeze looks for the map");
  TRIGGER(b.until("encoder.forward"));
  a.finish();
  b.finish();
  REPRODUCES(after(a), "ok, frozen, then ok, frozen", "ok, trainable, then ok, trainable");
}

// A has cleared the weight and not yet read the bias; B freezes the part whole, and A then reads what B has cleared.
TEST_F(FrozenForEverByOverlap, ReproducesHalfFrozenByTheOlderFreeze) {
  Caller a([&] { model.transcribe(speech(), FreezeForm::Interleaved); });
  Caller b([&] { model.transcribe(speech(), FreezeForm::Interleaved); });
  a.until("encoder.freeze reads bias");
  TRIGGER(b.until("encoder.forward"));
  a.finish();
  b.finish();
  REPRODUCES(after(a), "ok, half-frozen, then ok, half-frozen", "ok, trainable, then ok, trainable");
}

// A has read both and cleared the weight. B reads the two as they are now and writes its notes over A's.
TEST_F(FrozenForEverByOverlap, ReproducesHalfFrozenByTheNewerFreeze) {
  Caller a([&] { model.transcribe(speech(), FreezeForm::SnapshotFirst); });
  Caller b([&] { model.transcribe(speech(), FreezeForm::SnapshotFirst); });
  a.until("encoder.freeze clears bias");
  TRIGGER(b.until("encoder.freeze looks for the map"));
  a.until("encoder.unfreeze looks for the map");
  TRIGGER(b.until("encoder.forward"));
  a.finish();
  b.finish();
  REPRODUCES(after(a), "ok, half-frozen, then ok, half-frozen", "ok, trainable, then ok, trainable");
}

TEST_F(FrozenForEverByOverlap, FixSharedFreeze) {
  SharedFreeze<TorchTranscriber> counted(model);
  bool shared = false;
  REMEDY(shared = true);
  at::Tensor first, second;
  const auto call = [&](int input) {
    return shared ? counted.transcribe(speech(input)) : model.transcribe(speech(input));
  };
  Caller a([&] { first = call(0); });
  Caller b([&] { second = call(7); });
  a.until("decoder.forward");
  b.until("decoder.forward");  // Both are in the model at once.
  EXPECT_EQ(model.encoder.grad(), "frozen");
  a.finish();
  EXPECT_EQ(model.encoder.grad(), "frozen");
  b.finish();
  EXPECT_EQ(model.encoder.grad(), "trainable");
  EXPECT_EQ(model.encoder.mode(), "eval");
  ASSERT_EQ(a.outcome() + ", " + b.outcome(), "ok, ok");
  EXPECT_EQ(values(first), transcript(0));
  EXPECT_EQ(values(second), transcript(7));
}

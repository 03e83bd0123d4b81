// Each remedy for the freeze race holds under 33 callers that call 10,000 times each.
//
// A model of our own (fixtures/freeze/); nemo_transcribe runs two of the remedies with the released code. The four are
// a mutex around the whole call; the report's semaphore of one; a count of callers, of which the first freezes and the
// last unfreezes; and no freezing at all, since a model in eval mode computes the same in inference mode. The last two
// are our own additions. The check is the same for all: no call raises, every result is that of a call alone, and the
// model is afterwards what it was. Two broken remedies show that the check notices: a mutex that nobody locks, and a
// semaphore of two.
//
// Alone:  g++ cases/freeze/freeze_remedies_under_load.cpp $(tools/libtorch --flags) -o freeze_remedies_under_load

#include "fixtures/freeze/freeze_torch.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In a model of NeMo, a remedy that lets two calls of transcribe() overlap fails under load",
    .sources = {{"freeze race", "Production incident reference"},
                {"freeze race", "Stress test reproduction"},
                {"freeze race", "Expected behavior"}},
    .documented = "0% error rate with a semaphore of one; 98/120 concurrent requests crashed without it",
    .nature = Nature::Race,
    .fidelity = Fidelity::Simulated,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host",
    .deadline_s = 300,
    .fixes = {{"FixMutex",
               "Hold one mutex for the whole of each transcribe() call, from before freeze() until after unfreeze()."},
              {"FixSemaphore",
               "Acquire one semaphore of count 1 around each transcribe() call; a count of 2 does not help."},
              {"FixSharedFreeze",
               "Count the callers under a mutex: the first calls freeze(), the last calls unfreeze() and restores eval "
               "mode."},
              {"FixNoFreezing",
               "Freeze nothing: put the model in eval() mode and call forward() under torch.inference_mode()."}},
    .stopping = StoppingRule::FixedCalls,
};

class FreezeRemediesUnderLoad : public ::testing::Test {
 protected:
  static constexpr int kCallers = 33, kRounds = 10000, kBrokenRounds = 100;
  struct Bad {
    int calls = 0;      // That raised, or returned something else than alone.
    std::string after;  // What is left of the model.
  };

  // `callers` threads call `rounds` times each.
  template <class F>
  Bad load(int rounds, F&& call, int callers = kCallers) {
    std::atomic<int> bad{0};
    std::vector<at::Tensor> inputs, expected;
    for (int i = 0; i < callers; ++i) {
      inputs.push_back(speech(i));
      expected.push_back(TorchTranscriber().forward(inputs.back()));
    }
    together(callers, [&](int i) {
      for (int round = 0; round < rounds; ++round) {
        at::Tensor result;
        if (outcome_of([&] { result = call(inputs[i]); }) != "ok" || !at::equal(result, expected[i])) ++bad;
      }
    });
    std::string after;
    for (auto* part : model.parts()) after += part->grad() + ", " + part->map() + ", ";
    return {bad, after + model.settings() + ", " + model.log()};
  }
  static constexpr char kIntact[] = "trainable, no map, trainable, no map, trainable, no map, as configured, info";

  TorchTranscriber model;
  std::mutex mutex;
};

TEST_F(FreezeRemediesUnderLoad, ControlOneCaller) {
  const Bad bad = load(
      kRounds, [&](const at::Tensor& input) { return model.transcribe(input); }, /*callers=*/1);
  EXPECT_EQ(bad.calls, 0);
  EXPECT_EQ(bad.after, kIntact);
}

TEST_F(FreezeRemediesUnderLoad, ReproducesWithoutTheLock) {
  const Bad bad = load(kBrokenRounds, [&](const at::Tensor& input) {
    std::unique_lock<std::mutex> hold(mutex, std::defer_lock);
    WITHOUT_TRIGGER(hold.lock());
    return model.transcribe(input);
  });
  record("after", bad.after);
  REPRODUCES_AT_RATE(bad.calls, kCallers * kBrokenRounds);
}

TEST_F(FreezeRemediesUnderLoad, ReproducesWithASemaphoreOfTwo) {
  Semaphore semaphore(trigger_on() ? 2 : 1);
  const Bad bad = load(kBrokenRounds, [&](const at::Tensor& input) {
    const std::unique_lock<Semaphore> hold(semaphore);
    return model.transcribe(input);
  });
  record("after", bad.after);
  REPRODUCES_AT_RATE(bad.calls, kCallers * kBrokenRounds);
}

TEST_F(FreezeRemediesUnderLoad, FixMutex) {
  bool locked = false;
  REMEDY(locked = true);
  const Bad bad = load(kRounds, [&](const at::Tensor& input) {
    std::unique_lock<std::mutex> hold(mutex, std::defer_lock);
    if (locked) hold.lock();
    return model.transcribe(input);
  });
  EXPECT_EQ(bad.calls, 0);
  EXPECT_EQ(bad.after, kIntact);
}

TEST_F(FreezeRemediesUnderLoad, FixSemaphore) {
  unsigned count = kCallers;  // Which lets all of them in.
  REMEDY(count = 1);
  Semaphore semaphore(count);
  const Bad bad = load(kRounds, [&](const at::Tensor& input) {
    const std::unique_lock<Semaphore> hold(semaphore);
    return model.transcribe(input);
  });
  EXPECT_EQ(bad.calls, 0);
  EXPECT_EQ(bad.after, kIntact);
}

TEST_F(FreezeRemediesUnderLoad, FixSharedFreeze) {
  SharedFreeze<TorchTranscriber> counted(model);
  bool shared = false;
  REMEDY(shared = true);
  const Bad bad = load(
      kRounds, [&](const at::Tensor& input) { return shared ? counted.transcribe(input) : model.transcribe(input); });
  EXPECT_EQ(bad.calls, 0);
  EXPECT_EQ(bad.after, kIntact);
  EXPECT_EQ(model.encoder.mode(), "eval");
}

TEST_F(FreezeRemediesUnderLoad, FixNoFreezing) {
  bool freezes = true;
  REMEDY(freezes = false);
  const Bad bad = load(kRounds, [&](const at::Tensor& input) {
    const c10::InferenceMode guard;
    const at::Tensor result = freezes ? model.transcribe(input) : model.forward(input);
    TORCH_CHECK(result.is_inference(), "recorded for autograd, though the model is not frozen");
    return result;
  });
  EXPECT_EQ(bad.calls, 0);
  EXPECT_EQ(bad.after, kIntact);
  EXPECT_EQ(model.encoder.mode(), "eval");
}

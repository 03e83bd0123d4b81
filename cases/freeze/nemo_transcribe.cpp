// The released NeMo's transcribe() fails when one model transcribes twice at once, by threads or by one thread alone.
//
// The code is the wheel's own ASRTranscriptionMixin and NeuralModule, each loaded from its file alone; the model that
// they serve is three small layers. transcribe_generator() stops after each batch and unfreezes only when it is
// exhausted. So two of them, taken in turn, overlap in an order that the program decides, without a second thread: the
// error is the same each time, and the settings are lost as well. For the table, threads start at a barrier, as in the
// report. `ci/nemo 2.0.0` and `ci/nemo 3.0.0` fetch what this needs.
//
// Alone:  g++ cases/freeze/nemo_transcribe.cpp $(tools/libtorch --flags) -o nemo_transcribe

#include <cstdio>

#include "fixtures/python/nemo.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "NeMo's released transcribe() fails when two calls of it on one model overlap",
    .sources = {{"freeze race", "Description"},
                {"freeze race", "Steps/Code to reproduce bug"},
                {"freeze race", "Quantified results"},
                {"freeze race", "Production incident reference"}},
    .documented = "ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`",
    .nature = Nature::Race,
    .fidelity = Fidelity::Verbatim,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host python nemo",
    .deadline_s = 120,
    .effects = {{"ReproducesInTheSettings3_0", Effect::SilentlyWrong},
                {"ReproducesInTheMode3_0", Effect::SilentlyWrong}},
    .fixes = {{"FixLock", "Hold one threading.Lock per model around every call of its transcribe()."},
              {"FixSemaphore", "Acquire one threading.Semaphore(1) per model around every call of its transcribe()."}},
    .stopping = StoppingRule::FixedCalls,
};

class NemoTranscribe : public NemoTest {
 protected:
  // Two generators of one model; with `overlap`, B has begun before A ends. Then `show` in the programs' words.
  std::string two(const std::string& overlap, const std::string& show) {
    return python(R"py(
from speech import Config, Model, alone, audio, log, outcome
model = Model()
def generator(n):
    return model.transcribe_generator(audio(n), Config(num_workers=0))
a, b = generator(0), generator(7)
first = next(a)
if overlap:
    second = next(b)
left = outcome(lambda: list(a))
if not overlap:
    second = next(b)
right = outcome(lambda: list(b))
assert (first, second) == (alone(0), alone(7))
featurizer = model.preprocessor.featurizer
modes = [model.training, model.encoder.training, model.decoder.training, model.joint.training]
seen = eval(show)
)py",
                  {{"overlap", overlap}, {"show", show}});
  }

  // `rounds` bursts of `callers` threads, each burst on a model of its own: a line with the counts of what became of
  // the calls, and in `bad` those that raised and in `wrong` those that returned something else than alone.
  std::string burst(int callers, int rounds, const std::string& lock, int* bad, int* wrong) {
    const std::string counts =
        python(R"py(
import threading, contextlib
import sys
from speech import Model, alone, audio, outcome, together
sys.setswitchinterval(1e-4)
mutex = {"": contextlib.nullcontext(), "lock": threading.Lock(), "semaphore": threading.Semaphore(1)}[lock]
value = attribute = other = right = wrong = 0
left = set()
for round in range(int(rounds)):
    model, said, outcomes = Model(), {}, {}
    def call(i):
        with mutex:
            said[i] = model.transcribe(audio(i), num_workers=0, verbose=False)
    def body(i):
        outcomes[i] = outcome(lambda: call(i))
    together(int(callers), body)
    for i, o in outcomes.items():
        value += o.startswith("ValueError")
        attribute += o.startswith("AttributeError")
        other += o != "ok" and not o.startswith(("ValueError", "AttributeError"))
        right += o == "ok" and said[i] == alone(i)
        wrong += o == "ok" and said[i] != alone(i)
    left.add(model.state())
seen = f"{value} {attribute} {other} {right} {wrong} {'/'.join(sorted(left))}"
)py",
               {{"callers", std::to_string(callers)}, {"rounds", std::to_string(rounds)}, {"lock", lock}});
    int value = 0, attribute = 0, other = 0, right = 0;
    char left[64] = "?";
    if (std::sscanf(counts.c_str(), "%d %d %d %d %d %63s", &value, &attribute, &other, &right, wrong, left) != 6) {
      ADD_FAILURE() << counts;
    }
    *bad = value + attribute + other;
    char line[256];
    std::snprintf(
        line, sizeof line,
        "%d requests, %d ValueError, %d AttributeError, %d other, %.0f %% fail; %d right, %d wrong; models left %s",
        callers * rounds, value, attribute, other, 100.0 * *bad / (callers * rounds), right, *wrong, left);
    record("table." + std::to_string(callers), line);
    if (!recording()) std::printf("table.%d: %s\n", callers, line);
    return line;
  }
};

TEST_F(NemoTranscribe, ControlOneAfterTheOther2_0) {
  if (!load("2.0.0")) return;
  EXPECT_EQ(two("", "f'{left}, {right}, {model.state()}'"), "ok, ok, trainable");
}

TEST_F(NemoTranscribe, ControlOneAfterTheOther3_0) {
  if (!load("3.0.0")) return;
  EXPECT_EQ(two("", "f'{left}, {right}, {model.state()}'"), "ok, ok, trainable");
}

constexpr char kRaised[] =
    "ok, ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`, frozen";

TEST_F(NemoTranscribe, ReproducesByTwoGenerators2_0) {
  if (!load("2.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two(overlap, "f'{left}, {right}, {model.state()}'"), kRaised, "ok, ok, trainable");
}

TEST_F(NemoTranscribe, ReproducesByTwoGenerators3_0) {
  if (!load("3.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two(overlap, "f'{left}, {right}, {model.state()}'"), kRaised, "ok, ok, trainable");
}

TEST_F(NemoTranscribe, ReproducesInTheSettings3_0) {
  if (!load("3.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two(overlap, "f'{featurizer.dither} {featurizer.pad_to} {log.verbosity}'"), "0.0 0 30", "1e-05 16 20");
}

// One call alone does it: the model was in eval mode, and the parts that compute no longer are.
TEST_F(NemoTranscribe, ReproducesInTheMode3_0) {
  if (!load("3.0.0")) return;
  std::string call = "pass";
  TRIGGER(call = "model.transcribe(audio(0), num_workers=0, verbose=False)");
  const std::string seen = python("from speech import Model, audio\nmodel = Model()\n" + call +
                                  "\nseen = [m.training for m in (model, model.encoder, model.decoder, model.joint)]");
  REPRODUCES(seen, "[False, True, True, True]", "[False, False, False, False]");
}

TEST_F(NemoTranscribe, ControlOneCaller3_0) {
  if (!load("3.0.0")) return;
  int bad = 0, wrong = 0;
  burst(1, 20, "", &bad, &wrong);
  EXPECT_EQ(bad + wrong, 0);
}

TEST_F(NemoTranscribe, ReproducesWithTwoCallers3_0) {
  if (!load("3.0.0")) return;
  int bad = 0, wrong = 0;
  std::string lock = "lock";
  TRIGGER(lock = "");
  burst(2, 60, lock, &bad, &wrong);
  REPRODUCES_AT_RATE(bad, 120);
}

TEST_F(NemoTranscribe, ReproducesWithFiveCallers3_0) {
  if (!load("3.0.0")) return;
  int bad = 0, wrong = 0;
  std::string lock = "lock";
  TRIGGER(lock = "");
  burst(5, 40, lock, &bad, &wrong);
  REPRODUCES_AT_RATE(bad, 200);
}

TEST_F(NemoTranscribe, ReproducesWithThirtyThreeCallers2_0) {
  if (!load("2.0.0")) return;
  int bad = 0, wrong = 0;
  std::string lock = "lock";
  TRIGGER(lock = "");
  burst(33, 20, lock, &bad, &wrong);
  REPRODUCES_AT_RATE(bad, 660);
}

TEST_F(NemoTranscribe, ReproducesWithThirtyThreeCallers3_0) {
  if (!load("3.0.0")) return;
  int bad = 0, wrong = 0;
  std::string lock = "lock";
  TRIGGER(lock = "");
  burst(33, 20, lock, &bad, &wrong);
  REPRODUCES_AT_RATE(bad, 660);
}

TEST_F(NemoTranscribe, FixLock) {
  if (!load("3.0.0")) return;
  int bad = 0, wrong = 0;
  std::string lock;
  REMEDY(lock = "lock");
  EXPECT_THAT(burst(33, 20, lock, &bad, &wrong), ::testing::EndsWith("models left trainable"));
  EXPECT_EQ(bad + wrong, 0);
}

TEST_F(NemoTranscribe, FixSemaphore) {
  if (!load("3.0.0")) return;
  int bad = 0, wrong = 0;
  std::string semaphore;
  REMEDY(semaphore = "semaphore");
  EXPECT_THAT(burst(33, 20, semaphore, &bad, &wrong), ::testing::EndsWith("models left trainable"));
  EXPECT_EQ(bad + wrong, 0);
}

// The released NeMo's as_frozen() fails, and freezes for ever, when two uses of it on one module overlap.
//
// The code is the wheel's own module.py, loaded alone; only the order is the test's. The program decides when the two
// context managers are entered and left, so that one thread does what two do in the report, in the same order each
// time. For the errors in the middle of freeze() and unfreeze() the second use comes between two parameters, as after a
// thread switch. 2.0 has the older form of freeze() and 3.0 the newer; both fail in the same way. `ci/nemo 2.0.0` and
// `ci/nemo 3.0.0` fetch what this needs.
//
// Alone:  g++ cases/freeze/nemo_as_frozen.cpp $(tools/libtorch --flags) -o nemo_as_frozen

#include "fixtures/python/nemo.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "NeMo's released as_frozen() raises, or freezes for ever, where two uses of it overlap",
    .sources = {{"freeze race", "Description"},
                {"freeze race", "Race condition mechanism"},
                {"upstream", "NeMo#15771"}},
    .documented = "ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host python nemo",
    .effects = {{"ReproducesHalfFrozen2_0", Effect::SilentlyWrong},
                {"ReproducesHalfFrozen3_0", Effect::SilentlyWrong},
                {"ReproducesTrainMode3_0", Effect::SilentlyWrong}},
    .fixes = {{"FixLock",
               "Enter as_frozen() only while you hold a threading.Lock that all users of the module share."}},
};

using NemoAsFrozen = NemoTest;

// In the programs: A's use of the encoder and B's; `overlap` is empty where B has to come after A.
constexpr char kInTurn[] = R"py(
from speech import Model, outcome
encoder = Model().encoder
a, b = encoder.as_frozen(), encoder.as_frozen()
a.__enter__()
if overlap:
    b.__enter__()
seen = outcome(lambda: a.__exit__(None, None, None))
grads = [p.requires_grad for p in encoder.parameters()]
if not overlap:
    b.__enter__()
second = outcome(lambda: b.__exit__(None, None, None))
c = encoder.as_frozen()
third = outcome(lambda: (c.__enter__(), c.__exit__(None, None, None)))
later = [p.requires_grad for p in encoder.parameters()]
seen = f"{seen} {grads}, {second}, then {third} {later}"
)py";

constexpr char kDeletedInBetween[] = R"py(
from speech import Model, outcome
encoder = Model().encoder
a, b = encoder.as_frozen(), encoder.as_frozen()
a.__enter__()
b.__enter__()
leave = lambda: a.__exit__(None, None, None)
if overlap:
    encoder.between = leave
else:
    leave()
    b = encoder.as_frozen()
    b.__enter__()
seen = outcome(lambda: b.__exit__(None, None, None))
)py";

constexpr char kFrozenInBetween[] = R"py(
from speech import Model
model = Model()
encoder = model.encoder
a, b = encoder.as_frozen(), encoder.as_frozen()
if overlap:
    encoder.between = a.__enter__
    b.__enter__()
else:
    a.__enter__()
a.__exit__(None, None, None)
seen = [p.requires_grad for p in encoder.parameters()]
)py";

constexpr char kMode[] = R"py(
from speech import Model
encoder = Model().encoder
if overlap:
    encoder.freeze()
    encoder.unfreeze(partial=True)
else:
    with encoder.as_frozen():
        pass
seen = "train" if encoder.training else "eval"
)py";

constexpr char kHealthyTurns[] = "ok [True, True], ok, then ok [True, True]";

TEST_F(NemoAsFrozen, Control2_0) {
  if (!load("2.0.0")) return;
  EXPECT_EQ(python(kInTurn, {{"overlap", ""}}), kHealthyTurns);
}

TEST_F(NemoAsFrozen, Control3_0) {
  if (!load("3.0.0")) return;
  EXPECT_EQ(python(kInTurn, {{"overlap", ""}}), kHealthyTurns);
}

// A leaves without an error and restores what B noted: frozen, now and after every later use.
constexpr char kBrokenTurns[] =
    "ok [False, False], ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`, "
    "then ok [False, False]";

TEST_F(NemoAsFrozen, ReproducesValueError2_0) {
  if (!load("2.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(python(kInTurn, {{"overlap", overlap}}), kBrokenTurns, kHealthyTurns);
}

TEST_F(NemoAsFrozen, ReproducesValueError3_0) {
  if (!load("3.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(python(kInTurn, {{"overlap", overlap}}), kBrokenTurns, kHealthyTurns);
}

TEST_F(NemoAsFrozen, ReproducesAttributeError2_0) {
  if (!load("2.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(python(kDeletedInBetween, {{"overlap", overlap}}),
             "AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map'", "ok");
}

TEST_F(NemoAsFrozen, ReproducesAttributeError3_0) {
  if (!load("3.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(python(kDeletedInBetween, {{"overlap", overlap}}),
             "AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map'", "ok");
}

TEST_F(NemoAsFrozen, ReproducesHalfFrozen2_0) {
  if (!load("2.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(python(kFrozenInBetween, {{"overlap", overlap}}), "[True, False]", "[True, True]");
}

TEST_F(NemoAsFrozen, ReproducesHalfFrozen3_0) {
  if (!load("3.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(python(kFrozenInBetween, {{"overlap", overlap}}), "[True, False]", "[True, True]");
}

// Of a module in eval mode. as_frozen() restores the mode; freeze() and unfreeze(), which transcribe() calls, do not.
TEST_F(NemoAsFrozen, ReproducesTrainMode3_0) {
  if (!load("3.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(python(kMode, {{"overlap", overlap}}), "train", "eval");
}

TEST_F(NemoAsFrozen, FixLock) {
  if (!load("3.0.0")) return;
  std::string lock = "contextlib.nullcontext()";
  REMEDY(lock = "threading.Lock()");
  const std::string seen = python(R"py(
import contextlib, sys, threading, torch
from speech import Model, outcome, together
sys.setswitchinterval(1e-5)
model, lock, outcomes = Model(), eval(lock), []
def frozen(n):
    with lock, model.encoder.as_frozen():
        assert model.encoder(torch.tensor([n, 1.0])).tolist() == [2 * n + 1, 3]
for round in range(20):
    together(33, lambda i: outcomes.append(outcome(lambda: frozen(i))))
seen = f"{len(outcomes)} {set(outcomes)} {model.state()}"
)py",
                                  {{"lock", lock}});
  EXPECT_EQ(seen, "660 {'ok'} trainable");
}

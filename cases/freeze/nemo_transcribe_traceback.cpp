// Where the released NeMo's transcribe() raises when two threads call it on one model: the report's two errors, with
// every frame of their tracebacks.
//
// The order is the test's: the first call, in a thread of its own, is held by its audio, which it reads once it has
// frozen the model. Then the second call comes, whole for the ValueError; for the AttributeError the first call ends
// between two parameters of the second one's unfreeze(), as after a thread switch. So both errors are certain. What the
// report says of A and B holds for who ends last: the first of the two to end raises nothing and deletes the map.
//
// The report names NeMo 2.3.0 and 2.6.0, and its lines are those of neither. They are NeMo 2.7.0's: module.py still as
// in 2.0 (114 and 124), transcription.py as in 3.0 (410 and 795). Frames of rnnt_models.py are missing here: the model
// is three small layers on NeMo's own mixin.
//
// Alone:  g++ cases/freeze/nemo_transcribe_traceback.cpp $(tools/libtorch --flags) -o nemo_transcribe_traceback

#include "fixtures/python/nemo.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "NeMo's released transcribe() raises at its end, in the encoder's unfreeze(), if another call overlaps it",
    .sources = {{"freeze race", "Description"},
                {"freeze race", "Race condition mechanism"},
                {"freeze race", "Additional context"}},
    .documented =
        "transcription.py:410 _transcribe_on_end() > transcription.py:795 self.encoder.unfreeze(partial=True) "
        "> module.py:114 raise ValueError(...); AttributeError on the same path, at module.py:124",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host python nemo",
    .fixes = {{"FixSemaphore2_0",
               "Acquire one threading.Semaphore(1) per model before its transcribe(), and release it after."},
              {"FixSemaphore3_0",
               "Let only one thread at a time be in transcribe() of a model, by a threading.Semaphore(1)."}},
};

class NemoTranscribeTraceback : public NemoTest {
 protected:
  // Two calls of transcribe(), which overlap or come one after the other. `between`: the first ends within the second
  // one's unfreeze(), and not after all of the second.
  std::string two_calls(const std::string& overlap, const std::string& between, const std::string& semaphore = "") {
    return python(R"py(
import os, sys, threading, traceback
import torch
from torch.utils.data import DataLoader
from speech import Model, alone
model, said = Model(), {}
frozen, go = threading.Event(), threading.Event()
one_at_a_time = threading.Semaphore(1) if semaphore else None
module = sys.modules["nemo.core.classes.module"]
mixin = sys.modules["nemo.collections.asr.parts.mixins.transcription"]

class Audio(list):  # Read by a call that has frozen the model.
    def __getitem__(self, i):
        self.meanwhile()
        return super().__getitem__(i)

def call(name, n, meanwhile):
    if one_at_a_time and not one_at_a_time.acquire(blocking=False):
        go.set()  # The call that this one has to wait for is held no longer.
        one_at_a_time.acquire()
    audio = Audio([torch.tensor([float(n), 1.0])])
    audio.meanwhile = meanwhile
    try:
        result = model.transcribe(DataLoader(audio, batch_size=None), num_workers=0, verbose=False)
        said[name] = "right" if result == alone(n) else f"wrong: {result}"
    except Exception as e:
        frames = [f for f in traceback.extract_tb(e.__traceback__) if f.filename in (module.__file__, mixin.__file__)]
        said[name] = f"{type(e).__name__}: {e}, at " + " > ".join(
            f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames)
    if one_at_a_time:
        one_at_a_time.release()

def hold():
    frozen.set()
    go.wait()

def end_first():
    go.set()
    first.join()

def end_first_between():
    if between:
        model.encoder.between = end_first

first = threading.Thread(target=call, args=("first", 0, hold))
first.start()
frozen.wait()
if not overlap:
    end_first()
call("second", 7, end_first_between)
end_first()
seen = f"first {said['first']}; second {said['second']}; {model.state()}"
)py",
                  {{"overlap", overlap}, {"between", between}, {"semaphore", semaphore}});
  }

  // The calls of the encoder's freeze() and unfreeze() in one transcribe(): who makes them, and what of the map is
  // left.
  std::string freezing() {
    return python(R"py(
import os, sys
from speech import Model, audio
model = Model()
encoder, calls = model.encoder, []
def noted(name):
    real = getattr(encoder, name)
    def call(**arguments):
        real(**arguments)
        code = sys._getframe(1).f_code
        given = ", ".join(f"{k}={v}" for k, v in arguments.items())
        calls.append(f"{os.path.basename(code.co_filename)} {code.co_name}: {name}({given}), "
                     f"map {getattr(encoder, '_frozen_grad_map', None)}")
    setattr(encoder, name, call)
noted("freeze")
noted("unfreeze")
model.transcribe(audio(0), num_workers=0, verbose=False)
seen = "; ".join(calls)
)py");
  }
};

constexpr char kRight[] = "first right; second right; trainable";
constexpr char kCalls[] =
    "transcription.py _transcribe_on_begin: freeze(), map {'weight': True, 'bias': True}; "
    "transcription.py _transcribe_on_end: unfreeze(partial=True), map None";

TEST_F(NemoTranscribeTraceback, Control2_0) {
  if (!load("2.0.0")) return;
  EXPECT_EQ(two_calls("", ""), kRight);
  EXPECT_EQ(two_calls("", "yes"), kRight);
}

TEST_F(NemoTranscribeTraceback, Control3_0) {
  if (!load("3.0.0")) return;
  EXPECT_EQ(two_calls("", ""), kRight);
  EXPECT_EQ(two_calls("", "yes"), kRight);
}

TEST_F(NemoTranscribeTraceback, ControlWhoFreezes2_0) {
  if (!load("2.0.0")) return;
  EXPECT_EQ(freezing(), kCalls);
}

TEST_F(NemoTranscribeTraceback, ControlWhoFreezes3_0) {
  if (!load("3.0.0")) return;
  EXPECT_EQ(freezing(), kCalls);
}

TEST_F(NemoTranscribeTraceback, ReproducesValueError2_0) {
  if (!load("2.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, ""),
             "first ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`, at "
             "transcription.py:281 transcribe > transcription.py:404 transcribe_generator > "
             "transcription.py:785 _transcribe_on_end > module.py:114 unfreeze; second right; frozen",
             kRight);
}

TEST_F(NemoTranscribeTraceback, ReproducesValueError3_0) {
  if (!load("3.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, ""),
             "first ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`, at "
             "transcription.py:298 transcribe > transcription.py:410 transcribe_generator > "
             "transcription.py:795 _transcribe_on_end > module.py:112 unfreeze > module.py:50 unfreeze; second right; "
             "frozen",
             kRight);
}

TEST_F(NemoTranscribeTraceback, ReproducesAttributeError2_0) {
  if (!load("2.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, "yes"),
             "first right; second AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map', at "
             "transcription.py:281 transcribe > transcription.py:404 transcribe_generator > "
             "transcription.py:785 _transcribe_on_end > module.py:124 unfreeze; frozen",
             kRight);
}

TEST_F(NemoTranscribeTraceback, ReproducesAttributeError3_0) {
  if (!load("3.0.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, "yes"),
             "first right; second AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map', at "
             "transcription.py:298 transcribe > transcription.py:410 transcribe_generator > "
             "transcription.py:795 _transcribe_on_end > module.py:112 unfreeze > module.py:55 unfreeze; frozen",
             kRight);
}

TEST_F(NemoTranscribeTraceback, FixSemaphore2_0) {
  if (!load("2.0.0")) return;
  std::string semaphore;
  REMEDY(semaphore = "yes");
  EXPECT_EQ(two_calls("yes", "", semaphore), kRight);
  EXPECT_EQ(two_calls("yes", "yes", semaphore), kRight);
}

TEST_F(NemoTranscribeTraceback, FixSemaphore3_0) {
  if (!load("3.0.0")) return;
  std::string semaphore;
  REMEDY(semaphore = "yes");
  EXPECT_EQ(two_calls("yes", "", semaphore), kRight);
  EXPECT_EQ(two_calls("yes", "yes", semaphore), kRight);
}

// The NeMo release that the report names fails in the same way as the one that its traceback shows.
//
// nemo_as_frozen and nemo_transcribe_traceback show this failure with 2.0 and 3.0; here are three releases between
// them. The report names NeMo 2.3.0, confirmed on 2.6.0. All lines of its traceback are those of 2.7.0
// (transcription.py 410 and 795, module.py 114 and 124), except that of rnnt_models.py, which only passes the call on.
// The report does not mention that a call which overlaps others may return a wrong result without an error, because an
// earlier call left the model in train mode. The test fixes the order of the calls, so each outcome is certain;
// nemo_transcribe_rates has the rates. The code is the wheel's own; the model that it serves has three small layers.
// `ci/nemo 2.3.0`, `2.6.0` and `2.7.0` fetch what this needs.
//
// Alone:  g++ cases/freeze/nemo_reported_releases.cpp $(tools/libtorch --flags) -o nemo_reported_releases

#include "fixtures/python/nemo_calls.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "NeMo 2.3, 2.6 and 2.7 raise when calls of transcribe() overlap on one model, or return wrong results",
    .sources = {{"freeze race", "Description"},
                {"freeze race", "Race condition mechanism"},
                {"freeze race", "Expected behavior"},
                {"freeze race", "Environment"},
                {"upstream", "NeMo#15771"}},
    .documented =
        "transcription.py:410 _transcribe_on_end() > transcription.py:795 self.encoder.unfreeze(partial=True) "
        "> module.py:114 raise ValueError(...); AttributeError on the same path, at module.py:124",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"NeMo"},
    .features = {"NeMo"},
    .needs = "host python nemo",
    .effects = {{"ReproducesWrongResult2_3", Effect::SilentlyWrong},
                {"ReproducesWrongResult2_6", Effect::SilentlyWrong},
                {"ReproducesWrongResult2_7", Effect::SilentlyWrong}},
    .fixes = {{"FixSemaphore2_3", "Acquire one threading.Semaphore(1) per model before its transcribe() of NeMo 2.3."},
              {"FixSemaphore2_6", "Acquire one threading.Semaphore(1) per model before its transcribe() of NeMo 2.6."},
              {"FixSemaphore2_7", "Acquire one threading.Semaphore(1) per model before its transcribe() of NeMo 2.7."}},
};

using NemoReportedReleases = NemoCallsTest;

constexpr char kRight[] = "first right; second right; trainable";
constexpr char kTurns[] = "ok [True, True], ok, then ok [True, True]";
constexpr char kThree[] = "A ok; B ok, right, right; C ok";

TEST_F(NemoReportedReleases, Control2_3) {
  if (!load("2.3.0")) return;
  EXPECT_EQ(two_calls("", ""), kRight);
  EXPECT_EQ(two_calls("", "yes"), kRight);
  EXPECT_EQ(three_calls(""), kThree);
}

TEST_F(NemoReportedReleases, Control2_6) {
  if (!load("2.6.0")) return;
  EXPECT_EQ(two_calls("", ""), kRight);
  EXPECT_EQ(two_calls("", "yes"), kRight);
  EXPECT_EQ(three_calls(""), kThree);
}

TEST_F(NemoReportedReleases, Control2_7) {
  if (!load("2.7.0")) return;
  EXPECT_EQ(two_calls("", ""), kRight);
  EXPECT_EQ(two_calls("", "yes"), kRight);
  EXPECT_EQ(three_calls(""), kThree);
}

TEST_F(NemoReportedReleases, ReproducesValueError2_3) {
  if (!load("2.3.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, ""),
             "first ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`, at "
             "transcription.py:269 transcribe > transcription.py:392 transcribe_generator > "
             "transcription.py:773 _transcribe_on_end > module.py:114 unfreeze; second right; frozen",
             kRight);
}

TEST_F(NemoReportedReleases, ReproducesValueError2_6) {
  if (!load("2.6.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, ""),
             "first ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`, at "
             "transcription.py:270 transcribe > transcription.py:382 transcribe_generator > "
             "transcription.py:763 _transcribe_on_end > module.py:114 unfreeze; second right; frozen",
             kRight);
}

TEST_F(NemoReportedReleases, ReproducesValueError2_7) {
  if (!load("2.7.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, ""),
             "first ValueError: Cannot unfreeze partially without first freezing the module with `freeze()`, at "
             "transcription.py:298 transcribe > transcription.py:410 transcribe_generator > "
             "transcription.py:795 _transcribe_on_end > module.py:114 unfreeze; second right; frozen",
             kRight);
}

TEST_F(NemoReportedReleases, ReproducesAttributeError2_3) {
  if (!load("2.3.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, "yes"),
             "first right; second AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map', at "
             "transcription.py:269 transcribe > transcription.py:392 transcribe_generator > "
             "transcription.py:773 _transcribe_on_end > module.py:124 unfreeze; frozen",
             kRight);
}

TEST_F(NemoReportedReleases, ReproducesAttributeError2_6) {
  if (!load("2.6.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, "yes"),
             "first right; second AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map', at "
             "transcription.py:270 transcribe > transcription.py:382 transcribe_generator > "
             "transcription.py:763 _transcribe_on_end > module.py:124 unfreeze; frozen",
             kRight);
}

TEST_F(NemoReportedReleases, ReproducesAttributeError2_7) {
  if (!load("2.7.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(two_calls(overlap, "yes"),
             "first right; second AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map', at "
             "transcription.py:298 transcribe > transcription.py:410 transcribe_generator > "
             "transcription.py:795 _transcribe_on_end > module.py:124 unfreeze; frozen",
             kRight);
}

TEST_F(NemoReportedReleases, ReproducesInAsFrozen2_3) {
  if (!load("2.3.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(frozen_in_turn(overlap),
             "ok [False, False], ValueError: Cannot unfreeze partially without first freezing the module with "
             "`freeze()`, then ok [False, False]",
             kTurns);
}

TEST_F(NemoReportedReleases, ReproducesInAsFrozen2_6) {
  if (!load("2.6.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(frozen_in_turn(overlap),
             "ok [False, False], ValueError: Cannot unfreeze partially without first freezing the module with "
             "`freeze()`, then ok [False, False]",
             kTurns);
}

TEST_F(NemoReportedReleases, ReproducesInAsFrozen2_7) {
  if (!load("2.7.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(frozen_in_turn(overlap),
             "ok [False, False], ValueError: Cannot unfreeze partially without first freezing the module with "
             "`freeze()`, then ok [False, False]",
             kTurns);
}

TEST_F(NemoReportedReleases, ReproducesAttributeErrorInAsFrozen2_3) {
  if (!load("2.3.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(frozen_and_deleted(overlap),
             "AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map'", "ok");
}

TEST_F(NemoReportedReleases, ReproducesAttributeErrorInAsFrozen2_6) {
  if (!load("2.6.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(frozen_and_deleted(overlap),
             "AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map'", "ok");
}

TEST_F(NemoReportedReleases, ReproducesAttributeErrorInAsFrozen2_7) {
  if (!load("2.7.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(frozen_and_deleted(overlap),
             "AttributeError: 'ConformerEncoder' object has no attribute '_frozen_grad_map'", "ok");
}

// A, whose calls end first, leaves the model in train mode; C's freeze() brings back the map that B's end needs. So B
// computes its second batch in train mode, and raises nothing.
TEST_F(NemoReportedReleases, ReproducesWrongResult2_3) {
  if (!load("2.3.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(three_calls(overlap),
             "A ok; B ok, right, wrong; C ValueError: Cannot unfreeze partially without first freezing the module with "
             "`freeze()`",
             kThree);
}

TEST_F(NemoReportedReleases, ReproducesWrongResult2_6) {
  if (!load("2.6.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(three_calls(overlap),
             "A ok; B ok, right, wrong; C ValueError: Cannot unfreeze partially without first freezing the module with "
             "`freeze()`",
             kThree);
}

TEST_F(NemoReportedReleases, ReproducesWrongResult2_7) {
  if (!load("2.7.0")) return;
  std::string overlap;
  TRIGGER(overlap = "yes");
  REPRODUCES(three_calls(overlap),
             "A ok; B ok, right, wrong; C ValueError: Cannot unfreeze partially without first freezing the module with "
             "`freeze()`",
             kThree);
}

TEST_F(NemoReportedReleases, FixSemaphore2_3) {
  if (!load("2.3.0")) return;
  std::string semaphore;
  REMEDY(semaphore = "yes");
  EXPECT_EQ(two_calls("yes", "", semaphore), kRight);
  EXPECT_EQ(two_calls("yes", "yes", semaphore), kRight);
}

TEST_F(NemoReportedReleases, FixSemaphore2_6) {
  if (!load("2.6.0")) return;
  std::string semaphore;
  REMEDY(semaphore = "yes");
  EXPECT_EQ(two_calls("yes", "", semaphore), kRight);
  EXPECT_EQ(two_calls("yes", "yes", semaphore), kRight);
}

TEST_F(NemoReportedReleases, FixSemaphore2_7) {
  if (!load("2.7.0")) return;
  std::string semaphore;
  REMEDY(semaphore = "yes");
  EXPECT_EQ(two_calls("yes", "", semaphore), kRight);
  EXPECT_EQ(two_calls("yes", "yes", semaphore), kRight);
}

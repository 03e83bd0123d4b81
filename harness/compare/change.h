// What a test's change is: its kind, and what both sides showed, as facts. report/change.h has the words.
#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "harness/base/json.h"
#include "harness/compare/consequence.h"
#include "harness/verdict/operators.h"
#include "harness/verdict/verdict.h"

namespace recapture::compare {

// What differs between the two sides. Each has one row of words in report/change.cpp.
enum class ChangeKind {
  Effect,       // What the failure does to the program.
  Error,        // Which error it is.
  Origin,       // The same error: its C++ type, or the call that it comes from.
  Observation,  // What a harmless documented behaviour shows.
  Damage,       // The wrong results or the leak.
  Aftermath,    // What a failed capture leaves in its process.
  Sign,         // The test's failure is gone; another test of the case still shows silent damage.
  Holding,      // Whether a Control or a Fix holds.
  Capture,      // Whether an operator can be captured.
  Samples,      // How many samples of an operator's form can be captured.
  Rate,         // Whether a race occurs.
  Tries,        // In how many tries it occurs.
  Result,       // The result alone: the effect on a program is the same.
};
inline constexpr size_t kChangeKindCount = static_cast<size_t>(ChangeKind::Result) + 1;

// How a test shows its failure.
enum class Manner { Shows, Raises, Warns, EndsEarly };

// A failure of a capture's signature, or what a test observed.
struct Failure {
  int code = 0;           // CUDA's error number; 0 if there is none.
  bool is_check = false;  // `text` is the message of a check or an assertion.
  std::string text = {};  // Escaped and cut.

  auto operator<=>(const Failure&) const = default;
};

// What one side showed. Only the members that the change's kind is about are set, so that equal changes compare equal.
struct Outcome {
  State state = State::Works;
  bool is_harmless = false;       // It works, although the documented behaviour occurs.
  Manner manner = Manner::Shows;  // Of `failure`.
  Failure failure = {};           // Of an Error, and of an effect that raises.
  bool at_end = false;            // The failure is that of the capture's end.
  bool invalidates = false;       // The failure invalidated the capture.
  std::string status = {};        // Of an Error, if the rest of the signature tells the two sides apart: the capture's
  Failure end = {};               // status after the failure, and the failure at its end.
  std::string type = {}, call = {};      // Of an Origin; "" each if it is the same on both sides.
  std::string text = {};                 // An observation, or why the test cannot run or does not hold.
  std::vector<ProbeResult> probes = {};  // Of an Aftermath.
  size_t count = 0, all = 0;             // Runs or tries in which a race occurs; samples that can be captured.

  auto operator<=>(const Outcome&) const = default;
};

// What the two sides share.
struct Facts {
  Kind kind = Kind::Reproduces;
  std::string fix = {};  // A Fix's remedy, in a sentence.
  OperatorForm form = OperatorForm::Forward;
  std::string type = {};  // Of an operator's samples.

  auto operator<=>(const Facts&) const = default;
};

// What goes with a change. Changes with different notes may still be one change: groups_of().
struct Notes {
  std::vector<ProbeResult> afterwards = {};  // The probes that a failed capture now leaves in a better state.
  bool has_other_forms = false;              // Other tests of the case still fail.
  std::string machine = {};                  // Where it was compared, if not on the comparison's machine: fill_in().

  auto operator<=>(const Notes&) const = default;
};

struct Change {
  ChangeKind kind = ChangeKind::Effect;
  Outcome from, to;
  Facts facts = {};
  Notes notes = {};

  auto operator<=>(const Change&) const = default;
};
// Apart from the notes.
inline bool is_same(const Change& a, const Change& b) {
  return std::tie(a.kind, a.from, a.to, a.facts) == std::tie(b.kind, b.from, b.to, b.facts);
}

// A change as an object of its members; numbers and texts that are 0 and "" are left out.
Json to_json(const Change& change);
// Escapes all texts. Throws std::exception if the object was not made by to_json().
Change change_from(const Json& json);

// Why it is not known whether a test changed.
enum class UnknownKind {
  NotPlanned,         // No run of the side has the test in its plan.
  ShardMissing,       // It was in a shard that is not on record.
  CutShort,           // The run ended before it.
  CannotRun,          // The side lacks what it needs.
  OtherCode,          // The two sides ran different code of the case.
  Unclear,            // Its result is invalid, inconclusive or missing.
  CannotTell,         // The case cannot tell in that release.
  NotApplicable,      // The release has no such API.
  RateOnOneSide,      // Only one side counted how often it occurs.
  TooFewRuns,         // A race was not seen in fewer runs than that takes.
  FormWithoutResult,  // A form of an operator has no result any more.
  NotOnRecord,        // The side has no run.
  NotComparable,      // Neither side's results are comparable, for none of the other reasons.
};
inline constexpr size_t kUnknownKindCount = static_cast<size_t>(UnknownKind::NotComparable) + 1;

enum class WhichSide { From, To, Both };

struct Unknown {
  UnknownKind kind = UnknownKind::NotComparable;
  WhichSide side = WhichSide::Both;
  Verdict verdict = Verdict::Inconclusive;  // Of an Unclear result.
  std::string text = {};                    // What the side's test observed, escaped and cut.
  size_t runs = 0;                          // Of a race.
  std::vector<std::string> releases = {};   // Of OtherCode: those whose records are older than the case.
  OperatorForm form = OperatorForm::Forward;

  auto operator<=>(const Unknown&) const = default;
};

}  // namespace recapture::compare

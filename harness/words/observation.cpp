#include "harness/words/observation.h"

#include <fmt/format.h>

#include <string_view>

namespace recapture {
namespace {

constexpr char kNothingTried[] = "nothing tried";

std::string words_of_end(const std::string& ended) { return ended == "skipped" ? "was skipped" : ended; }

std::string words_of_ending(const Contradiction& of) {
  switch (of.ending) {
    case Ending::Signal:
      return fmt::format("its process was killed by signal {}", of.code);
    case Ending::Deadline:
      return "its process was still running at its deadline";
    case Ending::NotStarted:
      return "it was not started";
    case Ending::Exited:
    case Ending::Unknown:
      break;
  }
  return fmt::format("its process exited with {}", of.code);
}

std::string describe_forms(const std::vector<FormOutcome>& forms) {
  if (forms.empty()) return "captured";
  std::string text;
  for (const FormOutcome& form : forms) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{} {}", to_string(form.form),
                        form.failure ? describe_failure(*form.failure) : std::string(to_string(form.verdict)));
    if (form.verdict == OperatorVerdict::SomeRefused) text += " on some samples";
  }
  return text;
}

std::string describe_culprit(const TestObservation& observation) {
  const TestObservation::Detail& of = *observation.detail;
  return fmt::format("{}{}by {} on the {} thread{}", observation.text, observation.text.empty() ? "" : " ", of.api,
                     of.thread, of.rank ? fmt::format(" of rank {}", *of.rank) : "");
}

// Whether the observation adds nothing to this reason.
bool stands_alone(ReasonKind kind) { return kind == ReasonKind::NothingToRemedy || kind == ReasonKind::NoValueToBreak; }

}  // namespace

std::string to_string(const Contradiction& of) {
  switch (of.kind) {
    case ContradictionKind::None:
      return "";
    case ContradictionKind::OnRecord:
      return of.text;
    case ContradictionKind::SeenAndRate:
      return "it said what it saw, and a rate";
    case ContradictionKind::HalfARate:
      return "it said a rate without its hits or its tries";
    case ContradictionKind::ImpossibleRate:
      return fmt::format("it said {} hits in {} tries", of.hits, of.tries);
    case ContradictionKind::EndedEarly:
      return fmt::format("it said {}, and {} before it came to its end",
                         of.was_skipped ? "that it was skipped" : "what it saw", words_of_ending(of));
    case ContradictionKind::UnknownEnd:
      return fmt::format("it reported that it ended as '{}', which is not a known end", of.text);
    case ContradictionKind::EndAndExit:
      return fmt::format("it said that it {}, and {}", words_of_end(of.text), words_of_ending(of));
    case ContradictionKind::SkippedAndEnded:
      return fmt::format("it said that it was skipped, and that it {}", of.text);
    case ContradictionKind::SkippedWithoutWhy:
      return "it said that it was skipped, and not why";
    case ContradictionKind::SeenAndSkipped:
      return "it said what it saw, and that it was skipped";
    case ContradictionKind::AssertionAndEnd:
      return fmt::format("an assertion failed, and it said that it {}", words_of_end(of.text));
    case ContradictionKind::PassedAndSaw:
      return fmt::format("it said that it passed, and what it saw is {}", to_string(of.report));
    case ContradictionKind::TwoFailures:
      return fmt::format("what it saw is {}, and another assertion failed as well", to_string(of.report));
    case ContradictionKind::UnknownEnding:
      return fmt::format("its process ended by '{}', which is not a known end", of.text);
    case ContradictionKind::SeenAndNotStarted:
      return "it said what it saw, and was not started";
    case ContradictionKind::KilledFromOutside:
      return words_of_ending(of) + ", which no fault raises";
  }
  return "";
}

std::string to_string(const Reason& reason) {
  switch (reason.kind) {
    case ReasonKind::GpuDemanded:
      return "a GPU was demanded";
    case ReasonKind::GpuPresent:
      return "the machine has one";
    case ReasonKind::RanBefore:
      return "a record of such a machine has it";
    case ReasonKind::WasBuilt:
      return "the catalogue or a record has it";
    case ReasonKind::NoCallSeen:
      return "the recorder saw no call";
    case ReasonKind::RecorderOff:
      return "the recorder was off: " + reason.detail;
    case ReasonKind::NothingToRemedy:
      return "the failure is gone here, so there is nothing to remedy";
    case ReasonKind::NoValueToBreak:
      return "the failure is gone here, so there is no value to be wrong";
    case ReasonKind::RemedyKept:
      return "it left no remedy out";
    case ReasonKind::NotConfirmed:
      return "another run of it gave another result";
    case ReasonKind::CrashedOnce:
      return "a sample crashed or hung, and no repetition has shown that again";
    case ReasonKind::AskedTooSeldom:
      return "an open question that was not asked again";
    case ReasonKind::ControlBroken:
      return "a control of its case does not hold";
    case ReasonKind::NoControl:
      return "no control of its case has run";
    case ReasonKind::OccursElsewhere:
      return fmt::format("it occurs on {}, of the same architecture", reason.detail);
  }
  return "";
}

std::string to_string(const TestObservation& observation) {
  switch (observation.kind) {
    case TestObservationKind::Nothing:
    case TestObservationKind::Text:
      return observation.text;
    case TestObservationKind::MissingModule:
      return "needs the Python module " + observation.text;
    case TestObservationKind::NotApplicable:
      return "Not applicable: " + observation.text;
    case TestObservationKind::Contradictory:
      return to_string(observation.detail->contradiction);
    case TestObservationKind::Mixed:
      return "it saw what is documented, and an assertion failed: " + observation.text;
    case TestObservationKind::Rate:  // Without an interval: the tries of one run are not independent. See rate.h.
      return fmt::format("{} of {} tries", observation.hits, observation.tries);
    case TestObservationKind::Culprit:
      return describe_culprit(observation);
    case TestObservationKind::Operator:
      if (observation.tries > 0 && observation.text.empty()) return "stays right";
      if (observation.tries > 0 && observation.hits == 0)
        return "inconclusive: not right once, after " + observation.text;
      if (observation.tries > 0) return "not right after " + observation.text;
      return observation.detail ? describe_forms(observation.detail->forms) : describe_forms({});
    case TestObservationKind::NoOperator:
      return kNothingTried;
  }
  return "";
}

std::string render_observed(const TestVerdict& row) {
  std::string text = to_string(row.observed);
  for (const Reason& reason : row.reasons) {
    if (stands_alone(reason.kind)) text.clear();
    text += (text.empty() ? "" : "; ") + to_string(reason);
  }
  return text;
}

std::string describe_operator(const std::vector<OperatorResult>& results) {
  return results.empty() ? kNothingTried : describe_forms(forms_at_fault(results));
}

std::string describe_failure(const OperatorFailure& failure) {
  if (failure.how == "refused" && failure.code != 0) {
    return fmt::format("refused by {} ({})", failure.api.empty() ? "CUDA" : failure.api, failure.code);
  }
  std::string text = failure.how == "replay" ? "replay fails" : failure.how;
  if (!failure.type.empty()) text += ": " + failure.type;
  return failure.text.empty() ? text : text + ": " + failure.text;
}

}  // namespace recapture

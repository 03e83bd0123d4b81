#include "harness/verdict/reason.h"

#include <fmt/format.h>

namespace recapture {

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
    case ReasonKind::Guessed:
      return fmt::format("what is expected of {} is a guess: it is on record for {} alone", reason.release,
                         reason.detail);
    case ReasonKind::AskedTooSeldom:
      return "an open question that was not asked again";
    case ReasonKind::ControlBroken:
      return "a control of its case does not hold";
    case ReasonKind::OccursElsewhere:
      return fmt::format("it occurs on {}, of the same architecture", reason.detail);
    case ReasonKind::NoControl:
      break;
  }
  return "no control of its case has run";
}

}  // namespace recapture

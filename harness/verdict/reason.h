// Why a verdict is not what a test's result alone would give: what the judge adds to an observation.
#pragma once
#include <string>

namespace recapture {

enum class ReasonKind {
  // Why a test, or the call that it must name, is missing.
  GpuDemanded,
  GpuPresent,
  RanBefore,  // On such a machine.
  WasBuilt,
  NoCallSeen,
  RecorderOff,  // `detail` is why.
  // Why a run that was broken on purpose shows nothing.
  NothingToRemedy,
  NoValueToBreak,
  RemedyKept,
  // Why a result is inconclusive.
  NotConfirmed,
  Guessed,  // What is expected of `release` is on record for `detail` alone.
  CaseAtFault,
  AskedTooSeldom,  // An open question, before its confirmations.
  ControlBroken,
  NoControl,
  // Beside a race that was not seen.
  OccursElsewhere,  // With the same code of the same release, on `detail`, which is of the same architecture.
};

struct Reason {
  ReasonKind kind;
  std::string detail = {}, release = {};
};

std::string to_string(const Reason& reason);

}  // namespace recapture

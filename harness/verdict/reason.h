// Why a verdict differs from what a test's result alone would give. harness/words/ has the sentences.
#pragma once
#include <cstddef>
#include <string>

namespace recapture {

enum class ReasonKind {
  // A test is missing, or the call that it must name.
  GpuDemanded,
  GpuPresent,
  RanBefore,  // On such a machine.
  WasBuilt,
  NoCallSeen,
  RecorderOff,  // `detail` is the reason.
  // A run broken on purpose shows nothing.
  NothingToRemedy,
  NoValueToBreak,
  RemedyKept,
  // A result is inconclusive.
  NotConfirmed,
  CrashedOnce,     // A sample of an operator.
  AskedTooSeldom,  // An open question, before its confirmations.
  ControlBroken,
  NoControl,
  // A race was not seen.
  OccursElsewhere,  // It occurs on `detail`, of the same architecture, with the same code and release.
};

inline constexpr size_t kReasonCount = static_cast<size_t>(ReasonKind::OccursElsewhere) + 1;

struct Reason {
  ReasonKind kind;
  std::string detail = {};
};

// Whether a result that is inconclusive for this reason may be decided by another run.
bool may_be_decided(ReasonKind kind);

}  // namespace recapture

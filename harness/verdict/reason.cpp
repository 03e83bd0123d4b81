#include "harness/verdict/reason.h"

#include <array>

namespace recapture {
namespace {

struct ReasonRow {
  ReasonKind kind;
  bool may_be_decided;
};
// In the order of the enumeration.
constexpr std::array<ReasonRow, kReasonCount> kReasons = {{
    {ReasonKind::GpuDemanded, false},
    {ReasonKind::GpuPresent, false},
    {ReasonKind::RanBefore, false},
    {ReasonKind::WasBuilt, false},
    {ReasonKind::NoCallSeen, false},
    {ReasonKind::RecorderOff, false},
    {ReasonKind::NothingToRemedy, false},
    {ReasonKind::NoValueToBreak, false},
    {ReasonKind::RemedyKept, false},
    {ReasonKind::NotConfirmed, true},
    {ReasonKind::CrashedOnce, true},
    {ReasonKind::AskedTooSeldom, true},
    {ReasonKind::ControlBroken, false},
    {ReasonKind::NoControl, true},
    {ReasonKind::OccursElsewhere, false},
}};

constexpr bool has_each_reason() {
  for (size_t i = 0; i < kReasonCount; ++i) {
    if (kReasons.at(i).kind != static_cast<ReasonKind>(i)) return false;
  }
  return true;
}
static_assert(has_each_reason(), "give each reason its row, in the order of the enumeration");

}  // namespace

bool may_be_decided(ReasonKind kind) { return kReasons.at(static_cast<size_t>(kind)).may_be_decided; }

}  // namespace recapture

// A gate's decision in words.
#pragma once
#include <string>

#include "harness/compare/policy.h"

namespace recapture::report {

// "policy.toml: 'error text or type changed' is now called error changed"
std::string render_renamed(const std::string& path, const compare::RenamedWord& renamed);

// Why it is so, in one line: what blocks, or what of the scope is not known; "" if it passes, and for gaps, which have
// lines of their own.
std::string render_reason(const compare::Decision& decision);

// "outside your scope: new damage (c)"; "" if there is none.
std::string render_outside_scope(const compare::Decision& decision);

// "not met without DDP: new errors (a, b)"; "" if there is none.
std::string render_not_met(const compare::Decision& decision);

// "waived: c.Reproduces (the reason)"
std::string render_waiver(const compare::WaiverState& state);

}  // namespace recapture::report

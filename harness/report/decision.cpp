#include "harness/report/decision.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "harness/base/escape.h"
#include "harness/base/text.h"

namespace recapture::report {
namespace {

// "new errors (a, b); new damage (c)"
std::string render_cases(const compare::CasesByConsequence& cases) {
  std::vector<std::string> parts;
  parts.reserve(cases.size());
  for (const auto& [consequence, ids] : cases) {
    parts.push_back(fmt::format("{} ({})", to_string(consequence), fmt::join(ids, ", ")));
  }
  return join(parts, "; ");
}

// "a, b, c and 4 more"
std::string first_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  const std::vector<std::string> few(names.begin(), names.begin() + static_cast<long>(std::min(kMost, names.size())));
  return join(few) + (names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "");
}

// With the cases of such tests.
std::string render_unknown(const compare::Decision& decision) {
  const compare::TestCounts& ours = decision.in_scope;
  const size_t all = ours.all();
  if (ours.are_too_little_measured(decision.limits) || ours.not_measured == all) {
    return fmt::format("{} of {} tests in scope are not measured, and {} % may be: {}", ours.not_measured, all,
                       decision.limits.not_measured, first_of(decision.unmeasured_cases));
  }
  return fmt::format("{} of {}{} tests in scope are unknown, and {} % may be: {}", ours.unknown,
                     all - ours.not_measured, ours.not_measured == 0 ? "" : " measured", decision.limits.unknown,
                     first_of(decision.unknown_cases));
}

std::string render_unjudged(const compare::Decision& decision) {
  std::vector<std::string> sentences;
  if (const auto& words = decision.simulated; !words.empty()) {
    sentences.push_back(fmt::format("{} {} simulated: our own model, which shows nothing about a release", join(words),
                                    words.size() == 1 ? "is" : "are"));
  }
  if (const auto& words = decision.unjudged; !words.empty()) {
    sentences.push_back(fmt::format("no test is judged of {}, which the scope names", join(words)));
  }
  return escape_control(join(sentences, "; "));
}

}  // namespace

std::string render_renamed(const std::string& path, const compare::RenamedWord& renamed) {
  return fmt::format("{}: '{}' is now called {}", path, renamed.word, fmt::join(renamed.now, " and "));
}

std::string render_reason(const compare::Decision& decision) {
  switch (decision.why) {
    case compare::DecisionReason::Blocks:
      return render_cases(decision.blocking_cases);
    case compare::DecisionReason::Unknown:
      return render_unknown(decision);
    case compare::DecisionReason::NothingJudged:
      return render_unjudged(decision);
    case compare::DecisionReason::None:
    case compare::DecisionReason::Gaps:
      break;
  }
  return "";
}

std::string render_outside_scope(const compare::Decision& decision) {
  return decision.outside_scope.empty() ? "" : "outside your scope: " + render_cases(decision.outside_scope);
}

std::string render_not_met(const compare::Decision& decision) {
  if (decision.not_met.empty()) return "";
  return fmt::format("not met without {}: {}", fmt::join(decision.absent, ", "), render_cases(decision.not_met));
}

std::string render_waiver(const compare::WaiverState& state) {
  const compare::Waiver& waiver = state.waiver;
  const std::string name = escape_control(waiver.test), reason = escape_control(waiver.reason);
  switch (state.kind) {
    case compare::WaiverState::Kind::Applied:
      return fmt::format("waived: {} ({}{}{})", fmt::join(state.tests, ", "), reason,
                         waiver.until.empty() ? "" : "; until ", waiver.until);
    case compare::WaiverState::Kind::Expired:
      return fmt::format("waiver expired on {}: {} ({})", waiver.until, name, reason);
    case compare::WaiverState::Kind::WithoutEffect:
      break;
  }
  return fmt::format("waiver without effect: {} ({})", name, reason);
}

}  // namespace recapture::report

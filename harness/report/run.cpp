#include "harness/report/run.h"

#include <fmt/format.h>

#include <utility>

#include "harness/base/escape.h"
#include "harness/base/text.h"

namespace recapture::report {

std::string render_surprises(const Record& record, const std::vector<TestVerdict>& rows) {
  constexpr size_t kMost = 20;
  std::string text, next;
  size_t count = 0;
  bool stale = false, other = false;
  for (const TestVerdict& row : rows) {
    if (!is_surprise(row.verdict)) continue;
    if (++count <= kMost) {
      const std::string seen = truncated(render_observed(row));
      text += fmt::format("  {}: {}: {}{}{}\n", row.test, to_string(row.verdict), to_string(row.result),
                          seen.empty() ? "" : ", ", seen);
    }
    if (row.verdict == Verdict::Stale && !std::exchange(stale, true)) {
      next +=
          fmt::format("next: ci/suite {} -- {}    # the case is newer than its binary: builds it and runs it again\n",
                      record.environment.name_in_matrix(), row.case_id);
    } else if (row.verdict != Verdict::Stale && row.verdict != Verdict::Missing && record.broken() == Break::Nothing &&
               !std::exchange(other, true)) {
      next +=
          fmt::format("next: recapture run --break trigger {}    # is it healthy without its trigger?\n", row.case_id);
    }
  }
  if (count == 0) return "";
  if (count > kMost) text += fmt::format("  and {} more\n", count - kMost);
  return fmt::format("{}:\n{}next: recapture show {}\n{}", plural(count, "surprise"), text, record.path, next);
}

std::string render_pace(const run::Pace& pace) {
  std::string text;
  if (pace.together > 0) {
    text = fmt::format("{} side by side in {:.1f} s, at a width of {}", plural(pace.together, "test"), pace.together_s,
                       pace.jobs);
  }
  if (pace.alone > 0) {
    text += fmt::format("{}{} of races alone in {:.1f} s", text.empty() ? "" : "; ", plural(pace.alone, "test"),
                        pace.alone_s);
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace recapture::report

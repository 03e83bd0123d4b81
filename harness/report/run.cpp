#include "harness/report/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/text.h"
#include "harness/words/observation.h"

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

namespace {

double seconds_of(const run::WorkerTimes& times) {
  double sum_s = 0;
  for (const auto& [test, seconds] : times) sum_s += seconds;
  return sum_s;
}

// The tests of the worker that ended last: no run at this width is shorter unless one of them is.
std::string render_critical_path(const std::vector<run::WorkerTimes>& workers) {
  constexpr size_t kMost = 8;
  const auto last = std::ranges::max_element(workers, {}, seconds_of);
  if (last == workers.end() || last->empty()) return "";
  double waited_s = 0;
  for (const run::WorkerTimes& times : workers) waited_s += seconds_of(*last) - seconds_of(times);
  std::map<std::string, double> of_case;
  for (const auto& [test, seconds] : *last) of_case[case_of(test)] += seconds;
  std::vector<std::pair<std::string, double>> longest(of_case.begin(), of_case.end());
  std::ranges::stable_sort(longest, std::greater<>(), &std::pair<std::string, double>::second);
  std::string text = fmt::format("critical path: {} in {:.1f} s; the other workers ended {:.1f} s earlier on average\n",
                                 plural(last->size(), "test"), seconds_of(*last),
                                 waited_s / static_cast<double>(std::max<size_t>(workers.size() - 1, 1)));
  for (size_t i = 0; i < std::min(kMost, longest.size()); ++i) {
    text += fmt::format("  {:6.1f} s  {}\n", longest[i].second, longest[i].first);
  }
  if (longest.size() > kMost) text += fmt::format("  and {} more cases\n", longest.size() - kMost);
  return text;
}

std::string render_contexts(const run::Pace& pace) {
  std::string text;
  for (const auto& [connections, count] : pace.bare->tests) {
    text += fmt::format("{}{} with {} at {:.1f} a second", text.empty() ? "" : ", ", count,
                        plural(static_cast<size_t>(connections), "connection"), pace.bare->per_second.at(connections));
  }
  const double bare_s = pace.bare->seconds();
  return fmt::format("as many bare contexts: {:.1f} s ({}); the tests took {:.2f} times as long\n", bare_s, text,
                     pace.together_s / bare_s);
}

}  // namespace

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
  if (text.empty()) return text;
  return text + "\n" + render_critical_path(pace.workers) + (pace.bare ? render_contexts(pace) : "");
}

}  // namespace recapture::report

#include "harness/verdict/duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <vector>

namespace recapture {
namespace {

constexpr double kTimes = 3, kSeconds = 5;

// Of a merged record that of its shards, if they agree.
int jobs_of(const Json& changing) {
  if (const auto jobs = int_at(changing, "jobs")) return *jobs;
  const Json* shards = member(changing, "shards");
  if (shards == nullptr || !shards->is_array() || shards->empty()) return 0;
  const auto jobs_in = [](const Json& shard) { return int_at(shard, "jobs").value_or(0); };
  const int first = jobs_in(shards->front());
  return std::ranges::all_of(*shards, [&](const Json& shard) { return jobs_in(shard) == first; }) ? first : 0;
}

}  // namespace

int width_of(const Record& record, const std::string& case_id) {
  const auto info = record.cases.find(case_id);
  if (info != record.cases.end() && info->second.nature == Nature::Race) return 1;
  const Json* changing = member(record.environment.json(), "volatile");
  if (changing == nullptr) return 0;
  const int planned = record.plan.empty() ? INT_MAX : static_cast<int>(record.plan.size());
  return std::clamp(jobs_of(*changing), 0, planned);
}

std::string render_seconds(double seconds) { return fmt::format("{:.{}f} s", seconds, seconds < 0.95 ? 2 : 1); }

std::string at_once(int width) { return width == 0 ? "" : fmt::format(", {} at once", width); }

std::optional<double> Durations::add(double seconds) {
  std::optional<double> median;
  if (last_.size() == kRuns) {
    std::vector<double> sorted(last_.begin(), last_.end());
    std::ranges::sort(sorted);
    const double middle = sorted[kRuns / 2];
    if (seconds >= kTimes * middle && seconds - middle >= kSeconds) median = middle;
    last_.pop_front();
  }
  last_.push_back(seconds);
  return median;
}

}  // namespace recapture

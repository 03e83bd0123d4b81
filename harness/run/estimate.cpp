#include "harness/run/estimate.h"

#include <algorithm>
#include <utility>

#include "harness/verdict/select.h"

namespace recapture::run {
Estimate::Estimate(std::vector<Record> committed, const std::string& gpu, const std::string& release) {
  // What is read later replaces what was read before.
  std::stable_sort(committed.begin(), committed.end(), [&](const Record& a, const Record& b) {
    return std::pair(a.env("release") == release, a.environment.started) <
           std::pair(b.env("release") == release, b.environment.started);
  });
  for (const Record& record : committed) {
    if (record.env("gpu") != gpu || record.broken() != Break::Nothing) continue;
    for (const TestRecord& test : record.tests) {
      double seconds = test.seconds();
      const auto again = record.confirmations.find(test.id());
      if (again != record.confirmations.end()) {
        for (const TestRecord& confirmation : again->second) seconds += confirmation.seconds();
      }
      before_[test.id()] = seconds;
    }
  }
  if (before_.empty()) return;
  double sum = 0;
  for (const auto& [test, seconds] : before_) sum += seconds;
  mean_ = std::max(sum / static_cast<double>(before_.size()), 0.01);
}

double Estimate::of(const std::string& test) const {
  const auto found = before_.find(test);
  return found == before_.end() ? mean_ : found->second;
}

void Estimate::plan(const std::string& test, bool alone) {
  if (open_.emplace(test, alone).second) (alone ? open_alone_ : open_together_) += of(test);
}

void Estimate::finished(const std::string& test) {
  const auto found = open_.find(test);
  if (found == open_.end()) return;
  (found->second ? open_alone_ : open_together_) -= of(test);
  (found->second ? done_alone_ : done_together_) += of(test);
  open_.erase(found);
}

std::optional<double> Estimate::left(size_t width, double elapsed_s) const {
  // So many seconds are believed to go as before, no matter what was seen since: the first test says little.
  constexpr double kBelief_s = 5;
  const double belief = before_.empty() ? 0 : kBelief_s;
  const auto n = static_cast<double>(std::max<size_t>(width, 1));
  const double done = done_together_ / n + done_alone_, open = open_together_ / n + open_alone_;
  if (done + belief <= 0) return std::nullopt;
  return std::max(open * (elapsed_s + belief) / (done + belief), 0.0);
}

}  // namespace recapture::run

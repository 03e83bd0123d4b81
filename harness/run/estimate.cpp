#include "harness/run/estimate.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "harness/store/select.h"
#include "harness/verdict/verdict.h"

namespace recapture::run {
Estimate::Estimate(const std::vector<Record>& committed, const std::string& gpu, const std::string& release) {
  std::vector<const Record*> counting;
  for (const Record& record : committed) {
    const bool has_gpu = !record.environment.machine.gpu.empty();
    if (has_gpu == !gpu.empty() && record.broken() == Break::Nothing) counting.push_back(&record);
  }
  // Records of a better rank, or of newer code, replace earlier ones.
  const auto rank = [&](const Record* record) {
    const Environment& environment = record->environment;
    return std::pair(environment.machine.gpu == gpu, environment.release == release);
  };
  std::stable_sort(counting.begin(), counting.end(), [&](const Record* a, const Record* b) {
    return std::tuple(rank(a), a->environment.started) < std::tuple(rank(b), b->environment.started);
  });
  struct Times {
    std::pair<bool, bool> rank;
    std::string hash;
    std::vector<double> seconds;
  };
  std::unordered_map<std::string_view, Times> known;  // The records own the names.
  for (const Record* record : counting) {
    const auto its_rank = rank(record);
    std::string hash;
    const TestRecord* last = nullptr;
    for (const TestRecord& test : record->tests) {
      const size_t begin = test.id().find('.') + 1;  // Of its name. The tests of a case are together.
      const bool is_alike = last != nullptr && last->id().compare(0, begin, test.id(), 0, begin) == 0;
      const auto is_of_program_at = [begin](const TestRecord& one) {
        return is_of_program(std::string_view(one.id()).substr(begin));
      };
      if (!is_alike || is_of_program_at(test) || is_of_program_at(*last)) hash = code_of(*record, test.id());
      last = &test;
      if (!could_run(test) && known.count(test.id()) != 0) continue;
      double seconds = test.seconds();
      const auto again = record->confirmations.find(test.id());
      if (again != record->confirmations.end()) {
        for (const TestRecord& confirmation : again->second) seconds += confirmation.seconds();
      }
      Times& times = known[test.id()];
      if (times.rank != its_rank || times.hash != hash) times = {its_rank, hash, {}};
      times.seconds.push_back(seconds);
    }
  }
  // The median, of two the lesser: with another run on the host, on another GPU too, a test can take several times as
  // long.
  for (auto& [test, times] : known) {
    const auto middle = times.seconds.begin() + static_cast<std::ptrdiff_t>((times.seconds.size() - 1) / 2);
    std::nth_element(times.seconds.begin(), middle, times.seconds.end());
    before_[std::string(test)] = *middle;
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
  // The weight, in seconds, of the assumption that tests take as long as before: the first test is little evidence.
  constexpr double kBelief_s = 5;
  const double belief = before_.empty() ? 0 : kBelief_s;
  const auto n = static_cast<double>(std::max<size_t>(width, 1));
  const double done = done_together_ / n + done_alone_, open = open_together_ / n + open_alone_;
  if (done + belief <= 0) return std::nullopt;
  return std::max(open * (elapsed_s + belief) / (done + belief), 0.0);
}

}  // namespace recapture::run

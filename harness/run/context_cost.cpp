#include "harness/run/context_cost.h"

#include <algorithm>
#include <chrono>

#include "harness/run/process.h"

namespace recapture::run {

double seconds_per_context(const Layout& places, size_t width, const std::vector<std::string>& gpus) {
  constexpr size_t kRounds = 3;
  constexpr double kDeadline_s = 60;
  std::vector<Program> canaries(kRounds * width, {places.canary(), {"--context"}, {}});
  for (size_t i = 0; i < canaries.size() && !gpus.empty(); ++i) {
    canaries[i].environment["CUDA_VISIBLE_DEVICES"] = gpus[i % gpus.size()];
  }
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Reply> answers = ask(canaries, width, kDeadline_s);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool all_well = std::all_of(answers.begin(), answers.end(), [](const Reply& answer) {
    return answer.first.ending == Observation::Ending::Exited && answer.first.code == 0;
  });
  return all_well ? seconds / static_cast<double>(canaries.size()) : 0;
}

}  // namespace recapture::run

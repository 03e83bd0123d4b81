#include "harness/run/context.h"

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "harness/record/exit.h"
#include "harness/run/process.h"

namespace recapture {

double seconds_per_context(const Places& places, size_t width, const std::vector<std::string>& gpus) {
  constexpr int kRounds = 3;
  constexpr double kDeadline_s = 60;
  std::atomic<bool> failed = false;
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> all;
  for (size_t i = 0; i < width; ++i) {
    Program canary{places.canary(), {"--context"}, {}};
    if (!gpus.empty()) canary.environment["CUDA_VISIBLE_DEVICES"] = gpus[i % gpus.size()];
    const auto rounds = [canary, &failed] {
      for (int round = 0; round < kRounds && !failed; ++round) {
        try {
          const Observation seen = ask(canary, kDeadline_s).first;
          if (seen.ending != Observation::Ending::Exited || seen.code != 0) failed = true;
        } catch (const Stop&) {
          failed = true;
        }
      }
    };
    try {
      all.emplace_back(rounds);
    } catch (const std::system_error&) {  // No more threads; what a context costs stays open.
      failed = true;
      break;
    }
  }
  for (std::thread& one : all) one.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return failed ? 0 : seconds / static_cast<double>(kRounds * width);
}

}  // namespace recapture

// Measures all prices. A repetition of Google Benchmark's is a pair: the work is made anew with and without the remedy,
// both are measured in turn, and the least of three passes of each counts, so that what only ever delays (another
// process, an interrupt) does not. Its time is that with the remedy, its counter "without" the other one, in
// microseconds both. The label names the clock. --benchmark_enable_random_interleaving mixes
// the repetitions of all prices, so that a drift of the machine's is in the spread of each. tools/prices runs it.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/remedy.h"

using namespace recapture;

namespace {

constexpr double kBatch = 3000;  // Microseconds of work between two looks at the clock,
constexpr int kPasses = 3;       // so often with and without.

struct Price {
  std::string fixes, what;  // The fixes with spaces between them.
  Clock clock;
  Make without, with;
};

std::vector<Price>& prices() {
  static std::vector<Price> all;
  return all;
}

// How often the work is done in a batch. What is done for the first time has its caches filled by it.
int times_in_a_batch(Clock clock, const Work& work) {
  if (microseconds(clock, work, 1) > kBatch) return 1;
  const double once = microseconds(clock, work, 2) / 2;
  return static_cast<int>(std::clamp(kBatch / std::max(once, 0.01), 1.0, 100'000.0));
}

void measure(benchmark::State& state, const Price& price) {
  give_memory_back();
  state.SetLabel(price.clock == Clock::Gpu ? "gpu" : "host");
  try {
    const std::array<Work, 2> works = {price.without(), price.with()};
    const std::array<int, 2> times = {times_in_a_batch(price.clock, works[0]), times_in_a_batch(price.clock, works[1])};
    std::array<double, 2> least{};
    for (auto _ : state) {
      least.fill(std::numeric_limits<double>::infinity());
      for (int pass = 0; pass < kPasses; ++pass) {
        for (int turn = 0; turn < 2; ++turn) {
          const size_t which = (pass + turn) % 2;  // Neither is always the first.
          least[which] = std::min(least[which], microseconds(price.clock, works[which], times[which]) / times[which]);
        }
      }
      state.SetIterationTime(least[1] * 1e-6);
    }
    state.counters["without"] = least[0];
  } catch (const std::exception& e) {
    const std::string why = e.what();
    state.SkipWithError(why.substr(0, why.find('\n')).c_str());
  }
}

// As its packages spell it, which only NVML knows.
std::string driver() {
  std::array<char, 96> version{};
  void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (nvml == nullptr) return "";
  const auto init = reinterpret_cast<int (*)()>(dlsym(nvml, "nvmlInit_v2"));
  const auto ask = reinterpret_cast<int (*)(char*, unsigned)>(dlsym(nvml, "nvmlSystemGetDriverVersion"));
  const bool answers = init != nullptr && ask != nullptr && init() == 0 && ask(version.data(), version.size()) == 0;
  return answers ? version.data() : "";
}

}  // namespace

void recapture::price(std::initializer_list<const char*> fixes, const char* what, Clock clock, Make without,
                      Make with) {
  Price one{"", what, clock, std::move(without), std::move(with)};
  for (const char* fix : fixes) one.fixes += (one.fixes.empty() ? "" : " ") + std::string(fix);
  prices().push_back(std::move(one));
}

int main(int argc, char** argv) {
  for (const Price& one : prices()) {
    benchmark::RegisterBenchmark((one.fixes + "/" + one.what).c_str(),
                                 [&one](benchmark::State& state) { measure(state, one); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  const Machine on = machine();
  benchmark::AddCustomContext("libtorch", on.libtorch);
  benchmark::AddCustomContext("gpu", on.gpu);
  benchmark::AddCustomContext("driver", driver());
  benchmark::AddCustomContext("cuda_runtime", on.cuda_runtime);
  benchmark::AddCustomContext("hash", BENCHMARKS_HASH);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  use_side_stream();
  benchmark::RunSpecifiedBenchmarks();
}

// Measures all prices, and the stages of a graph's life.
//
// A repetition of a price builds three works: without the remedy, with it, and without it again as the control. The
// order is random, and six repetitions use all six orders, since the graph that is built second can replay some percent
// faster than the first. The three are measured in turn, and the minimum of three passes of each counts, which removes
// pure delays (another process, an interrupt). The repetition's time is the one with the remedy; its counters "without"
// and "control" are the other two, in microseconds. The label names the clock. --benchmark_enable_random_interleaving
// mixes the repetitions of all prices, so that a drift of the machine becomes part of each spread. tools/prices runs
// it.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/remedy.h"

using namespace recapture;

namespace {

constexpr double kBatch = 3000;  // Microseconds of work between two readings of the clock,
constexpr int kPasses = 3;       // and passes of each work: each is the first of a pass once.

enum Role { kWithout, kWith, kControl, kRoles };
using Order = std::array<size_t, kRoles>;  // Of making: roles.

struct Price {
  std::string fixes, what;  // The fixes with spaces between them.
  Clock clock;
  Make without, with;
  std::vector<Order> orders = {};  // The remaining ones.
};

struct Stage {
  std::string what;
  int nodes;
  Measurement measure;
};

std::vector<Price>& prices() {
  static std::vector<Price> all;
  return all;
}
std::vector<Stage>& stages() {
  static std::vector<Stage> all;
  return all;
}

// One of the six orders; each is used once before any is repeated.
Order next_order(Price& price) {
  static std::mt19937 dice{std::random_device()()};
  if (price.orders.empty()) {
    Order order{};
    std::iota(order.begin(), order.end(), 0);
    do price.orders.push_back(order);
    while (std::next_permutation(order.begin(), order.end()));
    std::shuffle(price.orders.begin(), price.orders.end(), dice);
  }
  const Order next = price.orders.back();
  price.orders.pop_back();
  return next;
}

// The number of executions in a batch. Also warms the caches.
int times_in_a_batch(Clock clock, const Work& work) {
  if (microseconds(clock, work, 1) > kBatch) return 1;
  const double once = microseconds(clock, work, 2) / 2;
  return static_cast<int>(std::clamp(kBatch / std::max(once, 0.01), 1.0, 100'000.0));
}

// Makes and measures once. All of it is in the loop, although the time is set by hand: a repetition with an error
// before its loop has no iteration, and Google Benchmark aborts if one repetition has another number of iterations than
// the others.
template <class Measure>
void measure_once(benchmark::State& state, Clock clock, const Measure& measure) {
  give_memory_back();
  state.SetLabel(clock == Clock::Gpu ? "gpu" : "host");
  for (auto _ : state) {
    try {
      state.SetIterationTime(measure() * 1e-6);
    } catch (const std::exception& e) {
      const std::string why = e.what();
      state.SkipWithError(why.substr(0, why.find('\n')).c_str());
      break;
    }
  }
}

void measure(benchmark::State& state, Price& price) {
  measure_once(state, price.clock, [&] {
    const Order order = next_order(price);
    std::array<Work, kRoles> works;
    std::array<int, kRoles> times{};
    for (const size_t role : order) works[role] = role == kWith ? price.with() : price.without();
    for (const size_t role : order) times[role] = times_in_a_batch(price.clock, works[role]);
    std::array<double, kRoles> least{};
    least.fill(std::numeric_limits<double>::infinity());
    for (size_t pass = 0; pass < kPasses; ++pass) {
      for (size_t turn = 0; turn < kRoles; ++turn) {
        const size_t role = order[(pass + turn) % kRoles];
        least[role] = std::min(least[role], microseconds(price.clock, works[role], times[role]) / times[role]);
      }
    }
    state.counters["without"] = least[kWithout];
    state.counters["control"] = least[kControl];
    for (size_t place = 0; place < kRoles; ++place) {
      state.counters["made_" + std::to_string(place)] = static_cast<double>(order[place]);
    }
    return least[kWith];
  });
}

void measure(benchmark::State& state, const Stage& stage) { measure_once(state, Clock::Host, stage.measure); }

// In its packages' spelling, which only NVML has.
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
  Price one{"", what, clock, std::move(without), std::move(with), {}};
  for (const char* fix : fixes) one.fixes += (one.fixes.empty() ? "" : " ") + std::string(fix);
  prices().push_back(std::move(one));
}

void recapture::stage(const char* what, int nodes, Measurement measure) {
  stages().push_back({what, nodes, std::move(measure)});
}

int main(int argc, char** argv) {
  const auto add = [](const std::string& name, auto& one) {
    benchmark::RegisterBenchmark(name.c_str(), [&one](benchmark::State& state) { measure(state, one); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  for (Price& one : prices()) add(one.fixes + "/" + one.what, one);
  for (const Stage& one : stages()) add("stage/" + one.what + "/" + std::to_string(one.nodes), one);
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

// What a question to `recapture history` costs, and what adding a run does, by how many runs are on file.
//
// The runs are real files: copies of the newest committed record with 700 tests, each with a date, a run id, a revision
// and hits of races of its own, and with another outcome of one test in every third night. 10,000 of them are 6 GB
// below $TMPDIR, removed at the end, and to read them all for the first time takes minutes: that is first_look, once
// for each size. question and add_a_run are asked of an index that is there, from opening it to the judged answer;
// reading the tree's rules, 20 ms for any number of runs, is in neither. add_a_run writes the record before the clock
// starts.
//   ninja -C build history_benchmark && build/benchmarks/history [--benchmark_filter=/10000]
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/history/series.h"
#include "harness/history/words.h"

using namespace recapture;
namespace fs = std::filesystem;

namespace {

// One of a few outcomes; one that each run has other numbers of.
constexpr const char* kSteady = "item_in_capture";
constexpr const char* kRace = "driver_crash_beside_capture";

class Nights {
 public:
  explicit Nights(size_t number) : number_(number) {
    fs::create_directories(folder);
    for (size_t night = 0; night < number; ++night) write(night);
  }
  ~Nights() { fs::remove_all(folder); }
  Nights(const Nights&) = delete;
  Nights& operator=(const Nights&) = delete;

  size_t add() {
    write(number_);
    return number_++;
  }

  const std::string folder = fs::temp_directory_path() / fmt::format("recapture-nights-{}", getpid());
  const std::string place =
      fs::canonical(fs::temp_directory_path()) / fs::path(folder).filename() / ".recapture.sqlite";

 private:
  void write(size_t night) const {
    static const Record record = read_record(RECAPTURE_ROOT "/reports/2.11.0/nvidia-h200.run-2.jsonl.gz");
    std::string text;
    const auto add = [&](const Json& line) { text += line.dump() + "\n"; };
    Json environment = record.environment;
    environment["revision"] = fmt::format("{:07x}", night);
    environment["volatile"]["run"] = fmt::format("{:016x}", night);
    environment["volatile"]["started"] =
        fmt::format("{}-{:02}-{:02}T03:00:00Z", 2000 + night / 336, 1 + night / 28 % 12, 1 + night % 28);
    add(environment);
    add({{"plan", record.plan}});
    for (const auto& [id, info] : record.cases) add(info.to_json());
    for (size_t i = 0; i < record.tests.size(); ++i) {
      Json line = record.tests[i].line;
      if (line.contains("tries")) line["tries"] = line.at("tries").get<int>() + static_cast<int>(night * 7919 % 4001);
      const bool is_other = night % 3 == 0 && i == night / 3 % record.tests.size();
      if (is_other && line.contains("seen")) line["seen"] = "905 > invalidated > 901";
      add(line);
    }
    for (const auto& [id, again] : record.confirmations) {
      for (const TestRecord& test : again) add(test.line);
    }
    add({{"end", "complete"}});
    std::ofstream(fmt::format("{}/{:05}.jsonl", folder, night)) << text;
  }

  size_t number_;
};

const Rules& rules() {
  static const Rules all = rules_of(RECAPTURE_ROOT);
  return all;
}

std::string answer(const Nights& nights, const std::string& id) {
  Index index(nights.folder, nights.place);
  Histories histories(index, rules(), {});
  return as_text(histories.of_case(id, {id + "." + (id == kRace ? "ReproducesByEventQuery" : "Reproduces")}));
}

// One folder for all benchmarks of a size: they run one after the other.
Nights& nights_of(benchmark::State& state) {
  static std::unique_ptr<Nights> nights;
  static int64_t size = 0;
  if (size != state.range(0)) {
    nights.reset();
    nights = std::make_unique<Nights>(static_cast<size_t>(size = state.range(0)));
  }
  return *nights;
}

void first_look(benchmark::State& state) {
  Nights& nights = nights_of(state);
  for (auto _ : state) {
    fs::remove(nights.place);
    benchmark::DoNotOptimize(answer(nights, kSteady));
  }
  state.counters["index_MB"] = static_cast<double>(fs::file_size(nights.place)) / 1e6;
}

void question(benchmark::State& state, const char* id) {
  const Nights& nights = nights_of(state);
  while (Index(nights.folder, nights.place).read() > 0) {  // What has only just been written is read again.
  }
  for (auto _ : state) benchmark::DoNotOptimize(answer(nights, id));
}

void add_a_run(benchmark::State& state) {
  Nights& nights = nights_of(state);
  for (auto _ : state) {
    state.PauseTiming();
    while (Index(nights.folder, nights.place).read() > 0) {  // What has only just been added is read again.
    }
    nights.add();
    state.ResumeTiming();
    const Index index(nights.folder, nights.place);
    if (index.read() == 0) state.SkipWithError("nothing was added");
  }
}

void add_benchmarks() {
  for (const int64_t size : {100, 1000, 10000}) {
    const auto add = [&](const char* name, auto run) {
      return benchmark::RegisterBenchmark(name, run)->Arg(size)->Unit(benchmark::kMillisecond)->UseRealTime();
    };
    add("first_look", first_look)->Iterations(1);
    add("question_steady", [](benchmark::State& state) { question(state, kSteady); });
    add("question_race", [](benchmark::State& state) { question(state, kRace); });
    add("add_a_run", add_a_run)->Iterations(10);
  }
}

}  // namespace

int main(int argc, char** argv) {
  add_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

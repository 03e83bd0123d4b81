#include "harness/store/machine_runs.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "harness/store/run_heads.h"

namespace recapture {
namespace {

// Runs without a GPU stand in where no other runtime was chosen.
void add_host_cases(std::map<MachineId, MachineRuns>& machines) {
  std::vector<JudgedRun> hosts;
  for (const auto& [id, machine] : machines) {
    if (!id.gpu.empty()) continue;
    for (const ReleaseRuns& release : machine.releases) {
      std::ranges::transform(release.runs, std::back_inserter(hosts), of_host_cases);
    }
  }
  for (auto& [id, machine] : machines) {
    for (ReleaseRuns& release : machine.releases) {
      const Environment own = release.runs.front().record.environment;
      std::ranges::copy_if(hosts, std::back_inserter(release.runs),
                           [&](const JudgedRun& host) { return stands_in(host.record.environment, own); });
    }
  }
}

}  // namespace

bool is_newer(const JudgedRun& run, const JudgedRun& than) {
  const Record &record = run.record, &other = than.record;
  return std::tie(record.environment.started, record.path) > std::tie(other.environment.started, other.path);
}

void sort_newest_first(std::vector<JudgedRun>& runs) { std::ranges::stable_sort(runs, is_newer); }

bool began_before(const JudgedRun& run, const JudgedRun& other) {
  return run.record.environment.started < other.record.environment.started;
}

std::vector<const JudgedRun*> own_runs(std::span<const JudgedRun> runs) {
  std::vector<const JudgedRun*> own;
  for (const JudgedRun& run : runs) {
    if (run.record.environment.machine.gpu == runs.front().record.environment.machine.gpu) own.push_back(&run);
  }
  return own;
}

std::unordered_set<std::string_view> planned_with_shards(std::span<const JudgedRun> runs) {
  std::unordered_set<std::string_view> tests;
  for (const JudgedRun* run : own_runs(runs)) {
    const Record& record = run->record;
    if (record.is_shard()) tests.insert(record.whole_plan.begin(), record.whole_plan.end());
  }
  return tests;
}

bool is_completed_by(const JudgedRun& run, std::span<const JudgedRun> runs) {
  const Record& record = run.record;
  const auto has_line = [&](const std::string& test) {
    return std::ranges::any_of(runs, [&](const JudgedRun& each) { return each.record.find(test) != nullptr; });
  };
  return record.end != "complete" && !record.has_all() && !record.plan.empty() &&
         std::ranges::all_of(record.plan, has_line);
}

JudgedRun of_host_cases(JudgedRun run) {
  std::erase_if(run.rows, [&](const TestVerdict& row) {
    const auto info = run.record.cases.find(row.case_id);
    return info == run.record.cases.end() || info->second.needs.gpus > 0;
  });
  return run;
}

std::vector<MachineRuns> runs_by_machine(std::vector<JudgedRun> runs) {
  sort_newest_first(runs);
  std::map<MachineId, MachineRuns> machines;
  for (JudgedRun& run : runs) {
    const Environment& environment = run.record.environment;
    const auto [machine, is_first] = machines.try_emplace(environment.machine.with_overrides());
    auto& [first, releases, other_runtimes] = machine->second;
    if (is_first) first = environment;
    const std::string& name = environment.release.name();
    auto release = std::ranges::find(releases, name, &ReleaseRuns::release);
    if (release == releases.end()) {
      release = releases.insert(release, {name, {}});
    } else if (!have_same_libraries(release->runs.front().record.environment, environment)) {
      release = other_runtimes.insert(other_runtimes.end(), {name, {}});
    }
    release->runs.push_back(std::move(run));
  }
  add_host_cases(machines);
  std::vector<MachineRuns> all;
  for (auto& [id, machine] : machines) {  // Runs without a GPU come last.
    std::ranges::sort(machine.releases, {}, [](const ReleaseRuns& runs) { return Release(runs.release); });
    all.push_back(std::move(machine));
  }
  return all;
}

}  // namespace recapture

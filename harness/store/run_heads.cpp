#include "harness/store/run_heads.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <tuple>

#include "harness/base/json.h"
#include "harness/model/record.h"
#include "harness/store/copies.h"

namespace recapture {
namespace {

bool began_later(const RunHead& a, const RunHead& b) {
  return std::tie(a.environment.started, a.path) > std::tie(b.environment.started, b.path);
}

bool are_own(const Environment& a, const Environment& b, const OverridableLibrary& library) {
  return !a.machine.has_override(library) && !b.machine.has_override(library);
}

}  // namespace

std::vector<RunHead> heads_below(const std::string& folder, const ReadEnvironment& read) {
  std::vector<RunHead> heads;
  for (const std::string& path : records_below(folder)) {
    const Environment& environment = read(path);
    if (environment.broken == Break::Nothing) heads.push_back({path, environment});
  }
  sort_newest_first(heads);
  return heads;
}

void sort_newest_first(std::vector<RunHead>& heads) { std::ranges::sort(heads, began_later); }

std::vector<RunHead> without_copies(const std::vector<RunHead>& heads) {
  std::vector<const Environment*> runs;
  for (const RunHead& head : heads) runs.push_back(&head.environment);
  std::vector<RunHead> kept;
  for (const size_t place : each_once(runs)) kept.push_back(heads[place]);
  return kept;
}

std::string version_in(const Environment& environment, const OverridableLibrary& library) {
  const bool is_told = library.key == std::string_view("cuda_runtime") || environment.machine.has_override(library);
  return is_told ? text_at(environment.json(), library.key) : library.is_package() ? "the cases' own" : "its own";
}

std::string version_in(const ChosenLibraries& chosen, const OverridableLibrary& library) {
  const auto at = chosen.find(library.key);
  return at == chosen.end() ? "" : at->second;
}

bool have_same_libraries(const Environment& a, const Environment& b) {
  return std::ranges::all_of(kOverridableLibraries, [&](const OverridableLibrary& library) {
    return version_in(a, library) == version_in(b, library);
  });
}

bool are_alike(const Environment& a, const Environment& b) {
  return a.machine.comparable() == b.machine.comparable() && a.release.line() == b.release.line() &&
         std::ranges::all_of(kOverridableLibraries, [&](const OverridableLibrary& library) {
           return are_own(a, b, library) || version_in(a, library) == version_in(b, library);
         });
}

bool has_chosen(const std::vector<RunHead>& heads, const OverridableLibrary& library, const ChosenLibraries& chosen) {
  const std::string wanted = version_in(chosen, library);
  return !wanted.empty() && std::ranges::any_of(heads, [&](const RunHead& head) {
    return version_in(head.environment, library) == wanted;
  });
}

std::vector<const OverridableLibrary*> chosen_in_vain(const std::vector<RunHead>& older,
                                                      const std::vector<RunHead>& newer,
                                                      const ChosenLibraries& chosen) {
  std::vector<const OverridableLibrary*> all;
  for (const OverridableLibrary& library : kOverridableLibraries) {
    if (version_in(chosen, library).empty()) continue;
    if (!has_chosen(older, library, chosen) && !has_chosen(newer, library, chosen)) all.push_back(&library);
  }
  return all;
}

std::vector<RunHead> on_machine(const MachineId& machine, std::vector<RunHead> heads) {
  std::erase_if(heads, [&](const RunHead& head) { return head.environment.machine.comparable() != machine; });
  return heads;
}

std::set<MachineId> machines_of(const std::vector<RunHead>& heads) {
  std::set<MachineId> machines;
  for (const RunHead& head : heads) machines.insert(head.environment.machine.comparable());
  return machines;
}

std::vector<RunHead> counting_heads(std::vector<RunHead> heads, const ChosenLibraries& chosen) {
  for (const OverridableLibrary& library : kOverridableLibraries) {
    if (heads.empty()) break;
    const auto usual = std::ranges::find_if(
        heads, [&](const RunHead& head) { return !head.environment.machine.has_override(library); });
    const std::string version = has_chosen(heads, library, chosen)
                                    ? version_in(chosen, library)
                                    : version_in((usual == heads.end() ? heads.front() : *usual).environment, library);
    std::erase_if(heads, [&](const RunHead& head) { return version_in(head.environment, library) != version; });
  }
  return heads;
}

std::vector<RunHead> counting_heads_anywhere(const std::vector<RunHead>& heads, const ChosenLibraries& chosen) {
  std::vector<RunHead> all;
  for (const MachineId& machine : machines_of(heads)) {
    std::ranges::move(counting_heads(on_machine(machine, heads), chosen), std::back_inserter(all));
  }
  sort_newest_first(all);
  return all;
}

const RunHead& newest_with(const std::vector<RunHead>& heads, const ChosenLibraries& chosen) {
  const auto found = std::ranges::find_if(heads, [&](const RunHead& head) {
    return std::ranges::all_of(kOverridableLibraries, [&](const OverridableLibrary& library) {
      return !has_chosen(heads, library, chosen) || has_chosen({head}, library, chosen);
    });
  });
  return found == heads.end() ? heads.front() : *found;
}

std::vector<RunHead> older_than(const std::vector<RunHead>& heads, const std::vector<RunHead>& others,
                                const Environment& kind) {
  std::vector<RunHead> older;
  std::ranges::copy_if(heads, std::back_inserter(older), [&](const RunHead& head) {
    return std::ranges::all_of(others, [&](const RunHead& other) {
      const bool is_later = began_later(other, head) && !are_of_one_run(other.environment, head.environment);
      return is_later || !are_alike(other.environment, kind);
    });
  });
  return older;
}

bool is_elsewhere(const Environment& environment, const MachineId& machine) {
  const MachineId& other = environment.machine;
  if (was_sent(environment) || other.gpu.empty()) return false;
  return (other.gpu != machine.gpu || other.driver != machine.driver) && other.variables == machine.variables &&
         other.processor == machine.processor && other.overrides.empty();
}

std::vector<std::string> paths_elsewhere(const std::vector<RunHead>& heads, const MachineId& machine) {
  std::vector<std::string> paths;
  for (const RunHead& head : heads) {
    if (is_elsewhere(head.environment, machine)) paths.push_back(head.path);
  }
  return paths;
}

MachineRank rank_machine(const Environment& from, const Environment& to, size_t tests, size_t runs,
                         const ChosenLibraries& chosen) {
  size_t unwanted = 0;
  for (const Environment* environment : {&from, &to}) {
    for (const OverridableLibrary& library : kOverridableLibraries) {
      const std::string wanted = version_in(chosen, library);
      unwanted +=
          !wanted.empty() ? version_in(*environment, library) != wanted : environment->machine.has_override(library);
    }
  }
  return {from.machine.gpu.empty(), was_sent(from) || was_sent(to), unwanted, SIZE_MAX - tests, SIZE_MAX - runs};
}

bool may_fill_in(const MachineId& a, const MachineId& b) {
  return !a.gpu.empty() && !b.gpu.empty() && a.gpu != b.gpu && a.driver == b.driver && a.processor == b.processor &&
         a.variables == b.variables;
}

}  // namespace recapture

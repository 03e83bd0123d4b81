#include "harness/report/left.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "harness/base/text.h"
#include "harness/report/case_summary.h"
#include "harness/verdict/duration.h"

namespace recapture::report {
namespace {

std::string counts_text(const std::map<Coverage, size_t>& counts) {
  std::string text;
  for (const auto& [coverage, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, to_string(coverage));
  }
  return text;
}

std::string counts_text(const LeftToRun& left) {
  const std::string tests = counts_text(left.counts), operators = counts_text(left.operators);
  return tests + (operators.empty() ? "" : (tests.empty() ? "" : "; ") + ("operators: " + operators));
}

std::string name_of_machine(const MachineId& machine) { return label(machine, {.driver = true}); }

std::string render_time(double seconds) {
  constexpr double kMinute = 60;
  return seconds < 2 * kMinute ? render_seconds(seconds) : fmt::format("{:.0f} min", seconds / kMinute);
}

// Remaining tests of one case with the same reason and number of GPUs.
struct Group {
  std::string case_id;
  Coverage why;
  int gpus;
  size_t tests = 0;
  double seconds = 0;
};

std::vector<Group> groups_of_tests(const std::vector<LeftTest>& tests) {
  std::vector<Group> groups;
  for (const LeftTest& test : tests) {
    const std::string id = case_of(test.test);
    auto at = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return std::tie(group.case_id, group.why, group.gpus) == std::tie(id, test.why, test.gpus);
    });
    if (at == groups.end()) at = groups.insert(groups.end(), {id, test.why, test.gpus});
    ++at->tests;
    at->seconds += test.seconds;
  }
  return groups;
}

}  // namespace

std::vector<LeftOnMachine> left_on_machines(const CoverageIndex& index, const std::vector<std::string>& matrix,
                                            const std::vector<WantedTest>& wanted) {
  std::vector<LeftOnMachine> all;
  for (const MachineId& machine : index.machines()) {
    for (const std::string& release : matrix) {
      all.push_back({release, machine, index.left(release, machine, wanted)});
    }
  }
  return all;
}

std::string render_left_counts(const std::vector<LeftOnMachine>& all) {
  std::string text, machine;
  for (const LeftOnMachine& one : all) {
    const std::string name = name_of_machine(one.machine);
    if (name != machine) text += "  " + name + "\n";
    machine = name;
    text += fmt::format("    {:<8} {}\n", one.release, counts_text(one.left));
  }
  return text;
}

std::string render_left(const LeftOnMachine& one) {
  const std::string title = fmt::format("LibTorch {} on {}", one.release, name_of_machine(one.machine));
  if (one.left.tests.empty()) return title + ": nothing is left\n";
  const std::vector<Group> groups = groups_of_tests(one.left.tests);
  std::string text = fmt::format("{}: {} left, about {} with {} at once\n", title,
                                 plural(one.left.tests.size(), "test"), render_time(one.seconds), kLeftJobs);
  for (const Group& group : groups) {
    text +=
        fmt::format("  {:<11} {:<48} {:>9} {:>8}{}\n", to_string(group.why), group.case_id, plural(group.tests, "test"),
                    render_time(group.seconds), group.gpus > 1 ? fmt::format("  {} GPUs", group.gpus) : "");
  }
  return text + fmt::format("  run: ci/suite {} -- --left\n", one.release);
}

std::string render_waiting(const std::vector<LeftOnMachine>& all, int gpus, const std::vector<std::string>& matrix) {
  const auto is_same = [](const LeftOnMachine& a, const LeftOnMachine& b) {
    return name_of_machine(a.machine) == name_of_machine(b.machine);
  };
  std::string text;
  for (auto first = all.begin(); first != all.end();) {
    const auto end = std::find_if_not(first, all.end(), [&](const LeftOnMachine& one) { return is_same(*first, one); });
    std::map<std::tuple<std::string, Coverage, size_t>, std::vector<std::string>> releases;
    size_t count = 0;
    for (auto one = first; one != end; ++one) {
      count += one->left.tests.size();
      for (const Group& group : groups_of_tests(one->left.tests)) {
        releases[{group.case_id, group.why, group.tests}].push_back(one->release);
      }
    }
    text += fmt::format(
        "{}{}: {}\n", text.empty() ? "" : "\n", name_of_machine(first->machine),
        count == 0 ? fmt::format("nothing waits for {} GPUs", gpus)
                   : fmt::format("{} {} for {} GPUs", plural(count, "test"), count == 1 ? "waits" : "wait", gpus));
    for (const auto& [key, its_releases] : releases) {
      const auto& [id, why, tests] = key;
      text += fmt::format("  {:<11} {:<40} {:>9}  {}\n", to_string(why), id, plural(tests, "test"),
                          span_of(its_releases, matrix));
    }
    first = end;
  }
  return text;
}

std::string render_unbroken(const std::vector<UnbrokenFix>& fixes) {
  if (fixes.empty()) return "";
  constexpr size_t kNamedCases = 12;
  std::map<Release, std::vector<UnbrokenFix>, NewestFirst> by_release;
  for (const UnbrokenFix& fix : fixes) by_release[Release(fix.release)].push_back(fix);
  std::string text = fmt::format("fixes that no run has seen fail without their remedy: {}\n", fixes.size());
  for (const auto& [release, its_fixes] : by_release) {
    std::vector<std::string> cases;
    for (const UnbrokenFix& fix : its_fixes) add_once(cases, case_of(fix.test));
    text += fmt::format("  {:<11} {} of {}\n", release.empty() ? "no release" : release.name(), its_fixes.size(),
                        plural(cases.size(), "case"));
    const bool is_short = cases.size() <= kNamedCases;
    if (release.empty()) {
      text +=
          wrap("    their failure occurs nowhere on record, or only where they do not apply: ", join(cases), "      ");
    } else {
      const std::string names = is_short ? " " + join(cases, " ") : "";
      text += wrap("    run: ", fmt::format("ci/suite {} -- --break remedy{}", release.name(), names), "      ");
    }
  }
  return text;
}

Json render_json(const LeftOnMachine& one, const std::vector<UnbrokenFix>& fixes) {
  Json counts = Json::object(), tests = Json::array(), unbroken = Json::array();
  for (const UnbrokenFix& fix : fixes) {
    if (fix.release == one.release) unbroken.push_back(fix.test);
  }
  for (const auto& [coverage, count] : one.left.counts) counts[std::string(to_string(coverage))] = count;
  for (const LeftTest& test : one.left.tests) {
    tests.push_back(
        {{"test", test.test}, {"why", to_string(test.why)}, {"gpus", test.gpus}, {"seconds", test.seconds}});
  }
  return {{"release", one.release}, {"gpu", one.machine.gpu}, {"driver", one.machine.driver}, {"counts", counts},
          {"seconds", one.seconds}, {"tests", tests},         {"unbroken_fixes", unbroken}};
}

}  // namespace recapture::report

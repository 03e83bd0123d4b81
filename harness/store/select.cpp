#include "harness/store/select.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/parallel.h"
#include "harness/model/origin.h"
#include "harness/model/record_files.h"
#include "harness/verdict/verdict.h"

namespace recapture {
namespace {

// Runs broken on purpose are a kind of their own.
std::pair<MachineKind, Break> kind_of(const Environment& environment) { return {environment.kind, environment.broken}; }

struct Head {
  std::string path, started;
  std::string plan;  // From plan_in().
};

// A record's first lines. For a missing file, read_record() has the message.
std::string lines_of(const std::string& path, int lines) {
  std::error_code error;
  const bool is_plain = std::filesystem::is_regular_file(path, error);
  if (!is_plain && (std::filesystem::exists(path, error) || !is_record_there(path))) read_record(path);
  return first_lines_of_record(path, lines);
}

// A record's second line, if it is the plan, as every run and merge writes it.
std::string plan_in(const std::string& line) { return line.rfind(R"({"plan")", 0) == 0 ? line : ""; }

// Whether a plan has a test of these cases, or is unknown.
bool plans_any(const std::string& plan, const std::set<std::string>& cases) {
  return plan.empty() || std::any_of(cases.begin(), cases.end(),
                                     [&](const std::string& id) { return plan.find('"' + id + '.') != plan.npos; });
}

// The tests of a plan, from its line; nothing if it is unknown.
std::optional<std::vector<std::string>> tests_in_plan(std::string_view line) {
  constexpr std::string_view kBegin = R"({"plan":[")", kBetween = R"(",")", kEnd = "\"]}\n";
  std::vector<std::string> tests;
  // As every run and merge writes it. Most of these lines are not read as JSON, since there is one a run.
  if (line.starts_with(kBegin) && line.substr(kBegin.size()).ends_with(kEnd)) {
    std::string_view rest = line.substr(kBegin.size(), line.size() - kBegin.size() - kEnd.size());
    for (size_t at = 0; at != rest.npos; rest.remove_prefix(std::min(rest.size(), at + kBetween.size()))) {
      at = rest.find(kBetween);
      tests.emplace_back(rest.substr(0, at));
      if (tests.back().find_first_of("\"\\") != tests.back().npos) break;
      if (at == rest.npos) return tests;
    }
  }
  const Json plan = try_parse_json(line).value_or(Json());
  if (!plan.is_object() || !plan.at("plan").is_array()) return std::nullopt;
  tests.clear();
  for (const Json& test : plan.at("plan")) tests.push_back(test.is_string() ? test.get<std::string>() : "");
  return tests;
}

// From its first line. For a file that is not a record, read_record() has the message.
Environment environment_in(const std::string& line, const std::string& path) {
  const auto environment = try_parse_json(line);
  const bool is_one = environment && environment->is_object() && int_at(*environment, "recapture") &&
                      (!environment->contains("packed") || environment->at("packed").is_boolean());
  return is_one ? Environment(*environment) : read_record(path).environment;
}

Result result_of(const TestRecord& test) { return classify(kind_of_id(test.id()), test); }

// Tests whose newer lines are weak evidence (unavailable, or a race that was not seen), so that older records count.
using Little = std::map<std::string, Result>;

bool says_more(Result older, Result newer) {
  return newer == Result::Unseen ? older == Result::Reproduced : older != Result::Unavailable;
}

bool says_more(const std::string& path, const std::set<std::string>& tests, const Little& little) {
  const Record record = read_tests(path, tests);
  return std::any_of(record.tests.begin(), record.tests.end(), [&](const TestRecord& test) {
    return tests.count(test.id()) != 0 && says_more(result_of(test), little.at(test.id()));
  });
}

// Reads the records that count for one kind of machine, newest first.
Newest newest_of(std::vector<Head> heads, const RecordFilter& filter) {
  Newest newest;
  std::stable_sort(heads.begin(), heads.end(), [](const Head& a, const Head& b) { return a.started > b.started; });
  // Tests for which no older record matters. The records own the names, which stay where they are.
  static_assert(std::is_nothrow_move_constructible_v<Record>);
  std::unordered_set<std::string_view> settled;
  Little little;
  std::set<std::string> plans_without_news;  // Nightly runs repeat the same plan.
  for (const Head& head : heads) {
    if (plans_without_news.count(head.plan) != 0) {
      ++newest.left_out;
      continue;
    }
    const bool is_first = settled.empty() && little.empty();
    const auto plan = is_first ? std::nullopt : tests_in_plan(head.plan);
    std::set<std::string> open;  // What it planned of these.
    const auto has_line = [&](const std::string& id) {
      if (!filter.cases.empty() && !id.empty() && filter.cases.count(case_of(id)) == 0) return true;
      if (little.count(id) != 0) open.insert(id);
      return settled.count(id) + little.count(id) != 0;
    };
    const bool nothing_new = plan && std::ranges::all_of(*plan, has_line);
    if (nothing_new && (open.empty() || !says_more(head.path, open, little))) {
      if (open.empty()) plans_without_news.insert(head.plan);
      ++newest.left_out;
      continue;
    }
    newest.records.push_back(filter.cases.empty() ? read_record(head.path) : read_cases(head.path, filter.cases));
    const Record& record = newest.records.back();
    for (const TestRecord& test : record.tests) {
      const std::string& id = test.id();
      if (settled.count(id) != 0) continue;
      if (little.count(id) == 0 && could_run(test) && !test.has_rate()) {  // No older record matters.
        settled.insert(id);
        continue;
      }
      const Result result = result_of(test);
      const auto before = little.find(id);
      if (before != little.end() && !says_more(result, before->second)) continue;
      const bool can_be = !record.env("gpu").empty() || record.cases.at(test.case_id()).needs.gpus == 0;
      if (can_be && (result == Result::Unavailable || result == Result::Unseen)) {
        little[id] = result;
      } else {
        settled.insert(id);
        little.erase(id);
      }
    }
  }
  return newest;
}

}  // namespace

Environment environment_of(const std::string& path) { return environment_in(lines_of(path, 1), path); }

Yields if_only_sent(std::string folder) {
  return [folder = std::move(folder)](const std::string& release) {
    const std::vector<std::string> paths = records_below(folder + "/" + release);
    return !paths.empty() && std::ranges::all_of(paths, [](const std::string& path) {
      try {
        return was_sent(environment_of(path));
      } catch (const ExitError&) {
        return false;
      }
    });
  };
}

void sort_by_time(std::vector<Record>& records) {
  // Machines keep the place of their first record: a folder sorted by path is sorted by release.
  const auto machine = [](const Record& record) {
    return std::tuple(record.env("release"), record.environment.machine.place(), record.env("break"));
  };
  std::map<std::tuple<std::string, MachineId, std::string>, std::string> first;
  for (const Record& record : records) {
    const auto at = first.emplace(machine(record), record.path).first;
    at->second = std::min(at->second, record.path);
  }
  std::stable_sort(records.begin(), records.end(), [&](const Record& a, const Record& b) {
    return std::tuple(first.at(machine(a)), a.environment.started, a.path) <
           std::tuple(first.at(machine(b)), b.environment.started, b.path);
  });
}

Newest newest_records(const std::string& folder) { return newest_records(folder, {}); }

Newest newest_records(const std::string& folder, const RecordFilter& filter) {
  std::map<std::pair<MachineKind, Break>, std::vector<Head>> kinds;
  auto paths = records_below(folder);
  std::reverse(paths.begin(), paths.end());  // Without dates the last in the folder is the newest.
  std::vector<Environment> environments(paths.size());
  std::vector<std::string> plans(paths.size());
  in_parallel(paths.size(), [&](size_t i) {
    const std::string lines = lines_of(paths[i], 2);
    const size_t second = lines.find('\n') + 1;
    environments[i] = environment_in(lines.substr(0, second), paths[i]);
    plans[i] = plan_in(lines.substr(second));
  });
  for (size_t i = 0; i < paths.size(); ++i) {
    const Environment& environment = environments[i];
    if (!filter.release.empty() && environment.release != filter.release) continue;
    if (filter.only_planned && !plans_any(plans[i], filter.cases)) continue;
    kinds[kind_of(environment)].push_back({paths[i], environment.started, std::move(plans[i])});
  }
  std::vector<std::vector<Head>> machines;
  machines.reserve(kinds.size());
  for (auto& [kind, heads] : kinds) machines.push_back(std::move(heads));
  std::vector<Newest> parts(machines.size());
  in_parallel(machines.size(), [&](size_t i) { parts[i] = newest_of(std::move(machines[i]), filter); });
  Newest newest;
  for (Newest& part : parts) {
    std::move(part.records.begin(), part.records.end(), std::back_inserter(newest.records));
    newest.left_out += part.left_out;
  }
  sort_by_time(newest.records);
  return newest;
}

Newest all_records(const std::string& folder) {
  Newest all{read_records_below(folder), 0};
  sort_by_time(all.records);
  return all;
}

Rules rules_as_in_a_run(const std::string& root) {
  Rules rules = rules_of(root, {.as_before = true});
  const std::vector<Record> newest = newest_records(root + "/reports").records;
  rules.available = available_in(newest);
  add_machines(newest, rules.measured);
  return rules;
}

}  // namespace recapture

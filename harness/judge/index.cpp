#include "harness/judge/index.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_set>

#include "harness/record/file.h"
#include "harness/record/visible.h"

namespace recapture {
namespace {

// Runs that were broken on purpose are a kind of their own.
std::string kind_of(const Json& environment) {
  return kind_of_machine(environment) + "|" + text_at(environment, "break");
}

struct Head {
  std::string path, started;
};

// Its second line, if that is the plan, as every run and merge writes it.
std::string plan_line(const std::string& path) {
  const std::string lines = first_lines_of(path, 2), second = lines.substr(lines.find('\n') + 1);
  return second.rfind(R"({"plan")", 0) == 0 ? second : "";
}

// Reads those of one kind of machine that count, from the newest on.
void take_newest(std::vector<Head> heads, Newest& newest) {
  std::stable_sort(heads.begin(), heads.end(), [](const Head& a, const Head& b) { return a.started > b.started; });
  std::unordered_set<std::string> known;     // Tests that a newer record has a line of.
  std::set<std::string> plans_without_news;  // Nightly runs have the same plan again and again.
  for (const Head& head : heads) {
    const std::string line = plan_line(head.path);
    if (plans_without_news.count(line) != 0) {
      ++newest.left_out;
      continue;
    }
    const Json plan = try_parse_json(line).value_or(Json());
    const auto has_it = [&](const Json& test) { return test.is_string() && known.count(test.get<std::string>()) != 0; };
    const bool nothing_new = plan.is_object() && plan.at("plan").is_array() &&
                             std::all_of(plan.at("plan").begin(), plan.at("plan").end(), has_it);
    if (nothing_new && !known.empty()) {
      plans_without_news.insert(line);
      ++newest.left_out;
      continue;
    }
    newest.records.push_back(read_record(head.path));
    for (const TestRecord& test : newest.records.back().tests) known.insert(test.id());
  }
}

}  // namespace

Json environment_of(const std::string& path) {  // read_record() finds the words for what is no record.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return read_record(path).environment;
  const auto environment = try_parse_json(first_lines_of(path, 1));
  const bool is_one = environment && environment->is_object() && int_at(*environment, "recapture") &&
                      (!environment->contains("packed") || environment->at("packed").is_boolean());
  return is_one ? *environment : read_record(path).environment;
}

std::string started(const Json& environment) {
  const auto found = environment.find("volatile");
  return found != environment.end() && found->is_object() ? visible(text_at(*found, "started")) : "";
}

void sort_by_time(std::vector<Record>& records) {
  // Machines stay where their first record stands: a folder that is sorted by path is a folder sorted by release.
  const auto machine = [](const Record& record) { return record.machine() + "|" + record.where("break"); };
  std::map<std::string, std::string> first;
  for (const Record& record : records) {
    const auto at = first.emplace(machine(record), record.path).first;
    at->second = std::min(at->second, record.path);
  }
  std::stable_sort(records.begin(), records.end(), [&](const Record& a, const Record& b) {
    return std::tuple(first.at(machine(a)), started(a.environment), a.path) <
           std::tuple(first.at(machine(b)), started(b.environment), b.path);
  });
}

Newest newest_records(const std::string& folder) {
  std::map<std::string, std::vector<Head>> kinds;
  auto paths = records_below(folder);
  std::reverse(paths.begin(), paths.end());  // Without dates the last in the folder is the newest.
  for (const std::string& path : paths) {
    const Json environment = environment_of(path);
    kinds[kind_of(environment)].push_back({path, started(environment)});
  }
  Newest newest;
  for (auto& [kind, heads] : kinds) take_newest(std::move(heads), newest);
  sort_by_time(newest.records);
  return newest;
}

Newest all_records(const std::string& folder) {
  Newest all{read_records_below(folder), 0};
  sort_by_time(all.records);
  return all;
}

}  // namespace recapture

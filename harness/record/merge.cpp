#include "harness/record/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/base/exit.h"
#include "harness/base/text.h"
#include "harness/model/record.h"
#include "harness/record/writer.h"

namespace recapture {
namespace {

ExitError refusal(const Record& part, const std::string& why) { return {Exit::Usage, part.path + ": " + why}; }

// Index and number of the shard, from the record.
std::pair<int, int> shard_of(const Record& part) {
  const std::string text = part.env("shard");
  const char* const end = text.data() + text.size();
  int index = 0, of = 0;
  const auto first = std::from_chars(text.data(), end, index);
  const bool has_slash = first.ec == std::errc() && first.ptr != end && *first.ptr == '/';
  const auto second = has_slash ? std::from_chars(first.ptr + 1, end, of) : first;
  if (!has_slash || second.ec != std::errc() || second.ptr != end || index < 1 || of < index) {
    throw refusal(part, "it is not a shard of a run");
  }
  return {index, of};
}

// The shard's machine: any of the same kind, and any of its GPUs.
constexpr std::array kPlaces = {"host", "gpu_id"};
constexpr std::array kPlaceVariables = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"};

std::string variable_in(const Json& environment, const char* name) {
  const Json* variables = member(environment, "variables");
  return variables == nullptr ? "" : text_at(*variables, name);
}

void erase_variable(Json& environment, const char* name) {
  const auto variables = environment.find("variables");
  if (variables != environment.end() && variables->is_object()) variables->erase(name);
}

// What all shards of one run have in common.
Json identity(const Record& part) {
  Json environment = part.environment.json();
  for (const char* own : {"volatile", "shard"}) environment.erase(own);
  for (const char* own : kPlaces) environment.erase(own);
  for (const char* own : kPlaceVariables) erase_variable(environment, own);
  return environment;
}

void require_same_run(const Record& part, const Record& first) {
  if (const auto names = differences(identity(part), identity(first)); !names.empty()) {
    throw refusal(part,
                  fmt::format("its environment is not that of {}: it differs in {}; only shards of one run can be "
                              "merged",
                              first.path, fmt::join(names, ", ")));
  }
  if (shard_of(part).second != shard_of(first).second) {
    throw refusal(part,
                  fmt::format("it is shard {}, and {} is shard {}", part.env("shard"), first.path, first.env("shard")));
  }
  if (part.whole_plan != first.whole_plan) {
    throw refusal(part, fmt::format("the run that it is a shard of had another plan than that of {}", first.path));
  }
}

// The common environment of all parts; "volatile" has when each ran, what ran in parallel, and where, if that differs.
Json environment_of_all(const std::vector<Record>& parts) {
  const Record& first = parts.front();
  const auto all = [&](const auto& is_same) { return std::ranges::all_of(parts, is_same); };
  Json environment = first.environment.json();
  environment.erase("shard");
  for (const char* place : kPlaces) {
    if (!all([&](const Record& part) { return part.env(place) == first.env(place); })) environment.erase(place);
  }
  for (const char* name : kPlaceVariables) {
    const std::string value = variable_in(environment, name);
    if (!all([&](const Record& part) { return variable_in(part.environment.json(), name) == value; })) {
      erase_variable(environment, name);
    }
  }
  for (const Record& part : parts) {
    Json own = part.environment.json().value("volatile", Json::object());
    for (const char* place : kPlaces) {
      if (!environment.contains(place) && part.environment.json().contains(place)) own[place] = part.env(place);
    }
    for (const char* name : kPlaceVariables) {
      const std::string value = variable_in(part.environment.json(), name);
      if (value != variable_in(environment, name)) own[name] = value;
    }
    environment["volatile"]["shards"].push_back(std::move(own));
  }
  return environment;
}

class Merger {
 public:
  explicit Merger(std::vector<Record> parts) : parts_(std::move(parts)) {
    for (const Record& part : parts_) take(part);
    take_plan(parts_.front().whole_plan, shard_of(parts_.front()).second);
  }

  void write(const std::string& out) {
    const auto by_case = [](const std::string& a, const std::string& b) { return case_of(a) < case_of(b); };
    std::ranges::stable_sort(plan_, by_case);
    std::vector<TestRecord> tests = whole_.tests;
    std::ranges::stable_sort(tests, [&](const TestRecord& a, const TestRecord& b) { return by_case(a.id(), b.id()); });
    RecordWriter writer = RecordWriter::create(out, "merge makes a new record, so name another");
    writer.write(environment_of_all(parts_));
    writer.write({{"plan", plan_}});
    std::string previous;
    for (const TestRecord& test : tests) {
      if (test.case_id() != previous) writer.write(whole_.cases.at(previous = test.case_id()).to_json());
      writer.write(test.json());
      for (const TestRecord& again : whole_.confirmations[test.id()]) writer.write(again.json());
    }
    writer.write({{"end", missing_.empty() ? "complete" : join(missing_, "; ")}});
  }

  // A sentence each.
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  void take(const Record& part) {
    require_same_run(part, parts_.front());
    if (const auto [at, is_new] = shards_.emplace(shard_of(part).first, part.path); !is_new) {
      throw refusal(part, fmt::format("it is shard {}, and so is {}", part.env("shard"), at->second));
    }
    for (const std::string& test : part.plan) {
      if (!planned_.insert(test).second) throw refusal(part, test + " is in another of the records too");
      plan_.push_back(test);
    }
    for (const TestRecord& test : part.tests) {
      if (whole_.find(test.id()) != nullptr) throw refusal(part, test.id() + " is in another of the records too");
      whole_.add(test);
    }
    for (const auto& [id, info] : part.cases) {
      if (!whole_.cases.emplace(id, info).second) throw refusal(part, id + " is in another of the records too");
    }
    whole_.confirmations.insert(part.confirmations.begin(), part.confirmations.end());
    if (part.end != "complete") {
      missing_.push_back(fmt::format("shard {} did not come to its end{}", part.env("shard"),
                                     part.end.empty() ? "" : ": " + part.end));
      return;
    }
    const auto lost =
        std::ranges::find_if(part.plan, [&](const std::string& test) { return part.find(test) == nullptr; });
    if (lost != part.plan.end()) {
      missing_.push_back(fmt::format("shard {} is called complete, and {} has not run", part.env("shard"), *lost));
    }
  }

  // The plan of all shards, which each of them has: tests of a lost shard are not run, rather than removed. If there
  // are more shards than cases, some have nothing to run and write no record.
  void take_plan(const std::vector<std::string>& all, int shards) {
    const auto is_planned = [&](const std::string& test) { return planned_.count(test) != 0; };
    const bool is_covered = !all.empty() && std::ranges::all_of(all, is_planned);
    for (int shard = 1; shard <= shards && !is_covered; ++shard) {
      if (shards_.count(shard) == 0) missing_.push_back(fmt::format("shard {}/{} is missing", shard, shards));
    }
    if (!all.empty()) plan_ = all;
    if (plan_.empty()) missing_.emplace_back("no shard has a plan, so what should have run is not known");
    if (!missing_.empty()) return;
    // All shards are present, but none planned this test.
    const auto lost = std::ranges::find_if_not(plan_, is_planned);
    if (lost != plan_.end()) missing_.push_back(*lost + " is in no shard's plan");
  }

  std::vector<Record> parts_;
  Record whole_;  // Its tests, cases and confirmations.
  std::vector<std::string> plan_, missing_;
  std::set<std::string> planned_;
  std::map<int, std::string> shards_;  // Their paths.
};

}  // namespace

std::vector<std::string> merge_records(const std::vector<std::string>& parts, const std::string& out) {
  std::vector<Record> records;
  records.reserve(parts.size());
  for (const std::string& path : parts) records.push_back(read_record(path));
  Merger merger(std::move(records));
  merger.write(out);
  return merger.missing();
}

}  // namespace recapture

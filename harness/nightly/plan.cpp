#include "harness/nightly/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/letter_case.h"
#include "harness/base/shard.h"
#include "harness/base/text.h"
#include "harness/base/toml.h"
#include "harness/model/gpu.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"

namespace recapture::nightly {
namespace {

std::string matrix_path(const std::string& root) { return root + "/ci/matrix.toml"; }

ExitError wrong(const std::string& place, const std::string& what) {
  return {Exit::Usage, escape_control(place) + ": " + what};
}

void require_gpu_name(const std::string& gpu, const std::string& place) {
  const auto is_of_a_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == ' ' || c == '-' || c == '.'; };
  if (gpu.empty() || !std::ranges::all_of(gpu, is_of_a_name)) {
    throw wrong(place, fmt::format("'{}' is not part of a GPU's name", escape_control(gpu)));
  }
}

// The table of a tier.
const toml::table& tier_table(const toml::table& matrix, const std::string& name, const std::string& path) {
  const toml::table* tiers = matrix["tier"].as_table();
  const toml::table* tier = tiers == nullptr ? nullptr : (*tiers)[name].as_table();
  if (tier != nullptr) return *tier;
  std::vector<std::string> known;
  if (tiers != nullptr) {
    for (const auto& [key, value] : *tiers) known.emplace_back(key.str());
  }
  throw ExitError(Exit::Usage, unknown_name("tier", name, known,
                                            known.empty() ? path + " has none; [tier.NAME] is one"
                                                          : fmt::format("{} has {}", path, fmt::join(known, ", "))));
}

}  // namespace

std::string NightTask::label() const {
  std::string label = lower_case(gpu);
  std::replace(label.begin(), label.end(), ' ', '-');
  return label;
}

std::string NightTask::shard_words() const { return fmt::format("{}/{}", shard, of); }
std::string NightTask::name() const { return fmt::format("{}-{}-{}of{}", release, label(), shard, of); }

std::vector<std::string> NightTask::options() const {
  std::vector<std::string> words = {"--continue", "--release", release};
  if (of > 1) words.insert(words.end(), {"--shard", shard_words()});
  if (!GpuFilter(gpu).is_none()) words.insert(words.end(), {"--require", "gpu"});
  return words;
}

bool NightTask::is_of(const Environment& environment) const {
  return GpuFilter(gpu).covers(environment.machine.gpu) && environment.name_in_matrix() == release &&
         environment.shard == shard_words() && environment.broken == Break::Nothing && environment.machine.is_plain();
}

NightPlan Tier::plan() const {
  NightPlan plan;
  for (const std::string& release : releases) {
    for (const auto& [gpu, code] : gpus) {
      for (int shard = 1; shard <= shards; ++shard) plan.push_back({release, gpu, shard, shards, code});
    }
  }
  return plan;
}

Tier read_tier(const std::string& root, const std::string& name) {
  const std::string path = matrix_path(root);
  const std::vector<std::string> all = read_matrix(root);
  const toml::table matrix = parse_toml(path);
  const toml::table& table = tier_table(matrix, name, path);
  const std::string place = recapture::place_of(path, table);
  only_keys(table, {"releases", "gpus", "shards", "days"}, place);
  Tier tier{texts_in(table, "releases", place), {}, 1};
  if (tier.releases.empty()) tier.releases = all;
  std::vector<std::string> known = all;
  for (std::string& build : read_builds(root)) known.push_back(std::move(build));
  for (const std::string& release : tier.releases) {
    if (!contains(known, release)) {
      throw wrong(place,
                  unknown_name("release", release, known, fmt::format("this file has {}", fmt::join(known, ", "))));
    }
  }
  if (const toml::table* gpus = table["gpus"].as_table()) {
    for (const auto& [gpu, code] : *gpus) {
      const std::string name(gpu.str());
      require_gpu_name(name, place);
      tier.gpus[name] = text_in(*gpus, name.c_str(), place);
    }
  }
  if (tier.gpus.empty()) throw wrong(place, "'gpus' names none, such as { H200 = \"sm_90\" }");
  if (table.contains("shards")) {
    const auto shards = table["shards"].value_exact<int64_t>();
    if (!shards || *shards < 1 || *shards > kMostShards) {
      throw wrong(place, fmt::format("'shards' is a number from 1 to {}", kMostShards));
    }
    tier.shards = static_cast<int>(*shards);
  }
  if (table.contains("days")) {
    constexpr int64_t kMostDays = 31;
    const auto days = table["days"].value_exact<int64_t>();
    if (!days || *days < 1 || *days > kMostDays) {
      throw wrong(place, fmt::format("'days' is a number from 1 to {}", kMostDays));
    }
    tier.days = static_cast<int>(*days);
  }
  plan_from(render_json(tier.plan()), place);  // Throws for two equal tasks.
  return tier;
}

int period_of_nights(const std::string& root) {
  if (!std::filesystem::exists(matrix_path(root))) return 0;
  const toml::table matrix = parse_toml(matrix_path(root));
  return matrix["tier"]["night"].is_table() ? read_tier(root, "night").days : 0;
}

Json render_json(const NightPlan& plan) {
  Json all = Json::array();
  for (const NightTask& task : plan) {
    Json command = {"build/recapture", "run"};
    for (const std::string& option : task.options()) command.push_back(option);
    const std::string record = task.name() + ".jsonl";
    command.push_back("--record");
    command.push_back(record);
    all.push_back({{"task", all.size() + 1},
                   {"release", task.release},
                   {"gpu", task.gpu},
                   {"label", task.label()},
                   {"shard", task.shard_words()},
                   {"record", record},
                   {"command", command}});
    if (!task.code.empty()) all.back()["code"] = task.code;
  }
  return all;
}

NightPlan plan_from(const Json& json, const std::string& path) {
  if (!json.is_array() || json.empty())
    throw wrong(path, "not a plan of `recapture nightly plan`: it is not a list of tasks");
  NightPlan plan;
  std::set<std::string> known;
  for (const Json& one : json) {
    NightTask task;
    const auto place = fmt::format("{}: task {}", path, plan.size() + 1);
    if (!one.is_object()) throw wrong(place, "it is not an object");
    task.release = text_at(one, "release");
    task.gpu = text_at(one, "gpu");
    if (task.release.empty() || escape_control(task.release) != task.release ||
        task.release.find('/') != std::string::npos) {
      throw wrong(place, "it names no release");
    }
    require_gpu_name(task.gpu, place);
    const std::string shard = text_at(one, "shard");
    const auto read = shard_of(shard);
    if (!read) throw wrong(place, fmt::format("its shard is '{}', and not such as 1/2", escape_control(shard)));
    task.shard = read->index;
    task.of = read->of;
    if (!known.insert(task.name()).second) throw wrong(place, task.name() + " is in it twice");
    plan.push_back(std::move(task));
  }
  return plan;
}

NightPlan read_plan(const std::string& path) {
  const auto json = try_parse_json(contents_of(path));
  if (!json) throw wrong(path, "not a plan of `recapture nightly plan`: it is not JSON");
  return plan_from(*json, path);
}

}  // namespace recapture::nightly

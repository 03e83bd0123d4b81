#include "harness/nightly/nights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/model/release.h"
#include "harness/nightly/collect.h"
#include "harness/store/machine_runs.h"
#include "harness/store/select.h"

namespace recapture::nightly {
namespace fs = std::filesystem;
namespace {

// Assigns the lacks of a night's file to their tasks; the others remain flaws of the night.
void read_lacks(const Json& json, Night& night) {
  std::vector<std::string> lacks;
  for (const Json& lack : json.at("lacks"))
    lacks.push_back(lack.is_string() ? escape_control(lack.get<std::string>()) : "");
  std::set<size_t> of_tasks;
  for (const Json& one : json.value("lacking", Json::array())) {
    const int index = one.is_object() ? int_at(one, "lack").value_or(-1) : -1;
    const auto task = std::ranges::find_if(night.plan, [&](const NightTask& each) {
      return one.is_object() && each.release == text_at(one, "release") && each.gpu == text_at(one, "gpu") &&
             each.shard_words() == text_at(one, "shard");
    });
    if (index < 0 || static_cast<size_t>(index) >= lacks.size() || task == night.plan.end()) continue;
    const auto lack = static_cast<size_t>(index);
    of_tasks.insert(lack);
    night.lacking.push_back({*task, text_at(one, "state") == kIncomplete, lacks[lack]});
  }
  for (size_t i = 0; i < lacks.size(); ++i) {
    if (of_tasks.count(i) == 0) night.flaws.push_back(lacks[i]);
  }
}

Night night_in(const fs::path& folder, const std::string& nights) {
  const std::string path = (folder / kNightFile).string();
  const auto json = try_parse_json(contents_of(path));
  const auto is_list = [&](const char* key) { return json->contains(key) && json->at(key).is_array(); };
  if (!json || !json->is_object() || !json->contains("night") || !is_list("lacks") || !is_list("plan")) {
    throw ExitError(Exit::Usage, escape_control(path) + ": not what `recapture nightly collect` writes");
  }
  const fs::path relative = folder.lexically_relative(nights);
  Night night;
  night.path = folder.string();
  night.name = relative.empty() || relative == "." ? "tonight" : escape_control(relative.begin()->string());
  night.started = text_at(*json, "started");
  night.collected = text_at(*json, "collected");
  night.plan = plan_from(json->at("plan"), escape_control(path));
  read_lacks(*json, night);
  for (const Json& path : json->value("further", Json::array())) {
    if (path.is_string()) night.further.push_back(path.get<std::string>());
  }
  return night;
}

// The night that a killed gather() was writing or replacing in this folder; "" for any other folder.
std::string night_behind(const fs::path& folder) {
  const std::string extension = folder.extension().string();
  return extension == kPartial || extension == kBefore ? (folder.parent_path() / folder.stem()).string() : "";
}

// Oldest first.
Nights all_nights(const std::string& folder) {
  Nights all;
  std::map<std::string, std::string> lost;
  std::error_code error;
  const auto skip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(folder, skip, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    std::error_code about;
    if (!at->is_directory(about)) {
      if (path.filename() == kNightFile) all.nights.push_back(night_in(path.parent_path(), folder));
    } else if (const std::string night = night_behind(path); !night.empty()) {
      at.disable_recursion_pending();
      if (!fs::exists(fs::path(night) / kNightFile, about)) lost[night] = path.string();
    } else if (!fs::is_empty(path, about) && about) {
      all.flaws.push_back(fmt::format("{}: cannot read it: {}", escape_control(path.string()), about.message()));
    }
  }
  if (error) all.flaws.push_back(fmt::format("{}: cannot read all of it: {}", escape_control(folder), error.message()));
  for (const auto& [night, left] : lost) {
    all.flaws.push_back(
        fmt::format("{} is not there: `recapture nightly collect` was ended while it made it, and {} is left; "
                    "collect it again, or remove what is left",
                    escape_control(night), escape_control(left)));
  }
  if (all.nights.empty()) {
    throw ExitError(Exit::NothingRan, fmt::format("no collected night below {}{}{}", escape_control(folder),
                                                  all.flaws.empty() ? "" : ": ", fmt::join(all.flaws, "; ")));
  }
  std::ranges::sort(all.nights, [](const Night& a, const Night& b) {
    return std::tie(a.started, a.path) < std::tie(b.started, b.path);
  });
  return all;
}

// By its path, or by its name below the folder of all nights.
size_t index_of(const std::vector<Night>& nights, const std::string& folder, const std::string& choice) {
  if (choice.empty()) return nights.size() - 1;
  std::error_code error;
  const std::string below = folder + "/" + choice;
  const auto is_at = [&](const std::string& path) {
    return fs::equivalent(path, choice, error) || fs::equivalent(path, below, error);
  };
  std::vector<size_t> named;
  for (size_t i = 0; i < nights.size(); ++i) {
    if (is_at(nights[i].path)) return i;
    if (nights[i].name == choice || is_at(folder + "/" + nights[i].name)) named.push_back(i);
  }
  if (named.empty()) {
    throw ExitError(Exit::Usage, fmt::format("{} is not a collected night below {}; the newest is {}",
                                             escape_control(choice), escape_control(folder), nights.back().name));
  }
  if (named.size() > 1) {
    throw ExitError(Exit::Usage,
                    fmt::format("{} has more than one collected night; name {} or {}", escape_control(choice),
                                escape_control(nights[named[0]].path), escape_control(nights[named[1]].path)));
  }
  return named.front();
}

// Of this night alone, or of it and another one whose order is not that in which they were collected; "" where there is
// none.
std::string disorder(const std::vector<Night>& nights, const Night& tonight) {
  if (!tonight.collected.empty() && tonight.collected < tonight.started) {
    return fmt::format(
        "{} was collected at {}, and its runs began at {} by the clocks of their machines; set the clock that is "
        "wrong, and remove the night",
        tonight.name, escape_control(tonight.collected), escape_control(tonight.started));
  }
  for (const Night& other : nights) {
    const auto& [first, second] = other.started < tonight.started ? std::tie(other, tonight) : std::tie(tonight, other);
    const bool is_known = first.started < second.started && !second.collected.empty();
    if (!is_known || first.collected <= second.collected) continue;
    return fmt::format(
        "{} was collected after {}, and its runs began before it by the clocks of their machines; nights are compared "
        "in the order in which they began, so set the clock that is wrong, and remove the night that has it",
        first.name, second.name);
  }
  return "";
}

// Those below a folder; none if it cannot be read, which is said elsewhere.
std::vector<std::string> readable_records(const std::string& folder) {
  try {
    return records_below(folder);
  } catch (const ExitError&) {
    return {};
  }
}

// Folders of nights that have records and were not collected, or have lost their file; of an earlier night that is
// chosen, only those whose records are older.
void add_uncollected(Nights& all, const std::string& folder, const std::string& before) {
  std::error_code error;
  if (fs::exists(fs::path(folder) / kNightFile, error)) return;  // It is a night itself.
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    if (!entry.is_directory(error) || !night_behind(path).empty()) continue;
    const auto is_below = [&](const Night& night) {
      const std::string relative = fs::path(night.path).lexically_relative(path).string();
      return !relative.empty() && !relative.starts_with("..");
    };
    if (std::ranges::any_of(all.nights, is_below)) continue;
    std::string oldest;
    for (const std::string& record : readable_records(path.string())) {
      try {
        const std::string started = environment_of(record).started;
        if (oldest.empty() || started < oldest) oldest = started;
      } catch (const ExitError&) {  // Not a record, or a damaged one.
        if (oldest.empty()) oldest = " ";
      }
    }
    if (oldest.empty() || (!before.empty() && oldest > before)) continue;
    all.flaws.push_back(fmt::format("{} has records and no night.json; collect it again, or remove it",
                                    escape_control(path.filename().string())));
  }
}

std::vector<JudgedRun> judged(std::vector<Record> records, const compare::CompareContext& background) {
  std::vector<JudgedRun> runs;
  for (Record& record : records) runs.push_back(compare::judge_without_staleness(std::move(record), background));
  sort_newest_first(runs);
  return runs;
}

}  // namespace

Nights read_nights(const std::string& folder, const std::string& choice) {
  Nights all = all_nights(folder);
  const size_t chosen = index_of(all.nights, folder, choice);
  if (std::string wrong = disorder(all.nights, all.nights[chosen]); !wrong.empty()) {
    all.flaws.push_back(std::move(wrong));
  }
  all.is_newest = chosen + 1 == all.nights.size();
  add_uncollected(all, folder, choice.empty() ? "" : all.nights[chosen].started);
  all.nights.resize(chosen + 1);
  return all;
}

MachineKind place_of(const Environment& environment) {
  return {Release(Release(environment.name_in_matrix()).without_nightly_date()), environment.machine.place()};
}

bool is_of_place(const NightTask& task, const Environment& environment) {
  const NightTask all_shards{Release(task.release).without_nightly_date(), task.gpu, 1, 1};
  return all_shards.is_of(
      environment.with("release", environment.release.without_nightly_date()).with("shard", all_shards.shard_words()));
}

bool is_planned(const NightPlan& plan, const Environment& environment) {
  return std::ranges::any_of(plan, [&](const NightTask& task) { return is_of_place(task, environment); });
}

RunsByPlace read_runs(const std::string& folder, const compare::CompareContext& background) {
  std::map<MachineKind, std::vector<Record>> records;
  for (Record& record : read_records_below(folder)) {
    if (record.broken() == Break::Nothing) records[place_of(record.environment)].push_back(std::move(record));
  }
  RunsByPlace runs;
  for (auto& [key, some] : records) runs[key] = judged(std::move(some), background);
  return runs;
}

std::vector<JudgedRun> read_runs(const std::string& folder, const MachineKind& place,
                                 const compare::CompareContext& background) {
  std::vector<Record> records;
  for (const std::string& path : records_below(folder)) {
    if (place_of(environment_of(path)) != place) continue;
    Record record = read_record(path);
    if (record.broken() == Break::Nothing) records.push_back(std::move(record));
  }
  return judged(std::move(records), background);
}

}  // namespace recapture::nightly

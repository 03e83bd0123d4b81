#include "harness/model/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/letter_case.h"

namespace recapture {
namespace {

MachineId read_machine(const Json& json) {
  MachineId id;
  id.gpu = text_at(json, "gpu");
  id.driver = text_at(json, "driver");
  id.runtime = text_at(json, "cuda_runtime");
  if (const std::string processor = text_at(json, "architecture"); processor != "x86_64") id.processor = processor;
  const auto packed = json.find("packed");
  id.packed = packed != json.end() && packed->is_boolean() && packed->get<bool>();
  if (const auto env = json.find("env"); env != json.end() && env->is_object()) {
    for (const auto& [name, value] : env->items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      id.variables += fmt::format("{}{}={}", id.variables.empty() ? "" : ", ", name, text);
    }
  }
  for (const OverridableLibrary& library : kOverridableLibraries) {
    if (json.contains(std::string(library.key) + "_by")) id.overrides[library.key] = text_at(json, library.key);
  }
  return id;
}

// "acme" of a build that its user gave this name; "git0123abc" of one that has a release's version and was not built
// from the release's commit. A build with a version of its own needs none.
std::string label_in(const Json& json, const std::string& release) {
  if (std::string label = text_at(json, "label"); is_label(label)) return label;
  const std::string git = lower_case(text_at(json, "libtorch_git")), own = git_of_release(without_local(release));
  constexpr size_t kDigits = 7;  // As PyTorch's own builds from source have them.
  if (git.size() < kDigits || own.empty() || git.starts_with(own)) return "";
  const std::string label = "git" + git.substr(0, kDigits);
  const bool has_it = release.ends_with("+" + label);  // It was written with it.
  return is_label(label) && (has_it || release.find('+') == std::string::npos) ? label : "";
}

std::vector<std::string> read_run_ids(const Json& changing) {
  std::vector<std::string> ids;
  const auto add = [&](const Json& run) {
    if (std::string id = text_at(run, "run"); !id.empty()) ids.push_back(std::move(id));
  };
  if (const auto shards = changing.find("shards"); shards != changing.end() && shards->is_array()) {
    std::ranges::for_each(*shards, add);
  } else {
    add(changing);
  }
  return ids;
}

}  // namespace

Environment::Environment(Json json) : json_(std::move(json)) {
  if (!json_.is_object()) return;
  format = int_at(json_, "recapture").value_or(1);
  read_release();
  shard = text_at(json_, "shard");
  machine = read_machine(json_);
  architecture = Architecture(text_at(json_, "compute_capability"));
  kind = kind_of_machine(release, machine);
  broken = break_of(text_at(json_, "break")).value_or(Break::Nothing);
  gpus = int_at(json_, "gpus").value_or(0);
  const auto changing = json_.find("volatile");
  if (changing == json_.end() || !changing->is_object()) return;
  started = escape_control(text_at(*changing, "started"));
  run_ids = read_run_ids(*changing);
}

void Environment::read_release() {
  std::string name = text_at(json_, "release");
  own_release_ = name;
  build = text_at(json_, "build");
  if (const std::string label = label_in(json_, name); !label.empty() && is_version(name)) {
    const std::string end = label.size() < name.size() ? name.substr(name.size() - label.size() - 1) : "";
    const bool has_plus = name.find('+') < name.size() - end.size();  // 2.15.0 is none with the label 0.
    if (end == "+" + label || (end == "." + label && has_plus)) {     // It was written with it.
      own_release_ = name.substr(0, name.size() - end.size());
    } else {
      name = with_label(name, label);
      json_["release"] = name;
    }
  }
  release = Release(std::move(name));
}

Environment Environment::with(const std::string& key, Json value) const {
  Json json = json_;
  json[key] = std::move(value);
  return json;
}

bool stands_in(const Environment& without_gpu, const Environment& machine) {
  const MachineId &host = without_gpu.machine, &other = machine.machine;
  if (!host.gpu.empty() || other.gpu.empty() || without_gpu.release != machine.release) return false;
  return host.variables == other.variables && host.processor == other.processor && host.overrides.empty() &&
         other.overrides.empty();
}

std::set<std::string> differences(const Environment& one, const Environment& other) {
  std::set<std::string> names;
  for (const auto& [a, b] : {std::pair(&one.json(), &other.json()), {&other.json(), &one.json()}}) {
    for (const auto& [key, value] : a->items()) {
      if (key == "volatile") continue;
      const Json its = b->value(key, Json());
      if (value == its) continue;
      const bool has_variables =
          (key == "variables" || key == "env") && value.is_object() && (its.is_object() || its.is_null());
      if (!has_variables) {
        names.insert(escape_control(key));
        continue;
      }
      for (const auto& [name, text] : value.items()) {
        if (its.is_null() || its.value(name, Json()) != text)
          names.insert((key == "env" ? "--env " : "") + escape_control(name));
      }
    }
  }
  return names;
}

std::string report_path(const Environment& environment) {
  std::string release = environment.release.name();
  for (char& c : release) c = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ? c : '-';
  const std::string broken =
      environment.broken == Break::Nothing ? "" : "." + std::string(to_string(environment.broken));
  return fmt::format("{}/{}{}.jsonl", release, file_name(environment.machine), broken);
}

bool is_report_path(const std::string& name, const Environment& environment) {
  constexpr std::string_view kPacked = ".gz";
  const bool packed =
      name.size() > kPacked.size() && name.compare(name.size() - kPacked.size(), kPacked.size(), kPacked) == 0;
  const std::string path = packed ? name.substr(0, name.size() - kPacked.size()) : name;
  const std::string first = report_path(environment),
                    stem = first.substr(0, first.size() - std::string(".jsonl").size());
  if (path == first) return true;
  int number = 0;
  const std::string pattern = stem + ".run-";
  if (path.rfind(pattern, 0) != 0) return false;
  const std::string rest = path.substr(pattern.size());
  return std::sscanf(rest.c_str(), "%3d", &number) == 1 && number > 1 && rest == fmt::format("{}.jsonl", number);
}

}  // namespace recapture

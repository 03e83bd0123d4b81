#include "harness/expectations.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <set>

#include "harness/record.h"
#include "harness/verdict.h"

namespace recapture {
namespace {

std::array<int, 3> numbers(const std::string& version) {
  std::array<int, 3> parts{};
  if (std::sscanf(version.c_str(), "%d.%d.%d", parts.data(), &parts[1], &parts[2]) < 1) {
    throw Stop(Exit::Usage, "'" + version + "' is not a version such as 2.11.0");
  }
  return parts;
}

toml::table parse(const std::string& path) {
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& e) {
    throw Stop(Exit::Usage, fmt::format("{}:{}: {}", path, e.source().begin.line, e.description()));
  }
}

Expectation expectation_from(const toml::table& entry, const std::string& place) {
  static const std::set<std::string> kKeys = {"test", "release", "gpu", "result", "seen", "why", "source", "records"};
  for (const auto& [key, value] : entry) {
    if (kKeys.count(std::string(key.str())) == 0) {
      throw Stop(Exit::Usage, fmt::format("{}: unknown key '{}'", place, key.str()));
    }
  }
  const auto text = [&](const char* key, bool required) {
    const auto value = entry[key].value<std::string>();
    if (required && (!value || value->empty())) throw Stop(Exit::Usage, fmt::format("{}: needs '{}'", place, key));
    return value.value_or("");
  };
  Expectation e;
  e.place = place;
  e.test = text("test", true);
  e.release = text("release", true);
  e.gpu = text("gpu", false);
  e.result = text("result", true);
  const auto result = result_from(e.result);
  if (!result) throw Stop(Exit::Usage, fmt::format("{}: '{}' is not a result", place, e.result));
  e.seen = text("seen", *result == Result::Different);
  e.why = text("why", true);
  e.source = text("source", true);
  if (const auto* records = entry["records"].as_array()) {
    for (const auto& record : *records) e.records.push_back(record.value_or(std::string()));
  }
  if (e.records.empty()) throw Stop(Exit::Usage, place + ": needs 'records', the reports that show it");
  satisfies("2.0.0", e.release);  // Throws if it cannot be read.
  return e;
}

}  // namespace

bool older(const std::string& a, const std::string& b) { return numbers(a) < numbers(b); }

bool satisfies(const std::string& version, const std::string& range) {
  bool all = true;
  for (size_t at = 0; at < range.size();) {
    size_t end = std::min(range.find(',', at), range.size());
    std::string part = range.substr(at, end - at);
    part.erase(std::remove(part.begin(), part.end(), ' '), part.end());
    const size_t digits = part.find_first_of("0123456789");
    const std::string sign = part.substr(0, digits);
    if (digits == std::string::npos) throw Stop(Exit::Usage, "'" + range + "' is not a range such as >=2.8, <2.13");
    const std::string bound = part.substr(digits);
    if (sign == "<") {
      all = all && older(version, bound);
    } else if (sign == "<=") {
      all = all && !older(bound, version);
    } else if (sign == ">") {
      all = all && older(bound, version);
    } else if (sign == ">=") {
      all = all && !older(version, bound);
    } else if (sign == "==") {
      all = all && numbers(version) == numbers(bound);
    } else {
      throw Stop(Exit::Usage, "'" + range + "' is not a range such as >=2.8, <2.13");
    }
    at = end + 1;
  }
  return all;
}

bool Expectation::applies(const std::string& release_version, const std::string& gpu_name) const {
  return satisfies(release_version, release) && (gpu.empty() || gpu_name.find(gpu) != std::string::npos);
}

std::vector<Release> read_matrix(const std::string& root) {
  const std::string path = root + "/ci/matrix.toml";
  if (!std::filesystem::exists(path))
    throw Stop(Exit::Usage, path + " is not there; --root names Recapture's own tree");
  const toml::table matrix = parse(path);
  std::vector<Release> releases;
  if (const auto* list = matrix["release"].as_array()) {
    for (const auto& entry : *list) {
      const auto* table = entry.as_table();
      if (table == nullptr) continue;
      releases.push_back({(*table)["version"].value_or(std::string())});
    }
  }
  if (releases.empty()) throw Stop(Exit::Usage, path + ": lists no release");
  return releases;
}

std::vector<Expectation> read_expectations(const std::string& root) {
  std::vector<Expectation> all;
  std::vector<std::string> files;
  if (std::filesystem::is_directory(root + "/cases")) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root + "/cases")) {
      if (entry.path().filename() == "expectations.toml") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  for (const std::string& path : files) {
    const toml::table file = parse(path);
    const auto* list = file["expect"].as_array();
    if (list == nullptr) continue;
    for (const auto& entry : *list) {
      const std::string place = fmt::format("{}:{}", path, entry.source().begin.line);
      const auto* table = entry.as_table();
      if (table == nullptr) throw Stop(Exit::Usage, place + ": not a table; write [[expect]]");
      all.push_back(expectation_from(*table, place));
    }
  }
  return all;
}

const Expectation* find_expectation(const std::vector<Expectation>& all, const std::string& test,
                                    const std::string& release, const std::string& gpu) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Expectation& e) { return e.test == test && e.applies(release, gpu); });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace recapture

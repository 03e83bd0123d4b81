#include "harness/judge/version.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>

#include "harness/judge/toml.h"
#include "harness/record/exit.h"

namespace recapture {
namespace {

std::array<int, 3> numbers(const std::string& version) {
  std::array<int, 3> parts{};
  if (std::sscanf(version.c_str(), "%d.%d.%d", parts.data(), &parts[1], &parts[2]) < 1) {
    throw Stop(Exit::Usage, "'" + version + "' is not a version such as 2.11.0");
  }
  return parts;
}

}  // namespace

bool older(const std::string& a, const std::string& b) { return numbers(a) < numbers(b); }

bool is_version(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
}

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

std::vector<std::string> read_matrix(const std::string& root) {
  const std::string path = root + "/ci/matrix.toml";
  if (!std::filesystem::exists(path)) {
    throw Stop(Exit::Usage, path + " is not there; --root names Recapture's own tree");
  }
  const toml::table matrix = parse_toml(path);
  std::vector<std::string> releases;
  if (const auto* list = matrix["release"].as_array()) {
    for (const auto& entry : *list) {
      if (const auto* table = entry.as_table()) releases.push_back((*table)["version"].value_or(std::string()));
    }
  }
  if (releases.empty()) throw Stop(Exit::Usage, path + ": lists no release");
  return releases;
}

}  // namespace recapture

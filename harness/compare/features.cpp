#include "harness/compare/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/json.h"
#include "harness/base/toml.h"
#include "harness/model/operator_cases.h"
#include "harness/model/operators.h"

namespace recapture::compare {
namespace {

constexpr std::array kUses = {Use::Used, Use::Assumed, Use::NotUsed};

Use use_in(const toml::table& table, std::string_view key, const std::string& path) {
  const std::string word = text_in(table, std::string(key).c_str(), path);
  const auto found = std::find_if(kUses.begin(), kUses.end(), [&](Use use) { return to_string(use) == word; });
  if (found == kUses.end()) {
    throw ExitError(Exit::Usage, fmt::format("{}: '{}' takes \"used\", \"assumed\" or \"not used\", not '{}'", path,
                                             key, escape_control(word)));
  }
  return *found;
}

}  // namespace

std::string_view to_string(Use use) { return use == Use::Used ? "used" : use == Use::Assumed ? "assumed" : "not used"; }

std::vector<const Feature*> Features::of(Use use) const {
  std::vector<const Feature*> found;
  for (const Feature& feature : all) {
    if (feature.use == use) found.push_back(&feature);
  }
  return found;
}

Features read_features(const std::string& path) {
  const toml::table file = parse_toml(path);
  only_keys(file, {"program", "torch", "captures", "modes", "operators", "features"}, path);
  const toml::table* uses = file["features"].as_table();
  if (uses == nullptr) {
    throw ExitError(Exit::Usage, path + ": it has no [features]; recapture blame --features FILE -- PROGRAM makes it");
  }
  Features features;
  features.program = file["program"].value_or(std::string());
  features.torch = file["torch"].value_or(std::string());
  features.captures = static_cast<size_t>(std::max<int64_t>(0, file["captures"].value_or<int64_t>(0)));
  features.modes = texts_in(file, "modes", path);
  features.operators = texts_in(file, "operators", path);
  std::set<const Tag*> tags;
  for (const auto& [key, value] : *uses) {
    const Tag* tag = tag_of(key.str());
    if (tag == nullptr || tag->name == kAnyProgram) {
      throw ExitError(Exit::Usage, fmt::format("{}: no feature is called '{}'; recapture list --features prints them",
                                               place_of(path, value), escape_control(std::string(key.str()))));
    }
    if (!tags.insert(tag).second) {
      throw ExitError(Exit::Usage, fmt::format("{}: '{}' is given twice, perhaps in another spelling",
                                               place_of(path, value), tag->name));
    }
  }
  for (const Tag& tag : kTags) {
    if (tag.name == kAnyProgram) continue;
    Feature feature{&tag, Use::Assumed, ""};
    for (const auto& [key, value] : *uses) {
      if (tag_of(key.str()) == &tag) feature = {&tag, use_in(*uses, key.str(), place_of(path, value)), ""};
    }
    features.all.push_back(std::move(feature));
  }
  return features;
}

std::set<std::string> cases_in_scope(const Features& features, const Catalogue& catalogue) {
  std::set<std::string_view> met = {kAnyProgram};
  for (const Feature& feature : features.all) {
    if (feature.use != Use::NotUsed) met.insert(feature.tag->name);
  }
  std::set<std::string> scope = {std::string(kOperatorsCase), std::string(kLaterCase)};
  for (const CatalogueCase& described : catalogue) {
    const bool is_of_any = std::find(described.tags.begin(), described.tags.end(), kAnyProgram) != described.tags.end();
    if (is_of_any || (!described.tags.empty() && met.count(described.tags.front()) != 0)) scope.insert(described.id);
  }
  return scope;
}

}  // namespace recapture::compare

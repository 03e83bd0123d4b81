#include "harness/report/features.h"

#include <fmt/format.h>

#include <vector>

#include "harness/base/escape.h"
#include "harness/base/text.h"

namespace recapture::report {
namespace {

using compare::Use;

std::string names_of(const compare::Features& features, Use use) {
  std::vector<std::string> names;
  for (const compare::Feature* feature : features.of(use)) names.emplace_back(feature->tag->name);
  return names.empty() ? "nothing" : join(names, ", ");
}

// "2 captures, mode global"
std::string captures_of(const compare::Features& features) {
  if (features.captures == 0) return "no capture was seen";
  return fmt::format("{} capture{}, mode {}", features.captures, features.captures == 1 ? "" : "s",
                     escape_control(join(features.modes, ", ")));
}

}  // namespace

std::string render_text(const compare::Features& features) {
  const std::string program = features.program.empty() ? "the program" : escape_control(features.program);
  std::string text = fmt::format("scope: what {} uses ({})\n", program, captures_of(features));
  for (const Use use : {Use::Used, Use::Assumed}) {
    for (const compare::Feature* feature : features.of(use)) {
      text += fmt::format("  {:<9} {}{}\n", to_string(use), feature->tag->name,
                          feature->how.empty() ? "" : ": " + escape_control(feature->how));
    }
  }
  return text + fmt::format("  {:<9} {}\n", to_string(Use::NotUsed), names_of(features, Use::NotUsed));
}

std::string render_markdown(const compare::Features& features) {
  return fmt::format("Scope ({}): used {}; assumed {}; not used {}.\n\n", captures_of(features),
                     names_of(features, Use::Used), names_of(features, Use::Assumed), names_of(features, Use::NotUsed));
}

Json render_json(const compare::Features& features) {
  Json all = Json::array();
  for (const compare::Feature& feature : features.all) {
    all.push_back({{"feature", feature.tag->name}, {"use", to_string(feature.use)}, {"how", feature.how}});
  }
  return {{"program", features.program}, {"torch", features.torch},         {"captures", features.captures},
          {"modes", features.modes},     {"operators", features.operators}, {"features", all}};
}

}  // namespace recapture::report

#include "harness/report/features.h"

#include <fmt/format.h>

#include <vector>

#include "harness/base/escape.h"
#include "harness/base/text.h"

namespace recapture::report {
namespace {

using compare::Use;

// JSON strings are valid TOML strings.
std::string quoted(const std::string& text) { return to_text(Json(text)); }

std::string quoted(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + quoted(text);
  return "[" + all + "]";
}

std::string how_words(const compare::Feature& feature) {
  const bool is_unknown = feature.use == Use::Assumed && feature.how.empty();
  return is_unknown ? "the file does not have it" : feature.how;
}

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

std::string render_toml(const compare::Features& features) {
  std::string text = fmt::format(
      "# What of CUDA graphs a program uses, as it was observed. Correct what is wrong; the values of a feature are "
      "\"used\",\n"
      "# \"assumed\" and \"not used\". What is used or assumed is the scope of\n"
      "#   recapture gate FROM TO --features FILE\n"
      "program = {}\ntorch = {}\ncaptures = {}\nmodes = {}\noperators = {}\n\n[features]\n",
      quoted(features.program), quoted(features.torch), features.captures, quoted(features.modes),
      quoted(features.operators));
  for (const compare::Feature& feature : features.all) {
    text +=
        fmt::format("{} = {}{}\n", quoted(std::string(feature.tag->name)), quoted(std::string(to_string(feature.use))),
                    feature.how.empty() ? "" : "  # " + escape_control(feature.how));
  }
  return text;
}

std::string render_text(const compare::Features& features) {
  const std::string program = features.program.empty() ? "the program" : escape_control(features.program);
  std::string text = fmt::format("scope: what {} uses ({})\n", program, captures_of(features));
  for (const Use use : {Use::Used, Use::Assumed}) {
    for (const compare::Feature* feature : features.of(use)) {
      text += fmt::format("  {:<9} {}{}\n", to_string(use), feature->tag->name,
                          how_words(*feature).empty() ? "" : ": " + escape_control(how_words(*feature)));
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
    all.push_back({{"feature", feature.tag->name}, {"use", to_string(feature.use)}, {"how", how_words(feature)}});
  }
  return {{"program", features.program}, {"torch", features.torch},         {"captures", features.captures},
          {"modes", features.modes},     {"operators", features.operators}, {"features", all}};
}

}  // namespace recapture::report

#include "harness/commands/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/exit.h"
#include "harness/base/text.h"
#include "harness/model/suggest.h"

namespace recapture::commands {
namespace {

// Verbs of groups have both words.
std::vector<std::string> names_of_verbs(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(app)) {
    names.push_back(verb->get_name());
    for (const CLI::App* below : verbs_of(*verb)) names.push_back(verb->get_name() + " " + below->get_name());
  }
  return names;
}

// "plan, collect or diff"
std::string list_verbs(const CLI::App& group) {
  const std::vector<const CLI::App*> verbs = verbs_of(group);
  std::string text;
  for (const CLI::App* verb : verbs) {
    text += (verb == verbs.front() ? "" : verb == verbs.back() ? " or " : ", ") + verb->get_name();
  }
  return text;
}

std::string hint_for(const CLI::App& app) {
  return app.get_parent() == nullptr ? "see --help" : fmt::format("`{}` takes {}", full_name(app), list_verbs(app));
}

}  // namespace

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<size_t> plain_words(const std::vector<std::string>& words) {
  std::vector<size_t> plain;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--root") {
      ++i;
    } else if (words[i].empty() || words[i].front() != '-') {
      plain.push_back(i);
    }
  }
  return plain;
}

CLI::App& find_verb(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* found = &app;
  std::string name;
  for (size_t i = 0; i < words.size(); ++i) {
    if (verbs_of(*found).empty()) break;
    name += (i == 0 ? "" : " ") + words[i];
    const auto named = found->get_subcommands([&](const CLI::App* verb) { return verb->get_name() == words[i]; });
    if (!named.empty()) {
      found = named.front();
      continue;
    }
    throw ExitError(Exit::Usage, unknown_name("verb", name, names_of_verbs(app), hint_for(*found)));
  }
  return *found;
}

std::string full_name(const CLI::App& verb) {
  return (verb.get_parent() == nullptr ? "" : full_name(*verb.get_parent()) + " ") + verb.get_name();
}

void require_options(const CLI::App& verb, const std::vector<std::string>& words) {
  std::vector<std::string> options;
  for (const CLI::App* app = &verb; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
      for (const std::string& name : option->get_snames()) options.push_back("-" + name);
    }
  }
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (name.size() < 2 || name.front() != '-' || name == "--") continue;
    if (contains(options, name)) continue;
    throw ExitError(Exit::Usage,
                    unknown_name("option", name, options, fmt::format("`{} --help` lists them", full_name(verb))));
  }
}

void refuse_group(const CLI::App& group) {
  throw ExitError(Exit::Usage, fmt::format("`{}` takes a verb: {}", full_name(group), list_verbs(group)));
}

}  // namespace recapture::commands

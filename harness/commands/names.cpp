#include "harness/commands/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "harness/base/exit.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/model/release.h"
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

// What a word without a verb probably is for: "item_in_capture" to be shown, "901" to be explained.
std::string meant_by(const std::string& word, const std::string& next) {
  const auto is_all = [&](std::string_view of) { return word.find_first_not_of(of) == std::string::npos; };
  constexpr size_t kDigits = 3;
  if (word == "version") return "recapture --version";
  if (word.size() == kDigits && is_all("0123456789")) return "recapture explain " + word;
  if (word.ends_with(".py")) return "recapture blame -- python " + word;
  if (is_version(word))
    return fmt::format("recapture {}{}", is_version(next) ? "compare " + word + " " : "show ",
                       is_version(next) ? next : word);
  if (word.find(' ') != std::string::npos) return fmt::format("recapture explain '{}'", word);
  if (word.find('_') != std::string::npos) return "recapture show " + word;
  return "";
}

std::string hint_for(const CLI::App& app, const std::string& word, const std::string& next) {
  if (app.get_parent() != nullptr) return fmt::format("`{}` takes {}", full_name(app), list_verbs(app));
  const std::string meant = meant_by(word, next);
  return meant.empty() ? "see --help" : fmt::format("write `{}`", meant);
}

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
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
    throw ExitError(Exit::Usage, unknown_name("verb", name, names_of_verbs(app),
                                              hint_for(*found, words[i], i + 1 < words.size() ? words[i + 1] : "")));
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

std::string usage_of(const CLI::App& verb) {
  std::string usage = full_name(verb);
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_positional() || option->get_group().empty()) continue;
    const std::string name = upper_case(option->get_single_name()) + (option->get_items_expected_max() > 1 ? "…" : "");
    usage += option->get_required() ? " " + name : " [" + name + "]";
  }
  return usage;
}

std::string examples_of(const Verb& verb) {
  size_t width = 0;
  for (const auto& [command, meaning] : verb.examples) width = std::max(width, command.size());
  std::string text = "Examples:\n";
  for (const auto& [command, meaning] : verb.examples) text += fmt::format("  {:<{}}    {}\n", command, width, meaning);
  return text;
}

void require_arguments(const CLI::App& verb, const CLI::ParseError& error, const std::vector<std::string>& rest) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError)) {
    for (const CLI::Option* option : verb.get_options()) {
      if (!option->get_positional() || !option->get_required() || option->count() > 0) continue;
      throw ExitError(Exit::Usage,
                      fmt::format("{} is missing: {}", upper_case(option->get_single_name()), usage_of(verb)));
    }
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) && !rest.empty()) {
    throw ExitError(Exit::Usage, fmt::format("'{}' is one argument too many: {}", rest.front(), usage_of(verb)));
  }
}

void separate_program(const CLI::App& verb, size_t before, std::vector<std::string>& words) {
  const auto takes_value = [&](const std::string& word) {
    for (const CLI::App* app = &verb; app != nullptr; app = app->get_parent()) {
      for (const CLI::Option* option : app->get_options()) {
        if (option->nonpositional() && option->check_name(word)) return option->get_items_expected_max() > 0;
      }
    }
    return false;
  };
  size_t plain = 0;
  bool is_after_verb = false;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (!words[i].empty() && words[i].front() == '-') {
      if (takes_value(words[i])) ++i;
    } else if (!is_after_verb) {
      is_after_verb = true;
    } else if (++plain > before) {
      words.insert(words.begin() + static_cast<ptrdiff_t>(i), "--");
      return;
    }
  }
}

void refuse_group(const CLI::App& group) {
  throw ExitError(Exit::Usage, fmt::format("`{}` takes a verb: {}", full_name(group), list_verbs(group)));
}

}  // namespace recapture::commands

#include "harness/commands/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/base/exit.h"
#include "harness/model/suggest.h"

namespace recapture::commands {
namespace {

struct Renamed {
  std::string_view old, now;
};

// Work for one more version. The first that fits counts.
constexpr std::array kOldVerbs = {
    Renamed{"good", "baseline"},     Renamed{"gather", "nightly collect"},  Renamed{"news", "nightly diff"},
    Renamed{"merge", "dev merge"},   Renamed{"tables", "dev tables"},       Renamed{"ci plan", "nightly plan"},
    Renamed{"test", "dev test"},     Renamed{"catalogue", "dev catalogue"}, Renamed{"expect propose", "dev propose"},
    Renamed{"expect", "dev propose"}};

// What was generated once, and is a file now.
constexpr std::array kFiles = {Renamed{"ci github", "ci/github.yml"}, Renamed{"ci gitlab", "ci/gitlab.yml"},
                               Renamed{"ci slurm", "ci/slurm.sh"}};

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Also those below groups, by both words.
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
  return app.get_parent() == nullptr ? "--help says what there is"
                                     : fmt::format("`{}` takes {}", full_name(app), list_verbs(app));
}

}  // namespace

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

std::string replace_old_verb(std::vector<std::string>& words) {
  std::vector<size_t> plain = plain_words(words);
  if (!plain.empty() && words[plain.front()] == "help") plain.erase(plain.begin());
  if (plain.empty()) return "";
  const size_t at = plain.front();
  for (const auto& [old, now] : kOldVerbs) {
    const bool is_pair = old.find(' ') != old.npos && plain.size() > 1 && plain[1] == at + 1;
    if (old != (is_pair ? words[at] + " " + words[at + 1] : words[at])) continue;
    const size_t blank = now.find(' ');
    words.erase(words.begin() + static_cast<ptrdiff_t>(at), words.begin() + static_cast<ptrdiff_t>(at + 1 + is_pair));
    words.insert(words.begin() + static_cast<ptrdiff_t>(at), std::string(now.substr(0, blank)));
    if (blank != now.npos) {
      words.insert(words.begin() + static_cast<ptrdiff_t>(at + 1), std::string(now.substr(blank + 1)));
    }
    return note_about_old_word(old, now);
  }
  return "";
}

std::string note_about_old_word(std::string_view old, std::string_view now) {
  return fmt::format("'{}' is now '{}'; the old word goes in the next version", old, now);
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
    const std::string two = i + 1 < words.size() ? name + " " + words[i + 1] : "";
    const auto file = std::find_if(kFiles.begin(), kFiles.end(), [&](const Renamed& one) { return one.old == two; });
    if (file != kFiles.end()) {
      throw ExitError(Exit::Usage, fmt::format("there is no `recapture {}`; use {}, which is not generated any more",
                                               file->old, file->now));
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
    if (std::find(options.begin(), options.end(), name) != options.end()) continue;
    throw ExitError(Exit::Usage,
                    unknown_name("option", name, options, fmt::format("`{} --help` lists them", full_name(verb))));
  }
}

void refuse_group(const CLI::App& group) {
  throw ExitError(Exit::Usage, fmt::format("`{}` takes a verb: {}", full_name(group), list_verbs(group)));
}

}  // namespace recapture::commands

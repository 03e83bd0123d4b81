// recapture dev complete: what may stand in place of the last word of a command line, for the shells' completion.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <set>

#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/commands/names.h"
#include "harness/model/catalogue.h"
#include "harness/model/release.h"
#include "harness/run/layout.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

struct Candidate {
  std::string word, meaning;
};
using Candidates = std::vector<Candidate>;

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The option of the verb, or of what it stands below, that this word names and that takes a value.
const CLI::Option* option_with_value(const CLI::App& verb, const std::string& word) {
  for (const CLI::App* app = &verb; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      if (!option->get_positional() && option->check_name(word) && option->get_items_expected_max() > 0) return option;
    }
  }
  return nullptr;
}

void add_options(const CLI::App& verb, Candidates& all) {
  for (const CLI::App* app = &verb; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      const bool is_known = std::any_of(all.begin(), all.end(), [&](const Candidate& known) {
        return !option->get_lnames().empty() && known.word == "--" + option->get_lnames().front();
      });
      if (!option->get_lnames().empty() && !is_known) {
        all.push_back({"--" + option->get_lnames().front(), option->get_description()});
      }
    }
  }
}

void add_releases(const std::string& root, Candidates& all) {
  std::error_code error;
  std::vector<std::string> releases;
  for (const auto& entry : fs::directory_iterator(run::Layout::find(root).reports(), error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory(error) && is_version(name)) releases.push_back(name);
  }
  std::sort(releases.begin(), releases.end(), [](const auto& a, const auto& b) { return older(b, a); });
  for (const std::string& release : releases) all.push_back({release, "LibTorch release"});
}

// Cases and families; where the word has a dot the tests of that case.
void add_cases(const std::string& root, const std::string& word, Candidates& all) {
  std::set<std::string> families;
  for (const CatalogueCase& one : read_catalogue(run::Layout::find(root).root)) {
    if (word.rfind(one.id + ".", 0) == 0) {
      for (const CatalogueTest& test : one.tests) all.push_back({one.id + "." + test.name, test.fix});
    }
    all.push_back({one.id, one.title});
    if (families.insert(one.family).second) all.push_back({one.family, "all cases of this family"});
  }
}

// By what the verbs take: the words of an option or a positional say no more than their name.
void add_values(const std::string& root, const CLI::App& verb, const CLI::Option* option, const std::string& word,
                Candidates& all) {
  const std::string name = verb.get_name();
  if (option != nullptr) {
    if (option->check_name("--release")) add_releases(root, all);
    return;  // Otherwise a file, a number or a text.
  }
  if (name == "compare" || name == "gate") add_releases(root, all);
  if (name == "show") add_releases(root, all);
  const std::set<std::string> take_cases = {"list", "show", "run", "bisect", "history", "triage"};
  if (take_cases.count(name) != 0) add_cases(root, word, all);
}

Candidates candidates(const std::string& root, CLI::App& app, std::vector<std::string> words) {
  const std::string word = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  const CLI::App* verb = &app;
  const CLI::Option* pending = nullptr;  // Its value is the next word.
  bool is_help = false;
  for (const std::string& each : words) {
    if (each == "--") return {};  // What follows is another program's.
    if (pending != nullptr) {
      pending = nullptr;
    } else if (!each.empty() && each.front() == '-') {
      pending = each.find('=') == std::string::npos ? option_with_value(*verb, each) : nullptr;
    } else if (is_help || !verbs_of(*verb).empty()) {
      const CLI::App* at = is_help && verb->get_name() == "help" ? &app : verb;
      const auto below = at->get_subcommands([&](const CLI::App* one) { return one->get_name() == each; });
      if (below.empty()) return {};
      verb = below.front();
      is_help = is_help || verb->get_name() == "help";
    }
  }
  Candidates all;
  if (pending == nullptr && !word.empty() && word.front() == '-') {
    add_options(*verb, all);
  } else if (const CLI::App& group = is_help && verb->get_name() == "help" ? app : *verb;
             !verbs_of(group).empty() && pending == nullptr) {
    for (const CLI::App* each : verbs_of(group)) all.push_back({each->get_name(), each->get_description()});
  } else if (!is_help) {
    add_values(root, *verb, pending, word, all);
  }
  all.erase(std::remove_if(all.begin(), all.end(), [&](const Candidate& one) { return one.word.rfind(word, 0) != 0; }),
            all.end());
  return all;
}

}  // namespace

Verb dev_complete_verb(CLI::App& dev, const std::string& root) {
  const auto words = std::make_shared<std::vector<std::string>>();
  auto* command = dev.add_subcommand("complete", "Print what may complete the last word, for the shells' completion");
  command->add_option("words", *words, "After --: the words of a command line behind recapture");
  return {command, [words, &root, &dev] {
            for (const auto& [word, meaning] : candidates(root, *dev.get_parent(), *words)) {
              print("{}\t{}\n", word, meaning.substr(0, meaning.find('\n')));
            }
            return Exit::AsExpected;
          }};
}

}  // namespace recapture::commands

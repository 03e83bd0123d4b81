// recapture dev complete: candidates for the last word of a command line, for shell completion.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "harness/base/output.h"
#include "harness/case/tags.h"
#include "harness/commands/commands.h"
#include "harness/commands/names.h"
#include "harness/model/catalogue.h"
#include "harness/model/operators.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"
#include "harness/run/layout.h"

namespace recapture::commands {
namespace {

struct Candidate {
  std::string word, meaning;
};
using Candidates = std::vector<Candidate>;

// The option of the verb or its groups that this word names, if it takes a value.
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
      const bool is_known = std::ranges::any_of(all, [&](const Candidate& known) {
        return !option->get_lnames().empty() && known.word == "--" + option->get_lnames().front();
      });
      if (!option->get_lnames().empty() && !is_known) {
        all.push_back({"--" + option->get_lnames().front(), option->get_description()});
      }
    }
  }
}

void add_releases(const std::string& root, Candidates& all) {
  std::vector<std::string> releases = known_releases(run::Layout::find(root).root);
  std::erase_if(releases, is_without_libtorch);
  std::ranges::sort(releases, NewestFirst(), [](const std::string& name) { return Release(name); });
  for (const std::string& release : releases) all.push_back({release, "LibTorch release"});
}

// Cases and families; if the word has a dot, the tests of that case.
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

// By their calls and, of torch.nn.functional, by the usual short ones: F.one_hot. Variants of an operator share a call.
void add_operators(const std::string& root, Candidates& all) {
  constexpr std::string_view kFunctional = "torch.nn.functional.";
  std::set<std::string> calls;
  for (const Operator& one : read_operators(run::Layout::find(root).root)) {
    if (!calls.insert(one.call).second) continue;
    all.push_back({one.call, "operator"});
    if (one.call.starts_with(kFunctional)) all.push_back({"F." + one.call.substr(kFunctional.size()), one.call});
  }
}

void add_features(Candidates& all) {
  for (const Tag& tag : kTags) all.push_back({std::string(tag.name), std::string(tag.meaning)});
}

// By name: CLI11 cannot mark options and verbs that take releases or cases.
void add_values(const std::string& root, const CLI::App& verb, const CLI::Option* option, const std::string& word,
                Candidates& all) {
  const std::set<std::string> take_releases = {"compare", "gate", "show"},
                              take_cases = {"list", "show", "run", "bisect", "history", "triage"};
  const bool is_release =
      option == nullptr ? take_releases.count(verb.get_name()) != 0 : option->check_name("--release");
  if (is_release) add_releases(root, all);
  if (option == nullptr && take_cases.count(verb.get_name()) != 0) add_cases(root, word, all);
  if (option == nullptr && verb.get_name() == "operators") add_operators(root, all);
  if (option == nullptr && verb.get_name() == "list") add_features(all);
}

Candidates candidates(const std::string& root, CLI::App& app, std::vector<std::string> words) {
  const std::string word = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  const CLI::App* verb = &app;           // Or the group; reset after "help".
  const CLI::Option* pending = nullptr;  // Its value is the next word.
  bool is_help = false;
  for (const std::string& each : words) {
    if (each == "--") return {};  // The rest is another program's.
    if (pending != nullptr) {
      pending = nullptr;
    } else if (!each.empty() && each.front() == '-') {
      pending = each.find('=') == std::string::npos ? option_with_value(*verb, each) : nullptr;
    } else if (const auto below = verbs_of(*verb); !below.empty()) {
      const auto named = std::ranges::find_if(below, [&](const CLI::App* one) { return one->get_name() == each; });
      if (named == below.end()) return {};
      is_help = is_help || each == "help";
      verb = each == "help" ? &app : *named;
    }
  }
  Candidates all;
  if (pending != nullptr) {
    add_values(root, *verb, pending, word, all);
  } else if (!word.empty() && word.front() == '-') {
    add_options(*verb, all);
  } else if (const auto below = verbs_of(*verb); !below.empty()) {
    for (const CLI::App* each : below) all.push_back({each->get_name(), each->get_description()});
  } else if (!is_help) {
    add_values(root, *verb, nullptr, word, all);
  }
  std::erase_if(all, [&](const Candidate& one) { return one.word.rfind(word, 0) != 0; });
  return all;
}

}  // namespace

Verb dev_complete_verb(CLI::App& dev, const std::string& root) {
  const auto words = std::make_shared<std::vector<std::string>>();
  auto* command = dev.add_subcommand("complete", "Print completions of the last word, for the shells");
  command->add_option("words", *words,
                      "After --: what follows recapture on the command line; the last word is completed");
  command->footer("Exit codes: 0 done.");
  return {command,
          [words, &root, &dev] {
            for (const auto& [word, meaning] : candidates(root, *dev.get_parent(), *words)) {
              print("{}\t{}\n", word, meaning.substr(0, meaning.find('\n')));
            }
            return Exit::AsExpected;
          },
          Signals::Output,
          {{"recapture dev complete -- sho", "the verbs that begin so"},
           {"recapture dev complete -- show item_", "the cases"}}};
}

}  // namespace recapture::commands

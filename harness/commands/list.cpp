// recapture list: cases, tests and features from the catalogue, without a build.
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <memory>

#include "harness/base/exit.h"
#include "harness/base/letter_case.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/model/release.h"
#include "harness/model/scope.h"

namespace recapture::commands {
namespace {

struct ListOptions {
  std::vector<std::string> names;
  std::string release;
  bool json = false, tests = false, features = false, built = false;
};

void print_lines(const Catalogue& cases, const ListOptions& options) {
  size_t tests = 0, operators = 0;
  for (const CatalogueCase& one : cases) {
    print("{:<12} {:<46} {:<10} {}{}\n", one.family, one.id, to_string(one.nature), one.title,
          one.fidelity == Fidelity::Simulated ? " (simulated)" : "");
    const auto its = std::ranges::count(one.tests, Kind::Operator, &CatalogueTest::kind);
    operators = std::max<size_t>(operators, its);  // The cases have the same list.
    tests += one.tests.size() - its;
    if (!options.tests) continue;
    for (const CatalogueTest& test : one.tests) {
      print("{:<13}{}.{}{}{}\n", "", one.id, test.name, test.fix.empty() ? "" : ": ", test.fix);
    }
  }
  print("{}, {}", plural(cases.size(), "case"), plural(tests, "test"));
  if (operators > 0) print(", {}", plural(operators, "operator"));
  if (options.built) {
    print(", built for {}{}", is_version(options.release) ? "LibTorch " : "", options.release);
  }
  print("\n");
}

// The words that a scope may have: in a gate's policy, in the page's search, and in `list`.
void print_features(const Catalogue& cases) {
  for (const auto& [tag, count] : tags_with_counts(cases)) {
    std::vector<std::string_view> aliases(tag->aliases.begin(), tag->aliases.end());
    std::erase(aliases, "");
    print("{:<20} {:>3}  {}{}\n", tag->name, count, tag->meaning, aliases.empty() ? "" : "; also " + join(aliases));
  }
}

// The feature that a word names if it names nothing else; nullptr if none.
const Tag* feature_of(const std::string& word, const Names& names) {
  const auto is_one_of = [&](const std::vector<std::string>& known) { return contains(known, word); };
  return is_one_of(names.families) || is_one_of(names.cases) ? nullptr : tag_of(word);
}

// If only features are named: how many further cases a gate has in scope.
void print_scope(const Catalogue& all, const Catalogue& listed, const std::vector<std::string>& words) {
  const Names names = names_in(all);
  const auto is_feature = [&](const std::string& word) { return feature_of(word, names) != nullptr; };
  if (words.empty() || !std::ranges::all_of(words, is_feature)) return;
  const size_t in_scope = cases_in_scope(words, all).size();
  if (in_scope == listed.size()) return;
  print("a gate with this scope has {} more, which any program can meet: recapture list '{}'\n",
        in_scope - listed.size(), kAnyProgram);
}

// A thread as the cases cite it, pytorch#168912: from that, or from its address on GitHub. "" for any other word.
std::string thread_in(const std::string& word) {
  static const RE2 kAddress(R"((?:https?://)?github\.com/[\w.-]+/([\w.-]+)/(?:issues|pull)/(\d+)\S*)");
  static const RE2 kCited(R"([\w.-]+#\d+)");
  std::string repository, number;
  if (RE2::FullMatch(word, kAddress, &repository, &number)) return repository + "#" + number;
  return RE2::FullMatch(word, kCited) ? word : "";
}

std::vector<std::string> cases_about(const std::string& thread, const Catalogue& all) {
  const auto is_cited = [&](const Json& source) {
    return source.at("document") == "upstream" &&
           lower_case(source.at("heading").get<std::string>()) == lower_case(thread);
  };
  std::vector<std::string> cases;
  for (const CatalogueCase& one : all) {
    if (std::ranges::any_of(one.sources, is_cited)) cases.push_back(one.id);
  }
  if (cases.empty()) {
    throw ExitError(Exit::Usage,
                    fmt::format("no case cites {}; `recapture explain` reads what its thread shows", thread));
  }
  return cases;
}

// As selected(); a word that names no family, case or test may be a feature or a thread.
Catalogue listed(const Catalogue& all, const std::vector<std::string>& words) {
  const Names names = names_in(all);
  std::vector<std::string> plain;
  for (const std::string& word : words) {
    const Tag* tag = feature_of(word, names);
    if (const std::string thread = thread_in(word); !thread.empty()) {
      for (const std::string& one : cases_about(thread, all)) plain.push_back(one);
    } else if (tag == nullptr) {
      // An unknown word without a near match is also looked up among the features.
      const bool is_near = !near(word, names.families).empty() || !near(word, names.cases).empty();
      if (!is_near && word.find_first_of("./") == word.npos) cases_in_scope({word}, all);
      plain.push_back(word);
    } else {
      for (const CatalogueCase& one : all) {
        if (has_tag(one, *tag)) plain.push_back(one.id);
      }
    }
  }
  if (plain.empty() && !words.empty()) return {};
  return selected(all, plain);
}

Exit list(const run::Layout& places, ListOptions options) {
  if (!options.release.empty() && !options.built) throw ExitError(Exit::Usage, "--release goes with --built");
  const Catalogue all = options.built ? built_catalogue(places, options.release) : read_catalogue(places.root);
  if (options.features) {
    print_features(all);
    return Exit::AsExpected;
  }
  const Catalogue cases = listed(all, options.names);
  if (options.json) {
    Json array = Json::array();
    for (const CatalogueCase& one : cases) {
      Json json = render_json(one);
      for (const char* prose : {"why", "documented", "deadline_s"}) json.erase(prose);
      array.push_back(json);
    }
    print("{}\n", array.dump(1));
  } else {
    print_lines(cases, options);
    print_scope(all, cases, options.names);
  }
  return Exit::AsExpected;
}

}  // namespace

Verb list_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<ListOptions>();
  auto* command = app.add_subcommand("list", "List cases, tests or features");
  auto* names =
      command->add_option("names", options->names,
                          "Families, cases, tests as case.Test, features, or a thread such as pytorch#168912; * "
                          "matches anything");
  auto* tests = command->add_flag("--tests", options->tests, "List the tests of each case too, and what each fix does");
  auto* json = command->add_flag("--json", options->json, "Print a JSON array");
  command
      ->add_flag("--features,--tags", options->features,
                 "List the features that a scope or the page's search takes, each with the number of its cases")
      ->excludes(names)
      ->excludes(tests)
      ->excludes(json);
  command->add_flag("--built", options->built, "List what is built, by the built cases instead of the catalogue");
  command->add_option("--release", options->release, "With --built: the LibTorch release (default: the newest)");
  command->footer("Exit codes: 0 done, 2 wrong usage or unknown name, 7 with --built: nothing is built.");
  return {command,
          [options, &root] { return list(run::Layout::find(root), *options); },
          Signals::Children,
          {{"recapture list DDP", "the cases that a program with DDP can meet"},
           {"recapture list pytorch#168912", "the cases that cite an issue or a pull request, or its address"}}};
}

}  // namespace recapture::commands

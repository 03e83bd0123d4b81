// recapture list: what there is, from the catalogue: no build is needed.
#include <memory>

#include "harness/commands/catalogue.h"
#include "harness/commands/commands.h"
#include "harness/judge/version.h"
#include "harness/record/output.h"

namespace recapture {
namespace {

struct Options {
  std::vector<std::string> names;
  std::string release;
  bool json = false, tests = false, built = false;
};

void print_lines(const Catalogue& cases, const Options& options) {
  size_t tests = 0;
  for (const CatalogueCase& one : cases) {
    print("{:<12} {:<46} {:<10} {}\n", one.family, one.id, one.nature, one.title);
    tests += one.tests.size();
    if (!options.tests) continue;
    for (const CatalogueTest& test : one.tests) {
      print("{:<13}{}.{}{}{}\n", "", one.id, test.name, test.fix.empty() ? "" : ": ", test.fix);
    }
  }
  print("{} {}, {} {}", cases.size(), cases.size() == 1 ? "case" : "cases", tests, tests == 1 ? "test" : "tests");
  if (options.built) {
    print(", built for {}{}", is_version(options.release) ? "LibTorch " : "", options.release);
  }
  print("\n");
}

Exit list(const Places& places, Options options) {
  if (!options.release.empty() && !options.built) throw Stop(Exit::Usage, "--release goes with --built");
  const Catalogue all = options.built ? built_catalogue(places, options.release) : read_catalogue(places.root);
  const Catalogue cases = selected(all, options.names);
  if (options.json) {
    Json array = Json::array();
    for (const CatalogueCase& one : cases) {
      Json json = as_json(one);
      for (const char* prose : {"why", "documented", "deadline_s"}) json.erase(prose);
      array.push_back(json);
    }
    print("{}\n", array.dump(1));
  } else {
    print_lines(cases, options);
  }
  return Exit::AsExpected;
}

}  // namespace

Verb list_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("list", "What there is: every case, a line each");
  command->add_option("names", options->names, "Families, cases, or tests as case.Test; * stands for anything");
  command->add_flag("--tests", options->tests, "Below each case its tests, and what each fix tells to do");
  command->add_flag("--json", options->json, "A JSON array");
  command->add_flag("--built", options->built, "Only what is built, as the built cases say it");
  command->add_option("--release", options->release, "With --built: LibTorch release (default: the newest)");
  return {command, [options, &root] { return list(Places::find(root), *options); }};
}

}  // namespace recapture

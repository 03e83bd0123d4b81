// recapture compare: what changes for a user between two releases or two runs, from their records.
#include "harness/commands/compare.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/compare/prices.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"

namespace recapture::commands {
namespace {

Exit compare_sides(const run::Layout& places, const CompareOptions& options) {
  check(places, options);
  const compare::Comparison comparison = comparison_of(places, options, background_with_remedies(places));
  print_report({comparison, compare::compare_policy()}, options);
  return exit_for(comparison);
}

}  // namespace

CLI::App* add_comparison(CLI::App& app, const char* name, const char* what, CompareOptions& options) {
  auto* command = app.add_subcommand(name, what);
  command
      ->add_option("from", options.from, "A release, a record, a folder of one release, latest, latest~1, or baseline")
      ->required();
  command->add_option("to", options.to, "The same")->required();
  command->add_option("--gpu", options.machine.gpu, "Part of the GPU's name; none for runs without one");
  command->add_option("--driver", options.machine.driver, "The driver's version");
  for (const OverridableLibrary& library : kOverridableLibraries) {
    command->add_option(library.option, options.machine.libraries[library.key],
                        "Choose this version where a release ran with several");
  }
  command->add_option("--records", options.records, "Folder of the records (default: reports/)");
  command->add_option("--junit", options.junit, "Write JUnit XML to this file too");
  command->add_flag("--json", options.json, "Print a JSON object");
  command->add_flag("--markdown", options.markdown, "Print Markdown tables, for the summary of a job on GitHub");
  return command;
}

void print_report(const report::ComparisonReport& report, const CompareOptions& options) {
  if (!options.junit.empty()) write_file(options.junit, report::render_junit(report));
  if (options.json) {
    print("{}\n", to_text(render_json(report), 1));
  } else {
    const bool is_short = report.decision != nullptr && !options.verbose;
    print("{}", options.markdown ? render_markdown(report)
                : is_short       ? render_short(report)
                                 : render_text(report, options.verbose));
  }
}

void check(const run::Layout& places, const CompareOptions& options) {
  if (options.json && options.markdown) throw ExitError(Exit::Usage, "--json and --markdown cannot be combined");
  if (!options.scope.empty()) {
    throw ExitError(
        Exit::Usage,
        fmt::format("compare takes two sides, and not '{}'; a scope goes into a policy: scope = [\"{}\"] in "
                    "FILE, and `recapture gate {} {} --policy FILE`",
                    join(options.scope, " "), join(options.scope, "\", \""), options.from, options.to));
  }
  const std::string records = options.records.empty() ? places.reports() : options.records;
  const auto is_path = [](const std::string& word) {
    std::error_code error;
    return std::filesystem::exists(word, error);
  };
  const auto is_there = [&](const std::string& word) {
    std::error_code error;
    return is_path(word) || std::filesystem::exists(records + "/" + word, error);
  };
  for (const std::string& side : {options.from, options.to}) {
    if ((side != "nightly" && side != "nightlies") || is_there(side)) continue;
    throw ExitError(
        Exit::Usage,
        fmt::format("no {} is on record: name its index in ci/matrix.toml of a clone, run `ci/suite nightly`, and "
                    "compare its record or version, such as 2.16.0.dev20261124; docs/guide/nightly.md has "
                    "more",
                    side));
  }
  const std::vector<std::string> known = known_releases(places.root);
  const std::string from = resolve_release(options.from, known), to = resolve_release(options.to, known);
  if (from == to && contains(known, from) && !is_path(options.from) && !is_path(options.to)) {
    throw ExitError(Exit::Usage, fmt::format("both sides are {}; name two releases", from));
  }
  if (!options.junit.empty()) require_place_for_junit(options.junit, "");
}

compare::CompareContext background_with_remedies(const run::Layout& places) {
  compare::CompareContext background = compare::read_compare_context(places.root);
  compare::learn_remedies(places.reports(), background);
  return background;
}

compare::Comparison comparison_of(const run::Layout& places, const CompareOptions& options,
                                  const compare::CompareContext& background) {
  const std::string records = options.records.empty() ? places.reports() : options.records;
  if (!options.records.empty() && !std::filesystem::is_directory(records)) {
    throw ExitError(Exit::Usage, escape_control(records) + " is not a folder; --records takes a folder");
  }
  const compare::BothSides sides = compare::sides_of(options.from, options.to, options.machine, records, background);
  compare::Comparison comparison = compare_sides(sides.from, sides.to, background);
  compare::compare_prices(compare::read_side_prices(sides.from), compare::read_side_prices(sides.to), comparison);
  comparison.notes.insert(comparison.notes.end(), sides.notes.begin(), sides.notes.end());
  for (const auto& [from, to] : sides.elsewhere) fill_in(comparison, compare_sides(from, to, background));
  return comparison;
}

Verb compare_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<CompareOptions>();
  auto* command = add_comparison(app, "compare", "Compare two releases or runs", *options);
  command->add_option("scope", options->scope)->group("");
  command->add_flag("--verbose", options->verbose, "Name all cases of each change, and of what is unknown");
  command->footer(
      "Exit codes: 0 no change, 1 new damage, new errors, broken handlers, something stopped holding or an operator "
      "is\n"
      "no longer captured, 3 a fix's price changed, 5 only other changes, 6 more than a tenth of the tests unknown.");
  return {command,
          [options, &root] { return compare_sides(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture compare 2.6 2.11", "what an upgrade changes"},
           {"recapture compare 2.6 2.11 --gpu H100 --verbose", "on one GPU, every change"}}};
}

}  // namespace recapture::commands

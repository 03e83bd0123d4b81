// recapture compare: what changes for a user between two releases or two runs, from their records.
#include "harness/commands/compare.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/compare/prices.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"
#include "harness/store/select.h"

namespace recapture::commands {
namespace {

struct CompareOptions {
  SideOptions sides;
  OutputOptions output;
  std::vector<std::string> scope;  // Refused: it goes into a policy.
  std::string only;
};

// As a shell reads it back.
std::string shell_word(const std::string& word) {
  static const RE2 plain("[A-Za-z0-9_./~:=@+-]+");
  if (RE2::FullMatch(word, plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// The command line without what chooses the output.
std::string command_of(const SideOptions& sides) {
  std::string command = fmt::format("recapture compare {} {}", shell_word(sides.from), shell_word(sides.to));
  const auto add = [&](std::string_view option, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {} {}", option, shell_word(value));
  };
  add("--gpu", sides.machine.gpu);
  add("--driver", sides.machine.driver);
  add("--from-gpu", sides.machine.from.gpu);
  add("--from-driver", sides.machine.from.driver);
  add("--to-gpu", sides.machine.to.gpu);
  add("--to-driver", sides.machine.to.driver);
  for (const OverridableLibrary& library : kOverridableLibraries) {
    const auto chosen = sides.machine.libraries.find(library.key);
    if (chosen != sides.machine.libraries.end()) add(library.option, chosen->second);
  }
  add("--records", sides.records);
  return escape_control(command);
}

report::Part part_of(const CompareOptions& options) {
  const std::string& only = options.only;
  if (only.empty()) return {};
  const auto part = report::part_from(only);
  if (!part) {
    throw ExitError(Exit::Usage,
                    unknown_name("part", only, report::part_names(), "parts are " + join(report::part_names())));
  }
  if (options.output.verbose || options.output.json || options.output.markdown) {
    throw ExitError(Exit::Usage,
                    "--only chooses a part of the text; it cannot be combined with --all, --json or --markdown");
  }
  return *part;
}

void print_comparison(const report::ComparisonReport& report, const CompareOptions& options, const report::Part& part) {
  const OutputOptions& output = options.output;
  if (output.json || output.markdown) return print_report(report, output);
  if (!output.junit.empty()) write_file(output.junit, report::render_junit(report));
  const bool is_long = output.verbose || !options.only.empty();
  print("{}", is_long ? render_text(report, true, part) : render_summary(report, command_of(options.sides)));
}

Exit compare_sides(const run::Layout& places, const CompareOptions& options) {
  const auto& [sides, output, scope, only] = options;
  check(output);
  if (!scope.empty()) {
    throw ExitError(
        Exit::Usage,
        fmt::format("compare takes two sides, and not '{}'; a scope goes into a policy: scope = [\"{}\"] in "
                    "FILE, and `recapture gate {} {} --policy FILE`",
                    join(scope, " "), join(scope, "\", \""), sides.from, sides.to));
  }
  check(places, sides);
  const report::Part part = part_of(options);
  const compare::CompareContext background = background_with_remedies(places);
  // Never freed: freeing each text would take a tenth of the run time.
  static auto& read = *new compare::JudgedRecords(background);
  static const auto& both = *new compare::BothSides(compare::sides_of(
      sides.from, sides.to, sides.machine, records_of(places, sides.records), background, read, places.reports()));
  const compare::Comparison comparison = comparison_of(both, background);
  print_comparison({comparison, compare::compare_policy()}, options, part);
  return exit_for(comparison);
}

}  // namespace

CLI::App* add_comparison(CLI::App& app, const char* name, const char* what, SideOptions& sides, OutputOptions& output) {
  auto* command = app.add_subcommand(name, what);
  command
      ->add_option("from", sides.from,
                   "A release, a record, a folder of one release, a build (nightly, rc, its label), latest, latest~1, "
                   "or baseline")
      ->required();
  command->add_option("to", sides.to, "The same")->required();
  command->add_option("--gpu", sides.machine.gpu, "Words of the GPU's name, such as H100; none for runs without one");
  command->add_option("--driver", sides.machine.driver, "The driver's version, or its first numbers, such as 580");
  command->add_option("--from-driver", sides.machine.from.driver, "The first side's driver, if the two differ in it");
  command->add_option("--to-driver", sides.machine.to.driver, "The second side's driver");
  command->add_option("--from-gpu", sides.machine.from.gpu, "The first side's GPU, if the two differ in it");
  command->add_option("--to-gpu", sides.machine.to.gpu, "The second side's GPU");
  for (const OverridableLibrary& library : kOverridableLibraries) {
    command->add_option(library.option, sides.machine.libraries[library.key],
                        "Choose this version where a release ran with several");
  }
  command->add_option("--records", sides.records, "Folder of the records (default: reports/)");
  command->add_option("--junit", output.junit, "Write JUnit XML to this file too");
  command->add_flag("--json", output.json, "Print a JSON object");
  command->add_flag("--markdown", output.markdown, "Print Markdown tables, for the summary of a job on GitHub");
  return command;
}

void print_report(const report::ComparisonReport& report, const OutputOptions& output) {
  if (!output.junit.empty()) write_file(output.junit, report::render_junit(report));
  if (output.json) {
    print("{}\n", to_text(render_json(report), 1));
  } else {
    const bool is_short = report.decision != nullptr && !output.verbose;
    print("{}", output.markdown ? render_markdown(report)
                : is_short      ? render_short(report)
                                : render_text(report, output.verbose));
  }
}

void check(const OutputOptions& output) {
  if (output.json && output.markdown) throw ExitError(Exit::Usage, "--json and --markdown cannot be combined");
  if (!output.junit.empty()) require_place_for_junit(output.junit, "");
}

void check(const run::Layout& places, const SideOptions& sides) {
  const auto is_path = [](const std::string& word) {
    std::error_code error;
    return std::filesystem::exists(word, error);
  };
  const std::vector<std::string> known = known_releases(places.root);
  const Yields yields = if_only_sent(places.reports());
  const std::string from = resolve_release(sides.from, known, yields), to = resolve_release(sides.to, known, yields);
  if (from == to && contains(known, from) && !is_path(sides.from) && !is_path(sides.to) &&
      !sides.machine.is_of_two_machines()) {
    throw ExitError(Exit::Usage,
                    fmt::format("both sides are {}; name two releases, or two machines by --from-driver and "
                                "--to-driver or --from-gpu and --to-gpu",
                                from));
  }
}

compare::CompareContext background_with_remedies(const run::Layout& places) {
  compare::CompareContext background = compare::read_compare_context(places.root);
  compare::learn_remedies(places.reports(), background);
  return background;
}

std::string records_of(const run::Layout& places, const std::string& given) {
  if (!given.empty() && !std::filesystem::is_directory(given)) {
    throw ExitError(Exit::Usage, escape_control(given) + " is not a folder; --records takes a folder");
  }
  return given.empty() ? places.reports() : given;
}

compare::Comparison comparison_of(const compare::BothSides& sides, const compare::CompareContext& background) {
  compare::Comparison comparison = compare_sides(sides.from, sides.to, background);
  compare::compare_prices(compare::read_side_prices(sides.from), compare::read_side_prices(sides.to), comparison);
  comparison.notes.insert(comparison.notes.end(), sides.notes.begin(), sides.notes.end());
  for (const auto& [from, to] : sides.elsewhere) fill_in(comparison, compare_sides(from, to, background));
  return comparison;
}

Verb compare_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<CompareOptions>();
  auto* command = add_comparison(app, "compare", "Compare two releases or runs", options->sides, options->output);
  command->add_option("scope", options->scope)->group("");
  command->add_flag("--all,--verbose", options->output.verbose,
                    "Print every change with its tests, errors and fixes, every price, note and reason");
  command->add_option("--only", options->only, "Print one part of --all: " + join(report::part_names()));
  command->footer(
      "Exit codes: 0 no change, 1 new damage, new errors, broken handlers, something stopped holding or an operator "
      "is\n"
      "no longer captured, 3 a fix's price changed, 5 only other changes, 6 more than a tenth of the tests unknown;\n"
      "2 wrong usage or unknown name, 4 there is no such run, 7 JUnit XML cannot be written.");
  return {command,
          [options, &root] { return compare_sides(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture compare 2.6 2.11", "what an upgrade breaks and heals, and how much else changed"},
           {"recapture compare 2.6 2.11 --gpu H100 --all", "on one GPU, every change"}}};
}

}  // namespace recapture::commands

// recapture compare, recapture gate: what changes for a user between two releases or two runs, from their records
// alone, or from those that the gate makes first.
#include "harness/compare/compare.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "harness/commands/commands.h"
#include "harness/compare/format.h"
#include "harness/compare/policy.h"
#include "harness/compare/prices.h"
#include "harness/compare/sides.h"
#include "harness/judge/scope.h"
#include "harness/record/file.h"
#include "harness/record/output.h"
#include "harness/run/machine.h"
#include "harness/run/places.h"
#include "harness/run/process.h"
#include "harness/run/run.h"

namespace recapture {
namespace {

struct Options {
  std::string from, to, records, junit, policy;
  MachineChoice machine;
  bool json = false, markdown = false, run = false;
};

void print_report(const ComparisonReport& report, const Options& options) {
  if (!options.junit.empty()) write_file(options.junit, render_junit(report));
  if (options.json) {
    print("{}\n", render_json(report).dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    print("{}", options.markdown ? render_markdown(report) : render_text(report));
  }
}

void check(const Options& options) {
  if (options.json && options.markdown) throw Stop(Exit::Usage, "--json and --markdown cannot be combined");
  if (!options.junit.empty()) require_place_for_junit(options.junit, "");
}

Background background_with_remedies(const Places& places) {
  Background background = background_of(places.root);
  learn_remedies(places.reports(), background);
  return background;
}

Comparison comparison_of(const Places& places, const Options& options, const Background& background) {
  const std::string records = options.records.empty() ? places.reports() : options.records;
  const BothSides sides = sides_of(options.from, options.to, options.machine, records, background);
  Comparison comparison = compare(sides.from, sides.to, background);
  compare_prices(sides.from, sides.to, comparison);
  for (const std::string& note : sides.notes) add_once(comparison.head, "note: " + note);
  return comparison;
}

Exit compare_sides(const Places& places, const Options& options) {
  check(options);
  const Comparison comparison = comparison_of(places, options, background_with_remedies(places));
  print_report({comparison, compare_policy()}, options);
  return exit_for(comparison);
}

// Nothing where one of the sides has no run on this machine.
std::optional<Comparison> comparison_so_far(const Places& places, const Options& options,
                                            const Background& background) {
  for (const std::string& side : {options.from, options.to}) {
    if (!std::filesystem::exists(options.records + "/" + side)) return std::nullopt;
  }
  try {
    return comparison_of(places, options, background);
  } catch (const Stop& stop) {
    if (stop.code != Exit::NothingRan) throw;
    return std::nullopt;
  }
}

// The cases in scope of which a side lacks a result that it could have; nothing: all that there are.
std::optional<std::set<std::string>> missing(const std::optional<Comparison>& so_far, const Policy& policy,
                                             const Background& background) {
  if (!so_far && policy.scope.empty()) return std::nullopt;
  const std::set<std::string> scope = cases_in_scope(policy.scope, background.catalogue);
  if (!so_far) return scope;
  std::set<std::string> known, lacking;
  for (const ComparedTest& test : so_far->tests) {
    known.insert(case_of(test.test));
    if (test.consequence == Consequence::Unknown && test.ran) lacking.insert(case_of(test.test));
  }
  std::set<std::string> cases;
  for (const std::string& one : scope) {
    if (known.count(one) == 0 || lacking.count(one) != 0) cases.insert(one);
  }
  return cases;
}

// Runs on this machine, for both releases, what the records below `options.records` lack, and puts it there.
void run_missing(const Places& places, Options& options, const Policy& policy, const Background& background) {
  for (std::string* side : {&options.from, &options.to}) *side = named_release(places, *side);
  choose_this_machine(places, options.machine);
  const auto cases = missing(comparison_so_far(places, options, background), policy, background);
  if (cases && cases->empty()) return;
  const PrintedAside aside;
  for (const std::string& release : {options.from, options.to}) {
    RunOptions run_options;
    run_options.release = release;
    if (cases) run_options.filters.assign(cases->begin(), cases->end());
    run_options.record = new_record(options.records + "/" + release);
    print("{}:\n", release);
    run(places, run_options);
  }
}

Exit gate(const Places& places, Options options) {
  check(options);
  std::vector<std::string> notes;
  const Policy policy = options.policy.empty() ? Policy() : read_policy(options.policy, notes);
  for (const std::string& note : notes) say_last_words(note);
  const Background background = background_with_remedies(places);
  std::set<std::string> scope = cases_in_scope(policy.scope, background.catalogue);
  if (options.run) {
    if (options.records.empty()) options.records = places.build + "/gate";
    run_missing(places, options, policy, background);
  }
  Comparison all = comparison_of(places, options, background);
  if (policy.scope.empty()) {  // Records have cases, too, that are not in the catalogue.
    for (const ComparedTest& test : all.tests) scope.insert(case_of(test.test));
  }
  add_never_run(scope, background.catalogue, all);
  const std::string today = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  const Decision decision = decide(policy, all, scope, background.catalogue, today);
  for (const std::string& test : decision.blocking) scope.insert(case_of(test));
  const Comparison shown = restricted(all, scope);
  print_report({shown, policy, &decision}, options);
  return decision.exit;
}

CLI::App* add_command(CLI::App& app, const char* name, const char* what, Options& options) {
  auto* command = app.add_subcommand(name, what);
  command->add_option("from", options.from, "A release, a record, a folder of one release, latest, latest~1, or good")
      ->required();
  command->add_option("to", options.to, "The same")->required();
  command->add_option("--gpu", options.machine.gpu, "Part of the GPU's name; none for runs without one");
  command->add_option("--driver", options.machine.driver, "The driver's version");
  for (const Replaceable& library : kReplaceable) {
    command->add_option(library.option, options.machine.libraries[library.key], "Of a release that ran with several");
  }
  command->add_option("--records", options.records, "Where the runs lie (default: reports/)");
  command->add_option("--junit", options.junit, "Write JUnit XML to this file too");
  command->add_flag("--json", options.json, "A JSON object");
  command->add_flag("--markdown", options.markdown, "Tables, for the summary of a job on GitHub");
  return command;
}

}  // namespace

std::string new_record(const std::string& folder) {
  const std::string first = fmt::format("{}/{:%Y%m%d-%H%M%S}", folder, fmt::gmtime(std::time(nullptr)));
  std::string path = first + ".jsonl";
  for (int n = 2; std::filesystem::exists(path); ++n) path = fmt::format("{}.{}.jsonl", first, n);
  return path;
}

void choose_this_machine(const Places& places, MachineChoice& choice) {
  own_the_processes();
  const Machine machine = ask_machine(places);
  if (machine.gpus == 0 && choice.gpu != "none") {
    throw Stop(Exit::Infrastructure, "no GPU to run on: " + machine.reason + "; --gpu none runs what needs none");
  }
  if (machine.gpus > 0) choice = {machine.gpu, machine.driver, choice.libraries};
}

Verb compare_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command =
      add_command(app, "compare", "What appears, vanishes or changes between two releases or runs", *options);
  command->footer(
      "Exit codes: 0 no change, 1 new damage, new errors, broken handlers or something stopped holding, 3 a fix's "
      "price\n"
      "changed, 5 only other changes, 6 more than a tenth of the tests unknown.");
  return {command, [options, &root] { return compare_sides(Places::find(root), *options); }};
}

Verb good_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("good", "Mark a record as what `good` stands for in compare and gate");
  command->add_option("record", options->from, "A whole run's record")->required();
  command->add_option("--records", options->records, "Where the runs lie (default: reports/)");
  return {command, [options, &root] {
            const std::string records = options->records.empty() ? Places::find(root).reports() : options->records;
            print("{} is good\n", mark_good(options->from, records));
            return Exit::AsExpected;
          }};
}

Verb gate_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = add_command(app, "gate", "Whether a change between two of them blocks you, by a policy", *options);
  command->add_option(
      "--policy", options->policy,
      "TOML: scope = [tags, cases], block = [consequences], unknown = percent, and [[waiver]] test, reason, until");
  command->add_flag("--run", options->run,
                    "First run on this machine's GPU what the records lack of both releases; without --records, those "
                    "of earlier gates");
  command->footer(
      "Without a policy all cases are in scope, 10 % of them may be unknown, and new damage, new errors, broken\n"
      "handlers and what stopped holding block. New damage blocks outside the scope too, unless a waiver names it.\n"
      "`recapture list --tags` has the words of a scope.\n"
      "Exit codes: 0 passes, 1 blocked, 6 too much is unknown; with --run those of run where it does not come to its "
      "end.");
  return {command, [options, &root] { return gate(Places::find(root), *options); }};
}

}  // namespace recapture

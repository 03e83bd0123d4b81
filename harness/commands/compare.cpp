// recapture compare, recapture gate: what changes for a user between two releases or two runs, from their records
// alone.
#include "harness/compare/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "harness/commands/commands.h"
#include "harness/compare/format.h"
#include "harness/compare/policy.h"
#include "harness/compare/sides.h"
#include "harness/record/file.h"
#include "harness/record/output.h"
#include "harness/run/places.h"

namespace recapture {
namespace {

struct Options {
  std::string from, to, records, junit, policy;
  MachineChoice machine;
  bool json = false, markdown = false;
};

// Prints it and what else there is to say; JSON has no other words.
void tell(const Comparison& comparison, const Options& options, const std::string& last_line) {
  if (!options.junit.empty()) write_file(options.junit, as_junit(comparison));
  if (options.json) {
    print("{}\n", as_json(comparison).dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    print("{}", options.markdown ? as_markdown(comparison) : as_text(comparison));
    if (!last_line.empty()) print("\n{}\n", last_line);
  }
}

Comparison comparison_of(const Places& places, const Options& options, const Background& background) {
  if (options.json && options.markdown) throw Stop(Exit::Usage, "--json and --markdown cannot be combined");
  if (!options.junit.empty()) require_place_for_junit(options.junit, "");
  const std::string records = options.records.empty() ? places.reports() : options.records;
  const BothSides sides = sides_of(options.from, options.to, options.machine, records, background);
  Comparison comparison = compare(sides.from, sides.to, background);
  for (const std::string& note : sides.notes) comparison.head.push_back("note: " + note);
  return comparison;
}

Exit compare_sides(const Places& places, const Options& options) {
  const Comparison comparison = comparison_of(places, options, background_of(places.root));
  const Exit exit = exit_for(comparison);
  tell(comparison, options, exit == Exit::Inconclusive ? "too much is unknown to say that nothing hurts" : "");
  return exit;
}

Exit gate(const Places& places, const Options& options) {
  const Policy policy = options.policy.empty() ? Policy() : read_policy(options.policy);
  const Background background = background_of(places.root);
  Comparison all = comparison_of(places, options, background);
  for (const std::string& concern : policy.concerns) {
    const auto cases = cases_concerned(concern, background.catalogue);
    all.head.push_back(fmt::format("concerns {}: {}", concern, fmt::join(cases, ", ")));
  }
  const Comparison ours = restricted(all, cases_concerned(policy, all, background.catalogue));
  const Decision decision = decide(policy, ours);
  tell(ours, options, decision.words);
  return decision.exit;
}

CLI::App* add_command(CLI::App& app, const char* name, const char* what, Options& options) {
  auto* command = app.add_subcommand(name, what);
  command->add_option("from", options.from, "A release, a record, a folder of one release, latest, latest~1, or good")
      ->required();
  command->add_option("to", options.to, "The same")->required();
  command->add_option("--gpu", options.machine.gpu, "Part of the GPU's name; none for runs without one");
  command->add_option("--driver", options.machine.driver, "The driver's version");
  command->add_option("--cuda-runtime", options.machine.cuda_runtime, "Of a release that ran with several");
  command->add_option("--records", options.records, "Where the runs lie (default: reports/)");
  command->add_option("--junit", options.junit, "Write JUnit XML to this file too");
  command->add_flag("--json", options.json, "A JSON object");
  command->add_flag("--markdown", options.markdown, "Tables, for the summary of a job on GitHub");
  return command;
}

}  // namespace

Verb compare_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command =
      add_command(app, "compare", "What appears, vanishes or changes between two releases or runs", *options);
  command->footer(
      "Exit codes: 0 nothing that hurts, 1 something does, 5 only better, 6 more than a tenth of the tests unknown.");
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
  auto* command =
      add_command(app, "gate", "Whether a change between two of them blocks you, by a policy; runs nothing", *options);
  command->add_option("--policy", options->policy,
                      "TOML: block = [consequences], concerns = [families, cases, features], unknown = percent");
  command->footer(
      "Without a policy, silent now, new failures and remedy gone block, all cases concern you, and 10 % may be "
      "unknown.\n"
      "Exit codes: 0 passes, 1 blocked, 6 too much is unknown. It judges the records that are there and runs nothing "
      "on a "
      "GPU.");
  return {command, [options, &root] { return gate(Places::find(root), *options); }};
}

}  // namespace recapture

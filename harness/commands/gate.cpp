// recapture gate: whether a policy blocks a change between two releases or runs; from records, or from runs first.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/blame/features.h"
#include "harness/commands/commands.h"
#include "harness/commands/compare.h"
#include "harness/commands/watch.h"
#include "harness/compare/policy.h"
#include "harness/model/scope.h"
#include "harness/report/text.h"
#include "harness/run/layout.h"
#include "harness/run/machine.h"
#include "harness/run/process.h"
#include "harness/run/run.h"

namespace recapture::commands {
namespace {

// Nothing if one of the sides has no run on this machine.
std::optional<compare::Comparison> comparison_so_far(const run::Layout& places, const CompareOptions& options,
                                                     const compare::CompareContext& background) {
  for (const std::string& side : {options.from, options.to}) {
    if (!std::filesystem::exists(options.records + "/" + side)) return std::nullopt;
  }
  try {
    return comparison_of(places, options, background);
  } catch (const ExitError& stop) {
    if (stop.code != Exit::NothingRan) throw;
    return std::nullopt;
  }
}

// The cases that decide an upgrade. Operators count if a run has them; they are run only if the policy names them.
// Simulated cases do not depend on the release.
std::set<std::string> cases_to_judge(const compare::Policy& policy, std::set<std::string> scope, const Rules& rules) {
  for (const std::string& id : rules.simulated) scope.erase(id);
  const std::string operators(kOperatorsCase);
  if (std::find(policy.scope.begin(), policy.scope.end(), operators) == policy.scope.end()) scope.erase(operators);
  return scope;
}

// The cases in scope for which a side lacks an obtainable result; nothing means all cases.
std::optional<std::set<std::string>> missing(const std::optional<compare::Comparison>& so_far,
                                             const compare::Policy& policy, const std::set<std::string>& all_in_scope,
                                             const compare::CompareContext& background) {
  if (!so_far && all_in_scope.size() == background.catalogue.size()) return std::nullopt;
  const std::set<std::string> scope = cases_to_judge(policy, all_in_scope, background.rules);
  if (!so_far) return scope;
  std::set<std::string> known, lacking;
  for (const compare::ComparedTest& test : so_far->tests) {
    known.insert(case_of(test.test));
    if (test.consequence == compare::Consequence::Unknown && test.ran) lacking.insert(case_of(test.test));
  }
  std::set<std::string> cases;
  for (const std::string& one : scope) {
    if (known.count(one) == 0 || lacking.count(one) != 0) cases.insert(one);
  }
  return cases;
}

// Runs on this machine, for both releases, what the records below `options.records` lack; adds the new records there.
void run_missing(const run::Layout& places, CompareOptions& options, const compare::Policy& policy,
                 const std::set<std::string>& scope, const compare::CompareContext& background) {
  for (std::string* side : {&options.from, &options.to}) *side = run::named_release(places, *side);
  choose_this_machine(places, options.machine);
  const auto cases = missing(comparison_so_far(places, options, background), policy, scope, background);
  if (cases && cases->empty()) return;
  const StdoutToStderr aside;
  for (const std::string& release : {options.from, options.to}) {
    run::RunOptions run_options;
    run_options.release = release;
    if (cases) run_options.filters.assign(cases->begin(), cases->end());
    run_options.record = new_record(options.records + "/" + release);
    print("{}:\n", release);
    run::run_cases(places, run_options, report::render_line);
  }
}

// The program's features: observed now, or read from a file. Nothing if neither is requested.
std::optional<compare::Features> features_of(const run::Layout& places, const CompareOptions& options,
                                             const compare::Policy& policy) {
  if (options.program.empty() && options.features.empty()) return std::nullopt;
  if (!options.program.empty() && !options.features.empty()) {
    throw ExitError(Exit::Usage,
                    "a program and --features cannot be combined: the file is of a program that ran before");
  }
  if (!policy.scope.empty()) {
    throw ExitError(Exit::Usage, options.policy + ": 'scope' and a program's features cannot be combined");
  }
  if (!options.features.empty()) return compare::read_features(options.features);
  const StdoutToStderr aside;
  const Watched watched = watch(places, options.program, {false, true});
  if (!watched.why_nothing.empty()) {
    const int code = WIFEXITED(watched.status) ? WEXITSTATUS(watched.status) : 128 + WTERMSIG(watched.status);
    throw ExitError(Exit::Inconclusive,
                    fmt::format("nothing was observed of {}: {}", escape_control(join(options.program, " ")),
                                code == 0 ? watched.why_nothing : fmt::format("it ended with exit status {}", code)));
  }
  const bool failed = watched.status != 0 || !watched.not_whole.empty();
  compare::Features features = blame::features_in(watched.events, failed);
  features.program = join(options.program, " ");
  return features;
}

Exit gate(const run::Layout& places, CompareOptions options) {
  check(places, options);
  std::vector<std::string> notes;
  const compare::Policy policy =
      options.policy.empty() ? compare::Policy() : compare::read_policy(options.policy, notes);
  for (const std::string& note : notes) print_error(note);
  const std::optional<compare::Features> features = features_of(places, options, policy);
  const compare::CompareContext background = background_with_remedies(places);
  std::set<std::string> scope = features ? compare::cases_in_scope(*features, background.catalogue)
                                         : cases_in_scope(policy.scope, background.catalogue);
  if (options.run) {
    if (options.records.empty()) options.records = places.build + "/gate";
    run_missing(places, options, policy, scope, background);
  }
  compare::Comparison all = comparison_of(places, options, background);
  if (policy.scope.empty() && !features) {  // Records may also have cases that are not in the catalogue.
    for (const compare::ComparedTest& test : all.tests) scope.insert(case_of(test.test));
  }
  compare::add_never_run(cases_to_judge(policy, scope, background.rules), background.catalogue, all);
  for (const std::string& word : policy.scope) {
    compare::demand_measured(cases_named(word, background.catalogue), all);
  }
  const std::string today = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  const compare::Decision decision = compare::decide(policy, all, scope, background.catalogue, today);
  for (const std::string& test : decision.blocking) scope.insert(case_of(test));
  const compare::Comparison shown = compare::filter_cases(all, scope);
  print_report({shown, policy, &decision, features ? &*features : nullptr}, options);
  return decision.exit;
}

}  // namespace

std::string new_record(const std::string& folder) {
  const std::string first = fmt::format("{}/{:%Y%m%d-%H%M%S}", folder, fmt::gmtime(std::time(nullptr)));
  std::string path = first + ".jsonl";
  for (int n = 2; std::filesystem::exists(path); ++n) path = fmt::format("{}.{}.jsonl", first, n);
  return path;
}

void choose_this_machine(const run::Layout& places, compare::MachineChoice& choice) {
  run::become_subreaper();
  const run::Machine machine = run::ask_machine(places);
  if (machine.gpus == 0 && choice.gpu != "none") {
    throw ExitError(Exit::Infrastructure, "no GPU to run on: " + machine.reason + "; --gpu none runs what needs none");
  }
  if (machine.gpus > 0) choice = {machine.gpu, machine.driver, choice.libraries};
}

Verb gate_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<CompareOptions>();
  auto* command = add_comparison(app, "gate", "Decide by a policy whether a change blocks an upgrade", *options);
  command->add_option(
      "--policy", options->policy,
      "TOML: scope = [tags, cases], block = [consequences], unknown = percent, not_measured = percent, and "
      "[[waiver]] test, reason, until");
  command->add_option("--features", options->features,
                      "Take as scope what a program uses, as recapture blame --features FILE observed it");
  command->add_option("program", options->program,
                      "After --: a program to run now under blame; what it uses is the scope");
  command->add_flag("--run", options->run,
                    "Run first, on this machine's GPU, what the records of both releases lack; without --records, the "
                    "records of earlier gates");
  command->add_flag("--verbose", options->verbose,
                    "Print every change, price, note and reason, and not only the verdict and what blocks");
  command->footer(
      "Without a policy all cases are in scope, and new damage, new errors, broken handlers, what stopped holding and\n"
      "operators that are no longer captured block. New damage blocks outside the scope too, unless a waiver names "
      "it.\n"
      "Half of the tests may be not measured (new or changed since the records); 10 % of the others may be unknown.\n"
      "`recapture list --features` has the words of a scope.\n"
      "Exit codes: 0 passes, 1 blocked, 6 too much is unknown; with --run those of run if a run does not complete.");
  return {command,
          [options, &root] { return gate(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture gate 2.6 2.11 --policy policy.toml", "block an upgrade by a policy"},
           {"recapture gate 2.6 2.11 -- python train.py", "for what this program uses"}},
          2};
}

}  // namespace recapture::commands

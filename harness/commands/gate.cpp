// recapture gate: whether a change between two releases or runs blocks, by a policy; from records, or from runs first.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/commands/compare.h"
#include "harness/compare/policy.h"
#include "harness/model/scope.h"
#include "harness/report/text.h"
#include "harness/run/layout.h"
#include "harness/run/machine.h"
#include "harness/run/process.h"
#include "harness/run/run.h"

namespace recapture::commands {
namespace {

// Nothing where one of the sides has no run on this machine.
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

// What an upgrade must be judged by. The operators are, where a run has them; nobody has to run them unless the policy
// names them.
std::set<std::string> cases_to_judge(const compare::Policy& policy, std::set<std::string> scope) {
  const std::string operators(kOperatorsCase);
  if (std::find(policy.scope.begin(), policy.scope.end(), operators) == policy.scope.end()) scope.erase(operators);
  return scope;
}

// The cases in scope of which a side lacks a result that it could have; nothing: all that there are.
std::optional<std::set<std::string>> missing(const std::optional<compare::Comparison>& so_far,
                                             const compare::Policy& policy, const compare::CompareContext& background) {
  if (!so_far && policy.scope.empty()) return std::nullopt;
  const std::set<std::string> scope = cases_to_judge(policy, cases_in_scope(policy.scope, background.catalogue));
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

// Runs on this machine, for both releases, what the records below `options.records` lack, and puts it there.
void run_missing(const run::Layout& places, CompareOptions& options, const compare::Policy& policy,
                 const compare::CompareContext& background) {
  for (std::string* side : {&options.from, &options.to}) *side = run::named_release(places, *side);
  choose_this_machine(places, options.machine);
  const auto cases = missing(comparison_so_far(places, options, background), policy, background);
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

Exit gate(const run::Layout& places, CompareOptions options) {
  check(options);
  std::vector<std::string> notes;
  const compare::Policy policy =
      options.policy.empty() ? compare::Policy() : compare::read_policy(options.policy, notes);
  for (const std::string& note : notes) print_error(note);
  const compare::CompareContext background = background_with_remedies(places);
  std::set<std::string> scope = cases_in_scope(policy.scope, background.catalogue);
  if (options.run) {
    if (options.records.empty()) options.records = places.build + "/gate";
    run_missing(places, options, policy, background);
  }
  compare::Comparison all = comparison_of(places, options, background);
  if (policy.scope.empty()) {  // Records have cases, too, that are not in the catalogue.
    for (const compare::ComparedTest& test : all.tests) scope.insert(case_of(test.test));
  }
  compare::add_never_run(cases_to_judge(policy, scope), background.catalogue, all);
  const std::string today = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  const compare::Decision decision = compare::decide(policy, all, scope, background.catalogue, today);
  for (const std::string& test : decision.blocking) scope.insert(case_of(test));
  const compare::Comparison shown = compare::filter_cases(all, scope);
  print_report({shown, policy, &decision}, options);
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
      "TOML: scope = [tags, cases], block = [consequences], unknown = percent, and [[waiver]] test, reason, until");
  command->add_flag("--run", options->run,
                    "Run first, on this machine's GPU, what the records of both releases lack; without --records, the "
                    "records of earlier gates");
  command->footer(
      "Without a policy all cases are in scope, 10 % of them may be unknown, and new damage, new errors, broken\n"
      "handlers, what stopped holding and operators that are no longer captured block. New damage blocks outside the\n"
      "scope too, unless a waiver names it.\n"
      "`recapture list --tags` has the words of a scope.\n"
      "Exit codes: 0 passes, 1 blocked, 6 too much is unknown; with --run those of run if a run does not complete.");
  return {command, [options, &root] { return gate(run::Layout::find(root), *options); }};
}

}  // namespace recapture::commands

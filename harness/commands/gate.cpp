// recapture gate: whether a policy blocks a change between two releases or runs; from records, or from runs first.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/output.h"
#include "harness/base/parallel.h"
#include "harness/base/text.h"
#include "harness/blame/features.h"
#include "harness/commands/commands.h"
#include "harness/commands/compare.h"
#include "harness/commands/watch.h"
#include "harness/compare/gaps.h"
#include "harness/compare/policy.h"
#include "harness/model/scope.h"
#include "harness/report/text.h"
#include "harness/run/layout.h"
#include "harness/run/machine.h"
#include "harness/run/process.h"
#include "harness/run/run.h"
#include "harness/store/select.h"

namespace recapture::commands {
namespace {

struct GateOptions {
  SideOptions sides;
  OutputOptions output;
  std::string policy, features;
  std::vector<std::string> without, program;
  bool run = false;
};

// Nothing if one of the sides has no run on this machine.
std::optional<compare::Comparison> comparison_so_far(const SideOptions& sides,
                                                     const compare::CompareContext& background) {
  for (const std::string& side : {sides.from, sides.to}) {
    if (!std::filesystem::exists(sides.records + "/" + side)) return std::nullopt;
  }
  try {
    return comparison_of(compare::sides_of(sides.from, sides.to, sides.machine, sides.records, background), background);
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

// The cases to judge for which a side lacks an obtainable result; nothing means all cases.
std::optional<std::set<std::string>> missing(const std::optional<compare::Comparison>& so_far,
                                             const std::set<std::string>& to_judge, bool is_all) {
  if (!so_far) return is_all ? std::nullopt : std::optional(to_judge);
  std::set<std::string> known, lacking;
  for (const compare::ComparedTest& test : so_far->tests) {
    known.insert(case_of(test.test));
    if (test.consequence == compare::Consequence::Unknown && test.ran) lacking.insert(case_of(test.test));
  }
  std::set<std::string> cases;
  for (const std::string& one : to_judge) {
    if (known.count(one) == 0 || lacking.count(one) != 0) cases.insert(one);
  }
  return cases;
}

// Runs on this machine, for both releases, what the records below `sides.records` lack; adds the new records there.
void run_missing(const run::Layout& places, SideOptions& sides, const std::set<std::string>& to_judge, bool is_all,
                 const compare::CompareContext& background) {
  for (std::string* side : {&sides.from, &sides.to}) *side = run::named_release(places, *side);
  choose_this_machine(places, sides.machine);
  const auto cases = missing(comparison_so_far(sides, background), to_judge, is_all);
  if (cases && cases->empty()) return;
  const StdoutToStderr aside;
  for (const std::string& release : {sides.from, sides.to}) {
    run::RunOptions run_options;
    run_options.release = release;
    if (cases) run_options.filters.assign(cases->begin(), cases->end());
    run_options.record = new_record(sides.records + "/" + release);
    print("{}:\n", release);
    run::run_cases(places, run_options, report::render_line);
  }
}

// What a program uses, observed now.
compare::Features observe(const run::Layout& places, const std::vector<std::string>& program) {
  const std::string words = join(program, " ");
  const StdoutToStderr aside;
  const Watched watched = watch(places, program, {false, true});
  if (!watched.why_nothing.empty()) {
    const int code = WIFEXITED(watched.status) ? WEXITSTATUS(watched.status) : 128 + WTERMSIG(watched.status);
    throw ExitError(
        Exit::Usage,
        fmt::format("{} has not used CUDA's driver, so what it uses is not known: {}", escape_control(words),
                    code == 0 ? watched.why_nothing : fmt::format("it ended with exit status {}", code)));
  }
  const bool failed = watched.status != 0 || !watched.not_whole.empty();
  compare::Features features = blame::features_in(watched.events, failed);
  features.program = words;
  return features;
}

// Of the program, or of the file. Nothing if neither is requested.
std::optional<compare::Features> features_of(const run::Layout& places, const std::vector<std::string>& program,
                                             const std::string& file) {
  if (!program.empty() && !file.empty()) {
    throw ExitError(Exit::Usage,
                    "a program and --features cannot be combined: the file is of a program that ran before");
  }
  if (!program.empty()) return observe(places, program);
  if (!file.empty()) return compare::read_features(file);
  return std::nullopt;
}

compare::Policy policy_of(const std::string& path, const std::vector<std::string>& without) {
  std::vector<std::string> notes;
  compare::Policy policy = path.empty() ? compare::Policy() : compare::read_policy(path, notes);
  for (const std::string& note : notes) print_error(note);
  for (const std::string& word : without) add_once(policy.without, compare::require_feature(word, "--without"));
  return policy;
}

// The cases in scope. What the program was seen not to use goes into the policy's `without`.
std::set<std::string> scope_of(compare::Policy& policy, const std::optional<compare::Features>& features,
                               const Catalogue& catalogue) {
  if (features) {
    for (const compare::Feature* one : features->of(compare::Use::NotUsed)) {
      add_once(policy.without, std::string(one->tag->name));
    }
  }
  return features ? compare::cases_in_scope(*features, catalogue) : cases_in_scope(policy.scope, catalogue);
}

// Judged as compare does. A record that cannot be read is reported where it is a side.
std::vector<JudgedRun> judged(const std::vector<std::string>& paths, const Rules& rules,
                              const std::set<std::string>& cases = {}) {
  std::vector<std::optional<JudgedRun>> runs(paths.size());
  in_parallel(paths.size(), [&](size_t i) {
    try {
      if (environment_of(paths[i]).broken != Break::Nothing) return;
      runs[i] = compare::judge_run(cases.empty() ? read_record(paths[i]) : read_cases(paths[i], cases), rules);
    } catch (const ExitError&) {  // As above.
    }
  });
  std::vector<JudgedRun> all;
  for (auto& run : runs) {
    if (run) all.push_back(std::move(*run));
  }
  return all;
}

// Whether the user's choice includes a machine beside the one compared. A part of a GPU's name chooses one GPU.
bool is_chosen_too(const compare::MachineChoice& choice, const Environment& other, const MachineId& compared) {
  const bool is_other_gpu = !choice.gpu.empty() && other.machine.gpu != compared.gpu;
  const bool is_other_driver = !choice.driver.empty() && other.machine.driver != compared.driver;
  return !is_other_gpu && !is_other_driver && chosen(choice, other);
}

// What the comparison lacks, by all records in the folders.
compare::Gaps gaps_in(const compare::Comparison& comparison, const compare::BothSides& sides,
                      const compare::MachineChoice& choice, const std::vector<std::string>& folders,
                      const compare::CompareContext& background) {
  const Rules& rules = background.rules;
  const Rules as_compared = compare::without_staleness(rules);
  const std::vector<JudgedRun> others_then = judged(sides.other_records_of_from, as_compared);
  std::map<std::string, std::vector<JudgedRun>> others_now;  // By machine.
  for (JudgedRun& run : judged(sides.other_records_of_to, as_compared)) {
    others_now[label(run.record.environment.machine, {.driver = true})].push_back(std::move(run));
  }
  const MachineId& compared = sides.to.runs.front().record.environment.machine;
  compare::Shown here, older;
  compare::History history;
  std::vector<compare::Elsewhere> elsewhere;
  for (const JudgedRun& run : sides.from.runs) here.add(run, rules);
  for (const auto* runs : {&sides.from.runs, &others_then}) {
    for (const JudgedRun& run : *runs) older.add(run, rules);
    for (const JudgedRun& run : *runs) history.add(run, rules);
  }
  for (const JudgedRun& run : sides.to.runs) history.add(run, rules);
  for (const auto& [machine, runs] : others_now) {
    for (const JudgedRun& run : runs) history.add(run, rules);
    const Environment& its = runs.front().record.environment;
    elsewhere.push_back({machine, is_chosen_too(choice, its, compared), compare::damage_in(runs, rules)});
  }
  const std::set<std::string> judged_then = here.tests();
  const std::vector<compare::Damage> newer = compare::damage_in(sides.to.runs, rules);
  const compare::GapInput input{comparison,
                                sides.from.runs.front().record.environment.release,
                                sides.to.runs.front().record.environment.release,
                                judged_then,
                                older,
                                newer,
                                elsewhere};
  if (const std::set<std::string> cases = compare::cases_in_question(input, background); !cases.empty()) {
    for (const std::string& folder : folders) {
      for (const JudgedRun& run : judged(records_below(folder), as_compared, cases)) history.add(run, rules);
    }
  }
  return gaps_of(input, history, background);
}

Exit gate(const run::Layout& places, const GateOptions& options) {
  check(options.output);
  SideOptions sides = options.sides;
  check(places, sides);
  compare::Policy policy = policy_of(options.policy, options.without);
  sides.machine.machines = policy.machines;
  if (!policy.scope.empty() && (!options.program.empty() || !options.features.empty())) {
    throw ExitError(Exit::Usage, options.policy + ": 'scope' and a program's features cannot be combined");
  }
  const std::optional<compare::Features> features = features_of(places, options.program, options.features);
  const compare::CompareContext background = background_with_remedies(places);
  const Catalogue& catalogue = background.catalogue;
  std::set<std::string> scope = scope_of(policy, features, catalogue);
  if (options.run) {
    if (sides.records.empty()) sides.records = places.build + "/gate";
    run_missing(places, sides, cases_to_judge(policy, scope, background.rules), scope.size() == catalogue.size(),
                background);
  }
  const std::string records = records_of(places, sides.records);
  const compare::BothSides both = compare::sides_of(sides.from, sides.to, sides.machine, records, background);
  compare::Comparison all = comparison_of(both, background);
  if (policy.scope.empty() && !features) {  // Records may also have cases that are not in the catalogue.
    for (const compare::ComparedTest& test : all.tests) {
      if (find_case(catalogue, case_of(test.test)) == nullptr) scope.insert(case_of(test.test));
    }
  }
  compare::add_never_run(cases_to_judge(policy, cases_in_scope({}, catalogue), background.rules), catalogue, all);
  const compare::Gaps gaps = gaps_in(all, both, sides.machine, {records, places.reports()}, background);
  compare::leave_out_known_gaps(gaps, all);
  for (const std::string& word : policy.scope) compare::demand_measured(cases_named(word, catalogue), all);
  const std::string today = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  const compare::Decision decision = compare::decide(policy, all, scope, catalogue, today, gaps);
  std::set<std::string> shown = scope;
  for (const std::string& test : decision.blocking) shown.insert(case_of(test));
  print_report({compare::filter_cases(all, shown), policy, &decision, features ? &*features : nullptr}, options.output);
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
  const auto options = std::make_shared<GateOptions>();
  auto* command = add_comparison(app, "gate", "Decide by a policy whether a change blocks an upgrade", options->sides,
                                 options->output);
  command->add_option(
      "--policy", options->policy,
      "TOML: scope = [tags, cases], without = [features], machines = [names], block = [consequences], unknown = "
      "percent, not_measured = percent, and [[waiver]] test, reason, until");
  command->add_option("--without", options->without, "A feature that the program does not have, as in a policy")
      ->allow_extra_args(false);
  command->add_option("--features", options->features,
                      "Take as scope what a program uses, as recapture blame --features FILE observed it");
  command->add_option("program", options->program,
                      "After --: a program to run now under blame; what it uses is the scope");
  command->add_flag("--run", options->run,
                    "Run first, on this machine's GPU, what the records of both releases lack; without --records, the "
                    "records of earlier gates");
  command->add_flag("--verbose", options->output.verbose,
                    "Print every change, price, note and reason, and not only the verdict and what blocks");
  command->footer(
      "Without a policy all cases are in scope, and new damage, new errors, broken handlers, what stopped holding and\n"
      "operators that are no longer captured block. Damage blocks outside the scope too, unless a waiver names it or\n"
      "the program lacks a feature that it takes. A test that could hide damage must have a result; of the others, "
      "half\n"
      "may be not measured (new or changed since the records), and 10 % of the rest unknown.\n"
      "`recapture list --features` has the words of a scope.\n"
      "Exit codes: 0 passes, 1 blocked, 6 cannot tell; 2 wrong usage or unknown name, 4 there is no such run, 7 JUnit "
      "XML\n"
      "cannot be written; with --run those of run if a run does not complete.");
  return {command,
          [options, &root] { return gate(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture gate 2.6 2.11 --policy policy.toml", "block an upgrade by a policy"},
           {"recapture gate 2.6 2.11 -- python train.py", "for what this program uses"}},
          2};
}

}  // namespace recapture::commands

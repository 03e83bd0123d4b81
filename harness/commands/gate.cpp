// recapture gate: whether a policy blocks a change between two releases or runs; from records, or from runs first.
#include "harness/commands/gate.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
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
#include "harness/commands/watch.h"
#include "harness/compare/gates.h"
#include "harness/model/operator_cases.h"
#include "harness/model/scope.h"
#include "harness/report/decision.h"
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

// The cases in scope.
std::set<std::string> scope_of(const compare::Policy& policy, const std::optional<compare::Features>& features,
                               const Catalogue& catalogue) {
  return features ? compare::cases_in_scope(*features, catalogue) : cases_in_scope(policy.scope, catalogue);
}

// A record that cannot be read is reported where it is a side.
std::vector<const JudgedRun*> judged(const std::vector<std::string>& paths, compare::JudgedRecords& read) {
  std::vector<const JudgedRun*> runs(paths.size());
  in_parallel(paths.size(), [&](size_t i) {
    try {
      if (read.environment(paths[i]).broken == Break::Nothing) runs[i] = &read.judged(paths[i]);
    } catch (const ExitError&) {  // As above.
    }
  });
  std::erase(runs, nullptr);
  return runs;
}

// Whether the user's choice includes a machine beside the one compared. A word for a GPU chooses one GPU.
bool is_chosen_too(const compare::MachineChoice& choice, const Environment& other, const MachineId& compared) {
  const bool is_other_gpu = !choice.gpu.empty() && other.machine.gpu != compared.gpu;
  const bool is_other_driver = !choice.driver.empty() && other.machine.driver != compared.driver;
  return !is_other_gpu && !is_other_driver && chosen(choice, other);
}

// What is asked, with its files read.
struct GateRequest {
  SideOptions sides;
  compare::Policy policy;                     // With what the program was seen not to use in `without`.
  std::optional<compare::Features> features;  // Of a program; then the policy has no scope.
  bool run = false;                           // First, what the records lack.
};

GateRequest request_of(const run::Layout& places, const GateOptions& options) {
  check(options.output);
  check(places, options.sides);
  if (options.run && options.sides.machine.is_of_two_machines()) {
    throw ExitError(Exit::Usage,
                    "--run runs on this machine alone; it cannot be combined with --from-driver, --to-driver, "
                    "--from-gpu or --to-gpu");
  }
  GateRequest request{options.sides, gate_policy(options.policy, options.without), {}, options.run};
  request.sides.machine.machines = request.policy.machines;
  if (!request.policy.scope.empty() && (!options.program.empty() || !options.features.empty())) {
    throw ExitError(Exit::Usage, options.policy + ": 'scope' and a program's features cannot be combined");
  }
  request.features = features_of(places, options.program, options.features);
  if (request.features) {
    for (const compare::Feature* feature : request.features->of(compare::Use::NotUsed)) {
      add_once(request.policy.without, std::string(feature->tag->name));
    }
  }
  return request;
}

GateAnswer answer_to(const run::Layout& places, const GateRequest& request) {
  const auto& [asked, policy, features, is_run] = request;
  SideOptions sides = asked;
  const compare::CompareContext background = background_with_remedies(places);
  const Catalogue& catalogue = background.catalogue;
  if (is_run) {
    if (sides.records.empty()) sides.records = places.build + "/gate";
    const std::set<std::string> scope = scope_of(policy, features, catalogue);
    run_missing(places, sides, compare::cases_to_judge(scope, background.rules, names_operators(policy)),
                scope.size() == catalogue.size(), background);
  }
  // Never freed: freeing each text would take a tenth of the run time.
  auto& records = *new GateRecords(records_of(places, sides.records), places.reports(), background);
  return answer_gate(records.sides(sides, names_operators(policy)), policy, features, catalogue);
}

Exit gate(const run::Layout& places, const GateOptions& options) {
  const GateRequest request = request_of(places, options);
  const GateAnswer answer = answer_to(places, request);
  print_report({answer.shown, request.policy, &answer.decision, request.features ? &*request.features : nullptr},
               options.output);
  return answer.decision.exit();
}

}  // namespace

GateSides GateRecords::sides(const SideOptions& sides, bool names_operators) {
  const compare::BothSides both =
      compare::sides_of(sides.from, sides.to, sides.machine, folder_, background_, read_, reports_);
  GateSides found{comparison_of(both, background_), {}};
  const auto all = cases_in_scope({}, background_.catalogue);
  const std::set<std::string> judged = compare::cases_to_judge(all, background_.rules, names_operators);
  compare::add_never_run(compare::tests_to_judge(judged, background_.catalogue), found.comparison);
  found.gaps = gaps_in(found.comparison, both, sides.machine);
  compare::leave_out_known_gaps(found.gaps, found.comparison);
  return found;
}

// What the comparison lacks, by all records in the folders.
compare::Gaps GateRecords::gaps_in(const compare::Comparison& comparison, const compare::BothSides& sides,
                                   const compare::MachineChoice& choice) {
  const Rules& rules = background_.rules;
  const std::vector<const JudgedRun*> others_then = judged(sides.other_records_of_from, read_);
  const std::vector<const JudgedRun*> others_now = judged(sides.other_records_of_to, read_);
  compare::Shown then, older, now;
  for (const JudgedRun& run : sides.from.runs) then.add(run, rules);
  for (const JudgedRun& run : sides.to.runs) now.add(run, rules);
  older.add(then);
  for (const JudgedRun* run : others_then) older.add(*run, rules);
  std::map<std::string, std::vector<const JudgedRun*>> by_machine;
  for (const JudgedRun* run : others_now) {
    by_machine[label(run->record.environment.machine, {.driver = true})].push_back(run);
  }
  const MachineId& compared = sides.to.runs.front().record.environment.machine;
  std::vector<compare::Elsewhere> elsewhere;
  for (const auto& [machine, runs] : by_machine) {
    elsewhere.push_back({machine, is_chosen_too(choice, runs.front()->record.environment, compared),
                         compare::damage_in(ResultStore(runs), rules)});
  }
  const std::vector<compare::Damage> damage = compare::damage_in(ResultStore(sides.to.runs), rules);
  const compare::GapInput input{comparison,
                                sides.from.runs.front().record.environment.release,
                                sides.to.runs.front().record.environment.release,
                                then,
                                older,
                                now,
                                damage,
                                elsewhere};
  if (history_ != nullptr) return gaps_of(input, *history_, background_);
  compare::History history(background_);
  for (const auto* runs : {&sides.from.runs, &sides.to.runs}) {
    for (const JudgedRun& run : *runs) history.add(run, rules);
  }
  for (const auto* runs : {&others_then, &others_now}) {
    for (const JudgedRun* run : *runs) history.add(*run, rules);
  }
  Question question{input, compare::cases_in_question(input, background_), {}};
  std::erase_if(question.hiding, [&](const std::string& id) { return history.can_hide_damage(id); });
  for (const compare::Gap& gap : gaps_of(input, history, background_).open) {
    if (gap.kind == compare::GapKind::OnlyNewer) question.earlier.insert(case_of(gap.test));
  }
  add_to_history(folder_, question, history);
  if (folder_ != reports_) add_to_history(reports_, question, history);
  return gaps_of(input, history, background_);
}

// Judged as compare does. A release at a time: what it shows may answer for a case.
void GateRecords::add_to_history(const std::string& folder, Question& question, compare::History& history) {
  const Rules as_compared = compare::without_staleness(background_.rules);
  const auto read = [&](const std::string& path) -> std::optional<JudgedRun> {
    const Environment& environment = read_.environment(path);
    if (environment.broken != Break::Nothing) return std::nullopt;
    std::set<std::string> wanted = question.hiding;
    const bool is_earlier =
        environment.release.is_older_than(question.input.from) && environment.release.is_older_than(question.input.to);
    if (is_earlier) wanted.insert(question.earlier.begin(), question.earlier.end());
    if (wanted.empty()) return std::nullopt;
    Record record = read_cases(path, wanted);
    std::erase_if(record.plan, [&](const std::string& test) { return !wanted.contains(case_of(test)); });
    return compare::judge_run(std::move(record), as_compared);
  };
  std::map<std::filesystem::path, std::vector<std::string>> folders;  // Each release has one.
  for (const std::string& path : records_below(folder)) {
    folders[std::filesystem::path(path).parent_path()].push_back(path);
  }
  for (const auto& of_release : folders) {
    const std::vector<std::string>& paths = of_release.second;
    if (question.hiding.empty() && question.earlier.empty()) return;
    std::vector<std::optional<JudgedRun>> runs(paths.size());
    in_parallel(paths.size(), [&](size_t i) {
      try {
        runs[i] = read(paths[i]);
      } catch (const ExitError&) {  // It is reported where it is a side.
      }
    });
    for (const auto& run : runs) {
      if (run) history.add(*run, background_.rules);
    }
    std::erase_if(question.hiding, [&](const std::string& id) { return history.can_hide_damage(id); });
  }
}

void GateRecords::read_all() {
  of_reports_ = std::make_unique<compare::History>(background_);
  for (const JudgedRun* run : judged(records_below(reports_), read_)) of_reports_->add(*run, background_.rules);
  change_folder(folder_);
}

void GateRecords::change_folder(const std::string& folder) {
  if (folder != folder_ && folder_ != reports_) read_.forget_below(folder_);
  folder_ = folder;
  history_ = std::make_unique<compare::History>(background_, of_reports_.get());
  if (folder_ == reports_) return;
  for (const JudgedRun* run : judged(records_below(folder_), read_)) history_->add(*run, background_.rules);
}

GateAnswer answer_gate(GateSides sides, const compare::Policy& policy, const std::optional<compare::Features>& features,
                       const Catalogue& catalogue) {
  auto& [all, gaps] = sides;
  std::set<std::string> scope = scope_of(policy, features, catalogue);
  if (policy.scope.empty() && !features) {  // Records may also have cases that are not in the catalogue.
    for (const compare::ComparedTest& test : all.tests) {
      if (find_case(catalogue, case_of(test.test)) == nullptr) scope.insert(case_of(test.test));
    }
  }
  for (const std::string& word : policy.scope) compare::demand_measured(cases_named(word, catalogue), all);
  const std::string today = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  GateAnswer answer{{}, compare::decide(policy, all, scope, catalogue, today, gaps)};
  for (const std::string& test : answer.decision.blocking) scope.insert(case_of(test));
  answer.shown = compare::filter_cases(all, scope);
  return answer;
}

compare::Policy gate_policy(const std::string& path, const std::vector<std::string>& without) {
  std::vector<compare::RenamedWord> renamed;
  compare::Policy policy = path.empty() ? compare::Policy() : compare::read_policy(path, renamed);
  for (const compare::RenamedWord& word : renamed) print_error(report::render_renamed(path, word));
  for (const std::string& word : without) add_once(policy.without, compare::require_feature(word, "--without"));
  return policy;
}

bool names_operators(const compare::Policy& policy) {
  return std::ranges::any_of(policy.scope, [](const std::string& word) { return lists_operators(word); });
}

std::string new_record(const std::string& folder) {
  const std::string first = fmt::format("{}/{:%Y%m%d-%H%M%S}", folder, fmt::gmtime(std::time(nullptr)));
  std::string path = first + ".jsonl";
  for (int n = 2; std::filesystem::exists(path); ++n) path = fmt::format("{}.{}.jsonl", first, n);
  return path;
}

void choose_this_machine(const run::Layout& places, compare::MachineChoice& choice) {
  run::become_subreaper();
  const run::Machine machine = run::ask_machine(places);
  if (machine.gpus == 0 && !choice.gpu_filter().is_none()) {
    throw ExitError(Exit::Infrastructure, "no GPU to run on: " + machine.reason + "; --gpu none runs what needs none");
  }
  if (machine.gpus == 0) return;
  choice = {machine.gpu, machine.driver, choice.libraries};
  choice.is_gpu_name = true;
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

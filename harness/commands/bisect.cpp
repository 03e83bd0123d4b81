// recapture bisect: which release changed a test's result, from the records and from runs of what they lack.
#include "harness/timeline/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/letter_case.h"
#include "harness/base/output.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/case/events.h"
#include "harness/commands/commands.h"
#include "harness/compare/sides.h"
#include "harness/model/catalogue.h"
#include "harness/model/origin.h"
#include "harness/model/release.h"
#include "harness/report/bisect.h"
#include "harness/report/text.h"
#include "harness/run/layout.h"
#include "harness/run/machine.h"
#include "harness/run/run.h"
#include "harness/timeline/runs.h"
#include "harness/verdict/rate.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

struct BisectOptions {
  std::string test;
  std::vector<std::string> records;
  compare::MachineChoice machine;
  std::vector<std::string> folders;
  bool run = false, json = false;
};

// Of all runs below a folder what they have of one case. Counts what cannot be read.
std::vector<Record> records_of_case(const std::string& case_id, const std::string& folder, size_t& unread) {
  std::vector<Record> records;
  auto [runs, bad] = timeline::runs_below(folder, {case_id});
  for (Record& record : runs) {
    if (record.broken() != Break::Nothing || (record.plan.empty() && record.tests.empty())) continue;
    records.push_back(std::move(record));
  }
  for (const timeline::BadRecord& one : bad)
    print_error(fmt::format("{}/{}: {}; left out", folder, one.path, one.reason));
  unread += bad.size();
  return records;
}

// LibTorch in a site-packages folder, by the name that tools/libtorch uses: pip's version, else LibTorch's own.
std::string release_in(const std::string& folder) {
  static const RE2 kInstalled(R"(torch-(.+)\.dist-info)"), kItself(R"re(__version__ = '([^']+)')re");
  std::string found;
  const std::string about = folder + "/torch/version.py";
  if (fs::exists(about)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (RE2::FullMatch(name, kInstalled, &found)) return found;
    }
    const std::string text = contents_of(about);
    if (RE2::PartialMatch(text, kItself, &found)) return found;
  }
  throw ExitError(Exit::Usage,
                  fmt::format("{} has no torch/version.py; --libtorch takes site-packages folders, in their order",
                              escape_control(folder)));
}

class Question {
 public:
  Question(const run::Layout& places, const BisectOptions& options)
      : places_(places),
        options_(options),
        background_(timeline::observed(compare::read_compare_context(places.root))) {
    const Catalogue& catalogue = background_.catalogue;
    const auto names = named(options.test, names_in(catalogue));
    if (names.size() != 1 || names.front().find('.') == std::string::npos) {
      throw ExitError(Exit::Usage, fmt::format("bisect takes one test, such as {}", example(names.front())));
    }
    test_ = names.front();
  }

  Exit answer() {
    if (background_.rules.simulated.count(case_of(test_)) != 0) {
      throw ExitError(Exit::NothingRan,
                      fmt::format("{} is simulated: a model of ours, independent of the release", case_of(test_)));
    }
    if (!options_.folders.empty()) {
      search_folders();
    } else if (options_.run) {
      search_releases();
    } else {
      take_records();
    }
    if (found_.empty()) {
      std::string known;
      if (!options_.machine.gpu.empty() && !options_.run && options_.folders.empty()) {
        std::vector<Record> all;
        for (const std::string& folder : folders()) {
          std::ranges::move(timeline::runs_below(folder, {case_of(test_)}).records, std::back_inserter(all));
        }
        known = timeline::gpus_on_record(all);
      }
      throw ExitError(Exit::NothingRan, fmt::format("no run with these options has {}{}", test_, known));
    }
    const CatalogueCase* one = background_.find(case_of(test_));
    const std::vector<timeline::MachineTimeline> machines = timeline::folded(found_);
    if (options_.json) {
      Json json = {{"schema", 1}, {"test", test_}, {"machines", Json::array()}};
      for (const timeline::MachineTimeline& course : found_) json["machines"].push_back(report::render_json(course));
      print("{}\n", to_text(json, 1));
    } else {
      print("{}{}\n", test_, one == nullptr ? "" : ": " + one->title);
      for (const timeline::MachineTimeline& course : machines) print("\n{}", report::render_text(course));
    }
    const Exit exit = exit_for(machines);
    return exit == Exit::AsExpected && unread_ > 0 ? Exit::Inconclusive : exit;  // They may show another change.
  }

 private:
  // A test of that case or family.
  std::string example(const std::string& name) const {
    for (const CatalogueCase& one : background_.catalogue) {
      if (one.id != name && one.family != name && case_of(name) != one.id) continue;
      for (const CatalogueTest& test : one.tests) {
        if (test.kind == Kind::Reproduces) return one.id + "." + test.name;
      }
    }
    return "item_in_capture.Reproduces";
  }

  // The requested version, or nothing.
  std::string wanted(const OverridableLibrary& library) const {
    const auto found = options_.machine.libraries.find(library.key);
    return found == options_.machine.libraries.end() ? "" : found->second;
  }

  // As in compare; a chosen CUDA runtime or NCCL counts as another machine.
  bool is_wanted(const Environment& environment) const {
    return compare::chosen(options_.machine, environment) &&
           std::ranges::all_of(kOverridableLibraries, [&](const OverridableLibrary& library) {
             const std::string version = wanted(library);
             return version.empty() ||
                    (environment.machine.has_override(library) && text_at(environment.json(), library.key) == version);
           });
  }

  std::vector<std::string> folders() const {
    return options_.records.empty() ? std::vector{places_.reports()} : options_.records;
  }

  std::vector<Record> records() {
    std::vector<std::string> all_folders = folders();
    if (options_.run && fs::is_directory(kept())) all_folders.push_back(kept());
    std::vector<Record> all;
    for (const std::string& folder : all_folders) {
      if (!fs::is_directory(folder)) continue;
      for (Record& record : records_of_case(case_of(test_), folder, unread_)) all.push_back(std::move(record));
    }
    return all;
  }

  // Where bisect writes its own runs.
  std::string kept() const { return places_.build + "/bisect"; }

  void take_records() {
    for (const std::string& folder : options_.records) {
      if (!fs::is_directory(folder)) throw ExitError(Exit::Usage, escape_control(folder) + " is not a folder");
    }
    const auto matrix = read_matrix(places_.root);
    std::vector<compare::MachineSides> machines = compare::sides_by_machine(records(), background_);
    GpusOnRecord gpus;
    for (const compare::MachineSides& machine : machines) gpus.add(machine.environment);
    if (!options_.machine.gpu.empty()) compare::choose_gpu(options_.machine, gpus);
    for (compare::MachineSides& machine : machines) {
      if (!is_wanted(machine.environment)) continue;
      timeline::MachineTimeline one{machine.name, timeline::with_gaps(std::move(machine.releases), matrix), {}};
      one.course = timeline::TimelineBuilder(one.sides, background_).of(test_);
      const auto any = [](const timeline::ReleaseResult& stand) { return !stand.record.empty(); };
      if (std::ranges::any_of(one.course.stands, any)) found_.push_back(std::move(one));
    }
  }

  // Runs one side after the other until the result is found.
  void search(timeline::MachineTimeline& one, std::vector<bool> can_run, const std::function<void(size_t)>& run_side) {
    const StdoutToStderr aside;
    for (;;) {
      one.course = timeline::TimelineBuilder(one.sides, background_).of(test_);
      const auto next = timeline::next_to_run(one.course, can_run);
      if (!next) break;
      can_run[*next] = false;
      run_side(*next);
    }
    for (size_t i = 0; i < one.sides.size(); ++i) {
      timeline::ReleaseResult& stand = one.course.stands[i];
      if (const auto why = cannot_.find(i); why != cannot_.end() && stand.result.empty()) {
        stand.unknown = {.kind = compare::UnknownKind::CannotRun, .text = why->second};
      }
    }
  }

  // Runs the case as it is built today; a race that does not occur is run often enough to count as absent.
  void run_case(compare::Side& side, size_t at, const std::string& release, const std::string& folder) {
    for (size_t i = 0; i < kFewestRuns; ++i) {
      run::RunOptions options;
      options.release = release;
      options.libtorch = folder;
      for (const OverridableLibrary& library : kOverridableLibraries) {
        if (!wanted(library).empty()) options.libraries[library.key] = wanted(library);
      }
      options.filters = {case_of(test_)};
      options.record = new_record(kept() + "/" + release);
      print("{}:\n", side.name);
      try {
        Record record = run::run_cases(places_, options, report::render_line).record;
        const TestRecord* seen = record.find(test_);
        const bool may_yet_occur = kind_of_id(test_) == Kind::Reproduces && seen != nullptr && seen->has_rate() &&
                                   seen->number(key::hits).value_or(0) == 0;
        side.runs.insert(side.runs.begin(), compare::judge_without_staleness(std::move(record), background_));
        if (!may_yet_occur) return;
      } catch (const ExitError& stop) {
        // Does it concern this release, or all remaining ones?
        if (stop.code != Exit::Infrastructure) throw;
        const run::Machine now = run::ask_machine(places_);
        if (now.gpus > 0 ? !now.answers() : !options_.machine.gpu.empty() && !options_.machine.gpu_filter().is_none())
          throw;
        cannot_[at] = stop.what();
        print_error(stop.what());
        return;
      }
    }
  }

  void search_releases() {
    compare::MachineChoice& machine = options_.machine;
    choose_this_machine(places_, machine);
    timeline::MachineTimeline one{"", {}, {}};
    for (compare::MachineSides& known : compare::sides_by_machine(records(), background_)) {
      const bool has_all_its_own = std::ranges::none_of(kOverridableLibraries, [&](const auto& library) {
        return known.environment.machine.has_override(library) && wanted(library).empty();
      });
      if (!is_wanted(known.environment) || !has_all_its_own) continue;
      if (!known.environment.machine.variables.empty()) continue;
      one.machine = known.name;
      one.sides = std::move(known.releases);
    }
    std::vector<std::string> releases = read_matrix(places_.root), built = run::built_releases(places_);
    releases.insert(releases.end(), built.begin(), built.end());
    one.sides = timeline::with_gaps(std::move(one.sides), releases);
    name_machine(one);
    std::vector<bool> can_run;
    for (size_t i = 0; i < one.sides.size(); ++i) {
      const bool is_built = contains(built, one.sides[i].name);
      can_run.push_back(is_built);
      if (!is_built) cannot_[i] = "not on record, and not built here";
    }
    search(one, can_run, [&](size_t side) { run_case(one.sides[side], side, one.sides[side].name, ""); });
    found_.push_back(std::move(one));
  }

  void search_folders() {
    choose_this_machine(places_, options_.machine);
    timeline::MachineTimeline one{"", {}, {}};
    std::vector<std::string> releases;
    std::vector<bool> can_run;
    for (const std::string& folder : options_.folders) {
      releases.push_back(release_in(folder));
      const bool is_built = fs::is_directory(places_.cases_of(releases.back()));
      if (!is_built) {
        cannot_[one.sides.size()] = fmt::format("its cases are not built; `ci/suite --build {}` does", folder);
      }
      can_run.push_back(is_built);
      const bool again = std::ranges::count(releases, releases.back()) > 1;
      one.sides.push_back({escape_control(again ? folder : releases.back()), {}});
    }
    name_machine(one);
    search(one, can_run, [&](size_t side) { run_case(one.sides[side], side, releases[side], options_.folders[side]); });
    found_.push_back(std::move(one));
  }

  // A machine without records yet.
  void name_machine(timeline::MachineTimeline& one) const {
    if (!one.machine.empty()) return;
    MachineId machine;
    if (!options_.machine.gpu_filter().is_none()) machine.gpu = options_.machine.gpu;
    machine.driver = options_.machine.driver;
    for (const OverridableLibrary& library : kOverridableLibraries) {
      if (!wanted(library).empty()) machine.overrides[library.key] = wanted(library);
    }
    one.machine = label(machine, {.driver = true, .overrides = true});
  }

  const run::Layout& places_;
  BisectOptions options_;
  const compare::CompareContext background_;
  std::string test_;
  std::vector<timeline::MachineTimeline> found_;
  std::map<size_t, std::string> cannot_;  // By side, why it did not run.
  size_t unread_ = 0;                     // Records.
};

}  // namespace

Verb bisect_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<BisectOptions>();
  auto* command = app.add_subcommand("bisect", "Find the release or build that changed a test's result");
  command->add_option("test", options->test, "A test as case.Test")->required();
  command->add_option("--gpu", options->machine.gpu,
                      "Words of the GPU's name, such as H100; none for runs without one");
  command->add_option("--driver", options->machine.driver, "The driver's version, or its first numbers, such as 580");
  for (const OverridableLibrary& library : kOverridableLibraries) {
    command->add_option(library.option, options->machine.libraries[library.key],
                        fmt::format("Only runs with this {}", library.name));
  }
  command
      ->add_option("--records", options->records,
                   "Folder of the records (default: reports/); may be repeated, for example for releases and nights")
      ->allow_extra_args(false);
  command->add_flag(
      "--run", options->run,
      "Run the case on this machine's GPU, by binary search among the built releases that have no record; the records "
      "are kept below build/bisect/");
  command->add_option(
      "--libtorch", options->folders,
      "Run the case with the LibTorch in these site-packages folders, in their order, by binary search");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->footer(
      "Exit codes: 0 each change lies between two neighbouring releases, or there is none; 2 wrong usage or unknown "
      "name;\n"
      "4 no record has the test; 6 several releases may have made a change, fewer than two have a result, or a record "
      "cannot be read; with "
      "--run\n"
      "and --libtorch those of run if a run does not complete.");
  return {command,
          [options, &root] {
            const run::Layout places = run::Layout::find(root);
            return Question(places, *options).answer();
          },
          Signals::Output,
          {{"recapture bisect item_in_capture.Reproduces", "the release that changed its result, from the records"},
           {"recapture bisect item_in_capture.Reproduces --run", "runs what the records lack on this machine"}}};
}

}  // namespace recapture::commands

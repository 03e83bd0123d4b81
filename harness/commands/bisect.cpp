// recapture bisect: which release changed what a test shows, from the records, and from runs of what they lack.
#include "harness/compare/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <regex>

#include "harness/case/events.h"
#include "harness/commands/commands.h"
#include "harness/compare/sides.h"
#include "harness/history/runs.h"
#include "harness/judge/catalogue.h"
#include "harness/judge/rate.h"
#include "harness/judge/version.h"
#include "harness/record/file.h"
#include "harness/record/output.h"
#include "harness/record/spelling.h"
#include "harness/record/visible.h"
#include "harness/run/machine.h"
#include "harness/run/places.h"
#include "harness/run/run.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

struct Options {
  std::string test, records;
  MachineChoice machine;
  std::vector<std::string> folders;
  bool run = false, json = false;
};

// Of all runs below a folder what they have of one case.
std::vector<Record> records_of(const std::string& case_id, const std::string& folder) {
  std::vector<Record> records;
  auto [runs, bad] = runs_below(folder, {case_id});
  for (Run& run : runs) {
    Record& record = run.record;
    if (record.broken() != Break::Nothing || (record.plan.empty() && record.tests.empty())) continue;
    record.environment = record.environment.with("volatile", {{"started", run.started}});
    record.path = run.path;
    records.push_back(std::move(record));
  }
  for (const BadRecord& one : bad) say_last_words(fmt::format("{}/{}: {}; left out", folder, one.path, one.reason));
  return records;
}

// LibTorch in a site-packages folder as ci/libtorch names it: as pip does, or else as it names itself.
std::string release_in(const std::string& folder) {
  static const std::regex kInstalled(R"(torch-(.+)\.dist-info)"), kItself(R"re(__version__ = '([^']+)')re");
  std::smatch found;
  const std::string about = folder + "/torch/version.py";
  if (fs::exists(about)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (std::regex_match(name, found, kInstalled)) return found[1];
    }
    const std::string text = contents_of(about);
    if (std::regex_search(text, found, kItself)) return found[1];
  }
  throw Stop(Exit::Usage,
             fmt::format("{} has no torch/version.py; --libtorch takes site-packages folders, in their order",
                         visible(folder)));
}

class Question {
 public:
  Question(const Places& places, const Options& options)
      : places_(places), options_(options), background_(observed(background_of(places.root))) {
    const Catalogue& catalogue = background_.catalogue;
    const auto names = named(options.test, names_in(catalogue));
    if (names.size() != 1 || names.front().find('.') == std::string::npos) {
      throw Stop(Exit::Usage, fmt::format("bisect takes one test, such as {}", example(names.front())));
    }
    test_ = names.front();
  }

  Exit answer() {
    if (!options_.folders.empty()) {
      search_folders();
    } else if (options_.run) {
      search_releases();
    } else {
      take_records();
    }
    if (found_.empty()) throw Stop(Exit::NothingRan, "no run as asked for has " + test_);
    const CatalogueCase* one = background_.find(case_of(test_));
    const std::vector<MachineCourse> told = folded(found_);
    if (options_.json) {
      Json json = {{"test", test_}, {"machines", Json::array()}};
      for (const MachineCourse& course : found_) json["machines"].push_back(as_json(course));
      print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
    } else {
      print("{}{}\n", test_, one == nullptr ? "" : ": " + one->title);
      for (const MachineCourse& course : told) print("\n{}", as_text(course));
    }
    return exit_for(told);
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

  // The version that was asked for, or nothing.
  std::string wanted(const Replaceable& library) const {
    const auto found = options_.machine.libraries.find(library.key);
    return found == options_.machine.libraries.end() ? "" : found->second;
  }

  // As in compare, and what was chosen of CUDA's runtime and NCCL makes a machine of its own.
  bool is_wanted(const Environment& environment) const {
    return chosen(options_.machine, environment) &&
           std::all_of(kReplaceable.begin(), kReplaceable.end(), [&](const Replaceable& library) {
             const std::string version = wanted(library);
             return version.empty() ||
                    (environment.machine.has_override(library) && text_at(environment.json(), library.key) == version);
           });
  }

  std::vector<Record> records() const {
    std::vector<std::string> folders = {options_.records.empty() ? places_.reports() : options_.records};
    if (options_.run && fs::is_directory(kept())) folders.push_back(kept());
    std::vector<Record> all;
    for (const std::string& folder : folders) {
      if (!fs::is_directory(folder)) continue;
      for (Record& record : records_of(case_of(test_), folder)) all.push_back(std::move(record));
    }
    return all;
  }

  // Where bisect puts what it runs.
  std::string kept() const { return places_.build + "/bisect"; }

  void take_records() {
    if (!options_.records.empty() && !fs::is_directory(options_.records)) {
      throw Stop(Exit::Usage, visible(options_.records) + " is no folder");
    }
    const auto matrix = read_matrix(places_.root);
    for (MachineSides& machine : sides_by_machine(records(), background_)) {
      if (!is_wanted(machine.environment)) continue;
      MachineCourse one{machine.name, with_gaps(std::move(machine.releases), matrix), {}};
      one.course = Courses(one.sides, background_).of(test_);
      const auto any = [](const Stand& stand) { return !stand.record.empty(); };
      if (std::any_of(one.course.stands.begin(), one.course.stands.end(), any)) found_.push_back(std::move(one));
    }
  }

  // Runs one side after the other until no more is to be found.
  void search(MachineCourse& one, std::vector<bool> can_run, const std::function<void(size_t)>& run_side) {
    const PrintedAside aside;
    for (;;) {
      one.course = Courses(one.sides, background_).of(test_);
      const auto next = next_to_run(one.course, can_run);
      if (!next) break;
      can_run[*next] = false;
      run_side(*next);
    }
    for (size_t i = 0; i < one.sides.size(); ++i) {
      Stand& stand = one.course.stands[i];
      if (const auto why = cannot_.find(i); why != cannot_.end() && stand.result.empty()) stand.why_not = why->second;
    }
  }

  // The case as today's build has it; a race that does not occur as often as it takes to say so.
  void run_case(Side& side, size_t at, const std::string& release, const std::string& folder) {
    for (size_t i = 0; i < kFewestRuns; ++i) {
      RunOptions options;
      options.release = release;
      options.libtorch = folder;
      for (const Replaceable& library : kReplaceable) {
        if (!wanted(library).empty()) options.libraries[library.key] = wanted(library);
      }
      options.filters = {case_of(test_)};
      options.record = new_record(kept() + "/" + release);
      print("{}:\n", side.name);
      try {
        Record record = run(places_, options).record;
        const TestRecord* seen = record.find(test_);
        const bool may_yet_occur = seen != nullptr && seen->has(key::tries) && seen->number(key::hits).value_or(0) == 0;
        side.runs.insert(side.runs.begin(), judged_by_its_own_code(std::move(record), background_));
        if (!may_yet_occur) return;
      } catch (const Stop& stop) {
        // Of this release, or of all that would follow?
        if (stop.code != Exit::Infrastructure) throw;
        const Machine now = ask_machine(places_);
        if (now.gpus > 0 ? !now.answers() : options_.machine.gpu != "none" && !options_.machine.gpu.empty()) throw;
        cannot_[at] = stop.what();
        say_last_words(stop.what());
        return;
      }
    }
  }

  void search_releases() {
    MachineChoice& machine = options_.machine;
    choose_this_machine(places_, machine);
    MachineCourse one{"", {}, {}};
    for (MachineSides& known : sides_by_machine(records(), background_)) {
      const bool has_all_its_own = std::none_of(kReplaceable.begin(), kReplaceable.end(), [&](const auto& library) {
        return known.environment.machine.has_override(library) && wanted(library).empty();
      });
      if (!is_wanted(known.environment) || !has_all_its_own) continue;
      if (!known.environment.machine.variables.empty()) continue;
      one.machine = known.name;
      one.sides = std::move(known.releases);
    }
    std::vector<std::string> releases = read_matrix(places_.root), built = built_releases(places_);
    releases.insert(releases.end(), built.begin(), built.end());
    one.sides = with_gaps(std::move(one.sides), releases);
    name_machine(one);
    std::vector<bool> can_run;
    for (size_t i = 0; i < one.sides.size(); ++i) {
      const bool is_built = std::find(built.begin(), built.end(), one.sides[i].name) != built.end();
      can_run.push_back(is_built);
      if (!is_built) cannot_[i] = "not on record, and not built here";
    }
    search(one, can_run, [&](size_t side) { run_case(one.sides[side], side, one.sides[side].name, ""); });
    found_.push_back(std::move(one));
  }

  void search_folders() {
    choose_this_machine(places_, options_.machine);
    MachineCourse one{"", {}, {}};
    std::vector<std::string> releases;
    std::vector<bool> can_run;
    for (const std::string& folder : options_.folders) {
      releases.push_back(release_in(folder));
      const bool is_built = fs::is_directory(places_.cases_of(releases.back()));
      if (!is_built) {
        cannot_[one.sides.size()] = fmt::format("its cases are not built; `ci/suite --build {}` does", folder);
      }
      can_run.push_back(is_built);
      const bool again = std::count(releases.begin(), releases.end(), releases.back()) > 1;
      one.sides.push_back({visible(again ? folder : releases.back()), {}});
    }
    name_machine(one);
    search(one, can_run, [&](size_t side) { run_case(one.sides[side], side, releases[side], options_.folders[side]); });
    found_.push_back(std::move(one));
  }

  // What has no record yet.
  void name_machine(MachineCourse& one) const {
    const auto& [gpu, driver, libraries] = options_.machine;
    if (!one.machine.empty()) return;
    one.machine = gpu == "none" ? "no GPU" : fmt::format("{}, driver {}", gpu, driver);
    for (const Replaceable& library : kReplaceable) {
      if (!wanted(library).empty()) one.machine += fmt::format(", {} {}", library.name, wanted(library));
    }
  }

  const Places& places_;
  Options options_;
  const Background background_;
  std::string test_;
  std::vector<MachineCourse> found_;
  std::map<size_t, std::string> cannot_;  // By side, why it did not run.
};

}  // namespace

Verb bisect_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("bisect", "Find the release that changed a test's result");
  command->add_option("test", options->test, "A test as case.Test")->required();
  command->add_option("--gpu", options->machine.gpu, "Part of the GPU's name; none for runs without one");
  command->add_option("--driver", options->machine.driver, "The driver's version");
  for (const Replaceable& library : kReplaceable) {
    command->add_option(library.option, options->machine.libraries[library.key],
                        fmt::format("Only runs with this {}", library.name));
  }
  command->add_option("--records", options->records, "Folder of the records (default: reports/)");
  command->add_flag(
      "--run", options->run,
      "Run the case on this machine's GPU, by binary search among the built releases that have no record; the records "
      "are kept below build/bisect/");
  command->add_option(
      "--libtorch", options->folders,
      "Run the case with the LibTorch in these site-packages folders, in their order, by binary search");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->footer(
      "Exit codes: 0 each change lies between two neighbouring releases, or there is none; 4 no record has the test;\n"
      "6 several releases may have made a change, or fewer than two have a result; with --run and --libtorch those of "
      "run\n"
      "if a run does not complete.");
  return {command, [options, &root] {
            const Places places = Places::find(root);
            return Question(places, *options).answer();
          }};
}

}  // namespace recapture

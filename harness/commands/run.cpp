// recapture run: runs cases and writes a record.
#include "harness/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/model/release.h"
#include "harness/report/junit.h"
#include "harness/report/neighbour.h"
#include "harness/report/run.h"
#include "harness/report/text.h"
#include "harness/run/environment.h"

namespace recapture::commands {
namespace {

// The options as typed.
struct Typed {
  run::RunOptions options;
  std::string junit;
  std::optional<std::string> broken, shard, gpus;
  std::vector<std::string> require, env;
  std::optional<int> jobs;
};

// Options that were not typed come from the run that began the record, if it has them.
void take_from_record(run::RunOptions& options, const Typed& typed) {
  const Record begun = read_record(options.resume);
  if (options.release.empty()) options.release = begun.environment.name_in_matrix();
  if (options.label.empty()) options.label = begun.env("label");
  for (const OverridableLibrary& library : kOverridableLibraries) {
    if (begun.environment.machine.has_override(library)) options.libraries.emplace(library.key, begun.env(library.key));
  }
  if (!typed.broken) options.broken = begun.broken();
  const std::string demanded = begun.env("require");
  options.demands.gpu = options.demands.gpu || demanded.find("gpu") != std::string::npos;
  options.demands.recorder = options.demands.recorder || demanded.find("recorder") != std::string::npos;
  if (!typed.shard && !begun.env("shard").empty()) options.shard = run::read_shard(begun.env("shard"));
  if (!typed.gpus) {
    for (const Json& gpu : begun.environment.json().value("volatile", Json::object()).value("gpus", Json::array())) {
      if (gpu.is_string()) options.gpus.push_back(gpu.get<std::string>());
    }
  }
  const Json env = begun.environment.json().value("env", Json::object());
  for (const auto& [name, value] : env.items()) {
    if (!value.is_string() || run::is_hashed(value.get<std::string>())) continue;
    options.env.insert(run::read_variable(name + "=" + value.get<std::string>()));
  }
}

// The selection, as typed.
run::RunOptions what_to_run(const Typed& typed) {
  run::RunOptions options = typed.options;
  for (const OverridableLibrary& library : kOverridableLibraries) {
    const auto typed_one = options.libraries.find(library.key);
    if (typed_one == options.libraries.end()) continue;
    const std::string& version = typed_one->second;
    if (version.empty()) {
      options.libraries.erase(typed_one);
    } else if (!is_version(version) || version.find('.') == std::string::npos) {
      throw ExitError(Exit::Usage,
                      fmt::format("{} takes a version such as {}, not '{}'", library.option, library.example, version));
    }
  }
  if (!options.label.empty() && !is_label(options.label)) {
    throw ExitError(Exit::Usage, "--label takes letters in lower case, digits and dots, such as acme, not '" +
                                     escape_control(options.label) + "'");
  }
  if (typed.broken) options.broken = break_of(*typed.broken).value();
  if (typed.shard) options.shard = run::read_shard(*typed.shard);
  for (const std::string& need : typed.require) {
    if (need != "gpu" && need != "recorder") {
      throw ExitError(Exit::Usage, "--require takes gpu or recorder, not '" + need + "'");
    }
    options.demands.gpu = options.demands.gpu || need == "gpu";
    options.demands.recorder = options.demands.recorder || need == "recorder";
  }
  for (const std::string& variable : typed.env) {
    const auto [name, value] = run::read_variable(variable);
    if (!options.env.emplace(name, value).second) throw ExitError(Exit::Usage, "--env has " + name + " twice");
  }
  if (typed.jobs && *typed.jobs < 1) throw ExitError(Exit::Usage, "--jobs takes a number from 1 on");
  options.jobs = static_cast<size_t>(typed.jobs.value_or(0));
  if (typed.gpus) options.gpus = run::read_gpus(*typed.gpus);
  if (options.left && options.broken != Break::Nothing) {
    throw ExitError(Exit::Usage, "--left and --break cannot be combined: what is broken on purpose is never missing");
  }
  if (options.go_on) {
    if (!options.resume.empty()) throw ExitError(Exit::Usage, "--continue and --resume cannot be combined");
    if (options.record.empty()) throw ExitError(Exit::Usage, "--continue needs --record FILE, the run to continue");
    std::error_code error;
    if (std::filesystem::exists(options.record, error)) options.resume = options.record;
  } else if (!options.resume.empty()) {
    if (!options.record.empty()) throw ExitError(Exit::Usage, "--record and --resume cannot be combined");
    take_from_record(options, typed);
  }
  return options;
}

// What could not run is counted by reason at the end: without a GPU that is a thousand tests.
std::string line_of(const TestVerdict& row) {
  return row.verdict == Verdict::Unavailable ? "" : report::render_line(row);
}

Exit run_and_show(const run::Layout& places, const Typed& typed) {
  const run::RunOptions options = what_to_run(typed);
  if (!typed.junit.empty()) require_place_for_junit(typed.junit, options.record);
  const run::Finished finished = run::run_cases(places, options, line_of);
  const auto& [record, rows, pace, before, none_left, neighbour] = finished;
  if (!none_left.empty()) {
    print("nothing is left to run of {}\n", none_left);
    return Exit::AsExpected;
  }
  if (before) {
    print("{} is complete; `recapture show {}` has its verdicts\n", options.record, options.record);
  } else {
    print("\n{}{}{}{}{}{}record: {}\n", report::heading(record),
          report::render_neighbour(record.environment, neighbour, rows), report::summary(rows),
          report::observed_tables(record, rows), report::render_pace(pace), report::render_surprises(record, rows),
          record.path);
  }
  if (!typed.junit.empty()) {
    require_place_for_junit(typed.junit, record.path);
    report::write_junit_file({record, rows, neighbour}, typed.junit);
  }
  return exit_for(verdicts_of(rows));
}

}  // namespace

Verb run_verb(CLI::App& app, const std::string& root) {
  const auto typed = std::make_shared<Typed>();
  run::RunOptions& options = typed->options;
  auto* command = app.add_subcommand("run", "Run cases and write a record");
  command->add_option("cases", options.filters, "Families, cases, or tests as case.Test (default: all)");
  command->add_option("--release", options.release, "LibTorch release (default: the newest that is built)");
  command->add_option("--label", options.label,
                      "Name the build, such as acme: its record is of 2.11.0+acme, and compare takes the name");
  command->add_option("--record", options.record, "Write the record to this file (default: below the build folder)");
  command->add_option(
      "--resume", options.resume,
      "Run the rest of this record, which was cut short, with the tests, libraries, GPUs, variables and demands of "
      "that run unless others are given; repeat --libtorch, --revision and an --env that names a folder or a GPU");
  command->add_flag("--continue", options.go_on, "Start or resume the run in --record; do nothing if it is complete");
  command->add_flag("--left", options.left,
                    "Run only what the records below reports/ lack of this release on this machine, and what is stale "
                    "there; `recapture show --left` lists it");
  command->add_option("--jobs", typed->jobs,
                      "Run this many tests at once (default: all cores; with a GPU three quarters of them, 16 at "
                      "most); races run alone");
  command->add_option("--gpu", typed->gpus, "Spread the tests over these GPUs, such as 0,1");
  command->add_option("--shuffle", options.seed, "Shuffle the tests; the same number gives the same order");
  command->add_option("--shard", typed->shard, "i/n: run every n-th case, from the i-th on");
  command->add_option("--env", typed->env, "NAME=VALUE: set this variable for the tests; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--libtorch", options.libtorch, "Load LibTorch from this site-packages folder");
  for (const OverridableLibrary& library : kOverridableLibraries) {
    command->add_option(
        library.option, options.libraries[library.key],
        fmt::format("Use this {} instead of {} own, such as {} ({} installs it)", library.name,
                    library.is_package() ? "the cases'" : "LibTorch's", library.example, library.fetch));
  }
  command->add_option("--require", typed->require, "gpu, recorder or gpu,recorder: fail (7) if it is missing")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--break", typed->broken,
                   "nothing, trigger or value: check that Reproduces can fail; remedy: that Fix can")
      ->check(CLI::IsMember(std::vector<std::string>(kBreaks.begin(), kBreaks.end())));
  command->add_option("--revision", options.revision, "Record this revision (default: from git)");
  command->add_option("--junit", typed->junit, "Write JUnit XML to this file too");
  command->add_flag("--exec", options.exec, "Start every test with a fresh exec instead of forking a preloaded parent");
  command->add_flag(
      "--verbose", options.verbose,
      "Print what bounds the run: the critical path, and the time of as many bare CUDA contexts, which it "
      "measures at the end");
  command->footer(
      "Exit codes: 0 as expected, 1 behaviour changed, 2 wrong usage, 4 nothing ran, 5 newly fixed, 6 inconclusive, "
      "stale or\n"
      "cut short, 7 what was demanded is missing, or the record cannot be written, 130 interrupted.");
  return {command,
          [typed, &root] { return run_and_show(run::Layout::find(root), *typed); },
          Signals::Children,
          {{"recapture run item_in_capture", "one case, with the newest release that is built"},
           {"recapture run --release 2.11.0 --jobs 4 sync", "a family, with a release"}}};
}

}  // namespace recapture::commands

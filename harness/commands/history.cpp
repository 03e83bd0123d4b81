// recapture history: results of tests over time on each kind of machine, from all records of a folder.
#include "harness/timeline/history.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "harness/base/output.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/model/catalogue.h"
#include "harness/model/origin.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"
#include "harness/report/history.h"
#include "harness/run/layout.h"
#include "harness/timeline/runs.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

struct HistoryOptions {
  std::vector<std::string> names;
  std::string records;
  timeline::Wanted wanted;
  bool json = false;
};

// Selected tests by case; an empty list selects all recorded tests of the case.
using Named = std::map<std::string, std::vector<std::string>>;

Named named_in(const std::vector<std::string>& words, const Catalogue& catalogue, const std::vector<Record>& records) {
  Names names = names_in(catalogue);
  // Cases and tests that the tree no longer has still have a history.
  std::set<std::string> planned;
  for (const Record& record : records) planned.insert(record.plan.begin(), record.plan.end());
  std::map<std::string, std::vector<std::string>> by_case;
  for (const std::string& test : planned) by_case[case_of(test)].push_back(test);
  for (const auto& [id, tests] : by_case) add_once(names.cases, id);
  Named named_tests;
  for (const std::string& word : words) {
    const std::string id = case_of(word);
    if (const auto on_record = by_case.find(id); id != word && on_record != by_case.end()) {
      for (const std::string& test : on_record->second) add_once(names.tests, test);
    }
    for (const std::string& name : named(word, names)) {
      if (name.find('.') != std::string::npos) {
        const auto [tests, is_new] = named_tests.emplace(case_of(name), std::vector<std::string>());
        if (is_new || !tests->second.empty()) tests->second.push_back(name);
      } else if (contains(names.cases, name)) {
        named_tests[name] = {};
      } else {
        for (const CatalogueCase& one : catalogue) {
          if (one.family == name) named_tests[one.id] = {};
        }
      }
    }
  }
  for (auto& [id, tests] : named_tests) {
    if (tests.empty()) tests = by_case[id];
  }
  return named_tests;
}

// What was available in these runs: a test that is unavailable now counts as missing, as in `show`.
Exit history(const run::Layout& places, const HistoryOptions& options) {
  static const RE2 kDate(R"(\d{4}-\d{2}-\d{2})");
  if (!options.wanted.since.empty() && !RE2::FullMatch(options.wanted.since, kDate)) {
    throw ExitError(Exit::Usage,
                    fmt::format("--since takes a date such as 2026-11-21, not '{}'", options.wanted.since));
  }
  const std::string folder = options.records.empty() ? places.reports() : options.records;
  Catalogue catalogue;
  if (fs::exists(catalogue_path(places.root))) catalogue = read_catalogue(places.root);
  const timeline::Runs plans = timeline::runs_below(folder, {});
  if (plans.records.empty() && plans.bad.empty()) throw ExitError(Exit::NothingRan, "no records below " + folder);
  timeline::Wanted wanted = options.wanted;
  std::vector<std::string> releases;
  std::set<std::string> own;
  for (const Record& record : plans.records) {
    releases.push_back(record.environment.release.name());
    if (!was_sent(record.environment)) own.insert(releases.back());
  }
  wanted.release =
      resolve_release(wanted.release, releases, [&](const std::string& release) { return !own.contains(release); });
  const Named asked = named_in(options.names, catalogue, plans.records);
  std::set<std::string> cases;
  for (const auto& [id, tests] : asked) cases.insert(id);
  const auto [records, bad] = timeline::runs_below(folder, cases);
  Rules rules = rules_of(places.root);
  std::error_code error;
  if (fs::equivalent(folder, places.reports(), error)) {
    rules.available = available_in(records);
  } else if (fs::is_directory(places.reports(), error)) {
    rules.available = available_in(timeline::runs_below(places.reports(), cases).records);
  }
  const timeline::HistoryQuery histories(records, rules, wanted);
  bool has_history = false;
  std::string text;
  Json json = Json::array();
  for (const auto& [id, tests] : asked) {
    const auto all = histories.of(tests);
    if (all.empty()) continue;
    if (options.json) {
      for (const Json& series : report::render_json(all, folder)) json.push_back(series);
    } else {
      text += (has_history ? "\n" : "") + report::render_text(all);
    }
    has_history = true;
  }
  print("{}", options.json ? to_text(json, 1) + "\n" : text);
  for (const timeline::BadRecord& one : bad) print_error(fmt::format("{}/{}: {}", folder, one.path, one.reason));
  const auto is_simulated = [&](const std::string& id) { return rules.simulated.count(id) != 0; };
  if (!has_history && !cases.empty() && std::ranges::all_of(cases, is_simulated)) {
    print_error(
        fmt::format("{}: a model of ours, independent of the release, so it has no history; "
                    "`recapture show {}` has its last run",
                    join(std::vector<std::string>(cases.begin(), cases.end())), *cases.begin()));
  } else if (!has_history) {
    const std::string what = options.names.size() == 1 ? "'" + options.names.front() + "'" : "any of these";
    print_error(fmt::format("{}: no run with these options has {}{}", folder, what,
                            wanted.gpu.empty() ? "" : timeline::gpus_on_record(records)));
  }
  if (!bad.empty()) {
    const bool is_one = bad.size() == 1;
    throw ExitError(Exit::Inconclusive, fmt::format("{} cannot be read, and what {} not counted",
                                                    is_one ? "a record" : plural(bad.size(), "record"),
                                                    is_one ? "it says is" : "they say is"));
  }
  return has_history ? Exit::AsExpected : Exit::NothingRan;
}

}  // namespace

Verb history_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<HistoryOptions>();
  auto* command = app.add_subcommand("history", "Show a test's result history per machine");
  command->add_option("names", options->names, "Tests as case.Test, cases, or families; * matches anything")
      ->required();
  command->add_option("--records", options->records, "Folder of the records (default: reports/)");
  command->add_option("--release", options->wanted.release, "Only runs of this LibTorch release");
  command->add_option("--gpu", options->wanted.gpu, "Words of the GPU's name, such as H100; none for runs without one");
  command->add_option("--driver", options->wanted.driver, "Only runs with this driver");
  command->add_option("--since", options->wanted.since,
                      "Only runs that began on this date or later, such as 2026-11-21");
  command->add_flag("--json", options->json, "Print a JSON array");
  command->footer(
      "Exit codes: 0 there is a history, 2 wrong usage or unknown name, 4 there is none, 6 a record cannot be read and "
      "is\n"
      "skipped.");
  return {command,
          [options, &root] { return history(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture history item_in_capture", "its results, release by release"},
           {"recapture history sync --gpu H200", "a family on one GPU"}}};
}

}  // namespace recapture::commands

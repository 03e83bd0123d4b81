// recapture history: how tests went over time on each kind of machine, from all records of a folder.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>

#include "harness/case/source_hash.h"
#include "harness/commands/commands.h"
#include "harness/history/series.h"
#include "harness/history/words.h"
#include "harness/judge/catalogue.h"
#include "harness/record/output.h"
#include "harness/run/environment.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

struct Options {
  std::vector<std::string> names;
  std::string records;
  Wanted wanted;
  bool json = false;
};

// Beside the records, so that all who ask share it, or else where this user's caches are.
std::vector<std::string> places_for_index(const std::string& folder) {
  std::error_code error;
  const std::string real = fs::canonical(folder, error).string();
  std::vector<std::string> places = {real + "/.recapture.sqlite"};
  if (cache_folder().empty()) return places;
  const fs::path caches = fs::path(cache_folder()) / "history";
  fs::create_directories(caches, error);
  if (const fs::path known = fs::canonical(caches, error); !error) {
    places.push_back((known / (hash_of(real) + ".sqlite")).string());
  }
  return places;
}

// By case the tests that are named; no tests for all that the records have of it.
using Named = std::map<std::string, std::vector<std::string>>;

Named named_in(const std::vector<std::string>& words, const Catalogue& catalogue, Index& index) {
  Names names = names_in(catalogue);
  // Of what the tree has no longer there is a history too.
  const auto add = [](std::vector<std::string>& known, const std::string& name) {
    if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
  };
  const auto on_record = index.cases();
  for (const std::string& id : on_record) add(names.cases, id);
  Named tests;
  for (const std::string& word : words) {
    const std::string id = case_of(word);
    if (id != word && std::find(on_record.begin(), on_record.end(), id) != on_record.end()) {
      for (const std::string& test : index.tests_of(id)) add(names.tests, test);
    }
    for (const std::string& name : named(word, names)) {
      if (name.find('.') != std::string::npos) {
        const auto [known, is_new] = tests.emplace(case_of(name), std::vector<std::string>());
        if (is_new || !known->second.empty()) known->second.push_back(name);
      } else if (std::find(names.cases.begin(), names.cases.end(), name) != names.cases.end()) {
        tests[name] = {};
      } else {
        for (const CatalogueCase& one : catalogue) {
          if (one.family == name) tests[one.id] = {};
        }
      }
    }
  }
  return tests;
}

Exit history(const Places& places, const Options& options) {
  static const std::regex kDate(R"(\d{4}-\d{2}-\d{2})");
  if (!options.wanted.since.empty() && !std::regex_match(options.wanted.since, kDate)) {
    throw Stop(Exit::Usage, fmt::format("--since takes a date such as 2026-11-21, not '{}'", options.wanted.since));
  }
  const std::string folder = options.records.empty() ? places.reports() : options.records;
  const Catalogue catalogue = fs::exists(catalogue_path(places.root)) ? read_catalogue(places.root) : Catalogue();
  Rules rules = rules_of(places.root);
  std::string text;
  std::vector<BadRecord> bad;
  const std::string none = ask(folder, places_for_index(folder), [&](Index& index) {
    bad = index.bad();
    if (index.runs().empty() && bad.empty()) throw Stop(Exit::NothingRan, "no records below " + folder);
    const Named asked = named_in(options.names, catalogue, index);
    rules.available.clear();
    const auto take_available = [&](Index& reports) {
      for (const auto& [id, tests] : asked) rules.available.merge(available_in(reports, id));
    };
    std::error_code error;
    if (fs::equivalent(folder, places.reports(), error)) {
      take_available(index);
    } else if (fs::is_directory(places.reports(), error)) {
      ask(places.reports(), places_for_index(places.reports()), take_available);
    }
    Histories histories(index, rules, options.wanted);
    Json json = Json::array();
    text.clear();
    for (const auto& [id, tests] : asked) {
      const auto all = histories.of_case(id, tests);
      if (all.empty()) continue;
      if (options.json) {
        for (const Json& series : as_json(all, folder)) json.push_back(series);
      } else {
        text += (text.empty() ? "" : "\n") + as_text(all);
      }
    }
    if (options.json && !json.empty()) text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  });
  print("{}", text);
  if (!none.empty()) {
    say_last_words(fmt::format("{}: no index can be kept ({}), so each question reads all records", folder, none));
  }
  for (const BadRecord& one : bad) say_last_words(fmt::format("{}/{}: {}", folder, one.path, one.reason));
  if (text.empty()) {
    const std::string what = options.names.size() == 1 ? "'" + options.names.front() + "'" : "any of these";
    say_last_words(fmt::format("{}: no run of {} that is asked for", folder, what));
  }
  if (!bad.empty()) {
    throw Stop(Exit::Inconclusive,
               fmt::format("{} {} cannot be read, and what {} not counted", bad.size(),
                           bad.size() == 1 ? "record" : "records", bad.size() == 1 ? "it says is" : "they say is"));
  }
  return text.empty() ? Exit::NothingRan : Exit::AsExpected;
}

}  // namespace

Verb history_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("history", "Since when a test shows what it shows, and how often, by machine");
  command->add_option("names", options->names, "Tests as case.Test, cases, or families; * stands for anything")
      ->required();
  command->add_option("--records", options->records, "Where the runs lie (default: reports/)");
  command->add_option("--release", options->wanted.release, "Runs of this LibTorch release alone");
  command->add_option("--gpu", options->wanted.gpu, "Part of the GPU's name; none for runs without one");
  command->add_option("--driver", options->wanted.driver, "Runs with this driver alone");
  command->add_option("--since", options->wanted.since, "Runs that began on this date or later, such as 2026-11-21");
  command->add_flag("--json", options->json, "A JSON array");
  command->footer("Exit codes: 0 there is a history, 4 there is none, 6 a record cannot be read and is left out.");
  return {command, [options, &root] { return history(Places::find(root), *options); }};
}

}  // namespace recapture

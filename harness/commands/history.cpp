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

// What a judgement of these cases calls missing where it is not available now: as `show` has it.
void learn_what_was_available(Rules& rules, Index& index, const Named& asked) {
  rules.available.clear();
  for (const auto& [id, tests] : asked) rules.available.merge(available_in(index, id));
}

struct Answer {
  std::string text;  // Without a history none, or an empty array.
  bool has_history = false;
  std::vector<BadRecord> bad;
};

class Question {
 public:
  Question(const Places& places, const Options& options)
      : places_(places),
        options_(options),
        folder_(options.records.empty() ? places.reports() : options.records),
        rules_(rules_of(places.root)) {
    if (fs::exists(catalogue_path(places.root))) catalogue_ = read_catalogue(places.root);
  }

  const std::string& folder() const { return folder_; }

  Answer operator()(Index& index) {
    Answer answer;
    answer.bad = index.bad();
    if (index.runs().empty() && answer.bad.empty()) throw Stop(Exit::NothingRan, "no records below " + folder_);
    const Named asked = named_in(options_.names, catalogue_, index);
    std::error_code error;
    if (fs::equivalent(folder_, places_.reports(), error)) {
      learn_what_was_available(rules_, index, asked);
    } else if (fs::is_directory(places_.reports(), error)) {
      ask(places_.reports(), places_for_index(places_.reports()),
          [&](Index& reports) { learn_what_was_available(rules_, reports, asked); });
    }
    Histories histories(index, rules_, options_.wanted);
    Json json = Json::array();
    for (const auto& [id, tests] : asked) {
      const auto all = histories.of_case(id, tests);
      if (all.empty()) continue;
      answer.has_history = true;
      if (options_.json) {
        for (const Json& series : as_json(all, folder_)) json.push_back(series);
      } else {
        answer.text += (answer.text.empty() ? "" : "\n") + as_text(all);
      }
    }
    if (options_.json) answer.text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    return answer;
  }

 private:
  const Places& places_;
  const Options& options_;
  const std::string folder_;
  Rules rules_;
  Catalogue catalogue_;
};

Exit history(const Places& places, const Options& options) {
  static const std::regex kDate(R"(\d{4}-\d{2}-\d{2})");
  if (!options.wanted.since.empty() && !std::regex_match(options.wanted.since, kDate)) {
    throw Stop(Exit::Usage, fmt::format("--since takes a date such as 2026-11-21, not '{}'", options.wanted.since));
  }
  Question question(places, options);
  const std::string& folder = question.folder();
  const auto announce = [](size_t records) {
    constexpr size_t kMany = 200;  // That takes some seconds.
    if (records >= kMany) say_last_words(fmt::format("reading {} records for the index", records));
  };
  Answer answer;
  const std::string none = ask(
      folder, places_for_index(folder), [&](Index& index) { answer = question(index); }, announce);
  print("{}", answer.text);
  if (!none.empty()) {
    say_last_words(fmt::format("{}: no index can be kept ({}), so each question reads all records", folder, none));
  }
  for (const BadRecord& one : answer.bad) say_last_words(fmt::format("{}/{}: {}", folder, one.path, one.reason));
  if (!answer.has_history) {
    const std::string what = options.names.size() == 1 ? "'" + options.names.front() + "'" : "any of these";
    say_last_words(fmt::format("{}: no run as asked for has {}", folder, what));
  }
  if (const size_t bad = answer.bad.size(); bad > 0) {
    throw Stop(Exit::Inconclusive, fmt::format("{} cannot be read, and what {} not counted",
                                               bad == 1 ? "a record" : fmt::format("{} records", bad),
                                               bad == 1 ? "it says is" : "they say is"));
  }
  return answer.has_history ? Exit::AsExpected : Exit::NothingRan;
}

}  // namespace

std::vector<std::string> places_for_index(const std::string& folder) {
  std::error_code error;
  const std::string real = fs::canonical(folder, error).string();
  std::vector<std::string> places = {real + "/.recapture.sqlite"};
  if (cache_folder().empty()) return places;
  const fs::path caches = fs::weakly_canonical(cache_folder() + "/history", error);
  if (!error) places.push_back((caches / (hash_of(real) + ".sqlite")).string());
  return places;
}

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

// recapture dev place: puts records of runs at their place below reports/, packed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/lint/plausible.h"
#include "harness/model/origin.h"
#include "harness/model/record_files.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"
#include "harness/run/layout.h"
#include "harness/run/process.h"
#include "harness/store/select.h"
#include "harness/verdict/verdict.h"
#include "harness/words/observation.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

// Cases of the record that are not in the tree.
std::set<std::string> unknown_cases(const Record& record, const Rules& rules) {
  std::set<std::string> unknown;
  for (const auto& [id, info] : record.cases) {
    if (!rules.tree.empty() && rules.tree.count(id) == 0) unknown.insert(id);
  }
  return unknown;
}

// Cases of the tree whose code has changed since, and tests whose program has.
std::vector<std::string> stale_parts(const Record& record, const Rules& rules) {
  const std::set<std::string> unknown = unknown_cases(record, rules);
  std::vector<std::string> stale;
  for (const auto& [id, info] : record.cases) {
    if (unknown.count(id) == 0 && rules.stale(record, id)) stale.push_back(id);
  }
  for (const TestRecord& test : record.tests) {
    const bool is_unknown = unknown.count(test.case_id()) != 0;
    if (!is_unknown && is_of_program(test.name()) && rules.is_stale_test(record, test.id())) stale.push_back(test.id());
  }
  return stale;
}

// "a, b, c and 2 more"
std::string render_few(std::vector<std::string> names) {
  constexpr size_t kFew = 3;
  const size_t more = names.size() > kFew ? names.size() - kFew : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

// Whether it calls itself a release, also in a build of PyTorch's own such as 2.16.0+cu130, and is none of these.
bool is_unknown_release(const Release& release, const std::vector<std::string>& known) {
  const std::string base = without_local(release.name());
  return Release(base).is_final() && resolve_release(release.name(), {base}) == base && !contains(known, base);
}

// Throws ExitError(Usage) for a record of an unknown release, and for one without a result of today's code.
void check_record(const Record& record, const Rules& rules, const std::vector<std::string>& releases) {
  const auto refuse = [&](const std::string& why) {
    throw ExitError(Exit::Usage, fmt::format("{}: {}", record.path, why));
  };
  if (record.is_shard()) refuse("one shard of several; `recapture dev merge` makes one record of them");
  if (record.tests.empty()) refuse("no test has run");
  if (const std::string& release = record.environment.release.name(); !can_be_release(release)) {
    refuse(fmt::format("its release '{}' is not a release", escape_control(release)));
  }
  if (is_unknown_release(record.environment.release, releases)) {
    refuse(fmt::format("its release {} is not in ci/matrix.toml, and it has no label of another build",
                       record.env("release")));
  }
  const std::set<std::string> unknown = unknown_cases(record, rules);
  if (std::all_of(record.tests.begin(), record.tests.end(),
                  [&](const TestRecord& test) { return unknown.count(test.case_id()) > 0; })) {
    refuse("no case in the tree has a result in it");
  }
  const std::vector<std::string> stale = stale_parts(record, rules);
  const auto counts = [&](const TestRecord& test) {
    return unknown.count(test.case_id()) == 0 && !rules.is_stale_test(record, test.id());
  };
  if (stale.empty() || std::ranges::any_of(record.tests, counts)) return;
  refuse(fmt::format("stale, as {} changed since; build and run again", render_few(stale)));
}

// A record's text without these cases.
std::string without(const std::string& text, const std::set<std::string>& cases) {
  if (cases.empty()) return text;
  const auto is_one = [&](const Json& id) { return id.is_string() && cases.count(case_of(id.get<std::string>())) > 0; };
  std::string kept;
  for (size_t begin = 0; begin < text.size();) {
    const std::string line = text.substr(begin, text.find('\n', begin) - begin + 1);
    begin += line.size();
    Json json = Json::parse(line, nullptr, false);  // The last line of a killed run may be cut.
    if (!json.is_object()) {
      kept += line;
      continue;
    }
    if (is_one(json.value("case", Json())) || is_one(json.value("test", Json()))) continue;
    bool is_changed = false;
    for (const char* key : {"plan", "whole"}) {
      if (!json.contains(key)) continue;
      Json& tests = json[key];
      const size_t before = tests.size();
      tests.erase(std::remove_if(tests.begin(), tests.end(), is_one), tests.end());
      is_changed = is_changed || tests.size() != before;
    }
    kept += is_changed ? json.dump() + "\n" : line;
  }
  return kept;
}

// The first place of its kind that is free, or that has the beginning of this run; "" if one of them has all of it.
std::string place_of(const Record& record, const std::string& text, const std::string& reports) {
  const std::string first = report_path(record.environment), stem = first.substr(0, first.rfind(".jsonl"));
  for (int number = 1;; ++number) {
    const std::string path =
        fmt::format("{}/{}{}.jsonl", reports, stem, number == 1 ? "" : fmt::format(".run-{}", number));
    std::string taken = fs::exists(path) ? path : is_record_there(path + ".gz") ? path + ".gz" : "";
    if (taken.empty()) return path + ".gz";
    const auto& ids = record.environment.run_ids;
    if (ids.empty() || read_record(taken).environment.run_ids != ids) continue;
    const std::string there = record_text(taken);
    if (continues(there, text)) return "";
    if (continues(text, there)) return taken;
    throw ExitError(Exit::Usage, fmt::format("{}: of the same run as {}, with other results; remove the wrong one",
                                             record.path, taken));
  }
}

struct PlaceOptions {
  std::vector<std::string> records;
  std::string origin;
  bool only_shows = false;
};

std::string time_now() {
  constexpr size_t kLength = 20;
  std::array<char, kLength + 1> text{};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  return text.data();
}

// What git says about the tree; nothing if it has no history, or not all of it.
std::optional<std::string> ask_git(const std::string& root, std::vector<std::string> words) {
  words.insert(words.begin(), {"-C", root});
  constexpr double kDeadline_s = 30;
  const auto [observed, said] = run::ask({"/usr/bin/git", std::move(words), {}}, kDeadline_s);
  if (observed.ending != run::Observation::Ending::Exited || observed.code != 0) return std::nullopt;
  return said;
}

lint::KnownFacts facts_of(const std::string& root) {
  lint::KnownFacts facts{time_now(), lint::release_dates(root), nullptr};
  if (fs::exists(root + "/.git") && ask_git(root, {"rev-parse", "--is-shallow-repository"}) == "false\n") {
    facts.is_in_history = [root](const std::string& revision) {
      return ask_git(root, {"merge-base", "--is-ancestor", revision, "HEAD"}).has_value();
    };
  }
  return facts;
}

// Throws ExitError(Usage) for a record that cannot be what it says.
void check_facts(const Record& record, const lint::KnownFacts& facts) {
  const std::vector<std::string> wrong = lint::contradictions_in(record.environment, facts);
  if (!wrong.empty()) throw ExitError(Exit::Usage, fmt::format("{}: {}", record.path, join(wrong, "; ")));
}

// The machines that a committed record without an origin is of.
std::set<MachineId> machines_of_our_own(const std::string& reports) {
  std::set<MachineId> machines;
  for (const std::string& path : records_below(reports)) {
    const Environment environment = environment_of(path);
    if (!was_sent(environment)) machines.insert(environment.machine.comparable());
  }
  return machines;
}

// The text of a record whose first line names its origin.
std::string with_origin(const std::string& text, const std::string& origin) {
  const size_t end = text.find('\n');
  Json line = Json::parse(text.substr(0, end));
  const Json last = line.value("volatile", Json::object());  // It stays the last member.
  line.erase("volatile");
  line["origin"] = origin;
  line["volatile"] = last;
  return line.dump() + text.substr(end);
}

// "would be reports/…: 1121 tests, 3 surprises"
void show_what_changes(const Record& record, const std::string& path, const Rules& rules) {
  const std::vector<TestVerdict> rows = judge_record(record, rules);
  const auto surprises =
      static_cast<size_t>(std::ranges::count_if(rows, [](const TestVerdict& row) { return is_surprise(row.verdict); }));
  print("would be {}: {}, {}\n", path, plural(record.tests.size(), "test"), plural(surprises, "surprise"));
  for (const TestVerdict& row : rows) {
    if (is_surprise(row.verdict)) {
      print("  {}: {}: {}\n", row.test, to_string(row.verdict), truncated(render_observed(row)));
    }
  }
}

Exit place(const run::Layout& places, const PlaceOptions& options) {
  Rules rules = rules_of(places.root);
  if (options.only_shows) {
    for (const std::string& path : records_below(places.reports())) rules.measured.add(environment_of(path));
  }
  const lint::KnownFacts facts = facts_of(places.root);
  const std::vector<std::string> releases = known_releases(places.root);
  const std::set<MachineId> ours =
      options.origin.empty() ? std::set<MachineId>() : machines_of_our_own(places.reports());
  std::vector<Record> records;
  for (const std::string& path : options.records) {
    records.push_back(read_record(path));
    check_record(records.back(), rules, releases);
    check_facts(records.back(), facts);
    const MachineId machine = records.back().environment.machine.comparable();
    if (ours.count(machine) != 0) {
      throw ExitError(Exit::Usage,
                      fmt::format("{}: {} has records of the project's own, whose answers one with an origin may not "
                                  "change; the project can run it",
                                  path, label(machine, {.driver = true, .variables = true})));
    }
  }
  for (const Record& record : records) {
    const std::set<std::string> unknown = unknown_cases(record, rules);
    std::string text = without(record_text(record.path), unknown);
    if (!options.origin.empty()) text = with_origin(text, options.origin);
    const std::string path = place_of(record, text, places.reports());
    if (path.empty()) {
      print("{}: is in place\n", record.path);
      continue;
    }
    if (options.only_shows) {
      show_what_changes(record, path, rules);
      continue;
    }
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    write_file(path, fs::path(path).extension() == ".gz" ? packed_by_gzip(text) : text);
    print("{}\n", path);
    if (!unknown.empty()) {
      print_error(
          fmt::format("{}: left out results of cases that are not in the tree: {}", path, fmt::join(unknown, ", ")));
    }
    if (const auto stale = stale_parts(record, rules); !stale.empty()) {
      print_error(fmt::format("{}: its results of {} do not count: the code changed since", path, render_few(stale)));
    }
    for (const std::string& note : record.notes) print_error(fmt::format("{}: {}", path, note));
  }
  return Exit::AsExpected;
}

}  // namespace

Verb dev_place_verb(CLI::App& dev, const std::string& root) {
  const auto options = std::make_shared<PlaceOptions>();
  auto* command = dev.add_subcommand("place", "Put records where they belong below reports/, packed");
  command->add_option("records", options->records, "Records of runs, also of those that were cut short")->required();
  command->add_flag("--dry-run", options->only_shows, "Print where they would be, and their surprises; change nothing");
  command
      ->add_option("--origin", options->origin,
                   "The name of the sender, which the records keep; not for a machine that has records without one")
      ->check([](const std::string& text) {
        static const RE2 kName(R"([\w@.+ -]{1,60})");
        return RE2::FullMatch(text, kName) ? "" : "'" + escape_control(text) + "' is not a name or address";
      });
  command->footer(
      "Refuses a record of a release that is not in ci/matrix.toml, and one that contradicts itself: its release was "
      "not\n"
      "out yet or has other headers, its driver cannot run its CUDA runtime, its GPU has another compute capability, "
      "its\n"
      "code was changed, its revision is not in the history, or it began in the future.\n"
      "Exit codes: 0 done, 2 wrong usage, or a record that may not be placed, 7 it cannot be written.");
  return {command,
          [options, &root] { return place(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture dev place run.jsonl", "one record"},
           {"recapture dev place --dry-run --origin ada run.jsonl", "what another person's record would add"}}};
}

}  // namespace recapture::commands

// recapture dev place: puts records of runs at their place below reports/, packed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/model/suggest.h"
#include "harness/run/layout.h"

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

// Throws ExitError(Usage) for a record of outdated cases, or if no result of it can be placed.
void check_record(const Record& record, const Rules& rules) {
  const auto refuse = [&](const std::string& why) {
    throw ExitError(Exit::Usage, fmt::format("{}: {}", record.path, why));
  };
  if (record.is_shard()) refuse("one shard of several; `recapture dev merge` makes one record of them");
  if (record.tests.empty()) refuse("no test has run");
  if (const std::string& release = record.environment.release.name(); !can_be_release(release)) {
    refuse(fmt::format("its release '{}' is not a release", escape_control(release)));
  }
  const std::set<std::string> unknown = unknown_cases(record, rules);
  if (std::all_of(record.tests.begin(), record.tests.end(),
                  [&](const TestRecord& test) { return unknown.count(test.case_id()) > 0; })) {
    refuse("no case in the tree has a result in it");
  }
  std::vector<std::string> stale;
  for (const auto& [id, info] : record.cases) {
    if (unknown.count(id) == 0 && rules.stale(record, id)) stale.push_back(id);
  }
  for (const TestRecord& test : record.tests) {
    const bool is_unknown = unknown.count(test.case_id()) != 0;
    if (!is_unknown && is_of_program(test.name()) && rules.is_stale_test(record, test.id())) stale.push_back(test.id());
  }
  if (stale.empty()) return;
  constexpr size_t kFew = 3;
  const size_t more = stale.size() > kFew ? stale.size() - kFew : 0;
  stale.resize(stale.size() - more);
  refuse(fmt::format("stale, as {}{} changed since; build and run again", fmt::join(stale, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more)));
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

// Whether a record begins with the whole lines of another one.
bool continues(const std::string& text, const std::string& other) {
  return text.compare(0, other.rfind('\n') + 1, other, 0, other.rfind('\n') + 1) == 0;
}

// The first place of its kind that is free, or that has the beginning of this run; "" if one of them has all of it.
std::string place_of(const Record& record, const std::string& text, const std::string& reports) {
  const std::string first = report_path(record.environment), stem = first.substr(0, first.rfind(".jsonl"));
  for (int number = 1;; ++number) {
    const std::string path =
        fmt::format("{}/{}{}.jsonl", reports, stem, number == 1 ? "" : fmt::format(".run-{}", number));
    std::string taken = fs::exists(path) ? path : fs::exists(path + ".gz") ? path + ".gz" : "";
    if (taken.empty()) return path + ".gz";
    const auto& ids = record.environment.run_ids;
    if (ids.empty() || read_record(taken).environment.run_ids != ids) continue;
    const std::string there = unpacked_contents_of(taken);
    if (continues(there, text)) return "";
    if (continues(text, there)) return taken;
    throw ExitError(Exit::Usage, fmt::format("{}: of the same run as {}, with other results; remove the wrong one",
                                             record.path, taken));
  }
}

Exit place(const run::Layout& places, const std::vector<std::string>& paths) {
  const Rules rules = rules_of(places.root);
  std::vector<Record> records;
  for (const std::string& path : paths) {
    records.push_back(read_record(path));
    check_record(records.back(), rules);
  }
  for (const Record& record : records) {
    const std::set<std::string> unknown = unknown_cases(record, rules);
    const std::string text = without(unpacked_contents_of(record.path), unknown);
    const std::string path = place_of(record, text, places.reports());
    if (path.empty()) {
      print("{}: is in place\n", record.path);
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
    for (const std::string& note : record.notes) print_error(fmt::format("{}: {}", path, note));
  }
  return Exit::AsExpected;
}

}  // namespace

Verb dev_place_verb(CLI::App& dev, const std::string& root) {
  const auto records = std::make_shared<std::vector<std::string>>();
  auto* command = dev.add_subcommand("place", "Put records where they belong below reports/, packed");
  command->add_option("records", *records, "Records of runs, also of those that were cut short")->required();
  command->footer("Exit codes: 0 done, 2 wrong usage, or a record that may not be placed, 7 it cannot be written.");
  return {command,
          [records, &root] { return place(run::Layout::find(root), *records); },
          Signals::Output,
          {{"recapture dev place run.jsonl", "one record"}, {"recapture dev place nights/2026-11-29/*.jsonl", "many"}}};
}

}  // namespace recapture::commands

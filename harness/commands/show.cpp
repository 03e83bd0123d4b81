// recapture show: the verdicts of records.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/check/expectations.h"
#include "harness/commands/commands.h"
#include "harness/judge/board.h"
#include "harness/judge/version.h"
#include "harness/run/places.h"
#include "harness/show/json.h"
#include "harness/show/junit.h"
#include "harness/show/markdown.h"
#include "harness/show/text.h"

namespace recapture {
namespace {

struct Options {
  std::vector<std::string> records;
  std::string junit;
  bool json = false, markdown = false;
};

Exit show(const Places& places, const Options& options) {
  const Rules rules = rules_of(places.root);
  const bool all = options.records.empty();
  std::vector<Record> records;
  for (const std::string& path : all ? records_below(places.reports()) : options.records) {
    records.push_back(read_record(path));
  }
  if (records.empty()) throw Stop(Exit::NothingRan, "no records below reports/; `ci/suite` makes one");
  if (all) {
    for (const std::string& error :
         expectation_errors(rules.expectations, read_matrix(places.root), records, places.reports())) {
      throw Stop(Exit::Usage, error);
    }
  }
  const Board board(std::move(records), rules);
  if (options.markdown) {
    fmt::print("{}", as_markdown(board));
    return Exit::AsExpected;
  }
  Json json = Json::array();
  for (const Judged& judged : board.records()) {
    const auto& [record, rows] = judged;
    for (const Json& row : as_json(rows)) json.push_back(row);
    if (!options.junit.empty()) write_junit_file(judged, options.junit);
    if (options.json) continue;
    if (board.records().size() > 1) {
      const std::filesystem::path path = record.path;
      fmt::print("{}\n", all ? path.lexically_relative(places.reports()).string() : path.string());
    }
    fmt::print("{}", heading(record));
    for (const Row& row : rows) fmt::print("{}\n", as_line(row));
    fmt::print("{}{}\n", summary(rows), observed_tables(record, rows));
  }
  if (options.json) fmt::print("{}\n", json.dump(1));
  return exit_for(board.verdicts());
}

}  // namespace

Verb show_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("show", "The verdicts of records");
  command->add_option("records", options->records, "Records (default: all below reports/)");
  command->add_option("--junit", options->junit, "Write JUnit XML to this file, of one record");
  command->add_flag("--json", options->json, "A JSON array");
  command->add_flag("--markdown", options->markdown, "One table, a line a case, a column a release");
  return {command, [options, &root] { return show(Places::find(root), *options); }};
}

}  // namespace recapture

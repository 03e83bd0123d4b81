// recapture dev tables: pages and tables that are generated, as Markdown.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "harness/check/documents.h"
#include "harness/commands/commands.h"
#include "harness/compare/bisect.h"
#include "harness/judge/index.h"
#include "harness/judge/version.h"
#include "harness/page/tables.h"
#include "harness/record/output.h"
#include "harness/record/visible.h"
#include "harness/show/markdown.h"

namespace recapture {
namespace {

struct Options {
  std::string which = "rules", records;
  int top = 0;
};

Exit tables(const Places& places, const Options& options, const CLI::App& app) {
  if (options.which == "rules" || options.which == "cli") {
    if (options.top != 0 || !options.records.empty()) {
      throw Stop(Exit::Usage, "--records and --top do not go with " + options.which + ", which has nothing of records");
    }
    print("{}", options.which == "cli" ? cli_as_markdown(app) : rules_as_markdown());
    return Exit::AsExpected;
  }
  if (options.top < 0) throw Stop(Exit::Usage, "--top takes a number from 1 on");
  const std::string folder = options.records.empty() ? places.reports() : options.records;
  if (!std::filesystem::is_directory(folder)) throw Stop(Exit::Usage, visible(folder) + " is no folder");
  if (options.which == "machines" || options.which == "records") {
    if (options.top != 0) throw Stop(Exit::Usage, "--top is for failures, calls and documents");
    const bool by_machine = options.which == "machines";
    std::vector<Record> records = by_machine ? newest_records(folder).records : read_records_below(folder);
    if (records.empty()) throw Stop(Exit::NothingRan, "no records below " + visible(folder));
    if (by_machine) {
      Demands demands;
      demands.as_before = true;  // A record is judged as the run that wrote it was.
      print("{}", machines_as_markdown(Board(std::move(records), rules_of(places.root, demands))));
    } else {
      print("{}", records_as_markdown(records, rules_of(places.root), folder));
    }
    return Exit::AsExpected;
  }
  TableInput input{
      read_records_below(folder),      observed(background_of(places.root)), read_matrix(places.root), {}, folder,
      static_cast<size_t>(options.top)};
  const auto is_broken = [](const Record& record) { return record.broken() != Break::Nothing; };
  input.records.erase(std::remove_if(input.records.begin(), input.records.end(), is_broken), input.records.end());
  if (input.records.empty()) throw Stop(Exit::NothingRan, "no records below " + visible(folder));
  if (options.which == "documents") input.documents = read_documents(places.root);
  const auto make = options.which == "failures" ? failures_as_markdown
                    : options.which == "calls"  ? calls_as_markdown
                                                : documents_as_markdown;
  print("{}", make(std::move(input)));
  return Exit::AsExpected;
}

}  // namespace

Verb dev_tables_verb(CLI::App& dev, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = dev.add_subcommand("tables", "Print generated tables and pages as Markdown");
  command
      ->add_option(
          "which", options->which,
          "rules: the verdict tables; cli: all verbs with their options; machines: the newest verdicts on each; "
          "failures: the releases that have each; calls: the error code of each refused call; documents: "
          "claims that do not hold; records: the verdicts of each (default: rules)")
      ->check(CLI::IsMember({"rules", "cli", "machines", "failures", "calls", "documents", "records"}));
  command->add_option("--records", options->records, "Folder of the records (default: reports/)");
  command->add_option("--top", options->top, "Print so many lines, the most telling ones");
  return {command, [options, &root, &dev] { return tables(Places::find(root), *options, *dev.get_parent()); }};
}

}  // namespace recapture

// recapture dev tables: generated pages and tables, as Markdown.
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "harness/base/escape.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/explain/causes.h"
#include "harness/lint/documents.h"
#include "harness/model/origin.h"
#include "harness/model/release.h"
#include "harness/report/markdown.h"
#include "harness/report/operators.h"
#include "harness/report/tables.h"
#include "harness/store/select.h"
#include "harness/timeline/bisect.h"

namespace recapture::commands {
namespace {

struct DevTablesOptions {
  std::string which = "rules", records;
};

Exit tables(const run::Layout& places, const DevTablesOptions& options, const CLI::App& app) {
  constexpr std::array<std::string_view, 4> kWithoutRecords = {"rules", "cli", "man", "terms"};
  const bool takes_records = !contains(kWithoutRecords, options.which);
  if (!takes_records && !options.records.empty()) {
    throw ExitError(Exit::Usage, "--records does not go with " + options.which + ", which has nothing of records");
  }
  if (options.which == "rules" || options.which == "cli" || options.which == "man") {
    print("{}", options.which == "cli"   ? render_cli(app)
                : options.which == "man" ? render_man(app)
                                         : report::render_rules());
    return Exit::AsExpected;
  }
  if (options.which == "terms") {
    const Catalogue catalogue = read_catalogue(places.root);
    print("{}", explain::render_terms(explain::weigh_terms(
                    explain::read_causes(places.root, catalogue), catalogue,
                    explain::read_examples(places.root + "/harness/tests/data/threads.jsonl.xz"))));
    return Exit::AsExpected;
  }
  const std::string folder = options.records.empty() ? places.reports() : options.records;
  if (!std::filesystem::is_directory(folder)) throw ExitError(Exit::Usage, escape_control(folder) + " is not a folder");
  if (options.which == "operators" || options.which == "operators.json") {
    const timeline::OperatorTable table = timeline::operator_table(places.root, folder);
    if (table.releases.empty()) {
      throw ExitError(Exit::NothingRan, "no record below " + escape_control(folder) + " has operators");
    }
    print("{}", options.which == "operators" ? report::render_markdown(table) : report::render_json_lines(table));
    return Exit::AsExpected;
  }
  if (options.which == "machines") {
    std::vector<Record> records = newest_records(folder).records;
    if (records.empty()) throw ExitError(Exit::NothingRan, "no records below " + escape_control(folder));
    print("{}", report::render_machines(ResultMatrix(std::move(records), rules_as_in_a_run(places.root))));
    return Exit::AsExpected;
  }
  report::TableInput input{read_records_below(folder),
                           timeline::observed(compare::read_compare_context(places.root)),
                           read_matrix(places.root),
                           {},
                           folder};
  const auto is_apart = [](const Record& record) {
    return record.broken() != Break::Nothing || was_sent(record.environment);
  };
  std::erase_if(input.records, is_apart);
  if (input.records.empty()) throw ExitError(Exit::NothingRan, "no records below " + escape_control(folder));
  if (options.which == "documents") input.documents = lint::read_documents(places.root);
  const auto make = options.which == "failures" ? report::render_failures
                    : options.which == "calls"  ? report::render_calls
                                                : report::render_documents;
  print("{}", make(std::move(input)));
  return Exit::AsExpected;
}

}  // namespace

Verb dev_tables_verb(CLI::App& dev, const std::string& root) {
  const auto options = std::make_shared<DevTablesOptions>();
  auto* command = dev.add_subcommand("tables", "Print generated tables and pages as Markdown");
  command
      ->add_option("which", options->which,
                   "rules: the verdict tables; cli: all verbs with their options; man: the same as a man page; "
                   "machines: the newest verdicts on each; "
                   "failures: the releases that have each; calls: the error code of each refused call; documents: "
                   "claims that do not hold; operators, operators.json: which can be captured; "
                   "terms: the words of each cause that explain knows (default: rules)")
      ->check(CLI::IsMember({"rules", "cli", "man", "machines", "failures", "calls", "documents", "operators",
                             "operators.json", "terms"}));
  command->add_option("--records", options->records, "Folder of the records (default: reports/)");
  command->footer("Exit codes: 0 done, 2 wrong usage, 4 there are no records.");
  return {command,
          [options, &root, &dev] { return tables(run::Layout::find(root), *options, *dev.get_parent()); },
          Signals::Output,
          {{"recapture dev tables rules", "the verdict tables"},
           {"recapture dev tables cli > docs/reference/cli.md", "the page of all verbs"}}};
}

}  // namespace recapture::commands

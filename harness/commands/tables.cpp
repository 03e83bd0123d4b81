// recapture tables: the rules of judgement, and what all records say together.
#include "harness/page/tables.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "harness/check/documents.h"
#include "harness/commands/commands.h"
#include "harness/compare/bisect.h"
#include "harness/judge/index.h"
#include "harness/judge/version.h"
#include "harness/record/output.h"
#include "harness/record/visible.h"
#include "harness/show/markdown.h"

namespace recapture {
namespace {

struct Options {
  std::string which = "rules", records;
  int top = 0;
};

Exit tables(const Places& places, const Options& options) {
  if (options.which == "rules") {
    if (options.top != 0 || !options.records.empty()) throw Stop(Exit::Usage, "the rules are the same of all records");
    print("{}", rules_as_markdown());
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

Verb tables_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("tables", "As Markdown: the rules of judgement, or what all records say together");
  command
      ->add_option("which", options->which,
                   "rules; machines: the newest verdicts on each; failures: since and until when each; calls: which is "
                   "refused with which code; documents: what "
                   "they say that does not hold; records: each with its verdicts (default: rules)")
      ->check(CLI::IsMember({"rules", "machines", "failures", "calls", "documents", "records"}));
  command->add_option("--records", options->records, "Where the runs lie (default: reports/)");
  command->add_option("--top", options->top, "Only so many lines, those that say most");
  return {command, [options, &root] { return tables(Places::find(root), *options); }};
}

}  // namespace recapture

// recapture operators: which operators of PyTorch can be captured, from the records.
#include "harness/report/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/explain/causes.h"
#include "harness/model/release.h"
#include "harness/store/select.h"

namespace recapture::commands {
namespace {

struct OperatorsOptions {
  std::vector<std::string> names;
  std::string release, records;
  bool json = false;
};

// Code that is no operator, such as ".cpu()", may be that of a case: its id; "" if it is not.
std::string case_with(const std::string& word, const std::string& root) {
  const std::string call = word.find('(') == std::string::npos ? word + "()" : word;
  for (const explain::Cause& cause : explain::read_causes(root, read_catalogue(root))) {
    const auto fails = [&](const auto& statement) {
      return RE2::PartialMatch(call, *statement) || RE2::PartialMatch("x." + call, *statement);
    };
    if (cause.has_case && !cause.only_possible && std::ranges::any_of(cause.statements, fails)) return cause.id;
  }
  return "";
}

std::vector<const Operator*> operators_of(const std::string& word, const std::vector<Operator>& known,
                                          const std::string& root) {
  try {
    return named_operators(word, known);
  } catch (const ExitError& unknown) {
    const std::string id = case_with(word, root);
    if (id.empty()) throw;
    throw ExitError(
        Exit::Usage,
        fmt::format("there is no record of an operator '{}'; a case shows when it fails: `recapture show {}`",
                    escape_control(word), id));
  }
}

Exit operators(const run::Layout& places, const OperatorsOptions& options) {
  const std::string folder = options.records.empty() ? places.reports() : options.records;
  if (!std::filesystem::is_directory(folder)) throw ExitError(Exit::Usage, escape_control(folder) + " is not a folder");
  const std::vector<Operator> known = read_operators(places.root);
  std::set<std::string> wanted;
  for (const std::string& word : options.names) {
    for (const Operator* one : operators_of(word, known, places.root)) wanted.insert(one->name);
  }
  show_progress("operators: reading the records");
  timeline::OperatorTable table = timeline::operator_table(places.root, folder);
  show_progress("");
  if (table.releases.empty()) {
    throw ExitError(Exit::NothingRan, "no record below " + escape_control(folder) +
                                          " has operators; `recapture run operators` makes one");
  }
  if (!options.release.empty()) {
    const std::string release = resolve_release(options.release, table.releases, if_only_sent(folder));
    if (!contains(table.releases, release)) {
      throw ExitError(Exit::Usage, fmt::format("no operators of {} are on record; there are those of {}",
                                               escape_control(options.release), join(table.releases, ", ")));
    }
    table.releases = {release};
    for (timeline::OperatorRow& row : table.rows) {
      std::erase_if(row.releases, [&](const auto& on) { return on.release != release; });
    }
  }
  if (!wanted.empty()) {
    std::erase_if(table.rows, [&](const auto& row) { return wanted.count(row.what.name) == 0; });
  }
  if (options.json) {
    print("{}", report::render_json_lines(table));
  } else if (wanted.empty()) {
    print("{}", report::render_text(table));
  } else {
    for (const timeline::OperatorRow& row : table.rows) print("{}", report::render_text(row));
  }
  return Exit::AsExpected;
}

}  // namespace

Verb operators_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<OperatorsOptions>();
  auto* command = app.add_subcommand("operators", "Show which operators of PyTorch can be captured");
  command->add_option("names", options->names,
                      "Operators, such as F.one_hot or torch.linalg.inv (default: those that cannot be captured)");
  command->add_option("--release", options->release, "Only this LibTorch release");
  command->add_option("--records", options->records, "Folder of the records (default: reports/)");
  command->add_flag("--json", options->json, "Print JSON, which reports/operators.json.xz has packed");
  command->footer("Exit codes: 0 done, 2 wrong usage or unknown name, 4 no record has operators.");
  return {command,
          [options, &root] { return operators(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture operators F.one_hot", "whether it can be captured, and what to write instead"},
           {"recapture operators --release 2.11", "what cannot be captured there"}}};
}

}  // namespace recapture::commands

// recapture dev propose: the entries of cases/expectations.toml that would make a record's surprises expected.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/lint/propose.h"
#include "harness/run/layout.h"
#include "harness/verdict/rules.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

Exit propose_for(const run::Layout& places, const std::string& path) {
  const Record record = read_record(path);
  if (record.broken() != Break::Nothing) {
    throw ExitError(Exit::Usage, fmt::format("{} was broken on purpose; nothing of it is expected elsewhere", path));
  }
  const std::string below = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(places.reports()));
  const std::string name = is_report_path(below, record.environment) ? below : report_path(record.environment);
  const lint::Proposal proposal =
      lint::propose(record, judge_record(record, rules_of(places.root)), read_deviations(places.root), name);
  print("# {}: {} widened, {} narrowed, {} new\n", name, proposal.widened, proposal.narrowed, proposal.added);
  for (const std::string& what : proposal.by_hand) print("# by hand: {}\n", what);
  print("{}", proposal.entries);
  return Exit::AsExpected;
}

}  // namespace

Verb dev_propose_verb(CLI::App& dev, const std::string& root) {
  const auto record = std::make_shared<std::string>();
  auto* command = dev.add_subcommand("propose", "Suggest expectations for unexpected results");
  command->add_option("record", *record, "The record that has them")->required();
  command->footer(
      "Prints entries for cases/expectations.toml, with TODO in the place of reasons.\n"
      "Exit codes: 0 done, 2 wrong usage, or a record that was broken on purpose.");
  return {command,
          [record, &root] { return propose_for(run::Layout::find(root), *record); },
          Signals::Output,
          {{"recapture dev propose run.jsonl", "from a new record"},
           {"recapture dev propose reports/2.15.0/nvidia-h200.jsonl.gz", "from a placed one"}}};
}

}  // namespace recapture::commands

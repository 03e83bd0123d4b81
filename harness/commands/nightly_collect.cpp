// recapture nightly collect: combines the records of a night's machines.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/nightly/collect.h"
#include "harness/run/layout.h"

namespace recapture::commands {
namespace {

struct NightlyCollectOptions {
  std::string out, plan;
  std::vector<std::string> folders;
};

Exit collect(const run::Layout& places, const NightlyCollectOptions& options) {
  const nightly::NightPlan plan = nightly::read_plan(options.plan);
  Catalogue catalogue;
  if (std::filesystem::exists(catalogue_path(places.root))) catalogue = read_catalogue(places.root);
  const nightly::Gathered night = nightly::gather(options.out, options.folders, plan, catalogue);
  for (const std::string& note : night.notes) print("note: {}\n", note);
  for (const std::string& lack : night.lacks) print("{}\n", lack);
  print("{}: {} of {} tasks are complete\n", options.out, night.whole, plan.size());
  if (night.lacks.empty()) return Exit::AsExpected;
  throw ExitError(Exit::Inconclusive, fmt::format("{} is incomplete; see above", options.out));
}

}  // namespace

Verb nightly_collect_verb(CLI::App& nightly, const std::string& root) {
  const auto options = std::make_shared<NightlyCollectOptions>();
  auto* command = nightly.add_subcommand("collect", "Collect the records of a night's machines");
  command->add_option("out", options->out, "Make this folder of the night; one that was collected before is replaced")
      ->required();
  command->add_option("folders", options->folders, "Folders of the machines' records")->required();
  command->add_option("--plan", options->plan, "The plan of the night, as `recapture nightly plan` prints it")
      ->required();
  command->footer(
      "Exit codes: 0 every task of the plan has a complete run, 2 wrong usage, 6 one is missing, cut short or\n"
      "cannot be read, 7 the night cannot be written. show, compare and nightly diff judge the results.");
  return {command,
          [options, &root] { return collect(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture nightly collect nights/2026-11-29 h100 h200 --plan plan.json", "the records of two machines"},
           {"recapture nightly collect nights/retry h200 --plan plan.json", "a second try of a task"}}};
}

}  // namespace recapture::commands

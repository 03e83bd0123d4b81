// recapture nightly collect: one night of the records of its machines.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/night/gather.h"
#include "harness/record/output.h"
#include "harness/run/places.h"

namespace recapture {
namespace {

struct Options {
  std::string out, plan;
  std::vector<std::string> folders;
};

Exit collect(const Places& places, const Options& options) {
  const NightPlan plan = read_plan(options.plan);
  Catalogue catalogue;
  if (std::filesystem::exists(catalogue_path(places.root))) catalogue = read_catalogue(places.root);
  const Gathered night = gather(options.out, options.folders, plan, catalogue);
  for (const std::string& note : night.notes) print("note: {}\n", note);
  for (const std::string& lack : night.lacks) print("{}\n", lack);
  print("{}: {} of {} tasks are whole\n", options.out, night.whole, plan.size());
  if (night.lacks.empty()) return Exit::AsExpected;
  throw Stop(Exit::Inconclusive, fmt::format("{} is not the whole night; what it lacks is above", options.out));
}

}  // namespace

Verb nightly_collect_verb(CLI::App& nightly, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = nightly.add_subcommand("collect", "Collect the records of a night's machines");
  command->add_option("out", options->out, "Make this folder of the night; one that was collected before is replaced")
      ->required();
  command->add_option("folders", options->folders, "Folders of the machines' records")->required();
  command->add_option("--plan", options->plan, "The plan of the night, as `recapture nightly plan` prints it")
      ->required();
  command->footer(
      "Exit codes: 0 every task of the plan has a complete run, 6 one is missing, cut short or cannot be read. show,\n"
      "compare and nightly diff judge the results.");
  return {command, [options, &root] { return collect(Places::find(root), *options); }};
}

}  // namespace recapture

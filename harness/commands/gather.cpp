// recapture gather: one night out of what many machines left behind.
#include "harness/night/gather.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/record/output.h"
#include "harness/run/places.h"

namespace recapture {
namespace {

struct Options {
  std::string out, plan;
  std::vector<std::string> folders;
};

Exit gather_night(const Places& places, const Options& options) {
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

Verb gather_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("gather", "Make one night of the records that many machines left");
  command->add_option("out", options->out, "The night's folder to make; one that was gathered before is replaced")
      ->required();
  command->add_option("folders", options->folders, "Where the machines' records lie")->required();
  command->add_option("--plan", options->plan, "What the night was to run, as `recapture ci plan` prints it")
      ->required();
  command->footer(
      "Exit codes: 0 every task of the plan has a whole run, 6 one is missing, cut short or cannot be read. What the\n"
      "runs found is judged by show, compare and news.");
  return {command, [options, &root] { return gather_night(Places::find(root), *options); }};
}

}  // namespace recapture

// recapture ci: the plan of a night, and the files that make GitHub, GitLab or Slurm run it.
#include <fmt/format.h>

#include <memory>

#include "harness/commands/commands.h"
#include "harness/night/plan.h"
#include "harness/night/workflows.h"
#include "harness/record/output.h"
#include "harness/run/places.h"

namespace recapture {
namespace {

struct Options {
  std::string what, tier = "night";
};

Exit print_ci(const std::string& root, const Options& options) {
  if (options.what == "plan") {
    print("{}\n", as_json(read_tier(root, options.tier).plan()).dump(1));
  } else if (options.what == "slurm") {
    print("{}", slurm_script(read_tier(root, options.tier)));
  } else {
    const Tiers tiers{read_tier(root, "pull-request"), read_tier(root, options.tier)};
    print("{}", options.what == "github" ? github_workflow(tiers) : gitlab_pipeline(tiers));
  }
  return Exit::AsExpected;
}

}  // namespace

Verb ci_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("ci", "Print what makes GitHub, GitLab or Slurm run every night");
  command->add_option("what", options->what, "plan, github, gitlab or slurm")
      ->required()
      ->check(CLI::IsMember({"plan", "github", "gitlab", "slurm"}));
  command->add_option("--tier", options->tier, "A tier of ci/matrix.toml (default: night)");
  return {command, [options, &root] { return print_ci(Places::find(root).root, *options); }};
}

}  // namespace recapture

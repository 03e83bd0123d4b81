// recapture ci: the plan of a night.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/night/plan.h"
#include "harness/record/output.h"
#include "harness/record/visible.h"
#include "harness/run/places.h"

namespace recapture {
namespace {

struct Options {
  std::string what, tier = "night";
};

Exit print_ci(const std::string& root, const Options& options) {
  static const std::map<std::string, std::string> files = {
      {"github", "ci/github.yml"}, {"gitlab", "ci/gitlab.yml"}, {"slurm", "ci/slurm.sh"}};
  if (options.what != "plan") {
    const auto file = files.find(options.what);
    throw Stop(Exit::Usage,
               fmt::format("there is no `recapture ci {}`; {}", visible(options.what),
                           file == files.end() ? "`recapture ci plan` prints the plan of a night"
                                               : "use " + file->second + ", which is not generated any more"));
  }
  print("{}\n", as_json(read_tier(root, options.tier).plan()).dump(1));
  return Exit::AsExpected;
}

}  // namespace

Verb ci_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("ci", "Print the plan of a night: its releases on each kind of GPU");
  command->add_option("what", options->what, "plan")->required();
  command->add_option("--tier", options->tier, "A tier of ci/matrix.toml (default: night)");
  return {command, [options, &root] { return print_ci(Places::find(root).root, *options); }};
}

}  // namespace recapture

// recapture nightly plan: the tasks of a night.
#include <memory>

#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/nightly/plan.h"
#include "harness/run/layout.h"

namespace recapture::commands {

Verb nightly_plan_verb(CLI::App& nightly, const std::string& root) {
  const auto tier = std::make_shared<std::string>("night");
  auto* command = nightly.add_subcommand("plan", "Print the tasks of a night: its releases on each kind of GPU");
  command->add_option("--tier", *tier, "A tier of ci/matrix.toml (default: night)");
  command->footer("Exit codes: 0 done, 2 wrong usage, or ci/matrix.toml has no such tier.");
  return {command,
          [tier, &root] {
            print("{}\n", render_json(nightly::read_tier(run::Layout::find(root).root, *tier).plan()).dump(1));
            return Exit::AsExpected;
          },
          Signals::Output,
          {{"recapture nightly plan > plan.json", "the tasks of a night"},
           {"recapture nightly plan --tier pull-request", "the tasks of another tier of ci/matrix.toml"}}};
}

}  // namespace recapture::commands

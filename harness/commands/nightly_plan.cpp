// recapture nightly plan: the tasks of a night.
#include <memory>

#include "harness/commands/commands.h"
#include "harness/night/plan.h"
#include "harness/record/output.h"
#include "harness/run/places.h"

namespace recapture {

Verb nightly_plan_verb(CLI::App& nightly, const std::string& root) {
  const auto tier = std::make_shared<std::string>("night");
  auto* command = nightly.add_subcommand("plan", "Print the tasks of a night: its releases on each kind of GPU");
  command->add_option("--tier", *tier, "A tier of ci/matrix.toml (default: night)");
  return {command, [tier, &root] {
            print("{}\n", as_json(read_tier(Places::find(root).root, *tier).plan()).dump(1));
            return Exit::AsExpected;
          }};
}

}  // namespace recapture

// recapture baseline: marks the record that compare, gate and nightly diff take as the baseline.
#include <memory>

#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/compare/sides.h"
#include "harness/run/layout.h"

namespace recapture::commands {

Verb baseline_verb(CLI::App& app, const std::string& root) {
  const auto record = std::make_shared<std::string>(), folder = std::make_shared<std::string>();
  auto* command = app.add_subcommand("baseline", "Set the baseline record");
  command->add_option("record", *record, "The record of a complete run")->required();
  command->add_option("--records", *folder, "Folder of the records (default: reports/)");
  command->footer("Later compare, gate and nightly diff compare with it.");
  return {command, [record, folder, &root] {
            const std::string records = folder->empty() ? run::Layout::find(root).reports() : *folder;
            print("{} is a baseline\n", compare::mark_baseline(*record, records));
            return Exit::AsExpected;
          }};
}

}  // namespace recapture::commands

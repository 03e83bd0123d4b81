// recapture baseline: marks the record that compare, gate and nightly diff take as the baseline.
#include <memory>
#include <string>
#include <vector>

#include "harness/base/escape.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/model/record.h"
#include "harness/record/baselines.h"
#include "harness/run/layout.h"

namespace recapture::commands {
namespace {

// The tests whose process ended by a signal or at its deadline.
std::vector<std::string> ended_early(const Record& record) {
  std::vector<std::string> tests;
  for (const TestRecord& test : record.tests) {
    if (test.ending() == Ending::Signal || test.ending() == Ending::Deadline) tests.push_back(test.id());
  }
  return tests;
}

}  // namespace

Verb baseline_verb(CLI::App& app, const std::string& root) {
  const auto record = std::make_shared<std::string>(), folder = std::make_shared<std::string>();
  auto* command = app.add_subcommand("baseline", "Set the baseline record");
  command->add_option("record", *record, "The record of a complete run")->required();
  command->add_option("--records", *folder, "Folder of the records (default: reports/)");
  command->footer(
      "Later compare, gate and nightly diff compare with it.\n"
      "Exit codes: 0 it is marked, 2 wrong usage, or no record of a complete run, 7 the mark cannot be written.");
  return {command,
          [record, folder, &root] {
            const std::string records = folder->empty() ? run::Layout::find(root).reports() : *folder;
            print("{} is a baseline\n", mark_baseline(*record, records));
            const std::vector<std::string> tests = ended_early(read_record(*record));
            if (!tests.empty()) {
              print("note: {} in it crashed or hung, and will not be reported as new: {}\n",
                    plural(tests.size(), "test"), escape_control(join(tests)));
            }
            return Exit::AsExpected;
          },
          Signals::Output,
          {{"recapture baseline reports/2.15.0/nvidia-h200.jsonl.gz", "a record of this tree"},
           {"recapture baseline nights/2026-11-28/h200.jsonl --records nights", "one of a night"}}};
}

}  // namespace recapture::commands

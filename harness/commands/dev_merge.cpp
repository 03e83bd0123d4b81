// recapture dev merge: merges the shards of a run into one record.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "harness/commands/commands.h"
#include "harness/record/merge.h"

namespace recapture::commands {
namespace {

struct DevMergeOptions {
  std::string out;
  std::vector<std::string> parts;
};

Exit merge(const DevMergeOptions& options) {
  const auto lacks = merge_records(options.parts, options.out);
  if (lacks.empty()) return Exit::AsExpected;
  throw ExitError(Exit::Inconclusive, fmt::format("{} is incomplete: {}", options.out, fmt::join(lacks, "; ")));
}

}  // namespace

Verb dev_merge_verb(CLI::App& dev) {
  const auto options = std::make_shared<DevMergeOptions>();
  auto* command = dev.add_subcommand("merge", "Merge the records of a run's shards");
  command->add_option("out", options->out, "Write the merged record to this file")->required();
  command->add_option("records", options->parts, "The shards' records")->required();
  command->footer(
      "Exit codes: 0 the record is complete, 2 wrong usage, or shards of different runs, 6 one is missing or cut "
      "short,\n"
      "7 it cannot be written.");
  return {command,
          [options] { return merge(*options); },
          Signals::Output,
          {{"recapture dev merge all.jsonl 1.jsonl 2.jsonl", "two shards of one run"},
           {"recapture dev merge night.jsonl shard-*.jsonl", "all of a folder"}}};
}

}  // namespace recapture::commands

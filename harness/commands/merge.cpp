// recapture merge: one record of the shards of a run.
#include "harness/record/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "harness/commands/commands.h"

namespace recapture {
namespace {

struct Options {
  std::string out;
  std::vector<std::string> parts;
};

Exit merge(const Options& options) {
  const auto lacks = merge_records(options.parts, options.out);
  if (lacks.empty()) return Exit::AsExpected;
  throw Stop(Exit::Inconclusive, fmt::format("{} is not the whole run: {}", options.out, fmt::join(lacks, "; ")));
}

}  // namespace

Verb merge_verb(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("merge", "Make one record of the shards of a run");
  command->add_option("out", options->out, "The record to make")->required();
  command->add_option("records", options->parts, "The shards' records")->required();
  return {command, [options] { return merge(*options); }};
}

}  // namespace recapture

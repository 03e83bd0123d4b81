// recapture run: runs cases and writes a record.
#include "harness/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/show/junit.h"
#include "harness/show/text.h"

namespace recapture {
namespace {

// The options as they are typed.
struct Typed {
  RunOptions options;
  std::string broken = "nothing", shard, junit;
  std::vector<std::string> require;
};

Exit run_and_show(const Places& places, const Typed& typed) {
  RunOptions options = typed.options;
  options.broken = break_of(typed.broken).value();
  if (!typed.shard.empty()) options.shard = read_shard(typed.shard);
  for (const std::string& need : typed.require) {
    if (need != "gpu" && need != "recorder") {
      throw Stop(Exit::Usage, "--require takes gpu or recorder, not '" + need + "'");
    }
    options.demands.gpu = options.demands.gpu || need == "gpu";
    options.demands.recorder = options.demands.recorder || need == "recorder";
  }
  const Finished finished = run(places, options);
  const auto& [record, rows] = finished;
  if (!typed.junit.empty()) write_junit_file({record, rows}, typed.junit);
  fmt::print("\n{}{}{}record: {}\n", heading(record), summary(rows), observed_tables(record, rows), record.path);
  return exit_for(verdicts_of(rows));
}

}  // namespace

Verb run_verb(CLI::App& app, const std::string& root) {
  const auto typed = std::make_shared<Typed>();
  RunOptions& options = typed->options;
  auto* command = app.add_subcommand("run", "Run cases, each test in its own process, and write a record");
  command->add_option("cases", options.filters, "Families, cases, or tests as case.Test (default: all)");
  command->add_option("--release", options.release, "LibTorch release (default: the newest that is built)");
  command->add_option("--record", options.record, "Where the record goes (default: below the build folder)");
  command->add_option("--resume", options.resume, "A record that was cut short: run the rest of it");
  command->add_option("--shard", typed->shard, "i/n: only every n-th case, from the i-th on");
  command->add_option("--libtorch", options.libtorch, "Site-packages folder to load LibTorch from");
  command->add_option("--require", typed->require, "gpu, recorder: fail (7) where it is not there")
      ->allow_extra_args(false);
  command
      ->add_option("--break", typed->broken,
                   "nothing, trigger or value: see that Reproduces can fail; remedy: that Fix can")
      ->check(CLI::IsMember(std::vector<std::string>(kBreaks.begin(), kBreaks.end())));
  command->add_option("--revision", options.revision, "What to record as revision (default: asked of git)");
  command->add_option("--junit", typed->junit, "Also write JUnit XML to this file");
  command->add_flag("--exec", options.exec, "Start every test by plain exec instead of forking a loaded parent");
  return {command, [typed, &root] { return run_and_show(Places::find(root), *typed); }};
}

}  // namespace recapture

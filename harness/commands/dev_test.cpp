// recapture dev test: one test for CTest, judged as in a run, with an exit code for CTest.
#include <algorithm>
#include <memory>

#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/model/catalogue.h"
#include "harness/model/suggest.h"
#include "harness/report/text.h"
#include "harness/run/run.h"
#include "harness/verdict/verdict.h"

namespace recapture::commands {
namespace {

struct DevTestOptions {
  std::string id, release;
};

// CTest lists all tests of the catalogue; a build without LibTorch leaves some of them out.
bool is_left_out(const run::Layout& places, const DevTestOptions& options) {
  if (!is_without_libtorch(options.release)) return false;
  const std::vector<std::string> tests = names_in(read_catalogue(places.root)).tests;
  return contains(tests, options.id);
}

Exit test(const run::Layout& places, const DevTestOptions& options) {
  run::RunOptions run_options;
  run_options.release = options.release;
  run_options.filters = {options.id};
  run_options.jobs = 1;
  // Below the build folder, and only the last run: CTest's runs are not reports.
  run_options.record = places.build + "/" + options.release + "/ctest/" + options.id + ".jsonl";
  run_options.replace = true;
  try {
    const Exit exit = exit_for(verdicts_of(run::run_cases(places, run_options, report::render_line).rows));
    return exit == Exit::NothingRan ? Exit::Skipped : exit;
  } catch (const ExitError& stop) {
    if (stop.code == Exit::NothingRan) {
      print("{}\n", stop.what());
      return Exit::Skipped;
    }
    if (stop.code != Exit::Usage || !is_left_out(places, options)) throw;
    print("{} needs LibTorch, and is not part of {}\n", options.id, options.release);
    return Exit::Skipped;
  }
}

}  // namespace

Verb dev_test_verb(CLI::App& dev, const std::string& root) {
  const auto options = std::make_shared<DevTestOptions>();
  auto* command = dev.add_subcommand("test", "Run one test for CTest; exit with 77 if it cannot run here");
  command->add_option("test", options->id, "case.Test")->required();
  command->add_option("--release", options->release, "LibTorch release")->required();
  command->footer("Exit codes: those of run, and 77 for a test that cannot run here.");
  return {command,
          [options, &root] { return test(run::Layout::find(root), *options); },
          Signals::Children,
          {{"recapture dev test item_in_capture.Control --release 2.15.0", "one test"},
           {"recapture dev test errors_by_mode.Control --release cuda13", "one without LibTorch"}}};
}

}  // namespace recapture::commands

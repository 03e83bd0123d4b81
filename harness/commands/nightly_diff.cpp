// recapture nightly diff: what is red, flaky, missing or healed on a night, compared with earlier nights.
#include <fmt/format.h>

#include <ctime>
#include <memory>

#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/nightly/accepted.h"
#include "harness/nightly/report.h"
#include "harness/report/night.h"
#include "harness/report/night_issues.h"
#include "harness/run/layout.h"

namespace recapture::commands {
namespace {

struct NightlyDiffOptions {
  std::string nights;
  nightly::ReportChoice choice;
  bool json = false, markdown = false, issue = false;
};

Exit report_night(const run::Layout& places, const NightlyDiffOptions& options) {
  if ((options.json ? 1 : 0) + (options.markdown ? 1 : 0) + (options.issue ? 1 : 0) > 1) {
    throw ExitError(Exit::Usage, "--json, --markdown and --issue cannot be combined");
  }
  const compare::CompareContext background = compare::read_compare_context(places.root);
  nightly::ReportChoice choice = options.choice;
  if (!choice.from.empty() && !choice.first) throw ExitError(Exit::Usage, "--from goes with --first");
  choice.accepted = nightly::read_accepted(places.root);
  choice.now = std::time(nullptr);
  choice.period_days = nightly::period_of_nights(places.root);
  const auto [report, state_path, state] = report_of(options.nights, choice, background);
  if (options.json || options.issue) {
    const Json json =
        options.json ? report::render_json(report) : report::render_json(report::issues_of(report, background));
    print("{}\n", to_text(json, 1));
  } else {
    print("{}", options.markdown ? report::render_markdown(report) : report::render_text(report));
  }
  if (state) write_state(state_path, *state);
  return exit_for(report);
}

}  // namespace

Verb nightly_diff_verb(CLI::App& nightly, const std::string& root) {
  const auto options = std::make_shared<NightlyDiffOptions>();
  auto* command = nightly.add_subcommand("diff", "Compare a night with the nights before");
  command->add_option("nights", options->nights, "Folder of all nights, each made by `recapture nightly collect`")
      ->required();
  command->add_option("--night", options->choice.night,
                      "The night to compare, by its folder or name (default: the newest)");
  command
      ->add_option("--baseline", options->choice.baseline,
                   "Use the records of this folder, such as reports/, as the night before the first")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--first", options->choice.first,
                    "Begin again: use no state of an earlier night, and make one from the nights that are kept");
  command->add_option("--from", options->choice.from, "With --first: begin with this night (default: the oldest)");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->add_flag("--markdown", options->markdown, "Print Markdown, for the summary of a job on GitHub");
  command->add_flag(
      "--issue", options->issue,
      "Print a JSON list of issues, one for each cause: fingerprint, state (open, healed), title, body, labels");
  command->footer(
      "A red test is reported every night: as new, still red (since a night) or flaky. Each test is compared with its\n"
      "baseline: its first clear result, or that of a later record which `recapture baseline` has marked.\n\n"
      "Reads the state of an earlier night, state.json in its folder, and writes that of the newest one. An entry of\n"
      "ci/accepted.toml accepts a test that is not judged.\n\n"
      "Exit codes: 0 nothing is red, 1 something is red, 2 wrong usage, 4 there is no night, 5 something changed or "
      "healed, 6 there is no state of an\n"
      "earlier night, records are missing or incomplete, or tests are neither judged nor accepted, 7 the state cannot "
      "be\n"
      "written.");
  return {command,
          [options, &root] { return report_night(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture nightly diff nights", "the newest night"},
           {"recapture nightly diff nights --first --baseline reports", "the first one, against the records"}}};
}

}  // namespace recapture::commands

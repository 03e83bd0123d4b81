// recapture explain: which cause a pasted text speaks for, from the catalogue and cases/diagnoses.toml alone.
#include "harness/explain/explain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/model/suggest.h"
#include "harness/report/explanation.h"
#include "harness/report/latest.h"
#include "harness/run/layout.h"
#include "harness/run/process.h"
#include "harness/verdict/result_matrix.h"
#include "harness/verdict/select.h"

namespace recapture::commands {
namespace {

struct Options {
  std::string file, release;
  bool json = false;
};

std::string text_of(const std::string& file) {
  if (!file.empty() && file != "-") return contents_of(file);
  std::string text;
  std::array<char, 65536> buffer{};
  ssize_t got = 0;
  while ((got = read(STDIN_FILENO, buffer.data(), buffer.size())) > 0)
    text.append(buffer.data(), static_cast<size_t>(got));
  if (run::interrupted()) throw ExitError(Exit::Interrupted, "interrupted");
  if (got < 0) throw ExitError(Exit::Usage, fmt::format("standard input cannot be read: {}", std::strerror(errno)));
  return text;
}

Exit explain_text(const run::Layout& places, const Options& options) {
  const Catalogue catalogue = read_catalogue(places.root);
  const auto causes = explain::read_causes(places.root, catalogue);
  const std::string release = options.release.empty() ? "" : known_release(places.root, options.release);
  const std::vector<TestVerdict> rows = current_verdicts(places, release);
  const std::string text = text_of(options.file);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw ExitError(Exit::Usage, "there is no text; paste the error message or pipe the log into it");
  }
  const explain::Explanation explanation =
      explain::diagnose(explain::parse_error_text(text), causes, catalogue, rows, current_prices(places, release));
  if (options.json) {
    print("{}\n", report::render_json(explanation).dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    print("{}", report::render_text(explanation, release));
  }
  return explanation.answer == explain::Answer::CannotTell ? Exit::Inconclusive : Exit::AsExpected;
}

}  // namespace

std::vector<TestVerdict> current_verdicts(const run::Layout& places, const std::string& release) {
  std::vector<TestVerdict> rows;
  if (release.empty()) return rows;
  const ResultMatrix board(newest_records(places.reports(), {release, {}}).records, rules_of(places.root));
  for (const report::OnMachine& one : report::latest(board)) {
    if (one.broken != Break::Nothing || one.newest->record.env("release") != release) continue;
    for (const report::Latest& each : one.rows) {
      const Severity tone = severity_of(each.row->verdict);
      if (tone == Severity::Pass || tone == Severity::Fail) rows.push_back(*each.row);
    }
  }
  return rows;
}

std::vector<Prices> current_prices(const run::Layout& places, const std::string& release) {
  std::vector<Prices> all;
  if (release.empty()) return all;
  for (const std::string& path : prices_below(places.reports())) {
    Prices prices = read_prices(path);
    if (prices.env("release") == release) all.push_back(std::move(prices));
  }
  return prices_by_machine(std::move(all));
}

Verb explain_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("explain", "Diagnose an error message or a log");
  command->add_option("file", options->file, "A text file (default: standard input)");
  command->add_option("--release", options->release,
                      "Show which fixes hold with this LibTorch release and what they cost");
  command->add_flag("--json", options->json, "Print a JSON object");
  return {command, [options, &root] { return explain_text(run::Layout::find(root), *options); }, Signals::Children};
}

}  // namespace recapture::commands

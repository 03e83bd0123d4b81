// recapture explain: which cause a pasted text speaks for, from the catalogue and cases/causes.toml alone.
#include "harness/explain/explain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/explain/words.h"
#include "harness/judge/board.h"
#include "harness/judge/index.h"
#include "harness/judge/suggest.h"
#include "harness/record/file.h"
#include "harness/record/output.h"
#include "harness/run/places.h"
#include "harness/run/process.h"
#include "harness/show/latest.h"

namespace recapture {
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
  if (interrupted()) throw Stop(Exit::Interrupted, "interrupted");
  if (got < 0) throw Stop(Exit::Usage, fmt::format("standard input cannot be read: {}", std::strerror(errno)));
  return text;
}

Exit explain_text(const Places& places, const Options& options) {
  const Catalogue catalogue = read_catalogue(places.root);
  const auto causes = read_causes(places.root, catalogue);
  const std::string release = options.release.empty() ? "" : known_release(places.root, options.release);
  const std::vector<Row> rows = telling_rows(places, release);
  const std::string text = text_of(options.file);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Stop(Exit::Usage, "there is no text; paste the error message or pipe the log into it");
  }
  const Explanation explanation = explain(read_pasted(text), causes, catalogue, rows, telling_prices(places, release));
  if (options.json) {
    print("{}\n", as_json(explanation).dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    print("{}", in_words(explanation, release));
  }
  return explanation.answer == Answer::CannotTell ? Exit::Inconclusive : Exit::AsExpected;
}

}  // namespace

std::vector<Row> telling_rows(const Places& places, const std::string& release) {
  std::vector<Row> rows;
  if (release.empty()) return rows;
  const Board board(newest_records(places.reports(), {release, {}}).records, rules_of(places.root));
  for (const OnMachine& one : latest(board)) {
    if (one.broken != Break::Nothing || one.newest->record.where("release") != release) continue;
    for (const Latest& each : one.rows) {
      const Tone tone = tone_of(each.row->verdict);
      if (tone == Tone::Green || tone == Tone::Red) rows.push_back(*each.row);
    }
  }
  return rows;
}

std::vector<Prices> telling_prices(const Places& places, const std::string& release) {
  std::vector<Prices> all;
  if (release.empty()) return all;
  for (const std::string& path : prices_below(places.reports())) {
    Prices prices = read_prices(path);
    if (prices.where("release") == release) all.push_back(std::move(prices));
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
  return {command, [options, &root] { return explain_text(Places::find(root), *options); }, Signals::Children};
}

}  // namespace recapture

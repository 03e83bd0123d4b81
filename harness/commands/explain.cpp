// recapture explain: which cause a pasted text speaks for, from the catalogue and cases/causes.toml alone.
#include "harness/explain/explain.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/judge/board.h"
#include "harness/judge/index.h"
#include "harness/run/places.h"

namespace recapture {
namespace {

constexpr size_t kMostText = size_t{64} << 20;  // Bytes of a log that are read.

struct Options {
  std::string file, release;
  bool json = false;
};

std::string text_of(const std::string& file) {
  if (file.empty() || file == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostText, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream && stream.gcount() == 0 && !stream.eof()) {
    throw Stop(Exit::Usage, file + ": cannot be read; name a text file, or paste the text on standard input");
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

// The newest results of a release on all machines, those with a GPU last so that they are found first.
std::vector<Row> rows_of(const Places& places, const std::string& release) {
  if (release.empty()) return {};
  require_known_release(places.root, release);
  std::vector<Row> rows;
  for (const Record& record : newest_records(places.reports()).records) {
    if (record.environment.value("release", "") != release) continue;
    if (record.environment.value("break", "nothing") != "nothing") continue;
    for (Row& row : judge_record(record, rules_of(places.root))) {
      if (row.ran && row.result != Result::Unavailable) rows.push_back(std::move(row));
    }
  }
  return rows;
}

Json as_json(const Explanation& explanation) {
  Json causes = Json::array(), remedies = Json::array();
  for (const Found& one : explanation.causes) {
    causes.push_back({{"id", one.id}, {"role", one.role}, {"evidence", one.evidence}, {"title", one.title}});
  }
  for (const RemedyFor& remedy : explanation.remedies) {
    remedies.push_back({{"text", remedy.text},
                        {"holds", remedy.holds ? Json(*remedy.holds) : Json()},
                        {"price", Json()},
                        {"cause", remedy.cause},
                        {"useless", remedy.useless}});
  }
  return {{"answer", word(explanation.answer)},
          {"summary", explanation.summary},
          {"causes", causes},
          {"remedies", remedies}};
}

void print(const Explanation& explanation, const std::string& release) {
  std::string summary = explanation.summary;
  summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
  fmt::print("{}.\n", summary);
  for (const Found& one : explanation.causes) {
    fmt::print("\n{}: {}\n  {}\n  {}\n", one.role, one.id, one.title, one.evidence);
    if (one.healthy_here) fmt::print("  does not occur in {}, by its record\n", release);
    for (const RemedyFor& remedy : explanation.remedies) {
      if (remedy.cause != one.id) continue;
      const std::string holds = remedy.useless  ? "does not help: "
                                : !remedy.holds ? "try: "
                                : *remedy.holds ? fmt::format("holds in {}: ", release)
                                                : fmt::format("does not hold in {}: ", release);
      fmt::print("  {}{}\n", holds, remedy.text);
    }
  }
}

Exit explain_text(const Places& places, const Options& options) {
  const Catalogue catalogue = read_catalogue(places.root);
  const auto causes = read_causes(places.root, catalogue);
  const std::vector<Row> rows = rows_of(places, options.release);
  const std::string text = text_of(options.file);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Stop(Exit::Usage, "there is no text; paste the error message or pipe the log into it");
  }
  const Explanation explanation = explain(read_pasted(text), causes, catalogue, rows);
  if (options.json) {
    fmt::print("{}\n", as_json(explanation).dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    print(explanation, options.release);
  }
  return explanation.answer == Answer::CannotTell ? Exit::Inconclusive : Exit::AsExpected;
}

}  // namespace

Verb explain_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("explain", "Why a capture failed, from an error message or a log");
  command->add_option("file", options->file, "A text file (default: standard input)");
  command->add_option("--release", options->release, "LibTorch release: which remedies hold there, by its records");
  command->add_flag("--json", options->json, "A JSON object");
  return {command, [options, &root] { return explain_text(Places::find(root), *options); }};
}

}  // namespace recapture

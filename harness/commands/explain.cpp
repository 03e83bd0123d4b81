// recapture explain: the likely causes of a pasted text, from the catalogue and cases/diagnoses.toml alone.
#include "harness/explain/explain.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/model/suggest.h"
#include "harness/report/explanation.h"
#include "harness/report/latest.h"
#include "harness/report/operators.h"
#include "harness/run/layout.h"
#include "harness/run/process.h"
#include "harness/store/result_matrix.h"
#include "harness/store/select.h"

namespace recapture::commands {
namespace {

struct ExplainOptions {
  std::vector<std::string> words;
  std::string release;
  bool json = false;
};

constexpr size_t kChunk = 256 << 10;  // Bytes.

// Reads the file, or standard input if none is named, in pieces. Throws ExitError.
void read_all(const std::string& file, const std::function<void(std::string_view)>& take) {
  const bool is_file = !file.empty() && file != "-";
  std::error_code none;
  if (is_file && !std::filesystem::is_regular_file(file, none)) contents_of(file);  // Throws with the reason.
  const int input = is_file ? open(file.c_str(), O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
  if (input < 0) throw ExitError(Exit::Usage, fmt::format("{}: cannot read it: {}", file, std::strerror(errno)));
  std::string buffer(kChunk, '\0');
  ssize_t got = 0;
  while ((got = read(input, buffer.data(), buffer.size())) > 0)
    take(std::string_view(buffer).substr(0, static_cast<size_t>(got)));
  const int error = errno;
  if (is_file) close(input);
  if (run::interrupted()) throw ExitError(Exit::Interrupted, "interrupted");
  if (got < 0) {
    throw ExitError(Exit::Usage,
                    fmt::format("{} cannot be read: {}", is_file ? file : "standard input", std::strerror(error)));
  }
}

// Throws ExitError if the input begins like a packed file or a picture.
void require_text(std::string_view begin) {
  using namespace std::string_view_literals;
  constexpr std::array<std::pair<std::string_view, const char*>, 7> kOthers = {
      {{"\x1f\x8b"sv, "packed by gzip (zcat unpacks it)"},
       {"\xfd\x37zXZ"sv, "packed by xz (xzcat unpacks it)"},
       {"\x28\xb5\x2f\xfd"sv, "packed by zstd (zstdcat unpacks it)"},
       {"PK\x03\x04"sv, "a zip archive (unzip -p unpacks it)"},
       {"\x89PNG"sv, "a picture"},
       {"\xff\xd8\xff"sv, "a picture"},
       {"%PDF-"sv, "a PDF document (pdftotext reads it)"}}};
  for (const auto& [magic, what] : kOthers) {
    if (begin.substr(0, magic.size()) != magic) continue;
    throw ExitError(Exit::Usage, fmt::format("the input is {}; explain reads only text", what));
  }
}

// Whether a word names a file, there or not: "logs/train.log", and neither "901" nor "cudaErrorStreamCaptureMerge".
bool is_path(const std::string& word) {
  std::error_code none;
  if (word == "-" || std::filesystem::exists(word, none)) return true;
  constexpr std::array<std::string_view, 12> kFiles = {".txt", ".log", ".out", ".err",   ".md",  ".json",
                                                       ".gz",  ".xz",  ".zst", ".jsonl", ".png", ".pdf"};
  if (word.find_first_of(" \n") != std::string::npos) return false;
  return word.find('/') != std::string::npos || contains(kFiles, std::filesystem::path(word).extension().string());
}

// The file's, standard input's, or the words themselves.
explain::ErrorText read_text(const std::vector<std::string>& words, const std::vector<explain::Cause>& causes) {
  explain::LogReader reader(explain::cues_of(causes));
  bool is_empty = true, is_first = true;
  const auto take = [&](std::string_view bytes) {
    if (std::exchange(is_first, false)) require_text(bytes);
    is_empty = is_empty && bytes.find_first_not_of(" \t\r\n") == bytes.npos;
    reader.add(bytes);
  };
  if (words.size() > 1 || (words.size() == 1 && !is_path(words.front()))) {
    const std::string text = join(words, " ");
    const bool is_code = text.size() == 3 && text.find_first_not_of("0123456789") == std::string::npos;
    take(is_code ? "CUDA error " + text : text);
  } else {
    if (words.empty() && isatty(STDIN_FILENO) != 0) {
      print_error("paste the error message, then Ctrl-D; or name a file or the message: recapture explain FILE");
    }
    read_all(words.empty() ? "" : words.front(), take);
  }
  if (is_empty) throw ExitError(Exit::Usage, "there is no text; paste the error message or pipe the log into it");
  return explain::parse_error_text(reader.finish());
}

// Defaults to the release in the text, if it has records.
std::string release_of(const run::Layout& places, const ExplainOptions& options,
                       const explain::Explanation& explanation) {
  if (!options.release.empty()) return known_release(places.root, options.release, if_only_sent(places.reports()));
  const std::string release = explanation.release;
  return !release.empty() && std::filesystem::is_directory(places.reports() + "/" + release) ? release : "";
}

Exit explain_text(const run::Layout& places, const ExplainOptions& options) {
  if (!options.release.empty()) known_release(places.root, options.release, if_only_sent(places.reports()));
  const Catalogue catalogue = read_catalogue(places.root);
  const auto causes = explain::read_causes(places.root, catalogue);
  const explain::ErrorText text = read_text(options.words, causes);
  explain::Explanation explanation = explain::find_causes(text, causes);
  const std::string release = release_of(places, options, explanation);
  const std::vector<Operator> known = read_operators(places.root);
  const auto operators = named_operators(text, explanation, known);
  if (!operators.empty() && !explanation.is_hip) {
    explanation.operators = current_answers(places, release).of(operators);
  }
  const std::set<std::string> cases = cases_with_remedies(explanation);
  const bool has_records = !cases.empty() && !release.empty();
  add_remedies(explanation, causes, catalogue, cases.empty() ? std::vector<Deviation>() : read_deviations(places.root),
               has_records ? current_verdicts(places, release, cases) : std::vector<TestVerdict>(),
               has_records ? current_prices(places, release) : std::vector<Prices>());
  if (options.json) {
    print("{}\n", to_text(report::render_json(explanation, release), 1));
  } else {
    print("{}", report::render_text(explanation, release));
  }
  return explanation.answer == explain::Answer::CannotTell ? Exit::Inconclusive : Exit::AsExpected;
}

}  // namespace

std::vector<TestVerdict> current_verdicts(const run::Layout& places, const std::string& release,
                                          const std::set<std::string>& cases) {
  std::vector<TestVerdict> rows;
  if (release.empty()) return rows;
  // A release's records are in its folder; to read the first line of all others would take longer than the rest.
  const std::string folder = places.reports() + "/" + release;
  if (!std::filesystem::is_directory(folder)) return rows;
  const ResultMatrix board(newest_records(folder, {release, cases}).records, rules_of(places.root, {}, cases));
  std::vector<OnMachine> all = latest(board);
  if (!std::ranges::all_of(all, &OnMachine::was_sent)) std::erase_if(all, std::mem_fn(&OnMachine::was_sent));
  for (const OnMachine& one : all) {
    if (one.broken != Break::Nothing || one.newest->record.env("release") != release) continue;
    for (const Latest& each : one.rows) {
      const Severity tone = severity_of(each.row->verdict);
      if (tone == Severity::Pass || tone == Severity::Fail) rows.push_back(*each.row);
    }
  }
  return rows;
}

OperatorAnswers current_answers(const run::Layout& places, const std::string& release) {
  return report::operator_answers(timeline::operator_table(places.root, places.reports()), release);
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
  const auto options = std::make_shared<ExplainOptions>();
  auto* command = app.add_subcommand("explain", "Diagnose an error message or a log");
  command->add_option("text", options->words,
                      "A text file; or the message itself, or a CUDA error such as 901 (default: standard input)");
  command->add_option(
      "--release", options->release,
      "Show which fixes work with this LibTorch release and what they cost (default: the one that the text names)");
  command->add_flag("--json", options->json, "Print a JSON object");
  command->footer(
      "Exit codes: 0 the cause is named, or it is not a capture failure, 2 wrong usage or no text, 6 it cannot tell.");
  return {command,
          [options, &root] { return explain_text(run::Layout::find(root), *options); },
          Signals::Children,
          {{"recapture explain 901", "what a CUDA error means, and what to do"},
           {"python train.py 2>&1 | recapture explain", "diagnose what a program prints"}}};
}

}  // namespace recapture::commands

// recapture dev propose: the entries of cases/expectations.toml that would make a record's surprises expected.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/lint/propose.h"
#include "harness/run/layout.h"
#include "harness/store/select.h"
#include "harness/verdict/rules.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

Record read_unbroken(const std::string& path) {
  Record record = read_record(path);
  if (record.broken() != Break::Nothing) {
    throw ExitError(Exit::Usage,
                    fmt::format("{} was broken on purpose; its results are not expected of other runs", path));
  }
  return record;
}

// The record's place below reports/: where it is, or will be.
std::string name_of(const Record& record, const run::Layout& places) {
  const std::string below =
      fs::weakly_canonical(record.path).lexically_relative(fs::weakly_canonical(places.reports()));
  return is_report_path(below, record.environment) ? below : report_path(record.environment);
}

Rules rules_with_machines(const run::Layout& places) {
  Rules rules = rules_of(places.root);
  for (const std::string& path : records_below(places.reports())) rules.measured.add(environment_of(path));
  return rules;
}

void print_proposal(const run::Layout& places, const std::string& path) {
  Record record = read_unbroken(path);
  const std::string name = name_of(record, places);
  const lint::Proposal proposal =
      lint::propose(judged(std::move(record), rules_of(places.root)), read_deviations(places.root), name);
  print("# {}: {} widened, {} narrowed, {} new\n", name, proposal.widened, proposal.narrowed, proposal.added);
  for (const std::string& what : proposal.by_hand) print("# by hand: {}\n", what);
  print("{}", proposal.entries);
}

void print_news(const lint::News& news, const std::string& release) {
  print("{} on {}: {}\n  expected: {}\n  {} shows: {}\n", escape_control(news.test), escape_control(news.gpus),
        to_string(news.verdict), escape_control(news.expected), escape_control(release), escape_control(news.shown));
  if (!news.source.empty()) print("  upstream: {}\n", escape_control(news.source));
}

void apply(const run::Layout& places, const std::vector<std::string>& paths) {
  std::vector<lint::ProposedRecord> records;
  for (const std::string& path : paths) {
    Record record = read_unbroken(path);
    std::string name = name_of(record, places);
    records.push_back({std::move(record), std::move(name)});
    const Environment &first = records.front().record.environment, &other = records.back().record.environment;
    if (other.release != first.release) {
      throw ExitError(Exit::Usage, fmt::format("{}: of {}, and {} is of {}; --apply takes records of one release", path,
                                               escape_control(other.release.name()), paths.front(),
                                               escape_control(first.release.name())));
    }
  }
  const std::string file = places.root + "/cases/expectations.toml", before = contents_of(file);
  const lint::AppliedProposal applied =
      lint::apply_proposal(before, read_deviations(places.root), records, rules_with_machines(places));
  const std::string release = records.front().record.env("release");
  for (const lint::News& news : applied.news) print_news(news, release);
  for (const std::string& what : applied.by_hand) print("by hand: {}\n", what);
  if (applied.text != before) write_file(file, applied.text);
  print("{} news; of cases/expectations.toml {} entries confirmed, {} widened, {} ended, {} new{}\n",
        applied.news.size(), applied.confirmed, applied.widened, applied.narrowed, applied.added,
        applied.added == 0 ? "" : ", with TODO for the reasons");
}

struct ProposeOptions {
  std::vector<std::string> records;
  bool applies = false;
};

Exit propose_for(const run::Layout& places, const ProposeOptions& options) {
  if (options.applies) {
    apply(places, options.records);
    return Exit::AsExpected;
  }
  if (options.records.size() > 1) {
    throw ExitError(Exit::Usage, "propose prints the entries of one record; --apply takes several of one release");
  }
  print_proposal(places, options.records.front());
  return Exit::AsExpected;
}

}  // namespace

Verb dev_propose_verb(CLI::App& dev, const std::string& root) {
  const auto options = std::make_shared<ProposeOptions>();
  auto* command = dev.add_subcommand("propose", "Suggest expectations for unexpected results");
  command->add_option("record", options->records, "The record that has them; with --apply, one of each machine")
      ->required();
  command->add_flag("--apply", options->applies,
                    "Edit cases/expectations.toml, and print what a person must judge: each test that shows something "
                    "new, both texts, and the upstream change");
  command->footer(
      "Prints entries for cases/expectations.toml, with TODO in place of reasons.\n"
      "Exit codes: 0 done, 2 wrong usage, or a record that was broken on purpose, 7 the file cannot be written.");
  return {
      command,
      [options, &root] { return propose_for(run::Layout::find(root), *options); },
      Signals::Output,
      {{"recapture dev propose run.jsonl", "from a new record"},
       {"recapture dev propose --apply reports/2.15.0/nvidia-h*.jsonl.gz", "edit the file, for both GPUs at once"}}};
}

}  // namespace recapture::commands

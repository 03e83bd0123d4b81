// recapture dev place: puts records of runs at their place below reports/, packed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/model/suggest.h"
#include "harness/run/layout.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

// Throws ExitError(Usage) for a record of outdated cases or of an incomplete run.
void check_record(const Record& record, const Rules& rules) {
  const auto refuse = [&](const std::string& why) {
    throw ExitError(Exit::Usage, fmt::format("{}: {}", record.path, why));
  };
  if (record.is_shard()) refuse("one shard of several; `recapture dev merge` makes one record of them");
  if (record.tests.empty()) refuse("no test has run");
  if (const std::string& release = record.environment.release; !can_be_release(release)) {
    refuse(fmt::format("its release '{}' is not a release", escape_control(release)));
  }
  std::vector<std::string> stale;
  for (const auto& [id, info] : record.cases) {
    if (rules.stale(record, id)) stale.push_back(id);
  }
  if (stale.empty()) return;
  constexpr size_t kFew = 3;
  const size_t more = stale.size() > kFew ? stale.size() - kFew : 0;
  stale.resize(stale.size() - more);
  refuse(fmt::format("stale, as {}{} changed since; build and run again", fmt::join(stale, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more)));
}

// Whether a record begins with the whole lines of another one.
bool continues(const std::string& text, const std::string& other) {
  return text.compare(0, other.rfind('\n') + 1, other, 0, other.rfind('\n') + 1) == 0;
}

// The first place of its kind that is free, or that has the beginning of this run; "" if one of them has all of it.
std::string place_of(const Record& record, const std::string& reports) {
  const std::string first = report_path(record.environment), stem = first.substr(0, first.rfind(".jsonl"));
  for (int number = 1;; ++number) {
    const std::string path =
        fmt::format("{}/{}{}.jsonl", reports, stem, number == 1 ? "" : fmt::format(".run-{}", number));
    const std::string taken = fs::exists(path) ? path : fs::exists(path + ".gz") ? path + ".gz" : "";
    if (taken.empty()) return path + ".gz";
    const auto& ids = record.environment.run_ids;
    if (ids.empty() || read_record(taken).environment.run_ids != ids) continue;
    const std::string text = unpacked_contents_of(record.path), there = unpacked_contents_of(taken);
    if (continues(there, text)) return "";
    if (continues(text, there)) return taken;
    throw ExitError(Exit::Usage, fmt::format("{}: of the same run as {}, with other results; remove the wrong one",
                                             record.path, taken));
  }
}

Exit place(const run::Layout& places, const std::vector<std::string>& paths) {
  const Rules rules = rules_of(places.root);
  std::vector<Record> records;
  for (const std::string& path : paths) {
    records.push_back(read_record(path));
    check_record(records.back(), rules);
  }
  for (const Record& record : records) {
    const std::string path = place_of(record, places.reports());
    if (path.empty()) {
      print("{}: is in place\n", record.path);
      continue;
    }
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    const std::string text = unpacked_contents_of(record.path);
    write_file(path, fs::path(path).extension() == ".gz" ? packed_by_gzip(text) : text);
    print("{}\n", path);
    for (const std::string& note : record.notes) print_error(fmt::format("{}: {}", path, note));
  }
  return Exit::AsExpected;
}

}  // namespace

Verb dev_place_verb(CLI::App& dev, const std::string& root) {
  const auto records = std::make_shared<std::vector<std::string>>();
  auto* command = dev.add_subcommand("place", "Put records where they belong below reports/, packed");
  command->add_option("records", *records, "Records of complete runs")->required();
  return {command, [records, &root] { return place(run::Layout::find(root), *records); }};
}

}  // namespace recapture::commands

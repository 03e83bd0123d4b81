// The command line: list, run, show, merge. Order of work and exit codes; all else is elsewhere.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "harness/catalog.h"
#include "harness/report.h"
#include "harness/run.h"

namespace recapture {
namespace {

constexpr const char* kExitCodes = R"(Exit codes:
  0    as expected                      5    newly fixed: a documented failure did not occur
  1    behaviour changed                6    inconclusive: could not judge, stale, cut short
  2    wrong usage, unknown name or     7    infrastructure: no GPU where one was demanded, a GPU that does
       malformed input                       not answer, no LibTorch, disk full, no permission
  3    only a time changed              77   a case by hand: nothing that it needs is there
  4    nothing ran                      130  interrupted)";

Json case_as_json(const CaseInfo& info) {
  Json tests = Json::array();
  for (const std::string& test : info.tests) {
    const auto kind = kind_of(test);
    tests.push_back({{"name", test},
                     {"kind", !kind                       ? "unknown"
                              : *kind == Kind::Control    ? "control"
                              : *kind == Kind::Reproduces ? "reproduces"
                                                          : "fix"}});
  }
  return {{"id", info.id},         {"family", info.family},     {"title", info.title}, {"sources", info.sources},
          {"nature", info.nature}, {"fidelity", info.fidelity}, {"needs", info.needs}, {"tests", tests}};
}

Exit list(const Places& places, std::string release, const std::string& libtorch, bool json) {
  const auto built = built_releases(places);
  if (release.empty() && built.empty()) {
    throw Stop(Exit::Infrastructure, "no cases are built; `ci/suite` gets LibTorch and builds them");
  }
  if (release.empty()) release = built.back();
  Json all = Json::array();
  size_t tests = 0;
  for (const CaseBinary& binary : catalog(places, release, libtorch)) {
    all.push_back(case_as_json(binary.info));
    tests += binary.info.tests.size();
    if (!json)
      fmt::print("{:<12} {:<46} {:<10} {}\n", binary.info.family, binary.info.id, binary.info.nature,
                 binary.info.title);
  }
  if (json) {
    fmt::print("{}\n", all.dump(1));
  } else {
    fmt::print("{} cases, {} tests, built for LibTorch {}\n", all.size(), tests, release);
  }
  return Exit::AsExpected;
}

struct ShowOptions {
  std::vector<std::string> records;
  std::string junit;
  bool json = false, markdown = false;
};

Exit show(const Places& places, const ShowOptions& options) {
  Rules rules;
  rules.expectations = read_expectations(places.root);
  rules.hashes = source_hashes(places.root);
  std::vector<Record> records;
  const bool all = options.records.empty();
  for (const std::string& path : all ? records_below(places.root + "/reports") : options.records) {
    records.push_back(read_record(path));
  }
  if (records.empty()) throw Stop(Exit::NothingRan, "no records below reports/; `ci/suite` makes one");
  if (all) {
    for (const std::string& error : expectation_errors(rules.expectations, read_matrix(places.root), records)) {
      throw Stop(Exit::Usage, error);
    }
  }
  if (options.markdown) {
    fmt::print("{}", as_markdown(records, rules));
    return Exit::AsExpected;
  }
  std::vector<Verdict> verdicts;
  Json json = Json::array();
  for (const Record& record : records) {
    const auto rows = judge_record(record, rules);
    for (const Verdict verdict : verdicts_of(rows)) verdicts.push_back(verdict);
    for (const Json& row : as_json(rows)) json.push_back(row);
    if (!options.junit.empty()) write_junit(rows, record, options.junit);
    if (options.json) continue;
    if (records.size() > 1) fmt::print("{}\n", std::filesystem::path(record.path).filename().string());
    fmt::print("{}", heading(record));
    for (const Row& row : rows) fmt::print("{}\n", as_line(row));
    fmt::print("{}{}\n", summary(rows), observed_tables(record, rows));
  }
  if (options.json) fmt::print("{}\n", json.dump(1));
  return exit_for(verdicts);
}

Exit command_line(int argc, char** argv) {
  CLI::App app(
      "Recapture: the documented ways in which CUDA graphs fail under PyTorch, reproduced and kept on record.");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.fallthrough();
  std::string root, release, libtorch, shard, out;
  app.add_option("--root", root, "Recapture's own tree (default: found from where this program lies)");

  bool list_json = false;
  auto* list_command = app.add_subcommand("list", "What can be run: every case that is built, a line each");
  list_command->add_option("--release", release, "LibTorch release (default: the newest that is built)");
  list_command->add_option("--libtorch", libtorch, "Site-packages folder to load LibTorch from");
  list_command->add_flag("--json", list_json, "A JSON array");

  RunOptions options;
  auto* run_command = app.add_subcommand("run", "Run cases, each test in its own process, and write a record");
  run_command->add_option("cases", options.filters, "Families, cases, or tests as case.Test (default: all)");
  run_command->add_option("--release", options.release, "LibTorch release (default: the newest that is built)");
  run_command->add_option("--record", options.record, "Where the record goes (default: below the build folder)");
  run_command->add_option("--resume", options.resume, "A record that was cut short: run the rest of it");
  run_command->add_option("--shard", shard, "i/n: only every n-th case, from the i-th on");
  run_command->add_option("--libtorch", options.libtorch, "Site-packages folder to load LibTorch from");
  run_command->add_option("--require", options.require, "gpu, recorder: fail (7) where it is not there")
      ->allow_extra_args(false);
  run_command
      ->add_option("--break", options.broken,
                   "nothing, trigger or value: see that Reproduces can fail; remedy: that Fix can")
      ->check(CLI::IsMember({"nothing", "trigger", "value", "remedy"}));
  run_command->add_option("--revision", options.revision, "What to record as revision (default: asked of git)");
  run_command->add_option("--junit", options.junit, "Also write JUnit XML to this file");
  run_command->add_flag("--exec", options.exec, "Start every test by plain exec instead of forking a loaded parent");

  ShowOptions shown;
  auto* show_command = app.add_subcommand("show", "The verdicts of records");
  show_command->add_option("records", shown.records, "Records (default: all below reports/)");
  show_command->add_option("--junit", shown.junit, "Write JUnit XML to this file, of one record");
  show_command->add_flag("--json", shown.json, "A JSON array");
  show_command->add_flag("--markdown", shown.markdown, "One table, a line a case, a column a release");

  std::vector<std::string> parts;
  auto* merge_command = app.add_subcommand("merge", "Make one record of the shards of a run");
  merge_command->add_option("out", out, "The record to make")->required();
  merge_command->add_option("records", parts, "The shards' records")->required();

  auto* tables_command = app.add_subcommand("tables", "The rules of judgement, as Markdown");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return Exit::AsExpected;
  } catch (const CLI::ParseError& e) {
    throw Stop(Exit::Usage, std::string(e.what()) + "; --help says what there is");
  }

  if (*tables_command) {
    fmt::print("{}", tables_as_markdown());
    return Exit::AsExpected;
  }
  if (*merge_command) {
    merge_records(parts, out);
    return Exit::AsExpected;
  }
  const Places places = Places::find(root);
  if (*list_command) return list(places, release, libtorch, list_json);
  if (*show_command) return show(places, shown);
  if (!shard.empty()) {
    if (std::sscanf(shard.c_str(), "%d/%d", &options.shard, &options.shards) != 2 || options.shard < 1 ||
        options.shard > options.shards) {
      throw Stop(Exit::Usage, "--shard takes i/n with i from 1 to n, not '" + shard + "'");
    }
  }
  return run(places, options);
}

}  // namespace
}  // namespace recapture

int main(int argc, char** argv) {
  using recapture::Exit;
  recapture::own_the_processes();
  try {
    const Exit code = recapture::command_line(argc, argv);
    if (std::fflush(stdout) != 0) throw recapture::Stop(Exit::Infrastructure, "cannot write the output");
    return static_cast<int>(code);
  } catch (const recapture::Stop& stop) {
    std::fflush(stdout);
    fmt::print(stderr, "recapture: {}\n", stop.what());
    return static_cast<int>(stop.code);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    fmt::print(stderr, "recapture: {}; please report this line\n", e.what());
    return static_cast<int>(Exit::Infrastructure);
  }
}

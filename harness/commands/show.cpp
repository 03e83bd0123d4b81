// recapture show: what the records mean: a summary of all machines, the tests of a record, or everything recorded about
// a case.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/letter_case.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/case/pattern.h"
#include "harness/commands/commands.h"
#include "harness/explain/causes.h"
#include "harness/lint/expectations.h"
#include "harness/model/catalogue.h"
#include "harness/model/gpu.h"
#include "harness/model/operators.h"
#include "harness/model/origin.h"
#include "harness/model/program.h"
#include "harness/model/record_files.h"
#include "harness/model/release.h"
#include "harness/nightly/accepted.h"
#include "harness/nightly/collect.h"
#include "harness/nightly/nights.h"
#include "harness/report/case_summary.h"
#include "harness/report/case_view.h"
#include "harness/report/json.h"
#include "harness/report/junit.h"
#include "harness/report/left.h"
#include "harness/report/markdown.h"
#include "harness/report/neighbour.h"
#include "harness/report/overview.h"
#include "harness/report/text.h"
#include "harness/run/estimate.h"
#include "harness/run/layout.h"
#include "harness/store/coverage.h"
#include "harness/store/select.h"
#include "harness/words/neighbour.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

// Judges a record as the run that wrote it did. `newest` are the newest records of reports/, if already read, of
// `cases` if there are any.
Rules rules_as_in_a_run(const run::Layout& places, const std::vector<Record>* newest, DeferredErrors& wrong,
                        const std::set<std::string>& cases = {}) {
  if (newest != nullptr) {
    Rules rules = rules_of(places.root, {.as_before = true}, cases);
    rules.available = available_in(*newest);
    add_machines(*newest, rules.measured);
    return rules;
  }
  try {
    return recapture::rules_as_in_a_run(places.root);
  } catch (const ExitError& stop) {
    Rules rules = rules_of(places.root);  // If the tree is fine, a record is unreadable.
    wrong.add(stop.what());
    return rules;
  }
}

std::vector<Record> readable(const std::vector<std::string>& paths, DeferredErrors& wrong) {
  std::vector<Record> records;
  for (const std::string& path : paths) {
    try {
      records.push_back(read_record(path));
    } catch (const ExitError& stop) {
      wrong.add(stop.what());
    }
  }
  return records;
}

Newest read_below(const std::string& folder, bool all, DeferredErrors& wrong, const RecordFilter& filter = {}) {
  try {
    return all ? all_records(folder) : newest_records(folder, filter);
  } catch (const ExitError&) {  // Read one by one to find which.
    Newest read{readable(records_below(folder), wrong), 0};
    sort_by_time(read.records);
    return read;
  }
}

struct ShowOptions {
  std::vector<std::string> names;
  std::string junit, records, gpu, release;
  bool all = false, json = false, markdown = false, slowest = false, left = false, python = false;
  std::optional<int> gpus;
};

// What the words on the command line name.
struct Asked {
  std::string folder;                  // Show its newest records.
  std::vector<std::string> records;    // These records,
  std::vector<std::string> cases;      // or these families, cases and tests,
  std::vector<explain::Cause> causes;  // and causes that no case runs alone.
  std::string release;                 // Of cases: only this release, as typed.
};

// Of each cause the cases with the same texts; none in a tree without causes.
std::map<std::string, std::vector<std::string>> alike_in(const std::string& root) {
  std::error_code error;
  return fs::exists(root + "/cases/diagnoses.toml", error) ? explain::read_alike(root)
                                                           : std::map<std::string, std::vector<std::string>>();
}

// Sorts the words: a name of the catalogue, a folder, a record, a pattern of records; paths may be relative to
// reports/.
class Sorter {
 public:
  explicit Sorter(const run::Layout& places) : places_(places) {}

  void take(const std::string& word) {
    if (is_name(word)) {
      asked_.cases.push_back(word);
    } else if (const std::string id = case_of_error(word); !id.empty()) {
      asked_.cases.push_back(id);
    } else if (can_be_release(word) && !fs::exists(word)) {
      releases_.push_back(word);  // Of the cases, if there are any.
    } else if (!take_path(word) && !take_path(places_.reports() + "/" + word)) {
      take_unknown(word);
    }
  }

  const Asked& asked() {
    const bool has_cases = !asked_.cases.empty() || !asked_.causes.empty();
    if (has_cases && releases_.size() > 1) {
      throw ExitError(Exit::Usage, fmt::format("show takes one release; write `recapture compare {} {}` for a change",
                                               releases_[0], releases_[1]));
    }
    if (has_cases && !releases_.empty()) asked_.release = releases_.front();
    for (const std::string& word : has_cases ? std::vector<std::string>() : releases_) {
      if (!take_path(places_.reports() + "/" + word)) take_release(word);
    }
    const int kinds = (asked_.folder.empty() ? 0 : 1) + (asked_.records.empty() ? 0 : 1) + (has_cases ? 1 : 0);
    if (kinds > 1) throw ExitError(Exit::Usage, "show takes cases, or records, or one folder, not some of each");
    return asked_;
  }

 private:
  bool is_name(const std::string& word) {
    if (!fs::exists(catalogue_path(places_.root))) return false;
    const Names& known = names();
    for (const auto* list : {&known.families, &known.cases, &known.tests}) {
      if (std::find(list->begin(), list->end(), word) != list->end()) return true;
    }
    return false;
  }

  bool take_path(const std::string& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) return take_folder(path);
    // A path to a case, as a source or built, names the case.
    const fs::path file = path;
    if (file.extension() == ".cpp" || is_name(last_part(path))) return false;
    if (is_record_there(path)) {
      asked_.records.push_back(path);
      return true;
    }
    const size_t star = path.find('*');
    if (star == std::string::npos || (path.find('/') == std::string::npos && !is_record_name(path))) return false;
    const std::string folder = path.substr(0, path.rfind('/', star) + 1);
    bool found = false;
    for (std::string record : records_below(folder.empty() ? "." : folder)) {
      if (folder.empty()) record.erase(0, 2);
      if (!matches(path, record)) continue;
      asked_.records.push_back(record);
      found = true;
    }
    return found;
  }

  bool take_folder(const std::string& path) {
    const auto records = records_below(path);
    if (records.empty()) {
      if (is_name(last_part(path))) return false;
      throw ExitError(Exit::NothingRan, "no records below " + path);
    }
    if (!asked_.folder.empty()) throw ExitError(Exit::Usage, "show takes one folder");
    asked_.folder = path;
    return true;
  }

  void take_unknown(const std::string& word) {
    const fs::path path = word;
    const bool is_path = word.find('/') != std::string::npos && path.extension() != ".cpp";
    if (is_record_name(word) || (is_path && !is_name(last_part(word)))) {
      std::vector<std::string> known;
      for (const fs::path record : records_below(places_.reports())) {
        known.push_back(record.lexically_relative(places_.reports()).string());
        if (word.rfind("reports/", 0) == 0) known.back() = "reports/" + known.back();
      }
      if (!near(word, known).empty()) throw ExitError(Exit::Usage, unknown_name("record", word, known));
      asked_.records.push_back(word);  // Reading it reports the error.
      return;
    }
    const auto alike = alike_in(places_.root);
    if (alike.count(word) != 0) {
      for (explain::Cause& cause : explain::read_causes(places_.root, catalogue())) {
        if (cause.id == word) asked_.causes.push_back(std::move(cause));
      }
      return;
    }
    require_no_operator(word);
    Names known = names();
    for (const auto& [id, also] : alike) add_once(known.cases, id);
    named(word, known);  // Throws for an unknown name.
    asked_.cases.push_back(word);
  }

  // The case of a CUDA error: e901_invalidated of "901"; "" if the word is no number of one.
  std::string case_of_error(const std::string& word) {
    constexpr size_t kDigits = 3;
    if (word.size() != kDigits || word.find_first_not_of("0123456789") != std::string::npos) return "";
    for (const std::string& id : names().cases) {
      if (id.rfind("e" + word + "_", 0) == 0) return id;
    }
    throw ExitError(Exit::Usage,
                    fmt::format("no case is of CUDA error {0} alone; write `recapture explain {0}`", word));
  }

  void require_no_operator(const std::string& word) {
    if (!near(word, names().cases).empty()) return;
    try {
      if (named_operators(word, read_operators(places_.root)).empty()) return;
    } catch (const ExitError&) {
      return;
    }
    throw ExitError(Exit::Usage, fmt::format("'{0}' is an operator; write `recapture operators {0}`", word));
  }

  // Releases come from the records: a folder may be named after a night, or be spelt otherwise.
  void take_release(const std::string& word) {
    std::map<std::string, std::vector<std::string>> records;  // By release.
    std::set<std::string> own;                                // Releases with a record of the project.
    for (const std::string& path : records_below(places_.reports())) {
      std::string release = fs::path(path).parent_path().filename().string();
      bool is_own = true;
      try {
        const Environment environment = environment_of(path);
        release = environment.release.name();
        is_own = !was_sent(environment);
      } catch (const ExitError&) {
        // Reading all of it reports the error. Until then the folder's name is enough.
      }
      records[release].push_back(path);
      if (is_own) own.insert(release);
    }
    std::set<std::string> known;
    for (const auto& [release, paths] : records) known.insert(release);
    const std::string meant = resolve_release(word, {known.begin(), known.end()},
                                              [&](const std::string& release) { return !own.contains(release); });
    if (known.count(meant) == 0) throw ExitError(Exit::Usage, no_records_of(word, "reports", known));
    const std::string folder = places_.reports() + "/" + meant;
    if (fs::is_directory(folder)) {
      take_folder(folder);
    } else {
      const std::vector<std::string>& its = records.at(meant);
      asked_.records.insert(asked_.records.end(), its.begin(), its.end());
    }
  }

  const Catalogue& catalogue() {
    if (!catalogue_) catalogue_ = read_catalogue(places_.root);
    return *catalogue_;
  }

  const Names& names() {
    if (!names_) names_ = names_in(catalogue());
    return *names_;
  }

  const run::Layout& places_;
  std::optional<Catalogue> catalogue_;
  std::optional<Names> names_;
  std::vector<std::string> releases_;
  Asked asked_;
};

std::string gpus_of(const std::vector<Record>& records) {
  std::set<std::string> gpus;
  for (const Record& record : records) {
    if (!record.env("gpu").empty()) gpus.insert(escape_control(record.env("gpu")));
  }
  return gpus.empty() ? "none" : fmt::format("{}", fmt::join(gpus, ", "));
}

[[noreturn]] void refuse_gpu(const std::string& gpu, const std::vector<Record>& records, const std::string& others,
                             const std::string& of = "") {
  Measured measured;
  add_machines(records, measured);
  throw ExitError(Exit::NothingRan, fmt::format("no record of a GPU called '{}'{}; records are of {}{}",
                                                escape_control(gpu), of, others, nearest_to(gpu, "", measured)));
}

// Keeps the records of one release, which is returned in full, and of the GPU with these words in its name; "none" is
// of runs without a GPU.
std::string keep(std::vector<Record>& records, const run::Layout& places, const ShowOptions& options) {
  std::string release;
  if (!options.release.empty()) {
    const std::vector<std::string> known = known_releases(places.root);
    release = resolve_release(options.release, known, if_only_sent(places.reports()));
    if (!can_be_release(options.release)) throw ExitError(Exit::Usage, unknown_name("release", options.release, known));
    if (!contains(known, release)) {
      throw ExitError(Exit::Usage, no_records_of(options.release, "reports", {known.begin(), known.end()}));
    }
    std::erase_if(records, [&](const Record& record) { return record.env("release") != release; });
  }
  if (!options.gpu.empty()) {
    GpusOnRecord gpus;
    for (const Record& record : records) gpus.add(record.environment);
    const GpuFilter filter = gpus.named(options.gpu);
    const auto is_other = [&](const Record& record) { return !filter.covers(record.environment.machine.gpu); };
    if (std::ranges::all_of(records, is_other)) refuse_gpu(options.gpu, records, gpus_of(records));
    std::erase_if(records, is_other);
  }
  return release;
}

std::vector<const CatalogueCase*> in_python(const CatalogueCase& one, const Catalogue& catalogue,
                                            const std::map<std::string, std::vector<std::string>>& alike) {
  std::vector<const CatalogueCase*> found;
  const auto its = alike.find(one.id);
  for (const std::string& id : its == alike.end() ? std::vector<std::string>() : its->second) {
    const CatalogueCase* other = find_case(catalogue, id);
    if (other != nullptr && other->family == "python") found.push_back(other);
  }
  return found;
}

// The programs of cases as they are, to be copied or written into a file.
Exit show_programs(const run::Layout& places, const Asked& asked) {
  const Catalogue cases = asked.cases.empty() ? Catalogue() : selected(read_catalogue(places.root), asked.cases);
  const auto programs = programs_in_tree(places.root);
  std::vector<std::string> without;
  for (const CatalogueCase& one : cases) {
    const auto program = programs.find(one.id);
    if (program == programs.end()) {
      without.push_back(one.id);
    } else {
      print("{}", contents_of(program->second.path));
    }
  }
  for (const explain::Cause& cause : asked.causes) without.push_back(cause.id);
  if (without.empty()) return Exit::AsExpected;
  throw ExitError(Exit::NothingRan, fmt::format("no program in Python is beside {}", fmt::join(without, ", ")));
}

// Leaves the other cases out of the plans, so that they are not judged.
void keep_planned(std::vector<Record>& records, const std::set<std::string>& cases) {
  for (Record& record : records) {
    std::erase_if(record.plan, [&](const std::string& test) { return !cases.contains(case_of(test)); });
  }
}

Exit show_cases(const run::Layout& places, const ShowOptions& options, const Asked& asked) {
  const std::string rule = "\n" + std::string(80, '-') + "\n\n";
  if (asked.cases.empty()) {  // Causes alone: no record is about them.
    std::vector<std::string> texts;
    for (const explain::Cause& cause : asked.causes) texts.push_back(report::render_summary(cause));
    print("{}", options.json ? "[]\n" : join(texts, rule));
    return Exit::AsExpected;
  }
  const Catalogue catalogue = read_catalogue(places.root);
  const Catalogue cases = selected(catalogue, asked.cases);
  const auto sources = read_sources(places.root);
  const auto changes = read_deviations(places.root);
  DeferredErrors wrong;
  const std::string folder = options.records.empty() ? places.reports() : options.records;
  RecordFilter filter;
  for (const CatalogueCase& one : cases) filter.cases.insert(one.id);
  std::vector<Record> records = read_below(folder, false, wrong, filter).records;
  const bool in_full = options.all || options.json;
  if (!in_full) keep_planned(records, filter.cases);  // In full it prints a run's width, which its plan bounds.
  const Rules rules = rules_as_in_a_run(places, folder == places.reports() ? &records : nullptr, wrong, filter.cases);
  const std::string release = keep(records, places, options);
  // Never freed, here and below: freeing each text would take a tenth of the run time.
  static const auto& board = *new ResultMatrix(std::move(records), rules);
  const auto all = latest(board);
  const bool has_race =
      std::any_of(cases.begin(), cases.end(), [](const CatalogueCase& one) { return one.nature == Nature::Race; });
  const auto rates = has_race && in_full ? rate_pools(read_rates_below(folder), rules) : std::vector<RatePool>();
  const auto prices = in_full ? read_all_prices(folder, wrong.adder()) : std::vector<Prices>();
  const timeline::FailureTable failures = timeline::failure_table(board, cases);
  const auto alike = in_full ? std::map<std::string, std::vector<std::string>>() : alike_in(places.root);
  Json json = Json::array();
  std::vector<Verdict> verdicts;
  for (const CatalogueCase& one : cases) {
    const report::CaseView view{one, sources, changes, all, rates, prices};
    if (options.json) {
      json.push_back(report::render_json(view));
    } else {
      const auto row = std::ranges::find_if(failures.rows, [&](const auto& each) { return each.what->id == one.id; });
      const auto* failure = row == failures.rows.end() ? nullptr : &*row;
      print("{}{}", &one == &cases.front() ? "" : rule,
            options.all
                ? report::render_text(view)
                : report::render_summary({view, failure, release, places.root, in_python(one, catalogue, alike)}));
    }
    for (const Verdict verdict : verdicts_of(view)) verdicts.push_back(verdict);
  }
  if (options.json) print("{}\n", to_text(json, 1));
  for (const explain::Cause& cause : asked.causes) {
    if (!options.json) print("{}{}", rule, report::render_summary(cause));
  }
  wrong.tell();
  return exit_for(verdicts);
}

void print_rows(const ResultMatrix& board, const std::string& folder, bool slowest) {
  for (const JudgedRun& run : board.records()) {
    const auto& [record, rows, neighbour] = run;
    if (board.records().size() > 1) {
      const fs::path path = record.path;
      print("{}\n", folder.empty() ? path.string() : path.lexically_relative(folder).string());
    }
    print("{}{}", report::heading(record), report::render_neighbour(record.environment, neighbour, rows));
    if (slowest) {
      print("{}{}", report::slowest(run), board.records().size() > 1 ? "\n" : "");
      continue;
    }
    for (const TestVerdict& row : rows) {
      // Operators are one line, in the summary; `recapture operators` lists them.
      if (row.kind != Kind::Operator || is_surprise(row.verdict)) print("{}\n", report::render_line(row));
    }
    print("{}{}\n", report::summary(rows), report::observed_tables(record, rows));
  }
}

// Of a collected night: marks what entries of ci/accepted.toml accept, as `nightly diff` does.
void accept(const run::Layout& places, const std::string& folder, std::vector<OnMachine>& all, DeferredErrors& wrong) {
  std::error_code error;
  if (folder.empty() || !fs::exists(fs::path(folder) / nightly::kNightFile, error)) return;
  try {
    const std::string started = nightly::read_nights(folder, "").tonight().started;
    const nightly::AcceptedTests accepted(nightly::read_accepted(places.root), started);
    for (OnMachine& one : all) {
      const std::string machine = nightly::accepted_name(one.newest->record.environment);
      for (const auto* rows : {&one.rows, &one.operators}) {
        for (const Latest& latest : *rows) {
          if (!nightly::is_unjudged(*latest.row)) continue;
          const std::string words = accepted.words(latest.row->test, machine);
          if (!words.empty()) one.accepted.emplace(latest.row->test, words);
        }
      }
    }
  } catch (const ExitError& stop) {
    wrong.add(stop.what());
  }
}

void print_accepted(const std::vector<OnMachine>& all) {
  const std::string text = report::accepted_text(all);
  if (!text.empty()) print("accepted by {}\n{}\n", nightly::kAcceptedFile, text);
}

void print_last_words(const std::vector<OnMachine>& all) {
  print_accepted(all);
  if (const std::string text = report::surprises(all); !text.empty()) print("surprises\n{}\n", text);
  print("{}", report::last_line(all));
}

std::vector<WantedTest> wanted_of(const Catalogue& catalogue) {
  std::vector<WantedTest> wanted;
  for (const CatalogueCase& one : catalogue) {
    for (const CatalogueTest& test : one.tests) {
      wanted.push_back({one.id + "." + test.name, one.needs, one.fidelity == Fidelity::Simulated});
    }
  }
  return wanted;
}

// For the chosen releases, machines and cases; for all if none were chosen.
Exit show_left(const run::Layout& places, const ShowOptions& options) {
  const std::vector<std::string> matrix = read_matrix(places.root);
  std::vector<std::string> releases, cases;
  for (const std::string& word : options.names) {
    if (!can_be_release(word)) {
      cases.push_back(word);
      continue;
    }
    const std::string meant = resolve_release(word, matrix);
    if (std::find(matrix.begin(), matrix.end(), meant) == matrix.end()) {
      throw ExitError(Exit::Usage, unknown_name("release", word, matrix));
    }
    add_once(releases, meant);
  }
  const Catalogue catalogue = selected(read_catalogue(places.root), cases);
  DeferredErrors wrong;
  const std::vector<Record> records =
      read_below(options.records.empty() ? places.reports() : options.records, false, wrong).records;
  const CoverageIndex index(records, rules_of(places.root));
  std::set<std::string> races;
  for (const CatalogueCase& one : catalogue) {
    if (one.nature == Nature::Race) races.insert(one.id);
  }
  const std::vector<WantedTest> wanted = wanted_of(catalogue);
  auto all = report::left_on_machines(index, releases.empty() ? matrix : releases, wanted);
  std::vector<UnbrokenFix> unbroken = index.unbroken_fixes(wanted);
  if (!releases.empty()) {
    std::erase_if(unbroken, [&](const UnbrokenFix& fix) { return !contains(releases, fix.release); });
  }
  GpusOnRecord gpus;
  for (const Record& record : records) gpus.add(record.environment);
  const GpuFilter filter = gpus.named(options.gpu);
  const auto is_other = [&](const report::LeftOnMachine& one) { return !filter.covers(one.machine.gpu); };
  all.erase(std::remove_if(all.begin(), all.end(), is_other), all.end());
  if (all.empty()) {
    std::set<std::string> known;
    for (const MachineId& machine : index.machines()) known.insert(escape_control(machine.gpu));
    wrong.tell();
    if (options.gpu.empty()) throw ExitError(Exit::NothingRan, "no record names a GPU, so nothing can be left to run");
    refuse_gpu(options.gpu, records, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")),
               ", on which everything is left");
  }
  for (report::LeftOnMachine& one : all) {
    std::erase_if(one.left.tests, [&](const LeftTest& test) { return test.gpus < options.gpus.value_or(0); });
  }
  if (options.gpus && !options.json) {
    print("{}", report::render_waiting(all, *options.gpus, matrix));
    wrong.tell();
    return Exit::AsExpected;
  }
  Json json = Json::array();
  for (report::LeftOnMachine& one : all) {
    run::Estimate estimate(records, one.machine.gpu, one.release);
    for (LeftTest& test : one.left.tests) {
      test.seconds = estimate.of(test.test);
      estimate.plan(test.test, races.count(case_of(test.test)) != 0);
    }
    one.seconds = estimate.left(report::kLeftJobs, 0).value_or(0);
    if (options.json) {
      json.push_back(report::render_json(one, unbroken));
    } else {
      print("{}{}", &one == &all.front() ? "" : "\n", report::render_left(one));
    }
  }
  if (options.json) {
    print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
  } else if (!unbroken.empty()) {
    print("\n{}", report::render_unbroken(unbroken));
  }
  wrong.tell();
  return Exit::AsExpected;
}

Exit show_records(const run::Layout& places, const ShowOptions& options, const Asked& asked) {
  const bool everything = asked.folder == places.reports();
  Newest read;
  DeferredErrors wrong;
  if (asked.folder.empty()) {
    read.records = readable(asked.records, wrong);
  } else {
    read = read_below(asked.folder, options.all, wrong);
  }
  if (read.records.empty()) {
    wrong.tell();
    const std::string where = everything ? "reports/" : asked.folder;
    throw ExitError(Exit::NothingRan, "no records below " + where + "; name one, as `recapture run` prints its place");
  }
  const Rules rules = rules_as_in_a_run(places, everything && !options.all ? &read.records : nullptr, wrong);
  if (everything && read.left_out == 0) {  // An expectation may name any record, so all must be read.
    for (const std::string& error :
         lint::expectation_errors(rules.expectations, read_matrix(places.root), read.records, places.reports())) {
      wrong.add(error);
    }
  }
  static const auto& board = *new ResultMatrix(std::move(read.records), rules);
  std::string left;
  if (everything && !options.all && fs::exists(catalogue_path(places.root))) {
    const CoverageIndex index(board.records(), rules);
    left = report::render_left_counts(
        report::left_on_machines(index, read_matrix(places.root), wanted_of(read_catalogue(places.root))));
  }
  if (!options.junit.empty()) {
    if (board.records().size() != 1 || asked.records.size() > 1) {
      throw ExitError(Exit::Usage, "--junit takes one record; name it");
    }
    report::write_junit_file(board.records().front(), options.junit);
  }
  std::vector<OnMachine> all = latest(board);
  accept(places, asked.folder, all, wrong);
  const auto accepted_in = [&](const JudgedRun& judged, const TestVerdict& row) -> std::string {
    for (const OnMachine& one : all) {
      if (one.machine != board.machine_of(judged.record) || one.broken != judged.record.broken()) continue;
      const auto found = nightly::is_unjudged(row) ? one.accepted.find(row.test) : one.accepted.end();
      return found == one.accepted.end() ? "" : found->second;
    }
    return "";
  };
  // A folder with a single record is shown as that record.
  const bool is_one = !everything && board.records().size() == 1 && read.left_out == 0;
  const bool test_by_test = asked.folder.empty() || options.all || is_one || options.slowest;
  if (options.markdown) {
    print("{}", report::render_markdown(board));
  } else if (options.json) {
    Json json = Json::array();
    for (const JudgedRun& judged : board.records()) {
      const Json rows = report::render_json(judged);
      for (size_t i = 0; i < rows.size(); ++i) {
        json.push_back(rows[i]);
        json.back()["accepted"] = accepted_in(judged, judged.rows[i]);
      }
    }
    print("{}\n", to_text(json, 1));
  } else if (test_by_test) {
    print_rows(board, asked.folder, options.slowest);
    if (board.records().size() > 1 && !options.slowest) {
      print_last_words(all);
    } else {
      print_accepted(all);
    }
  } else {
    print("{}\n", report::machines_text(all));
    if (read.left_out > 0) {
      print("{} left out; --all shows all\n\n", plural(read.left_out, "older record"));
    }
    if (!left.empty()) print("left to run (`show --left` lists it, `run --left` runs it)\n{}\n", left);
    print_last_words(all);
  }
  wrong.tell();
  const auto counts = [&](const JudgedRun& judged, const TestVerdict& row) { return accepted_in(judged, row).empty(); };
  return exit_for(test_by_test ? board.verdicts(counts) : report::verdicts_of(all));
}

Exit show(const run::Layout& places, const ShowOptions& options) {
  if (options.json + options.markdown + (options.junit.empty() ? 0 : 1) > 1) {
    throw ExitError(Exit::Usage, "--json, --markdown and --junit cannot be combined");
  }
  if (!options.junit.empty()) require_place_for_junit(options.junit, "");
  if (options.slowest && (options.json || options.markdown || !options.junit.empty())) {
    throw ExitError(Exit::Usage, "--slowest prints text; --json has the seconds of every test");
  }
  if (!options.records.empty() && !fs::is_directory(options.records)) {
    throw ExitError(Exit::Usage, options.records + " is not a folder");
  }
  if (options.left) {
    if (options.all || options.markdown || options.slowest || !options.junit.empty() || !options.release.empty()) {
      throw ExitError(Exit::Usage, "--left goes with --gpu, --gpus, --records and --json alone");
    }
    if (options.gpus && *options.gpus < 2) throw ExitError(Exit::Usage, "--gpus takes a number from 2 on");
    return show_left(places, options);
  }
  if (options.gpus) throw ExitError(Exit::Usage, "--gpus goes with --left");
  Sorter sorter(places);
  for (const std::string& name : options.names) sorter.take(name);
  Asked asked = sorter.asked();
  const bool has_cases = !asked.cases.empty() || !asked.causes.empty();
  if (!has_cases && !options.gpu.empty()) throw ExitError(Exit::Usage, "--gpu goes with cases, or with --left");
  if (!has_cases && !options.release.empty()) {
    throw ExitError(Exit::Usage, fmt::format("--release goes with cases; write `recapture show {}`", options.release));
  }
  if (options.python && !has_cases) throw ExitError(Exit::Usage, "--python goes with cases");
  if (options.python && (options.all || options.json || !options.release.empty() || !options.gpu.empty())) {
    throw ExitError(Exit::Usage, "--python prints the program alone, without results");
  }
  if (options.python) return show_programs(places, asked);
  if (has_cases) {
    if (options.slowest)
      throw ExitError(Exit::Usage, "--slowest goes with records; `show CASE` has the times of a case");
    if (options.markdown || !options.junit.empty())
      throw ExitError(Exit::Usage, "a case is shown as text or by --json");
    ShowOptions chosen = options;
    if (chosen.release.empty()) chosen.release = asked.release;
    if (!asked.release.empty() && !options.release.empty()) {
      throw ExitError(Exit::Usage, "the release is there twice, as a word and by --release");
    }
    return show_cases(places, chosen, asked);
  }
  if (!options.names.empty() && !options.records.empty()) {
    throw ExitError(Exit::Usage, "--records goes with cases; a record or a folder is named alone");
  }
  if (options.names.empty()) asked.folder = options.records.empty() ? places.reports() : options.records;
  return show_records(places, options, asked);
}

}  // namespace

Verb show_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<ShowOptions>();
  auto* command = app.add_subcommand("show", "Show results: of all machines, of a record, or of a case");
  command->add_option(
      "names", options->names,
      "Cases, families, tests or CUDA errors such as 901, and a release; or records; or a folder of records (default: "
      "reports/); * matches anything");
  command->add_option("--records", options->records, "Folder of the records (default: reports/)");
  command->add_option("--release", options->release, "Of cases: only what this LibTorch release shows");
  command->add_flag("--all", options->all,
                    "Of a case: each result with its stack and text by machine, each rate and price; of records: every "
                    "test of every record, not only the newest of each machine");
  command->add_flag("--python", options->python, "Of a case: print its program in plain PyTorch, if it has one");
  command->add_flag("--slowest", options->slowest, "Show the ten tests of each record that took longest");
  command->add_flag("--left", options->left,
                    "List what is left to run for each release of ci/matrix.toml on each GPU on record, with the "
                    "reason and the seconds that it takes, and count the fixes that no run has seen fail without their "
                    "remedy; names are releases and cases");
  command->add_option("--gpu", options->gpu,
                      "Of cases, or with --left: words of the GPU's name; none for runs without one");
  command->add_option("--gpus", options->gpus,
                      "With --left: only tests that need so many GPUs or more, a line a case with its releases");
  command->add_option("--junit", options->junit, "Write one record as JUnit XML to this file");
  command->add_flag("--json", options->json, "Print a JSON array");
  command->add_flag("--markdown", options->markdown, "Print a Markdown table: a line a case, a column a release");
  command->footer(
      "Exit codes: 0 as documented or expected, 1 something differs, 2 wrong usage or unknown name, 4 there are no "
      "such\n"
      "records, 5 something is newly fixed, 6 something is stale, inconclusive or cut short, 7 JUnit XML cannot be\n"
      "written.");
  return {command,
          [options, &root] { return show(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture show item_in_capture 2.11", "a failure, its error and its fixes, with one release"},
           {"recapture show 901", "the case of a CUDA error"}}};
}

}  // namespace recapture::commands

// recapture page: one HTML file with the changes between releases, the matrix of all results, and their history; or a
// folder with that page, a table of failures by release, a page for each failure, and the operators; or these, without
// the first, in one file.
#include "harness/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/base/file.h"
#include "harness/base/letter_case.h"
#include "harness/base/output.h"
#include "harness/base/parallel.h"
#include "harness/commands/commands.h"
#include "harness/compare/sides.h"
#include "harness/explain/causes.h"
#include "harness/model/operator_cases.h"
#include "harness/model/project.h"
#include "harness/report/page_data.h"
#include "harness/report/site.h"
#include "harness/run/layout.h"
#include "harness/store/copies.h"
#include "harness/store/select.h"
#include "harness/verdict/price.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

struct PageOptions {
  std::string records, output = "page.html", site, single_file;
};

struct Input {
  std::vector<Record> records;
  report::PageInput page;
};

// Unreadable records are reported here, on the page, and by the exit code. `known` have already been read.
void read_records(Input& read, std::vector<Record> known, DeferredErrors& wrong) {
  report::PageInput& input = read.page;
  std::unordered_map<std::string, Record*> by_path;
  for (Record& record : known) by_path.emplace(record.path, &record);
  struct File {
    std::string path, error;
    std::optional<Record> record;
  };
  std::vector<File> files;
  std::vector<std::string> paths;
  std::vector<Environment> environments;
  for (const std::string& path : records_below(input.folder)) {
    try {
      environments.push_back(environment_of(path));
      paths.push_back(path);
    } catch (const ExitError& stop) {
      files.push_back({path, stop.what(), {}});
    }
  }
  std::vector<const Environment*> runs;
  for (const Environment& environment : environments) runs.push_back(&environment);
  for (const size_t place : each_once(runs)) {  // A collected night lies beside the records of its machines.
    if (environments[place].broken == Break::Nothing) {
      files.push_back({paths[place], "", {}});
    } else {
      ++input.broken;
    }
  }
  std::ranges::sort(files, {}, &File::path);
  in_parallel(files.size(), [&](size_t i) {
    File& file = files[i];
    if (!file.error.empty()) return;
    if (const auto its = by_path.find(file.path); its != by_path.end()) {
      file.record = std::move(*its->second);
      return;
    }
    try {
      file.record = read_record(file.path);
    } catch (const ExitError& stop) {
      file.error = stop.what();
    }
  });
  for (File& file : files) {
    if (file.record) {
      read.records.push_back(std::move(*file.record));
    } else {
      wrong.add(file.error);
      ++input.unreadable;
    }
  }
}

Input read_input(const run::Layout& places, const PageOptions& options, DeferredErrors& wrong) {
  Input all;
  report::PageInput& input = all.page;
  input.folder = options.records.empty() ? places.reports() : options.records;
  std::error_code error;
  const auto kind = fs::status(input.folder, error);
  if (!fs::exists(kind)) throw ExitError(Exit::Usage, fmt::format("{}: {}", input.folder, std::strerror(ENOENT)));
  if (!fs::is_directory(kind)) throw ExitError(Exit::Usage, input.folder + " is not a folder; --records takes one");
  input.background = compare::read_compare_context(places.root);
  input.rules = input.background.rules;
  std::vector<Record> newest;
  std::string unread;
  try {
    newest = newest_records(places.reports()).records;
    input.rules.demands.as_before = true;  // Judge a record as the run that wrote it did.
    input.rules.available = available_in(newest);
  } catch (const ExitError& stop) {
    unread = stop.what();
  }
  read_records(all, std::move(newest), wrong);
  if (all.records.empty()) {
    wrong.tell();
    throw ExitError(Exit::NothingRan, "no records below " + input.folder);
  }
  if (!unread.empty()) wrong.add(unread);
  const auto has_operators = [](const Record& one) {
    return std::ranges::any_of(one.cases, [](const auto& each) { return lists_operators(each.first); });
  };
  if (std::any_of(all.records.begin(), all.records.end(), has_operators)) {
    input.operators = timeline::operator_table(places.root, input.folder, all.records);
  }
  return all;
}

constexpr size_t kFirstBytes = 15;  // "<!DOCTYPE html>": only an HTML page is replaced.

// Throws where the page could not be written at the end of the work.
void check_output(const std::string& path) {
  std::error_code error;
  const auto there = fs::status(path, error);
  if (path == "-" || fs::is_character_file(there) || fs::is_fifo(there)) return;
  if (fs::is_directory(there)) throw ExitError(Exit::Usage, path + " is a folder; --output takes a file");
  if (fs::is_regular_file(there) && fs::file_size(path, error) > 0) {
    std::string begin(kFirstBytes, '\0');
    std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(kFirstBytes));
    if (lower_case(begin) != "<!doctype html>") {
      throw ExitError(Exit::Usage, path + " exists and is not a page; --output does not overwrite it");
    }
  }
  require_writable(path);
}

// Replaces only a folder whose index.html begins as ours does.
void check_site(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    fs::create_directories(folder, error);
    if (error) {
      throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot write it: {}", folder, error.message()));
    }
    return;
  }
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    throw ExitError(Exit::Usage, folder + " is not a folder; --site takes one");
  }
  if (fs::is_directory(folder, error) && !fs::is_empty(folder, error) && !fs::exists(folder + "/index.html", error)) {
    throw ExitError(Exit::Usage, folder + " has other files in it; --site takes a new folder or one that it has made");
  }
}

void write_site(const std::string& folder, const std::map<std::string, std::string>& pages) {
  std::error_code error;
  fs::create_directories(folder + "/failures", error);
  if (error) throw ExitError(Exit::Usage, fmt::format("{}: {}", folder, error.message()));
  for (const auto& [path, text] : pages)
    replace_output(fmt::format("{}/{}", folder, path), text, kFirstBytes, "a page");
}

void write_page(const std::string& output, const std::string& page) {
  std::error_code error;
  if (output == "-") {
    print_text(page);
  } else if (fs::is_character_file(output, error) || fs::is_fifo(output, error)) {
    write_file(output, page);  // A device such as /dev/stdout cannot be replaced.
  } else {
    replace_output(output, page, kFirstBytes, "a page");
  }
}

// A tree of records alone has none.
std::vector<explain::Cause> causes_in(const run::Layout& places, const Catalogue& catalogue) {
  std::error_code error;
  if (!fs::is_regular_file(places.root + "/cases/diagnoses.toml", error)) return {};
  return explain::read_causes(places.root, catalogue);
}

// Everything but the comparisons, which take most of the time.
std::string single_file(const run::Layout& places, Input input, DeferredErrors& wrong) {
  const ResultMatrix matrix(std::move(input.records), input.page.rules);
  return report::render_single_file({places.root, input.page.folder, matrix, input.page.background.catalogue,
                                     input.page.background.sources, input.page.background.changes, input.page.operators,
                                     read_all_prices(input.page.folder, wrong.adder()), project_address(places.root),
                                     causes_in(places, input.page.background.catalogue),
                                     report::read_met(places.root)});
}

// Never freed: freeing each text would take a tenth of the run time. The static pointer is for leak checkers.
const report::PageData& kept_page_data(std::vector<Record> records, const report::PageInput& input) {
  static const report::PageData* kept = nullptr;
  kept = new report::PageData(report::page_data(std::move(records), input));
  return *kept;
}

std::map<std::string, std::string> site(const run::Layout& places, Input input, DeferredErrors& wrong) {
  const report::PageInput& page = input.page;
  const report::PageData& made = kept_page_data(std::move(input.records), page);
  auto pages = report::render_site({places.root, page.folder, made.matrix, page.background.catalogue,
                                    page.background.sources, page.background.changes, page.operators,
                                    read_all_prices(page.folder, wrong.adder()), project_address(places.root),
                                    causes_in(places, page.background.catalogue), report::read_met(places.root)});
  pages[report::kUpgradePage] = report::page_of(made.json, report::render_site_header(project_address(places.root)));
  return pages;
}

Exit write_pages(const run::Layout& places, const PageOptions& options) {
  DeferredErrors wrong;
  const std::string& file = options.single_file.empty() ? options.output : options.single_file;
  if (options.site.empty()) {
    check_output(file);
  } else {
    check_site(options.site);
  }
  show_progress("page: reading the records");
  Input input = read_input(places, options, wrong);
  show_progress(fmt::format("page: comparing {} records", input.records.size()));
  if (!options.single_file.empty()) {
    write_page(options.single_file, single_file(places, std::move(input), wrong));
  } else {
    compare::learn_remedies(places.reports(), input.page.background);
    input.page.progress = [](size_t done, size_t all) {
      show_progress(fmt::format("page: comparing releases, {} of {} pairs", done, all));
    };
    if (options.site.empty()) {
      write_page(options.output, report::page_of(kept_page_data(std::move(input.records), input.page).json));
    } else {
      write_site(options.site, site(places, std::move(input), wrong));
    }
  }
  show_progress("");
  if (!options.site.empty()) {
    print("wrote {}/index.html\n", options.site);
  } else if (file != "-" && fs::is_regular_file(file)) {
    print("wrote {}\n", file);
  }
  wrong.tell();
  return Exit::AsExpected;
}

}  // namespace

Verb page_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<PageOptions>();
  auto* command =
      app.add_subcommand("page", "Write an HTML page: changes between releases, all results, their history");
  command->add_option("--records", options->records, "Folder of the records (default: reports/)");
  command->add_option("--output", options->output,
                      "Write to this file (default: page.html here); - is standard output");
  command
      ->add_option("--site", options->site,
                   "Write a folder of static pages instead: failures by release, a page for each, operators")
      ->excludes("--output");
  command
      ->add_option("--single-file", options->single_file,
                   "Write the table of failures, their pages and the operators to this file instead, for mail")
      ->excludes("--output")
      ->excludes("--site");
  command->footer(
      "Exit codes: 0 it is written, 2 wrong usage, or the existing file is not a page, 4 there are no records, 7 it "
      "cannot\n"
      "be written.");
  return {command,
          [options, &root] { return write_pages(run::Layout::find(root), *options); },
          Signals::Output,
          {{"recapture page", "write page.html here"},
           {"recapture page --site site", "a folder with a page for each failure"}}};
}

}  // namespace recapture::commands

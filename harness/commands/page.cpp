// recapture page: one HTML file with what changes between releases, the matrix of all results, and their history.
#include "harness/page/page.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "harness/commands/commands.h"
#include "harness/compare/sides.h"
#include "harness/judge/index.h"
#include "harness/page/data.h"
#include "harness/record/file.h"
#include "harness/record/output.h"
#include "harness/record/parallel.h"
#include "harness/run/places.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

struct Options {
  std::string records, output = "page.html";
};

// What cannot be read is named here, on the page, and by the exit code.
void read_records(PageInput& input, Wrong& wrong) {
  struct File {
    std::string path, error;
    std::optional<Record> record;
  };
  std::vector<File> files;
  std::set<std::string> counted;
  for (const std::string& path : records_below(input.folder)) {
    try {
      const Environment environment = environment_of(path);
      if (!counts_first(environment, counted)) continue;  // Beside a gathered night lie its machines' own records.
      const Break broken = environment.broken;
      if (broken == Break::Nothing) {
        files.push_back({path, "", {}});
      } else {
        ++input.broken;
      }
    } catch (const Stop& stop) {
      files.push_back({path, stop.what(), {}});
    }
  }
  in_parallel(files.size(), [&](size_t i) {
    File& file = files[i];
    if (!file.error.empty()) return;
    try {
      file.record = read_record(file.path);
    } catch (const Stop& stop) {
      file.error = stop.what();
    }
  });
  for (File& file : files) {
    if (file.record) {
      input.records.push_back(std::move(*file.record));
    } else {
      wrong.add(file.error);
      ++input.unreadable;
    }
  }
}

PageInput read(const Places& places, const Options& options, Wrong& wrong) {
  PageInput input;
  input.folder = options.records.empty() ? places.reports() : options.records;
  std::error_code error;
  const auto kind = fs::status(input.folder, error);
  if (!fs::exists(kind)) throw Stop(Exit::Usage, fmt::format("{}: {}", input.folder, std::strerror(ENOENT)));
  if (!fs::is_directory(kind)) throw Stop(Exit::Usage, input.folder + " is no folder; --records takes one");
  // These read the newest records of reports/ once more, which takes as long as half of the rest.
  std::future<Rules> rules = std::async(std::launch::async, [&] {
    Demands demands;
    demands.as_before = true;  // A record is judged as the run that wrote it was.
    return rules_of(places.root, demands);
  });
  read_records(input, wrong);
  if (input.records.empty()) {
    wrong.tell();
    throw Stop(Exit::NothingRan, "no records below " + input.folder);
  }
  try {
    input.rules = rules.get();
  } catch (const Stop& stop) {
    wrong.add(stop.what());
    input.rules = rules_of(places.root);
  }
  input.background = background_of(places.root);
  learn_remedies(places.reports(), input.background);
  return input;
}

Exit write(const Places& places, const Options& options) {
  Wrong wrong;
  const std::string page = page_of(page_data(read(places, options, wrong)));
  std::error_code error;
  if (options.output == "-") {
    print_text(page);
  } else if (fs::is_character_file(options.output, error) || fs::is_fifo(options.output, error)) {
    write_file(options.output, page);  // Such as /dev/stdout, which nothing may replace.
  } else {
    replace_output(options.output, page, 15, "page");
  }
  wrong.tell();
  return Exit::AsExpected;
}

}  // namespace

Verb page_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("page", "Write an HTML page: changes between releases, all results, their history");
  command->add_option("--records", options->records, "Folder of the records (default: reports/)");
  command->add_option("--output", options->output,
                      "Write to this file (default: page.html here); - is standard output");
  return {command, [options, &root] { return write(Places::find(root), *options); }};
}

}  // namespace recapture

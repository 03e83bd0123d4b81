// recapture page: one HTML file with what changes between releases, the matrix of all results, and their history.
#include "harness/page/page.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/judge/index.h"
#include "harness/page/data.h"
#include "harness/record/file.h"
#include "harness/record/output.h"
#include "harness/run/places.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

struct Options {
  std::string records, output = "page.html";
};

// What cannot be read keeps nothing else from the page, and is told: here, on the page, and by the exit code.
struct Unreadable {
  std::vector<std::string> all;
  void add(const Stop& stop) {
    if (std::find(all.begin(), all.end(), stop.what()) == all.end()) all.emplace_back(stop.what());
  }
};

PageInput read(const Places& places, const Options& options, Unreadable& wrong) {
  PageInput input;
  input.folder = options.records.empty() ? places.reports() : options.records;
  std::error_code error;
  const auto kind = fs::status(input.folder, error);
  if (!fs::exists(kind)) throw Stop(Exit::Usage, fmt::format("{}: {}", input.folder, std::strerror(ENOENT)));
  if (!fs::is_directory(kind)) throw Stop(Exit::Usage, input.folder + " is no folder; --records takes one");
  for (const std::string& path : records_below(input.folder)) {
    try {
      const Break broken = break_of(text_at(environment_of(path), "break")).value_or(Break::Nothing);
      if (broken == Break::Nothing) {
        input.records.push_back(read_record(path));
      } else {
        ++input.broken;
      }
    } catch (const Stop& stop) {
      wrong.add(stop);
      ++input.unreadable;
    }
  }
  if (input.records.empty()) {
    if (!wrong.all.empty()) throw Stop(Exit::Usage, wrong.all.front());
    throw Stop(Exit::NothingRan, "no records below " + input.folder);
  }
  try {
    Demands demands;
    demands.as_before = true;  // A record is judged as the run that wrote it was.
    input.rules = rules_of(places.root, demands);
  } catch (const Stop& stop) {
    wrong.add(stop);
    input.rules = rules_of(places.root);
  }
  input.background = background_of(places.root);
  return input;
}

// What is there stays whole until all of the new page is on the disk.
void write_page(const std::string& path, const std::string& page) {
  std::error_code error;
  if (fs::is_directory(path, error)) throw Stop(Exit::Usage, path + " is a folder; --output takes a file");
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return write_file(path, page);  // /dev/stdout
  if (fs::exists(path, error) && fs::file_size(path, error) > 0) {
    std::string begin(15, '\0');
    std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
    if (begin != page.substr(0, begin.size())) {
      throw Stop(Exit::Usage, path + " is there and is no page; --output does not overwrite it");
    }
  }
  const std::string part = path + ".part";
  const auto cannot = [&](const char* why) {
    fs::remove(part, error);
    return Stop(Exit::Infrastructure, fmt::format("{}: cannot write it: {}", path, why));
  };
  errno = 0;
  std::ofstream file(part, std::ios::binary);
  file << page;
  file.close();
  if (!file) throw cannot(std::strerror(errno == 0 ? EIO : errno));
  fs::rename(part, path, error);
  if (error) throw cannot(error.message().c_str());
}

Exit write(const Places& places, const Options& options) {
  Unreadable wrong;
  const std::string page = page_of(page_data(read(places, options, wrong)));
  if (options.output == "-") {
    print_text(page);
  } else {
    write_page(options.output, page);
  }
  for (const std::string& what : wrong.all) {
    if (&what == &wrong.all.back()) throw Stop(Exit::Usage, what);
    say_last_words(what);
  }
  return Exit::AsExpected;
}

}  // namespace

Verb page_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("page", "One HTML file: what changes between releases, all results, their history");
  command->add_option("--records", options->records, "Where the runs lie (default: reports/)");
  command->add_option("--output", options->output, "The file (default: page.html here); - is standard output");
  return {command, [options, &root] { return write(Places::find(root), *options); }};
}

}  // namespace recapture

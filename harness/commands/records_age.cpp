// What a user may ask of this installation before any verb: its revision, and how old its records are.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/commands/commands.h"
#include "harness/run/environment.h"
#include "harness/store/select.h"

namespace recapture::commands {

std::string revision_of_tree(const run::Layout& places) {
  const std::string path = places.home + "/revision";  // `cmake --install` writes it.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return run::revision_of(places.home);
  const std::string text = contents_of(path);
  return text.substr(0, text.find('\n'));
}

std::string set_in_use(const run::Layout& places) {
  if (!places.set) return "";
  const std::string revision = places.set->revision.empty() ? "" : " (" + places.set->revision + ")";
  return "the records in " + escape_control(places.set->folder + revision);
}

RecordsAge age_of_records(const run::Layout& places) {
  RecordsAge age;
  std::string newest;
  for (const std::string& path : records_below(places.reports())) {
    ++age.count;
    try {
      newest = std::max(newest, environment_of(path).started);
    } catch (const ExitError&) {
      // `recapture show` reports what cannot be read.
    }
  }
  constexpr size_t kDay = 10;
  if (!newest.empty()) age.newest = newest.substr(0, kDay);
  return age;
}

void show_progress(const std::string& what) {
  if (isatty(STDERR_FILENO) == 0) return;
  const std::string line = "\r\033[K" + what;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace recapture::commands

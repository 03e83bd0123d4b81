#include "harness/timeline/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/text.h"
#include "harness/model/record_files.h"
#include "harness/store/select.h"

namespace recapture::timeline {
namespace fs = std::filesystem;
namespace {

// Relative paths of the records below a folder, as records_below() finds them; of unreadable folders only the first one
// is an error.
void find_records(const fs::path& folder, const fs::path& below, std::vector<std::string>& paths,
                  std::vector<BadRecord>& bad) {
  std::error_code error;
  for (fs::directory_iterator entry(folder / below, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path path = below / entry->path().filename();
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) {
      find_records(folder, path, paths, bad);
    } else if (is_record_name(path.string())) {
      paths.push_back(path.string());
    } else if (is_record_archive(path)) {
      try {
        for (const fs::path record : records_in(folder / path)) paths.push_back((below / record.filename()).string());
      } catch (const ExitError&) {
        paths.push_back(path.string());  // Reading it reports the error.
      }
    }
  }
  if (!error) return;
  const std::string why = "cannot read it: " + error.message();
  if (below.empty()) {
    const bool is_forbidden = error == std::errc::permission_denied;
    throw ExitError(is_forbidden ? Exit::Infrastructure : Exit::Usage, fmt::format("{}: {}", folder.string(), why));
  }
  bad.push_back({below.string(), why});
}

}  // namespace

Runs runs_below(const std::string& folder, const std::set<std::string>& cases) {
  std::vector<std::string> paths;
  Runs all;
  find_records(folder, "", paths, all.bad);
  std::ranges::sort(paths);
  for (const std::string& path : paths) {
    const std::string whole = fmt::format("{}/{}", folder, path);
    try {
      Record record = read_cases(whole, cases);
      record.path = path;
      const auto is_other = [&](const std::string& test) { return !cases.empty() && cases.count(case_of(test)) == 0; };
      std::erase_if(record.plan, is_other);
      all.records.push_back(std::move(record));
    } catch (const ExitError& stop) {
      std::error_code gone;  // It was there when the folder was read. A link may lead nowhere.
      if (!fs::exists(fs::symlink_status(whole, gone)) && !is_record_there(whole)) continue;
      std::string why = stop.what();
      if (why.rfind(whole, 0) == 0) why.erase(0, whole.size());
      why.erase(0, why.find_first_not_of(": "));
      all.bad.push_back({path, why});
    }
  }
  return all;
}

std::string gpus_on_record(const std::vector<Record>& records) {
  std::set<std::string> gpus;
  bool has_none = false;
  for (const Record& record : records) {
    const std::string& gpu = record.environment.machine.gpu;
    has_none = has_none || gpu.empty();
    if (!gpu.empty()) gpus.insert(escape_control(gpu));
  }
  std::vector<std::string> names(gpus.begin(), gpus.end());
  if (has_none) names.emplace_back("none");
  return names.empty() ? "" : "; GPUs on record: " + join(names);
}

}  // namespace recapture::timeline

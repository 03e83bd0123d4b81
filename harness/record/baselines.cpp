#include "harness/record/baselines.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/lines.h"
#include "harness/model/record.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

std::string marks_of(const std::string& records) { return records + "/good.txt"; }

}  // namespace

std::set<std::string> baselines_below(const std::string& records) {
  if (!fs::exists(marks_of(records))) return {};
  const std::vector<std::string> marked = lines_in(contents_of(marks_of(records)));
  return {marked.begin(), marked.end()};
}

std::string mark_baseline(const std::string& path, const std::string& records) {
  const Record record = read_record(path);
  std::string name = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(records));
  if (name.empty() || name.rfind("..", 0) == 0) {
    throw ExitError(Exit::Usage, fmt::format("{} is not below {}; --records names the folder of the runs",
                                             escape_control(path), escape_control(records)));
  }
  if (record.broken() != Break::Nothing || !record.is_complete()) {
    throw ExitError(Exit::Usage, fmt::format("{} is {}, so no run can be compared with it", escape_control(path),
                                             record.is_complete() ? "broken on purpose" : "incomplete"));
  }
  if (baselines_below(records).count(name) == 0) {
    std::ofstream file(marks_of(records), std::ios::app);
    file << name << "\n";
    file.close();
    if (!file) throw ExitError(Exit::Infrastructure, escape_control(marks_of(records)) + ": cannot write it");
  }
  return name;
}

}  // namespace recapture

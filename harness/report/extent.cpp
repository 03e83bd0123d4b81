#include "harness/report/extent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <vector>

#include "harness/base/escape.h"
#include "harness/base/text.h"

namespace recapture::report {
namespace {

constexpr const char* kOldArchitecture = "x86_64";  // Old records lack it; all of them ran on x86_64.

// "one driver (580.159.04)", "2 drivers (580.159.04, 590.44.01)"
std::string counted(size_t count, const char* noun, const std::string& which) {
  return fmt::format("{} ({})", count == 1 ? fmt::format("one {}", noun) : plural(count, noun), which);
}

// "a, b or c"
std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

}  // namespace

std::string render_extent(const ResultMatrix& board) {
  std::set<std::string> drivers, gpus, processors;
  std::set<Architecture> architectures;
  for (const JudgedRun& run : board.records()) {
    const Record& record = run.record;
    if (record.environment.machine.gpu.empty()) continue;
    drivers.insert(record.env("driver"));
    gpus.insert(record.env("gpu"));
    if (const Architecture& architecture = record.environment.architecture; !architecture.empty()) {
      architectures.insert(architecture);
    }
    const std::string processor = record.env("architecture");
    processors.insert(processor.empty() ? kOldArchitecture : processor);
  }
  if (drivers.empty()) return "";
  std::vector<std::string> none;
  if (drivers.size() == 1) none.emplace_back("another driver");
  if (architectures.size() == 1) none.emplace_back("another GPU architecture");
  for (const char* processor : {"x86_64", "aarch64"}) {
    if (processors.count(processor) == 0) none.emplace_back(processor);
  }
  const std::string names = fmt::format("{}", fmt::join(gpus, ", "));
  std::vector<std::string> capabilities;
  for (const Architecture& architecture : architectures) capabilities.push_back(architecture.capability());
  const std::string on =
      architectures.empty()
          ? counted(gpus.size(), "GPU", names)
          : counted(architectures.size(), "GPU architecture",
                    fmt::format("compute capability {}: {}", escape_control(join(capabilities)), names));
  return fmt::format("All runs on a GPU had {}, {} and {}.{}",
                     counted(drivers.size(), "driver", fmt::format("{}", fmt::join(drivers, ", "))), on,
                     fmt::join(processors, " or "),
                     none.empty() ? "" : fmt::format(" There is no record of {}.", alternatives(none)));
}

}  // namespace recapture::report

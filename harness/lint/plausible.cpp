#include "harness/lint/plausible.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "harness/base/escape.h"
#include "harness/base/regex.h"
#include "harness/base/toml.h"
#include "harness/model/gpu.h"
#include "harness/model/release.h"

namespace recapture::lint {
namespace {

// The oldest driver of each major release of the CUDA runtime: its own, as a newer minor release needs no newer one.
struct OldestDriver {
  int runtime, driver;
};
constexpr std::array kOldestDrivers = {OldestDriver{11, 450}, OldestDriver{12, 525}, OldestDriver{13, 580}};

// The number before the first point; 0 without both.
int first_number(const std::string& version) {
  int number = 0;
  const char* end = version.data() + version.size();
  const auto [rest, error] = std::from_chars(version.data(), end, number);
  return error == std::errc() && rest != end && *rest == '.' ? number : 0;
}

// 2.16.0 of 2.16.0a0+git0123abc: what the sources say of a build of any kind.
std::string numbers_of(const std::string& version) {
  std::string numbers = version.substr(0, version.find_first_not_of("0123456789."));
  while (!numbers.empty() && numbers.back() == '.') numbers.pop_back();
  return numbers;
}

}  // namespace

std::map<std::string, std::string> release_dates(const std::string& root) {
  const std::string path = root + "/ci/matrix.toml";
  std::map<std::string, std::string> dates;
  const toml::table matrix = parse_toml(path);
  const auto* releases = tables_in(matrix, "release", path, "[[release]]");
  for (size_t i = 0; releases != nullptr && i < releases->size(); ++i) {
    const toml::table& one = *releases->get(i)->as_table();
    const auto date = one["date"].value<toml::date>();
    if (date)
      dates[text_in(one, "version", path)] = fmt::format("{:04}-{:02}-{:02}", date->year, date->month, date->day);
  }
  return dates;
}

std::vector<std::string> contradictions_in(const Environment& environment, const KnownFacts& known) {
  std::vector<std::string> wrong;
  const auto say = [&](const std::string& text) { wrong.push_back(escape_control(text)); };
  const Json& json = environment.json();
  const std::string& release = environment.release.name();
  for (const auto& [key, what] : {std::pair("libtorch", "LibTorch"), std::pair("headers", "headers")}) {
    const std::string& its = text_at(json, key);
    if (!environment.release.is_version() || its.empty() || numbers_of(its) == numbers_of(release)) continue;
    say(fmt::format("its release is {}, and its {} {}", release, what, its));
  }
  const std::string& runtime = environment.machine.runtime;
  const int driver = first_number(environment.machine.driver);
  for (const OldestDriver& oldest : kOldestDrivers) {
    if (driver == 0 || first_number(runtime) != oldest.runtime || driver >= oldest.driver) continue;
    say(fmt::format("driver {} cannot run CUDA runtime {}, which needs {} or newer", environment.machine.driver,
                    runtime, oldest.driver));
  }
  const KnownArchitecture* architecture = architecture_of(environment.machine.gpu);
  const std::string& capability = environment.architecture.capability();
  if (architecture != nullptr && !capability.empty() && capability != architecture->capability) {
    say(fmt::format("{} has compute capability {}, not {}", environment.machine.gpu, architecture->capability,
                    capability));
  }
  const std::string& started = environment.started;
  if (!started.empty() && !known.now.empty() && started > known.now) {
    say(fmt::format("it began at {}, which is in the future", started));
  }
  const auto out = known.dates.find(release);
  if (!started.empty() && out != known.dates.end() && started.substr(0, out->second.size()) < out->second) {
    say(fmt::format("it began on {}, and {} came out on {}", started.substr(0, out->second.size()), release,
                    out->second));
  }
  const std::string& revision = text_at(json, "revision");
  if (revision.ends_with("-dirty")) {
    say(fmt::format("it was run by changed code: its revision is {}", revision));
  } else if (!revision.empty() && known.is_in_history && !known.is_in_history(revision)) {
    say(fmt::format("its revision {} is not in the history of this tree", revision));
  }
  return wrong;
}

}  // namespace recapture::lint

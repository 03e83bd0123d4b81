#include "harness/run/run_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>
#include <utility>

#include "harness/base/exit.h"
#include "harness/run/environment.h"
#include "harness/store/select.h"

namespace recapture::run {
namespace fs = std::filesystem;
namespace {

// The options that a record does not contain: a folder, and a revision that may be git's.
std::string said_again(const RunOptions& options) {
  std::string words;
  if (!options.libtorch.empty()) words += " --libtorch " + options.libtorch;
  if (!options.revision.empty()) words += " --revision " + options.revision;
  const Json env = recorded(options.env);
  for (const auto& [name, value] : options.env) {
    if (is_hashed(text_at(env, name))) words += fmt::format(" --env {}={}", name, value);
  }
  return words;
}

}  // namespace

RunRecord::RunRecord(const RunOptions& options)
    : path_(options.resume.empty() ? options.record : options.resume),
      said_again_(said_again(options)),
      go_on_(options.go_on),
      replace_(options.replace) {
  if (options.resume.empty()) return;
  writer_.emplace(RecordWriter::append(path_));
  if (go_on_ && writer_->is_blank()) return;
  before_ = read_record(path_);
  hold();
  if (!go_on_ && was_complete()) throw ExitError(Exit::Usage, path_ + " is complete; there is nothing to resume");
  if (before_->plan.empty() && (!go_on_ || !before_->tests.empty())) {
    throw ExitError(Exit::Usage, path_ + " has no plan, so what is left to run is unknown; start a new run");
  }
}

void RunRecord::require_same_run(const RunOptions& options, const std::vector<PlannedCase>& plan,
                                 const std::set<std::string>& simulated) const {
  const Json broken = to_string(options.broken), shard = fmt::format("{}/{}", options.shard.index, options.shard.of);
  for (const auto& [key, now] : {std::pair("release", Json(options.release)),
                                 {"label", options.label.empty() ? Json() : Json(options.label)},
                                 {"break", broken},
                                 {"shard", shard}}) {
    Json then = before_->environment.json().value(key, Json());
    if (key == std::string_view("release")) then = before_->environment.name_in_matrix();
    if (then != now) throw of_another_run(key, then, now);
  }
  std::vector<std::string> then = before_->plan, now = tests_of(plan);
  if (!before_->environment.machine.gpu.empty()) {  // It leaves them out; older runs did not.
    for (auto* tests : {&then, &now}) {
      std::erase_if(*tests, [&](const std::string& test) { return simulated.count(case_of(test)) != 0; });
    }
  }
  std::ranges::sort(then);
  std::ranges::sort(now);
  if (!then.empty() && then != now) {
    throw ExitError(Exit::Usage, fmt::format("{} is of a run of other tests{}", path_,
                                             go_on_ ? "" : "; without names, --resume runs the rest of it"));
  }
  for (const PlannedCase& planned : plan) {
    const CaseInfo& info = planned.binary.info;
    require_same_program(planned.binary);
    const auto before = before_->cases.find(info.id);
    if (before == before_->cases.end() || before->second.hash == info.hash || was_complete()) continue;
    throw ExitError(Exit::Usage,
                    fmt::format("{}: {} has been built from other code since; start a new run", path_, info.id));
  }
}

void RunRecord::require_same_program(const CaseBinary& binary) const {
  for (const std::string& test : binary.info.tests) {
    const TestRecord* line = is_of_program(test) ? before_->find(binary.info.id + "." + test) : nullptr;
    if (line == nullptr || !binary.program || line->text("program") == binary.program->code || was_complete()) continue;
    throw ExitError(Exit::Usage,
                    fmt::format("{}: {} has been edited since; start a new run", path_, binary.program->path));
  }
}

void RunRecord::require_told_the_same(const RunOptions& options) const {
  const std::string demanded = describe(options.demands);
  const Json require = demanded.empty() ? Json() : Json(demanded);
  const Json env = options.env.empty() ? Json() : recorded(options.env);
  for (const auto& [key, now] : {std::pair("require", require), {"env", env}}) {
    const Json then = before_->environment.json().value(key, Json());
    if (then != now) throw of_another_run(fmt::format("--{}", key), then, now);
  }
  for (const OverridableLibrary& library : kOverridableLibraries) {
    const auto chosen = options.libraries.find(library.key);
    const std::string now = chosen == options.libraries.end() ? "" : chosen->second;
    const std::string then = before_->environment.machine.has_override(library) ? before_->env(library.key) : "";
    if (now.empty() == then.empty() && is_same_version(now, then)) continue;
    const auto words = [](const std::string& version) { return version.empty() ? Json() : Json(version); };
    throw of_another_run(library.option, words(then), words(now));
  }
}

ExitError RunRecord::of_another_run(const std::string& what, const Json& then, const Json& now) const {
  const auto words = [](const Json& json) { return json.is_null() ? "none" : to_text(json); };
  return {Exit::Usage, fmt::format("{} is of another run: its {} is {}, not {}", path_, what, words(then), words(now))};
}

void RunRecord::require_same_environment(const Environment& environment) const {
  const std::set<std::string> differs = differences(environment, before_->environment);
  if (differs.empty()) return;
  const std::string or_say =
      differs.count("revision") == 0 ? "" : fmt::format(", or say --revision {}", before_->env("revision"));
  throw ExitError(Exit::Usage, fmt::format("{} is of another environment, which differs in {}; start a new run{}",
                                           path_, fmt::join(differs, ", "), or_say));
}

void RunRecord::begin(const Opening& opening, const Layout& places) {
  Json plan{{"plan", opening.plan}};
  if (!opening.whole.empty()) plan["whole"] = opening.whole;
  if (before_) {
    require_same_environment(opening.environment);
    writer_->write({{"resumed", opening.environment.json().at("volatile")}});
    if (before_->plan.empty()) writer_->write(plan);
    return;
  }
  if (!writer_) make(opening.environment, places);
  const std::array<Json, 2> lines{opening.environment.json(), plan};
  writer_->write_all({lines.data(), lines.size()});
}

void RunRecord::make(const Environment& environment, const Layout& places) {
  if (!path_.empty()) {
    writer_.emplace(replace_ ? RecordWriter::replace(path_)
                             : RecordWriter::create(path_, "--resume goes on with it, --record takes another name"));
    return;
  }
  std::string name = report_path(environment), when;
  std::replace(name.begin(), name.end(), '/', '-');
  for (const char c : environment.started) {  // "2026-11-22T00:28:39Z"
    if (c == 'T') when += '-';
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) when += c;
  }
  // Another run may have begun in the same second.
  for (int n = 1; !writer_; ++n) {
    path_ = fmt::format("{}/records/{}{}-{}", places.build, when, n == 1 ? "" : fmt::format(".{}", n), name);
    try {
      writer_.emplace(RecordWriter::create(path_));
    } catch (const ExitError& stop) {
      if (stop.code != Exit::Usage) throw;
    }
  }
}

void RunRecord::keep(const Json& line, Durability wait) {
  try {
    writer_->write(line, wait);
  } catch (const ExitError& stop) {
    if (!fs::exists(path_)) throw;
    throw ExitError(stop.code, fmt::format("{}; what ran before is recorded, `{}` runs the rest once it can be written",
                                           stop.what(), how_to_resume()));
  }
}

}  // namespace recapture::run

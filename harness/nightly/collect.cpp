#include "harness/nightly/collect.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/text.h"
#include "harness/model/record_files.h"
#include "harness/model/release.h"
#include "harness/record/merge.h"
#include "harness/store/select.h"

namespace recapture::nightly {
namespace fs = std::filesystem;
namespace {

// A run, as far as a file has it.
struct Found {
  std::string path, text;
  Record record;
  std::string flaw;  // Why it is incomplete; "" if it is complete.
};

// A temporary folder, removed unless it is moved to its place.
class Staging {
 public:
  explicit Staging(std::string out) : out_(std::move(out)), path_(out_ + kPartial) {
    remove(path_);  // Left by a killed process.
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) throw cannot(path_, error);
  }
  ~Staging() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const std::string& path() const { return path_; }

  void put_in_place() {
    std::error_code error;
    const std::string before = out_ + kBefore;
    remove(before);
    if (fs::exists(out_, error)) fs::rename(out_, before, error);
    if (!error) fs::rename(path_, out_, error);
    if (error) throw cannot(out_, error);
    remove(before);
  }

 private:
  static ExitError cannot(const std::string& path, const std::error_code& error) {
    return {Exit::Infrastructure, fmt::format("{}: cannot write it: {}", escape_control(path), error.message())};
  }
  static void remove(const std::string& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) throw cannot(path, error);
  }

  std::string out_, path_;
};

// The output must be new, or an earlier collected night.
void require_place(const std::string& out) {
  std::error_code error;
  if (!fs::exists(out, error) || (fs::is_directory(out, error) && fs::is_empty(out, error))) return;
  if (!fs::exists(out + "/" + kNightFile, error)) {
    throw ExitError(Exit::Usage, escape_control(out) + " exists, and is not a collected night");
  }
}

class CollectedNight {
 public:
  CollectedNight(std::string out, const NightPlan& plan, const Catalogue& catalogue)
      : out_(std::move(out)), plan_(plan), catalogue_(catalogue), runs_(plan.size()) {}

  // Reads the records below a folder. An error in one does not hide the others.
  void read(const std::string& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) {  // A typo must not replace a night by an empty one.
      throw ExitError(Exit::Usage,
                      fmt::format("{} is not a folder; a job whose machines may leave no record at all makes it "
                                  "first (mkdir -p)",
                                  escape_control(folder)));
    }
    std::vector<std::string> paths;
    const auto skip = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator at(folder, skip, error), end; !error && at != end; at.increment(error)) {
      std::error_code about;
      if (at->is_directory(about) && !fs::is_empty(at->path(), about) && about) {
        lacks_.push_back(fmt::format("{}: cannot read it: {}", escape_control(at->path().string()), about.message()));
      }
      if (is_ours(at->path())) {
        at.disable_recursion_pending();
      } else if (is_record_name(at->path().string())) {
        paths.push_back(at->path().string());
      } else if (is_record_archive(at->path())) {
        add_records_in(at->path(), paths);
      }
    }
    if (error) lacks_.push_back(fmt::format("{}: cannot read all of it: {}", escape_control(folder), error.message()));
    std::ranges::sort(paths);
    for (const std::string& path : paths) take(path);
  }

  Gathered write() {
    Staging staging(out_);
    Gathered gathered;
    std::set<size_t> done;
    for (size_t i = 0; i < plan_.size(); ++i) {
      if (done.count(i) == 0) gathered.whole += gather_run(staging.path(), tasks_of_run(i, done));
    }
    for (const Found* other : further_) {
      const std::string path = free_path(staging.path(), other->record.environment);
      write_file(path, other->text);
      if (!other->flaw.empty() || !other->record.is_complete()) {
        incomplete_.push_back(fs::path(path).lexically_relative(staging.path()).string());
      }
    }
    const std::string now = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
    if (started_.empty()) started_ = now;  // A night of which nothing is left is not the oldest of all.
    const std::string first = collected_before();
    const Json night = {{"night", 1},
                        {"started", started_},
                        {"collected", first.empty() ? now : first},
                        {"plan", render_json(plan_)},
                        {"lacks", lacks_},
                        {"lacking", lacking_},
                        {"further", incomplete_},
                        {"notes", notes_}};
    write_file(staging.path() + "/" + kNightFile, to_text(night, 1) + "\n");
    staging.put_in_place();
    gathered.lacks = lacks_;
    gathered.notes = notes_;
    return gathered;
  }

 private:
  // When the night that this one replaces was collected first; "" where there is none.
  std::string collected_before() const {
    std::error_code error;
    const std::string path = out_ + "/" + kNightFile;
    if (!fs::is_regular_file(path, error)) return "";
    const Json before = try_parse_json(contents_of(path)).value_or(Json());
    return before.is_object() ? text_at(before, "collected") : "";
  }

  void add_records_in(const fs::path& archive, std::vector<std::string>& paths) {
    try {
      std::ranges::move(records_in(archive), std::back_inserter(paths));
    } catch (const ExitError& stop) {
      lacks_.push_back(escape_control(stop.what()));
    }
  }

  bool is_ours(const fs::path& path) const {
    std::error_code error;
    for (const std::string& ours : {out_, out_ + kPartial, out_ + kBefore}) {
      if (fs::equivalent(path, ours, error)) return true;
    }
    return false;
  }

  // This task and the others that are shards of the same run.
  std::vector<size_t> tasks_of_run(size_t first, std::set<size_t>& done) const {
    std::vector<size_t> tasks;
    for (size_t i = first; i < plan_.size(); ++i) {
      const NightTask &a = plan_[first], &b = plan_[i];
      if (a.release == b.release && a.gpu == b.gpu && a.of == b.of && done.insert(i).second) tasks.push_back(i);
    }
    return tasks;
  }

  // Keeps the records of a run, and returns the number of its complete tasks.
  size_t gather_run(const std::string& folder, const std::vector<size_t>& tasks) {
    std::vector<const Found*> found;
    std::vector<size_t> missing;
    size_t whole = 0;
    for (const size_t task : tasks) {
      const Found* one = choose(task);
      if (one == nullptr) {
        missing.push_back(task);
        continue;
      }
      found.push_back(one);
      if (one->flaw.empty()) {
        ++whole;
      } else {
        add_lack(plan_[task], kIncomplete, fmt::format(" is incomplete: {}: {}", escape_control(one->path), one->flaw));
      }
    }
    if (is_covered(found)) {
      whole += missing.size();
    } else {
      for (const size_t task : missing) add_lack(plan_[task], kMissing, " is missing: no record of it");
    }
    if (found.empty()) return whole;
    const std::vector<std::string> lacks = keep(folder, found);
    if (whole < tasks.size()) return whole;  // The missing tasks are already reported.
    for (const std::string& lack : lacks) add_lack(plan_[tasks.front()], kIncomplete, ": " + lack);
    return whole;
  }

  void add_lack(const NightTask& task, const char* state, const std::string& what) {
    lacking_.push_back({{"release", task.release},
                        {"gpu", task.gpu},
                        {"shard", task.shard_words()},
                        {"state", state},
                        {"lack", lacks_.size()}});
    lacks_.push_back(task.name() + what);
  }

  // If there are more shards than cases, some have nothing to run and write no record.
  static bool is_covered(const std::vector<const Found*>& found) {
    std::set<std::string> planned;
    for (const Found* one : found) planned.insert(one->record.plan.begin(), one->record.plan.end());
    if (found.empty() || found.front()->record.whole_plan.empty()) return false;
    const auto& all = found.front()->record.whole_plan;
    return std::ranges::all_of(all, [&](const std::string& test) { return planned.count(test) != 0; });
  }

  void take(const std::string& path) {
    Found found{path, "", {}, ""};
    try {
      found.text = record_text(path);
      if (found.text.empty()) {  // Its machine died at once; a later run wrote another.
        notes_.push_back(escape_control(path) + " is empty");
        return;
      }
      found.record = read_record(path);
    } catch (const ExitError& stop) {
      lacks_.push_back(escape_control(stop.what()));
      return;
    }
    const auto task =
        std::ranges::find_if(plan_, [&](const NightTask& one) { return one.is_of(found.record.environment); });
    if (task == plan_.end()) {
      notes_.push_back(fmt::format("{} is of no task of the plan: {}, shard {}{}", escape_control(path),
                                   found.record.machine(), found.record.env("shard"),
                                   found.record.broken() == Break::Nothing ? "" : ", broken on purpose"));
      return;
    }
    found.flaw = flaw_of(found.record);
    add(runs_[static_cast<size_t>(task - plan_.begin())], std::move(found));
  }

  std::string flaw_of(const Record& record) const {
    if (record.plan.empty()) return "it has no plan: what should have run is not known";
    const auto lost = static_cast<size_t>(
        std::ranges::count_if(record.plan, [&](const auto& test) { return record.find(test) == nullptr; }));
    if (record.end != "complete" || lost > 0) {
      return fmt::format("{}, and {} of {} tests have not run",
                         record.end.empty()         ? "it did not come to its end"
                         : record.end == "complete" ? "it is called complete"
                                                    : escape_control(record.end),
                         lost, record.plan.size());
    }
    if (!is_version(record.env("release"))) return "";
    const auto& all = record.whole_plan.empty() ? record.plan : record.whole_plan;
    const std::set<std::string> planned(all.begin(), all.end());
    size_t left_out = 0;
    for (const CatalogueCase& one : catalogue_) {
      for (const CatalogueTest& test : one.tests) left_out += planned.count(one.id + "." + test.name) == 0 ? 1 : 0;
    }
    return left_out == 0 ? ""
                         : fmt::format("it is a run of some cases only: {} of the catalogue {} not in its plan",
                                       plural(left_out, "test"), left_out == 1 ? "is" : "are");
  }

  // Of two copies of one run, keeps the longer; of contradicting runs, reports both.
  void add(std::vector<Found>& runs, Found found) {
    const auto id_of = [](const Found& one) {
      const Json changing = one.record.environment.json().value("volatile", Json::object());
      return text_at(changing, "run");
    };
    for (Found& known : runs) {
      const bool is_copy = known.text == found.text;
      if (!is_copy && (id_of(known).empty() || id_of(known) != id_of(found))) continue;
      const bool is_longer = found.text.size() > known.text.size();
      const Found &longer = is_longer ? found : known, &shorter = is_longer ? known : found;
      // A record that was cut within a line is complete up to that line.
      const size_t line = shorter.text.rfind('\n') == std::string::npos ? 0 : shorter.text.rfind('\n') + 1;
      if (longer.text.compare(0, line, shorter.text, 0, line) != 0) {
        lacks_.push_back(fmt::format("{} and {} are of one run, and say different things", escape_control(known.path),
                                     escape_control(found.path)));
      } else {
        notes_.push_back(fmt::format("{} is a{} copy of {}", escape_control(shorter.path), is_copy ? "" : " shorter",
                                     escape_control(longer.path)));
      }
      if (is_longer) known = std::move(found);
      return;
    }
    runs.push_back(std::move(found));
  }

  // The newest complete run, or the one that got farthest. The others are kept as well: each counts.
  const Found* choose(size_t task) {
    const std::vector<Found>& runs = runs_[task];
    if (runs.empty()) return nullptr;
    const auto rank = [](const Found& one) {
      const bool is_whole = one.flaw.empty();
      return std::tuple(is_whole, is_whole ? 0 : one.record.tests.size(), one.record.environment.started, one.path);
    };
    const auto best = std::ranges::max_element(runs, [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    for (const Found& other : runs) {
      if (&other == &*best) continue;
      further_.push_back(&other);
      notes_.push_back(fmt::format("{} was run more than once: {} is its record, and {} counts as well{}",
                                   plan_[task].name(), escape_control(best->path), escape_control(other.path),
                                   other.flaw.empty() ? "" : ": " + other.flaw));
    }
    return &*best;
  }

  // A free name: a second run of the same kind of machine is named as in reports/.
  static std::string free_path(const std::string& folder, const Environment& environment) {
    const std::string first = folder + "/" + report_path(environment);
    std::string path = first;
    std::error_code error;
    for (int n = 2; fs::exists(path, error); ++n) {
      path = fmt::format("{}.run-{}.jsonl", first.substr(0, first.size() - std::string(".jsonl").size()), n);
    }
    fs::create_directories(fs::path(path).parent_path(), error);  // Writing the file reports the error.
    return path;
  }

  // Returns what the merged record lacks.
  std::vector<std::string> keep(const std::string& folder, const std::vector<const Found*>& found) {
    std::vector<std::string> paths;
    for (const Found* one : found) {
      paths.push_back(one->path);
      started_ = std::max(started_, one->record.environment.started);
    }
    const Environment& environment = found.front()->record.environment;
    if (found.front()->record.is_shard()) {
      try {
        return merge_records(paths, free_path(folder, environment));
      } catch (const ExitError& stop) {
        if (stop.code != Exit::Usage) throw;
        lacks_.push_back(escape_control(stop.what()));  // The shards stay separate; one alone never passes.
      }
    }
    for (const Found* one : found) write_file(free_path(folder, one->record.environment), one->text);
    return {};
  }

  std::string out_;
  const NightPlan& plan_;
  const Catalogue& catalogue_;
  std::vector<std::vector<Found>> runs_;  // By task.
  std::vector<std::string> lacks_, notes_;
  std::vector<const Found*> further_;  // Runs of a task beside its record.
  std::vector<std::string> incomplete_;
  Json lacking_ = Json::array();
  std::string started_;  // When the last of the runs began.
};

}  // namespace

Gathered gather(const std::string& out, const std::vector<std::string>& folders, const NightPlan& plan,
                const Catalogue& catalogue) {
  std::string place = fs::path(out).lexically_normal().string();
  while (place.size() > 1 && place.back() == '/') place.pop_back();
  require_place(place);
  CollectedNight night(place, plan, catalogue);
  for (const std::string& folder : folders) night.read(folder);
  return night.write();
}

}  // namespace recapture::nightly

#include "harness/compare/sides.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/letter_case.h"
#include "harness/base/parallel.h"
#include "harness/base/regex.h"
#include "harness/base/text.h"
#include "harness/model/gpu.h"
#include "harness/model/record_files.h"
#include "harness/model/record_text.h"
#include "harness/model/release.h"
#include "harness/model/suggest.h"
#include "harness/record/baselines.h"
#include "harness/store/coverage.h"
#include "harness/store/machine_runs.h"
#include "harness/store/run_heads.h"
#include "harness/store/select.h"
#include "harness/words/neighbour.h"

namespace recapture::compare {
namespace fs = std::filesystem;

namespace {

std::string describe_machine(const Environment& environment) {
  return label(environment.machine, {.driver = true, .variables = true});
}

// Counts runs by name.
class Tally {
 public:
  void add(const std::string& name) {
    const auto has_name = [&](const auto& entry) { return entry.first == name; };
    const auto at = std::find_if(counts_.begin(), counts_.end(), has_name);
    ++(at == counts_.end() ? counts_.emplace_back(name, 0) : *at).second;
  }
  template <typename Before>
  void sort(const Before& is_before) {
    std::sort(counts_.begin(), counts_.end(),
              [&](const auto& a, const auto& b) { return is_before(a.first, b.first); });
  }
  // "; runs on record: NVIDIA H100 (1), NVIDIA H200 (2) and 3 more"; "" if there is none.
  std::string after(const std::string& words, size_t most) const {
    std::string text;
    for (size_t i = 0; i < std::min(most, counts_.size()); ++i) {
      text += fmt::format("{}{} ({})", i == 0 ? "; " + words + " " : ", ", counts_[i].first, counts_[i].second);
    }
    return escape_control(counts_.size() <= most ? text : text + fmt::format(" and {} more", counts_.size() - most));
  }

 private:
  std::vector<std::pair<std::string, size_t>> counts_;
};

constexpr size_t kMostListed = 6;  // More do not fit on a line.

// How many runs before the newest: of "latest" none, of "latest~2" two.
std::optional<size_t> runs_before_latest(const std::string& word) {
  if (word == "latest") return 0;
  if (word.rfind("latest~", 0) != 0) return std::nullopt;
  size_t count = 0;
  const char *begin = word.data() + std::string_view("latest~").size(), *end = word.data() + word.size();
  const auto read = std::from_chars(begin, end, count);
  if (read.ec != std::errc() || read.ptr != end) {
    throw ExitError(Exit::Usage, "'" + escape_control(word) + "' is not a run such as latest~1");
  }
  return count;
}

constexpr const char* kBaseline = "baseline";
constexpr const char *kNightly = "nightly", *kCandidate = "candidate";

// "nightly~1" is the build before the newest one.
struct CountedBuild {
  explicit CountedBuild(const std::string& word) : name(lower_case(word)) {
    static const RE2 kCounted("(.+)~([0-9]{1,9})");
    RE2::FullMatch(lower_case(word), kCounted, &name, &before);
  }
  std::string name;
  size_t before = 0;
};

// What a build's version shows, for a word that asks for that; "" for any other word.
std::string kind_of_build(const std::string& word) {
  if (word == "nightly" || word == "nightlies") return kNightly;
  return word == "rc" || word == "candidate" ? kCandidate : "";
}

bool is_commit(const std::string& word, const std::string& commit) {
  static const RE2 kDigits(R"((?:git)?([0-9a-f]{7,40}))");
  std::string digits;
  return RE2::FullMatch(word, kDigits, &digits) && commit.starts_with(digits);
}

class Finder {
 public:
  Finder(MachineChoice choice, std::string records, std::string own, const CompareContext& context, JudgedRecords& read)
      : choice_(std::move(choice)), folder_(std::move(records)), own_(std::move(own)), context_(context), read_(read) {}

  BothSides sides(const std::string& from, const std::string& to) {
    Runs older{from, is_counted(from), {}, {}}, newer{to, is_counted(to), {}, {}};
    for (Runs* runs : {&older, &newer}) {
      if (!runs->counted) runs->found = named(runs->word);
    }
    if (choice_.is_of_two_machines()) return across(older, newer);
    if (!choice_.gpu.empty()) choose_gpu(choice_, gpus_of(older, newer));
    for (Runs* runs : {&older, &newer}) {
      if (!runs->counted) runs->heads = fitting(runs->found, runs->word, choice_);
    }
    // The baseline depends on the other side, so it is resolved last.
    for (const bool baseline : {false, true}) {
      if (older.counted && (from == kBaseline) == baseline) older.heads = counted(older, newer);
      if (newer.counted && (to == kBaseline) == baseline) newer.heads = counted(newer, older);
    }
    const bool is_fixed = older.counted || newer.counted || has_choices();
    const Runs all_of_older = older, all_of_newer = newer;
    const MachineId machine = shared_machine(older, newer);
    for (Runs* runs : {&older, &newer}) keep(*runs, machine);
    if (const auto libraries = chosen_in_vain(older.heads, newer.heads, choice_.libraries); !libraries.empty()) {
      const OverridableLibrary& library = *libraries.front();
      throw ExitError(Exit::NothingRan, fmt::format("neither side ran with {} {}", library.name,
                                                    escape_control(version_in(choice_.libraries, library))));
    }
    const bool same_release = release_of(older) == release_of(newer);
    BothSides both{side(older, same_release), side(newer, same_release), {}};
    both.notes = notes_;
    if (!older.counted) both.other_records_of_from = paths_elsewhere(older.found, machine);
    if (!newer.counted) both.other_records_of_to = paths_elsewhere(newer.found, machine);
    if (is_fixed || same_release) return both;
    for (const MachineId& elsewhere : like_it_) {
      Runs before = all_of_older, now = all_of_newer;
      for (Runs* runs : {&before, &now})
        runs->heads = counting_heads(on_machine(elsewhere, runs->heads), choice_.libraries);
      // Runs with another library than a release's own fill in nothing.
      const auto has_chosen_one = [](const Runs& runs) {
        return !runs.heads.front().environment.machine.overrides.empty();
      };
      if (has_chosen_one(before) || has_chosen_one(now)) continue;
      both.elsewhere.emplace_back(side(before, same_release), side(now, same_release));
    }
    return both;
  }

 private:
  struct Runs {
    std::string word;
    bool counted = false;
    std::vector<RunHead> found;  // All runs of a release, a folder or a record.
    std::vector<RunHead> heads;  // The runs that count, newest first.
  };

  // Each side on a machine of its own. What no option tells apart is the same on both.
  BothSides across(Runs older, Runs newer) {
    const auto choice_of = [&](const SideMachine& side) {
      MachineChoice choice = choice_;
      if (!side.gpu.empty()) choice.gpu = side.gpu;
      if (!side.driver.empty()) choice.driver = side.driver;
      return choice;
    };
    MachineChoice from = choice_of(choice_.from), to = choice_of(choice_.to);
    for (const auto& [runs, choice] : {std::pair(&older, &from), {&newer, &to}}) {
      if (runs->counted) {
        throw ExitError(Exit::Usage, fmt::format("'{}' stays on the other side's machine; with --from-driver, "
                                                 "--to-driver, --from-gpu and --to-gpu a side is a release, a build, a "
                                                 "record or a folder",
                                                 escape_control(runs->word)));
      }
      if (!choice->gpu.empty()) choose_gpu(*choice, gpus_of(*runs, *runs));
      runs->heads = fitting(runs->found, runs->word, *choice);
    }
    const bool other_gpu = !choice_.from.gpu.empty() || !choice_.to.gpu.empty();
    const bool other_driver = !choice_.from.driver.empty() || !choice_.to.driver.empty();
    std::vector<std::tuple<MachineRank, MachineId, MachineId>> pairs;
    for (const MachineId& then : machines_of(older.heads)) {
      for (const MachineId& now : machines_of(newer.heads)) {
        const bool is_pair = (other_gpu || then.gpu == now.gpu) && (other_driver || then.driver == now.driver) &&
                             then.variables == now.variables && (other_gpu || then.processor == now.processor);
        if (!is_pair || then.gpu.empty() || now.gpu.empty()) continue;
        const auto older_heads = counting_heads(on_machine(then, older.heads), choice_.libraries),
                   newer_heads = counting_heads(on_machine(now, newer.heads), choice_.libraries);
        pairs.emplace_back(rank_machine(older_heads.front().environment, newer_heads.front().environment,
                                        comparable_tests(complete(older_heads), complete(newer_heads)),
                                        std::min(older_heads.size(), newer_heads.size()), choice_.libraries),
                           then, now);
      }
    }
    if (pairs.empty()) {
      throw ExitError(Exit::NothingRan,
                      fmt::format("no two machines that are alike but for this: {} ran on {}, and {} on {}",
                                  escape_control(older.word), all_machines(older), escape_control(newer.word),
                                  all_machines(newer)));
    }
    std::ranges::sort(pairs);
    const auto& [rank, then, now] = pairs.front();
    keep(older, then);
    keep(newer, now);
    const bool same_release = release_of(older) == release_of(newer);
    BothSides both{side(older, false), side(newer, false), {}};
    if (same_release) {
      for (const auto& [side, machine] : {std::pair(&both.from, &then), {&both.to, &now}}) {
        if (then.gpu != now.gpu) side->name += ", " + escape_control(machine->gpu);
        if (then.driver != now.driver) side->name += ", driver " + escape_control(machine->driver);
      }
    }
    both.notes = notes_;
    both.other_records_of_from = paths_elsewhere(older.found, then);
    both.other_records_of_to = paths_elsewhere(newer.found, now);
    return both;
  }

  // Of both sides. A counted one may be of any release.
  GpusOnRecord gpus_of(const Runs& older, const Runs& newer) const {
    GpusOnRecord gpus;
    for (const Runs* runs : {&older, &newer}) {
      const std::vector<RunHead> all = runs->counted ? heads_in(folder_) : runs->found;
      for (const RunHead& head : all) gpus.add(head.environment);
    }
    return gpus;
  }

  bool has_choices() const {
    return !choice_.gpu.empty() || !choice_.driver.empty() || !choice_.machines.empty() ||
           std::ranges::any_of(choice_.libraries, [](const auto& choice) { return !choice.second.empty(); });
  }

  static bool is_counted(const std::string& word) { return word == kBaseline || runs_before_latest(word).has_value(); }
  static std::string release_of(const Runs& runs) { return runs.heads.front().environment.release.name(); }

  std::vector<RunHead> heads_in(const std::string& folder) const {
    return heads_below(folder, [&](const std::string& path) -> const Environment& { return read_.environment(path); });
  }

  static std::vector<RunHead> fitting(const std::vector<RunHead>& heads, const std::string& word,
                                      const MachineChoice& choice) {
    std::vector<RunHead> fit;
    std::copy_if(heads.begin(), heads.end(), std::back_inserter(fit),
                 [&](const RunHead& head) { return chosen(choice, head.environment); });
    if (!fit.empty()) return fit;
    Tally machines;
    for (const RunHead& head : heads) {
      machines.add(label(head.environment.machine, {.driver = !choice.driver.empty()}));
    }
    machines.sort(std::less<>());
    Measured measured;
    for (const RunHead& head : heads) measured.add(head.environment);
    throw ExitError(
        Exit::NothingRan,
        fmt::format("no run of {} {}{}{}{}{}", escape_control(word),
                    choice.gpu_filter().is_none() ? "without a GPU"
                    : !choice.gpu.empty()         ? "on " + escape_control(choice.gpu)
                    : !choice.machines.empty()    ? "on " + escape_control(join(choice.machines, " or "))
                                                  : "on a GPU",
                    choice.driver.empty() ? "" : " with driver ", escape_control(choice.driver),
                    machines.after("runs on record:", kMostListed), nearest_to(choice.gpu, choice.driver, measured)));
  }

  // The folder of a release. A record of another one there would be compared under a wrong name.
  static void require_release(const std::string& folder, const std::vector<RunHead>& heads) {
    const std::string name = fs::path(folder).lexically_normal().filename().string();
    if (!is_version(name) || name.find('.') == std::string::npos) return;
    for (const RunHead& head : heads) {
      const Release& release = head.environment.release;
      if (without_local(release.name()) == without_local(name) || release.line() == name) continue;
      throw ExitError(Exit::Usage, fmt::format("{}: its release is '{}', and it lies in the folder of {}",
                                               escape_control(head.path), escape_control(release.name()), name));
    }
  }

  // The runs of a release, a build, a folder or a record.
  std::vector<RunHead> named(const std::string& word) const {
    std::string empty;
    std::vector<std::string> all = {folder_};
    if (!own_.empty() && own_ != folder_) all.push_back(own_);
    // 2.15 is 2.15.0 of the tree's own records, and not a build of it that lies among the others.
    for (const bool is_any_build : {false, true}) {
      for (const std::string& folder : all) {
        if (auto heads = named_in(folder, word, is_any_build, empty); !heads.empty()) return heads;
      }
    }
    if (!empty.empty()) throw ExitError(Exit::NothingRan, "no records below " + escape_control(empty));
    if (is_version(word)) throw ExitError(Exit::Usage, no_records_of(word, folder_, releases_in(heads_in(folder_))));
    if (word.find('/') != std::string::npos || is_record_name(word)) read_record(word);  // Throws with the reason.
    if (const std::string kind = kind_of_build(CountedBuild(word).name); !kind.empty()) {
      const bool is_nightly = kind == kNightly;
      throw ExitError(
          Exit::Usage,
          fmt::format("no {} is on record: name its index in ci/matrix.toml of a clone, run `ci/suite {}`, "
                      "and compare its record or version, such as {}; docs/guide/builds.md has more",
                      kind, is_nightly ? "nightly" : "rc", is_nightly ? "2.16.0.dev20261124" : "2.16.0rc1"));
    }
    throw ExitError(Exit::Usage, "'" + escape_control(word) +
                                     "' is not a release, build, record, folder, latest, latest~1 or baseline");
  }

  // Nothing if there are none; `empty` is then a folder that has none.
  std::vector<RunHead> named_in(const std::string& folder, const std::string& word, bool is_any_build,
                                std::string& empty) const {
    const auto has_only_sent = [&](const std::string& name) { return are_sent(heads_in(folder + "/" + name)); };
    const std::string release = resolve_release(word, folders(folder), has_only_sent);
    for (const std::string& path : {word, folder + "/" + word, folder + "/" + release}) {
      std::error_code error;
      if (fs::is_directory(path, error)) {
        if (auto heads = heads_in(path); !heads.empty()) {
          require_release(path, heads);
          return of_folders_release(path, std::move(heads));
        }
        if (empty.empty()) empty = path;  // A build folder may also have that name.
      } else if (is_record_there(path)) {
        return {{path, unbroken(path)}};
      }
    }
    if (is_version(word)) {
      if (auto heads = of_release(word, is_any_build, folder); !heads.empty()) return heads;
    }
    return of_build(word, folder);  // A label or a commit may also be of digits alone.
  }

  // A folder of 2.11.0 may also have records of another build of it, which is a side of its own.
  static std::vector<RunHead> of_folders_release(const std::string& folder, std::vector<RunHead> heads) {
    const std::string name = fs::path(folder + "/").lexically_normal().parent_path().filename().string();
    const auto is_other = [&](const RunHead& head) { return !(head.environment.release == name); };
    if (!std::ranges::all_of(heads, is_other)) std::erase_if(heads, is_other);
    return heads;
  }

  static bool are_sent(const std::vector<RunHead>& heads) {
    return !heads.empty() && std::ranges::all_of(heads, [](const RunHead& head) { return was_sent(head.environment); });
  }

  static std::set<std::string> releases_in(const std::vector<RunHead>& heads) {
    std::set<std::string> releases;
    for (const RunHead& head : heads) releases.insert(head.environment.release.name());
    return releases;
  }

  // Folders need not be named after releases, for example those of nights; the records have the release.
  std::vector<RunHead> of_release(const std::string& word, bool is_any_build, const std::string& folder) const {
    auto heads = heads_in(folder);
    const std::set<std::string> releases = releases_in(heads);
    const auto is_only_sent = [&](const std::string& release) {
      return std::ranges::all_of(heads, [&](const RunHead& head) {
        return was_sent(head.environment) || !(head.environment.release == release);
      });
    };
    const std::string meant = resolve_release(word, {releases.begin(), releases.end()}, is_only_sent);
    if (!is_any_build && Release(word).is_final() && !Release(meant).is_final()) return {};
    std::erase_if(heads, [&](const RunHead& head) { return !(head.environment.release == meant); });
    return heads;
  }

  // A build is called by a word, first of all as ci/matrix.toml calls it. Of several builds the word means the newest.
  std::vector<RunHead> of_build(const std::string& word, const std::string& folder) const {
    const CountedBuild build(word);
    const std::string kind = kind_of_build(build.name);
    const auto all = heads_in(folder);
    std::vector<RunHead> heads;
    for (const auto& is_called : std::initializer_list<std::function<bool(const Environment&)>>{
             [&](const Environment& environment) { return environment.build == build.name; },
             [&](const Environment& environment) {
               return kind == kNightly ? environment.release.is_nightly()
                                       : kind == kCandidate && environment.release.is_candidate();
             },
             [&](const Environment& environment) {
               return text_at(environment.json(), "label") == build.name ||
                      contains(environment.release.labels(), build.name);
             },
             [&](const Environment& environment) {
               return is_commit(build.name, text_at(environment.json(), "libtorch_git"));
             }}) {
      std::ranges::copy_if(all, std::back_inserter(heads),
                           [&](const RunHead& head) { return is_called(head.environment); });
      if (!heads.empty()) break;
    }
    if (heads.empty()) return {};
    // On the chosen machine, if it has any.
    std::array<std::set<Release>, 4>
        found;  // The project's own on the chosen machine, those that somebody sent, others.
    for (const RunHead& head : heads) {
      const size_t place = (chosen(choice_, head.environment) ? 0 : 2) + (was_sent(head.environment) ? 1 : 0);
      found.at(place).insert(head.environment.release);
    }
    const std::set<Release>& builds = *std::ranges::find_if_not(found, &std::set<Release>::empty);
    if (build.before >= builds.size()) {
      throw ExitError(Exit::NothingRan,
                      fmt::format("there is no {}: {} on record, the oldest is {}", escape_control(word),
                                  plural(builds.size(), "such build"), escape_control(builds.begin()->name())));
    }
    const Release& meant = *std::next(builds.rbegin(), static_cast<ptrdiff_t>(build.before));
    std::erase_if(heads, [&](const RunHead& head) { return head.environment.release != meant; });
    return heads;
  }

  Environment unbroken(const std::string& path) const {
    const Environment& environment = read_.environment(path);
    if (environment.broken == Break::Nothing) return environment;
    throw ExitError(Exit::Usage, fmt::format("{} was broken on purpose ({}); a side is a run of the cases as they are",
                                             escape_control(path), to_string(environment.broken)));
  }

  static std::vector<std::string> folders(const std::string& folder) {
    std::vector<std::string> all;
    if (!fs::is_directory(folder)) return all;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_directory()) all.push_back(entry.path().filename().string());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  std::vector<RunHead> counted(const Runs& runs, const Runs& other) const {
    const auto all = heads_in(folder_);
    if (all.empty()) throw ExitError(Exit::NothingRan, "no records below " + escape_control(folder_));
    const auto fit = fitting(all, "any release", choice_);
    const Environment kind = kind_to_count(fit, other);
    std::vector<RunHead> heads;
    std::copy_if(fit.begin(), fit.end(), std::back_inserter(heads),
                 [&](const RunHead& head) { return are_alike(head.environment, kind); });
    if (runs.word == kBaseline) return {baseline(heads, other, kind, fit)};
    heads = without_copies(heads);
    const size_t before = runs_before_latest(runs.word).value_or(0);
    if (before < heads.size()) return {heads[before]};
    throw none_of(runs.word, kind, plural(heads.size(), "run"), fit);
  }

  // The environment that a counted side must match: that of the other side; the newest one if its runs differ, or if
  // both sides are counted.
  Environment kind_to_count(std::vector<RunHead> fit, const Runs& other) const {
    std::ranges::stable_partition(fit, [](const RunHead& head) { return !was_sent(head.environment); });
    if (other.counted) return newest_with(fit, choice_.libraries).environment;
    const std::vector<RunHead> counting = counting_heads_anywhere(other.heads, choice_.libraries);
    for (const RunHead& head : fit) {
      for (const RunHead& opposite : counting) {
        if (are_alike(head.environment, opposite.environment)) return opposite.environment;
      }
    }
    return counting.front().environment;
  }

  // One line that lists the runs there are, for an error about a missing run.
  static ExitError none_of(const std::string& what, const Environment& kind, const std::string& count,
                           const std::vector<RunHead>& fit) {
    const std::string line = kind.release.line();
    Tally lines, elsewhere;
    for (const RunHead& head : fit) {
      const Environment& environment = head.environment;
      const std::string other = environment.release.line();
      if (other != line && environment.machine.comparable() == kind.machine.comparable()) lines.add(other);
      if (other == line && !are_alike(environment, kind)) elsewhere.add(where(environment));
    }
    lines.sort([](const std::string& a, const std::string& b) { return NewestFirst()(Release(a), Release(b)); });
    return {Exit::NothingRan,
            fmt::format("there is no {} of {} on {}: {}{}{}", what, escape_control(line), where(kind), count,
                        lines.after("other lines there:", kMostListed), elsewhere.after(line + " also on", 1))};
  }

  static std::string where(const Environment& environment) {
    return label(environment.machine, {.driver = true, .variables = true, .overrides = true});
  }

  // The newest marked run; if none is marked, the newest complete one without missing tests.
  RunHead baseline(const std::vector<RunHead>& heads, const Runs& other, const Environment& kind,
                   const std::vector<RunHead>& fit) const {
    const std::set<std::string> marked = baselines_below(folder_);
    const std::vector<RunHead> earlier = older_than(heads, other.heads, kind);
    for (const RunHead& head : earlier) {
      if (marked.count(fs::path(head.path).lexically_relative(folder_)) != 0) return head;
    }
    for (const RunHead& head : earlier) {
      const JudgedRun& run = read_.judged(head.path);
      const bool is_missing = std::any_of(run.rows.begin(), run.rows.end(),
                                          [](const TestVerdict& row) { return row.verdict == Verdict::Missing; });
      if (run.record.is_complete() && !is_missing) return head;
    }
    throw none_of(kBaseline, kind,
                  fmt::format("none of {} is marked or complete", plural(earlier.size(), "earlier run")), fit);
  }

  MachineId shared_machine(const Runs& older, const Runs& newer) {
    const std::set<MachineId> machines = machines_of(older.heads);
    std::vector<std::pair<MachineRank, MachineId>> shared;  // Ties are broken by name.
    for (const MachineId& key : machines) {
      const auto older_heads = counting_heads(on_machine(key, older.heads), choice_.libraries),
                 newer_heads = counting_heads(on_machine(key, newer.heads), choice_.libraries);
      if (newer_heads.empty()) continue;
      // Records are read only if there is a choice between machines.
      const bool is_only = machines.size() == 1;
      const size_t tests = is_only ? 0 : comparable_tests(complete(older_heads), complete(newer_heads));
      shared.emplace_back(rank_machine(older_heads.front().environment, newer_heads.front().environment, tests,
                                       std::min(older_heads.size(), newer_heads.size()), choice_.libraries),
                          key);
    }
    if (shared.empty()) {
      throw ExitError(Exit::Usage,
                      fmt::format("not comparable: {} ran on {}, and {} on {}; GPU, driver and variables must be "
                                  "the same, or --from-gpu, --to-gpu, --from-driver and --to-driver name two",
                                  escape_control(older.word), all_machines(older), escape_control(newer.word),
                                  all_machines(newer)));
    }
    std::sort(shared.begin(), shared.end());
    MachineId machine = shared.front().second;
    for (const auto& [rank, other_machine] : shared) {
      if (may_fill_in(machine, other_machine) && !rank.was_sent) like_it_.push_back(other_machine);
    }
    for (const RunHead& head : older.heads) {
      const MachineId key = head.environment.machine.comparable();
      const auto is_it = [&](const auto& each) { return each.second == key && !each.first.was_sent; };
      if (key == machine || std::none_of(shared.begin(), shared.end(), is_it)) continue;
      if (head.environment.machine.gpu.empty()) continue;  // Host results are added in side().
      const Note note{.kind = NoteKind::MachineLeftOut, .text = describe_machine(head.environment)};
      if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(note);
    }
    return machine;
  }

  std::vector<std::string> complete(const std::vector<RunHead>& heads) {
    std::vector<const Record*> records;
    records.reserve(heads.size());
    for (const RunHead& head : heads) records.push_back(&read_.record(head.path));
    return complete_tests(records, context_.rules);
  }

  static std::string all_machines(const Runs& runs) {
    std::set<std::string> machines;
    for (const RunHead& head : runs.heads) machines.insert(describe_machine(head.environment));
    return join(machines, "; ");
  }

  // Keeps a side's runs of the machine, of one release, one CUDA runtime and one NCCL.
  void keep(Runs& runs, const MachineId& machine) {
    const std::vector<RunHead> all = on_machine(machine, runs.heads);
    std::set<std::string> releases;
    for (const RunHead& head : all) releases.insert(head.environment.release.name());
    if (releases.size() > 1) {
      throw ExitError(Exit::Usage, escape_control(fmt::format("{} holds records of {}; a side is one release",
                                                              runs.word, fmt::join(releases, ", "))));
    }
    runs.heads = counting_heads(all, choice_.libraries);
    for (const OverridableLibrary& library : kOverridableLibraries) {
      std::set<std::string> versions;
      for (const RunHead& head : all) versions.insert(version_in(head.environment, library));
      if (versions.size() < 2 || has_chosen(runs.heads, library, choice_.libraries)) continue;
      notes_.push_back({.kind = NoteKind::LibraryLeftOut,
                        .side = runs.word,
                        .library = library.name,
                        .option = library.option,
                        .version = version_in(runs.heads.front().environment, library),
                        .versions = {versions.begin(), versions.end()}});
    }
  }

  // A side is named by its release; if both have the same one, by the user's word.
  Side side(const Runs& runs, bool same_release) {
    const fs::path path = runs.word;
    const bool is_path = runs.word.find('/') != std::string::npos || is_record_name(runs.word);
    Side side{escape_control(!same_release ? release_of(runs) : is_path ? path.filename().string() : runs.word), {}};
    if (same_release) {
      notes_.push_back({.kind = NoteKind::RunOfSide,
                        .side = side.name,
                        .text = fmt::format("{}, {}", release_of(runs), runs.heads.front().path)});
    }
    for (const RunHead& head : runs.heads) side.runs.push_back(read_.judged(head.path));
    for (const RunHead& head : runs.found) {
      if (stands_in(head.environment, runs.heads.front().environment))
        side.runs.push_back(of_host_cases(read_.judged(head.path)));
    }
    return side;
  }

  MachineChoice choice_;
  std::string folder_, own_;
  const CompareContext& context_;
  std::vector<Note> notes_;
  std::vector<MachineId> like_it_;  // Other GPUs that ran both sides, with the driver and variables of the chosen one.
  JudgedRecords& read_;             // Choosing a machine reads its records.
};

// Of a run without its remedies: the environment, the cases, and the tests that left a remedy out.
Record read_without_remedies(const std::string& path) {
  const RecordText text = read_record_file(path);
  std::string lines;
  for (std::string_view part : text.parts()) {
    for (size_t end; (end = part.find('\n')) != part.npos; part.remove_prefix(end + 1)) {
      const std::string_view line = part.substr(0, end + 1);
      const bool is_of_run = line.starts_with(R"({"recapture":)") || line.starts_with(R"({"case":)");
      const bool is_of_remedy = line.find(R"(,"remedy":)") != line.npos && line.find(R"(,"confirms":)") == line.npos;
      if (is_of_run || is_of_remedy) lines += line;
    }
  }
  return read_record_text(lines, path);
}

}  // namespace

void learn_remedies(const std::string& records, CompareContext& context) {
  const std::vector<std::string> paths = records_below(records);
  std::vector<std::optional<Record>> broken(paths.size());
  std::vector<Environment> environments(paths.size());
  in_parallel(paths.size(), [&](size_t i) {
    try {
      environments[i] = environment_of(paths[i]);
      if (environments[i].broken == Break::Remedy) broken[i] = read_without_remedies(paths[i]);
    } catch (const ExitError&) {  // Reading all records reports it.
    }
  });
  for (const auto& record : broken) {
    if (record) context.learn_from(*record);
  }
  for (const Environment& environment : environments) context.rules.measured.add(environment);
}

void choose_gpu(MachineChoice& choice, const GpusOnRecord& gpus) {
  if (choice.is_gpu_name) return;
  const GpuFilter filter = gpus.named(choice.gpu);
  choice.is_gpu_name = gpus.contains(filter.word());
  choice.gpu = filter.word();
}

bool chosen(const MachineChoice& choice, const Environment& environment) {
  const MachineId& machine = environment.machine;
  if (!choice.gpu_filter().covers(machine.gpu)) return false;
  const std::string name = describe_machine(environment);
  const auto is_part = [&](const std::string& words) { return has_words(name, words); };
  if (!choice.machines.empty() && std::ranges::none_of(choice.machines, is_part)) return false;
  return choice.driver.empty() || machine.driver == choice.driver || machine.driver.starts_with(choice.driver + ".");
}

std::vector<MachineSides> sides_by_machine(std::vector<Record> records, const CompareContext& context) {
  const Rules rules = without_staleness(context.rules);
  std::vector<JudgedRun> runs(records.size());
  in_parallel(records.size(), [&](size_t i) { runs[i] = judge_run(std::move(records[i]), rules); });
  const auto sides_of_releases = [](std::vector<ReleaseRuns> releases) {
    std::vector<Side> sides;
    for (auto& [release, of_release] : releases) sides.push_back({escape_control(release), std::move(of_release)});
    return sides;
  };
  std::vector<MachineSides> all;
  for (MachineRuns& machine : runs_by_machine(std::move(runs))) {
    std::string name = label(machine.environment.machine, {.driver = true, .variables = true, .overrides = true});
    all.push_back({std::move(name), machine.environment, sides_of_releases(std::move(machine.releases)),
                   sides_of_releases(std::move(machine.other_runtimes))});
  }
  return all;
}

BothSides sides_of(const std::string& from, const std::string& to, const MachineChoice& choice,
                   const std::string& records, const CompareContext& context) {
  JudgedRecords read(context);
  return sides_of(from, to, choice, records, context, read);
}

BothSides sides_of(const std::string& from, const std::string& to, const MachineChoice& choice,
                   const std::string& records, const CompareContext& context, JudgedRecords& read,
                   const std::string& own) {
  return Finder(choice, records, own, context, read).sides(from, to);
}

}  // namespace recapture::compare

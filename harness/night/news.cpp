#include "harness/night/news.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <tuple>

#include "harness/case/events.h"
#include "harness/case/source_hash.h"
#include "harness/compare/format.h"
#include "harness/compare/sides.h"
#include "harness/judge/index.h"
#include "harness/night/gather.h"
#include "harness/record/file.h"
#include "harness/record/visible.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

constexpr size_t kNights = 7;                       // So far back a test that changes to and fro is one that does.
constexpr size_t kMostBytes = size_t{1000} * 1000;  // GitHub takes 1 MiB.
constexpr size_t kFewest = 3;                       // Results that show a change to and fro.

struct Run {
  Judged judged;
  std::string night;  // Its folder, from that of all nights.
};

struct Night {
  std::string path, name, started;
  std::vector<std::string> lacks;
};

// What stays the same where a driver or a library is updated. One that a run chose is no update.
std::string place_key(const Record& record) {
  return name_in_matrix(record.environment) + "|" + record.where("gpu") + "|" + given_variables(record.environment) +
         chosen_in_words(record.environment);
}

Night night_in(const fs::path& folder, const std::string& nights) {
  const std::string about = (folder / kNightFile).string();
  const auto json = try_parse_json(contents_of(about));
  if (!json || !json->is_object() || !json->contains("night") || !json->contains("lacks")) {
    throw Stop(Exit::Usage, visible(about) + ": not what `recapture gather` writes");
  }
  const fs::path relative = folder.lexically_relative(nights);
  Night night{folder.string(), relative.empty() || relative == "." ? "tonight" : relative.begin()->string(), "", {}};
  for (const Json& lack : json->at("lacks")) night.lacks.push_back(lack.is_string() ? lack.get<std::string>() : "");
  night.started = text_at(*json, "started");
  return night;
}

// The night that gather() was making or replacing when it left this folder; "" for any other folder.
std::string night_behind(const fs::path& folder) {
  const std::string extension = folder.extension().string();
  return extension == kPartial || extension == kBefore ? (folder.parent_path() / folder.stem()).string() : "";
}

// The newest first; and what cannot be read or is left of a night that is gone, a line each.
std::vector<Night> nights_below(const std::string& folder, std::vector<std::string>& flaws) {
  std::vector<Night> nights;
  std::map<std::string, std::string> gone;
  std::error_code error;
  const auto skip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(folder, skip, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    std::error_code about;
    if (!at->is_directory(about)) {
      if (path.filename() == kNightFile) nights.push_back(night_in(path.parent_path(), folder));
    } else if (const std::string night = night_behind(path); !night.empty()) {
      at.disable_recursion_pending();
      if (!fs::exists(fs::path(night) / kNightFile, about)) gone[night] = path.string();
    } else if (!fs::is_empty(path, about) && about) {
      flaws.push_back(fmt::format("{}: cannot read it: {}", visible(path.string()), about.message()));
    }
  }
  if (error) flaws.push_back(fmt::format("{}: cannot read all of it: {}", visible(folder), error.message()));
  for (const auto& [night, left] : gone) {
    flaws.push_back(
        fmt::format("{} is not there: `recapture gather` was ended while it made it, and {} is left; "
                    "gather it again, or remove what is left",
                    visible(night), visible(left)));
  }
  if (nights.empty()) {
    throw Stop(Exit::NothingRan, fmt::format("no gathered night below {}{}{}", visible(folder),
                                             flaws.empty() ? "" : ": ", fmt::join(flaws, "; ")));
  }
  std::sort(nights.begin(), nights.end(),
            [](const Night& a, const Night& b) { return std::tie(a.started, a.path) > std::tie(b.started, b.path); });
  return nights;
}

bool is_clear(const Row& row) {
  return row.ran && row.result != Result::Invalid && row.result != Result::Unavailable &&
         row.verdict != Verdict::Inconclusive && row.verdict != Verdict::Missing;
}

// Its repetitions gave something else.
bool is_unconfirmed(const Record& record, const Row& row) {
  return row.ran && row.verdict == Verdict::Inconclusive && row.result != Result::Invalid &&
         record.confirmations.count(row.test) != 0;
}

const Row* row_of(const Judged& run, const std::string& test) {
  const auto found = std::find_if(run.rows.begin(), run.rows.end(), [&](const Row& row) { return row.test == test; });
  return found == run.rows.end() ? nullptr : &*found;
}

// Without what differs from machine to machine and from release to release.
std::string normalised(const std::string& seen) {
  static const std::regex kPlace(R"((0x[0-9a-fA-F]+)|((?:/[\w.+-]+){2,})|(\d+\.\d+\.\d+\S*)|(\w+\.\w+:\d+))");
  constexpr size_t kEnough = 4096;  // The expression takes some of the stack for each character.
  return std::regex_replace(visible(seen).substr(0, kEnough), kPlace, "*");
}

std::string seen_in(const Judged& run, const Row& row) {
  const TestRecord* line = run.record.find(row.test);
  const std::string seen = line == nullptr ? "" : line->text(key::seen);
  return seen.empty() ? row.seen : seen;
}

// Equal for two runs of a test that showed the same.
std::string outcome_of(Result result, const TestRecord& test) {
  const std::string seen = test.text(key::seen);
  return fmt::format("{}|{}", word(result), normalised(seen.empty() ? shown(result, test) : seen));
}

std::string code_of(const Judged& run, const std::string& test) {
  const auto its = run.record.cases.find(case_of(test));
  return its == run.record.cases.end() ? "" : its->second.hash;
}

// What a test showed night by night, the newest first; of one code, and without what is unclear.
class History {
 public:
  // Without a hash of the newest code that is there.
  History(const std::vector<const Run*>& runs, const std::string& test, std::string hash = "") {
    for (const Run* run : runs) {
      const Row* row = row_of(run->judged, test);
      const std::string code = code_of(run->judged, test);
      if (row == nullptr || code.empty()) continue;
      if (hash.empty()) hash = code;
      if (code != hash) break;
      const TestRecord* line = run->judged.record.find(test);
      if (line == nullptr) continue;
      has_rate_ = has_rate_ || line->has(key::tries);
      if (is_unconfirmed(run->judged.record, *row)) {
        ++unconfirmed_;
        known_.insert(outcome_of(row->result, *line));
        for (const TestRecord& again : run->judged.record.confirmations.at(test)) {
          known_.insert(outcome_of(classify(row->kind, again), again));
        }
      } else if (is_clear(*row)) {
        shown_.push_back(outcome_of(row->result, *line));
        known_.insert(shown_.back());
        results_.insert(row->result);
      }
      if (shown_.size() + unconfirmed_ == kNights) break;
    }
  }

  bool has(const std::string& outcome) const { return known_.count(outcome) != 0; }

  // Of a race: that one run shows it and the next does not is chance.
  bool has(Result result) const {
    const bool by_chance = result == Result::Reproduced || result == Result::Unseen;
    return results_.count(result) != 0 ||
           (by_chance && results_.count(Result::Reproduced) + results_.count(Result::Unseen) != 0);
  }
  bool is_empty() const { return results_.empty(); }

  // It was one thing, another, and the first again; or a repetition on one night was another. A race's rate is no such.
  bool is_flaky() const {
    if (has_rate_) return false;
    if (unconfirmed_ > 0) return true;
    for (size_t i = 0; i + kFewest <= shown_.size(); ++i) {
      if (came_back(i)) return true;
    }
    return false;
  }

  // What it shows in the newest run it had shown before it showed something else.
  bool came_back() const { return !has_rate_ && !shown_.empty() && came_back(0); }

 private:
  bool came_back(size_t i) const {
    const auto other = std::find_if(shown_.begin() + static_cast<long>(i), shown_.end(),
                                    [&](const std::string& one) { return one != shown_[i]; });
    return std::find(other, shown_.end(), shown_[i]) != shown_.end();
  }

  std::vector<std::string> shown_;
  std::set<std::string> known_;  // These, and what repetitions showed.
  std::set<Result> results_;
  size_t unconfirmed_ = 0;
  bool has_rate_ = false;
};

class Newspaper {
 public:
  Newspaper(std::string nights, const NewsChoice& choice, const Background& background)
      : folder_(std::move(nights)), choice_(choice), background_(background) {}

  News write() {
    std::vector<Night> nights = nights_below(folder_, news_.head);
    const size_t tonight = chosen(nights);
    news_.night = nights[tonight].name;
    for (const std::string& lack : nights[tonight].lacks) news_.head.push_back(visible(lack));
    news_.is_whole = news_.head.empty();
    for (size_t i = tonight; i < nights.size(); ++i) read(nights[i]);
    if (tonight + 1 == nights.size()) {
      news_.head.emplace_back("there is no night before it to compare with");
      news_.is_whole = false;
      return std::move(news_);
    }
    news_.before = nights[tonight + 1].name;
    for (const auto& [key, runs] : by_place_) {
      if (runs.front()->night == nights[tonight].path) {
        compare_place(runs);
      } else if (runs.front()->night == nights[tonight + 1].path) {
        news_.head.push_back(fmt::format("{} ran in {} and not tonight", runs.front()->judged.record.machine(),
                                         nights[tonight + 1].name));
        news_.is_whole = false;
      }
    }
    for (auto& [fingerprint, issue] : issues_) news_.issues.push_back(std::move(issue));
    return std::move(news_);
  }

 private:
  // By its folder, or by what it is called in news and below the folder of all nights.
  size_t chosen(const std::vector<Night>& nights) const {
    if (choice_.night.empty()) return 0;
    std::error_code error;
    const std::string below = folder_ + "/" + choice_.night;
    const auto is_at = [&](const std::string& path) {
      return fs::equivalent(path, choice_.night, error) || fs::equivalent(path, below, error);
    };
    std::vector<size_t> named;
    for (size_t i = 0; i < nights.size(); ++i) {
      if (is_at(nights[i].path)) return i;
      if (nights[i].name == choice_.night || is_at(folder_ + "/" + nights[i].name)) named.push_back(i);
    }
    if (named.empty()) {
      throw Stop(Exit::Usage, fmt::format("{} is no gathered night below {}; the newest is {}", visible(choice_.night),
                                          visible(folder_), visible(nights.front().name)));
    }
    if (named.size() > 1) {
      throw Stop(Exit::Usage, fmt::format("{} has more than one gathered night; name {} or {}", visible(choice_.night),
                                          visible(nights[named[0]].path), visible(nights[named[1]].path)));
    }
    return named.front();
  }

  void read(const Night& night) {
    std::vector<Record> records;
    for (Record& record : read_records_below(night.path)) {
      if (record.broken() == Break::Nothing) records.push_back(std::move(record));
    }
    sort_by_time(records);
    std::reverse(records.begin(), records.end());
    for (Record& record : records) {
      const std::string key = place_key(record);
      runs_.push_back(std::make_unique<Run>(Run{judged_by_its_own_code(std::move(record), background_), night.path}));
      by_place_[key].push_back(runs_.back().get());
    }
    names_[night.path] = night.name;
  }

  // The runs that tonight's are compared with, the newest first.
  std::vector<const Run*> before(const std::vector<const Run*>& runs) const {
    const std::string tonight = runs.front()->night;
    std::vector<const Run*> earlier;
    for (const Run* run : runs) {
      if (run->night != tonight) earlier.push_back(run);
    }
    if (!choice_.since_good) return earlier;
    const std::set<std::string> marked = marked_good(folder_);
    const auto is_marked = [&](const Run* run) {
      return marked.count(fs::path(run->judged.record.path).lexically_relative(folder_)) != 0;
    };
    auto good = std::find_if(earlier.begin(), earlier.end(), is_marked);
    if (good == earlier.end()) {
      good = std::find_if(earlier.begin(), earlier.end(), [](const Run* run) { return run->judged.record.whole(); });
    }
    if (good == earlier.end()) return {};
    return {*good};
  }

  Side side_of(const std::vector<const Run*>& runs, bool clear_only) const {
    Side side{names_.at(runs.front()->night), {}};
    for (const Run* run : runs) {
      side.runs.push_back(run->judged);
      std::vector<Row>& rows = side.runs.back().rows;
      const auto is_unclear = [](const Row& row) { return !is_clear(row); };
      if (clear_only) rows.erase(std::remove_if(rows.begin(), rows.end(), is_unclear), rows.end());
    }
    return side;
  }

  void compare_place(const std::vector<const Run*>& runs) {
    const Record& now = runs.front()->judged.record;
    std::vector<const Run*> tonight;
    for (const Run* run : runs) {
      if (run->night == runs.front()->night) tonight.push_back(run);
    }
    const auto earlier = before(runs);
    if (earlier.empty()) {
      news_.head.push_back(
          fmt::format("{}: {}", now.machine(), choice_.since_good ? "no good run before" : "its first night"));
      news_.is_whole = false;
      return;
    }
    MachineNews news;
    news.machine = now.machine();
    const Comparison all = compare(side_of(earlier, true), side_of(tonight, false), background_);
    news.comparison = {all.from, all.to, all.machine, all.facts, {all.from + " -> " + all.to + ", " + all.machine},
                       {},       {}};
    add_moves(news, earlier.front()->judged.record, now);
    for (const CaseChange& change : all.changes) take(news, change, runs, tonight.front()->judged);
    for (const Row& row : tonight.front()->judged.rows) {
      if (!is_unconfirmed(now, row) || is_known_flaky(runs, row)) continue;
      say_flaky(news, row, tonight.front()->judged, "another run of it tonight gave another result");
    }
    std::set<std::string> changed;
    for (const CaseChange& change : news.comparison.changes) changed.insert(change.tests.begin(), change.tests.end());
    for (const ComparedTest& test : all.tests) {
      if (changed.count(test.test) != 0) news.comparison.tests.push_back(test);
    }
    for (const Row& then : earlier.front()->judged.rows) {
      const Row* row = row_of(tonight.front()->judged, then.test);
      if (row == nullptr || !is_clear(then) || is_clear(*row) || is_unconfirmed(now, *row)) continue;
      news.lost.push_back(line_of(*row));
    }
    add_uncompared(news, all, tonight, earlier);
    news_.machines.push_back(std::move(news));
  }

  // Tests with nothing to be compared with must not pass for unchanged: a line for each reason, once. What is red by
  // tonight's own verdict is named, for nobody has seen that it was so before.
  void add_uncompared(MachineNews& news, const Comparison& all, const std::vector<const Run*>& tonight,
                      const std::vector<const Run*>& earlier) {
    std::map<std::string, std::vector<std::string>> reasons;
    std::map<std::pair<std::string, Verdict>, CaseChange> red;
    for (const ComparedTest& one : all.tests) {
      if (one.consequence != Consequence::Unknown) continue;
      const Row *row = nullptr, *last = row_of(earlier.front()->judged, one.test);
      const Run* run = nullptr;
      for (size_t i = 0; i < tonight.size() && row == nullptr; ++i) {
        run = tonight[i];
        row = row_of(run->judged, one.test);
      }
      if (row == nullptr) {
        if (last != nullptr && is_clear(*last)) reasons["not part of tonight's run"].push_back(one.test);
        continue;
      }
      if (!is_clear(*row)) {  // What had a result is among the lost.
        const bool is_new = last == nullptr && tone_of(row->verdict) == Tone::Error;
        if (is_new && !is_unconfirmed(run->judged.record, *row)) news.lost.push_back(line_of(*row));
        continue;
      }
      const History before(earlier, one.test, code_of(run->judged, one.test));
      if (before.has(row->result)) continue;
      const bool is_known = std::any_of(earlier.begin(), earlier.end(), [&](const Run* other) {
        const Row* then = row_of(other->judged, one.test);
        return then != nullptr && is_clear(*then);
      });
      const std::string why = !before.is_empty() ? visible(one.sentence)
                              : is_known         ? "the code of the case has changed"
                                                 : "no clear result before";
      reasons[why].push_back(one.test);
      if (tone_of(row->verdict) != Tone::Red) continue;
      news.unexpected.push_back(line_of(*row));
      if (row->verdict == Verdict::NewlyFixed) continue;
      CaseChange& change = red[{row->case_id, row->verdict}];
      change.case_id = row->case_id;
      change.sentence = fmt::format("{}, and there is nothing to compare it with: {}", word(row->verdict), why);
      change.tests.push_back(one.test);
    }
    for (const auto& [why, tests] : reasons) news.uncompared.push_back(counted(tests) + ": " + why);
    for (const auto& [which, change] : red) add_issue(change, std::string(word(which.second)), tonight.front()->judged);
  }

  static std::string line_of(const Row& row) {
    return fmt::format("{}: {}: {}", row.test, word(row.verdict), row.seen);
  }

  // "12 tests of a, b, c and 2 more cases"
  static std::string counted(const std::vector<std::string>& tests) {
    constexpr size_t kMost = 3;
    std::set<std::string> cases;
    for (const std::string& test : tests) cases.insert(case_of(test));
    std::vector<std::string> names(cases.begin(), cases.end());
    const size_t more = names.size() > kMost ? names.size() - kMost : 0;
    names.resize(names.size() - more);
    return fmt::format("{} test{} of {}{}", tests.size(), tests.size() == 1 ? "" : "s", fmt::join(names, ", "),
                       more == 0 ? "" : fmt::format(" and {} more case{}", more, more == 1 ? "" : "s"));
  }

  // What runs below the cases, and is no release of LibTorch.
  static void add_moves(MachineNews& news, const Record& before, const Record& now) {
    constexpr std::array<std::pair<const char*, const char*>, 9> kParts = {{{"driver", "driver"},
                                                                            {"cuda_driver", "CUDA of the driver"},
                                                                            {"cuda_runtime", "CUDA runtime"},
                                                                            {"libtorch_git", "LibTorch's revision"},
                                                                            {"cudnn", "cuDNN"},
                                                                            {"nccl", "NCCL"},
                                                                            {"nvrtc", "NVRTC"},
                                                                            {"python", "Python"},
                                                                            {"system", "system"}}};
    for (const auto& [key, name] : kParts) {
      if (before.where(key) == now.where(key)) continue;
      const auto known = [](const std::string& version) { return version.empty() ? "not on record" : version; };
      news.moved = true;
      news.comparison.head.push_back(fmt::format("{} {} -> {}", name, known(before.where(key)), known(now.where(key))));
    }
    const std::string then = before.where("gpu_id"), today = now.where("gpu_id");
    if (then != today && !then.empty() && !today.empty()) {
      news.comparison.head.push_back("another GPU of this kind");  // Every night, on a cluster: no news by itself.
    }
  }

  // It was flaky before, and tonight it shows what it showed then: anything else is news of a flaky test too.
  static bool is_known_flaky(const std::vector<const Run*>& runs, const Row& row) {
    const Judged& tonight = runs.front()->judged;
    std::vector<const Run*> earlier;
    for (const Run* run : runs) {
      if (run->night != runs.front()->night) earlier.push_back(run);
    }
    const TestRecord* line = tonight.record.find(row.test);
    const History before(earlier, row.test, code_of(tonight, row.test));
    const auto is_known = [&](const TestRecord& one) { return before.has(outcome_of(classify(row.kind, one), one)); };
    if (line == nullptr || !before.is_flaky() || !is_known(*line)) return false;
    const auto again = tonight.record.confirmations.find(row.test);
    return again == tonight.record.confirmations.end() ||
           std::all_of(again->second.begin(), again->second.end(), is_known);
  }

  // A change to and fro is said to be one, once.
  void take(MachineNews& news, const CaseChange& change, const std::vector<const Run*>& runs, const Judged& tonight) {
    CaseChange plain = change;
    plain.tests.clear();
    for (const std::string& test : change.tests) {
      const Row* row = row_of(tonight, test);
      if (row != nullptr && is_known_flaky(runs, *row)) continue;
      if (row == nullptr || !History(runs, test).came_back()) {
        plain.tests.push_back(test);
      } else {
        say_flaky(news, *row, tonight, "this result, another, and this one again within a week");
      }
    }
    if (plain.tests.empty()) return;
    if (hurts(plain.consequence)) add_issue(plain, std::string(word(plain.consequence)), tonight);
    news.comparison.changes.push_back(std::move(plain));
  }

  void say_flaky(MachineNews& news, const Row& row, const Judged& tonight, const std::string& why) {
    news.flaky.push_back(fmt::format("{}: {}", row.test, why));
    CaseChange change;
    change.case_id = row.case_id;
    change.tests = {row.test};
    change.sentence = why;
    add_issue(change, "flaky", tonight);
  }

  void add_issue(const CaseChange& change, const std::string& what, const Judged& tonight) {
    std::string cause = change.case_id + "|" + what, seen;
    for (const std::string& test : change.tests) {
      const Row* row = row_of(tonight, test);
      if (row == nullptr) continue;
      cause += "|" + row->name + "|" + std::string(word(row->result));
      const std::string its = normalised(seen_in(tonight, *row));
      if (what != "flaky") cause += "|" + its;
      if (seen.find(its) == std::string::npos) seen += "    " + its + "\n";
    }
    const std::string fingerprint = hash_of(cause);
    const Record& record = tonight.record;
    const std::string where =
        fmt::format("* LibTorch {}, {}, CUDA runtime {}, night {}\n", record.where("release"),
                    record.where("gpu").empty() ? "no GPU" : record.where("gpu") + ", driver " + record.where("driver"),
                    record.where("cuda_runtime"), news_.night);
    const auto [at, is_new] = issues_.emplace(fingerprint, NewsIssue{fingerprint, "", ""});
    NewsIssue& issue = at->second;
    if (!is_new) {  // On another machine, below what was seen there.
      issue.body.insert(issue.body.find("\n\nTo see it"), "\n" + where.substr(0, where.size() - 1));
      return;
    }
    const CatalogueCase* one = background_.find(change.case_id);
    issue.title =
        fmt::format("{}: {}{}{}", change.case_id, what, one == nullptr ? "" : ": ", one == nullptr ? "" : one->title);
    std::string names;
    for (const std::string& test : change.tests) names += (names.empty() ? "" : ", ") + name_of(test);
    issue.body = fmt::format(
        "{} ({})\n\n    {}\n\nSeen:\n\n{}\nOn:\n\n{}\nTo see it: `ci/suite {} -- {}`; what is known of it: "
        "`recapture show {}`.\n",
        change.case_id, names, visible(change.sentence), seen, where, record.where("release"), change.case_id,
        change.case_id);
    for (const UpstreamChange& source : change.upstream) {
      issue.body += fmt::format("\n* {} {}", source.number, source.url);
    }
    issue.body += fmt::format("\nrecapture-fingerprint: {}\n", fingerprint);
  }

  std::string folder_;
  const NewsChoice& choice_;
  const Background& background_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::map<std::string, std::vector<const Run*>> by_place_;  // The newest first.
  std::map<std::string, std::string> names_;                 // Of nights, by path.
  std::map<std::string, NewsIssue> issues_;
  News news_;
};

std::string first_line(const News& news) {
  return fmt::format("{}{}{}", news.night, news.before.empty() ? "" : ", since ", news.before);
}

size_t quiet(const News& news) {
  return static_cast<size_t>(
      std::count_if(news.machines.begin(), news.machines.end(), [](const MachineNews& one) { return !one.is_news(); }));
}

std::array<std::pair<const char*, const std::vector<std::string>&>, 4> lists_of(const MachineNews& one) {
  return {{{"not as documented or expected, and nothing to compare with", one.unexpected},
           {"flaky now", one.flaky},
           {"not judged tonight", one.lost},
           {"nothing to compare with", one.uncompared}}};
}

// For Markdown's code, in which nothing else has a meaning.
std::string without_ticks(const std::string& line) {
  std::string text = visible(line);
  std::replace(text.begin(), text.end(), '`', '\'');
  return text;
}

std::string last_line(const News& news) {
  const size_t count = quiet(news);
  return count == 0 ? "" : fmt::format("nothing new on {} of {} machines\n", count, news.machines.size());
}

}  // namespace

News news_of(const std::string& nights, const NewsChoice& choice, const Background& background) {
  return Newspaper(nights, choice, background).write();
}

std::string as_text(const News& news) {
  std::string text = first_line(news) + "\n";
  for (const std::string& line : news.head) text += line + "\n";
  for (const MachineNews& one : news.machines) {
    if (!one.is_news()) continue;
    text += "\n" + one.machine + "\n";
    if (!one.comparison.changes.empty()) text += render_text({one.comparison, compare_policy()});
    if (one.comparison.changes.empty()) text += fmt::format("{}\n", fmt::join(one.comparison.head, "\n"));
    for (const auto& [title, lines] : lists_of(one)) {
      if (!lines.empty()) text += fmt::format("\n{}\n", title);
      for (const std::string& line : lines) text += "  " + visible(line) + "\n";
    }
  }
  return text + "\n" + last_line(news);
}

std::string as_markdown(const News& news) {
  std::string text = "# " + first_line(news) + "\n\n";
  size_t left_out = 0;
  const auto add = [&](const std::string& part) {
    const bool fits = text.size() + part.size() < kMostBytes;
    if (fits) text += part;
    if (!fits) ++left_out;
  };
  for (const std::string& line : news.head) add(fmt::format("* {}\n", escaped(line)));
  for (const MachineNews& one : news.machines) {
    if (!one.is_news()) continue;
    std::string part = "\n" + render_markdown({one.comparison, compare_policy()});
    if (one.comparison.changes.empty()) {  // Else it would say that nothing was judged.
      part = fmt::format("\n## {}\n", escaped(one.comparison.head.front()));
      for (size_t i = 1; i < one.comparison.head.size(); ++i) {
        part += fmt::format("* {}\n", escaped(one.comparison.head[i]));
      }
    }
    for (const auto& [title, lines] : lists_of(one)) {
      if (!lines.empty()) part += fmt::format("\n## {}\n\n", title);
      for (const std::string& line : lines) part += fmt::format("* `{}`\n", without_ticks(line));
    }
    add(part);
  }
  if (left_out > 0) text += fmt::format("\n{} more are left out here; `recapture news` has them all.\n", left_out);
  return text + "\n" + last_line(news);
}

Json as_json(const News& news) {
  Json machines = Json::array();
  for (const MachineNews& one : news.machines) {
    machines.push_back({{"machine", one.machine},
                        {"changed", one.comparison.head},
                        {"changes", render_json({one.comparison, compare_policy()}).at("changes")},
                        {"flaky", one.flaky},
                        {"not_judged", one.lost},
                        {"not_compared", one.uncompared},
                        {"unexpected", one.unexpected}});
  }
  return {{"night", news.night},
          {"before", news.before},
          {"whole", news.is_whole},
          {"head", news.head},
          {"machines", machines}};
}

Exit exit_for(const News& news) {
  if (!news.issues.empty()) return Exit::Changed;
  const auto any = [&](const auto& is_so) { return std::any_of(news.machines.begin(), news.machines.end(), is_so); };
  const auto is_open = [](const MachineNews& one) { return !one.lost.empty() || !one.uncompared.empty(); };
  if (!news.is_whole || news.machines.empty() || any(is_open)) return Exit::Inconclusive;
  return any([](const MachineNews& one) { return !one.comparison.changes.empty(); }) ? Exit::NewlyFixed
                                                                                     : Exit::AsExpected;
}

}  // namespace recapture

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

// What stays the same where a driver or a library is updated.
std::string place_key(const Record& record) {
  return record.where("release") + "|" + record.where("gpu") + "|" + axis_of(record.environment);
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

// The newest first.
std::vector<Night> nights_below(const std::string& folder) {
  std::vector<Night> nights;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename() == kNightFile) nights.push_back(night_in(at->path().parent_path(), folder));
  }
  if (nights.empty()) throw Stop(Exit::NothingRan, "no gathered night below " + visible(folder));
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

// What a test showed night by night, the newest first; of one code, and without what is unclear.
class History {
 public:
  History(const std::vector<const Run*>& runs, std::string test) : test_(std::move(test)) {
    std::string hash;
    for (const Run* run : runs) {
      const Row* row = row_of(run->judged, test_);
      const auto its = run->judged.record.cases.find(case_of(test_));
      if (row == nullptr || its == run->judged.record.cases.end()) continue;
      if (hash.empty()) hash = its->second.hash;
      if (its->second.hash != hash) break;
      if (run->judged.record.find(test_) != nullptr && run->judged.record.find(test_)->has(key::tries))
        has_rate_ = true;
      if (is_unconfirmed(run->judged.record, *row)) {
        unconfirmed_.push_back(run);
      } else if (is_clear(*row)) {
        shown_.push_back(std::string(word(row->result)) + "|" + normalised(seen_in(run->judged, *row)));
      }
      if (shown_.size() + unconfirmed_.size() == kNights) break;
    }
  }

  // It was one thing, another, and the first again; or a repetition on one night was another. A race's rate is no such.
  bool is_flaky() const {
    if (has_rate_) return false;
    if (!unconfirmed_.empty()) return true;
    for (size_t i = 0; i + kFewest <= shown_.size(); ++i) {
      const auto other = std::find_if(shown_.begin() + static_cast<long>(i), shown_.end(),
                                      [&](const std::string& one) { return one != shown_[i]; });
      if (std::find(other, shown_.end(), shown_[i]) != shown_.end()) return true;
    }
    return false;
  }

 private:
  std::string test_;
  std::vector<std::string> shown_;
  std::vector<const Run*> unconfirmed_;
  bool has_rate_ = false;
};

class Newspaper {
 public:
  Newspaper(std::string nights, const NewsChoice& choice, const Background& background)
      : folder_(std::move(nights)), choice_(choice), background_(background) {}

  News write() {
    std::vector<Night> nights = nights_below(folder_);
    size_t tonight = 0;
    if (!choice_.night.empty()) {
      std::error_code error;
      const auto is_it = [&](const Night& one) { return fs::equivalent(one.path, choice_.night, error); };
      const auto found = std::find_if(nights.begin(), nights.end(), is_it);
      if (found == nights.end()) {
        throw Stop(Exit::Usage,
                   fmt::format("{} is no gathered night below {}", visible(choice_.night), visible(folder_)));
      }
      tonight = static_cast<size_t>(found - nights.begin());
    }
    news_.night = nights[tonight].name;
    for (const std::string& lack : nights[tonight].lacks) news_.head.push_back("missing: " + visible(lack));
    news_.is_whole = nights[tonight].lacks.empty();
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
      }
    }
    for (auto& [fingerprint, issue] : issues_) news_.issues.push_back(std::move(issue));
    return std::move(news_);
  }

 private:
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
    news.comparison = {all.from, all.to, {all.head.front()}, {}, {}};
    add_moves(news, earlier.front()->judged.record, now);
    for (const CaseChange& change : all.changes) take(news, change, runs, tonight.front()->judged);
    for (const Row& row : tonight.front()->judged.rows) {
      if (!is_unconfirmed(now, row) || was_flaky(runs, row.test)) continue;
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
      news.lost.push_back(fmt::format("{}: {}: {}", row->test, word(row->verdict), row->seen));
    }
    news_.machines.push_back(std::move(news));
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

  bool was_flaky(const std::vector<const Run*>& runs, const std::string& test) const {
    std::vector<const Run*> earlier;
    for (const Run* run : runs) {
      if (run->night != runs.front()->night) earlier.push_back(run);
    }
    return History(earlier, test).is_flaky();
  }

  // A change to and fro is said to be one, once.
  void take(MachineNews& news, const CaseChange& change, const std::vector<const Run*>& runs, const Judged& tonight) {
    CaseChange plain = change;
    plain.tests.clear();
    for (const std::string& test : change.tests) {
      const bool was = was_flaky(runs, test);
      if (!was && !History(runs, test).is_flaky()) {
        plain.tests.push_back(test);
      } else if (const Row* row = row_of(tonight, test); !was && row != nullptr) {
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

std::array<std::pair<const char*, const std::vector<std::string>&>, 2> lists_of(const MachineNews& one) {
  return {{{"flaky now", one.flaky}, {"not judged tonight", one.lost}}};
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
    if (!one.comparison.changes.empty()) text += as_text(one.comparison);
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
  for (const std::string& line : news.head) add(fmt::format("* {}\n", line));
  for (const MachineNews& one : news.machines) {
    if (!one.is_news()) continue;
    std::string part = "\n#" + as_markdown(one.comparison);
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
                        {"changes", as_json(one.comparison).at("changes")},
                        {"flaky", one.flaky},
                        {"not_judged", one.lost}});
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
  if (!news.is_whole || news.machines.empty() || any([](const MachineNews& one) { return !one.lost.empty(); })) {
    return Exit::Inconclusive;
  }
  return any([](const MachineNews& one) { return !one.comparison.changes.empty(); }) ? Exit::NewlyFixed
                                                                                     : Exit::AsExpected;
}

}  // namespace recapture

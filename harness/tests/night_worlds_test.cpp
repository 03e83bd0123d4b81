// Each world of data/nights.tsv over twenty mornings, of which the newest fourteen nights are kept.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "harness/base/text.h"
#include "harness/tests/fake_nights.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kMornings = 20;
constexpr size_t kKept = 14;

struct Morning {
  int code = 0;
  std::string text, issues;
};
using World = std::map<int, Morning>;

std::map<std::string, World> read_worlds() {
  std::map<std::string, World> worlds;
  std::ifstream table(kRoot + "/harness/tests/data/nights.tsv");
  bool has_heading = false;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (!std::exchange(has_heading, true)) continue;
    std::vector<std::string> cells;
    std::istringstream words(line);
    for (std::string cell; std::getline(words, cell, '\t');) cells.push_back(cell);
    if (cells.size() != 5) throw std::runtime_error("a line of nights.tsv has not five cells: " + line);
    const size_t dash = cells[1].find('-');
    const int first = std::stoi(cells[1]),
              last = dash == std::string::npos ? first : std::stoi(cells[1].substr(dash + 1));
    for (int morning = first; morning <= last; ++morning) {
      worlds[cells[0]][morning] = {std::stoi(cells[2]), cells[3], cells[4] == "-" ? "" : cells[4]};
    }
  }
  return worlds;
}

std::string name_of_night(int morning) { return fmt::format("2026-01-{:02}", morning); }

class NightWorlds : public FakeNights, public ::testing::WithParamInterface<std::string> {
 protected:
  // Of one release on each morning.
  using Tasks = std::vector<FakeTask>;

  void collect(int morning, Tasks tasks) const {
    fs::remove_all(from);
    fs::create_directories(from);
    for (size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].started = fmt::format("{}T{:02}:00:00Z", name_of_night(morning), i);
      tasks[i].run = fmt::format("{}-{}", name_of_night(morning), i);
      tasks[i].write(fmt::format("{}/{}.jsonl", from, i));
    }
    gather("nights/" + name_of_night(morning));
  }
  void keep_the_newest() const {
    std::set<fs::path> nights;
    for (const auto& entry : fs::directory_iterator(folder + "/nights")) nights.insert(entry.path());
    for (; nights.size() > kKept; nights.erase(nights.begin())) fs::remove_all(*nights.begin());
  }
  void plan_with(const std::string& releases) const {
    matrix("[tier.night]\nreleases = [" + releases + "]\ngpus = { H200 = 'sm_90' }\n");
    ASSERT_EQ(recapture("nightly plan > '" + plan + "'").code, 0);
  }
  // "open: title; healed: title"
  std::string issue_words() const {
    std::vector<std::string> words;
    for (const Json& issue : parse_json(diff("--issue").out)) {
      words.push_back(
          fmt::format("{}: {}", issue.at("state").get<std::string>(), issue.at("title").get<std::string>()));
    }
    std::ranges::sort(words);
    return join(words, "; ");
  }
  static FakeTask with(const std::string& test, const std::string& what) {
    FakeTask task = with_fix();
    task.seen[test] = what;
    return task;
  }

  // Makes the night of this morning, and what a person does before it.
  void make(int morning) const {
    static const std::map<std::string, std::function<void(const NightWorlds&, int)>> kWorlds = {
        {"quiet",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {with_fix(), newest()});
         }},
        {"no-state",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {with_fix(), newest()});
         }},
        {"red-for-weeks",
         [](const NightWorlds& world, int morning) {
           const bool is_red = morning > 1 && morning < kMornings;
           world.collect(morning, {with_fix(is_red ? "it is wrong" : "D"), newest()});
         }},
        {"dead-for-weeks",
         [](const NightWorlds& world, int morning) {
           Tasks tasks = {newest()};
           if (morning == 1) tasks.push_back(with_fix());
           if (morning == kMornings) tasks.push_back(with_fix("it is wrong"));
           world.collect(morning, tasks);
         }},
        {"retried",
         [](const NightWorlds& world, int morning) {
           Tasks tasks = {newest()};
           if (morning == 2) tasks.push_back(with_fix("it is wrong"));
           tasks.push_back(with_fix());
           world.collect(morning, tasks);
         }},
        {"retried-nightly",
         [](const NightWorlds& world, int morning) {
           Tasks tasks = {newest()};
           if (morning > 1) tasks.push_back(with_fix("it is wrong"));
           tasks.push_back(with_fix());
           world.collect(morning, tasks);
         }},
        {"retried-crash",
         [](const NightWorlds& world, int morning) {
           Tasks tasks = {newest()};
           FakeTask crashed = with_fix("SIGSEGV");
           crashed.end = "";
           if (morning == 2) tasks.push_back(crashed);
           tasks.push_back(with_fix());
           world.collect(morning, tasks);
         }},
        {"two-machines",
         [](const NightWorlds& world, int morning) {
           FakeTask other = with_fix(morning > 1 ? "it is wrong" : "D");
           other.gpu = "NVIDIA H200 NVL";
           world.collect(morning, {newest(), other, with_fix()});
         }},
        {"control-fails",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {with("Control", "it is wrong"), newest()});
         }},
        {"fix-fails",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {with_fix("it is wrong"), newest()});
         }},
        {"contradictory",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {with_fix("contradictory"), newest()});
         }},
        {"not-judged",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {with("ReproducesLate", ""), newest()});
         }},
        {"accepted",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {with("ReproducesLate", ""), newest()});
           constexpr int kEntry = 8;
           if (morning != kEntry) return;
           std::ofstream(world.folder + "/ci/accepted.toml")
               << "[[accepted]]\ntest = 'c1.ReproducesLate'\nmachine = '2.6.0, NVIDIA H200'\nuntil = 2026-01-15\n"
                  "reason = 'its fixture waits for #7'\n";
         }},
        {"plan-lost-a-case",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {morning < 3 ? with_fix() : FakeTask(), newest()});
         }},
        {"night-file-lost",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {with_fix(morning == 2 ? "it is wrong" : "D"), newest()});
           if (morning == 2) fs::remove(world.folder + "/nights/2026-01-02/night.json");
         }},
        {"overdue",
         [](const NightWorlds& world, int morning) {
           world.collect(morning, {with_fix(), newest()});
           const std::string path = world.folder + "/nights/" + name_of_night(morning) + "/night.json";
           Json night = parse_json(text_of(path));
           night["collected"] = "2025-10-01T00:00:00Z";
           std::ofstream(path) << night;
         }},
        {"edited",
         [](const NightWorlds& world, int morning) {
           FakeTask task = with_fix(morning > 1 && morning < 5 ? "it is wrong" : "D");
           if (morning >= 5) task.hash = "i";
           world.collect(morning, {task, newest()});
         }},
        {"edited-and-crashes",
         [](const NightWorlds& world, int morning) {
           FakeTask task = with_fix(morning == 1 ? "D" : morning < 5 ? "it is wrong" : "SIGSEGV");
           if (morning >= 5) task.hash = "i";
           world.collect(morning, {task, newest()});
         }},
        {"unplanned",
         [](const NightWorlds& world, int morning) {
           if (morning == 5) world.plan_with("'2.15.0'");
           Tasks tasks = {newest()};
           if (morning < 5) tasks.push_back(with_fix(morning > 1 ? "it is wrong" : "D"));
           world.collect(morning, tasks);
         }},
        {"first-night-of-a-release", [](const NightWorlds& world, int morning) {
           if (morning == 1) world.plan_with("'2.6.0'");
           if (morning == 10) world.plan_with("'2.6.0', '2.15.0'");
           Tasks tasks = {with_fix()};
           FakeTask task = with("Control", "it is wrong");
           task.release = "2.15.0";
           if (morning >= 10) tasks.push_back(task);
           world.collect(morning, tasks);
         }}};
    kWorlds.at(GetParam())(*this, morning);
  }
};

TEST_P(NightWorlds, EachMorning_ReadsAsExpected) {
  const World world = read_worlds().at(GetParam());
  for (int morning = 1; morning <= kMornings; ++morning) {
    make(morning);
    keep_the_newest();
    const ShellResult said = diff(morning == 1 && GetParam() != "no-state" ? "--first" : "");
    const auto expected = world.find(morning);
    if (expected == world.end()) continue;
    SCOPED_TRACE(fmt::format("{}, morning {}:\n{}", GetParam(), morning, said.out));
    EXPECT_EQ(said.code, expected->second.code);
    EXPECT_THAT(said.out, HasSubstr(expected->second.text));
    EXPECT_EQ(issue_words(), expected->second.issues);
    EXPECT_EQ(diff().out, said.out) << "the same report again";
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(, NightWorlds, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, world] : read_worlds()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace recapture

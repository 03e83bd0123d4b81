// A night on many machines that a test makes up.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "harness/tests/fake_record.h"
#include "harness/tests/fake_tree.h"
#include "harness/tests/namespaces.h"

namespace recapture {

// A run of one task; each test "c.Name" has an observation, and documents "D".
struct FakeTask {
  std::string release = "2.6.0", gpu = "NVIDIA H200", driver = "1", host = "a", shard = "1/1", run = "r1",
              started = "2026-01-01T00:00:00Z", end = "complete", hash = "h";
  std::map<std::string, std::string> seen = {{"Reproduces", "D"}, {"ReproducesTwice", "D"}};
  std::vector<std::string> plan = {}, whole = {};  // If it differs from the observations.
  std::vector<std::string> again = {};             // Observations of repeated Reproduces tests.
  std::map<std::string, int> rates = {};           // Hits of a race, of ten tries.
  double seconds = 0;                              // Of each test.
  int jobs = 2;
  Json more = Json::object();  // Of the environment.

  std::vector<Json> lines() const {
    Json names = Json::array(), ids = Json::array();
    for (const auto& [name, what] : seen) {
      names.push_back(name);
      ids.push_back("c" + shard.substr(0, 1) + "." + name);
    }
    Json planned{{"plan", plan.empty() ? ids : Json(plan)}};
    if (!whole.empty()) planned["whole"] = whole;
    const std::string id = "c" + shard.substr(0, 1);
    std::vector<Json> all = {fake_environment({{"release", release},
                                               {"gpu", gpu},
                                               {"driver", driver},
                                               {"cuda_runtime", "12"},
                                               {"host", host},
                                               {"shard", shard},
                                               {"volatile", {{"run", run}, {"started", started}, {"jobs", jobs}}}}),
                             planned, fake_case(names, {{"case", id}, {"hash", hash}})};
    all.front().update(more);
    for (const auto& [name, what] : seen) {
      all.push_back(line_of(id, name, what));
      if (const auto hits = rates.find(name); hits != rates.end()) {
        all.back() = {
            {"test", id + "." + name}, {"ending", "exited"}, {"code", hits->second > 0 ? 0 : 1},
            {"hits", hits->second},    {"tries", 10},        {"ended", hits->second > 0 ? "passed" : "failed"}};
      }
      all.back()["volatile"] = {{"seconds", seconds}};
      if (name != "Reproduces") continue;
      for (size_t i = 0; i < again.size(); ++i) {
        all.push_back(line_of(id, name, again[i]));
        all.back()["confirms"] = i + 1;
      }
    }
    if (!end.empty()) all.push_back({{"end", end}});
    return all;
  }
  std::string text() const {
    std::string all;
    for (const Json& line : lines()) all += line.dump() + "\n";
    return all;
  }
  void write(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text();
  }

 private:
  static Json line_of(const std::string& id, const std::string& name, const std::string& what) {
    const bool good = what == "D";
    if (what.empty()) return {{"test", id + "." + name}, {"ending", "exited"}, {"code", 0}};  // No report.
    if (what.rfind("Not applicable: ", 0) == 0) {
      return {{"test", id + "." + name}, {"ending", "exited"}, {"code", 77},
              {"ended", "skipped"},      {"skipped", what},    {"inapplicable", what.substr(what.find(':') + 2)}};
    }
    if (what == "contradictory") {
      return {{"test", id + "." + name}, {"ending", "exited"}, {"code", 1}, {"ended", "passed"}};
    }
    if (what == "SIGSEGV") return {{"test", id + "." + name}, {"ending", "signal"}, {"code", 11}};
    if (name.rfind("Fix", 0) == 0 || name.rfind("Control", 0) == 0) {
      return {{"test", id + "." + name},
              {"ending", "exited"},
              {"code", good ? 0 : 1},
              {"ended", good ? "passed" : "failed"},
              {"assertions", good ? Json::array() : Json::array({"c.cpp:1: " + what})}};
    }
    return {{"test", id + "." + name},
            {"ending", "exited"},
            {"code", good ? 0 : 1},
            {"ended", good ? "passed" : "failed"},
            {"seen", what},
            {"documented", "D"},
            {"healthy", "ok"}};
  }
};

class FakeNights : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    matrix(
        "[tier.night]\ngpus = { H200 = 'sm_90' }\n[tier.pull-request]\nreleases = ['2.15.0']\ngpus = { none = 'none' "
        "}\n");
    ASSERT_EQ(recapture("nightly plan > '" + plan + "'").code, 0);
  }
  void matrix(const std::string& tiers) const {
    std::ofstream(folder + "/ci/matrix.toml") << "[[release]]\nversion = '2.6.0'\n[[release]]\nversion = '2.15.0'\n"
                                              << tiers;
  }
  ShellResult gather(const std::string& night = "night") const {
    return recapture("nightly collect '" + folder + "/" + night + "' '" + from + "' --plan '" + plan + "'");
  }
  static FakeTask newest() {
    FakeTask task;
    task.release = "2.15.0";
    return task;
  }
  // Collects a night of these records.
  int night_of(const std::string& name, std::vector<FakeTask> tasks) const {
    std::filesystem::remove_all(from);
    std::filesystem::create_directories(from);
    for (FakeTask& task : tasks) {
      task.started = name + "T00:00:00Z";
      task.run = name + task.release;
      task.write(from + "/" + task.release + ".jsonl");
    }
    return gather("nights/" + name).code;
  }
  // For both releases.
  void night(const std::string& name, const FakeTask& old, FakeTask now) const {
    now.release = "2.15.0";
    EXPECT_EQ(night_of(name, {old, now}), 0);
  }
  void night(const std::string& name, const FakeTask& old = {}) const { night(name, old, {}); }
  // As if the oldest night that is kept were the first.
  ShellResult news(const std::string& more = "") const {
    return recapture("nightly diff --first '" + folder + "/nights' " + more);
  }
  // With the state of an earlier night.
  ShellResult diff(const std::string& more = "") const {
    return recapture("nightly diff '" + folder + "/nights' " + more);
  }
  Json issues(const std::string& more = "") const { return parse_json(news("--issue " + more).out); }
  void mark_good(const std::string& name) const {
    EXPECT_EQ(recapture("baseline '" + folder + "/nights/" + name + "/2.6.0/nvidia-h200.jsonl' --records '" + folder +
                        "/nights'")
                  .code,
              0);
  }
  static FakeTask that_saw(const std::string& what) {
    FakeTask task;
    task.seen["Reproduces"] = what;
    return task;
  }
  // Its fix holds, or fails with this observation.
  static FakeTask with_fix(const std::string& what = "D") {
    FakeTask task;
    task.seen["FixIt"] = what;
    return task;
  }
  static std::string line(const std::string& text, size_t number = 0) {
    std::istringstream lines(text);
    std::string found;
    for (size_t i = 0; i <= number; ++i) std::getline(lines, found);
    return found;
  }

  const std::string plan = folder + "/plan.json", from = folder + "/from", out = folder + "/night";
};

}  // namespace recapture

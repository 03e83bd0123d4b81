// A record in which one case has just the results that a test is about.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"

namespace recapture {

inline const std::string kOk = "ok > active > ok";

// A run of one case in which every test documents "D…".
struct FakeRun {
  std::string release = "2.6.0", gpu = "G", driver = "1", runtime = "12.4", started = "2026-01-01T00:00:00Z",
              hash = "h";
  std::string effect = "raises", end = "complete", broken = "nothing", id = {}, needs = "gpu",
              runtime_by = {};  // "preload" where the runtime was chosen.
  int format = 2;
  std::vector<Json> tests = {{{"test", "c.Control"}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}}};

  FakeRun& line(Json test) {
    tests.push_back(std::move(test));
    return *this;
  }
  FakeRun& saw(const std::string& seen, const std::string& name = "Reproduces", const Json& more = Json::object()) {
    const bool as_documented = seen.rfind('D', 0) == 0;
    Json test = {{"test", "c." + name},
                 {"ending", "exited"},
                 {"code", as_documented ? 0 : 1},
                 {"ended", as_documented ? "passed" : "failed"},
                 {"seen", seen},
                 {"documented", "D*"},
                 {"healthy", kOk}};
    test.update(more);
    return line(test);
  }
  FakeRun& rate(int hits, int tries) {
    return line({{"test", "c.ReproducesAtRate"},
                 {"ending", "exited"},
                 {"code", hits > 0 ? 0 : 1},
                 {"ended", hits > 0 ? "passed" : "failed"},
                 {"hits", hits},
                 {"tries", tries}});
  }
  FakeRun& passed(const std::string& name, bool passed = true) {
    return line({{"test", "c." + name},
                 {"ending", "exited"},
                 {"code", passed ? 0 : 1},
                 {"ended", passed ? "passed" : "failed"}});
  }
  FakeRun& not_there(const std::string& name, const char* key) {
    return line({{"test", "c." + name}, {"ending", "exited"}, {"code", 77}, {"ended", "skipped"}, {key, "why not"}});
  }

  std::vector<Json> lines() const {
    Json plan = Json::array(), names = Json::array();
    for (const Json& test : tests) plan.push_back(test.at("test"));
    for (const Json& test : tests) names.push_back(name_of(test.at("test")));
    Json environment = fake_environment({{"recapture", format},
                                         {"release", release},
                                         {"gpu", gpu},
                                         {"driver", driver},
                                         {"cuda_runtime", runtime},
                                         {"break", broken},
                                         {"volatile", {{"started", started}, {"run", id}}}});
    if (!runtime_by.empty()) environment["cuda_runtime_by"] = runtime_by;
    std::vector<Json> all = {
        environment,
        {{"plan", plan}},
        fake_case(names, {{"hash", hash}, {"needs", needs}, {"effect", effect}, {"fixes", {{"FixIt", "Do it."}}}})};
    all.insert(all.end(), tests.begin(), tests.end());
    if (!end.empty()) all.push_back({{"end", end}});
    return all;
  }
  void write(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream file(path);
    for (const Json& line : lines()) file << line.dump() << "\n";
  }
  JudgedRun judged() const {
    static int number = 0;
    const std::string path = fmt::format("{}/compare-{}-{}.jsonl", ::testing::TempDir(), getpid(), ++number);
    write(path);
    JudgedRun judged = judge_without_staleness(read_record(path), {});
    std::filesystem::remove(path);
    return judged;
  }
};

}  // namespace recapture

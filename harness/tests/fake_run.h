// A record in which one case has exactly the results of a test.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
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
  std::string effect = "raises", end = "complete", broken = "nothing", id = {}, needs = "gpu";
  std::string runtime_by = {};  // "preload" if the runtime was chosen.
  std::string origin = {};      // Who sent its record.
  int format = 2;
  std::vector<Json> tests = {fake_test("c.Control")};

  FakeRun& line(Json test) {
    tests.push_back(std::move(test));
    return *this;
  }
  FakeRun& saw(const std::string& seen, const std::string& name = "Reproduces", const Json& more = Json::object()) {
    Json test = fake_failure("c." + name, seen, "D*", kOk);
    test.update(more);
    return line(test);
  }
  FakeRun& rate(int hits, int tries) {
    return passed("ReproducesAtRate", hits > 0, {{"hits", hits}, {"tries", tries}});
  }
  FakeRun& passed(const std::string& name, bool passed = true, const Json& more = Json::object()) {
    Json test = fake_test("c." + name, fake_ending(passed));
    test.update(more);
    return line(test);
  }
  FakeRun& not_there(const std::string& name, const char* key) {
    return line(fake_test("c." + name, {{"code", 77}, {"ended", "skipped"}, {key, "why not"}}));
  }

  void write(const std::string& path) const {
    FakeRecord record{fake_environment({{"recapture", format},
                                        {"release", release},
                                        {"gpu", gpu},
                                        {"driver", driver},
                                        {"cuda_runtime", runtime},
                                        {"break", broken},
                                        {"volatile", {{"started", started}, {"run", id}}}}),
                      tests,
                      {{"hash", hash}, {"needs", needs}, {"effect", effect}, {"fixes", {{"FixIt", "Do it."}}}},
                      end};
    if (!runtime_by.empty()) record.environment["cuda_runtime_by"] = runtime_by;
    if (!origin.empty()) record.environment["origin"] = origin;
    record.write(path);
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

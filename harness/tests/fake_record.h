// A record that a test makes up.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/case/pattern.h"
#include "harness/model/record.h"
#include "harness/tests/namespaces.h"

namespace recapture {

// The environment of every run; `more` adds or replaces members.
inline Json fake_environment(const Json& more) {
  Json environment = {{"recapture", 2},     {"release", "2.15.0"},       {"gpu", "G"},
                      {"driver", "1"},      {"cuda_runtime", "12.4"},    {"packed", false},
                      {"break", "nothing"}, {"volatile", Json::object()}};
  environment.update(more);
  return environment;
}

// The case of these tests.
inline Json fake_case(const Json& tests, const Json& more = Json::object()) {
  Json one = {{"case", "c"},        {"family", "f"},          {"hash", "h"},
              {"title", "A title"}, {"documented", "D"},      {"needs", "gpu"},
              {"nature", "defect"}, {"fidelity", "verbatim"}, {"sources", Json::array()},
              {"deadline_s", 60},   {"effect", "raises"},     {"fixes", Json::object()},
              {"tests", tests}};
  one.update(more);
  return one;
}

// The ending of a test's process that passed or failed.
inline Json fake_ending(bool passed) {
  return {{"ending", "exited"}, {"code", passed ? 0 : 1}, {"ended", passed ? "passed" : "failed"}};
}

// The line of a test that passed; `more` adds or replaces members.
inline Json fake_test(const std::string& test, const Json& more = Json::object()) {
  Json line = {{"test", test}};
  line.update(fake_ending(true));
  line.update(more);
  return line;
}

// The line of a test with this observation; it passed if that is documented.
inline Json fake_failure(const std::string& test, const std::string& seen, const std::string& documented = "D",
                         const std::string& healthy = "ok") {
  Json line = fake_test(test, {{"seen", seen}, {"documented", documented}, {"healthy", healthy}});
  line.update(fake_ending(matches(documented, seen)));
  return line;
}

// A test's line, to be changed: edit_line(test)["code"] = 1.
struct EditedLine {
  TestRecord& test;
  Json line = test.json();

  ~EditedLine() { test = TestRecord(line); }
  Json& operator*() { return line; }
  Json* operator->() { return &line; }
  Json& operator[](const char* key) { return line[key]; }
};
inline EditedLine edit_line(TestRecord& test) { return {test}; }

// A complete record of one case.
struct FakeRecord {
  Json environment = fake_environment(Json::object());
  std::vector<Json> tests = {};      // Their lines; confirmations of others are not planned.
  Json about_case = Json::object();  // Adds to fake_case() or replaces its members.
  std::string end = "complete";      // "": cut short.

  std::vector<Json> lines() const {
    Json plan = Json::array(), names = Json::array();
    for (const Json& test : tests) {
      if (test.contains("confirms")) continue;
      plan.push_back(test.at("test"));
      names.push_back(name_of(test.at("test")));
    }
    std::vector<Json> all = {environment, {{"plan", plan}}, fake_case(names, about_case)};
    all.insert(all.end(), tests.begin(), tests.end());
    if (!end.empty()) all.push_back({{"end", end}});
    return all;
  }

  void write(const std::string& path) const {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream file(path);
    for (const Json& line : lines()) file << line.dump() << "\n";
  }
};

}  // namespace recapture

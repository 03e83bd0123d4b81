// A tree and a build folder for a test of the program: the real program with a fake canary, and fakes as its only
// cases.
#pragma once
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/verdict/judge.h"

namespace recapture {

class FakeTree : public ::testing::Test {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    fs::create_directories(folder + "/ci");
    fs::create_directories(cases);
    std::ofstream(folder + "/ci/matrix.toml") << "[[release]]\nversion = '2.6.0'\n[[release]]\nversion = '2.15.0'\n";
    fs::copy(RECAPTURE_BUILD "/recapture", folder + "/build/recapture");
    fs::copy(RECAPTURE_BUILD "/harness/tests/fake_canary", folder + "/build/canary");
    std::ofstream(folder + "/build/canary.txt") << R"({"gpus":0,"canary":"none","reason":"no driver"})" << '\n';
    add_case("twofold");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void add_case(const std::string& name) const {
    std::filesystem::copy(RECAPTURE_BUILD "/harness/tests/twofold", cases + "/" + name);
  }
  std::string command(const std::string& arguments) const { return "'" + folder + "/build/recapture' " + arguments; }
  ShellResult recapture(const std::string& arguments) const { return shell(command(arguments)); }
  std::string record() const { return folder + "/r.jsonl"; }

  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // For each test its verdict, and the number of confirmations.
  static std::vector<std::string> verdicts(const std::string& path) {
    const Record record = read_record(path);
    std::vector<std::string> all{record.end};
    for (const TestVerdict& row : judge_record(record, {})) {
      const auto again = record.confirmations.find(row.test);
      const size_t times = again == record.confirmations.end() ? 0 : again->second.size();
      all.push_back(row.test + ": " + std::string(to_string(row.result)) + ", " + std::string(to_string(row.verdict)) +
                    ", " + std::to_string(times));
    }
    return all;
  }

  const std::string folder = ::testing::TempDir() + "recapture-tree-" + std::to_string(getpid());
  const std::string cases = folder + "/build/2.15.0/cases/doubtful";
};

}  // namespace recapture

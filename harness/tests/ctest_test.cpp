// The cases in CTest: labels, skips, tests that run alone, and limits for tests on a GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "harness/model/catalogue.h"
#include "harness/model/operator_cases.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"

namespace recapture {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A project that registers the catalogue's tests as a build of all cases does, with a fake program.
class CTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder);
    const std::string program = folder + "/program";
    // "dev test case.Test --release R": skips tests of items, fails others.
    std::ofstream(program) << "#!/bin/sh\necho \"$@\"\ncase \"$3\" in item_*) exit 77 ;; nonzero_*) exit 1 ;; esac\n";
    chmod(program.c_str(), 0755);
    std::ofstream project(folder + "/CMakeLists.txt");
    project << "cmake_minimum_required(VERSION 3.25)\nproject(cases NONE)\nenable_testing()\n"
            << "set(LIBTORCH_RELEASE 2.15.0)\nset(RECAPTURE_PROGRAM " << program << ")\n";
    for (const CatalogueCase& one : catalogue) {
      if (one.id != "print_in_capture") project << "set(is_built_" << one.id << " TRUE)\n";
    }
    project << "include(" RECAPTURE_ROOT "/cases/ctest.cmake)\n";
    project.close();
    const ShellResult made = shell("cmake -G Ninja -S '" + folder + "' -B '" + folder + "/build' 2>&1");
    ASSERT_EQ(made.code, 0) << made.out;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  const std::string folder = ::testing::TempDir() + "recapture-ctest-" + std::to_string(getpid());
  const Catalogue catalogue = read_catalogue(RECAPTURE_ROOT);
};

TEST_F(CTest, EachTestOfTheCatalogue_HasItsProperties) {
  const ShellResult listed = shell("ctest --test-dir '" + folder + "/build' --show-only=json-v1");
  ASSERT_EQ(listed.code, 0);
  const Json json = Json::parse(listed.out.substr(listed.out.find('{')));
  std::map<std::string, Json> tests;
  for (const Json& test : json.at("tests")) {
    Json& properties = tests[test.at("name")];
    for (const Json& property : test.at("properties"))
      properties[property.at("name").get<std::string>()] = property.at("value");
  }
  size_t count = 0;
  std::set<std::string> locks;
  for (const CatalogueCase& one : catalogue) {
    const auto needs = [&](const char* what) {
      return (" " + one.needs.words() + " ").find(fmt::format(" {} ", what)) != std::string::npos;
    };
    for (const CatalogueTest& test : one.tests) {
      const auto found = tests.find(one.id + "." + test.name);
      if (one.id == "print_in_capture" || lists_operators(one.id)) {
        EXPECT_EQ(found, tests.end()) << "not built, or not of CTest's";
        continue;
      }
      ASSERT_NE(found, tests.end()) << one.id << "." << test.name;
      ++count;
      const Json& its = found->second;
      std::set<std::string> labels = {one.family, std::string(to_string(one.nature))};
      std::istringstream words(one.needs.words());
      for (std::string word; words >> word;) labels.insert(word);
      if (needs("ranks")) labels.insert("gpu");
      EXPECT_EQ(its.at("LABELS").get<std::set<std::string>>(), labels) << found->first;
      EXPECT_EQ(its.at("SKIP_RETURN_CODE"), 77) << found->first;
      EXPECT_GT(its.at("TIMEOUT").get<double>(), 3.0 * one.deadline_s) << found->first << " is repeated twice";
      const bool is_race = one.nature == Nature::Race, has_gpu = labels.count("gpu") != 0;
      EXPECT_EQ(its.contains("RUN_SERIAL") && its.at("RUN_SERIAL") == true, is_race) << found->first;
      ASSERT_EQ(its.contains("RESOURCE_LOCK"), has_gpu && !is_race) << found->first;
      if (has_gpu && !is_race) {
        EXPECT_EQ(its.at("PROCESSORS"), 2) << found->first;
        locks.insert(its.at("RESOURCE_LOCK").at(0).get<std::string>());
      }
      std::set<std::string> fetched;
      for (const char* what : {"nemo", "transformer_engine"}) {
        if (needs(what)) fetched.insert(what);
      }
      EXPECT_EQ(its.value("FIXTURES_REQUIRED", Json::array()).get<std::set<std::string>>(), fetched) << found->first;
    }
  }
  EXPECT_THAT(locks, SizeIs(8)) << "that many run on the GPU in parallel";
  EXPECT_EQ(tests.size(), count + 2) << "and the two that fetch";
  EXPECT_THAT(tests.at("fetch_nemo").at("FIXTURES_SETUP"), Contains("nemo"));
}

TEST_F(CTest, ExitStatus_IsPassSkipOrFail) {
  const ShellResult said =
      shell("ctest --test-dir '" + folder +
            "/build' --parallel 4 -R '^(item_in_capture|nonzero_in_capture|unique_in_capture)[.]' 2>&1");
  EXPECT_NE(said.code, 0);
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("item_in_capture.Control (Skipped)"), HasSubstr("nonzero_in_capture.Control (Failed)")));
  EXPECT_THAT(said.out, ::testing::Not(HasSubstr("unique_in_capture.Control (")));
}

}  // namespace
}  // namespace recapture

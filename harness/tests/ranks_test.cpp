// Tests with ranks in the program: one test, one line, and no process or file left, however the ranks end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/verdict/judge.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The real program with one case with ranks, and a machine with two GPUs.
class RanksOfATest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder + "/ci");
    fs::create_directories(folder + "/build/2.15.0/cases/ranks");
    std::ofstream(folder + "/ci/matrix.toml") << "[[release]]\nversion = '2.15.0'\n";
    fs::copy(RECAPTURE_BUILD "/recapture", folder + "/build/recapture");
    fs::copy(RECAPTURE_BUILD "/harness/tests/fake_canary", folder + "/build/canary");
    for (const char* name : {"ranked", "one_gpu", "all_gpus"}) {
      fs::copy(RECAPTURE_BUILD "/harness/tests/ranked", folder + "/build/2.15.0/cases/ranks/" + name);
    }
    std::ofstream(folder + "/build/canary.txt") << R"({"gpus":2,"gpu":"G","driver":"1","canary":"ok"})" << '\n';
  }
  void TearDown() override { fs::remove_all(folder); }

  ShellResult run(const std::string& arguments) {
    fs::remove(folder + "/r.jsonl");
    return shell("'" + folder + "/build/recapture' run --record " + folder + "/r.jsonl " + arguments);
  }
  Json line_of(const std::string& test, const std::string& more = "") {
    run("ranked." + test + " " + more);
    const Record record = read_record(folder + "/r.jsonl");
    row = judge_record(record, {}).at(0);
    EXPECT_EQ(record.tests.size(), 1U);
    return record.tests.at(0).json();
  }
  static bool is_gone(const std::string& pid) {
    std::ifstream stat("/proc/" + pid + "/stat");
    std::string id, name, state = "gone";
    stat >> id >> name >> state;
    return kill(std::stoi(pid), 0) != 0 || state == "Z" || state == "gone";
  }

  const std::string folder = ::testing::TempDir() + "recapture-ranks-test-" + std::to_string(getpid());
  TestVerdict row;
};

TEST_F(RanksOfATest, EachRank_HasItsObservationsVariablesAndFolder) {
  for (const char* how : {"", "--exec"}) {
    for (const char* test : {"ControlAllSeeTheSame", "ControlEachSeesItsOwn", "ControlTheyMeetInTheirFolder",
                             "ControlVariablesOfRanks", "ControlMulticastIsOff", "ControlMulticastThatIsOnIsSeen"}) {
      const Json line = line_of(test, how);
      EXPECT_EQ(row.result, Result::Holds) << test << " " << how << " " << line;
    }
  }
}

TEST_F(RanksOfATest, DeathOfOneRank_EndsTheOthers) {
  for (const char* how : {"", "--exec"}) {
    for (const char* test : {"ControlOneAborts", "ControlOneCrashes", "ControlOneIsKilled", "ControlOneExits",
                             "ControlOneExitsAsIfAllWereWell"}) {
      const Json line = line_of(test, how);
      EXPECT_EQ(row.result, Result::Holds) << test << " " << how << " " << line;
      EXPECT_EQ(line.at("facts").at("died_first"), "1");
      for (const char* pid : {"rank0.pid", "rank1.pid"}) EXPECT_TRUE(is_gone(line.at("facts").at(pid))) << test;
    }
  }
}

TEST_F(RanksOfATest, RankThatDoesNotReturn_IsNamedAndKilled) {
  for (const char* test : {"ControlOneStops", "ControlNoneComesBack"}) {
    const Json line = line_of(test);
    EXPECT_EQ(row.result, Result::Holds) << test << line;
    for (const char* pid : {"rank0.pid", "rank1.pid"}) EXPECT_TRUE(is_gone(line.at("facts").at(pid))) << test;
  }
}

TEST_F(RanksOfATest, DeadlineOfTheTest_KillsTheRanks) {
  for (const char* how : {"", "--exec"}) {
    const Json line = line_of("ControlHangsBeyondItsDeadline", how);
    EXPECT_EQ(row.result, Result::Hung) << how;
    for (const char* pid : {"rank0.pid", "rank1.pid"}) EXPECT_TRUE(is_gone(line.at("facts").at(pid))) << how;
  }
}

TEST_F(RanksOfATest, FinishedRanks_LeaveNoChildAndNoFile) {
  const Json line = line_of("ControlAChildOfARankGoesWithIt");
  EXPECT_EQ(row.result, Result::Holds) << line;
  EXPECT_TRUE(is_gone(line.at("facts").at("rank0.child")));
  // By hand, where no runner removes a test's remains.
  const std::string own = folder + "/tmp";
  fs::create_directories(own);
  EXPECT_EQ(shell("TMPDIR=" + own + " '" + folder + "/build/2.15.0/cases/ranks/ranked' " +
                  "--gtest_filter=*.ControlTheyMeetInTheirFolder:*.ControlOneAborts")
                .code,
            0);
  EXPECT_TRUE(fs::is_empty(own));
}

TEST_F(RanksOfATest, EventsAndCulprit_CarryTheRank) {
  const Json line = line_of("ReproducesInBothOfThem");
  EXPECT_EQ(row.result, Result::Reproduced) << line;
  EXPECT_EQ(line.at("culprit").at("rank"), 1);
  EXPECT_EQ(line.at("culprit").at("api"), "cuEventQuery");
  EXPECT_EQ(line.at("facts").at("rank0.exception"), "Type0");
  EXPECT_EQ(line.at("facts").at("rank1.exception"), "Type1");
  EXPECT_THAT(line.at("exception").get<std::string>(), HasSubstr("Type"));
  EXPECT_THAT(to_string(row.observed), HasSubstr("by cuEventQuery on the other thread of rank 1"));
}

TEST_F(RanksOfATest, FailureInARank_FailsTheTest) {
  EXPECT_THAT(line_of("FixFailsInARank").at("assertions").dump(), HasSubstr("rank 1: "));
  EXPECT_EQ(row.result, Result::Broken);
  EXPECT_THAT(line_of("FixThrows").at("assertions").dump(), HasSubstr("exception: thrown"));
  EXPECT_EQ(row.result, Result::Broken);
}

TEST_F(RanksOfATest, BreakOption_AppliesInTheRanks) {
  EXPECT_EQ(line_of("ReproducesInBothOfThem", "--break trigger").at("seen"), "healthy");
  EXPECT_EQ(line_of("ReproducesInBothOfThem", "--break value").at("documented"), "a value that nothing shows");
  EXPECT_EQ(line_of("FixByItsRemedyInARank", "--break remedy").at("remedy"), "left out");
  EXPECT_EQ(row.result, Result::Broken);
  EXPECT_EQ(line_of("FixByItsRemedyInARank").value("remedy", "not said"), "not said");
  EXPECT_EQ(row.result, Result::Holds);
}

TEST_F(RanksOfATest, CaseForAllGpus_SeesAllGpusOfTheRun) {
  const auto escape_control = [&](const std::string& name) {
    run("--gpu 0,1 --jobs 1 " + name + ".ControlSeesGpus");
    return read_record(folder + "/r.jsonl").tests.at(0).object("facts").text("visible");
  };
  EXPECT_THAT((std::vector{escape_control("one_gpu"), escape_control("all_gpus")}), ElementsAre("0", "0,1"));
}

TEST_F(RanksOfATest, NightOnEightGpus_GivesEachWorkerOneCasesWithRanksAllAndRacesTheFirst) {
  std::ofstream(folder + "/build/canary.txt") << R"({"gpus":8,"gpu":"G","driver":"1","canary":"ok"})" << '\n';
  std::vector<std::string> names = {"race_1", "race_2"};
  for (int i = 0; i < 8; ++i) names.push_back("one_gpu_" + std::to_string(i));
  for (const std::string& name : names) {
    fs::copy(RECAPTURE_BUILD "/harness/tests/ranked", folder + "/build/2.15.0/cases/ranks/" + name);
  }
  const auto seen = [&](const std::string& tests) {
    run("--gpu 0,1,2,3,4,5,6,7 --jobs 8 " + tests);
    std::multiset<std::string> visible;
    for (const TestRecord& test : read_record(folder + "/r.jsonl").tests) {
      visible.insert(test.object("facts").text("visible"));
    }
    return visible;
  };
  EXPECT_THAT(seen("'one_gpu_*.ControlSeesGpus'"), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7"));
  EXPECT_THAT(seen("all_gpus.ControlSeesGpus"), ElementsAre("0,1,2,3,4,5,6,7"));
  EXPECT_THAT(seen("'race_*.ControlSeesGpus'"), ElementsAre("0", "0"));
  EXPECT_THAT(seen("race_1.ControlSeesGpus 'one_gpu_*.ControlSeesGpus'"),
              ElementsAre("0", "0", "1", "2", "3", "4", "5", "6", "7"));
  EXPECT_EQ(read_record(folder + "/r.jsonl").tests.back().id(), "race_1.ControlSeesGpus") << "alone, after all others";
}

}  // namespace
}  // namespace recapture

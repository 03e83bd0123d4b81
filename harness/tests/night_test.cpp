// A night on many machines: its plan, its collected records, what is new, and the scripts that start other machines.
#include "harness/report/night.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/base/file.h"
#include "harness/model/record_files.h"
#include "harness/model/release.h"
#include "harness/nightly/collect.h"
#include "harness/nightly/nights.h"
#include "harness/nightly/plan.h"
#include "harness/tests/fake_nights.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class Nights : public FakeNights {};

TEST_F(Nights, Plan_HasEveryReleaseOnEveryGpuAndShard) {
  matrix("[tier.night]\ngpus = { H200 = 'sm_90', 'A100 80GB' = 'sm_80' }\nshards = 2\n");
  const ShellResult said = recapture("nightly plan");
  ASSERT_EQ(said.code, 0) << said.out;
  const Json all = parse_json(said.out);
  ASSERT_THAT(all, SizeIs(8));
  EXPECT_EQ(all[1].at("record"), "2.6.0-a100-80gb-2of2.jsonl");
  EXPECT_EQ(all[1].at("label"), "a100-80gb");
  EXPECT_EQ(all[1].at("command"), Json({"build/recapture", "run", "--continue", "--release", "2.6.0", "--shard", "2/2",
                                        "--require", "gpu", "--record", "2.6.0-a100-80gb-2of2.jsonl"}));
}

TEST_F(Nights, BadMatrixOrPlan_GetsOneLineAndItsExitCode) {
  FakeTask().write(from + "/a.jsonl");
  for (const auto& [tiers, words] : std::vector<std::pair<std::string, std::string>>{
           {"[tier.other]\n", "there is no tier 'night'"},
           {"[tier.night]\nreleases = ['2.16.0']\ngpus = { H200 = 'sm_90' }\n", "there is no release '2.16.0'"},
           {"[tier.night]\ngpus = {}\n", "'gpus' names none"},
           {"[tier.night]\ngpus = { 'a;b' = 'x' }\n", "not part of a GPU's name"},
           {"[tier.night]\ngpus = { H200 = 'sm_90' }\nshards = 0\n", "'shards' is a number"},
           {"[tier.night]\ngpus = { h200 = 'sm_90', H200 = 'sm_90' }\n", "is in it twice"},
           {"[tier.night]\ngpu = { H200 = 'sm_90' }\n", "unknown key 'gpu'"}}) {
    matrix(tiers);
    const ShellResult said = recapture("nightly plan");
    EXPECT_EQ(said.code, 2) << tiers;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
  }
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "it is not JSON"},
           {"[]", "it is not a list of tasks"},
           {"{}", "it is not a list of tasks"},
           {"[1]", "it is not an object"},
           {R"([{"release":"../x","gpu":"H200","shard":"1/1"}])", "names no release"},
           {R"([{"release":"2.6.0","gpu":"","shard":"1/1"}])", "not part of a GPU's name"},
           {R"([{"release":"2.6.0","gpu":"H200","shard":"2/1"}])", "its shard is '2/1'"}}) {
    std::ofstream(plan) << text;
    const ShellResult said = gather();
    EXPECT_EQ(said.code, 2) << text;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
    EXPECT_FALSE(fs::exists(out));
  }
  for (const char* words : {"nightly collect x y --plan /nowhere", "nightly diff /nowhere",
                            "nightly diff --json --issue .", "nightly", "nightly nothing"}) {
    EXPECT_NE(recapture(words).code, 0) << words;
  }
}

TEST_F(Nights, CompleteRecords_AreCollectedForShowAndCompare) {
  FakeTask().write(from + "/machine-1/x.jsonl");
  newest().write(from + "/machine-2/x.jsonl");
  std::ofstream(from + "/machine-2/x.xml") << "<testsuites/>";
  const ShellResult said = gather();
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("2 of 2 tasks are complete"));
  EXPECT_EQ(text_of(out + "/2.6.0/nvidia-h200.jsonl"), FakeTask().text());
  EXPECT_EQ(text_of(out + "/2.15.0/nvidia-h200.jsonl"), newest().text());
  EXPECT_EQ(recapture("show '" + out + "'").code, 0);
  EXPECT_EQ(recapture("compare 2.6.0 2.15.0 --records '" + out + "'").code, 0);
  EXPECT_EQ(gather().code, 0) << "in the place of what was gathered before";
  EXPECT_FALSE(fs::exists(out + ".partial"));
  fs::remove(out + "/night.json");
  const ShellResult taken = gather();
  EXPECT_EQ(taken.code, 2);
  EXPECT_THAT(taken.out, HasSubstr("exists, and is not a collected night"));
}

TEST_F(Nights, ArchiveOfRecords_IsCollectedAsItsFilesAre) {
  fs::create_directories(from + "/2.6.0");
  write_file(from + "/2.6.0/records.tar.xz", packed_records({{"g.jsonl", FakeTask().text()}}));
  newest().write(from + "/2.15.0/g.jsonl");
  const ShellResult said = gather();
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("2 of 2 tasks are complete"));
  EXPECT_EQ(text_of(out + "/2.6.0/nvidia-h200.jsonl"), FakeTask().text());
  std::ofstream(from + "/2.6.0/records.tar.xz") << "damaged";
  const ShellResult damaged = gather();
  EXPECT_EQ(damaged.code, 6);
  EXPECT_THAT(damaged.out, AllOf(HasSubstr("records.tar.xz: "), HasSubstr("1 of 2 tasks are complete")));
}

TEST_F(Nights, TaskWithoutARecord_IsNamedAsMissing) {
  newest().write(from + "/a.jsonl");
  FakeTask other;
  other.gpu = "NVIDIA A100";
  other.write(from + "/other.jsonl");
  const ShellResult said = gather();
  EXPECT_EQ(said.code, 6);
  EXPECT_THAT(said.out, AllOf(HasSubstr("2.6.0-h200-1of1 is missing"), HasSubstr("1 of 2 tasks are complete"),
                              HasSubstr("other.jsonl is of no task of the plan: 2.6.0, NVIDIA A100, shard 1/1")));
  EXPECT_FALSE(fs::exists(out + "/2.6.0"));
  fs::remove_all(from);
  const std::string before = text_of(out + "/night.json");
  const ShellResult nowhere = gather();
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_TRUE(nowhere.is_one_line()) << nowhere.out;
  EXPECT_THAT(nowhere.out, HasSubstr("from is not a folder; a job whose machines may leave no record at all makes it"));
  EXPECT_EQ(text_of(out + "/night.json"), before) << "a slip of the pen replaces nothing";
  fs::create_directories(from);
  EXPECT_EQ(gather().code, 6);
  EXPECT_NE(text_of(out + "/night.json"), before) << "a night of which nothing is left is one";
}

TEST_F(Nights, RunWithAChosenRuntime_IsOfNoTask) {
  newest().write(from + "/a.jsonl");
  FakeTask chosen;
  chosen.more = {{"cuda_runtime_by", "preload"}};
  chosen.write(from + "/b.jsonl");
  const ShellResult said = gather();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("2.6.0-h200-1of1 is missing"),
                              HasSubstr("b.jsonl is of no task of the plan: 2.6.0, NVIDIA H200, CUDA runtime 12")));
}

TEST_F(Nights, CompleteShardsThatLackATest_AreAnIncompleteRun) {
  matrix("[tier.night]\nreleases = ['2.6.0']\ngpus = { H200 = 'sm_90' }\nshards = 2\n");
  ASSERT_EQ(recapture("nightly plan > '" + plan + "'").code, 0);
  FakeTask one, two;
  one.whole = {"c1.Reproduces", "c1.ReproducesTwice", "c1.Late", "c2.Reproduces", "c2.ReproducesTwice"};
  one.plan = {"c1.Reproduces", "c1.ReproducesTwice", "c1.Late"};
  one.shard = "1/2";
  two.whole = one.whole;
  two.shard = "2/2";
  two.run = "r2";
  const auto merged = [&] {
    one.write(from + "/1.jsonl");
    two.write(from + "/2.jsonl");
    fs::remove(record());
    return recapture("dev merge " + record() + " " + from + "/1.jsonl " + from + "/2.jsonl");
  };
  const ShellResult lost = merged();
  EXPECT_EQ(lost.code, 6) << lost.out;
  EXPECT_THAT(lost.out, HasSubstr("shard 1/2 is called complete, and c1.Late has not run"));
  EXPECT_EQ(recapture("show " + record()).code, 6);
  one.plan.clear();
  const ShellResult unplanned = merged();
  EXPECT_EQ(unplanned.code, 6) << unplanned.out;
  EXPECT_THAT(unplanned.out, HasSubstr("c1.Late is in no shard's plan"));
  const ShellResult night = gather();
  EXPECT_EQ(night.code, 6) << night.out;
  EXPECT_THAT(night.out, HasSubstr("2.6.0-h200-1of2: c1.Late is in no shard's plan"));
}

TEST_F(Nights, CutRun_IsKeptAndNamed) {
  newest().write(from + "/a.jsonl");
  for (const std::string end : {"", "interrupted"}) {
    FakeTask cut;
    cut.end = end;
    cut.plan = {"c1.Reproduces", "c1.ReproducesTwice", "c1.Late"};
    cut.write(from + "/cut.jsonl");
    const ShellResult said = gather();
    EXPECT_EQ(said.code, 6);
    EXPECT_THAT(said.out, AllOf(HasSubstr("2.6.0-h200-1of1 is incomplete: "), HasSubstr("cut.jsonl: "),
                                HasSubstr("and 1 of 3 tests have not run")));
    EXPECT_EQ(text_of(out + "/2.6.0/nvidia-h200.jsonl"), cut.text());
    EXPECT_EQ(recapture("show '" + out + "'").code, 6);
  }
  std::string half = FakeTask().text();
  half.resize(half.size() - 30);  // In its last line.
  std::ofstream(from + "/cut.jsonl") << half;
  EXPECT_EQ(gather().code, 6);
  FakeTask false_end;
  false_end.plan = {"c1.Reproduces", "c1.ReproducesTwice", "c1.Late"};
  false_end.write(from + "/cut.jsonl");
  EXPECT_THAT(gather().out, HasSubstr("it is called complete, and 1 of 3 tests have not run"));
}

TEST_F(Nights, CopiesOfARun_CountOnceUnlessTheyDiffer) {
  newest().write(from + "/a.jsonl");
  FakeTask().write(from + "/b.jsonl");
  FakeTask().write(from + "/copy/b.jsonl");
  std::string half = FakeTask().text();
  std::ofstream(from + "/half.jsonl") << half.substr(0, half.size() - 30);
  const ShellResult said = gather();
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("copy/b.jsonl is a copy of"), HasSubstr("half.jsonl is a shorter copy of")));
  EXPECT_FALSE(fs::exists(out + "/2.6.0/nvidia-h200.run-2.jsonl"));
  FakeTask other = that_saw("E");  // With the same run's id.
  other.write(from + "/other.jsonl");
  const ShellResult contradiction = gather();
  EXPECT_EQ(contradiction.code, 6);
  EXPECT_THAT(contradiction.out, HasSubstr("are of one run, and say different things"));
}

TEST_F(Nights, SeveralRunsOfATask_AllCountAndTheNewestCompleteOneIsItsRecord) {
  newest().write(from + "/a.jsonl");
  FakeTask first, second = that_saw("E"), cut = that_saw("F");
  second.run = "r2";
  second.started = "2026-01-01T01:00:00Z";
  cut.run = "r3";
  cut.started = "2026-01-01T02:00:00Z";
  cut.end = "";
  first.write(from + "/1.jsonl");
  second.write(from + "/2.jsonl");
  cut.write(from + "/3.jsonl");
  const ShellResult said = gather();
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_EQ(text_of(out + "/2.6.0/nvidia-h200.jsonl"), second.text());
  EXPECT_THAT(said.out, AllOf(HasSubstr("2.jsonl is its record, and " + from + "/1.jsonl counts as well"),
                              HasSubstr("/3.jsonl counts as well: it did not come to its end")));
  EXPECT_EQ(text_of(out + "/2.6.0/nvidia-h200.run-2.jsonl"), first.text());
  EXPECT_EQ(text_of(out + "/2.6.0/nvidia-h200.run-3.jsonl"), cut.text());
}

TEST_F(Nights, UnreadableRecord_IsNamedAndTheRestCollected) {
  newest().write(from + "/a.jsonl");
  FakeTask().write(from + "/b.jsonl");
  std::ofstream(from + "/empty.jsonl");
  EXPECT_EQ(gather().code, 0) << "nothing was lost";
  std::string damaged = FakeTask().text();
  damaged[damaged.find("\"plan\"")] = 'x';
  std::ofstream(from + "/damaged.jsonl") << damaged;
  ASSERT_EQ(shell("mkfifo '" + from + "/pipe.jsonl'").code, 0);
  const ShellResult said = gather();
  EXPECT_EQ(said.code, 6);
  EXPECT_THAT(said.out, AllOf(HasSubstr("damaged.jsonl:2: not a line of a record"),
                              HasSubstr("pipe.jsonl: cannot read it: it is not a regular file"),
                              HasSubstr("empty.jsonl is empty"), HasSubstr("2 of 2 tasks are complete")));
}

TEST_F(Nights, ShardsOfSeveralMachines_AreMerged) {
  matrix("[tier.night]\nreleases = ['2.6.0']\ngpus = { H200 = 'sm_90' }\nshards = 2\n");
  ASSERT_EQ(recapture("nightly plan > '" + plan + "'").code, 0);
  FakeTask one, two;
  one.whole = two.whole = {"c1.Reproduces", "c1.ReproducesTwice", "c2.Reproduces", "c2.ReproducesTwice"};
  one.shard = "1/2";
  two.shard = "2/2";
  two.run = "r2";
  two.host = "b";
  one.write(from + "/1.jsonl");
  const ShellResult lost = gather();
  EXPECT_EQ(lost.code, 6);
  EXPECT_THAT(lost.out, HasSubstr("2.6.0-h200-2of2 is missing"));
  EXPECT_EQ(recapture("show '" + out + "'").code, 6) << "the lost shard's tests have not run";
  two.write(from + "/2.jsonl");
  const ShellResult said = gather();
  EXPECT_EQ(said.code, 0) << said.out;
  const Record merged = read_record(out + "/2.6.0/nvidia-h200.jsonl");
  EXPECT_TRUE(merged.is_complete());
  EXPECT_THAT(merged.tests, SizeIs(4));
  EXPECT_FALSE(merged.environment.json().contains("host"));
  two.driver = "2";
  two.write(from + "/2.jsonl");
  const ShellResult mixed = gather();
  EXPECT_EQ(mixed.code, 6);
  EXPECT_THAT(mixed.out, HasSubstr("only shards of one run can be merged"));
  EXPECT_THAT(records_below(out), SizeIs(2)) << "nothing is lost";
  EXPECT_EQ(recapture("show '" + out + "'").code, 6);
}

TEST_F(Nights, RunOfSomeCases_IsAnIncompleteTask) {
  fs::create_directories(folder + "/cases");
  Catalogue catalogue(1);
  catalogue[0].id = "c1";
  catalogue[0].tests = {{"Reproduces", Kind::Reproduces, Effect::Raises, ""},
                        {"Other", Kind::Reproduces, Effect::Raises, ""}};
  FakeTask().write(from + "/a.jsonl");
  const NightTask task{"2.6.0", "H200", 1, 1};
  const Gathered night = recapture::gather(out, {from}, {task}, catalogue);
  ASSERT_THAT(night.lacks, SizeIs(1));
  EXPECT_THAT(night.lacks[0], HasSubstr("it is a run of some cases only: 1 test of the catalogue is not in its plan"));
}

TEST_F(Nights, FullDisk_KeepsTheEarlierNight) {
  if (shell("mkdir '" + folder + "/small' && mount -t tmpfs -o size=64k none '" + folder + "/small'").code != 0) {
    GTEST_SKIP() << "no file systems may be mounted here";
  }
  newest().write(from + "/a.jsonl");
  FakeTask().write(from + "/b.jsonl");
  EXPECT_EQ(gather("small/night").code, 0);
  FakeTask large;
  for (const char digit : std::string("12345678")) {
    large.seen[std::string("Reproduces") + digit] = std::string(kLongestText, digit);
  }
  large.write(from + "/b.jsonl");
  const ShellResult said = gather("small/night");
  EXPECT_EQ(said.code, 7) << said.out;
  EXPECT_EQ(text_of(folder + "/small/night/2.6.0/nvidia-h200.jsonl"), FakeTask().text());
  EXPECT_FALSE(fs::exists(folder + "/small/night.partial"));
  shell("umount '" + folder + "/small'");
}

TEST_F(Nights, FirstNight_IsABaselineAndGreen) {
  night("2026-01-01", that_saw("ok"));
  const ShellResult first = news();
  EXPECT_EQ(first.code, 0) << first.out;
  EXPECT_EQ(line(first.out),
            "2026-01-01: green: 0 red, 2 machines of 2; it is the first night, and the baseline of those to come");
  EXPECT_THAT(first.out, HasSubstr("  not as documented or expected in the baseline\n    c1.Reproduces: newly fixed"));
  EXPECT_THAT(issues(), SizeIs(0));
  night("2026-01-02", that_saw("ok"));
  const ShellResult quiet = news();
  EXPECT_EQ(quiet.code, 0) << quiet.out;
  EXPECT_EQ(quiet.out,
            "2026-01-02: green: 0 red, 2 machines of 2\n\n"
            "LibTorch 2.6.0 on NVIDIA H200: 0 red, 2 tests judged\n"
            "LibTorch 2.15.0 on NVIDIA H200: 0 red, 2 tests judged\n");
}

TEST_F(Nights, SecondNightOfARegression_IsStillRed) {
  night("2026-01-01", with_fix());
  night("2026-01-02", with_fix("it is wrong"));
  const ShellResult said = news();
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_EQ(line(said.out), "2026-01-02: red: 1 red (1 new), 2 machines of 2");
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("\nLibTorch 2.6.0 on NVIDIA H200: 1 red (1 new), 3 tests judged\n  new\n"
                              "    c1 (FixIt): stopped holding: held in 2026-01-01; in 2026-01-02 it fails: "),
                    HasSubstr("LibTorch 2.15.0 on NVIDIA H200: 0 red, 2 tests judged\n")));
  night("2026-01-03", with_fix("it is wrong"));
  const ShellResult again = news();
  EXPECT_EQ(again.code, 1) << again.out;
  EXPECT_EQ(line(again.out), "2026-01-03: red: 1 red (1 still), 2 machines of 2");
  EXPECT_THAT(again.out, AllOf(HasSubstr("on NVIDIA H200: 1 red (1 still since 2026-01-02), 3 tests judged\n"),
                               HasSubstr("(since 2026-01-02, red on 2 of 3 nights: 2026-01-02, 03)")));
  EXPECT_THAT(news("--markdown").out,
              HasSubstr("\n## LibTorch 2.6.0 on NVIDIA H200: 1 red (1 still since 2026-01-02), 3 tests judged\n"));
  EXPECT_EQ(news("--night '" + folder + "/nights/2026-01-02'").out, said.out) << "an earlier night is unchanged";
  EXPECT_EQ(news("--night 2026-01-02").out, said.out) << "by the name in the report";
  const Json machine = parse_json(news("--json").out).at("machines")[0];
  EXPECT_EQ(machine.at("machine"), "LibTorch 2.6.0 on NVIDIA H200");
  ASSERT_THAT(machine.at("red"), SizeIs(1));
  EXPECT_EQ(machine.at("red")[0].at("state"), "still");
  EXPECT_EQ(machine.at("red")[0].at("since"), "2026-01-02");
  EXPECT_EQ(machine.at("red")[0].at("nights"), Json({"2026-01-02", "2026-01-03"}));
}

// A regression on night 2 that heals on night 5 and returns on night 6; on night 4 a machine is dead.
TEST_F(Nights, Week_IsToldEveryMorning) {
  struct Morning {
    std::string fix;
    bool is_dead;
    int code;
    std::string first_line, issues;
  };
  const std::vector<Morning> week = {
      {"D", false, 0, "green: 0 red, 2 machines of 2; it is the first night, and the baseline of those to come", ""},
      {"it is wrong", false, 1, "red: 1 red (1 new), 2 machines of 2", "open"},
      {"it is wrong", false, 1, "red: 1 red (1 still), 2 machines of 2", "open"},
      {"it is wrong", true, 1,
       "red: 1 red (1 still), 1 task without a complete record, 2 tests not judged, 1 machine of 2", "open open"},
      {"D", false, 5, "green: 0 red, 1 healed, 2 machines of 2", "healed healed"},
      {"it is wrong", false, 1, "red: 1 red (1 flaky), 2 machines of 2", "open"},
      {"D", false, 0, "green: 0 red, 1 flaky, 2 machines of 2", "open"}};
  std::set<std::string> fingerprints;
  for (size_t i = 0; i < week.size(); ++i) {
    const Morning& morning = week[i];
    const std::string name = fmt::format("2026-01-0{}", i + 1);
    std::vector<FakeTask> tasks = {with_fix(morning.fix)};
    if (!morning.is_dead) tasks.push_back(newest());
    EXPECT_EQ(night_of(name, tasks), morning.is_dead ? 6 : 0);
    const ShellResult said = news();
    EXPECT_EQ(said.code, morning.code) << said.out;
    EXPECT_EQ(line(said.out), name + ": " + morning.first_line) << said.out;
    std::string states;
    for (const Json& issue : issues()) {
      states += (states.empty() ? "" : " ") + issue.at("state").get<std::string>();
      fingerprints.insert(issue.at("fingerprint").get<std::string>());
    }
    EXPECT_EQ(states, morning.issues) << name;
  }
  EXPECT_THAT(fingerprints, SizeIs(2)) << "one issue for the regression, one for the dead machine";
  EXPECT_THAT(news("--night 2026-01-06").out, HasSubstr("red on 4 of 6 nights: 2026-01-02, 03, 04, 06, red tonight"));
  EXPECT_THAT(news("--night 2026-01-05").out, HasSubstr("healed; it was red since 2026-01-02"));
  const ShellResult dead = news("--night 2026-01-04");
  EXPECT_THAT(dead.out, AllOf(HasSubstr("2.15.0-h200-1of1 is missing: no record of it; new\n"),
                              HasSubstr("LibTorch 2.15.0 on NVIDIA H200: no record tonight; 0 red\n"
                                        "  not judged tonight\n    2 tests of c1: no run of it; new\n")));
  for (const Json& issue : issues("--night 2026-01-04")) {
    const bool is_missing = issue.at("title") == "[2.15.0 H200] missing: 2.15.0-h200-1of1";
    EXPECT_EQ(issue.at("labels"), is_missing ? Json({"recapture", "missing"}) : Json({"recapture", "stopped-holding"}));
    EXPECT_TRUE(is_missing || issue.at("title") == "[2.6.0 H200] c1: stopped holding") << issue;
  }
  EXPECT_EQ(issues()[0].at("labels"), Json({"recapture", "stopped-holding", "flaky"}));
}

TEST_F(Nights, FlakyTest_IsSteadyWhenItsWindowIsFine) {
  const std::string pattern = "frfrffffff";  // Fine and red.
  for (size_t i = 0; i < pattern.size(); ++i) {
    night(fmt::format("2026-01-{:02}", i + 1), with_fix(pattern[i] == 'r' ? "it is wrong" : "D"));
  }
  EXPECT_EQ(news("--night 2026-01-08").code, 0);
  EXPECT_THAT(news("--night 2026-01-08").out, HasSubstr("red on 2 of 7 nights: 2026-01-02, 04, not red tonight"));
  const ShellResult said = news("--night 2026-01-09");
  EXPECT_EQ(said.code, 5) << said.out;
  EXPECT_THAT(said.out, HasSubstr("c1 (FixIt): no longer flaky; "));
  EXPECT_EQ(issues("--night 2026-01-09")[0].at("state"), "healed");
  EXPECT_EQ(news().code, 0);
  EXPECT_THAT(issues(), SizeIs(0));
}

TEST_F(Nights, ChangedCase_StartsANewBaseline) {
  FakeTask task = that_saw("E");
  night("2026-01-01", task);
  task.hash = "i";
  task.seen["Reproduces"] = "ok";
  night("2026-01-02", task);
  const ShellResult edited = news();
  EXPECT_EQ(edited.code, 5) << edited.out;
  EXPECT_THAT(edited.out,
              AllOf(HasSubstr("a new baseline tonight\n    2 tests of c1: the code of the case has changed"),
                    HasSubstr("the baseline\n    c1.Reproduces: newly fixed: ok\n")));
  EXPECT_THAT(issues(), SizeIs(0)) << "the edit may have changed it";
  EXPECT_EQ(parse_json(news("--json").out).at("machines")[0].at("not_compared")[0].at("tests").size(), 2);
  night("2026-01-03", task);
  EXPECT_EQ(news().code, 0);
  task.seen["Reproduces"] = "D";
  night("2026-01-04", task);
  EXPECT_EQ(news().code, 1);
}

TEST_F(Nights, EditedRedTest_StaysOpenUntilItsRecordIsMarked) {
  night("2026-01-01", with_fix());
  night("2026-01-02", with_fix("it is wrong"));
  const Json red = issues();
  FakeTask task = with_fix();
  task.hash = "i";
  night("2026-01-03", task);
  const ShellResult edited = news();
  EXPECT_EQ(edited.code, 6) << edited.out;
  EXPECT_THAT(edited.out,
              HasSubstr("c1 (FixIt): edited since 2026-01-03, and red before, since 2026-01-02; stopped holding"));
  ASSERT_THAT(issues(), SizeIs(1));
  EXPECT_EQ(issues()[0].at("state"), "open");
  EXPECT_EQ(issues()[0].at("fingerprint"), red[0].at("fingerprint"));
  night("2026-01-04", with_fix());
  EXPECT_EQ(news().code, 5) << "with the code that was red";
  EXPECT_EQ(issues()[0].at("state"), "healed");
  night("2026-01-05", task);
  EXPECT_EQ(news().code, 5) << "a new baseline, and nothing open";
  task.seen["FixIt"] = "it is wrong";
  night("2026-01-06", task);
  EXPECT_EQ(news().code, 1);
  task.hash = "j";
  task.seen["FixIt"] = "D";
  night("2026-01-07", task);
  EXPECT_EQ(news().code, 6);
  mark_good("2026-01-07");
  const ShellResult marked = news();
  EXPECT_EQ(marked.code, 5) << marked.out;
  EXPECT_EQ(issues()[0].at("state"), "healed");
  night("2026-01-08", task);
  EXPECT_EQ(news().code, 0);
}

TEST_F(Nights, EditedTestThatIsRedAndHeals_ClosesItsIssue) {
  night("2026-01-01", with_fix());
  night("2026-01-02", with_fix("it is wrong"));
  const Json red = issues();
  FakeTask task = with_fix("it is still wrong");
  task.hash = "i";
  night("2026-01-03", task);
  EXPECT_EQ(news().code, 1);
  ASSERT_THAT(issues(), SizeIs(1));
  EXPECT_EQ(issues()[0].at("fingerprint"), red[0].at("fingerprint")) << "the same issue";
  task.seen["FixIt"] = "D";
  night("2026-01-04", task);
  EXPECT_EQ(news().code, 5) << news().out;
  ASSERT_THAT(issues(), SizeIs(1));
  EXPECT_EQ(issues()[0].at("state"), "healed");
  night("2026-01-05", task);
  EXPECT_EQ(news().code, 0);
}

TEST_F(Nights, TestThatIsNew_HasItsBaselineAndOneThatWentIsNamed) {
  FakeTask task;
  night("2026-01-01", task);
  task.seen["FixLate"] = "D";
  night("2026-01-02", task);
  EXPECT_EQ(news().code, 5);
  EXPECT_THAT(news().out, HasSubstr("    1 test of c1: no clear result before\n"));
  task.seen["FixLate"] = "it is wrong";
  night("2026-01-03", task);
  EXPECT_EQ(news().code, 1);
  task.seen.erase("FixLate");
  for (const char* name : {"2026-01-04", "2026-01-05"}) {
    night(name, task);
    const ShellResult removed = news();
    EXPECT_EQ(removed.code, 6) << removed.out;
    EXPECT_THAT(removed.out,
                AllOf(HasSubstr("    1 test of c1: not part of this run; "),
                      HasSubstr("c1 (FixLate): no longer planned since 2026-01-04, and red before, since")));
    EXPECT_EQ(issues()[0].at("state"), "open");
  }
}

TEST_F(Nights, IncompleteRun_ForgetsNoTestThatItLacks) {
  night("2026-01-01", with_fix());
  FakeTask cut;
  cut.end = "";
  cut.plan = {"c1.Reproduces", "c1.ReproducesTwice", "c1.Late"};
  EXPECT_EQ(night_of("2026-01-02", {cut, newest()}), 6);
  EXPECT_THAT(news().out, HasSubstr("1 test of c1: not part of this run"));
  night("2026-01-03", with_fix("it is wrong"));
  EXPECT_EQ(news().code, 1) << news().out;
}

TEST_F(Nights, RecordMarkedGood_IsTheNewBaseline) {
  night("2026-01-01", with_fix());
  night("2026-01-02", with_fix("it is wrong"));
  EXPECT_EQ(news().code, 1);
  mark_good("2026-01-02");
  const ShellResult accepted = news();
  EXPECT_EQ(accepted.code, 5) << accepted.out;
  EXPECT_THAT(accepted.out, HasSubstr("tonight's record is marked, and is the new baseline"));
  EXPECT_EQ(issues()[0].at("state"), "healed");
  night("2026-01-03", with_fix("it is wrong"));
  EXPECT_EQ(news().code, 0) << news().out;
  night("2026-01-04", with_fix());
  EXPECT_EQ(news().code, 5) << "it holds again";
}

TEST_F(Nights, BaselineFolder_IsTheNightBeforeTheFirst) {
  with_fix().write(folder + "/reports/2.6.0/nvidia-h200.jsonl");
  night("2026-01-01", with_fix("it is wrong"));
  EXPECT_THAT(news().out, HasSubstr("c1 (FixIt): fix fails: "));
  const ShellResult said = news("--baseline '" + folder + "/reports'");
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, HasSubstr("c1 (FixIt): stopped holding: held in reports; in 2026-01-01 it fails"));
  EXPECT_EQ(news("--baseline /nowhere").code, 2);
  night("2026-01-01", with_fix());
  const ShellResult other = news("--baseline '" + folder + "/ci'");
  EXPECT_EQ(other.code, 6) << other.out;
  EXPECT_THAT(other.out, HasSubstr(folder + "/ci has no record of these machines, so it cannot be the baseline\n"));
}

TEST_F(Nights, Race_HealsOnlyByManyNights) {
  const auto race = [&](int day, int hits) {
    FakeTask task;
    task.seen["ReproducesAtRate"] = "SIGSEGV";
    if (hits >= 0) task.rates["ReproducesAtRate"] = hits;
    night(fmt::format("2026-01-{:02}", day), task);
    return news();
  };
  race(1, 3);
  EXPECT_EQ(race(2, 0).code, 0);
  const ShellResult crashed = race(3, -1);
  EXPECT_EQ(crashed.code, 1) << crashed.out;
  EXPECT_THAT(crashed.out, HasSubstr("c1 (ReproducesAtRate): "));
  EXPECT_EQ(race(4, -1).code, 1) << "still";
  const ShellResult unseen = race(5, 0);
  EXPECT_EQ(unseen.code, 6) << "one night without it shows nothing";
  EXPECT_THAT(unseen.out, HasSubstr("still open, not judged tonight"));
  const ShellResult healed = race(6, 2);
  EXPECT_EQ(healed.code, 5) << healed.out;
  EXPECT_EQ(race(7, 0).code, 0);
}

TEST_F(Nights, NewRace_IsRedUntilFiveNightsDoNotShowIt) {
  const auto race = [&](int day, int hits) {
    FakeTask task;
    task.seen["ReproducesAtRate"] = "D";
    task.rates["ReproducesAtRate"] = hits;
    night(fmt::format("2026-01-{:02}", day), task);
    return news().code;
  };
  for (int day = 1; day <= 5; ++day) EXPECT_EQ(race(day, 0), 0);
  EXPECT_EQ(race(6, 1), 1);
  EXPECT_EQ(race(7, 2), 1) << "its own night is not part of its baseline";
  for (int day = 8; day <= 11; ++day) EXPECT_EQ(race(day, 0), 6) << day;
  EXPECT_EQ(race(12, 0), 5) << "healed";
  EXPECT_EQ(race(13, 0), 0);
}

TEST_F(Nights, ChangeThatBreaksNothing_IsToldOnce) {
  night("2026-01-01");
  night("2026-01-02", that_saw("ok"));
  const ShellResult said = news();
  EXPECT_EQ(said.code, 5) << said.out;
  EXPECT_THAT(said.out, HasSubstr("changed, and breaks nothing\n    c1 (Reproduces): healed: "));
  night("2026-01-03", that_saw("ok"));
  EXPECT_EQ(news().code, 0) << "it is the new baseline";
  night("2026-01-04");
  EXPECT_EQ(news().code, 1) << "and what fails again is red";
}

TEST_F(Nights, NightInWhichEverythingDied_IsTheNewest) {
  night("2026-01-01", with_fix());
  night("2026-01-02", with_fix("it is wrong"));
  EXPECT_EQ(night_of("dead", {}), 6);
  const ShellResult said = news();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_EQ(line(said.out),
            "dead: incomplete: 0 red, 1 still open and not judged, 2 tasks without a complete record, "
            "5 tests not judged, 0 machines of 2");
  EXPECT_THAT(said.out, AllOf(HasSubstr("2.6.0-h200-1of1 is missing: no record of it; new\n"),
                              HasSubstr("still open, not judged tonight\n    c1 (FixIt): stopped holding")));
  EXPECT_THAT(issues(), SizeIs(2)) << "for the machines; the regression is neither red nor healed";
}

TEST_F(Nights, DeadMachine_IsMissingSinceItsFirstNight) {
  night("2026-01-01");
  for (const char* name : {"2026-01-02", "2026-01-03"}) EXPECT_EQ(night_of(name, {newest()}), 6);
  const ShellResult said = news();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, HasSubstr("2.6.0-h200-1of1 is missing: no record of it; still since 2026-01-02\n"));
  const Json open = issues();
  ASSERT_THAT(open, SizeIs(1));
  EXPECT_EQ(open[0].at("title"), "[2.6.0 H200] missing: 2.6.0-h200-1of1");
  EXPECT_THAT(open[0].at("body").get<std::string>(), HasSubstr("2 tests of LibTorch 2.6.0 on NVIDIA H200 are not"));
  EXPECT_EQ(parse_json(news("--json").out).at("missing")[0].at("state"), "still");
  FakeTask half;
  half.end = "";
  half.plan = {"c1.Reproduces", "c1.ReproducesTwice", "c1.Late"};
  EXPECT_EQ(night_of("2026-01-04", {half, newest()}), 6);
  EXPECT_EQ(issues()[0].at("fingerprint"), open[0].at("fingerprint")) << "an incomplete record is not another cause";
  night("2026-01-05");
  EXPECT_EQ(news().code, 5);
  ASSERT_THAT(issues(), SizeIs(1));
  EXPECT_EQ(issues()[0].at("state"), "healed");
  EXPECT_EQ(issues()[0].at("fingerprint"), open[0].at("fingerprint"));
}

TEST_F(Nights, IncompleteFirstNight_IsNotGreen) {
  EXPECT_EQ(night_of("2026-01-01", {newest()}), 6);
  const ShellResult said = news();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(line(said.out),
              HasSubstr("2026-01-01: incomplete: 0 red, 1 task without a complete record, 1 machine of 2"));
}

TEST_F(Nights, RecordLostAfterItWasCollected_IsNoGreenNight) {
  night("2026-01-01");
  EXPECT_EQ(news().code, 0);
  const std::string place = folder + "/nights/2026-01-01/2.15.0";
  const std::string path = place + "/nvidia-h200.jsonl", text = text_of(path);
  std::ofstream(path) << text.substr(0, text.find("\n{\"end\"") + 1);
  EXPECT_EQ(news().code, 6);
  EXPECT_THAT(news().out, HasSubstr(path + " is incomplete; it was complete when the night was collected\n"));
  fs::remove_all(place);
  EXPECT_EQ(news().code, 6);
  EXPECT_THAT(news().out, HasSubstr("2.15.0-h200-1of1 has lost its record since the night was collected\n"));
}

// By that clock the night is the first of all, or the newest for ever.
TEST_F(Nights, RecordOfAnEarlierNightCollectedAgain_IsNoGreenNight) {
  night("2026-01-01");
  FakeTask old;
  old.started = "2026-01-02T00:00:00Z";
  old.run = "of tonight";
  old.write(from + "/2.6.0.jsonl");  // The other machine has not run, and its file of the last night is still there.
  EXPECT_EQ(gather("nights/2026-01-02").code, 0);
  const ShellResult said = news();
  EXPECT_EQ(said.code, 6);
  EXPECT_THAT(said.out,
              HasSubstr("2.15.0/nvidia-h200.jsonl repeats a run of night 2026-01-01; this machine has no newer run"));
  EXPECT_THAT(said.out, Not(HasSubstr("2.6.0/nvidia-h200.jsonl")));
  night("2026-01-03");
  EXPECT_EQ(news().code, 0);
}

TEST_F(Nights, WrongClockOfAMachine_IsNoGreenNight) {
  const auto collect_at = [&](const std::string& name, const std::string& when) {
    const std::string path = folder + "/nights/" + name + "/night.json";
    Json night = parse_json(text_of(path));
    night["collected"] = when;
    std::ofstream(path) << night;
  };
  const std::string wrong = ", and its runs began before it by the clocks of their machines;";
  night("2026-01-01", with_fix());
  collect_at("2026-01-01", "2026-01-01T06:00:00Z");
  night("2020-01-01", with_fix());
  collect_at("2020-01-01", "2026-01-02T06:00:00Z");
  for (const char* choice : {"", "--night 2020-01-01", "--night 2026-01-01"}) {
    EXPECT_EQ(news(choice).code, 6) << choice;
    EXPECT_THAT(news(choice).out, HasSubstr("\n2020-01-01 was collected after 2026-01-01" + wrong)) << choice;
  }
  night("2020-01-01", with_fix("it is wrong"));
  EXPECT_EQ(parse_json(text_of(folder + "/nights/2020-01-01/night.json")).at("collected"), "2026-01-02T06:00:00Z")
      << "a night that is collected again keeps its place";
}

// A machine whose clock is years ahead: its night stays the newest one.
TEST_F(Nights, NightOfTheFuture_IsNotGreenOnAnyMorning) {
  night("2026-01-01", with_fix());
  ASSERT_EQ(news().code, 0);
  const std::string words = "\n9998-01-02 was collected at 2";
  night("9998-01-02", with_fix());
  EXPECT_EQ(news().code, 6);
  EXPECT_THAT(news().out, AllOf(HasSubstr(words), HasSubstr(", and its runs began at 9998-01-02")));
  night("2026-01-03", with_fix("it is wrong"));
  EXPECT_EQ(news().code, 6);
  EXPECT_THAT(news().out, HasSubstr(words));
  fs::remove_all(folder + "/nights/9998-01-02");
  EXPECT_EQ(news().code, 1) << "as the report demands";
}

TEST_F(Nights, FirstNightWithoutAnyResult_IsNotGreen) {
  FakeTask silent;
  silent.seen = {{"Reproduces", ""}};
  night("2026-01-01", silent);
  EXPECT_EQ(news().code, 6) << news().out;
}

TEST_F(Nights, ReleaseThatIsNotPlannedAnyMore_IsNamedAndItsIssueStaysOpen) {
  night("2026-01-01", with_fix());
  night("2026-01-02", with_fix("it is wrong"));
  matrix("[tier.night]\nreleases = ['2.15.0']\ngpus = { H200 = 'sm_90' }\n");
  ASSERT_EQ(recapture("nightly plan > '" + plan + "'").code, 0);
  for (const char* name : {"2026-01-03", "2026-01-04"}) {
    night(name);
    const ShellResult said = news();
    EXPECT_EQ(said.code, 6) << said.out;
    EXPECT_THAT(said.out, HasSubstr("LibTorch 2.6.0 on NVIDIA H200 is no longer planned, since 2026-01-03\n"));
    EXPECT_EQ(issues()[0].at("state"), "open");
    EXPECT_EQ(issues()[0].at("labels"), Json({"recapture", "stopped-holding", "no-longer-planned"}));
  }
}

TEST_F(Nights, GreenReleaseThatIsNotPlannedAnyMore_IsNamedOnce) {
  night("2026-01-01", with_fix());
  matrix("[tier.night]\nreleases = ['2.15.0']\ngpus = { H200 = 'sm_90' }\n");
  ASSERT_EQ(recapture("nightly plan > '" + plan + "'").code, 0);
  night("2026-01-02");
  EXPECT_EQ(news().code, 6);
  EXPECT_THAT(news().out, HasSubstr("LibTorch 2.6.0 on NVIDIA H200 is no longer planned, since 2026-01-02\n"));
  night("2026-01-03");
  EXPECT_EQ(news().code, 0) << "once";
}

TEST_F(Nights, WhatAGatheringLeftBehind_IsNoNight) {
  night("2026-01-01", with_fix());
  night("2026-01-02", with_fix("it is wrong"));
  const ShellResult right = news();
  EXPECT_EQ(right.code, 1);
  const std::string last = folder + "/nights/2026-01-02";
  for (const char* left : {".before", ".partial"}) fs::copy(last, last + left, fs::copy_options::recursive);
  EXPECT_EQ(news().out, right.out);
  fs::remove_all(last);
  fs::remove_all(last + ".partial");
  const ShellResult gone = news();
  EXPECT_EQ(gone.code, 6) << gone.out;
  EXPECT_THAT(gone.out, AllOf(HasSubstr("2026-01-01: incomplete"),
                              HasSubstr("2026-01-02 is not there: `recapture nightly collect` was"),
                              HasSubstr("2026-01-02.before is left; collect it again")));
}

TEST_F(Nights, FolderThatMayNotBeRead_HidesNoNight) {
  night("2026-01-01", with_fix());
  night("2026-01-02", with_fix("it is wrong"));
  const std::string other = geteuid() == 0 ? "setpriv --reuid 65534 --regid 65534 --clear-groups " : "";
  if (shell(other + command("--version")).code != 0) GTEST_SKIP() << "another user cannot start this program";
  std::vector<std::string> closed;
  for (int i = 0; i < 20; ++i) closed.push_back(fmt::format("{}/nights/{}", folder, i));  // Some come before a night.
  for (const std::string& one : closed) {
    fs::create_directories(one);
    fs::permissions(one, fs::perms::none);
  }
  const ShellResult said = shell(other + command("nightly diff '" + folder + "/nights' --night 2026-01-02"));
  for (const std::string& one : closed) fs::permissions(one, fs::perms::owner_all);
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("2026-01-02: red"), HasSubstr("c1 (FixIt)"),
                              HasSubstr("/nights/7: cannot read it: Permission denied")));
}

TEST_F(Nights, RunWithAnotherRuntime_IsAPlaceOfItsOwn) {
  night("2026-01-01", with_fix());
  night("2026-01-02", with_fix());
  FakeTask chosen = with_fix();
  chosen.seen["Reproduces"] = "E";
  chosen.more = {{"cuda_runtime_by", "preload"}};
  chosen.started = "2026-01-02T12:00:00Z";
  chosen.write(folder + "/nights/2026-01-02/2.6.0/nvidia-h200.cuda-12.jsonl");
  const ShellResult said = news();
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("LibTorch 2.6.0 on NVIDIA H200, CUDA runtime 12: 0 red, 3 tests judged; its first "
                                  "night, and its baseline\n"));
}

TEST_F(Nights, NightlyBuilds_AreOnePlace) {
  const auto build = [&](const std::string& day, const std::string& fix) {
    FakeTask task = with_fix(fix);
    task.release = "2.16.0.dev202601" + day;
    std::ofstream(plan) << Json::array({{{"release", task.release}, {"gpu", "H200"}, {"shard", "1/1"}}});
    EXPECT_EQ(night_of("2026-01-" + day, {task}), 0);
  };
  build("01", "D");
  build("02", "it is wrong");
  const ShellResult said = news();
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("LibTorch 2.16.0.dev20260102 on NVIDIA H200: 1 red (1 new)"),
                              HasSubstr("LibTorch 2.16.0.dev20260101 -> 2.16.0.dev20260102\n")));
  EXPECT_EQ(Release("2.16.0.dev20260102+cu132").without_nightly_date(), "2.16.0.dev");
  EXPECT_EQ(Release("2.16.0").without_nightly_date(), "2.16.0");
}

TEST_F(Nights, RepetitionThatDiffers_IsFlakyAndNotJudged) {
  night("2026-01-01");
  FakeTask unclear = that_saw("E");
  unclear.again = {"E", "F"};
  for (const char* name : {"2026-01-02", "2026-01-03"}) {
    night(name, unclear);
    const ShellResult flaky = news();
    EXPECT_EQ(flaky.code, 6) << flaky.out;
    EXPECT_THAT(flaky.out, AllOf(HasSubstr("  flaky\n    c1 (Reproduces): red or not confirmed on "),
                                 HasSubstr("1 test of c1: a repetition gave another result")));
  }
  const Json open = issues();
  ASSERT_THAT(open, SizeIs(1));
  EXPECT_EQ(open[0].at("title"), "[2.6.0 H200] c1: flaky");
  EXPECT_EQ(open[0].at("labels"), Json({"recapture", "flaky"}));
}

TEST_F(Nights, TestThatIsNotJudgedAnyMore_IsNoGreenNight) {
  night("2026-01-01", that_saw("ok"));
  for (const char* name : {"2026-01-02", "2026-01-03"}) {
    night(name, that_saw(""));
    const ShellResult said = news();
    EXPECT_EQ(said.code, 6) << said.out;
    EXPECT_THAT(said.out, HasSubstr("  not judged tonight\n    1 test of c1: inconclusive; "));
  }
  night("2026-01-04", that_saw("D"));
  EXPECT_EQ(news().code, 1) << "compared with the last night that had a result";
  night("2026-01-05", that_saw(""));
  EXPECT_THAT(news().out, HasSubstr("still open, not judged tonight\n    c1 (Reproduces): new errors"));
  night("2026-01-06", that_saw("D"));
  EXPECT_THAT(news().out, HasSubstr("1 red (1 still since 2026-01-04)"));
}

TEST_F(Nights, NightThatIsNotCollected_GetsALineAndACode) {
  night("2026-01-01");
  const ShellResult elsewhere = news("--night '" + folder + "'");
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_THAT(elsewhere.out, AllOf(HasSubstr("is not a collected night below"), HasSubstr("the newest is 2026-01-01")));
  fs::create_directories(folder + "/nights/2026-01-03");
  for (const char* name : {"a", "b"}) {
    fs::copy(folder + "/nights/2026-01-01", folder + "/nights/2026-01-03/" + name, fs::copy_options::recursive);
  }
  const ShellResult both = news("--night 2026-01-03");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.out, HasSubstr("2026-01-03 has more than one collected night; name "));
  EXPECT_EQ(news("--night 2026-01-03/a").code, 6) << "its runs are those of 2026-01-01";
  std::ofstream(folder + "/nights/2026-01-01/night.json") << "{}";
  const ShellResult torn = news();
  EXPECT_EQ(torn.code, 2);
  EXPECT_THAT(torn.out, HasSubstr("not what `recapture nightly collect` writes"));
  const ShellResult nowhere = recapture("nightly collect /proc/tonight '" + from + "' --plan '" + plan + "'");
  EXPECT_EQ(nowhere.code, 7) << nowhere.out;
}

TEST_F(Nights, ArchiveThatIsNotCollected_IsNamed) {
  night("2026-01-01");
  fs::create_directories(folder + "/nights/2026-01-02/2.6.0");
  write_file(folder + "/nights/2026-01-02/2.6.0/records.tar.xz", packed_records({{"g.jsonl", FakeTask().text()}}));
  EXPECT_THAT(news().out, HasSubstr("2026-01-02 has records and no night.json"));
}

TEST_F(Nights, MovedDriver_StandsFirstAndWhatChangedWithIt) {
  night("2026-01-01", with_fix());
  FakeTask moved = with_fix("it is wrong");
  moved.driver = "2";
  night("2026-01-02", moved);
  const ShellResult said = news();
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_LT(said.out.find("driver 1 -> 2\n"), said.out.find("c1 (FixIt)")) << said.out;
  EXPECT_THAT(issues()[0].at("body").get<std::string>(),
              HasSubstr("* `LibTorch 2.6.0 on NVIDIA H200, driver 1 -> 2, CUDA runtime 12, night 2026-01-02: new`"));
  moved.driver = "3";
  night("2026-01-03", moved);
  EXPECT_THAT(news().out, HasSubstr("driver 2 -> 3: nothing changed with it\n"));
}

TEST_F(Nights, SlowTest_IsNamedAndNotRed) {
  FakeTask task;
  task.seen["ReproducesAtRate"] = "D";
  task.rates = {{"ReproducesAtRate", 3}};
  const auto add = [&](int day, double seconds, int jobs) {
    task.seconds = seconds;
    task.jobs = jobs;
    night(fmt::format("2026-01-0{}", day), task);
    return news();
  };
  for (int day = 1; day <= 4; ++day) add(day, 2.2 + 0.1 * day, 2);
  EXPECT_THAT(add(5, 78, 1).out, Not(HasSubstr("slower"))) << "at another width";
  EXPECT_THAT(add(6, 2.9, 2).out, Not(HasSubstr("slower")));
  const ShellResult said = add(7, 78, 2);
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("  slower\n    c1.Reproduces: 78.0 s, 31 times its median of 2.5 s in 5 runs, 2 at "
                              "once\n"),
                    HasSubstr("    all tests together: 234.0 s, 31 times its median of 7.5 s in 5 runs, 2 at "
                              "once\n"),
                    HasSubstr(" judged, 234.0 s, 2 at once\n"), Not(HasSubstr("c1.ReproducesAtRate:"))));
  const Json machine = parse_json(news("--json").out).at("machines").at(0);
  EXPECT_EQ(machine.at("slower").size(), 3U) << machine.dump();
  EXPECT_EQ(machine.at("slowest").at(0), Json({{"test", "c1.Reproduces"}, {"seconds", 78.0}, {"jobs", 2}}));
  EXPECT_THAT(news("--night 2026-01-06").out, Not(HasSubstr("slower")));
}

TEST_F(Nights, SlowTestWithAMedianOfZero_IsNoMultipleOfIt) {
  NightReport report;
  PlaceState place;
  place.is_here = true;
  place.slower = {{"c.Reproduces", 78.0, 2, 0.0}};
  report.places.push_back(place);
  EXPECT_THAT(render_text(report),
              HasSubstr("    c.Reproduces: 78.0 s after a median of 0.00 s in 5 runs, 2 at once\n"));
}

TEST_F(Nights, Markdown_StaysBelowGitHubsLimitAndCountsWhatItLeavesOut) {
  NightReport report;
  for (int i = 0; i < 3; ++i) {
    PlaceState place;
    place.name = fmt::format("machine {}", i);
    place.unexpected.assign(4000, std::string(100, 'x'));
    report.places.push_back(place);
  }
  const std::string text = render_markdown(report);
  EXPECT_LT(text.size(), 1U << 20);
  EXPECT_THAT(text, AllOf(HasSubstr("machine 1"), Not(HasSubstr("machine 2")), HasSubstr("1 more are left out here")));
}

TEST_F(Nights, Issue_HasAFingerprintOfItsCause) {
  night("2026-01-01", with_fix(), with_fix());
  night("2026-01-02", with_fix("E at 0x7f00 in /opt/a/b.so"), with_fix("E at 0x7f01 in /opt/c/d.so"));
  const Json first = issues();
  ASSERT_THAT(first, SizeIs(1)) << "one cause on two releases";
  const std::string fingerprint = first[0].at("fingerprint"), body = first[0].at("body");
  EXPECT_EQ(first[0].at("title"), "[2.6.0, 2.15.0 H200] c1: stopped holding");
  EXPECT_THAT(body, AllOf(HasSubstr("LibTorch 2.6.0 on"), HasSubstr("LibTorch 2.15.0 on"),
                          HasSubstr("    c.cpp:1: E at 0x7f00 in /opt/a/b.so\n"), HasSubstr("`ci/suite 2.15.0 -- c1`"),
                          HasSubstr("recapture-fingerprint: " + fingerprint)));
  night("2026-01-03", with_fix("G"), with_fix());
  ASSERT_THAT(issues(), SizeIs(1)) << "open on one of two machines";
  EXPECT_EQ(issues()[0].at("fingerprint"), fingerprint) << "another text within the streak is not another cause";
  for (int day = 4; day < 12; ++day) night(fmt::format("2026-01-{:02}", day), with_fix(), with_fix());
  night("2026-01-12", with_fix("E at 0x7f99 in /opt/x/y.so"), with_fix());
  ASSERT_THAT(issues(), SizeIs(1));
  EXPECT_EQ(issues()[0].at("fingerprint"), fingerprint) << "it is back";
  night("2026-01-13", with_fix("E at 0x7f99 in /opt/x/y.so"), with_fix("G"));
  ASSERT_THAT(issues(), SizeIs(2));
}

TEST_F(Nights, Issue_OfACauseThatADeadMachineHad_IsNotHealed) {
  night("2026-01-01", with_fix(), with_fix());
  night("2026-01-02", with_fix("E"), with_fix("E"));
  EXPECT_EQ(night_of("2026-01-03", {with_fix()}), 6);
  const Json dead = issues();
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_EQ(dead[0].at("labels"), Json({"recapture", "missing"}));
  night("2026-01-04", with_fix(), with_fix());
  EXPECT_THAT(issues(), SizeIs(2)) << "both have healed";
}

TEST_F(Nights, Issue_OfHostileText_StaysText) {
  night("2026-01-01", that_saw("ok"));
  night("2026-01-02", that_saw("a\n\n# Title @everyone `x` <img src=x>\n\x1b[31m"));
  const Json all = issues();
  ASSERT_THAT(all, SizeIs(1));
  const std::string body = all[0].at("body");
  EXPECT_THAT(body, AllOf(HasSubstr("    a\\n\\n# Title @everyone `x` <img src=x>\\n\\x1b[31m\n"),
                          Not(HasSubstr("\n# Title")), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(news("--markdown").out, Not(HasSubstr("\n# Title")));
}

TEST_F(Nights, OperatorThatANewBuildAdds_HasItsBaselineAndIsCompared) {
  const auto night_with = [&](const std::string& name, const Json& facts) {
    fs::remove_all(from);
    for (const char* release : {"2.6.0", "2.15.0"}) {
      Json line = fake_test("operators.inv", {{"facts", facts}});
      if (facts.empty()) line.update({{"code", 77}, {"ended", "skipped"}, {"skipped", "no"}, {"inapplicable", "no"}});
      FakeRecord record{fake_environment({{"release", release},
                                          {"gpu", "NVIDIA H200"},
                                          {"shard", "1/1"},
                                          {"volatile", {{"run", name + release}, {"started", name + "T00:00:00Z"}}}}),
                        {line},
                        {{"case", "operators"}, {"family", "operators"}}};
      record.write(from + "/" + release + ".jsonl");
    }
    EXPECT_EQ(gather("nights/" + name).code, 0);
    return news();
  };
  const Json right = {{"forward", R"({"samples":{"float32":{"right":4}}})"}};
  const Json wrong = {{"forward", R"({"samples":{"float32":{"wrong":4}}})"}};
  EXPECT_EQ(night_with("2026-01-01", Json::object()).code, 0);
  EXPECT_EQ(night_with("2026-01-02", Json::object()).code, 0);
  const ShellResult added = night_with("2026-01-03", right);
  EXPECT_EQ(added.code, 5);
  EXPECT_THAT(added.out, HasSubstr("1 test of operators: it was not applicable before"));
  EXPECT_EQ(night_with("2026-01-04", wrong).code, 1);
  EXPECT_EQ(night_with("2026-01-05", right).code, 5);
  const ShellResult gone = night_with("2026-01-06", Json::object());
  EXPECT_EQ(gone.code, 6);
  EXPECT_THAT(gone.out, HasSubstr("1 test of operators: not to be compared with its baseline"));
}

TEST_F(Nights, TestThatIsNotApplicable_IsNoOpenQuestion) {
  for (const char* name : {"2026-01-01", "2026-01-02"}) {
    night(name, that_saw("Not applicable: no such call"));
    EXPECT_EQ(news().code, 0) << news().out;
  }
  night("2026-01-03", that_saw("ok"));
  EXPECT_EQ(news().code, 5);
  EXPECT_THAT(news().out, HasSubstr("1 test of c1: it was not applicable before"));
}

}  // namespace
}  // namespace recapture

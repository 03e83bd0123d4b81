// A night on many machines: what it is to run, what is gathered of it, what is new in it, and what makes others run it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/night/gather.h"
#include "harness/night/news.h"
#include "harness/night/plan.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/fake_tree.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// A run of one task; each test "c.Name" saw something, and documents "D".
struct FakeTask {
  std::string release = "2.6.0", gpu = "NVIDIA H200", driver = "1", host = "a", shard = "1/1", run = "r1",
              started = "2026-01-01T00:00:00Z", end = "complete", hash = "h";
  std::map<std::string, std::string> seen = {{"Reproduces", "D"}, {"ReproducesTwice", "D"}};
  std::vector<std::string> plan = {}, whole = {};  // Where it is another than what was seen.
  std::vector<std::string> again = {};             // What Reproduces saw when it was run again.
  std::map<std::string, int> rates = {};           // Hits of a race, of ten tries.
  Json more = Json::object();                      // Of the environment.

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
                                               {"volatile", {{"run", run}, {"started", started}}}}),
                             planned, fake_case(names, {{"case", id}, {"hash", hash}})};
    all.front().update(more);
    for (const auto& [name, what] : seen) {
      all.push_back(line_of(id, name, what));
      if (const auto hits = rates.find(name); hits != rates.end()) {
        all.back() = {
            {"test", id + "." + name}, {"ending", "exited"}, {"code", hits->second > 0 ? 0 : 1},
            {"hits", hits->second},    {"tries", 10},        {"ended", hits->second > 0 ? "passed" : "failed"}};
      }
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
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text();
  }

 private:
  static Json line_of(const std::string& id, const std::string& name, const std::string& what) {
    const bool good = what == "D";
    if (what.empty()) return {{"test", id + "." + name}, {"ending", "exited"}, {"code", 0}};  // Not a word.
    if (what == "SIGSEGV") return {{"test", id + "." + name}, {"ending", "signal"}, {"code", 11}};
    if (name.rfind("Fix", 0) == 0) {
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

class Nights : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    matrix(
        "[tier.night]\ngpus = { H200 = 'sm_90' }\n[tier.pull-request]\nreleases = ['2.15.0']\ngpus = { none = 'none' "
        "}\n");
    ASSERT_EQ(recapture("ci plan > '" + plan + "'").code, 0);
  }
  void matrix(const std::string& tiers) const {
    std::ofstream(folder + "/ci/matrix.toml") << "[[release]]\nversion = '2.6.0'\n[[release]]\nversion = '2.15.0'\n"
                                              << tiers;
  }
  Said gather(const std::string& night = "night") const {
    return recapture("gather '" + folder + "/" + night + "' '" + from + "' --plan '" + plan + "'");
  }
  static FakeTask newest() {
    FakeTask task;
    task.release = "2.15.0";
    return task;
  }
  // Gathers a night of both releases.
  void night(const std::string& name, FakeTask old, FakeTask now) const {
    fs::remove_all(from);
    now.release = "2.15.0";
    for (FakeTask* task : {&old, &now}) {
      task->started = name + "T00:00:00Z";
      task->run = name + task->release;
      task->write(from + "/" + task->release + ".jsonl");
    }
    const Said said = gather("nights/" + name);
    EXPECT_EQ(said.code, 0) << said.out;
  }
  void night(const std::string& name, const FakeTask& old = {}) const { night(name, old, {}); }
  Said news(const std::string& more = "") const { return recapture("news '" + folder + "/nights' " + more); }
  static FakeTask that_saw(const std::string& what) {
    FakeTask task;
    task.seen["Reproduces"] = what;
    return task;
  }

  const std::string plan = folder + "/plan.json", from = folder + "/from", out = folder + "/night";
};

TEST_F(Nights, PlanIsEveryReleaseOnEveryGpuAndShard) {
  matrix("[tier.night]\ngpus = { H200 = 'sm_90', 'A100 80GB' = 'sm_80' }\nshards = 2\n");
  const Said said = recapture("ci plan");
  ASSERT_EQ(said.code, 0) << said.out;
  const Json all = parse_json(said.out);
  ASSERT_THAT(all, SizeIs(8));
  EXPECT_EQ(all[1].at("record"), "2.6.0-a100-80gb-2of2.jsonl");
  EXPECT_EQ(all[1].at("label"), "a100-80gb");
  EXPECT_EQ(all[1].at("command"), Json({"build/recapture", "run", "--continue", "--release", "2.6.0", "--shard", "2/2",
                                        "--require", "gpu", "--record", "2.6.0-a100-80gb-2of2.jsonl"}));
}

TEST_F(Nights, WhatIsWrongGetsOneLineAndItsExitCode) {
  FakeTask().write(from + "/a.jsonl");
  for (const auto& [tiers, words] : std::vector<std::pair<std::string, std::string>>{
           {"[tier.other]\n", "there is no tier 'night'"},
           {"[tier.night]\nreleases = ['2.16.0']\ngpus = { H200 = 'sm_90' }\n", "there is no release '2.16.0'"},
           {"[tier.night]\ngpus = {}\n", "'gpus' names none"},
           {"[tier.night]\ngpus = { 'a;b' = 'x' }\n", "no part of a GPU's name"},
           {"[tier.night]\ngpus = { H200 = 'sm_90' }\nshards = 0\n", "'shards' is a number"},
           {"[tier.night]\ngpus = { h200 = 'sm_90', H200 = 'sm_90' }\n", "is in it twice"},
           {"[tier.night]\ngpu = { H200 = 'sm_90' }\n", "unknown key 'gpu'"}}) {
    matrix(tiers);
    const Said said = recapture("ci plan");
    EXPECT_EQ(said.code, 2) << tiers;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
  }
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "it is no JSON"},
           {"[]", "it is no list of tasks"},
           {"{}", "it is no list of tasks"},
           {"[1]", "it is no object"},
           {R"([{"release":"../x","gpu":"H200","shard":"1/1"}])", "names no release"},
           {R"([{"release":"2.6.0","gpu":"","shard":"1/1"}])", "no part of a GPU's name"},
           {R"([{"release":"2.6.0","gpu":"H200","shard":"2/1"}])", "its shard is '2/1'"}}) {
    std::ofstream(plan) << text;
    const Said said = gather();
    EXPECT_EQ(said.code, 2) << text;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
    EXPECT_FALSE(fs::exists(out));
  }
  for (const char* words :
       {"gather x y --plan /nowhere", "news /nowhere", "news --json --issue .", "ci", "ci nothing"}) {
    EXPECT_NE(recapture(words).code, 0) << words;
  }
}

TEST_F(Nights, GatheredAreReadAsReportsAre) {
  FakeTask().write(from + "/machine-1/x.jsonl");
  newest().write(from + "/machine-2/x.jsonl");
  std::ofstream(from + "/machine-2/x.xml") << "<testsuites/>";
  const Said said = gather();
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("2 of 2 tasks are whole"));
  EXPECT_EQ(text_of(out + "/2.6.0/nvidia-h200.jsonl"), FakeTask().text());
  EXPECT_EQ(text_of(out + "/2.15.0/nvidia-h200.jsonl"), newest().text());
  EXPECT_EQ(recapture("show '" + out + "'").code, 0);
  EXPECT_EQ(recapture("compare 2.6.0 2.15.0 --records '" + out + "'").code, 0);
  EXPECT_EQ(gather().code, 0) << "in the place of what was gathered before";
  EXPECT_FALSE(fs::exists(out + ".partial"));
  fs::remove(out + "/night.json");
  const Said taken = gather();
  EXPECT_EQ(taken.code, 2);
  EXPECT_THAT(taken.out, HasSubstr("is there already, and is no gathered night"));
}

TEST_F(Nights, NameWhatIsMissing) {
  newest().write(from + "/a.jsonl");
  FakeTask other;
  other.gpu = "NVIDIA A100";
  other.write(from + "/other.jsonl");
  const Said said = gather();
  EXPECT_EQ(said.code, 6);
  EXPECT_THAT(said.out, AllOf(HasSubstr("2.6.0-h200-1of1 is missing"), HasSubstr("1 of 2 tasks are whole"),
                              HasSubstr("other.jsonl is of no task of the plan: 2.6.0, NVIDIA A100, shard 1/1")));
  EXPECT_FALSE(fs::exists(out + "/2.6.0"));
  fs::remove_all(from);
  const std::string before = text_of(out + "/night.json");
  const Said nowhere = gather();
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_TRUE(nowhere.is_one_line()) << nowhere.out;
  EXPECT_THAT(nowhere.out, HasSubstr("from is no folder; a job whose machines may leave no record at all makes it"));
  EXPECT_EQ(text_of(out + "/night.json"), before) << "a slip of the pen replaces nothing";
  fs::create_directories(from);
  EXPECT_EQ(gather().code, 6);
  EXPECT_NE(text_of(out + "/night.json"), before) << "a night of which nothing is left is one";
}

TEST_F(Nights, ARunWithAnotherLibraryIsNotTheTask) {
  newest().write(from + "/a.jsonl");
  FakeTask chosen;
  chosen.more = {{"cuda_runtime_by", "preload"}};
  chosen.write(from + "/b.jsonl");
  const Said said = gather();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("2.6.0-h200-1of1 is missing"),
                              HasSubstr("b.jsonl is of no task of the plan: 2.6.0, NVIDIA H200, CUDA runtime 12")));
}

TEST_F(Nights, ShardsThatAreCalledCompleteAndLackATestAreNotTheWholeRun) {
  matrix("[tier.night]\nreleases = ['2.6.0']\ngpus = { H200 = 'sm_90' }\nshards = 2\n");
  ASSERT_EQ(recapture("ci plan > '" + plan + "'").code, 0);
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
    return recapture("merge " + record() + " " + from + "/1.jsonl " + from + "/2.jsonl");
  };
  const Said lost = merged();
  EXPECT_EQ(lost.code, 6) << lost.out;
  EXPECT_THAT(lost.out, HasSubstr("shard 1/2 is called complete, and c1.Late has not run"));
  EXPECT_EQ(recapture("show " + record()).code, 6);
  one.plan.clear();
  const Said unplanned = merged();
  EXPECT_EQ(unplanned.code, 6) << unplanned.out;
  EXPECT_THAT(unplanned.out, HasSubstr("c1.Late is in no shard's plan"));
  const Said night = gather();
  EXPECT_EQ(night.code, 6) << night.out;
  EXPECT_THAT(night.out, HasSubstr("2.6.0-h200-1of2: c1.Late is in no shard's plan"));
}

TEST_F(Nights, KeepACutRunAndNameIt) {
  newest().write(from + "/a.jsonl");
  for (const std::string end : {"", "interrupted"}) {
    FakeTask cut;
    cut.end = end;
    cut.plan = {"c1.Reproduces", "c1.ReproducesTwice", "c1.Late"};
    cut.write(from + "/cut.jsonl");
    const Said said = gather();
    EXPECT_EQ(said.code, 6);
    EXPECT_THAT(said.out, AllOf(HasSubstr("2.6.0-h200-1of1 is not whole: "), HasSubstr("cut.jsonl: "),
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

TEST_F(Nights, CountARunOnceHoweverOftenItIsThere) {
  newest().write(from + "/a.jsonl");
  FakeTask().write(from + "/b.jsonl");
  FakeTask().write(from + "/copy/b.jsonl");
  std::string half = FakeTask().text();
  std::ofstream(from + "/half.jsonl") << half.substr(0, half.size() - 30);
  const Said said = gather();
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("copy/b.jsonl is a copy of"), HasSubstr("half.jsonl is a shorter copy of")));
  EXPECT_FALSE(fs::exists(out + "/2.6.0/nvidia-h200.run-2.jsonl"));
  FakeTask other = that_saw("E");  // With the same run's number.
  other.write(from + "/other.jsonl");
  const Said contradiction = gather();
  EXPECT_EQ(contradiction.code, 6);
  EXPECT_THAT(contradiction.out, HasSubstr("are of one run, and say different things"));
}

TEST_F(Nights, OfSeveralRunsOfATaskTheNewestWholeOneCounts) {
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
  const Said said = gather();
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_EQ(text_of(out + "/2.6.0/nvidia-h200.jsonl"), second.text());
  EXPECT_THAT(said.out, AllOf(HasSubstr("2.jsonl counts, and " + from + "/1.jsonl does not"),
                              HasSubstr("/3.jsonl does not: it did not come to its end")));
}

TEST_F(Nights, NameWhatCannotBeRead) {
  newest().write(from + "/a.jsonl");
  FakeTask().write(from + "/b.jsonl");
  std::ofstream(from + "/empty.jsonl");
  EXPECT_EQ(gather().code, 0) << "nothing was lost with it";
  std::string damaged = FakeTask().text();
  damaged[damaged.find("\"plan\"")] = 'x';
  std::ofstream(from + "/damaged.jsonl") << damaged;
  ASSERT_EQ(shell("mkfifo '" + from + "/pipe.jsonl'").code, 0);
  const Said said = gather();
  EXPECT_EQ(said.code, 6);
  EXPECT_THAT(said.out, AllOf(HasSubstr("damaged.jsonl:2: not a line of a record"),
                              HasSubstr("pipe.jsonl: cannot read it: it is not a regular file"),
                              HasSubstr("empty.jsonl is empty"), HasSubstr("2 of 2 tasks are whole")));
}

TEST_F(Nights, MergeShardsOfManyMachines) {
  matrix("[tier.night]\nreleases = ['2.6.0']\ngpus = { H200 = 'sm_90' }\nshards = 2\n");
  ASSERT_EQ(recapture("ci plan > '" + plan + "'").code, 0);
  FakeTask one, two;
  one.whole = two.whole = {"c1.Reproduces", "c1.ReproducesTwice", "c2.Reproduces", "c2.ReproducesTwice"};
  one.shard = "1/2";
  two.shard = "2/2";
  two.run = "r2";
  two.host = "b";
  one.write(from + "/1.jsonl");
  const Said lost = gather();
  EXPECT_EQ(lost.code, 6);
  EXPECT_THAT(lost.out, HasSubstr("2.6.0-h200-2of2 is missing"));
  EXPECT_EQ(recapture("show '" + out + "'").code, 6) << "what the lost shard had is not run";
  two.write(from + "/2.jsonl");
  const Said said = gather();
  EXPECT_EQ(said.code, 0) << said.out;
  const Record merged = read_record(out + "/2.6.0/nvidia-h200.jsonl");
  EXPECT_TRUE(merged.whole());
  EXPECT_THAT(merged.tests, SizeIs(4));
  EXPECT_FALSE(merged.environment.contains("host"));
  two.driver = "2";
  two.write(from + "/2.jsonl");
  const Said mixed = gather();
  EXPECT_EQ(mixed.code, 6);
  EXPECT_THAT(mixed.out, HasSubstr("only shards of one run can be merged"));
  EXPECT_THAT(records_below(out), SizeIs(2)) << "nothing is lost";
  EXPECT_EQ(recapture("show '" + out + "'").code, 6);
}

TEST_F(Nights, ARunOfSomeCasesIsNotTheTask) {
  fs::create_directories(folder + "/cases");
  Catalogue catalogue(1);
  catalogue[0].id = "c1";
  catalogue[0].tests = {{"Reproduces", "reproduces", "raises", ""}, {"Other", "reproduces", "raises", ""}};
  FakeTask().write(from + "/a.jsonl");
  const NightTask task{"2.6.0", "H200", 1, 1};
  const Gathered night = recapture::gather(out, {from}, {task}, catalogue);
  ASSERT_THAT(night.lacks, SizeIs(1));
  EXPECT_THAT(night.lacks[0], HasSubstr("it is a run of some cases only: 1 test of the catalogue is not in its plan"));
}

TEST_F(Nights, AFullDiskLeavesWhatWasThere) {
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
  const Said said = gather("small/night");
  EXPECT_EQ(said.code, 7) << said.out;
  EXPECT_EQ(text_of(folder + "/small/night/2.6.0/nvidia-h200.jsonl"), FakeTask().text());
  EXPECT_FALSE(fs::exists(folder + "/small/night.partial"));
  shell("umount '" + folder + "/small'");
}

TEST_F(Nights, NewsAreSaidOnce) {
  night("2026-01-01");
  const Said first = news();
  EXPECT_EQ(first.code, 6);
  EXPECT_THAT(first.out, HasSubstr("there is no night before it"));
  night("2026-01-02");
  const Said quiet = news();
  EXPECT_EQ(quiet.code, 0) << quiet.out;
  EXPECT_THAT(quiet.out, HasSubstr("nothing new on 2 of 2 machines"));
  night("2026-01-03", that_saw("E"));
  const Said said = news();
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("2.6.0, NVIDIA H200"), HasSubstr("c1 (Reproduces)"), HasSubstr("nothing new on 1 of 2")));
  night("2026-01-04", that_saw("E"));
  const Said again = news();
  EXPECT_EQ(again.code, 0) << again.out;
  EXPECT_EQ(news("--since good").code, 0) << "the night before is whole";
  EXPECT_EQ(
      recapture("good '" + folder + "/nights/2026-01-01/2.6.0/nvidia-h200.jsonl' --records '" + folder + "/nights'")
          .code,
      0);
  EXPECT_EQ(news("--since good").code, 1) << "of what was good it has changed";
  night("2026-01-05");
  EXPECT_EQ(news("--night '" + folder + "/nights/2026-01-03'").out, said.out) << "an earlier night as it was";
  EXPECT_EQ(news("--night 2026-01-03").out, said.out) << "as news itself calls it";
}

TEST_F(Nights, WhatCannotBeComparedIsSaidOnceAndItsFailuresAreNews) {
  FakeTask task;
  task.seen["FixIt"] = "D";
  night("2026-01-01", task);
  task.hash = "i";
  night("2026-01-02", task);
  const Said edited = news();
  EXPECT_EQ(edited.code, 6) << edited.out;
  EXPECT_THAT(edited.out, AllOf(HasSubstr("nothing to compare with\n  3 tests of c1: the code of the case has changed"),
                                HasSubstr("nothing new on 1 of 2 machines")));
  EXPECT_THAT(news("--markdown").out,
              AllOf(HasSubstr("## nothing to compare with\n\n* `3 tests of c1: the code"), Not(HasSubstr("0 judged"))));
  night("2026-01-03", task);
  EXPECT_EQ(news().code, 0);
  task.hash = "j";
  task.seen["FixIt"] = "it is wrong";
  night("2026-01-04", task);
  const Said broken = news();
  EXPECT_EQ(broken.code, 1) << broken.out;
  EXPECT_THAT(broken.out, HasSubstr("and nothing to compare with\n  c1.FixIt: fix fails: c.cpp:1: it is wrong\n"));
  const Json issues = parse_json(news("--issue").out);
  ASSERT_THAT(issues, SizeIs(1));
  EXPECT_EQ(issues[0].at("title"), "c1: fix fails");
  EXPECT_EQ(parse_json(news("--json").out).at("machines")[1].at("not_compared"),
            Json({"3 tests of c1: the code of the case has changed"}));
  night("2026-01-05", task);
  EXPECT_EQ(news().code, 0) << "once";
  task.seen["ReproducesLate"] = "D";
  night("2026-01-06", task);
  const Said added = news();
  EXPECT_EQ(added.code, 6) << added.out;
  EXPECT_THAT(added.out, HasSubstr("  1 test of c1: no clear result before\n"));
  task.seen.erase("ReproducesLate");
  night("2026-01-07", task);
  const Said removed = news();
  EXPECT_EQ(removed.code, 6) << removed.out;
  EXPECT_THAT(removed.out, HasSubstr("  1 test of c1: not part of tonight's run\n"));
  night("2026-01-08", task);
  EXPECT_EQ(news().code, 0);
}

TEST_F(Nights, ARaceThatCrashesIsNewsAndOneThatIsNotSeenIsNone) {
  const auto race = [&](const std::string& name, int hits) {
    FakeTask task;
    task.seen["ReproducesAtRate"] = "SIGSEGV";
    if (hits >= 0) task.rates["ReproducesAtRate"] = hits;
    night(name, task);
    return news();
  };
  race("2026-01-01", 3);
  EXPECT_EQ(race("2026-01-02", 0).code, 0);
  const Said crashed = race("2026-01-03", -1);
  EXPECT_EQ(crashed.code, 1) << crashed.out;
  EXPECT_THAT(crashed.out, AllOf(HasSubstr("new failures"), HasSubstr("it crashes\n    c1 (ReproducesAtRate)")));
  EXPECT_EQ(race("2026-01-04", -1).code, 0) << "once";
  EXPECT_EQ(race("2026-01-05", 2).code, 0);
}

TEST_F(Nights, AFlakyTestThatShowsSomethingElseIsNews) {
  night("2026-01-01");
  night("2026-01-02", that_saw("E"));
  night("2026-01-03");
  night("2026-01-04");
  night("2026-01-05", that_saw("SIGSEGV"));
  const Said said = news();
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("new failures"), HasSubstr("c1 (Reproduces)")));
  night("2026-01-06", that_saw("SIGSEGV"));
  EXPECT_EQ(news().code, 0) << "once";
  night("2026-01-07", that_saw("E"));
  EXPECT_EQ(news().code, 0) << "which it has shown before";
  FakeTask unclear = that_saw("E");
  unclear.again = {"E", "F"};
  night("2026-01-08", unclear);
  EXPECT_THAT(news().out, HasSubstr("c1.Reproduces: another run of it tonight")) << "F is something else";
}

TEST_F(Nights, ANightInWhichEverythingDiedIsTheNewest) {
  night("2026-01-01");
  night("2026-01-02");
  fs::remove_all(from);
  fs::create_directories(from);
  EXPECT_EQ(gather("nights/dead").code, 6);
  const Said said = news();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("dead, since 2026-01-02\n2.6.0-h200-1of1 is missing: no record of it\n"),
                              HasSubstr("2.6.0, NVIDIA H200 ran in 2026-01-02 and not tonight")));
}

TEST_F(Nights, AReleaseThatDoesNotRunAnyMoreIsNoGreenNight) {
  night("2026-01-01");
  matrix("[tier.night]\nreleases = ['2.15.0']\ngpus = { H200 = 'sm_90' }\n");
  ASSERT_EQ(recapture("ci plan > '" + plan + "'").code, 0);
  night("2026-01-02");
  const Said said = news();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, HasSubstr("2.6.0, NVIDIA H200 ran in 2026-01-01 and not tonight"));
  night("2026-01-03");
  EXPECT_EQ(news().code, 0) << "once";
}

TEST_F(Nights, WhatAGatheringLeftBehindIsNoNight) {
  night("2026-01-01");
  night("2026-01-02", that_saw("E"));
  const Said right = news();
  EXPECT_EQ(right.code, 1);
  const std::string last = folder + "/nights/2026-01-02";
  for (const char* left : {".before", ".partial"}) fs::copy(last, last + left, fs::copy_options::recursive);
  EXPECT_EQ(news().out, right.out);
  fs::remove_all(last);
  fs::remove_all(last + ".partial");
  const Said gone = news();
  EXPECT_EQ(gone.code, 6) << gone.out;
  EXPECT_THAT(gone.out, AllOf(HasSubstr("2026-01-01\n"), HasSubstr("2026-01-02 is not there: `recapture gather` was"),
                              HasSubstr("2026-01-02.before is left; gather it again")));
}

TEST_F(Nights, AFolderThatMayNotBeReadHidesNoNight) {
  night("2026-01-01");
  night("2026-01-02", that_saw("E"));
  const std::string other = geteuid() == 0 ? "setpriv --reuid 65534 --regid 65534 --clear-groups " : "";
  if (shell(other + command("--version")).code != 0) GTEST_SKIP() << "another user cannot start this program";
  std::vector<std::string> closed;
  for (int i = 0; i < 20; ++i) closed.push_back(fmt::format("{}/nights/{}", folder, i));  // Some come before a night.
  for (const std::string& one : closed) {
    fs::create_directories(one);
    fs::permissions(one, fs::perms::none);
  }
  const Said said = shell(other + command("news '" + folder + "/nights' --night 2026-01-02"));
  for (const std::string& one : closed) fs::permissions(one, fs::perms::owner_all);
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("2026-01-02, since 2026-01-01"), HasSubstr("c1 (Reproduces)"),
                              HasSubstr("/nights/7: cannot read it: Permission denied")));
}

TEST_F(Nights, ARunWithAnotherRuntimeIsNotComparedWithThoseWithoutOne) {
  night("2026-01-01");
  night("2026-01-02");
  FakeTask chosen = that_saw("E");
  chosen.more = {{"cuda_runtime_by", "preload"}};
  chosen.started = "2026-01-02T12:00:00Z";
  chosen.write(folder + "/nights/2026-01-02/2.6.0/nvidia-h200.cuda-12.jsonl");
  const Said said = news();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("2.6.0, NVIDIA H200, CUDA runtime 12: its first night"),
                              Not(HasSubstr("c1 (Reproduces)"))));
}

TEST_F(Nights, ATestThatWasNotJudgedForANightIsComparedWithTheOneBefore) {
  night("2026-01-01");
  FakeTask unclear;
  unclear.seen["Reproduces"] = "E";
  unclear.again = {"E", "F"};
  night("2026-01-02", unclear);
  const Said flaky = news();
  EXPECT_EQ(flaky.code, 1) << flaky.out;
  EXPECT_THAT(flaky.out, AllOf(HasSubstr("flaky now"), HasSubstr("c1.Reproduces: another run of it tonight")));
  night("2026-01-03", unclear);
  EXPECT_THAT(news().out, Not(HasSubstr("flaky now"))) << "once";
}

TEST_F(Nights, ATestThatIsNotJudgedAnyMoreIsNoGreenNight) {
  night("2026-01-01");
  night("2026-01-02", that_saw(""));
  const Said said = news();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("not judged tonight"), HasSubstr("c1.Reproduces: inconclusive")));
  night("2026-01-03", that_saw("E"));
  EXPECT_EQ(news().code, 1) << "against the night that had a result of it";
}

TEST_F(Nights, ATestThatChangesToAndFroIsFlakyOnce) {
  night("2026-01-01");
  night("2026-01-02", that_saw("E"));
  EXPECT_EQ(news().code, 1);
  night("2026-01-03");
  const Said said = news();
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, HasSubstr("c1.Reproduces: this result, another, and this one again"));
  night("2026-01-04", that_saw("E"));
  const Said again = news();
  EXPECT_EQ(again.code, 0) << again.out;
}

TEST_F(Nights, NewsThatHurtNobodyHaveAnExitCodeOfTheirOwn) {
  night("2026-01-01", that_saw("E"));
  night("2026-01-02", that_saw("ok"));
  const Said said = news();
  EXPECT_EQ(said.code, 5) << said.out;
}

TEST_F(Nights, NewsOfWhatNobodyGatheredAreALineAndACode) {
  night("2026-01-01");
  const Said elsewhere = news("--night '" + folder + "'");
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_THAT(elsewhere.out, AllOf(HasSubstr("is no gathered night below"), HasSubstr("the newest is 2026-01-01")));
  fs::create_directories(folder + "/nights/2026-01-03");
  for (const char* name : {"a", "b"}) {
    fs::copy(folder + "/nights/2026-01-01", folder + "/nights/2026-01-03/" + name, fs::copy_options::recursive);
  }
  const Said both = news("--night 2026-01-03");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.out, HasSubstr("2026-01-03 has more than one gathered night; name "));
  EXPECT_EQ(news("--night 2026-01-03/a").code, 0) << "and nothing has changed";
  std::ofstream(folder + "/nights/2026-01-01/night.json") << "{}";
  const Said torn = news();
  EXPECT_EQ(torn.code, 2);
  EXPECT_THAT(torn.out, HasSubstr("not what `recapture gather` writes"));
  const Said nowhere = recapture("gather /proc/tonight '" + from + "' --plan '" + plan + "'");
  EXPECT_EQ(nowhere.code, 7) << nowhere.out;
}

TEST_F(Nights, NewsNameWhatChangedOfTheMachineFirst) {
  night("2026-01-01");
  FakeTask moved = that_saw("E");
  moved.driver = "2";
  night("2026-01-02", moved);
  const Said said = news();
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_LT(said.out.find("driver 1 -> 2"), said.out.find("c1 (Reproduces)")) << said.out;
}

TEST_F(Nights, ANightThatIsNotWholeIsNeverNoNews) {
  night("2026-01-01");
  fs::remove_all(from);
  FakeTask late = newest();
  late.started = "2026-01-02T00:00:00Z";
  late.write(from + "/a.jsonl");
  EXPECT_EQ(gather("nights/2026-01-02").code, 6);
  const Said said = news();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("\n2.6.0-h200-1of1 is missing: no record of it\n"),
                              HasSubstr("2.6.0, NVIDIA H200 ran in 2026-01-01 and not tonight")));
}

TEST_F(Nights, NewsStayBelowGitHubsLimitAndCountWhatTheyLeaveOut) {
  News news;
  for (int i = 0; i < 3; ++i) {
    MachineNews machine;
    machine.comparison.head = {fmt::format("machine {}", i)};
    machine.flaky.assign(4000, std::string(100, 'x'));
    news.machines.push_back(machine);
  }
  const std::string text = as_markdown(news);
  EXPECT_LT(text.size(), 1U << 20);
  EXPECT_THAT(text, AllOf(HasSubstr("machine 1"), Not(HasSubstr("machine 2")), HasSubstr("1 more are left out here")));
}

TEST_F(Nights, AnIssueHasAFingerprintOfItsCause) {
  night("2026-01-01");
  night("2026-01-02", that_saw("E at 0x7f00 in /opt/a/b.so"), that_saw("E at 0x7f01 in /opt/c/d.so"));
  const Json issues = parse_json(news("--issue").out);
  ASSERT_THAT(issues, SizeIs(1)) << "one cause on two releases";
  const std::string fingerprint = issues[0].at("fingerprint"), body = issues[0].at("body");
  EXPECT_THAT(body, AllOf(HasSubstr("LibTorch 2.6.0"), HasSubstr("LibTorch 2.15.0"),
                          HasSubstr("recapture-fingerprint: " + fingerprint)));
  night("2026-01-03");
  for (int day = 4; day < 12; ++day) night(fmt::format("2026-01-{:02}", day));
  night("2026-01-12", that_saw("E at 0x7f99 in /opt/x/y.so"));
  const Json later = parse_json(news("--issue").out);
  ASSERT_THAT(later, SizeIs(1));
  EXPECT_EQ(later[0].at("fingerprint"), fingerprint) << "a recurrence appends";
  night("2026-01-13", that_saw("G"));
  const Json other = parse_json(news("--issue").out);
  ASSERT_THAT(other, SizeIs(1));
  EXPECT_NE(other[0].at("fingerprint"), fingerprint);
}

}  // namespace
}  // namespace recapture

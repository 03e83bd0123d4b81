// `recapture history`: its output for made-up nights, also with damaged or missing records.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "harness/tests/fake_record.h"
#include "harness/tests/fake_tree.h"
#include "harness/tests/namespaces.h"
#include "harness/timeline/runs.h"
#include "harness/verdict/judge.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

Json test_line(const std::string& test, bool good) {
  return {{"test", test}, {"ending", "exited"}, {"code", good ? 0 : 1}, {"ended", good ? "passed" : "failed"}};
}

// One night's run of a case with a failure, a race and a fix.
struct Night {
  std::string day, release = "2.15.0", gpu = "NVIDIA H200", driver = "580.1", runtime = "13.0", revision = "aaaaaaa",
                   broken = "nothing", hash = "h", id = "c", seen = "900", shard = "1/1";
  bool control = true, fix = true;
  int hits = 3;
  std::string run = {};  // "" is one of its own.
  bool complete = true;
  size_t tests = 4;  // How many tests it completed.
  Json volatile_more = Json::object(), more = Json::object();

  std::vector<std::string> lines() const {
    Json about = {{"run", run.empty() ? day + driver + gpu + broken + shard : run}, {"started", day + "T03:00:00Z"}};
    about.update(volatile_more);
    const std::string reproduces = id + ".Reproduces", rate = id + ".ReproducesAtRate";
    std::vector<Json> all = {fake_environment({{"release", release},
                                               {"gpu", gpu},
                                               {"driver", driver},
                                               {"cuda_runtime", runtime},
                                               {"revision", revision},
                                               {"break", broken},
                                               {"shard", shard},
                                               {"volatile", about}}),
                             {{"plan", {id + ".Control", reproduces, rate, id + ".FixIt"}}},
                             fake_case({"Control", "Reproduces", "ReproducesAtRate", "FixIt"},
                                       {{"case", id}, {"hash", hash}, {"documented", "900"}, {"nature", "race"}}),
                             test_line(id + ".Control", control)};
    Json documented = test_line(reproduces, seen == "900");
    all.front().update(more);
    documented.update({{"seen", seen}, {"documented", "900"}, {"healthy", "ok"}, {"volatile", {{"seconds", hits}}}});
    Json race = test_line(rate, hits > 0);
    race.update({{"hits", hits}, {"tries", 100}, {"stopping", "300 captures"}});
    all.insert(all.end(), {documented, race, test_line(id + ".FixIt", fix)});
    all.resize(3 + tests);
    if (complete) all.push_back({{"end", "complete"}, {"volatile", {{"seconds", 9}}}});
    std::vector<std::string> text;
    for (const Json& line : all) text.push_back(line.dump() + "\n");
    return text;
  }
};

std::string day(int number) {
  return fmt::format("20{:02}-{:02}-{:02}", 10 + number / 336, 1 + number / 28 % 12, 1 + number % 28);
}

class History : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    fs::create_directories(nights);
  }
  std::string write(const Night& night, std::string name = "") const {
    if (name.empty()) name = night.day + ".jsonl";
    fs::create_directories(fs::path(nights + "/" + name).parent_path());
    std::ofstream file(nights + "/" + name);
    for (const std::string& line : night.lines()) file << line;
    return nights + "/" + name;
  }
  std::string line(const std::string& arguments) const {
    return command("history " + arguments) + " --records '" + nights + "'";
  }
  ShellResult history(const std::string& arguments) const { return shell(line(arguments)); }
  Json json(const std::string& arguments) const {
    const ShellResult said = history(arguments + " --json");
    const auto parsed = try_parse_json(said.out);
    EXPECT_TRUE(parsed) << said.out;
    return parsed.value_or(Json::array());
  }

  const std::string nights = folder + "/nights";
};

// By record and test the result of judge_record() for the complete record.
using Rows = std::map<std::string, std::string>;
std::string row_text(const TestVerdict& row) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", row.ran, to_string(row.result), to_string(row.verdict),
                     render_observed(row), row.code, row.reason, row.source, row.effect ? to_string(*row.effect) : "",
                     row.release + row.gpu + row.driver, row.family);
}
Rows rows_of_records(const std::string& folder, const Rules& rules) {
  Rows rows;
  for (const Record& record : read_records_below(folder)) {
    const std::string path = fs::path(record.path).lexically_relative(folder);
    for (const TestVerdict& row : judge_record(record, rules)) rows[path + " " + row.test] = row_text(row);
  }
  return rows;
}
TEST_F(History, ChangedOutcomes_HaveDatesCountsAndWhatElseChanged) {
  for (int i = 0; i < 10; ++i) {
    Night night;
    night.day = day(i);
    night.revision = i < 7 ? "aaaaaaa" : "bbbbbbb";
    night.hash = i < 7 ? "h" : "i";
    night.seen = i == 3 ? "905" : i < 7 ? "900" : "ok";
    write(night);
  }
  const ShellResult said = history("c.Reproduces");
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.out, R"(c.Reproduces
  LibTorch 2.15.0, NVIDIA H200, driver 580.1, CUDA runtime 13.0: 10 runs, 2010-01-01 to 2010-01-10
    healthy      newly fixed    since 2010-01-08, 3 runs in a row
                                ok
    reproduced                  6 runs, last on 2010-01-07
                                900
    different                   1 run, on 2010-01-04
                                905
    2010-01-08  reproduced -> healthy; with it revision aaaaaaa -> bbbbbbb, the case's code
    2010-01-05  different -> reproduced; nothing else on record changed
    2010-01-04  reproduced -> different; nothing else on record changed
)");
  const Json all = json("c.Reproduces");
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0]["verdict"], "newly fixed");
  EXPECT_EQ(all[0]["in_a_row"], 3);
  EXPECT_EQ(all[0]["since"]["record"], nights + "/2010-01-08.jsonl");
  EXPECT_EQ(all[0]["outcomes"][1]["runs"], 6);
  EXPECT_EQ(all[0]["changes"][0]["with"][0]["to"], "bbbbbbb");
  EXPECT_EQ(all[0]["changes"][0]["before"]["started"], "2010-01-07T03:00:00Z");
}

TEST_F(History, OperatorThatCannotBeCapturedAnyMore_IsAChange) {
  int day = 0;
  for (const char* out : {"right", "right", "refused"}) {
    const std::string started = fmt::format("2026-01-0{}T00:00:00Z", ++day);
    const Json facts = {{"forward", R"({"samples":{"float32":{"refused":4}}})"},
                        {"out", fmt::format(R"({{"samples":{{"float32":{{"{}":4}}}}}})", out)}};
    FakeRecord record{fake_environment({{"volatile", {{"run", started}, {"started", started}}}}),
                      {fake_test("operators.inv", {{"facts", facts}})},
                      {{"case", "operators"}, {"family", "operators"}}};
    record.write(fmt::format("{}/{}.jsonl", nights, day));
  }
  const Json series = json("operators.inv").at(0);
  EXPECT_EQ(series.at("changes").size(), 1U);
  EXPECT_EQ(series.at("in_a_row"), 1);
  EXPECT_THAT(history("operators.inv").out, AllOf(HasSubstr("holds (forward refused (0 of 4), out captured (4 of 4))"),
                                                  HasSubstr("holds (forward refused (0 of 4), out refused (0 of 4))")));
}

TEST_F(History, RunThatSomebodySent_IsNoEarlierRunOfTheProjectsMachine) {
  for (const char* origin : {"", "somebody"}) {
    Night first, second;
    first.day = day(0);
    second.day = day(1);
    first.driver = "575.9";
    second.driver = "580.1";
    first.seen = "900";
    second.seen = "905";
    if (*origin != '\0') first.more["origin"] = origin;
    write(first);
    write(second);
    const std::string said = history("c.Reproduces").out;
    EXPECT_EQ(said.find("with it driver 575.9 -> 580.1") != said.npos, *origin == '\0') << said;
  }
}

TEST_F(History, OutcomeThatChangedWithTheDriver_NamesTheDriver) {
  for (int i = 0; i < 4; ++i) {
    Night night;
    night.day = day(i);
    night.driver = i < 2 ? "575.9" : "580.1";
    night.seen = i < 2 ? "900" : "905";
    write(night);
  }
  EXPECT_THAT(history("c.Reproduces").out,
              HasSubstr("2010-01-03  reproduced -> different; with it driver 575.9 -> 580.1\n"));
  EXPECT_THAT(history("c.FixIt").out, Not(HasSubstr("->")));
  EXPECT_THAT(json("c.Reproduces --driver 575.9"), SizeIs(1));
  EXPECT_THAT(json("c --gpu h200 --release 2.15.0"), SizeIs(8));
  EXPECT_EQ(json("c --gpu h200 --release 2.15"), json("c --gpu h200 --release 2.15.0"));
  EXPECT_EQ(json("c --gpu h200 --release 2.15.0+cu130"), json("c --gpu h200 --release 2.15.0"));
  EXPECT_EQ(json("c.Reproduces --since 2010-01-04")[0]["runs"], 1);
  for (const char* none : {"--gpu none", "--release 2.6.0", "--driver 1", "--since 2011-01-01"}) {
    const ShellResult said = history(std::string("c ") + none);
    EXPECT_EQ(said.code, 4) << none;
    EXPECT_TRUE(said.is_one_line()) << said.out;
  }
  EXPECT_EQ(history("c --since yesterday").code, 2);
  EXPECT_THAT(history("c --gpu none --json").out, StartsWith("[]\nrecapture: "));
}

TEST_F(History, ShortRelease_IsTheNewestOfItsLine) {
  int number = 0;
  for (const char* release : {"2.14.1", "2.15.0", "2.15.1", "2.16.0.dev20100101", "2.16.0.dev20100102"}) {
    Night night;
    night.day = day(number++);
    night.release = release;
    write(night);
  }
  const auto releases = [&](const std::string& word) {
    std::set<std::string> found;
    for (const Json& one : json("c.Control --release " + word)) found.insert(one["release"].get<std::string>());
    return found;
  };
  EXPECT_EQ(releases("2.15"), std::set<std::string>({"2.15.1"}));
  EXPECT_EQ(releases("2.15.0"), std::set<std::string>({"2.15.0"}));
  EXPECT_EQ(releases("2.16.0.dev20100101"), std::set<std::string>({"2.16.0.dev20100101", "2.16.0.dev20100102"}))
      << "a nightly build matches those of other nights";
}

TEST_F(History, RaceWithoutAHitInOneRun_HasARateAndNoChange) {
  for (int i = 0; i < 6; ++i) {
    Night night;
    night.day = day(i);
    night.hits = i == 3 ? 0 : 30 + i;
    write(night);
  }
  const Json all = json("c.ReproducesAtRate");
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_THAT(all[0]["changes"], IsEmpty());
  EXPECT_EQ(all[0]["in_a_row"], 6);
  EXPECT_EQ(all[0]["rate"]["runs"], 6);
  EXPECT_LT(all[0]["rate"]["low"], all[0]["rate"]["share"]);
  EXPECT_LT(all[0]["rate"]["share"], all[0]["rate"]["high"]);
  const std::string text = history("c.ReproducesAtRate").out;
  EXPECT_THAT(text, HasSubstr("reproduced   as documented  5 runs since 2010-01-01\n"));
  EXPECT_THAT(text, HasSubstr("seen in 5 of 6 runs; "));
}

TEST_F(History, CopiesAndRunsBrokenOnPurpose_AreNotCounted) {
  Night night;
  night.day = day(0);
  night.run = "one";
  write(night);
  write(night, "a copy of it.jsonl");
  night.broken = "trigger";
  write(night, "broken.jsonl");
  EXPECT_EQ(json("c.Reproduces")[0]["runs"], 1);
  // A shard, and the merged record that includes it.
  night.broken = "nothing";
  night.shard = "1/2";
  night.run = "two";
  night.day = day(1);
  write(night, "shard.jsonl");
  EXPECT_EQ(json("c.Reproduces")[0]["runs"], 2);
  night.shard = "1/1";
  night.volatile_more = {{"shards", {{{"run", "two"}}, {{"run", "three"}}}}};
  write(night, "merged.jsonl");
  const Json all = json("c.Reproduces");
  EXPECT_EQ(all[0]["runs"], 2);
  EXPECT_EQ(all[0]["newest"]["record"], nights + "/merged.jsonl");
}

TEST_F(History, TruncatedCopiesOfARun_AreIgnoredForTheCompleteOne) {
  Night night;
  night.day = day(0);
  night.run = "one";
  write(night, "b.jsonl");
  night.complete = false;
  night.tests = 1;
  write(night, "a.jsonl");
  write(night, "c.jsonl");
  // Also if the copy is of a merged record, which has more results of other cases.
  night.volatile_more = {{"shards", {{{"run", "one"}}, {{"run", "two"}}}}};
  write(night, "d.jsonl");
  const Json all = json("c.Reproduces");
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0]["runs"], 1);
  EXPECT_EQ(all[0]["newest"]["record"], nights + "/b.jsonl");
}

// A chosen runtime makes another column: its runs do not continue the release's own.
TEST_F(History, RunsWithAChosenRuntime_AreKeptApart) {
  Night night;
  night.day = day(0);
  write(night);
  night.day = day(1);
  night.runtime = "13.2";
  night.seen = "905";
  const auto changes = [&] { return json("c.Reproduces").back()["changes"]; };
  write(night);
  EXPECT_THAT(changes(), SizeIs(1)) << "of the release's own";
  night.more = {{"cuda_runtime_by", "preload"}};
  write(night);
  EXPECT_THAT(changes(), IsEmpty());
}

TEST_F(History, TestGoneFromTheTree_IsFoundInTheRecords) {
  Night night;
  night.day = day(0);
  night.id = "of_old_days";
  write(night);
  EXPECT_EQ(history("of_old_days").code, 0);
  EXPECT_EQ(history("of_old_days.FixIt").code, 0);
  EXPECT_EQ(history("'of_*'").code, 0);
  const ShellResult said = history("of_old_day.FixIt");
  EXPECT_EQ(said.code, 2);
  EXPECT_TRUE(said.is_one_line()) << said.out;
  EXPECT_THAT(said.out, HasSubstr("did you mean of_old_days"));
  EXPECT_EQ(history("").code, 2);
}

TEST_F(History, BadInput_IsOneLineWithItsExitCode) {
  const ShellResult empty = history("c");
  EXPECT_EQ(empty.code, 4);
  EXPECT_TRUE(empty.is_one_line()) << empty.out;
  const ShellResult nowhere = shell(command("history c --records '" + folder + "/nowhere'"));
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_TRUE(nowhere.is_one_line()) << nowhere.out;
  const ShellResult file = shell(command("history c --records '" + folder + "/ci/matrix.toml'"));
  EXPECT_EQ(file.code, 2);
  EXPECT_TRUE(file.is_one_line()) << file.out;
  Night night;
  night.day = day(0);
  write(night);
  EXPECT_EQ(history("c >/dev/full").code, 7);
  EXPECT_EQ(recapture("show --records '" + nights + "'").code, 0);
  EXPECT_EQ(recapture("show --records '" + folder + "/nowhere'").code, 2);
  EXPECT_EQ(recapture("show --records '" + nights + "' " + record()).code, 2);
  const ShellResult closed = shell("(" + line("c") + "; echo $? >'" + folder + "/code') | true");
  EXPECT_EQ(text_of(folder + "/code"), "0\n");
}

TEST_F(History, UnreadableRecord_IsSkippedNamedAndCounted) {
  Night night;
  night.day = day(0);
  write(night);
  std::ofstream(nights + "/garbage.jsonl") << "{\"recapture\":2\n";
  std::ofstream(nights + "/empty.jsonl");
  fs::create_directories(nights + "/below");
  ASSERT_EQ(mkfifo((nights + "/below/pipe.jsonl").c_str(), 0600), 0);
  const ShellResult said = history("c.Reproduces");
  EXPECT_EQ(said.code, 6);
  EXPECT_THAT(said.out, StartsWith("c.Reproduces\n"));
  EXPECT_THAT(said.out, HasSubstr("garbage.jsonl: 1: not a line of a record"));
  EXPECT_THAT(said.out, HasSubstr("empty.jsonl: not a record: it is empty"));
  EXPECT_THAT(said.out, HasSubstr("pipe.jsonl: cannot read it: it is not a regular file"));
  EXPECT_THAT(said.out, HasSubstr("recapture: 3 records cannot be read"));
  std::ofstream(nights + "/garbage.jsonl") << Night{day(1)}.lines()[0];
  EXPECT_THAT(history("c.Reproduces").out, HasSubstr("2 records cannot be read"));
  fs::create_symlink("nowhere", nights + "/link.jsonl");
  EXPECT_THAT(history("c.Reproduces").out, HasSubstr("link.jsonl: cannot read it: No such file or directory"));
}

TEST_F(History, GrowingReplacedOrRemovedRecord_IsFollowed) {
  Night night;
  night.day = day(0);
  const auto lines = night.lines();
  const std::string path = nights + "/r.jsonl";
  std::ofstream(path) << lines[0] << lines[1] << lines[2];
  EXPECT_EQ(history("c.Reproduces").code, 4);
  for (size_t i = 3; i < 6; ++i) std::ofstream(path, std::ios::app) << lines[i];
  std::ofstream(path, std::ios::app) << lines[6].substr(0, 9);  // A run that is writing a line.
  EXPECT_EQ(json("c.Reproduces")[0]["result"], "reproduced");
  EXPECT_EQ(history("c.FixIt").code, 4);
  std::ofstream(path, std::ios::app) << lines[6].substr(9) << lines[7];
  EXPECT_EQ(json("c.FixIt")[0]["result"], "holds");
  // Replaces it, with the same size.
  night.fix = false;
  std::string other;
  for (const std::string& line : night.lines()) other += line;
  std::ofstream(path) << other;
  EXPECT_EQ(json("c.FixIt")[0]["result"], "broken");
  fs::rename(path, nights + "/moved.jsonl");
  EXPECT_EQ(json("c.FixIt")[0]["newest"]["record"], nights + "/moved.jsonl");
  fs::remove(nights + "/moved.jsonl");
  EXPECT_EQ(history("c.FixIt").code, 4);
}

// As a user who cannot write to the records' folder, or read all of them.
TEST_F(History, WithoutPermissions_ReadsTheOthersAndNamesThese) {
  for (int i = 0; i < 3; ++i) write(Night{day(i)});
  write(Night{day(3)}, "below/r.jsonl");
  const std::string other = geteuid() == 0 ? "setpriv --reuid 65534 --regid 65534 --clear-groups " : "";
  if (shell(other + command("--version")).code != 0) GTEST_SKIP() << "another user cannot start this program";
  const auto by_other = [&](const std::string& arguments) {
    const std::string whole = line(arguments);
    return shell(other + whole);
  };
  const std::string right = history("c.Reproduces").out;
  fs::permissions(nights, fs::perms::owner_write, fs::perm_options::remove);
  const ShellResult all = by_other("c.Reproduces");
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.out, right);
  fs::permissions(nights, fs::perms::owner_write, fs::perm_options::add);
  fs::permissions(nights + "/" + day(0) + ".jsonl", fs::perms::none);
  fs::permissions(nights + "/below", fs::perms::none);
  fs::permissions(nights, fs::perms::owner_write, fs::perm_options::remove);
  const ShellResult said = by_other("c.Reproduces");
  const std::string show = command("show --records '" + nights + "'");
  const ShellResult shown = shell(other + show);
  fs::permissions(nights, fs::perms::owner_all);
  fs::permissions(nights + "/below", fs::perms::owner_all);
  EXPECT_EQ(said.code, 6);
  EXPECT_THAT(said.out, HasSubstr("2 runs, 2010-01-02 to 2010-01-03"));
  EXPECT_THAT(said.out, HasSubstr(day(0) + ".jsonl: cannot read it: Permission denied"));
  EXPECT_THAT(said.out, HasSubstr("below: cannot read it: Permission denied"));
  EXPECT_THAT(said.out, HasSubstr("recapture: 2 records cannot be read"));
  EXPECT_EQ(shown.code, 7) << shown.out;
  EXPECT_EQ(shown.out, "recapture: " + nights + "/below: cannot read it: Permission denied\n");
}

// Fails if a rule judges by lines that are not read for a single case.
TEST(Runs, ACaseAlone_IsJudgedAsInItsRecord) {
  const std::string folder = RECAPTURE_ROOT "/reports/2.6.0";
  const Rules rules = rules_of(RECAPTURE_ROOT, {.recorder = true});
  const Rows right = rows_of_records(folder, rules);
  std::set<std::string> cases;
  for (const Record& record : runs_below(folder, {}).records) {
    for (const std::string& test : record.plan) cases.insert(case_of(test));
  }
  Rows rows;
  for (const std::string& id : cases) {
    for (const Record& record : runs_below(folder, {id}).records) {
      for (const TestVerdict& row : judge_record(record, rules)) rows[record.path + " " + row.test] = row_text(row);
    }
  }
  EXPECT_GE(right.size(), 1000U);
  EXPECT_EQ(rows, right);
}

}  // namespace
}  // namespace recapture

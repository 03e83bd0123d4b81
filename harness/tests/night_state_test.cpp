// The state that a night hands to the next one: what it keeps, what breaks it, and what a person may begin again.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <random>

#include "harness/case/source_hash.h"
#include "harness/nightly/accepted.h"
#include "harness/nightly/state_file.h"
#include "harness/tests/fake_nights.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class NightStates : public FakeNights {
 protected:
  std::string state_of(const std::string& night) const { return folder + "/nights/" + night + "/state.json"; }
  // Changes the state, with the right hash.
  void change(const std::string& night, const std::function<void(Json&)>& edit) const {
    Json body = parse_json(text_of(state_of(night))).at("body");
    edit(body);
    const std::string text = to_text(body);
    std::ofstream(state_of(night)) << "{\"state\":1,\"hash\":\"" << hash_of(text) << "\",\n\"body\":" << text << "}\n";
  }
  // All places' first test of this name.
  static Json& test_in(Json& body, const std::string& name) {
    for (Json& place : body.at("places")) {
      if (place.at("tests").contains(name)) return place.at("tests").at(name);
    }
    throw std::runtime_error("no " + name);
  }
  int begin() const {
    night("2026-01-01", with_fix());
    return diff("--first").code;
  }
};

// Random nights of two releases: with the state, the last night alone says what all nights say.
TEST_F(NightStates, LastNightAlone_SaysWhatAllNightsSay) {
  std::mt19937 random(20261129);
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  const std::string all = folder + "/all";
  fs::create_directories(all);
  FakeTask task;
  task.seen["FixIt"] = "D";
  task.seen["Control"] = "D";
  task.seen["ReproducesAtRate"] = "D";
  for (int morning = 1; morning <= 30; ++morning) {
    const std::string name = fmt::format("2026-01-{:02}", morning);
    std::vector<FakeTask> tasks;
    for (const char* release : {"2.6.0", "2.15.0"}) {
      if (morning > 1 && one_in(8)) continue;
      FakeTask tonight = task;
      tonight.release = release;
      for (const auto& [test, values] :
           std::map<std::string, std::vector<std::string>>{{"FixIt", {"it is wrong", "SIGSEGV", ""}},
                                                           {"Control", {"no", "D"}},
                                                           {"Reproduces", {"ok", "E", "SIGSEGV", ""}}}) {
        if (morning > 1 && one_in(4)) tonight.seen[test] = values[random() % values.size()];
      }
      tonight.rates["ReproducesAtRate"] = one_in(3) ? 4 : 0;
      if (one_in(10)) tonight.hash = "i";
      if (one_in(10)) tonight.driver = "2";
      if (one_in(10)) tonight.seen.erase("ReproducesTwice");
      tasks.push_back(tonight);
    }
    night_of(name, tasks);
    fs::copy(folder + "/nights/" + name, all + "/" + name, fs::copy_options::recursive);
    for (const auto& entry : fs::directory_iterator(folder + "/nights")) {  // The last night and its state stay.
      if (entry.path().filename() < fmt::format("2026-01-{:02}", morning - 1)) fs::remove_all(entry.path());
    }
    const ShellResult with_state = diff(morning == 1 ? "--first" : "");
    const ShellResult from_all = recapture("nightly diff --first '" + all + "'");
    ASSERT_EQ(with_state.out, from_all.out) << morning;
    ASSERT_EQ(with_state.code, from_all.code) << morning;
    ASSERT_EQ(diff("--issue").out, recapture("nightly diff --first --issue '" + all + "'").out) << morning;
  }
}

struct Damage {
  std::string name;
  std::function<void(const std::string& path)> damage;
  std::string line;
};

TEST_F(NightStates, DamagedState_IsOneLineAndNeverGreen) {
  ASSERT_EQ(begin(), 0);
  night("2026-01-02", with_fix());
  ASSERT_EQ(diff().code, 0);
  fs::remove(state_of("2026-01-02"));
  const std::string path = state_of("2026-01-01"), good = text_of(path), kept = folder + "/kept.json";
  std::ofstream(kept) << good;
  const auto write = [&](const std::string& text) {
    return [text](const std::string& to) { std::ofstream(to) << text; };
  };
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    text.replace(text.find(what), what.size(), by);
    return write(text);
  };
  const auto edited = [&](const std::function<void(Json&)>& edit) {
    return [this, edit](const std::string&) { change("2026-01-01", edit); };
  };
  const std::vector<Damage> all = {
      {"gone", [](const std::string& to) { fs::remove(to); }, "no state of an earlier night; `recapture nightly diff"},
      {"empty", write(""), "it is cut or is not JSON"},
      {"cut in half", write(good.substr(0, good.size() / 2)), "it is cut or is not JSON"},
      {"cut by two characters", write(good.substr(0, good.size() - 2)), "it is cut or is not JSON"},
      {"random bytes", write("\x00\xff\x1b[31m"), "it is cut or is not JSON"},
      {"nested deeply", write(std::string(100'000, '[')), "it is cut or is not JSON"},
      {"a key twice", replaced("\"hash\":", "\"state\":1,\"hash\":"), "it is cut or is not JSON"},
      {"a list", write("[]\n"), "it is cut or is not JSON"},
      {"another object", write("{}\n"), "it is not what `recapture nightly diff` writes"},
      {"a later format", replaced("\"state\":1", "\"state\":2"), "its format is 2, and this program reads 1"},
      {"its format as text", replaced("\"state\":1", "\"state\":\"1\""),
       "it is not what `recapture nightly diff` writes"},
      {"a date edited", replaced("\"2026-01-01\"", "\"2026-01-02\""), "it has changed since it was written"},
      {"without its hash", replaced("\"hash\"", "\"cash\""), "it has changed since it was written"},
      {"100 MB", [](const std::string& to) { fs::resize_file(to, 100'000'000); },
       "it has 100000000 bytes, and a state has at most"},
      {"a link to a state",
       [kept](const std::string& to) {
         fs::remove(to);
         fs::create_symlink(kept, to);
       },
       "it is a link"},
      {"a link to a device",
       [](const std::string& to) {
         fs::remove(to);
         fs::create_symlink("/dev/zero", to);
       },
       "it is a link"},
      {"a pipe",
       [](const std::string& to) {
         fs::remove(to);
         ASSERT_EQ(mkfifo(to.c_str(), 0600), 0);
       },
       "it is not a file"},
      {"a folder",
       [](const std::string& to) {
         fs::remove(to);
         fs::create_directory(to);
       },
       "it is not a file"},
      {"of another plan", edited([](Json& body) {
         body.at("plan").erase(1);
         body.at("plan").at(0)["release"] = "2.1.2";
       }),
       "it is of another plan: it has no task of tonight"},
      {"without a night", edited([](Json& body) { body.erase("night"); }), "it is not a state: it has no 'night'"},
      {"with one place twice", edited([](Json& body) { body.at("places").push_back(body.at("places").at(0)); }),
       "it is not a state: it has one place twice"},
      {"a baseline that is not in it", edited([](Json& body) { test_in(body, "c1.FixIt")["baseline"] = 7; }),
       "it is not a state: a baseline that is not in it"},
      {"a baseline of another test", edited([](Json& body) {
         body["places"][0]["tests"]["c1.Other"] = {{"history", 0}, {"baseline", 0}};
       }),
       "it is not a state: a baseline without its result"},
      {"a history that is not in it", edited([](Json& body) { test_in(body, "c1.FixIt")["history"] = 99; }),
       "it is not a state: "},
      {"a test with ESC in its name", edited([](Json& body) {
         body["places"][0]["tests"]["c1.\x1b[31m"] = {{"history", 0}};
       }),
       "it is not a state: a test's name"},
      {"an unknown verdict", edited([](Json& body) {
         for (Json& run : body["places"][0]["runs"]) {
           for (auto& row : run.at("rows")) row["verdict"] = "fine\x1b[31m";
         }
       }),
       "it is not a state: there is no verdict 'fine\\x1b[31m'"},
      {"numbers in place of texts", edited([](Json& body) {
         body["runs"] = Json({{"a", 1}});
       }),
       "it is not a state: "},
      {"a place that is a number", edited([](Json& body) { body["places"] = Json::array({1}); }),
       "it is not a state: "},
  };
  ASSERT_GE(all.size(), 20U);
  for (const Damage& each : all) {
    fs::remove_all(path);
    std::ofstream(path) << good;
    each.damage(path);
    const ShellResult said = diff();
    SCOPED_TRACE(each.name + ":\n" + said.out);
    EXPECT_EQ(said.code, 6);
    EXPECT_THAT(said.out, AllOf(HasSubstr(each.line), Not(HasSubstr("\x1b"))));
    EXPECT_FALSE(fs::exists(state_of("2026-01-02"))) << "each later morning says so as well";
  }
  fs::remove_all(path);
  EXPECT_EQ(diff("--first").code, 0) << "a person begins again";
  night("2026-01-03", with_fix());
  EXPECT_EQ(diff().code, 0);
  EXPECT_THAT(text_of(state_of("2026-01-03")),
              HasSubstr(R"("first":{"night":"2026-01-01","started":"2026-01-01T00:00:00Z",)"
                        R"("chosen":"2026-01-02","date":"2026-01-02"})"));
}

TEST_F(NightStates, NamesWithControlCharacters_AreShownEscaped) {
  ASSERT_EQ(begin(), 0);
  night("2026-01-02", with_fix("it is wrong"));
  ASSERT_EQ(diff().code, 1);
  change("2026-01-02", [](Json& body) { test_in(body, "c1.FixIt")["since"] = "\x1b[31m2026\n"; });
  night("2026-01-03", with_fix("it is wrong"));
  const ShellResult said = diff();
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("1 still since \\x1b[31m2026\\n"), Not(HasSubstr("\x1b"))));
}

TEST_F(NightStates, DamagedStateWithAnOlderOne_LosesNothing) {
  ASSERT_EQ(begin(), 0);
  night("2026-01-02", with_fix("it is wrong"));
  ASSERT_EQ(diff().code, 1);
  std::ofstream(state_of("2026-01-02")) << "{";
  night("2026-01-03", with_fix());
  const ShellResult said = diff();
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("2026-01-02/state.json: it is cut"), HasSubstr("healed; it was red since 2026-01-02")));
  night("2026-01-04", with_fix());
  EXPECT_EQ(diff().code, 0);
}

// Each was made where the other was not, as two jobs do that run at once.
TEST_F(NightStates, TwoNightsThatEndAtOnce_LoseNothing) {
  const std::string nights = folder + "/nights/";
  ASSERT_EQ(begin(), 0);
  const auto night_alone = [&](const std::string& name, const FakeTask& old, const FakeTask& now,
                               const std::string& other) {
    if (!other.empty()) fs::rename(nights + other, folder + "/aside");
    night(name, old, now);
    EXPECT_EQ(diff().code, 1);
    if (!other.empty()) fs::rename(folder + "/aside", nights + other);
  };
  night_alone("2026-01-02", with_fix("it is wrong"), with_fix(), "");
  night_alone("2026-01-03", with_fix("it is wrong"), that_saw("SIGSEGV"), "2026-01-02");
  night("2026-01-04", with_fix("it is wrong"), with_fix());
  const ShellResult said = diff();
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, HasSubstr("red on 3 of 4 nights: 2026-01-02, 03, 04")) << "each night counts";
}

TEST_F(NightStates, ManyWritersAtOnce_LeaveOneState) {
  ASSERT_EQ(begin(), 0);
  const std::string expected = text_of(state_of("2026-01-01"));
  fs::remove(state_of("2026-01-01"));
  std::string all;
  for (int i = 0; i < 8; ++i) all += command("nightly diff --first '" + folder + "/nights'") + " >/dev/null & ";
  EXPECT_EQ(shell(all + "wait").code, 0);
  EXPECT_EQ(text_of(state_of("2026-01-01")), expected);
  for (const auto& entry : fs::directory_iterator(folder + "/nights/2026-01-01")) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".part")));
  }
}

TEST_F(NightStates, StateThatCannotBeWritten_IsAnError) {
  ASSERT_EQ(begin(), 0);
  night("2026-01-02", with_fix());
  fs::create_directory(state_of("2026-01-02"));
  const ShellResult said = diff();
  EXPECT_EQ(said.code, 7) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("2026-01-02: green: 0 red"), HasSubstr("state.json: cannot write it: ")));
  EXPECT_TRUE(fs::is_directory(state_of("2026-01-02")));
}

TEST_F(NightStates, State_HoldsNoCommandAndNoOutput) {
  FakeTask task = with_fix();
  night("2026-01-01", task);
  std::string text = text_of(folder + "/nights/2026-01-01/2.6.0/nvidia-h200.jsonl");
  const std::string line = R"({"test":"c1.FixIt",)";
  text.replace(text.find(line), line.size(), line + R"("command":"rm -rf /home/anna","last_words":"of anna",)");
  std::ofstream(folder + "/nights/2026-01-01/2.6.0/nvidia-h200.jsonl") << text;
  ASSERT_EQ(diff("--first").code, 0);
  EXPECT_THAT(text_of(state_of("2026-01-01")), AllOf(HasSubstr("c1.FixIt"), Not(HasSubstr("command")),
                                                     Not(HasSubstr("anna")), Not(HasSubstr("build/recapture"))));
}

TEST_F(NightStates, EarlierNight_IsReportedAndItsStateStays) {
  ASSERT_EQ(begin(), 0);
  night("2026-01-02", with_fix("it is wrong"));
  ASSERT_EQ(diff().code, 1);
  const std::string before = text_of(state_of("2026-01-01"));
  night("2026-01-03", with_fix("it is wrong"));
  ASSERT_EQ(diff().code, 1);
  EXPECT_EQ(diff("--night 2026-01-01").code, 0);
  EXPECT_EQ(text_of(state_of("2026-01-01")), before);
  EXPECT_THAT(diff("--night 2026-01-02").out, HasSubstr("1 red (1 new)"));
}

TEST_F(NightStates, BeginningAgain_ForgetsEarlierNights) {
  ASSERT_EQ(begin(), 0);
  night("2026-01-02", with_fix("it is wrong"));
  ASSERT_EQ(diff().code, 1);
  matrix("[tier.night]\nreleases = ['2.15.0']\ngpus = { H200 = 'sm_90' }\n");
  ASSERT_EQ(recapture("nightly plan > '" + plan + "'").code, 0);
  night("2026-01-03");
  EXPECT_EQ(diff().code, 6);
  EXPECT_EQ(diff("--first --from 2026-01-03").code, 0);
  EXPECT_EQ(diff().code, 0) << "another report of that night begins in the same way";
  night("2026-01-04");
  EXPECT_EQ(diff().code, 0);
  EXPECT_EQ(diff("--from 2026-01-03").code, 2);
  EXPECT_EQ(diff("--first --from 2026-01-09").code, 2);
}

TEST_F(NightStates, AcceptedFile_WithAnError_GetsOneLine) {
  ASSERT_EQ(begin(), 0);
  const std::string good = "test = 'c1.FixIt'\nmachine = '2.6.0, NVIDIA H200'\nreason = 'see #7'\nuntil = 2026-03-01\n";
  const auto with = [&](const std::string& was, const std::string& is) {
    std::string text = good;
    text.replace(text.find(was), was.size(), is);
    return "[[accepted]]\n" + text;
  };
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"accepted = 1\n", "write [[accepted]]"},
           {"[[accept]]\n", "unknown key 'accept'"},
           {with("see #7", "it is flaky"), "the reason names neither a record (reports/….jsonl) nor an issue"},
           {with("see #7", "it has 7 issues"), "the reason names neither a record"},
           {with("c1.FixIt", "FixIt"), "test 'FixIt' is not CASE.TEST, CASE.* or *"},
           {with("2.6.0, NVIDIA H200", "H200"), "machine 'H200' is not such as"},
           {with("until = 2026-03-01", "until = '2026-03-01'"), "until is not a date such as 2027-05-01"},
           {with("until = 2026-03-01", "until = 2027-02-30"), ""},
           {with("until = 2026-03-01", "who = 'me'"), "unknown key 'who'"},
           {with("\nuntil = 2026-03-01", ""), "until is not a date"},
           {with("see #7", "see #7") + with("see #7", "see #8"), "c1.FixIt on 2.6.0, NVIDIA H200 is in it twice"}}) {
    std::ofstream(folder + "/ci/accepted.toml") << text;
    const ShellResult said = diff();
    SCOPED_TRACE(text + said.out);
    EXPECT_EQ(said.code, 2);
    EXPECT_TRUE(said.is_one_line());
    EXPECT_THAT(said.out, HasSubstr("ci/accepted.toml"));
    EXPECT_THAT(said.out, HasSubstr(words));
  }
}

TEST_F(NightStates, EntryForTooLongATimeOrAnotherMachine_DoesNotCount) {
  FakeTask task = with_fix();
  task.seen["ReproducesLate"] = "";
  night("2026-01-01", task);
  const auto code_with = [&](const std::string& test, const std::string& machine, const std::string& until) {
    std::ofstream(folder + "/ci/accepted.toml")
        << "[[accepted]]\ntest = '" << test << "'\nmachine = '" << machine
        << "'\nreason = 'reports/2.6.0/nvidia-h200.jsonl'\nuntil = " << until << "\n";
    return diff("--first");
  };
  EXPECT_EQ(code_with("c1.ReproducesLate", "2.6.0, NVIDIA H200", "2026-06-30").code, 0);
  EXPECT_EQ(code_with("c1.*", "2.6.0, NVIDIA H200", "2026-01-01").code, 0) << "on its last day";
  const ShellResult late = code_with("c1.ReproducesLate", "2.6.0, NVIDIA H200", "2026-07-01");
  EXPECT_EQ(late.code, 6);
  EXPECT_THAT(late.out, HasSubstr("2026-07-01 is more than 180 days after this night"));
  EXPECT_EQ(code_with("c1.ReproducesLate", "2.15.0, NVIDIA H200", "2026-06-30").code, 6);
  EXPECT_EQ(code_with("c1.ReproducesLat", "2.6.0, NVIDIA H200", "2026-06-30").code, 6);
  EXPECT_EQ(code_with("d.*", "2.6.0, NVIDIA H200", "2026-06-30").code, 6);
  EXPECT_THAT(code_with("c1.*", "2.6.0, NVIDIA H200", "2026-06-30").out,
              HasSubstr("green: 0 red, 1 accepted, 2 machines of 2"));
}

// An entry counts for both, or for neither.
TEST_F(NightStates, ShowOfANight_AcceptsWhatTheDiffAccepts) {
  FakeTask task = with_fix();
  task.seen["ReproducesLate"] = "";
  night("2026-01-01", task);
  const std::string folder_of_night = folder + "/nights/2026-01-01";
  EXPECT_EQ(diff("--first").code, 6);
  EXPECT_EQ(recapture("show '" + folder_of_night + "'").code, 6);
  for (const auto& [test, until] : std::vector<std::pair<std::string, std::string>>{{"c1.ReproducesLate", "2026-06-30"},
                                                                                    {"c1.*", "2026-01-01"},
                                                                                    {"c1.ReproducesLate", "2026-07-01"},
                                                                                    {"c1.ReproducesLate", "2025-12-31"},
                                                                                    {"c1.FixIt", "2026-06-30"}}) {
    std::ofstream(folder + "/ci/accepted.toml")
        << "[[accepted]]\ntest = '" << test << "'\nmachine = '2.6.0, NVIDIA H200'\nreason = 'see #7'\nuntil = " << until
        << "\n";
    const ShellResult said = diff("--first"), shown = recapture("show '" + folder_of_night + "'");
    SCOPED_TRACE(test + " " + until + ":\n" + said.out + shown.out);
    EXPECT_EQ(said.code, shown.code);
    EXPECT_EQ(recapture("show --all '" + folder_of_night + "'").code, shown.code);
    std::string accepted;
    for (const Json& row : parse_json(recapture("show --json '" + folder_of_night + "'").out)) {
      accepted += row.at("accepted").get<std::string>();
    }
    EXPECT_EQ(accepted, said.code == 0 ? "until " + until + ": see #7" : "");
    EXPECT_EQ(shown.out.find("accepted by ci/accepted.toml") != std::string::npos, said.code == 0);
  }
}

TEST_F(NightStates, AcceptanceOfARedTest_DoesNotCount) {
  ASSERT_EQ(begin(), 0);
  std::ofstream(folder + "/ci/accepted.toml")
      << "[[accepted]]\ntest = '*'\nmachine = '2.6.0, NVIDIA H200'\nreason = 'see #7'\nuntil = 2026-03-01\n";
  night("2026-01-02", with_fix("it is wrong"));
  EXPECT_EQ(diff().code, 1);
}

// What `show` cannot judge is what the night does not judge.
TEST_F(NightStates, ShowOfANight_AgreesWithTheDiff) {
  for (const std::string what : {"D", "", "contradictory", "it is wrong", "SIGSEGV"}) {
    for (const std::string test : {"Control", "FixIt", "Reproduces"}) {
      FakeTask task = with_fix();
      task.seen["Control"] = "D";
      task.seen[test] = what;
      fs::remove_all(folder + "/nights");
      night("2026-01-01", task);
      const ShellResult said = diff("--first"), shown = recapture("show '" + folder + "/nights/2026-01-01'");
      SCOPED_TRACE(test + " '" + what + "':\n" + said.out + shown.out);
      std::vector<std::string> unjudged, in_show;
      const Json report = parse_json(diff("--json").out);
      for (const Json& machine : report.at("machines")) {
        for (const Json& group : machine.at("not_judged")) {
          for (const Json& name : group.at("tests"))
            unjudged.push_back(machine.at("release").get<std::string>() + name.get<std::string>());
        }
      }
      for (const Json& row : parse_json(recapture("show --json '" + folder + "/nights/2026-01-01'").out)) {
        const std::string verdict = row.at("verdict");
        if (verdict != "inconclusive" && verdict != "missing") continue;
        in_show.push_back(row.at("release").get<std::string>() + row.at("case").get<std::string>() + "." +
                          row.at("test").get<std::string>());
      }
      std::ranges::sort(unjudged);
      std::ranges::sort(in_show);
      EXPECT_EQ(unjudged, in_show);
      const bool is_as_documented = shown.code == 0;
      EXPECT_EQ(said.code == 0, is_as_documented || (test == "Reproduces" && shown.code == 1));
    }
  }
}

}  // namespace
}  // namespace recapture

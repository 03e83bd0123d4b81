// The table of consequences, cell by cell, and the state after a failure.
#include "harness/compare/consequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "harness/report/change.h"
#include "harness/tests/fake_run.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

using ::testing::HasSubstr;

constexpr std::array<State, kStateCount> kAll = {State::Works, State::Warns, State::Raises,  State::SilentlyWrong,
                                                 State::Leaks, State::Hangs, State::Crashes, State::Absent};

// One letter for each consequence, in its order: D new damage, E new errors, H broken handlers, S stopped holding,
// N no longer captured, t error changed, r damage raises now, v recovers, + healed, h holds again, f new fix,
// C now captured, . the same, ? unknown.
std::string row(Kind kind, State before) {
  const std::string letters = "DEHSNtrv+hfC.?";
  std::string text;
  for (const State now : kAll) text += letters.at(static_cast<size_t>(consequence_of(kind, before, now)));
  return text;
}

std::vector<std::string> table(Kind kind) {
  std::vector<std::string> rows;
  for (const State before : kAll) rows.push_back(row(kind, before));
  return rows;
}

TEST(Consequence, OfAReproduces_IsThisTable) {
  // Works, Warns, Raises, SilentlyWrong, Leaks, Hangs, Crashes, Absent
  EXPECT_EQ(table(Kind::Reproduces), (std::vector<std::string>{".tEDDDD?",  // Works
                                                               "+.EDDDD?",  // Warns
                                                               "++.HHHH?",  // Raises
                                                               "+rr.tDD?",  // SilentlyWrong
                                                               "++ED.DD?",  // Leaks
                                                               "+rrHr.t?",  // Hangs
                                                               "+rrHrt.?",  // Crashes
                                                               "????????"}));
}

TEST(Consequence, OfAFix_HoldsOrDoesNot) {
  EXPECT_EQ(table(Kind::Fix), (std::vector<std::string>{"..SDDDDS",  // It held
                                                        "h..DDDD.",  // warned
                                                        "h..HHHH.",  // raised
                                                        "h....DD.",  // went on with wrong results
                                                        "h..D.DD.",  // leaked
                                                        "h..H....",  // hung
                                                        "h..H....",  // crashed
                                                        "f......."}));
}

TEST(Consequence, OfAnOperator_IsWhetherItIsCaptured) {
  const std::vector<std::string> rows = table(Kind::Operator);
  EXPECT_EQ(rows.at(static_cast<size_t>(State::Works)), ".NNDDDD?");
  EXPECT_EQ(rows.at(static_cast<size_t>(State::Raises)).front(), 'C');
  EXPECT_EQ(rows.at(static_cast<size_t>(State::Raises)).at(static_cast<size_t>(State::Raises)), '.');
  EXPECT_EQ(rows.at(static_cast<size_t>(State::Raises)).at(static_cast<size_t>(State::SilentlyWrong)), 'H');
  EXPECT_EQ(rows.at(static_cast<size_t>(State::SilentlyWrong)).front(), 'C');
  EXPECT_EQ(rows.at(static_cast<size_t>(State::Absent)), "????????");
}

TEST(Consequence, OfAControl_IsThatOfAFixButForWhatIsAbsent) {
  const auto fix = table(Kind::Fix), control = table(Kind::Control);
  for (size_t before = 0; before + 1 < kStateCount; ++before) {
    EXPECT_EQ(control[before].substr(0, kStateCount - 1), fix[before].substr(0, kStateCount - 1));
    EXPECT_EQ(control[before].back(), '?');
  }
  EXPECT_EQ(control.back(), "????????");
}

// The guarantee of a gate: going from a working program to damage is never called anything else.
TEST(Consequence, FromWorksToDamage_IsNewDamageForEveryKind) {
  for (const Kind kind : {Kind::Control, Kind::Reproduces, Kind::Fix}) {
    for (const State now : kAll) {
      EXPECT_EQ(consequence_of(kind, State::Works, now) == Consequence::NewDamage, is_damage(now));
    }
  }
}

TEST(Consequence, WordAndMeaning_AreThereForEachAndReadBack) {
  std::set<std::string_view> words;
  for (size_t i = 0; i < kConsequenceCount; ++i) {
    const auto consequence = static_cast<Consequence>(i);
    EXPECT_TRUE(words.insert(to_string(consequence)).second) << to_string(consequence);
    EXPECT_FALSE(meaning(consequence).empty());
    EXPECT_EQ(consequence_from(to_string(consequence)), consequence);
  }
  EXPECT_EQ(consequence_from("silent now"), std::nullopt);
  EXPECT_TRUE(is_regression(Consequence::StoppedHolding));
  EXPECT_FALSE(is_regression(Consequence::ErrorChanged));
}

State state_of_broken_fix(const std::string& effect, const Json& more) {
  FakeRun run;
  run.effect = effect;
  run.passed("FixIt", false);
  run.tests.back().update(more);
  const JudgedRun judged = run.judged();
  for (const TestVerdict& row : judged.rows) {
    if (row.name == "FixIt") return state_of(row, judged.record);
  }
  return State::Absent;
}

TEST(State, OfAFixThatDoesNotHold_IsSilentWhereItsCaseIsAndOnlyAValueWasWrong) {
  const Json value = {{"assertions", {"cases/f/c.cpp:9: Expected equality of these values:"}}};
  const Json exception = {{"assertions", {":-1: C++ exception with description \"…\" thrown in the test body."}}};
  EXPECT_EQ(state_of_broken_fix("silently wrong", value), State::SilentlyWrong);
  EXPECT_EQ(state_of_broken_fix("silently wrong", exception), State::Raises);
  EXPECT_EQ(state_of_broken_fix("raises", value), State::Raises);
  EXPECT_EQ(state_of_broken_fix("leaks", value), State::Leaks) << "damage that its fix no longer prevents";
  Json coded = value;
  coded["error"] = 900;
  EXPECT_EQ(state_of_broken_fix("silently wrong", coded), State::Raises);
}

TEST(State, OfAFixThatDoesNotHold_NeedsALineWithAFailedValue) {
  for (const Json& assertions : {Json::array(), Json::array({7})}) {
    EXPECT_EQ(state_of_broken_fix("silently wrong", {{"assertions", assertions}}), State::Raises) << assertions;
  }
  EXPECT_EQ(state_of_broken_fix("silently wrong", Json::object()), State::Raises);
  const Json coded = {{"assertions", {"c.cpp:9: 1 != 2"}}, {"exception", "E"}};
  EXPECT_EQ(state_of_broken_fix("silently wrong", coded), State::Raises);
  TestVerdict row;
  row.test = "c.FixIt";
  row.case_id = "c";
  row.kind = Kind::Fix;
  row.result = Result::Broken;
  Record record;
  record.add({fake_test("c.FixIt", {{"assertions", {"c.cpp:9: 1 != 2"}}})});
  EXPECT_EQ(state_of(row, record), State::Raises) << "its case is not described";
  Record described;
  described.cases["c"].effect = Effect::SilentlyWrong;
  EXPECT_EQ(state_of(row, described), State::Raises) << "it has no line";
  described.add({fake_test("c.FixIt", {{"assertions", {"c.cpp:9: 1 != 2"}}})});
  EXPECT_EQ(state_of(row, described), State::SilentlyWrong);
}

TEST(State, OfARow_IsItsResultElseItsEffect) {
  const auto state = [](Kind kind, Result result, std::optional<Effect> effect = {}) {
    TestVerdict row;
    row.kind = kind;
    row.result = result;
    row.effect = effect;
    return state_of(row, {});
  };
  EXPECT_EQ(state(Kind::Operator, Result::Holds), State::Absent);
  EXPECT_EQ(state(Kind::Operator, Result::Holds, Effect::Works), State::Works);
  EXPECT_EQ(state(Kind::Operator, Result::Holds, Effect::Raises), State::Raises);
  EXPECT_EQ(state(Kind::Operator, Result::Reproduced), State::SilentlyWrong);
  EXPECT_EQ(state(Kind::Fix, Result::Holds), State::Works);
  EXPECT_EQ(state(Kind::Fix, Result::Holds, Effect::Raises), State::Works);
  EXPECT_EQ(state(Kind::Reproduces, Result::Inapplicable), State::Absent);
  EXPECT_EQ(state(Kind::Reproduces, Result::Healthy), State::Works);
  EXPECT_EQ(state(Kind::Reproduces, Result::Unseen), State::Works);
  EXPECT_EQ(state(Kind::Reproduces, Result::Crashed, Effect::Raises), State::Crashes);
  EXPECT_EQ(state(Kind::Reproduces, Result::Hung, Effect::Raises), State::Hangs);
  EXPECT_EQ(state(Kind::Fix, Result::Broken), State::Raises);
  EXPECT_EQ(state(Kind::Fix, Result::Broken, Effect::Warns), State::Raises);
  EXPECT_EQ(state(Kind::Reproduces, Result::Different), State::SilentlyWrong) << "what has no effect on record";
  for (const auto& [effect, expected] :
       {std::pair(Effect::Leaks, State::Leaks), {Effect::Hangs, State::Hangs}, {Effect::Crashes, State::Crashes}}) {
    EXPECT_EQ(state(Kind::Fix, Result::Broken, effect), expected);
    EXPECT_EQ(state(Kind::Reproduces, Result::Reproduced, effect), expected);
  }
  for (const auto& [effect, expected] : {std::pair(Effect::Works, State::Works),
                                         {Effect::Warns, State::Warns},
                                         {Effect::Raises, State::Raises},
                                         {Effect::SilentlyWrong, State::SilentlyWrong}}) {
    EXPECT_EQ(state(Kind::Reproduces, Result::Reproduced, effect), expected);
  }
}

TestRecord probed(const std::string& random, const std::string& trim = "ok", const std::string& sticky = "none") {
  return {
      {{"probes", {{"stream", "none"}, {"sticky", sticky}, {"random", random}, {"trim", trim}, {"capture", "ok"}}}}};
}

TEST(Aftermath, Probes_AreComparedByWhatAHandlerCanGoOnWith) {
  const std::string refused = "Offset increment outside graph capture";
  EXPECT_EQ(compare_aftermath(probed("ok"), probed("ok")), Aftermath::Same);
  EXPECT_EQ(compare_aftermath(probed("ok"), probed(refused)), Aftermath::Worse);
  EXPECT_EQ(compare_aftermath(probed(refused), probed("ok")), Aftermath::Better);
  EXPECT_EQ(compare_aftermath(probed(refused), probed("another text")), Aftermath::Same);
  EXPECT_EQ(compare_aftermath(probed("ok", "keeps the memory"), probed("ok")), Aftermath::Better);
  EXPECT_EQ(compare_aftermath(probed("ok"), probed("ok", "keeps the memory")), Aftermath::Same) << "it is usable";
  EXPECT_EQ(compare_aftermath(probed("ok"), probed("ok", "ok", "401, 0")), Aftermath::Same)
      << "the pending error alone";
  EXPECT_EQ(compare_aftermath(probed("ok"), probed("ok", "ok", "0, 900")), Aftermath::Worse);
  EXPECT_EQ(compare_aftermath(probed("ok", "assert"), probed(refused)), Aftermath::Worse) << "one worse is enough";
  EXPECT_EQ(compare_aftermath(probed(refused), TestRecord{Json::object()}), Aftermath::Same) << "not on record";
  EXPECT_THAT(changed_probes(probed("ok"), probed(refused), false),
              ::testing::ElementsAre(ProbeResult{Probe::Random, refused}));
  EXPECT_THAT(changed_probes(probed(refused), probed("ok"), true),
              ::testing::ElementsAre(ProbeResult{Probe::Random, "ok"}));
  for (const bool better : {false, true}) {
    EXPECT_THAT(changed_probes(probed(refused), probed("another text"), better), ::testing::IsEmpty()) << better;
  }
}

TEST(Aftermath, ProbeThatOneSideLacks_IsNotCompared) {
  const TestRecord few{{{"probes", {{"sticky", "none"}}}}};
  const TestRecord bad = probed("Offset increment outside graph capture");
  EXPECT_EQ(compare_aftermath(few, bad), Aftermath::Same);
  EXPECT_EQ(compare_aftermath(bad, few), Aftermath::Same);
}

}  // namespace
}  // namespace recapture

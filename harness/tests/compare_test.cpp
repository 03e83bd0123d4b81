// What a comparison says, and what a gate makes of it: every consequence, every exit code.
#include "harness/compare/compare.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "harness/compare/format.h"
#include "harness/compare/policy.h"
#include "harness/tests/fake_run.h"
#include "harness/tests/shell.h"

namespace recapture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kRaised = "900 > invalidated > 901";

Background background() {
  Background background;
  CatalogueCase one;
  one.id = "c";
  one.family = "f";
  one.title = "A title";
  one.why = "It happens to those who use a custom generator.";
  one.tests = {{"Control", "control", "", ""}, {"FixIt", "fix", "", "Do it."}};
  for (const char* name : {"Reproduces", "ReproducesAtRate", "ReproducesB", "ReproducesC", "ReproducesElsewhere",
                           "ReproducesGone", "ReproducesMemoryKept", "ReproducesTwo"}) {
    one.tests.push_back({name, "reproduces", "raises", ""});
  }
  background.catalogue = {one};
  return background;
}

Comparison compared(const std::vector<FakeRun>& from, const std::vector<FakeRun>& to,
                    const Background& with = background()) {
  Side before{"2.6.0", {}}, now{"2.15.0", {}};
  for (const FakeRun& run : from) before.runs.push_back(run.judged());
  for (FakeRun run : to) {
    run.release = "2.15.0";
    now.runs.push_back(run.judged());
  }
  return compare(before, now, with);
}

const ComparedTest& test_of(const Comparison& comparison, const std::string& name = "Reproduces") {
  for (const ComparedTest& test : comparison.tests) {
    if (test.test == "c." + name) return test;
  }
  static const ComparedTest kNone;
  ADD_FAILURE() << "no test " << name;
  return kNone;
}

Consequence consequence(const std::string& effect, const std::string& before, const std::string& now) {
  FakeRun one, other;
  one.effect = other.effect = effect;
  return test_of(compared({one.saw(before)}, {other.saw(now)})).consequence;
}

TEST(Compare, TellsEveryConsequence) {
  using C = Consequence;
  const std::vector<std::tuple<std::string, std::string, std::string, C>> table = {
      {"silently wrong", kRaised, "D", C::SilentNow},
      {"leaks", kRaised, "D", C::SilentNow},
      {"raises", kOk, "D", C::NewFailure},
      {"silently wrong", kOk, "D", C::NewFailure},
      {"leaks", kOk, "D", C::NewFailure},
      {"crashes", kRaised, "D", C::NewFailure},
      {"raises", kRaised, "check \"no\" > active > ok", C::ErrorChanged},
      {"crashes", "D", kRaised, C::ErrorChanged},
      {"warns", kOk, "D", C::ErrorChanged},
      {"silently wrong", "D", kRaised, C::LoudNow},
      {"leaks", "D", kRaised, C::LoudNow},
      {"raises", "D", kOk, C::Gone},
      {"silently wrong", "D", kOk, C::Gone},
      {"raises", "D", "D", C::Same},
      {"raises", kRaised, kRaised, C::Same},
      {"silently wrong", "D1", "D2", C::Same},  // Other wrong numbers, both as documented.
      {"works", kOk, "D", C::Same},
  };
  for (const auto& [effect, before, now, expected] : table) {
    EXPECT_EQ(word(consequence(effect, before, now)), word(expected)) << effect << ", " << before << ", " << now;
  }
}

TEST(Compare, SaysWhatAChangeMeansAndWhatToDo) {
  FakeRun one, other;
  one.effect = other.effect = "silently wrong";
  const Comparison comparison = compared({one.saw(kRaised).passed("FixIt")}, {other.saw("D").passed("FixIt")});
  ASSERT_EQ(comparison.changes.size(), 1U);
  const CaseChange& change = comparison.changes.front();
  EXPECT_EQ(
      change.sentence,
      "raised CUDA error 900, invalidating the capture in 2.6.0; in 2.15.0 it goes on with wrong numbers, without an "
      "error");
  EXPECT_THAT(change.fixes, ElementsAre(Advised{Advice::Apply, "Do it."}));
  EXPECT_EQ(comparison.judged(), 3U);
  EXPECT_EQ(comparison.unknown(), 0U);
}

TEST(Compare, ARemedyThatNoLongerHoldsIsGone) {
  const Comparison fails = compared({FakeRun().saw("D").passed("FixIt")}, {FakeRun().saw("D").passed("FixIt", false)});
  EXPECT_EQ(test_of(fails, "FixIt").consequence, Consequence::RemedyGone);
  EXPECT_THAT(test_of(fails, "FixIt").sentence, HasSubstr("\"Do it.\" held in 2.6.0"));
  const Comparison lacks =
      compared({FakeRun().saw("D").passed("FixIt")}, {FakeRun().saw("D").not_there("FixIt", "inapplicable")});
  EXPECT_EQ(test_of(lacks, "FixIt").consequence, Consequence::RemedyGone);
  const Comparison needless =
      compared({FakeRun().saw("D").passed("FixIt")}, {FakeRun().saw(kOk).not_there("FixIt", "inapplicable")});
  EXPECT_EQ(test_of(needless, "FixIt").consequence, Consequence::Same) << "the failure has gone, too";
  EXPECT_EQ(test_of(needless).consequence, Consequence::Gone);
  EXPECT_THAT(needless.changes.front().fixes, ElementsAre(Advised{Advice::Try, "Do it."}));
}

// That a call no longer fails does not mean that it does its work.
TEST(Compare, ARemedyMayBeDeletedWhereARunWithoutItSaysSo) {
  const auto advice = [](const std::vector<std::pair<const char*, bool>>& runs) {
    Background with = background();
    for (const auto& [release, failed] : runs) {
      FakeRun run;
      run.release = release;
      run.broken = "remedy";
      run.passed("FixIt", !failed).tests.back()["remedy"] = "left out";
      with.learn_from(run.judged().record);
    }
    return compared({FakeRun().saw("D")}, {FakeRun().saw(kOk)}, with).changes.front().fixes.front().advice;
  };
  EXPECT_EQ(advice({}), Advice::Try);
  EXPECT_EQ(advice({{"2.15.0", false}}), Advice::Delete);
  EXPECT_EQ(advice({{"2.15.0", true}}), Advice::Keep);
  EXPECT_EQ(advice({{"2.15.0", false}, {"2.6.0", true}}), Advice::Delete) << "the failure was still there";
  EXPECT_EQ(advice({{"2.15.0", false}, {"2.15.0", true}}), Advice::Keep) << "one that needs it is enough";
  EXPECT_EQ(advice({{"2.15.0", false}, {"2.16.0", true}}), Advice::Keep);
  EXPECT_EQ(advice({{"2.16.0", false}}), Advice::Try) << "another release says nothing of this one";
  EXPECT_EQ(advice({{"2.10.0", false}}), Advice::Try);
  Background with = background();
  with.learn_from(FakeRun().passed("FixIt").judged().record);
  EXPECT_TRUE(with.without_remedy.empty()) << "a run with its remedies says nothing of them";
}

TEST(Compare, ATestThatACaseNoLongerHasIsNotCounted) {
  const FakeRun run = FakeRun().saw("D").saw("D", "ReproducesNoMore");
  EXPECT_EQ(compared({run}, {run}).tests.size(), 2U);
  EXPECT_EQ(compared({run}, {run}, {}).tests.size(), 3U) << "without a catalogue nobody knows";
}

TEST(Compare, SaysRaisesOfErrorsAlone) {
  const auto sentence = [](const std::string& seen) {
    return test_of(compared({FakeRun().saw(kOk)}, {FakeRun().saw(seen)})).sentence;
  };
  EXPECT_THAT(sentence("900 > invalidated > 901"), HasSubstr("it raises CUDA error 900"));
  EXPECT_THAT(sentence("torch.OutOfMemoryError: none left"), HasSubstr("it raises torch.OutOfMemoryError"));
  EXPECT_THAT(sentence("Death: rank 1 died first: signal 6"), HasSubstr("it shows Death: rank 1 died first"));
}

TEST(Compare, AControlThatFailsIsANewFailureAndLeavesItsCaseUnknown) {
  FakeRun broken;
  broken.tests.front()["code"] = 1;
  broken.tests.front()["ended"] = "failed";
  const Comparison comparison = compared({FakeRun().saw("D")}, {broken.saw(kOk)});
  EXPECT_EQ(test_of(comparison, "Control").consequence, Consequence::NewFailure);
  EXPECT_EQ(test_of(comparison).consequence, Consequence::Unknown);
  EXPECT_THAT(test_of(comparison).sentence, HasSubstr("a control of its case does not hold"));
}

TEST(Compare, NamesOfCallsCountWithoutTheirVersion) {
  const auto by = [](const char* call, const char* type) {
    return FakeRun().saw(kRaised, "Reproduces",
                         {{"culprit", {{"api", call}, {"thread", "capturing"}}}, {"exception", type}});
  };
  const auto sentence = [&](const FakeRun& from, const FakeRun& to) {
    return test_of(compared({from}, {to})).sentence;
  };
  EXPECT_EQ(sentence(by("cuCtxSynchronize", "E"), by("cuCtxSynchronize_v2", "E")), "");
  EXPECT_THAT(sentence(by("cuMemAlloc_v2", "E"), by("cuMemFree_v2", "E")), HasSubstr("came from cuMemAlloc in 2.6.0"));
  const Comparison typed = compared({by("cuA", "c10::Error")}, {by("cuA", "c10::AcceleratorError")});
  EXPECT_EQ(test_of(typed).consequence, Consequence::ErrorChanged);
  EXPECT_THAT(test_of(typed).sentence,
              HasSubstr("was a c10::Error in 2.6.0, and is a c10::AcceleratorError in 2.15.0"));
}

TEST(Compare, TheLineOfASourceIsNoneOfAnError) {
  const auto said = [](const char* line, const std::string& words) {
    return FakeRun().saw(fmt::format("assert \"lost count at \"/p/a/Graph.cpp\":{}, {}\" > active > ok", line, words));
  };
  EXPECT_EQ(test_of(compared({said("1", "report")}, {said("22", "report")})).consequence, Consequence::Same);
  const ComparedTest another =
      test_of(compared({said("1", std::string(90, 'x') + " one")}, {said("1", std::string(90, 'x') + " two")}));
  EXPECT_EQ(another.consequence, Consequence::ErrorChanged);
  EXPECT_THAT(another.sentence, AllOf(HasSubstr("x one"), HasSubstr("x two"))) << "cut where they differ";
}

TEST(Compare, TheFolderThatPyTorchWasBuiltInIsNoneOfAnError) {
  const auto consequence = [](const std::string& before, const std::string& now) {
    const auto said = [](const std::string& path) {
      return FakeRun().saw("RuntimeError: none left INTERNAL ASSERT FAILED at \"" + path + "\":12, please report > ok");
    };
    return test_of(compared({said(before)}, {said(now)})).consequence;
  };
  EXPECT_EQ(consequence("../c10/cuda/Allocator.cpp", "/pytorch/c10/cuda/Allocator.cpp"), Consequence::Same);
  EXPECT_EQ(consequence("../torch/csrc/A.cpp", "/pytorch/torch/csrc/A.cpp"), Consequence::Same);
  EXPECT_EQ(consequence("../../aten/src/A.cpp", "/opt/build-1/aten/src/A.cpp"), Consequence::Same);
  EXPECT_EQ(consequence("../c10/cuda/Allocator.cpp", "/pytorch/c10/core/Allocator.cpp"), Consequence::ErrorChanged);
  EXPECT_EQ(consequence("../c10/A.cpp", "/home/c11/A.cpp"), Consequence::ErrorChanged);
}

TEST(Compare, AChangeUpstreamExplainsTheEndOfARangeThatItMade) {
  const auto numbers = [](const char* since, const char* range) {
    Background with = background();
    Expectation e;
    e.test = "c.Reproduces";
    e.where.release = range;
    with.changes = {{"a change", "x#1", since, false, {e}, ""}};
    const Comparison comparison = compared({FakeRun().saw(kOk)}, {FakeRun().saw("D")}, with);
    if (comparison.changes.front().upstream.empty()) return std::string();
    const UpstreamChange& change = comparison.changes.front().upstream.front();
    return change.number + (change.contradicted ? ", " + change.since_words() : "");
  };
  EXPECT_EQ(numbers("2.10", ">=2.10"), "x#1") << "what is so since then";
  EXPECT_EQ(numbers("2.10", "<2.10"), "x#1") << "what was so before";
  EXPECT_EQ(numbers("2.17", ">=2.10"), "x#1, 2.17, which these records contradict");
  EXPECT_EQ(numbers("2.17", "<2.10"), "") << "what was so before 2.17 has not ended by it";
  EXPECT_EQ(numbers("2.17", ">=2.10, <2.17"), "") << "what was so before begins for another reason";
  EXPECT_EQ(numbers("2.1", ">=2.1, <2.10"), "") << "and what is so since then ends for another";
  EXPECT_EQ(numbers("", ">=2.1, <2.10"), "x#1");
  EXPECT_EQ(numbers("2.17", ">=2.5, <2.10"), "") << "nor is one of several ranges before 2.17 ended by it";
  EXPECT_EQ(numbers("2.17", ">=2.10, <2.20"), "") << "nor begun";
}

TEST(Compare, WhereTheCaseIsAtFaultNothingIsSaidOfTheRelease) {
  Background with = background();
  Expectation e;
  e.test = "c.Reproduces";
  e.where.release = "<2.7";
  with.changes = {{"a fault", "open question", "", true, {e}, ""}};
  const ComparedTest test = test_of(compared({FakeRun().saw(kOk)}, {FakeRun().saw("D")}, with));
  EXPECT_EQ(test.consequence, Consequence::Unknown);
  EXPECT_THAT(test.sentence, StartsWith("cannot tell in 2.6.0: there the case itself is at fault"));
}

TEST(Compare, WhatIsExpectedOfNeighboursAloneIsClearAllTheSame) {
  Background with = background();
  Expectation e;
  e.test = "c.Reproduces";
  e.result = "healthy";
  e.seen = kOk;
  e.records = {"2.11.0/g.jsonl"};
  with.rules.expectations = {e};
  FakeRun newer;
  newer.release = "2.16.0";
  newer.saw(kOk).write(::testing::TempDir() + "/newer.jsonl");
  const Judged judged = judged_by_its_own_code(read_record(::testing::TempDir() + "/newer.jsonl"), with);
  EXPECT_EQ(judged.rows.back().verdict, Verdict::AsExpected) << judged.rows.back().seen;
}

TEST(Compare, ASignThatGoesAndLeavesTheDamageIsSilentNow) {
  FakeRun before, now;
  before.effect = now.effect = "leaks";
  before.saw(kRaised).saw("D", "ReproducesMemoryKept");
  const Comparison comparison = compared({before}, {now.saw(kOk).saw("D", "ReproducesMemoryKept")});
  EXPECT_EQ(test_of(comparison).consequence, Consequence::SilentNow);
  EXPECT_THAT(test_of(comparison).sentence, HasSubstr("that sign is gone, and it still leaks"));
}

TEST(Compare, ARaceThatIsGoneAndATestThatDoesNotApplyAreNoOtherForm) {
  std::vector<FakeRun> before, now;
  for (int run = 0; run < 5; ++run) {
    before.push_back(FakeRun().rate(3, 9));
    now.push_back(FakeRun().rate(0, 9).not_there("ReproducesElsewhere", "inapplicable"));
    for (FakeRun* one : {&before.back(), &now.back()}) one->started = fmt::format("2026-01-0{}T00:00:00Z", run + 1);
  }
  const ComparedTest gone = test_of(compared(before, now), "ReproducesAtRate");
  EXPECT_EQ(gone.consequence, Consequence::Gone);
  EXPECT_THAT(gone.sentence, Not(HasSubstr("other forms")));
}

TEST(Compare, ARaceThatCrashesIsANewFailure) {
  FakeRun now;
  now.line({{"test", "c.ReproducesAtRate"}, {"ending", "signal"}, {"code", 11}});
  EXPECT_EQ(test_of(compared({FakeRun().rate(3, 9)}, {now}), "ReproducesAtRate").consequence, Consequence::NewFailure);
}

TEST(Compare, WhileAnotherFormRemainsItSaysSo) {
  const Comparison comparison = compared({FakeRun().saw("D").saw("D", "ReproducesElsewhere")},
                                         {FakeRun().saw(kOk).saw("D", "ReproducesElsewhere")});
  EXPECT_EQ(test_of(comparison).consequence, Consequence::Gone);
  EXPECT_THAT(test_of(comparison).sentence, HasSubstr("other forms of this failure remain"));
}

TEST(Compare, ARaceThatNeverOccurredAndNowDoesIsNewAndAllElseNeedsFiveRuns) {
  const auto runs = [](std::initializer_list<int> hits) {
    std::vector<FakeRun> all;
    for (const int n : hits) all.push_back(FakeRun().rate(n, 100));
    return all;
  };
  const auto of = [&](const std::vector<FakeRun>& from, const std::vector<FakeRun>& to) {
    return test_of(compared(from, to), "ReproducesAtRate");
  };
  EXPECT_EQ(of(runs({0, 0, 0, 0, 0}), runs({1})).consequence, Consequence::NewFailure);
  EXPECT_EQ(of(runs({9}), runs({0, 0, 0, 0, 0})).consequence, Consequence::Gone);
  EXPECT_EQ(of(runs({9}), runs({80})).consequence, Consequence::Same);
  EXPECT_EQ(of(runs({0, 0, 0, 0, 0}), runs({0, 0, 0, 0, 0})).consequence, Consequence::Same);
  for (const ComparedTest& few : {of(runs({0, 0, 0, 0}), runs({1})), of(runs({9}), runs({0}))}) {
    EXPECT_EQ(few.consequence, Consequence::Unknown);
    EXPECT_THAT(few.sentence, StartsWith("insufficient data: not seen in "));
  }
}

TEST(Compare, CountsARunOfARaceOnceHoweverOftenItIsOnFile) {
  FakeRun never = FakeRun().rate(0, 100);
  never.id = "one";
  const auto of = [&](const std::vector<FakeRun>& before) {
    return test_of(compared(before, {FakeRun().rate(1, 100)}), "ReproducesAtRate").sentence;
  };
  EXPECT_THAT(of({never, never, never, never, never}), StartsWith("insufficient data: not seen in 1 run of 2.6.0"));
}

TEST(Compare, OnlyTheSameCodeIsCompared) {
  Background background;
  FakeRun now;
  now.hash = "new";
  const Comparison other = compared({FakeRun().saw("D")}, {now.saw(kOk)});
  EXPECT_EQ(test_of(other).consequence, Consequence::Unknown);
  EXPECT_EQ(test_of(other).sentence, "not comparable: 2.6.0 and 2.15.0 ran different code of the case");
  // Each side's newest run with code that the other has as well, although the tree has gone on since.
  background.rules.tree["c"] = {"f", "", "source", "new"};
  const Comparison moved = compared({FakeRun().saw("D")}, {now, FakeRun().saw(kOk)}, background);
  EXPECT_EQ(test_of(moved).consequence, Consequence::Gone);
  EXPECT_THAT(moved.head,
              ::testing::Contains(HasSubstr("1 case has changed since these runs; both sides ran the same")));
  const Comparison one = compared({FakeRun().saw("D")}, {now}, background);
  EXPECT_THAT(test_of(one).sentence, HasSubstr("; `ci/suite 2.6.0` runs today's"));
  // Hashes of different formats count different things: both must be the tree's.
  FakeRun old;
  old.format = 1;
  old.hash = "source";
  EXPECT_EQ(test_of(compared({old.saw("D")}, {now}, background)).consequence, Consequence::Gone);
  background.rules.tree["c"].hash = "moved on";
  EXPECT_EQ(test_of(compared({old}, {now}, background)).consequence, Consequence::Unknown);
}

TEST(Compare, WhatOneSideDoesNotSayIsUnknownWithItsReason) {
  const std::vector<std::tuple<FakeRun, FakeRun, std::string>> table = {
      {FakeRun().not_there("Reproduces", "skipped"), FakeRun().saw("D"), "cannot run in 2.6.0: why not"},
      {FakeRun().saw("D"), FakeRun().not_there("Reproduces", "inapplicable"), "not applicable in 2.15.0: why not"},
      {FakeRun(), FakeRun().saw("D"), "not part of any run of 2.6.0"},
      {FakeRun().saw("D"), FakeRun().saw("D", "Reproduces", {{"code", 1}}),
       "inconclusive in 2.15.0: it said that it passed"},
  };
  for (const auto& [from, to, words] : table) {
    const Comparison comparison = compared({from}, {to});
    EXPECT_EQ(test_of(comparison).consequence, Consequence::Unknown);
    EXPECT_THAT(test_of(comparison).sentence, StartsWith(words));
    EXPECT_EQ(comparison.unknown(), 1U);
  }
}

TEST(Compare, HasAnExitCodeForEachOutcome) {
  EXPECT_EQ(exit_for(compared({FakeRun().saw("D")}, {FakeRun().saw("D")})), Exit::AsExpected);
  EXPECT_EQ(exit_for(compared({FakeRun().saw(kOk)}, {FakeRun().saw("D")})), Exit::Changed);
  EXPECT_EQ(exit_for(compared({FakeRun().saw("D")}, {FakeRun().saw(kOk)})), Exit::NewlyFixed);
  EXPECT_EQ(exit_for(compared({FakeRun().saw("D")}, {FakeRun()})), Exit::Inconclusive);
  EXPECT_EQ(exit_for(compared({FakeRun().saw(kOk).saw("D", "ReproducesTwo")}, {FakeRun().saw("D")})), Exit::Changed)
      << "what is known to hurt does so whatever else is unknown";
}

// Of two sides that differ in everything, in each format.
Comparison rich() {
  FakeRun before, now;
  before.effect = now.effect = "silently wrong";
  before.saw(kRaised).saw("D", "ReproducesB").saw("D", "ReproducesC").saw("D", "ReproducesGone").passed("FixIt");
  now.saw("D").saw(kRaised, "ReproducesB").saw(kOk, "ReproducesC").passed("FixIt", false);
  return compared({before}, {now});
}

TEST(Format, IsOrderedByConsequenceAndTheSameEachTime) {
  const std::string text = as_text(rich());
  size_t last = 0;
  for (const char* heading : {"silent now", "remedy gone", "silent -> loud", "failures gone", "unknown"}) {
    const size_t at = text.find(std::string("\n") + heading + "\n");
    EXPECT_NE(at, std::string::npos) << heading << "\n" << text;
    EXPECT_GE(at, last) << heading;
    last = at;
  }
  EXPECT_THAT(text, HasSubstr("5 judged, 1 unknown: 1 silent now, 1 remedy gone, 1 silent -> loud, 1 failures gone, "
                              "1 the same"));
  EXPECT_THAT(text, HasSubstr("more: recapture show c"));
  EXPECT_THAT(text, HasSubstr("bundled: CUDA runtime 12.4, cuDNN not on record"));
  EXPECT_EQ(text, as_text(rich()));
}

TEST(Format, JsonHasTheseKeysAndNoOthers) {
  const Json json = as_json(rich());
  std::vector<std::string> keys, of_a_change;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  for (const auto& [key, value] : json.at("changes").at(0).items()) of_a_change.push_back(key);
  EXPECT_THAT(keys, ElementsAre("from", "to", "judged", "unknown", "changes"));
  EXPECT_THAT(of_a_change, ElementsAre("consequence", "case", "tests", "sentence", "fixes", "upstream"));
  EXPECT_EQ(json.at("changes").at(0).at("consequence"), "silent now");
  EXPECT_EQ(json.at("changes").at(0).at("tests"), Json({"c.Reproduces"}));
}

TEST(Format, MarkdownStaysBelowGitHubsLimitAndCountsWhatItLeavesOut) {
  Comparison comparison = rich();
  CaseChange large = comparison.changes.front();
  large.sentence = std::string(10000, 'x') + "|<b>";
  comparison.changes.assign(300, large);
  const std::string text = as_markdown(comparison);
  EXPECT_LT(text.size(), 1024U * 1024U);
  EXPECT_GT(text.size(), 900U * 1000U);
  EXPECT_THAT(text, HasSubstr("x\\|&lt;b&gt;"));
  EXPECT_THAT(text, HasSubstr(" more are left out here; `recapture compare` has them all."));
}

TEST(Format, JUnitFailsForWhatHurtsAndNeverPassesForWhatIsUnknown) {
  pugi::xml_document xml;
  ASSERT_TRUE(xml.load_string(as_junit(rich(), whatever_hurts()).c_str()));
  EXPECT_EQ(xml.select_nodes("//failure").size(), 2U);
  EXPECT_EQ(xml.select_nodes("//testcase[@name='ReproducesGone']/error").size(), 1U);
  EXPECT_EQ(xml.select_nodes("//testsuite[@name='comparison']//error").size(), 1U) << "1 of 6 is more than a tenth";
  const auto suite = xml.select_node("//testsuite[@name='c']").node();
  EXPECT_EQ(suite.attribute("tests").as_int(), 6);
  EXPECT_EQ(suite.attribute("failures").as_int(), 2);
}

TEST(Gate, BlocksByItsPolicyAndNeverForWhatIsBetter) {
  const auto decided = [](const Policy& policy, const Comparison& comparison) {
    return decide(policy, comparison).exit;
  };
  const Policy standard;
  const Comparison worse = compared({FakeRun().saw(kOk)}, {FakeRun().saw("D")}),
                   better = compared({FakeRun().saw("D")}, {FakeRun().saw(kOk)});
  const Comparison another = compared({FakeRun().saw(kRaised)}, {FakeRun().saw("check \"no\" > active > ok")});
  EXPECT_EQ(decided(standard, worse), Exit::Changed);
  EXPECT_EQ(decided(standard, another), Exit::AsExpected) << "another text of an error is in nobody's way unasked";
  EXPECT_EQ(decided(standard, better), Exit::AsExpected);
  EXPECT_EQ(decided(standard, compared({FakeRun().saw("D")}, {FakeRun()})), Exit::Inconclusive);
  Policy strict = standard, blind = standard;
  strict.block = {Consequence::ErrorChanged};
  blind.unknown = 100;
  EXPECT_EQ(decided(strict, another), Exit::Changed);
  EXPECT_EQ(decided(strict, worse), Exit::AsExpected);
  EXPECT_EQ(decided(blind, compared({FakeRun().saw("D")}, {FakeRun().saw("D").saw("D", "ReproducesTwo")})),
            Exit::AsExpected);
  EXPECT_EQ(decided(standard, restricted(worse, {})), Exit::Inconclusive) << "nothing was judged";
}

TEST(Gate, WhatConcernsAndNeverRanIsUnknown) {
  Policy policy;
  policy.concerns = {"c"};
  Comparison comparison = compared({FakeRun()}, {FakeRun()});
  EXPECT_EQ(decide(policy, comparison).exit, Exit::AsExpected);
  add_never_run(policy, background().catalogue, comparison);
  EXPECT_EQ(comparison.unknown(), background().catalogue.front().tests.size() - 1) << "all but its control";
  EXPECT_EQ(test_of(comparison, "FixIt").sentence, "not part of any run of 2.6.0 or 2.15.0");
  EXPECT_EQ(decide(policy, comparison).answer, "cannot tell");
}

TEST(Gate, JUnitFailsForWhatBlocksAlone) {
  const Comparison another = compared({FakeRun().saw(kRaised)}, {FakeRun().saw("check \"no\" > active > ok")});
  EXPECT_THAT(as_junit(another, Policy()),
              AllOf(Not(HasSubstr("<failure")), HasSubstr("error text or type changed: ")));
  EXPECT_THAT(as_junit(another, whatever_hurts()), HasSubstr("<failure"));
}

TEST(Gate, WhatNobodyRanIsUnknownWithoutAPolicyToo) {
  Comparison comparison = compared({FakeRun().saw("D")}, {FakeRun().saw("D")});
  Catalogue all = background().catalogue;
  add_never_run(Policy(), all, comparison);
  EXPECT_EQ(comparison.tests.size(), all.front().tests.size()) << "all tests of the case, of which each side ran two";
  all.push_back(all.front());
  all.back().id = "d";
  add_never_run(Policy(), all, comparison);
  EXPECT_EQ(comparison.tests.size(), 2 * all.front().tests.size());
  EXPECT_EQ(decide(Policy(), comparison).exit, Exit::Inconclusive);
  Policy ours;
  ours.concerns = {"c"};
  Comparison some = compared({FakeRun().saw("D")}, {FakeRun().saw("D")});
  add_never_run(ours, all, some);
  EXPECT_EQ(some.tests.size(), all.front().tests.size());
}

TEST(Gate, ConcernsAreFamiliesCasesAndWhatCasesSpeakOf) {
  const Catalogue cases = background().catalogue;
  for (const char* word : {"f", "c", "c*", "custom generators", "Custom Generator"}) {
    EXPECT_THAT(cases_concerned(word, cases), ElementsAre("c")) << word;
  }
  EXPECT_THROW(cases_concerned("stom", cases), Stop) << "a word begins where it begins";
  const Catalogue all = read_catalogue(RECAPTURE_ROOT);
  const auto ddp = cases_concerned("DDP", all), graphed = cases_concerned("graphed callables", all);
  for (const char* id :
       {"grad_holder_built_on_default_stream", "accumulate_grad_on_default_stream", "watchdog_query_in_capture"}) {
    EXPECT_EQ(ddp.count(id), 1U) << id;
  }
  EXPECT_EQ(graphed.count("grad_aliases_static_buffer"), 1U);
}

// What real records say, change by change. Sentences may become better; what they are about may not change unseen.
TEST(Compare, OfCommittedRecordsSaysWhatUpstreamChanged) {
  const Said said = shell(RECAPTURE_BUILD "/recapture --root " RECAPTURE_ROOT " compare --json " RECAPTURE_ROOT
                                          "/reports/2.6.0/nvidia-h200.jsonl.gz " RECAPTURE_ROOT
                                          "/reports/2.15.0/nvidia-h200.jsonl.gz");
  ASSERT_EQ(said.code, 1) << said.out;
  const Json json = Json::parse(said.out);
  std::string lines =
      fmt::format("{} judged, {} unknown\n", json.at("judged").get<int>(), json.at("unknown").get<int>());
  for (const Json& change : json.at("changes")) {
    lines += fmt::format("{}\t{}\t{}\t{}\n", change.at("consequence").get<std::string>(),
                         change.at("case").get<std::string>(), change.at("tests").dump(),
                         change.at("upstream").get<std::string>());
  }
  std::ifstream file(RECAPTURE_ROOT "/harness/tests/data/compare-2.6.0-2.15.0.tsv");
  EXPECT_EQ(lines, std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace
}  // namespace recapture

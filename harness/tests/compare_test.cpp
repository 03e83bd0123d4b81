// A comparison's output, and a gate's decision on it: every consequence, every exit code.
#include "harness/compare/compare.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "harness/compare/gaps.h"
#include "harness/compare/machine_pairs.h"
#include "harness/compare/policy.h"
#include "harness/report/change.h"
#include "harness/report/comparison.h"
#include "harness/report/decision.h"
#include "harness/report/note.h"
#include "harness/tests/fake_run.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kRaised = "900 > invalidated > 901";

CompareContext background() {
  CompareContext background;
  CatalogueCase one;
  one.id = "c";
  one.family = "f";
  one.title = "A title";
  one.why = "It happens to those who use a custom generator.";
  one.tests = {{"Control", Kind::Control, {}, ""}, {"FixIt", Kind::Fix, {}, "Do it."}};
  for (const char* name : {"Reproduces", "ReproducesAtRate", "ReproducesB", "ReproducesC", "ReproducesElsewhere",
                           "ReproducesGone", "ReproducesMemoryKept", "ReproducesTwo"}) {
    one.tests.push_back({name, Kind::Reproduces, Effect::Raises, ""});
  }
  background.catalogue = {one};
  return background;
}

Comparison compared(const std::vector<FakeRun>& from, const std::vector<FakeRun>& to,
                    const CompareContext& with = background()) {
  Side before{"2.6.0", {}}, now{"2.15.0", {}};
  for (const FakeRun& run : from) before.runs.push_back(run.judged());
  for (FakeRun run : to) {
    run.release = "2.15.0";
    now.runs.push_back(run.judged());
  }
  return compare_sides(before, now, with);
}

const ComparedTest& test_of(const Comparison& comparison, const std::string& name = "Reproduces") {
  for (const ComparedTest& test : comparison.tests) {
    if (test.test == "c." + name) return test;
  }
  static const ComparedTest kNone;
  ADD_FAILURE() << "no test " << name;
  return kNone;
}

std::string sentence_of(const ComparedTest& test) { return render_compared(test, "2.6.0", "2.15.0"); }

Consequence consequence(const std::string& effect, const std::string& before, const std::string& now) {
  FakeRun one, other;
  one.effect = other.effect = effect;
  return test_of(compared({one.saw(before)}, {other.saw(now)})).consequence;
}

// An entry of one release alone gives the text another effect there.
TEST(EqualObservation, OfTheSameCode_IsTheSameWhateverIsExpected) {
  Expectation now_works;
  now_works.test = "c.Reproduces";
  now_works.where.release = ">=2.15";
  now_works.result = Result::Different;
  now_works.seen = "right, 0 graphs";
  now_works.effect = Effect::Works;
  Rules rules;
  rules.expectations = {now_works};
  const auto consequence_of = [&](const std::string& before, const std::string& now) {
    FakeRun from, to;
    from.effect = to.effect = "silently wrong";
    to.release = "2.15.0";
    from.saw(before);
    to.saw(now);
    const Side one{"2.6.0", {judge_run(from.judged().record, rules)}};
    const Side other{"2.15.0", {judge_run(to.judged().record, rules)}};
    const std::set<Consequence> both = {test_of(compare_sides(one, other, background())).consequence,
                                        test_of(compare_sides(other, one, background())).consequence};
    return both;
  };
  EXPECT_THAT(consequence_of("right, 0 graphs", "right, 0 graphs"), ElementsAre(Consequence::Same));
  EXPECT_THAT(consequence_of("right, 0 graphs at /a/torch/x.cpp:7", "right, 0 graphs at ../torch/x.cpp:9"),
              ElementsAre(Consequence::Same));
  EXPECT_EQ(consequence_of("wrong, 0 graphs", "right, 0 graphs").count(Consequence::Same), 0U)
      << "another text has another effect";
}

// A program has code of its own: what another one showed is known of another test.
TEST(GapsOfAGate, ProgramOfOtherCode_IsAnotherTestBesideAnUnchangedCase) {
  const auto shown_by = [](const std::string& program) {
    compare::Shown shown;
    shown.add(FakeRun().saw(kRaised, "PythonReproduces", {{"program", program}}).judged(), {});
    return shown;
  };
  EXPECT_TRUE(shown_by("now").has_judged("c.PythonReproduces", "now"));
  EXPECT_FALSE(shown_by("before").has_judged("c.PythonReproduces", "now"));
}

// Another machine's result must not hide a run that was cut, or a side that can no longer run a test.
TEST(FillIn, TestThatWasTriedOnOneSide_IsNotReplaceable) {
  const FakeRun has = FakeRun().saw(kRaised), lacks = FakeRun().not_there("Reproduces", "skipped"), without;
  EXPECT_FALSE(test_of(compared({has}, {lacks})).is_replaceable) << "one side could run it";
  EXPECT_TRUE(test_of(compared({lacks}, {lacks})).is_replaceable) << "neither could";
  EXPECT_TRUE(test_of(compared({has}, {without})).is_replaceable) << "no run planned it";
  EXPECT_FALSE(test_of(compared({has}, {has})).is_replaceable);
  for (const FakeRun& other : {has, lacks}) {
    Side before{"2.6.0", {other.judged()}};
    FakeRun now;
    now.release = "2.15.0";
    JudgedRun cut = now.judged();
    cut.rows.emplace_back();
    cut.rows.back().test = "c.Reproduces";
    cut.rows.back().case_id = "c";
    cut.rows.back().name = "Reproduces";
    cut.rows.back().kind = Kind::Reproduces;
    Side after{"2.15.0", {}};
    after.runs.push_back(std::move(cut));
    EXPECT_FALSE(test_of(compare_sides(before, after, background())).is_replaceable) << "the run was cut";
  }
}

TEST(FillIn, ReplaceableTest_IsTakenFromElsewhere) {
  const auto test_as = [](const std::string& name, Consequence consequence, bool is_replaceable) {
    ComparedTest test{"c." + name, consequence};
    test.is_replaceable = is_replaceable;
    return test;
  };
  Comparison here, there;
  here.tests = {test_as("Reproduces", Consequence::Unknown, false), test_as("ReproducesB", Consequence::Same, false),
                test_as("ReproducesTwo", Consequence::Unknown, true)};
  there.machine = "H";
  for (const char* name : {"Reproduces", "ReproducesB", "ReproducesTwo"}) {
    there.tests.push_back(test_as(name, Consequence::NewErrors, false));
  }
  there.tests.push_back(test_as("ReproducesC", Consequence::Same, false));
  there.tests.push_back(test_as("ReproducesGone", Consequence::Unknown, false));
  CaseChange change;
  change.consequence = Consequence::NewErrors;
  change.tests = {"c.Reproduces", "c.ReproducesB", "c.ReproducesTwo"};
  change.change = {ChangeKind::Effect, {}, {.state = State::Hangs}};
  there.changes = {change};
  fill_in(here, there);
  EXPECT_EQ(here.tests.size(), 4U);
  EXPECT_EQ(test_of(here).consequence, Consequence::Unknown) << "it contradicts itself here";
  EXPECT_EQ(test_of(here, "ReproducesB").consequence, Consequence::Same) << "the machine that is compared";
  EXPECT_EQ(test_of(here, "ReproducesTwo").consequence, Consequence::NewErrors);
  EXPECT_EQ(test_of(here, "ReproducesC").consequence, Consequence::Same);
  ASSERT_EQ(here.changes.size(), 1U);
  EXPECT_THAT(here.changes[0].tests, ElementsAre("c.ReproducesTwo"));
  EXPECT_EQ(words_of(here.changes[0].change).note, "; on H");
  EXPECT_EQ(test_of(here, "ReproducesTwo").change->notes.machine, "H");
  EXPECT_EQ(test_of(here, "ReproducesC").change->notes.machine, "") << "it has no change";
  EXPECT_THAT(render_head(here), ElementsAre("note: 2 tests are compared on H, where both sides have a result"));
}

TEST(Compare, ResultsOfBothSides_GiveTheConsequenceOfTheTable) {
  using C = Consequence;
  const std::vector<std::tuple<std::string, std::string, std::string, C>> table = {
      {"silently wrong", kRaised, "D", C::BrokenHandlers},
      {"leaks", kRaised, "D", C::BrokenHandlers},
      {"crashes", kRaised, "D", C::BrokenHandlers},
      {"raises", kOk, "D", C::NewErrors},
      {"silently wrong", kOk, "D", C::NewDamage},
      {"leaks", kOk, "D", C::NewDamage},
      {"hangs", kOk, "D", C::NewDamage},
      {"raises", kRaised, "check \"no\" > active > ok", C::ErrorChanged},
      {"crashes", "D", kRaised, C::DamageRaises},
      {"warns", kOk, "D", C::ErrorChanged},
      {"silently wrong", "D", kRaised, C::DamageRaises},
      {"leaks", "D", kRaised, C::NewErrors},
      {"raises", "D", kOk, C::Healed},
      {"silently wrong", "D", kOk, C::Healed},
      {"raises", "D", "D", C::Same},
      {"raises", kRaised, kRaised, C::Same},
      {"silently wrong", "D1", "D2", C::Same},  // Other wrong numbers, both as documented.
      {"works", kOk, "D", C::Same},
  };
  for (const auto& [effect, before, now, expected] : table) {
    EXPECT_EQ(to_string(consequence(effect, before, now)), to_string(expected))
        << effect << ", " << before << ", " << now;
  }
}

TEST(Compare, SameErrorWithOtherProbes_IsComparedByWhatItLeavesBehind) {
  const auto left = [](const std::string& random) {
    return FakeRun().saw(kRaised, "Reproduces", {{"probes", {{"random", random}}}});
  };
  const ComparedTest worse = test_of(compared({left("ok")}, {left("refused")}));
  EXPECT_EQ(worse.consequence, Consequence::BrokenHandlers);
  EXPECT_EQ(sentence_of(worse), "left random numbers: ok in 2.6.0; in 2.15.0 it leaves random numbers: refused");
  const ComparedTest better = test_of(compared({left("refused")}, {left("ok")}));
  EXPECT_EQ(better.consequence, Consequence::Recovers);
  EXPECT_EQ(test_of(compared({left("refused")}, {left("refused, too")})).consequence, Consequence::Same);
}

TEST(Compare, FixOrControlThatHoldsAgain_IsNotTheSame) {
  const Comparison again = compared({FakeRun().saw("D").passed("FixIt", false)}, {FakeRun().saw("D").passed("FixIt")});
  EXPECT_EQ(test_of(again, "FixIt").consequence, Consequence::HoldsAgain);
  const Comparison added =
      compared({FakeRun().saw("D").not_there("FixIt", "inapplicable")}, {FakeRun().saw("D").passed("FixIt")});
  EXPECT_EQ(test_of(added, "FixIt").consequence, Consequence::NewFix);
  FakeRun broken;
  broken.tests.front()["code"] = 1;
  broken.tests.front()["ended"] = "failed";
  EXPECT_EQ(test_of(compared({broken}, {FakeRun()}), "Control").consequence, Consequence::HoldsAgain);
}

TEST(Compare, FixForOlderReleasesByItsOwnWords_DoesNotStopHolding) {
  CompareContext with = background();
  for (CatalogueTest& test : with.catalogue.front().tests) {
    if (test.name == "FixIt") test.releases = "<2.7";
  }
  const std::vector<FakeRun> before = {FakeRun().saw("D").passed("FixIt")};
  const std::vector<FakeRun> now = {FakeRun().saw("D").not_there("FixIt", "inapplicable")};
  EXPECT_EQ(test_of(compared(before, now, with), "FixIt").consequence, Consequence::Same);
  EXPECT_EQ(test_of(compared(before, {FakeRun().saw("D").passed("FixIt", false)}, with), "FixIt").consequence,
            Consequence::StoppedHolding)
      << "it exists, and fails";
}

TEST(Compare, ChangedResult_HasASentenceAndTheFixToApply) {
  FakeRun one, other;
  one.effect = other.effect = "silently wrong";
  const Comparison comparison = compared({one.saw(kRaised).passed("FixIt")}, {other.saw("D").passed("FixIt")});
  ASSERT_EQ(comparison.changes.size(), 1U);
  const CaseChange& change = comparison.changes.front();
  EXPECT_EQ(
      render_change(change.change, "2.6.0", "2.15.0"),
      "raised CUDA error 900, invalidating the capture in 2.6.0; in 2.15.0 it goes on with wrong results, without an "
      "error");
  EXPECT_THAT(change.fixes, ElementsAre(Advised{Advice::Apply, "Do it."}));
  EXPECT_EQ(comparison.judged(), 3U);
  EXPECT_EQ(comparison.unknown(), 0U);
}

TEST(Compare, CaptureOfAPythonProgram_HasTheWordsOfAnyCapture) {
  const auto sentence = [](const char* before, const char* now) {
    return sentence_of(test_of(compared({FakeRun().saw(before)}, {FakeRun().saw(now)}), "Reproduces"));
  };
  EXPECT_EQ(sentence("900 > 901 by cuStreamSynchronize on the capturing thread", "900 > ok"),
            "raised CUDA error 900, invalidating the capture in 2.6.0; in 2.15.0 it raises CUDA error 900");
  EXPECT_EQ(sentence("900 > 901 by a", "900 > 901 by b"),
            "raised 900 > 901 by a in 2.6.0; in 2.15.0 it raises 900 > 901 by b");
}

TEST(Compare, FixThatFailsOrIsGone_StoppedHolding) {
  const Comparison fails = compared({FakeRun().saw("D").passed("FixIt")}, {FakeRun().saw("D").passed("FixIt", false)});
  EXPECT_EQ(test_of(fails, "FixIt").consequence, Consequence::StoppedHolding);
  EXPECT_THAT(sentence_of(test_of(fails, "FixIt")), HasSubstr("the fix \"Do it.\" held in 2.6.0; in 2.15.0 it fails"));
  const Comparison lacks =
      compared({FakeRun().saw("D").passed("FixIt")}, {FakeRun().saw("D").not_there("FixIt", "inapplicable")});
  EXPECT_EQ(test_of(lacks, "FixIt").consequence, Consequence::StoppedHolding);
  const Comparison needless =
      compared({FakeRun().saw("D").passed("FixIt")}, {FakeRun().saw(kOk).not_there("FixIt", "inapplicable")});
  EXPECT_EQ(test_of(needless, "FixIt").consequence, Consequence::Same) << "the failure is gone too";
  EXPECT_EQ(test_of(needless).consequence, Consequence::Healed);
  EXPECT_THAT(needless.changes.front().fixes, ElementsAre(Advised{Advice::Try, "Do it."}));
}

// That a call no longer fails does not mean that it does its work.
TEST(Compare, FixThatStoppedHolding_IsNotCalledNeedlessToo) {
  const Comparison comparison =
      compared({FakeRun().saw("D").passed("FixIt")}, {FakeRun().saw(kOk).passed("FixIt", false)});
  ASSERT_EQ(comparison.changes.size(), 2U);
  EXPECT_EQ(comparison.changes.front().consequence, Consequence::StoppedHolding);
  EXPECT_EQ(comparison.changes.back().consequence, Consequence::Healed);
  EXPECT_TRUE(comparison.changes.back().fixes.empty());
}

TEST(Compare, HealedFailure_AdvisesToDeleteAFixOnlyIfARunWithoutItPassed) {
  const auto advice = [](const std::vector<std::pair<const char*, bool>>& runs) {
    CompareContext with = background();
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
  EXPECT_EQ(advice({{"2.15.0", false}, {"2.15.0", true}}), Advice::Keep) << "one run that needs it is enough";
  EXPECT_EQ(advice({{"2.15.0", false}, {"2.16.0", true}}), Advice::Keep);
  EXPECT_EQ(advice({{"2.16.0", false}}), Advice::Try) << "another release is no evidence for this one";
  EXPECT_EQ(advice({{"2.10.0", false}}), Advice::Try);
  CompareContext with = background();
  with.learn_from(FakeRun().passed("FixIt").judged().record);
  EXPECT_TRUE(with.without_remedy.empty()) << "a run with remedies is no evidence about them";
}

// Each of these would count if the project had run it.
TEST(Compare, RunThatSomebodySent_AnswersForItsOwnMachineAlone) {
  for (const bool is_sent : {false, true}) {
    const auto judged = [&](const FakeRun& run) {
      JudgedRun made = run.judged();
      if (is_sent && run.gpu == "H") made.record.environment = made.record.environment.with("origin", "somebody");
      return made;
    };
    FakeRun wrong, without;
    wrong.gpu = without.gpu = "H";
    wrong.effect = "silently wrong";
    without.broken = "remedy";
    without.passed("FixIt").tests.back()["remedy"] = "left out";
    CompareContext with = background();
    with.learn_from(judged(without).record);
    EXPECT_EQ(with.without_remedy.empty(), is_sent);
    compare::History history(with);
    history.add(judged(wrong.saw("D")), with.rules);
    EXPECT_EQ(history.can_hide_damage("c"), !is_sent);

    std::vector<MachineSides> machines;
    for (const char* gpu : {"G", "H"}) {
      machines.push_back({gpu, {}, {}, {}});
      for (const char* release : {"2.6.0", "2.15.0"}) {
        FakeRun run;
        run.gpu = gpu;
        run.release = release;
        run.saw(kOk);
        if (run.gpu == "H") run.saw(kOk, "ReproducesTwo");
        machines.back().releases.push_back({release, {judged(run)}});
      }
      machines.back().environment = machines.back().releases.back().runs.front().record.environment;
    }
    for (const ChosenPair& pair : choose_pairs(machines, with.rules)) {
      EXPECT_EQ(machines[pair.used.machine].name, is_sent ? "G" : "H");
      EXPECT_EQ(pair.fill_in.empty(), is_sent);
    }
  }
}

TEST(Compare, TestNotInTheCatalogue_IsNotCounted) {
  const FakeRun run = FakeRun().saw("D").saw("D", "ReproducesNoMore");
  EXPECT_EQ(compared({run}, {run}).tests.size(), 2U);
  EXPECT_EQ(compared({run}, {run}, {}).tests.size(), 3U) << "unknown without a catalogue";
}

TEST(Compare, SignatureThatIsNoError_IsShownAndNotRaised) {
  const auto sentence = [](const std::string& seen) {
    return sentence_of(test_of(compared({FakeRun().saw(kOk)}, {FakeRun().saw(seen)})));
  };
  EXPECT_THAT(sentence("900 > invalidated > 901"), HasSubstr("it raises CUDA error 900"));
  EXPECT_THAT(sentence("torch.OutOfMemoryError: none left"), HasSubstr("it raises torch.OutOfMemoryError"));
  EXPECT_THAT(sentence("Death: rank 1 died first: signal 6"), HasSubstr("it shows Death: rank 1 died first"));
}

TEST(Compare, ControlThatFails_StoppedHoldingAndLeavesItsCaseUnknown) {
  FakeRun broken;
  broken.tests.front()["code"] = 1;
  broken.tests.front()["ended"] = "failed";
  const Comparison comparison = compared({FakeRun().saw("D")}, {broken.saw(kOk)});
  EXPECT_EQ(test_of(comparison, "Control").consequence, Consequence::StoppedHolding);
  EXPECT_EQ(test_of(comparison).consequence, Consequence::Unknown);
  EXPECT_THAT(sentence_of(test_of(comparison)), HasSubstr("a control of its case does not hold"));
}

TEST(Compare, HarmlessFailureThatShowsSomethingElse_IsNotTheSame) {
  FakeRun before, now, healthy;
  before.effect = now.effect = healthy.effect = "works";
  before.saw("D kept [15.0]");
  const Comparison changed = compared({before}, {now.saw("kept [99.0]")});
  const ComparedTest test = test_of(changed, "Reproduces");
  EXPECT_EQ(test.consequence, Consequence::ErrorChanged);
  EXPECT_EQ(sentence_of(test), "showed D kept [15.0] in 2.6.0; in 2.15.0 it shows kept [99.0]");
  EXPECT_EQ(test_of(compared({before}, {healthy.saw(kOk)}), "Reproduces").consequence, Consequence::Same);
}

TEST(Compare, CallsThatDifferOnlyInTheirVersion_AreTheSame) {
  const auto by = [](const char* call, const char* type) {
    return FakeRun().saw(kRaised, "Reproduces",
                         {{"culprit", {{"api", call}, {"thread", "capturing"}}}, {"exception", type}});
  };
  const auto sentence = [&](const FakeRun& from, const FakeRun& to) {
    return sentence_of(test_of(compared({from}, {to})));
  };
  EXPECT_EQ(sentence(by("cuCtxSynchronize", "E"), by("cuCtxSynchronize_v2", "E")), "");
  EXPECT_THAT(sentence(by("cuMemAlloc_v2", "E"), by("cuMemFree_v2", "E")), HasSubstr("came from cuMemAlloc in 2.6.0"));
  const Comparison typed = compared({by("cuA", "c10::Error")}, {by("cuA", "c10::AcceleratorError")});
  EXPECT_EQ(test_of(typed).consequence, Consequence::ErrorChanged);
  EXPECT_THAT(sentence_of(test_of(typed)),
              HasSubstr("the same error was a c10::Error in 2.6.0; in 2.15.0 it is a c10::AcceleratorError"));
}

TEST(Compare, OtherSourceLineInAnError_IsTheSame) {
  const auto said = [](const char* line, const std::string& words) {
    return FakeRun().saw(fmt::format("assert \"lost count at \"/p/a/Graph.cpp\":{}, {}\" > active > ok", line, words));
  };
  EXPECT_EQ(test_of(compared({said("1", "report")}, {said("22", "report")})).consequence, Consequence::Same);
  const ComparedTest another =
      test_of(compared({said("1", std::string(90, 'x') + " one")}, {said("1", std::string(90, 'x') + " two")}));
  EXPECT_EQ(another.consequence, Consequence::ErrorChanged);
  EXPECT_THAT(sentence_of(another), AllOf(HasSubstr("x one"), HasSubstr("x two"))) << "cut where they differ";
}

TEST(Compare, OtherBuildFolderInAnError_IsTheSame) {
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

TEST(Compare, UpstreamChange_ExplainsOnlyTheEndOfARangeItMade) {
  const auto numbers = [](const char* since, const char* range) {
    CompareContext with = background();
    Expectation e;
    e.test = "c.Reproduces";
    e.where.release = range;
    with.changes = {{"a change", "x#1", since, false, {e}, ""}};
    const Comparison comparison = compared({FakeRun().saw(kOk)}, {FakeRun().saw("D")}, with);
    if (comparison.changes.front().upstream.empty()) return std::string();
    const UpstreamChange& change = comparison.changes.front().upstream.front();
    return change.number + (change.contradicted ? ", " + since_words(change) : "");
  };
  EXPECT_EQ(numbers("2.10", ">=2.10"), "x#1") << "the state since then";
  EXPECT_EQ(numbers("2.10", "<2.10"), "x#1") << "the state before";
  EXPECT_EQ(numbers("2.17", ">=2.10"), "x#1, 2.17, which these records contradict");
  EXPECT_EQ(numbers("2.17", "<2.10"), "") << "the state before 2.17 did not end with it";
  EXPECT_EQ(numbers("2.17", ">=2.10, <2.17"), "") << "the state before began for another reason";
  EXPECT_EQ(numbers("2.1", ">=2.1, <2.10"), "") << "and the state since then ends for another";
  EXPECT_EQ(numbers("", ">=2.1, <2.10"), "x#1");
  EXPECT_EQ(numbers("2.17", ">=2.5, <2.10"), "") << "nor did one of several ranges before 2.17 end with it";
  EXPECT_EQ(numbers("2.17", ">=2.10, <2.20"), "") << "nor begun";
}

TEST(Compare, CaseThatCannotRunOnOneSide_IsUnknown) {
  CompareContext with = background();
  Expectation e;
  e.test = "c.Reproduces";
  e.where.release = "<2.7";
  e.result = Result::Healthy;
  e.seen = kOk;
  e.why = "the option came later";
  e.records = {"2.6.0/g.jsonl"};
  e.inapplicable = true;
  with.rules.expectations = {e};
  const auto side = [&](const std::string& release, FakeRun run) {
    run.release = release;
    run.write(::testing::TempDir() + "/inapplicable.jsonl");
    const Record record = read_record(::testing::TempDir() + "/inapplicable.jsonl");
    return Side{release, {judge_without_staleness(record, with)}};
  };
  const ComparedTest test =
      test_of(compare_sides(side("2.6.0", FakeRun().saw(kOk)), side("2.15.0", FakeRun().saw("D")), with));
  EXPECT_EQ(test.consequence, Consequence::Unknown);
  EXPECT_THAT(sentence_of(test), StartsWith("cannot tell in 2.6.0: the option came later"));

  with.rules.expectations.front().test = "c.FixIt";
  with.rules.expectations.front().result = Result::Broken;
  with.rules.expectations.front().seen = "*";
  const Comparison fix = compare_sides(side("2.6.0", FakeRun().saw("D").passed("FixIt", false)),
                                       side("2.15.0", FakeRun().saw("D").passed("FixIt")), with);
  EXPECT_EQ(test_of(fix, "FixIt").consequence, Consequence::Unknown) << "no new fix: it may have held before";
}

TEST(Compare, ExpectationOnRecordForAnotherRelease_IsAsExpected) {
  CompareContext with = background();
  Expectation e;
  e.test = "c.Reproduces";
  e.result = Result::Healthy;
  e.seen = kOk;
  e.records = {"2.11.0/g.jsonl"};
  with.rules.expectations = {e};
  FakeRun newer;
  newer.release = "2.16.0";
  newer.saw(kOk).write(::testing::TempDir() + "/newer.jsonl");
  const JudgedRun judged = judge_without_staleness(read_record(::testing::TempDir() + "/newer.jsonl"), with);
  EXPECT_EQ(judged.rows.back().verdict, Verdict::AsExpected) << to_string(judged.rows.back().observed);
}

TEST(Compare, ErrorGoneAndDamageKept_BreaksHandlers) {
  FakeRun before, now;
  before.effect = now.effect = "leaks";
  before.saw(kRaised).saw("D", "ReproducesMemoryKept");
  const Comparison comparison = compared({before}, {now.saw(kOk).saw("D", "ReproducesMemoryKept")});
  EXPECT_EQ(test_of(comparison).consequence, Consequence::BrokenHandlers);
  EXPECT_THAT(sentence_of(test_of(comparison)), HasSubstr("shows nothing of it, and still leaks"));
}

TEST(Compare, HealedRaceAndInapplicableTest_LeaveNoOtherForms) {
  std::vector<FakeRun> before, now;
  for (int run = 0; run < 5; ++run) {
    before.push_back(FakeRun().rate(3, 9));
    now.push_back(FakeRun().rate(0, 9).not_there("ReproducesElsewhere", "inapplicable"));
    for (FakeRun* one : {&before.back(), &now.back()}) one->started = fmt::format("2026-01-0{}T00:00:00Z", run + 1);
  }
  const ComparedTest gone = test_of(compared(before, now), "ReproducesAtRate");
  EXPECT_EQ(gone.consequence, Consequence::Healed);
  EXPECT_THAT(sentence_of(gone), Not(HasSubstr("other forms")));
}

TEST(Compare, RaceThatNowCrashes_BreaksHandlers) {
  FakeRun now;
  now.line({{"test", "c.ReproducesAtRate"}, {"ending", "signal"}, {"code", 11}});
  EXPECT_EQ(test_of(compared({FakeRun().rate(3, 9)}, {now}), "ReproducesAtRate").consequence,
            Consequence::BrokenHandlers);
}

TEST(Compare, RaceThatCrashesInOneOfSeveralRuns_BreaksHandlers) {
  const auto started = [](FakeRun run, int day) {
    run.started = fmt::format("2026-01-0{}T00:00:00Z", day);
    return run;
  };
  const Json crash = {{"test", "c.ReproducesAtRate"}, {"ending", "signal"}, {"code", 11}};
  const FakeRun before = FakeRun().rate(3, 9), counted = started(before, 1);
  for (const int day : {1, 2}) {  // The crash is in the newer or in the older run.
    const FakeRun crashed = started(FakeRun().line(crash), day);
    EXPECT_EQ(test_of(compared({before}, {started(counted, 3 - day), crashed}), "ReproducesAtRate").consequence,
              Consequence::BrokenHandlers);
    EXPECT_EQ(test_of(compared({before, crashed}, {counted, crashed}), "ReproducesAtRate").consequence,
              Consequence::Same)
        << "it could crash before";
  }
}

TEST(Compare, HealedWhileAnotherFormRemains_MentionsIt) {
  const Comparison comparison = compared({FakeRun().saw("D").saw("D", "ReproducesElsewhere")},
                                         {FakeRun().saw(kOk).saw("D", "ReproducesElsewhere")});
  EXPECT_EQ(test_of(comparison).consequence, Consequence::Healed);
  EXPECT_THAT(sentence_of(test_of(comparison)), HasSubstr("other forms of this failure remain"));
}

TEST(Compare, FixGoneWhileAFormHasNoResult_StoppedHolding) {
  const auto fix = [](const FakeRun& now) {
    const FakeRun before = FakeRun().saw("D").saw("D", "ReproducesElsewhere").passed("FixIt");
    return test_of(compared({before}, {now}), "FixIt").consequence;
  };
  const FakeRun healed = FakeRun().saw(kOk).not_there("FixIt", "inapplicable");
  EXPECT_EQ(fix(FakeRun(healed).saw(kOk, "ReproducesElsewhere")), Consequence::Same) << "nothing is left to fix";
  EXPECT_EQ(fix(FakeRun(healed).not_there("ReproducesElsewhere", "skipped")), Consequence::StoppedHolding);
}

TEST(Compare, NewOrHealedRace_NeedsFiveRunsWithoutAHit) {
  const auto runs = [](std::initializer_list<int> hits) {
    std::vector<FakeRun> all;
    for (const int n : hits) all.push_back(FakeRun().rate(n, 100));
    return all;
  };
  const auto of = [&](const std::vector<FakeRun>& from, const std::vector<FakeRun>& to) {
    return test_of(compared(from, to), "ReproducesAtRate");
  };
  EXPECT_EQ(of(runs({0, 0, 0, 0, 0}), runs({1})).consequence, Consequence::NewErrors);
  EXPECT_EQ(of(runs({9}), runs({0, 0, 0, 0, 0})).consequence, Consequence::Healed);
  EXPECT_EQ(of(runs({9}), runs({80})).consequence, Consequence::Same);
  EXPECT_EQ(of(runs({0, 0, 0, 0, 0}), runs({0, 0, 0, 0, 0})).consequence, Consequence::Same);
  for (const ComparedTest& few : {of(runs({0, 0, 0, 0}), runs({1})), of(runs({9}), runs({0}))}) {
    EXPECT_EQ(few.consequence, Consequence::Unknown);
    EXPECT_THAT(sentence_of(few), StartsWith("insufficient data: not seen in "));
  }
}

// A Control or a Fix of a race has tries too. It holds in all of them, or it does not hold.
TEST(Compare, FixOfARace_IsComparedByItsResult) {
  const auto fix = [](int hits) { return FakeRun().passed("FixIt", hits == 0, {{"hits", hits}, {"tries", 60}}); };
  EXPECT_EQ(test_of(compared({fix(0)}, {fix(0)}), "FixIt").consequence, Consequence::Same);
  EXPECT_EQ(test_of(compared({fix(0)}, {fix(3)}), "FixIt").consequence, Consequence::StoppedHolding);
}

// A run without the number of its tries shows neither the race nor that it is gone.
TEST(Compare, RaceThatLacksTries_IsNoResultOfItsSide) {
  const FakeRun counted = FakeRun().rate(10, 1000), uncounted = FakeRun().passed("ReproducesAtRate");
  const auto of = [](const FakeRun& from, const FakeRun& to) {
    return test_of(compared({from}, {to}), "ReproducesAtRate");
  };
  const ComparedTest newer = of(counted, uncounted), older = of(uncounted, counted);
  EXPECT_EQ(newer.consequence, Consequence::Unknown);
  EXPECT_EQ(newer.lacking, Lacking::Newer);
  EXPECT_EQ(older.consequence, Consequence::Unknown);
  EXPECT_EQ(older.lacking, Lacking::Older);
  EXPECT_EQ(of(uncounted, uncounted).lacking, Lacking::Both);
}

// The failure itself leaks on both sides.
TEST(Compare, FixThatHeldAndLeaks_IsNewDamage) {
  const auto run = [](bool leaks) {
    FakeRun one;
    one.effect = "leaks";
    const Json left = {{"assertions", {"c.cpp:7: 512 bytes are still there"}}};
    return one.saw("D").passed("FixIt", !leaks, leaks ? left : Json::object());
  };
  const auto fix = [&](bool before, bool now) { return test_of(compared({run(before)}, {run(now)}), "FixIt"); };
  EXPECT_EQ(fix(false, true).consequence, Consequence::NewDamage);
  EXPECT_TRUE(fix(false, true).is_damaged());
  EXPECT_EQ(fix(true, true).consequence, Consequence::Same);
  EXPECT_EQ(fix(true, false).consequence, Consequence::HoldsAgain);
}

TEST(Compare, CopiesOfOneRunOfARace_CountOnce) {
  FakeRun never = FakeRun().rate(0, 100);
  never.id = "one";
  const auto of = [&](const std::vector<FakeRun>& before) {
    return sentence_of(test_of(compared(before, {FakeRun().rate(1, 100)}), "ReproducesAtRate"));
  };
  EXPECT_THAT(of({never, never, never, never, never}), StartsWith("insufficient data: not seen in 1 run of 2.6.0"));
}

TEST(Compare, HostCaseOfTheMachineItself_IsNotReplacedByARunWithoutAGpu) {
  FakeRun own = FakeRun().saw("D"), host = FakeRun().saw(kOk);
  own.needs = host.needs = "python";
  host.gpu = host.driver = "";
  host.started = "2026-01-02T00:00:00Z";
  EXPECT_EQ(test_of(compared({own}, {own, host})).consequence, Consequence::Same);
  host.hash = "newer code";
  FakeRun raises = FakeRun(host);
  raises.tests.back()["seen"] = "D";
  raises.tests.back().update(fake_ending(true));
  EXPECT_EQ(test_of(compared({own, raises}, {own, host})).consequence, Consequence::Healed) << "the newest code counts";
}

TEST(Compare, DifferentCodeOfACase_IsNotMeasured) {
  CompareContext background;
  FakeRun now;
  now.hash = "new";
  const Comparison other = compared({FakeRun().saw("D")}, {now.saw(kOk)});
  EXPECT_EQ(test_of(other).consequence, Consequence::Unknown);
  EXPECT_EQ(sentence_of(test_of(other)), "not comparable: 2.6.0 and 2.15.0 ran different code of the case");
  EXPECT_FALSE(test_of(other).is_measured);
  EXPECT_EQ(other.unknown(), 0U);
  // Each side's newest run with code that the other also has, although the tree has newer code.
  background.rules.tree["c"] = {"f", "", "source", "new"};
  const Comparison moved = compared({FakeRun().saw("D")}, {now, FakeRun().saw(kOk)}, background);
  EXPECT_EQ(test_of(moved).consequence, Consequence::Healed);
  EXPECT_THAT(render_head(moved),
              ::testing::Contains(HasSubstr("1 case has changed since these runs; both sides ran the same")));
  const Comparison one = compared({FakeRun().saw("D")}, {now}, background);
  EXPECT_THAT(sentence_of(test_of(one)), HasSubstr("; `ci/suite 2.6.0` runs today's"));
  // Formats hash different sources: both hashes must be the tree's.
  FakeRun old;
  old.format = 1;
  old.hash = "source";
  EXPECT_EQ(test_of(compared({old.saw("D")}, {now}, background)).consequence, Consequence::Healed);
  background.rules.tree["c"].hash = "moved on";
  EXPECT_EQ(test_of(compared({old}, {now}, background)).consequence, Consequence::Unknown);
}

TEST(Compare, CutRun_IsNotedWhileNoOtherRunHasItsRest) {
  FakeRun cut = FakeRun().saw("D");
  cut.end = "";
  Side before{"2.6.0", {cut.judged()}};
  const Side now{"2.15.0", {FakeRun().saw("D").judged()}};
  before.runs[0].record.plan.emplace_back("c.ReproducesTwo");
  const auto is_noted = ::testing::Contains(HasSubstr("note: 2.6.0: the run did not come to its end"));
  EXPECT_THAT(render_head(compare_sides(before, now, background())), is_noted);
  before.runs.push_back(FakeRun().saw("D", "ReproducesTwo").judged());
  EXPECT_THAT(render_head(compare_sides(before, now, background())), Not(is_noted));
}

// A run of one side, changed before it is judged.
template <class Edit>
Side side_with(const std::string& name, const FakeRun& run, const Edit& change) {
  Record record = run.judged().record;
  change(record);
  return {name, {judge_without_staleness(std::move(record), {})}};
}

TEST(Compare, ShardOfARun_LeavesTheOtherTestsUnknown) {
  const Side before{"2.6.0", {FakeRun().saw("D").saw("D", "ReproducesTwo").judged()}};
  Side shard = side_with("2.15.0", FakeRun().saw("D"), [](Record& record) {
    record.whole_plan = {"c.Control", "c.Reproduces", "c.ReproducesTwo"};
  });
  const Comparison comparison = compare_sides(before, shard, background());
  EXPECT_EQ(sentence_of(test_of(comparison, "ReproducesTwo")), "not run in 2.15.0: a shard of that run is missing");
  EXPECT_EQ(comparison.unknown(), 1U);
  EXPECT_EQ(exit_for(comparison), Exit::Inconclusive);
  shard.runs.push_back(FakeRun().saw("D", "ReproducesTwo").judged());
  EXPECT_EQ(exit_for(compare_sides(before, shard, background())), Exit::AsExpected) << "another run has it";
}

TEST(Compare, NoClearResultOnOneSide_IsUnknownWithItsReason) {
  const std::vector<std::tuple<FakeRun, FakeRun, std::string>> table = {
      {FakeRun().not_there("Reproduces", "skipped"), FakeRun().saw("D"), "cannot run in 2.6.0: why not"},
      {FakeRun().saw("D"), FakeRun().not_there("Reproduces", "inapplicable"), "not applicable in 2.15.0: why not"},
      {FakeRun().saw("D"), FakeRun().saw("D", "Reproduces", {{"code", 1}}),
       "inconclusive in 2.15.0: it said that it passed"},
  };
  for (const auto& [from, to, words] : table) {
    const Comparison comparison = compared({from}, {to});
    EXPECT_EQ(test_of(comparison).consequence, Consequence::Unknown);
    EXPECT_THAT(sentence_of(test_of(comparison)), StartsWith(words));
    EXPECT_EQ(comparison.unknown(), 1U);
    EXPECT_EQ(comparison.not_measured(), 0U);
  }
}

// The records are older than the cases: that is no fault of the upgrade, and no result either.
TEST(Compare, TestThatACutRunDidNotReach_CanStillRun) {
  const Side before{"2.6.0", {FakeRun().saw("D").saw("D", "ReproducesTwo").judged()}};
  const Side cut = side_with("2.15.0", FakeRun().saw("D"), [](Record& record) {
    record.plan.emplace_back("c.ReproducesTwo");
    record.end.clear();
  });
  const ComparedTest lost = test_of(compare_sides(before, cut, background()), "ReproducesTwo");
  EXPECT_TRUE(lost.is_measured);
  EXPECT_TRUE(lost.ran) << "gate --run runs it, and JUnit does not skip it";
}

// It has no result that the newer release could lose. In one line, as of two nightlies, an earlier run may have one.
TEST(Compare, TestThatTheOlderReleasesRunDidNotReach_IsNotMeasured) {
  const Side cut = side_with("2.6.0", FakeRun().saw("D"), [](Record& record) {
    record.plan.emplace_back("c.ReproducesTwo");
    record.end.clear();
  });
  for (const auto& [release, is_measured] :
       {std::pair("2.15.0", false), {"2.6.0", true}, {"2.6.1.dev20260102", true}}) {
    FakeRun run = FakeRun().saw("D").saw("D", "ReproducesTwo");
    run.release = release;
    const Side now{release, {run.judged()}};
    const ComparedTest test = test_of(compare_sides(cut, now, background()), "ReproducesTwo");
    EXPECT_EQ(test.is_measured, is_measured) << release;
    EXPECT_EQ(test.is_replaceable, !is_measured) << release;
    EXPECT_EQ(test.consequence, Consequence::Unknown) << release;
  }
}

TEST(Compare, TestThatNoRunOfASideHas_IsNotMeasured) {
  const Comparison comparison = compared({FakeRun()}, {FakeRun().saw("D")});
  EXPECT_EQ(test_of(comparison).consequence, Consequence::Unknown);
  EXPECT_EQ(sentence_of(test_of(comparison)), "not part of any run of 2.6.0");
  EXPECT_EQ(std::tuple(comparison.judged(), comparison.unknown(), comparison.not_measured()), std::tuple(1U, 0U, 1U));
  EXPECT_FALSE(too_much_unknown(comparison)) << "half of them";
  EXPECT_TRUE(too_much_unknown(comparison, {10, 49}));
  EXPECT_TRUE(too_much_unknown(compared({FakeRun()}, {FakeRun().saw("D").saw("D", "ReproducesTwo")})));
}

// One of four measured tests is unknown. Tests that are not measured do not count.
TEST(Compare, WhatIsUnknown_IsHeldAgainstWhatWasMeasured) {
  const auto side = [](FakeRun run) { return run.saw("D").saw("D", "ReproducesTwo"); };
  const Comparison comparison = compared({side(FakeRun()).not_there("FixIt", "skipped")},
                                         {side(FakeRun()).passed("FixIt").saw("D", "ReproducesB")});
  EXPECT_EQ(std::tuple(comparison.judged(), comparison.unknown(), comparison.not_measured()), std::tuple(3U, 1U, 1U));
  EXPECT_TRUE(too_much_unknown(comparison, {24, 50}));
  EXPECT_FALSE(too_much_unknown(comparison, {25, 50}));
}

TEST(Compare, EachOutcome_HasItsExitCode) {
  EXPECT_EQ(exit_for(compared({FakeRun().saw("D")}, {FakeRun().saw("D")})), Exit::AsExpected);
  EXPECT_EQ(exit_for(compared({FakeRun().saw(kOk)}, {FakeRun().saw("D")})), Exit::Changed);
  EXPECT_EQ(exit_for(compared({FakeRun().saw("D")}, {FakeRun().saw(kOk)})), Exit::Harmless);
  EXPECT_EQ(exit_for(compared({FakeRun().saw("D")}, {FakeRun().not_there("Reproduces", "skipped")})),
            Exit::Inconclusive);
  EXPECT_EQ(exit_for(compared({FakeRun().saw(kOk).saw("D", "ReproducesTwo")}, {FakeRun().saw("D")})), Exit::Changed)
      << "a known regression counts, however much is unknown";
}

// Two sides that differ in everything, for each format.
Comparison rich() {
  FakeRun before, now;
  before.effect = now.effect = "silently wrong";
  before.saw(kRaised).saw("D", "ReproducesB").saw("D", "ReproducesC").saw("D", "ReproducesGone").passed("FixIt");
  now.saw("D").saw(kRaised, "ReproducesB").saw(kOk, "ReproducesC").passed("FixIt", false);
  return compared({before}, {now});
}

ComparisonReport report_of(const Comparison& comparison) {
  static const Policy policy = compare_policy();
  return {comparison, policy};
}

TEST(Format, Text_BeginsWithTheAnswerAndIsOrderedByConsequence) {
  const Comparison comparison = rich();
  const std::string text = render_text(report_of(comparison));
  EXPECT_THAT(
      text,
      StartsWith("2.6.0 -> 2.15.0 on G, driver 1: breaks programs that run today\n"
                 "  5 of 6 tests judged, 0 unknown, 1 not measured: 1 broken handlers, 1 stopped holding, 1 damage "
                 "raises now, 1\n    healed\n"
                 "  not measured: 1 test of 1 case; `recapture gate 2.6.0 2.15.0 --run` measures it on a GPU\n"));
  size_t last = 0;
  for (const char* heading :
       {"broken handlers (", "stopped holding (", "damage raises now (", "healed (", "not measured\n"}) {
    const size_t at = text.find(std::string("\n") + heading);
    EXPECT_NE(at, std::string::npos) << heading << "\n" << text;
    EXPECT_GE(at, last) << heading;
    last = at;
  }
  EXPECT_THAT(text, HasSubstr("more: recapture show c"));
  EXPECT_THAT(text, HasSubstr("bundled: CUDA runtime 12.4, cuDNN not on record"));
  EXPECT_THAT(text, HasSubstr("     in c\n")) << "the case that is not measured";
  EXPECT_EQ(text, render_text(report_of(rich())));
}

TEST(Format, Json_HasTheseKeysAndNoOthers) {
  const Comparison comparison = rich();
  const Json json = render_json(report_of(comparison));
  std::vector<std::string> keys, of_a_change;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  for (const auto& [key, value] : json.at("changes").at(0).items()) of_a_change.push_back(key);
  EXPECT_THAT(keys, ElementsAre("from", "to", "machine", "gpu", "driver", "variables", "libraries", "not_on_record",
                                "head", "judged", "unknown", "unknown_tests", "not_measured", "not_measured_tests",
                                "counts", "changes", "policy", "exit", "answer", "schema"));
  EXPECT_THAT(of_a_change, ElementsAre("consequence", "case", "tests", "was", "is", "sentence", "fixes", "upstream",
                                       "upstream_changes", "group", "blocks"));
  EXPECT_EQ(json.at("changes").at(0).at("consequence"), "broken handlers");
  EXPECT_EQ(json.at("changes").at(0).at("tests"), Json({"c.Reproduces"}));
  EXPECT_EQ(json.at("unknown_tests"), Json::array());
  EXPECT_EQ(json.at("not_measured"), 1);
  EXPECT_EQ(json.at("not_measured_tests").at(0).at("test"), "c.ReproducesGone");
  EXPECT_EQ(json.at("not_measured_tests").at(0).at("reason"), "not part of any run of 2.15.0");
}

// An error of 93 tests that now has another type; a third of them leaves less behind.
Comparison renamed() {
  Comparison comparison = rich();
  CaseChange change;
  change.consequence = Consequence::ErrorChanged;
  change.change = {ChangeKind::Origin, {.type = "c10::Error"}, {.type = "c10::AcceleratorError"}};
  comparison.changes.clear();
  for (int i = 0; i < 93; ++i) {
    change.case_id = fmt::format("case_{}", i);
    change.change.notes.afterwards.clear();
    if (i % 3 == 0) change.change.notes.afterwards = {{Probe::Trim, "keeps the memory"}};
    change.tests = {change.case_id + ".Reproduces"};
    comparison.changes.push_back(change);
  }
  return comparison;
}

TEST(Format, RenameThatHitsManyTests_IsOneLineAndCountsOne) {
  const Comparison comparison = renamed();
  const std::string text = render_text(report_of(comparison));
  EXPECT_THAT(text, HasSubstr(": 1 error changed\n"));
  EXPECT_THAT(text, HasSubstr("\n  the same error was a c10::Error in 2.6.0; in 2.15.0 it is a c10::AcceleratorError: "
                              "93 tests of 93 cases\n    afterwards emptyCache(): keeps the memory: 31 tests of 31 "
                              "cases\n\n"));
  EXPECT_THAT(text, Not(HasSubstr("case_7")));
  EXPECT_THAT(render_text(report_of(comparison), true), HasSubstr(" case_7 "));
  EXPECT_THAT(render_markdown(report_of(comparison)), HasSubstr("<summary>1 error changed ("));
  const Json json = render_json(report_of(comparison));
  EXPECT_EQ(json.at("counts"), Json({{"error changed", {{"changes", 1}, {"tests", 93}}}}));
  EXPECT_EQ(json.at("changes").size(), 93U);
  for (const Json& change : json.at("changes")) EXPECT_EQ(change.at("group"), 0);
}

TEST(Format, Gate_IsTheVerdictAndWhatBlocksInTenLines) {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  Comparison comparison = rich();
  const Policy policy;
  const auto decision_on = [&](const Comparison& all) {
    return decide(policy, all, {"c"}, background().catalogue, "2026-11-25");
  };
  const Decision blocked = decision_on(comparison);
  const std::string text = render_short({comparison, policy, &blocked});
  EXPECT_EQ(
      text,
      "2.6.0 -> 2.15.0 on G, driver 1: blocked\n"
      "  broken handlers: c: raised CUDA error 900, invalidating the capture; now goes on with wrong results,...\n"
      "    fix: no remedy is known to hold in 2.15.0\n"
      "  stopped holding: c: the fix \"Do it.\" held; now fails\n"
      "    fix: no remedy is known to hold in 2.15.0\n"
      "  not measured: 1 test of 1 case; `recapture gate 2.6.0 2.15.0 --run` measures it on a GPU\n"
      "  5 of 6 tests judged, 0 unknown, 1 not measured; 2 other changes allowed\n"
      "  --verbose prints every change, price, note and reason; `recapture show CASE` what is on record\n");
  comparison.prices.resize(1);
  EXPECT_THAT(render_short({comparison, policy, &blocked}),
              HasSubstr("; 2 other changes and 1 price change allowed\n  --verbose"));
  for (const char* text : {"a run was cut short", "another was"}) {
    comparison.notes.push_back({.kind = NoteKind::OfRun, .side = "2.6.0", .text = text});
  }
  EXPECT_THAT(render_short({comparison, policy, &blocked}),
              HasSubstr("\n  note: 2.6.0: a run was cut short\n  note: 2.6.0: another was\n  5 of 6"));
  comparison.notes.clear();
  comparison.changes.front().fixes = {{Advice::Apply, "Do this."}, {Advice::Apply, "Do that."}};
  EXPECT_THAT(render_short({comparison, policy, &blocked}), HasSubstr("\n    fix (1 of 2): Do this.\n"));
  // More than fit.
  Decision many = blocked;
  const CaseChange first = comparison.changes.front();
  for (int i = 0; i < 40; ++i) {
    CaseChange change = first;
    change.case_id = fmt::format("case_{}", i);
    change.tests = {change.case_id + ".Reproduces"};
    change.change.from.failure.code = i + 1;
    many.blocking.insert(change.tests.front());
    comparison.changes.push_back(change);
  }
  const std::string long_text = render_short({comparison, policy, &many});
  EXPECT_EQ(lines(long_text), 9) << "a change and its fix are two";
  EXPECT_THAT(long_text, HasSubstr("\n  and 40 more: case_0, case_1, "));
  // Too much is unknown.
  const Comparison unknown = compared({FakeRun().saw("D")}, {FakeRun().not_there("Reproduces", "skipped")});
  const Decision cannot_tell = decision_on(unknown);
  EXPECT_EQ(render_short({unknown, policy, &cannot_tell}),
            "2.6.0 -> 2.15.0 on G, driver 1: cannot tell\n"
            "  1 of 2 tests in scope are unknown, and 10 % may be: c\n"
            "  1: cannot run in 2.15.0: why not\n"
            "  1 of 2 tests judged, 1 unknown; nothing else changed\n"
            "  --verbose prints every change, price, note and reason; `recapture show CASE` what is on record\n");
  const Comparison little = compared({FakeRun()}, {FakeRun().saw("D").saw("D", "ReproducesTwo")});
  const Decision too_little = decision_on(little);
  EXPECT_THAT(render_short({little, policy, &too_little}),
              HasSubstr(": cannot tell\n  2 of 3 tests in scope are not measured, and 50 % may be: c\n"));
}

TEST(Format, Markdown_StaysShortAndCountsWhatItLeavesOut) {
  Comparison comparison = rich();
  CaseChange large = comparison.changes.front();
  comparison.changes.clear();
  for (int i = 0; i < 300; ++i) {
    large.case_id = fmt::format("case_{}", i);
    large.change = {ChangeKind::Observation, {.text = fmt::format("{}|<b>{}", std::string(1000, 'x'), i)}, {}};
    comparison.changes.push_back(large);
  }
  const std::string text = render_markdown(report_of(comparison));
  EXPECT_LT(text.size(), 20000U);
  EXPECT_GT(text.size(), 15000U);
  EXPECT_THAT(text, StartsWith("### 2.6.0 → 2.15.0 on G, driver 1: breaks programs that run today\n"));
  EXPECT_THAT(text, HasSubstr("x\\|&lt;b&gt;"));
  EXPECT_THAT(text, HasSubstr(" more cases are left out here; `recapture compare` lists them all."));
}

TEST(Format, Markdown_ShowsWhatHurtsAndFoldsTheRest) {
  const Comparison comparison = rich();
  const std::string text = render_markdown(report_of(comparison));
  EXPECT_THAT(text, HasSubstr("\n**1 broken handlers (raised before; "));
  EXPECT_THAT(text, HasSubstr("<details><summary>1 healed ("));
  EXPECT_THAT(text, Not(HasSubstr("-&gt;")));
  const auto count = [&](const std::string& part) {
    size_t all = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++all;
    return all;
  };
  EXPECT_EQ(count("<details>"), count("</details>"));
}

TEST(Format, JUnit_FailsForWhatHurtsAndNeverPassesForWhatIsUnknown) {
  const Comparison comparison = rich();
  pugi::xml_document xml;
  ASSERT_TRUE(xml.load_string(render_junit(report_of(comparison)).c_str()));
  EXPECT_EQ(xml.select_nodes("//failure").size(), 2U);
  EXPECT_EQ(xml.select_nodes("//testcase[@name='ReproducesGone']/skipped").size(), 1U);
  EXPECT_EQ(xml.select_nodes("//testsuite[@name='comparison']//error").size(), 0U);
  const Comparison unknown = compared({FakeRun().saw("D")}, {FakeRun().not_there("Reproduces", "skipped")});
  EXPECT_THAT(render_junit(report_of(unknown)), HasSubstr("EnoughIsKnown")) << "1 of 2 is more than a tenth";
  const auto suite = xml.select_node("//testsuite[@name='c']").node();
  EXPECT_EQ(suite.attribute("tests").as_int(), 6);
  EXPECT_EQ(suite.attribute("failures").as_int(), 2);
}

const std::string kToday = "2026-11-25";

Decision decided(const Policy& policy, const Comparison& comparison, const std::set<std::string>& scope = {"c"}) {
  return decide(policy, comparison, scope, background().catalogue, kToday);
}

Comparison damaged() {
  FakeRun before, now;
  before.effect = now.effect = "silently wrong";
  return compared({before.saw(kOk)}, {now.saw("D")});
}

TEST(Gate, Policy_BlocksByConsequenceAndNeverForWhatIsBetter) {
  const Policy standard;
  const Comparison worse = compared({FakeRun().saw(kOk)}, {FakeRun().saw("D")}),
                   better = compared({FakeRun().saw("D")}, {FakeRun().saw(kOk)});
  const Comparison another = compared({FakeRun().saw(kRaised)}, {FakeRun().saw("check \"no\" > active > ok")});
  EXPECT_EQ(decided(standard, worse).exit(), Exit::Changed);
  EXPECT_EQ(decided(standard, another).exit(), Exit::AsExpected) << "the text of an error blocks only where asked for";
  EXPECT_EQ(decided(standard, better).exit(), Exit::AsExpected);
  const Comparison cut = compared({FakeRun().saw("D")}, {FakeRun().not_there("Reproduces", "skipped")});
  EXPECT_EQ(decided(standard, cut).exit(), Exit::Inconclusive);
  Policy strict = standard, blind = standard;
  strict.block = {Consequence::ErrorChanged};
  blind.limits.unknown = 100;
  EXPECT_EQ(decided(strict, another).exit(), Exit::Changed);
  EXPECT_EQ(decided(strict, worse).exit(), Exit::AsExpected);
  EXPECT_EQ(decided(blind, cut).exit(), Exit::AsExpected);
  EXPECT_EQ(decided(standard, filter_cases(better, {})).exit(), Exit::Inconclusive) << "nothing was judged";
}

TEST(Gate, NewDamage_BlocksOutOfScopeAndWithoutBeingAskedFor) {
  Policy narrow;
  narrow.scope = {"DDP"};
  const Decision outside = decided(narrow, damaged(), {"another_case"});
  EXPECT_EQ(outside.exit(), Exit::Changed);
  EXPECT_EQ(report::render_reason(outside), "new damage (c)");
  EXPECT_EQ(report::render_outside_scope(outside), "outside your scope: new damage (c)");
  Policy lax;
  lax.block = {};
  EXPECT_EQ(decided(lax, damaged()).exit(), Exit::Changed);
}

TEST(Gate, WhatHurtsOutsideTheScope_IsReportedInOneLine) {
  const Comparison worse = compared({FakeRun().saw(kOk)}, {FakeRun().saw("D")});
  Comparison with_another = worse;
  with_another.tests.push_back({.test = "other.Control", .consequence = Consequence::Same});
  const Decision decision = decided(Policy(), with_another, {"other"});
  EXPECT_EQ(decision.exit(), Exit::AsExpected);
  EXPECT_EQ(answer_of(decision), "passes");
  EXPECT_EQ(report::render_outside_scope(decision), "outside your scope: new errors (c)");
  EXPECT_EQ(report::render_outside_scope(decided(Policy(), worse)), "");
}

TEST(Gate, Waiver_LetsNamedTestsPassUntilItsEnd) {
  const auto with = [](const std::string& test, const std::string& until) {
    Policy policy;
    policy.waivers = {{test, "we never reset a graph", until}};
    return decided(policy, damaged());
  };
  EXPECT_EQ(with("c.Reproduces", "").exit(), Exit::AsExpected);
  EXPECT_EQ(with("c", "").exit(), Exit::AsExpected);
  EXPECT_EQ(with("c*", "2026-11-25").exit(), Exit::AsExpected) << "through that day";
  EXPECT_EQ(with("c", "2026-11-24").exit(), Exit::Changed);
  EXPECT_EQ(with("c", "2.16").exit(), Exit::AsExpected);
  EXPECT_EQ(with("c", "2.15").exit(), Exit::Changed) << "2.15.0 is not older";
  EXPECT_EQ(report::render_waiver(with("c", "").waivers.front()), "waived: c.Reproduces (we never reset a graph)");
  EXPECT_EQ(report::render_waiver(with("c", "2026-11-24").waivers.front()),
            "waiver expired on 2026-11-24: c (we never reset a graph)");
  EXPECT_EQ(with("c.Control", "").exit(), Exit::Changed);
  EXPECT_EQ(report::render_waiver(with("c.Control", "").waivers.front()),
            "waiver without effect: c.Control (we never reset a graph)");
  EXPECT_THROW(with("nothing_like_it", ""), ExitError);
}

// A run may be named by a word such as "latest".
TEST(Gate, WaiverUntilARelease_EndsByTheReleaseOfTheRun) {
  Policy policy;
  policy.waivers = {{"c.Reproduces", "we never reset a graph", "2.15"}};
  Comparison comparison = damaged();
  comparison.to = "latest";
  EXPECT_EQ(decided(policy, comparison).exit(), Exit::Changed);
  policy.waivers.front().until = "2.16";
  EXPECT_EQ(decided(policy, comparison).exit(), Exit::AsExpected);
}

TEST(Gate, TestsInScopeThatNeverRan_AreNotMeasured) {
  Comparison comparison = compared({FakeRun()}, {FakeRun()});
  EXPECT_EQ(decided(Policy(), comparison).exit(), Exit::AsExpected);
  add_never_run(tests_to_judge({"c"}, background().catalogue), comparison);
  EXPECT_EQ(comparison.not_measured(), background().catalogue.front().tests.size() - 1) << "all except its control";
  EXPECT_EQ(sentence_of(test_of(comparison, "FixIt")), "not part of any run of 2.6.0 or 2.15.0");
  EXPECT_EQ(answer_of(decided(Policy(), comparison)), "cannot tell");
}

// Cases that a policy names must be measured, even if the records are older than the cases.
TEST(Gate, NotMeasuredCaseThatTheScopeNames_IsUnknown) {
  Comparison comparison = compared({FakeRun()}, {FakeRun().saw("D")});
  EXPECT_EQ(answer_of(decided(Policy(), comparison)), "passes");
  demand_measured({"another"}, comparison);
  EXPECT_EQ(answer_of(decided(Policy(), comparison)), "passes");
  demand_measured({"c"}, comparison);
  EXPECT_EQ(answer_of(decided(Policy(), comparison)), "cannot tell");
  EXPECT_EQ(report::render_reason(decided(Policy(), comparison)),
            "1 of 2 tests in scope are unknown, and 10 % may be: c");
}

TEST(Gate, WordOfTheScopeWithoutAJudgedTest_CannotTell) {
  Catalogue all = background().catalogue;
  all.push_back(all.front());
  all.back().id = "d";
  Comparison comparison = compared({FakeRun()}, {FakeRun()});
  for (int i = 0; i < 20; ++i) {
    comparison.tests.push_back({.test = fmt::format("c.Control{}", i), .consequence = Consequence::Same});
  }
  comparison.tests.push_back({.test = "d.FixIt", .consequence = Consequence::NewFix});
  comparison.tests.push_back({.test = "d.FixOther", .consequence = Consequence::Same});  // Both releases lack it.
  comparison.tests.push_back({.test = "d.Reproduces", .is_measured = false});
  Policy policy;
  const auto decision = [&] { return decide(policy, comparison, {"c", "d"}, all, kToday); };
  EXPECT_EQ(answer_of(decision()), "passes");
  policy.scope = {"c", "d"};
  EXPECT_EQ(answer_of(decision()), "cannot tell");
  EXPECT_EQ(report::render_reason(decision()), "no test is judged of d, which the scope names");
  EXPECT_EQ(decision().exit(), Exit::Inconclusive);
  comparison.tests.back().consequence = Consequence::NewErrors;
  EXPECT_EQ(answer_of(decision()), "blocked") << "recorded results count";
}

TEST(Gate, WordOfTheScopeWithSimulatedCasesAlone_IsCalledSimulated) {
  Catalogue all = background().catalogue;
  all.push_back(all.front());
  all.back().id = "d";
  all.back().fidelity = Fidelity::Simulated;
  const Comparison comparison = compared({FakeRun()}, {FakeRun()});
  Policy policy;
  policy.scope = {"c", "d"};
  const Decision decision = decide(policy, comparison, {"c"}, all, kToday);
  EXPECT_EQ(answer_of(decision), "cannot tell");
  EXPECT_EQ(report::render_reason(decision), "d is simulated: our own model, which shows nothing about a release");
}

TEST(Gate, CasesOutOfScopeThatNeverRan_AreNotUnknown) {
  Catalogue all = background().catalogue;
  all.push_back(all.front());
  all.back().id = "d";
  Comparison both = compared({FakeRun().saw("D")}, {FakeRun().saw("D")});
  Comparison first = both;
  add_never_run(tests_to_judge({"c", "d"}, all), both);
  EXPECT_EQ(both.tests.size(), 2 * all.front().tests.size());
  add_never_run(tests_to_judge({"c"}, all), first);
  EXPECT_EQ(first.tests.size(), all.front().tests.size());
}

TEST(Gate, JUnit_FailsForWhatBlocksAlone) {
  const Comparison another = compared({FakeRun().saw(kRaised)}, {FakeRun().saw("check \"no\" > active > ok")});
  const Comparison worse = compared({FakeRun().saw(kOk)}, {FakeRun().saw("D")});
  const Policy policy;
  const Decision passes = decided(policy, another), blocked = decided(policy, worse);
  EXPECT_THAT(render_junit({another, policy, &passes}),
              AllOf(Not(HasSubstr("<failure")), HasSubstr("error changed: ")));
  EXPECT_THAT(render_junit({worse, policy, &blocked}), HasSubstr("<failure"));
}

// The changes from real records. Sentences may be improved; the changes themselves may not change unnoticed.
TEST(Compare, CommittedRecords_GiveTheChangesOnFile) {
  const ShellResult said = shell(RECAPTURE_BUILD "/recapture --root " RECAPTURE_ROOT " compare --json " RECAPTURE_ROOT
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

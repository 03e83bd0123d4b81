#include "harness/verdict/judge.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "harness/lint/expectations.h"
#include "harness/model/release.h"
#include "harness/report/markdown.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/lint/signatures.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/verdict/verdict.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

TestRecord line(const Json& facts) {
  Json all{{"test", "c.ReproducesX"}, {"ending", "exited"}, {"code", 0}};
  all.update(facts);
  return {all};
}

// Of a test with and without an expectation for its machine.
Verdict judge(Kind kind, Result result, const Expectation* expected, const std::string& seen) {
  return verdict_of(kind, result, expected != nullptr, expected != nullptr && is_as_expected(*expected, result, seen));
}

Verdict verdict_if_broken(Break broken, Kind kind, const TestRecord& test) {
  Evidence evidence;
  evidence.kind = kind;
  evidence.reading = read_test(kind, test);
  evidence.broken = broken;
  return decide(evidence).verdict;
}

TestRecord showed(const std::string& seen) {
  const bool passed = seen == "900";
  return line({{"seen", seen},
               {"documented", "900"},
               {"healthy", "ok"},
               {"ended", passed ? "passed" : "failed"},
               {"code", passed ? 0 : 1}});
}

TEST(Classify, SeenSignature_IsReproducedHealthyOrDifferent) {
  EXPECT_EQ(classify(Kind::Reproduces, showed("900")), Result::Reproduced);
  EXPECT_EQ(classify(Kind::Reproduces, showed("ok")), Result::Healthy);
  EXPECT_EQ(classify(Kind::Reproduces, showed("906")), Result::Different);
}

TEST(Classify, OtherCallThanExpected_IsDifferent) {
  TestRecord test = showed("900");
  edit_line(test)["raised_by"] = "cuStreamSynchronize";
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Reproduced) << "no recorder: the call is not known";
  edit_line(test)["culprit"] = {{"api", "cuMemHostAlloc"}};
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Different);
  edit_line(test)["culprit"] = {{"api", "cuStreamSynchronize"}};
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Reproduced);
}

TEST(Classify, CrashInAProbe_KeepsTheTestsResult) {
  TestRecord test = showed("900");
  edit_line(test)["ending"] = "signal";
  edit_line(test)["code"] = 11;
  edit_line(test)->erase("ended");
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Crashed);
  edit_line(test)["probing"] = true;
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Crashed) << "no probe said anything";
  edit_line(test)["probes"] = {{"trim", "ok"}};
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Crashed) << "the probe came back; what crashed then?";
  edit_line(test)["probes"]["trim"] = "did not come back: signal";
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Reproduced);
}

TEST(Classify, CrashInAProbeWithoutAnObservation_IsACrash) {
  const TestRecord test{{{"test", "c.ReproducesX"},
                         {"ending", "signal"},
                         {"code", 11},
                         {"probing", true},
                         {"probes", {{"trim", "did not come back: signal"}, {"sticky", 900}}}}};
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Crashed);
}

TEST(Classify, TestWithoutAResult_IsInvalid) {
  EXPECT_EQ(classify(Kind::Reproduces, line(Json::object())), Result::Invalid);
  EXPECT_EQ(classify(Kind::Fix, line(Json::object())), Result::Invalid);
  EXPECT_EQ(classify(Kind::Fix, line({{"ended", "passed"}})), Result::Holds);
  EXPECT_EQ(classify(Kind::Control, line({{"ended", "failed"}, {"code", 1}})), Result::Broken);
  EXPECT_EQ(classify(Kind::Reproduces, line({{"ended", "passed"}})), Result::Invalid);
}

TEST(Classify, FailureThatWasNotReached_IsBroken) {
  const TestRecord test = line({{"ended", "failed"}, {"code", 1}});
  EXPECT_EQ(classify(Kind::Reproduces, test), Result::Broken);
  EXPECT_EQ(verdict_if_broken(Break::Trigger, Kind::Reproduces, test), Verdict::Inconclusive);
  EXPECT_EQ(verdict_if_broken(Break::Value, Kind::Reproduces, test), Verdict::Inconclusive);
}

TEST(Classify, UnavailableTest_IsSkippedOrLeftOut) {
  for (const ClassifyRow& row : classify_rows()) {
    if (row.reproduces != Result::Unavailable && row.other != Result::Unavailable) continue;
    EXPECT_TRUE(row.self_report == SelfReport::LeftOut || row.self_report == SelfReport::Skipped)
        << "could_run() asks for these alone";
  }
  EXPECT_FALSE(could_run(line({{"skipped", "no GPU"}, {"ended", "skipped"}, {"code", 77}})));
  EXPECT_FALSE(could_run(line({{"stub", "left out"}})));
  EXPECT_TRUE(could_run(line({{"skipped", "no GPU"}, {"ended", "passed"}}))) << "contradictory";
  EXPECT_TRUE(could_run(showed("906")));
}

TEST(Classify, RaceWithoutAHit_IsUnseen) {
  EXPECT_EQ(classify(Kind::Reproduces, line({{"hits", 0}, {"tries", 50}, {"ended", "failed"}, {"code", 1}})),
            Result::Unseen);
  EXPECT_EQ(classify(Kind::Reproduces, line({{"hits", 1}, {"tries", 50}, {"ended", "passed"}})), Result::Reproduced);
}

// A stub was called, perhaps by a child whose end looked like a result.
TEST(Classify, CalledStub_IsUnavailableHoweverTheTestEnds) {
  const std::string stub = std::string(kLeftOut) + "libcufft.so.12 (cufftPlan1d)";
  const std::vector<Json> ends = {{{"ending", "signal"}, {"code", 6}},
                                  {{"ended", "passed"}},
                                  {{"ended", "failed"}, {"code", 1}},
                                  {{"ending", "deadline"}},
                                  {{"ended", "passed"}, {"code", 66}},
                                  {{"seen", "900"}, {"documented", "900"}, {"healthy", "ok"}, {"ended", "passed"}}};
  for (const Json& end : ends) {
    TestRecord test = line(end);
    for (const Kind kind : {Kind::Control, Kind::Reproduces, Kind::Fix}) {
      EXPECT_NE(classify(kind, test), Result::Unavailable) << end;
    }
    TestRecord lacking = test;
    edit_line(lacking)["lacks"] = "the CUDA runtime has no cudaNew_v2";
    edit_line(test)["stub"] = stub;
    for (const Kind kind : {Kind::Control, Kind::Reproduces, Kind::Fix}) {
      EXPECT_EQ(classify(kind, test), Result::Unavailable) << end;
      EXPECT_EQ(classify(kind, lacking), Result::Unavailable) << end;
      EXPECT_EQ(verdict_if_broken(Break::Trigger, Kind::Reproduces, test), Verdict::Unavailable);
    }
    Record record;
    record.environment = {{"release", "2.15.0"}};
    record.cases["c"] = CaseInfo{};
    record.add(test);
    const TestVerdict row = judge_record(record, {}).front();
    EXPECT_EQ(row.verdict, Verdict::Unavailable);
    EXPECT_EQ(to_string(row.observed), stub);
  }
}

TEST(Judge, MissingPythonModule_IsUnavailable) {
  const auto row_of = [](Json facts) {
    Json all{{"test", "c.ControlX"}, {"ending", "exited"}, {"code", 1}, {"ended", "failed"}};
    all.update({{"exception", "ModuleNotFoundError"}, {"assertions", {"c.cpp:1: Expected equality"}}});
    all.update(facts);
    Record record;
    record.environment = {{"release", "2.2.2"}};
    record.cases["c"] = CaseInfo{};
    record.add({all});
    return judge_record(record, {}).front();
  };
  const TestVerdict numpy = row_of({{"message", "No module named 'numpy'"}});
  EXPECT_EQ(numpy.verdict, Verdict::Unavailable);
  EXPECT_EQ(to_string(numpy.observed), "needs the Python module numpy");
  EXPECT_EQ(row_of({{"message", "No module named 'numpy.core'"}}).verdict, Verdict::Unavailable);
  EXPECT_EQ(row_of({{"message", "No module named 'torch.new'"}}).verdict, Verdict::ControlFails) << "the release's own";
  EXPECT_EQ(row_of({{"message", "in the user's words"}}).verdict, Verdict::ControlFails);
  EXPECT_EQ(row_of({{"message", "No module named 'numpy'"}, {"exception", "E"}}).verdict, Verdict::ControlFails);
}

TEST(Judge, TestWhoseApiIsNotThere_ShowsWhatTheReleaseLacks) {
  const auto row_of = [](const Json& facts) {
    Record record;
    record.environment = {{"release", "2.2.2"}};
    record.cases["c"] = CaseInfo{};
    TestRecord test = line({{"code", 77}, {"ended", "skipped"}});
    edit_line(test)->update(facts);
    record.add(test);
    return judge_record(record, {}).front();
  };
  const TestVerdict row = row_of({{"inapplicable", "no member"}, {"skipped", "Not applicable: no member"}});
  EXPECT_EQ(row.verdict, Verdict::NotApplicable);
  EXPECT_EQ(row.observed.kind, TestObservationKind::NotApplicable);
  EXPECT_EQ(row.observed.text, "no member");
  EXPECT_EQ(to_string(row.observed), "Not applicable: no member");
  EXPECT_EQ(to_string(row_of({{"skipped", "no GPU"}}).observed), "no GPU");
}

// tools/pack writes the stubs' message, which is read here.
TEST(CiPack, MessageOfAStub_IsTheOneThatIsJudged) {
  std::ifstream file(RECAPTURE_ROOT "/tools/pack");
  const std::string pack{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(pack, ::testing::HasSubstr("LEFT_OUT = \"" + std::string(kLeftOut) + "\"\n"));
}

TEST(Judge, ExpectationOutsideItsRecords_HoldsAndIsAGuess) {
  Expectation e;
  e.test = "c.ReproducesX";
  e.result = Result::Healthy;
  e.where.release = ">=2.8";
  e.records = {"2.11.0/nvidia-h200.jsonl", "2.9.1/nvidia-h200.jsonl"};
  Rules rules;
  rules.expectations = {e};
  const auto row_on = [&](const std::string& release) {
    Record record;
    record.environment = {{"release", release}};
    record.cases["c"] = CaseInfo{};
    record.add(showed("ok"));
    return judge_record(record, rules).front();
  };
  const auto verdict_on = [&](const std::string& release) { return row_on(release).verdict; };
  for (const char* seen : {"2.9.1", "2.9.1+cu118", "2.10.0", "2.10.0rc1", "2.11.0", "2.11.0a0+0123abc.nv26.01"}) {
    EXPECT_EQ(verdict_on(seen), Verdict::AsExpected) << seen;
    EXPECT_FALSE(row_on(seen).is_guess) << seen;
  }
  for (const char* guessed : {"2.8.0", "2.9.1rc1", "2.11.0.post1", "2.11.1", "2.12.0.dev20260101", "2.16.0"}) {
    EXPECT_EQ(verdict_on(guessed), Verdict::AsExpected) << guessed;
    EXPECT_TRUE(row_on(guessed).is_guess) << guessed;
  }
  rules.expectations.front().inapplicable = true;
  EXPECT_EQ(verdict_on("2.10.0"), Verdict::NotApplicable) << "the case uses what this release does not have";
  EXPECT_EQ(verdict_on("2.16.0"), Verdict::NotApplicable);
  EXPECT_TRUE(row_on("2.16.0").is_guess) << "no record shows whether this release has it";
  EXPECT_EQ(verdict_on("2.7.1"), Verdict::NewlyFixed) << "nothing is expected of it";
  EXPECT_EQ(verdict_on("2.8.0.dev20250601"), Verdict::NotApplicable) << "as of 2.8.0, which it becomes";
}

TEST(Judge, NoExpectation_DocumentDecides) {
  EXPECT_EQ(judge(Kind::Reproduces, Result::Reproduced, nullptr, "900"), Verdict::AsDocumented);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Healthy, nullptr, "ok"), Verdict::NewlyFixed);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Different, nullptr, "906"), Verdict::Changed);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Unseen, nullptr, ""), Verdict::Insufficient);
  EXPECT_EQ(judge(Kind::Fix, Result::Broken, nullptr, ""), Verdict::FixFails);
  EXPECT_EQ(judge(Kind::Control, Result::Broken, nullptr, ""), Verdict::ControlFails);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Broken, nullptr, ""), Verdict::Inconclusive);
}

// The first of the tests has one expectation, recorded for their release, and perhaps confirmations.
std::vector<TestVerdict> rows_by(const std::string& result, const std::string& seen,
                                 const std::vector<TestRecord>& tests, const std::vector<TestRecord>& again = {}) {
  Expectation e;
  e.test = tests.front().id();
  e.result = result_from(result).value();
  e.seen = seen;
  e.records = {"2.12.1/g.jsonl"};
  Rules rules;
  rules.expectations = {e};
  Record record;
  record.environment = {{"release", "2.12.1"}};
  record.cases["c"] = CaseInfo{};
  for (const TestRecord& test : tests) record.add(test);
  if (!again.empty()) record.confirmations[tests.front().id()] = again;
  return judge_record(record, rules);
}

Verdict verdict_by(const std::string& result, const std::string& seen, const TestRecord& test,
                   const std::vector<TestRecord>& again = {}) {
  return rows_by(result, seen, {test}, again).front().verdict;
}

TEST(Judge, ControlThatNewlyHolds_LetsItsCaseBeJudged) {
  const TestRecord control = line({{"test", "c.Control"}, {"ended", "passed"}});
  const std::vector<TestVerdict> rows = rows_by("broken", "", {control, showed("900")});
  EXPECT_EQ(rows.front().verdict, Verdict::NewlyFixed);
  EXPECT_EQ(rows.back().verdict, Verdict::AsDocumented);
}

TEST(Judge, RepeatThatFitsTheExpectedPattern_IsAsExpected) {
  const auto verdict_of = [](const std::string& pattern, const std::string& again) {
    return verdict_by("different", pattern, showed("call 1 failed"), {showed(again)});
  };
  EXPECT_EQ(verdict_of("call * failed", "call 0 failed"), Verdict::AsExpected);
  EXPECT_EQ(verdict_of("call 1 failed", "call 0 failed"), Verdict::Inconclusive);
  EXPECT_EQ(verdict_of("call * failed", "no call failed"), Verdict::Inconclusive);
}

TEST(Judge, RepeatWithAnotherRankFirst_IsAsExpected) {
  const auto verdict_of = [](const std::string& again) {
    return verdict_by("different", "rank 1 died first", showed("rank 1 died first"), {showed(again)});
  };
  EXPECT_EQ(verdict_of("rank 10 died first"), Verdict::AsExpected) << "a matter of timing";
  EXPECT_EQ(verdict_of("rank 10 died last"), Verdict::Inconclusive);
  EXPECT_EQ(verdict_of("rank"), Verdict::Inconclusive);
}

TEST(Judge, OtherThanExpected_IsChangedOrRegressed) {
  Expectation e;
  e.result = Result::Different;
  e.seen = "check \"*pinned*\" > active > ok";
  EXPECT_EQ(judge(Kind::Reproduces, Result::Different, &e, "check \"is not pinned\" > active > ok"),
            Verdict::AsExpected);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Different, &e, "906 > invalidated > 901"), Verdict::Changed);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Reproduced, &e, "900 > invalidated > 901"), Verdict::Regressed);
  EXPECT_EQ(judge(Kind::Reproduces, Result::Healthy, &e, "ok > active > ok"), Verdict::Changed);
}

TEST(Judge, FixThatFailsOtherwiseThanExpected_IsChanged) {
  const Json uncaught = {{"assertions", {":-1: C++ exception with description \"it waits\nframe #0: f\" thrown"}}};
  const auto verdict_of = [&](const std::string& result, const std::string& pattern, const Json& facts) {
    Json all{{"test", "c.FixX"}, {"ending", "exited"}, {"code", 1}, {"ended", "failed"}};
    all.update(facts);
    return verdict_by(result, pattern, {all});
  };
  const Json eighty = {{"assertions", {"cases/memory/c.cpp:153: Expected equality:\n  \"80 MiB\""}}};
  EXPECT_EQ(verdict_of("broken", "Expected equality: \"80 MiB\"", eighty), Verdict::AsExpected);
  EXPECT_EQ(verdict_of("broken", "Expected *: \"64 MiB\"", eighty), Verdict::Changed);
  EXPECT_EQ(verdict_of("broken", "raised \"it waits\"", uncaught), Verdict::AsExpected);
  const Json aborted = {{"ending", "signal"}, {"code", 6}, {"ended", nullptr}};
  EXPECT_EQ(verdict_of("crashed", "signal 6", aborted), Verdict::AsExpected);
  EXPECT_EQ(verdict_of("crashed", "signal 11", aborted), Verdict::Changed);
}

TEST(Judge, PythonException_IsRaisedThoughItsCaseDeclaresWorks) {
  const auto effect_of = [&](const std::string& seen) {
    Record record;
    record.environment = {{"release", "2.6.0"}};
    record.cases["c"].effect = Effect::Works;
    record.add(
        line({{"seen", seen}, {"documented", "ok > ok, kept"}, {"healthy", "ok"}, {"ended", "failed"}, {"code", 1}}));
    return judge_record(record, {}).front().effect;
  };
  EXPECT_EQ(effect_of("RuntimeError: captures_underway == 0"), Effect::Raises);
  EXPECT_EQ(effect_of("BackendCompilerFailed: backend > ok"), Effect::Raises);
  for (const char* other : {"ok > ok, lost", "RuntimeError", "906: it", "E: one letter", "Two words: here"}) {
    EXPECT_EQ(effect_of(other), Effect::Works) << other;
  }
}

// By the record where it shows the effect, else as the catalogue or the case describes it.
TEST(Judge, EffectOfAFailure_IsWhatWasRaisedOrDescribed) {
  const auto effect_of = [](const std::string& seen, const Json& more, const Rules& rules = {}) {
    Record record;
    record.environment = {{"release", "2.6.0"}};
    record.cases["c"].effect = Effect::Leaks;
    TestRecord test = showed(seen);
    edit_line(test)->update(more);
    record.add(test);
    return judge_record(record, rules).front().effect;
  };
  EXPECT_EQ(effect_of("a value", Json::object()), Effect::Leaks);
  EXPECT_EQ(effect_of("a value", {{"error", 900}}), Effect::Raises);
  EXPECT_EQ(effect_of("a value", {{"exception", "E"}}), Effect::Raises);
  EXPECT_EQ(effect_of("ok > active > ok", {{"error", 900}}), Effect::Leaks) << "a capture that raised nothing";
  EXPECT_EQ(effect_of("900", Json::object()), Effect::Leaks) << "as documented, which is raised here";
  Rules rules;
  rules.effects["c.ReproducesX"] = Effect::Hangs;
  rules.effects["c.ReproducesY"] = Effect::Warns;
  EXPECT_EQ(effect_of("a value", Json::object(), rules), Effect::Hangs);
}

TEST(Judge, TestThatHolds_HasNothingToShowWhateverWasRaisedInIt) {
  const auto row_of = [](const std::string& test, const Json& facts) {
    Record record;
    record.environment = {{"release", "2.6.0"}};
    record.cases[case_of(test)] = CaseInfo{};
    TestRecord made = line(facts);
    edit_line(made)["test"] = test;
    record.add(made);
    return judge_record(record, {}).front();
  };
  const TestVerdict holds = row_of("c.FixX", {{"ended", "passed"}, {"error", 900}});
  EXPECT_FALSE(holds.has_raised);
  EXPECT_EQ(holds.effect, Effect::Works);
  EXPECT_TRUE(holds.observed.is_empty());
  const Json failed = {{"ended", "failed"}, {"code", 1}, {"assertions", {"it fails"}}};
  EXPECT_FALSE(row_of("c.FixX", failed).has_raised);
  EXPECT_EQ(row_of("c.FixX", failed).effect, Effect::SilentlyWrong);
  Json raised = failed;
  raised["exception"] = "E";
  EXPECT_TRUE(row_of("c.FixX", raised).has_raised);
  EXPECT_EQ(row_of("c.FixX", raised).effect, Effect::Raises);
  EXPECT_EQ(row_of("operators.inv", failed).observed.text, "it fails");
}

TEST(Judge, RowOfAnExpectation_HasItsReasonAndTheEffectOnlyIfItIsMet) {
  Expectation e;
  e.test = "c.ReproducesX";
  e.result = Result::Healthy;
  e.why = "why";
  e.source = "pytorch#1";
  e.where.release = ">=2.8";
  e.records = {"2.9.1/g.jsonl"};
  Rules rules;
  const auto row_of = [&](const std::string& seen, const Json& more = Json::object()) {
    rules.expectations = {e};
    Record record;
    record.environment = {{"release", "2.16.0"}};
    record.cases["c"] = CaseInfo{};
    TestRecord test = showed(seen);
    edit_line(test)->update(more);
    record.add(test);
    return judge_record(record, rules).front();
  };
  EXPECT_TRUE(row_of("ok").is_guess);
  EXPECT_EQ(row_of("ok").effect, Effect::Works) << "it names no other";
  EXPECT_FALSE(row_of("906").is_guess) << "nothing was guessed right";
  EXPECT_EQ(row_of("906").source, "pytorch#1");
  const Json absent = {{"inapplicable", "no member"}, {"ended", "skipped"}, {"code", 77}};
  EXPECT_EQ(row_of("ok").observed.text, "ok");
  EXPECT_EQ(row_of("ok", absent).result, Result::Invalid) << "it saw something, and was skipped";
  e.inapplicable = true;
  EXPECT_EQ(row_of("ok").result, Result::Inapplicable);
  EXPECT_EQ(row_of("ok").observed.text, "why");
  EXPECT_EQ(row_of("ok").effect, std::nullopt);
  EXPECT_EQ(row_of("906").result, Result::Different) << "it is not what was expected";
  EXPECT_EQ(row_of("906").observed.text, "906");
}

TEST(Judge, TestWithoutItsApiAndExpectedToHaveIt_KeepsItsObservation) {
  Expectation e;
  e.test = "c.FixX";
  e.result = Result::Broken;
  e.seen = "*";
  e.why = "why";
  Rules rules;
  rules.expectations = {e};
  Record record;
  record.environment = {{"release", "2.16.0"}};
  record.cases["c"] = CaseInfo{};
  record.add(line({{"test", "c.FixX"}, {"code", 77}, {"ended", "skipped"}, {"inapplicable", "no member"}}));
  const TestVerdict row = judge_record(record, rules).front();
  EXPECT_EQ(row.verdict, Verdict::NotApplicable);
  EXPECT_EQ(row.observed.text, "no member");
}

TEST(Judge, Family_IsThatOfTheTreeElseOfTheRecord) {
  Record record;
  record.environment = {{"release", "2.16.0"}};
  record.cases["c"].family = "memory";
  record.add(showed("900"));
  EXPECT_EQ(judge_record(record, {}).front().family, "memory");
  Rules rules;
  rules.tree["c"].family = "streams";
  EXPECT_EQ(judge_record(record, rules).front().family, "streams");
}

TEST(Judge, RepetitionsThatDiffer_AgreeOnlyWhereAPatternLeavesThatOpen) {
  const auto verdict_of = [](const TestRecord& test, const TestRecord& again, const Rules& rules = {}) {
    Record record;
    record.environment = {{"release", "2.16.0"}};
    record.cases["c"] = CaseInfo{};
    record.add(test);
    record.confirmations[test.id()] = {again};
    return judge_record(record, rules).front().verdict;
  };
  EXPECT_EQ(verdict_of(showed("906"), showed("906")), Verdict::Changed);
  EXPECT_EQ(verdict_of(showed("906"), showed("907")), Verdict::Inconclusive) << "nothing is expected";
  Rules rules;
  rules.expectations.resize(1);
  rules.expectations[0].test = "c.ReproducesX";
  rules.expectations[0].result = Result::Healthy;
  const auto healthy = [](const std::string& seen) {
    TestRecord test = showed(seen);
    edit_line(test)["healthy"] = "ok*";
    return test;
  };
  EXPECT_EQ(verdict_of(healthy("ok"), healthy("ok")), Verdict::NewlyFixed);
  EXPECT_EQ(verdict_of(healthy("ok"), healthy("ok"), rules), Verdict::AsExpected);
  EXPECT_EQ(verdict_of(healthy("ok"), healthy("ok 2"), rules), Verdict::Inconclusive) << "it has no pattern";
  rules.expectations[0].seen = "ok*";
  EXPECT_EQ(verdict_of(healthy("ok"), healthy("ok 2"), rules), Verdict::AsExpected);
  rules.expectations[0].result = Result::Different;
  EXPECT_EQ(verdict_of(healthy("ok"), healthy("ok 2"), rules), Verdict::Inconclusive) << "it expects another result";
}

TEST(Judge, TestOfAGpuOrACall_IsMissingOnlyWhereItIsDemanded) {
  const auto verdict_of = [](int gpus, const TestRecord& test, const Requirements& demands,
                             const std::string& demanded = "") {
    Rules rules;
    rules.demands = demands;
    Record record;
    record.environment = {{"release", "2.16.0"}, {"require", demanded}};
    record.cases["c"].needs.gpus = gpus;
    record.add(test);
    return judge_record(record, rules).front().verdict;
  };
  const TestRecord skipped = line({{"ended", "skipped"}, {"code", 77}, {"skipped", "no GPU"}});
  EXPECT_EQ(verdict_of(1, skipped, {.gpu = true}), Verdict::Missing);
  EXPECT_EQ(verdict_of(0, skipped, {.gpu = true}), Verdict::Unavailable) << "its case needs none";
  EXPECT_EQ(verdict_of(1, skipped, {}), Verdict::Unavailable);
  TestRecord call = showed("900");
  edit_line(call)["raised_by"] = "cuX";
  EXPECT_EQ(verdict_of(1, call, {.recorder = true}), Verdict::Missing);
  EXPECT_EQ(verdict_of(1, call, {}, "gpu,recorder"), Verdict::Missing) << "the run demanded it";
  EXPECT_EQ(verdict_of(1, call, {}, "gpu"), Verdict::AsDocumented);
  EXPECT_EQ(verdict_of(1, call, {}), Verdict::AsDocumented);
  edit_line(call)["culprit"] = {{"api", "cuX"}};
  EXPECT_EQ(verdict_of(1, call, {.recorder = true}), Verdict::AsDocumented);
  edit_line(call)->erase("raised_by");
  EXPECT_EQ(verdict_of(1, call, {}), Verdict::AsDocumented) << "any call will do";
  EXPECT_EQ(verdict_of(1, showed("900"), {.recorder = true}), Verdict::AsDocumented) << "it names no call";
  TestRecord healthy = showed("ok");
  edit_line(healthy)["raised_by"] = "cuX";
  EXPECT_EQ(verdict_of(1, healthy, {.recorder = true}), Verdict::NewlyFixed) << "nothing was raised";
}

TEST(Judge, TestThatCouldNotRun_IsMissingIfItRanWithAsManyGpus) {
  const auto record_with = [](int gpus, const TestRecord& test) {
    Record record;
    record.environment = {{"release", "2.16.0"}, {"gpu", "G"}, {"gpus", gpus}};
    record.cases["c"] = CaseInfo{};
    record.add(test);
    return record;
  };
  const TestRecord skipped = line({{"ended", "skipped"}, {"code", 77}, {"skipped", "needs 2 GPUs"}});
  const auto verdict_with = [&](int gpus, const Rules& rules) {
    return judge_record(record_with(gpus, skipped), rules).front().verdict;
  };
  Rules rules;
  EXPECT_EQ(verdict_with(2, rules), Verdict::Unavailable) << "it never ran";
  Record sent = record_with(2, showed("900"));
  sent.environment = sent.environment.with("driver", "2").with("origin", "somebody");
  add_available(sent, rules.available);
  EXPECT_EQ(verdict_with(2, rules), Verdict::Unavailable) << "it ran on a machine of somebody's";
  add_available(record_with(2, showed("900")), rules.available);
  EXPECT_EQ(verdict_with(1, rules), Verdict::Unavailable);
  EXPECT_EQ(verdict_with(2, rules), Verdict::Missing);
  EXPECT_EQ(verdict_with(3, rules), Verdict::Missing);
}

TEST(Judge, FalseValue_IsSeenByItsOwnAssertionAlone) {
  const auto verdict_of = [](const Json& facts) {
    Record record;
    record.environment = {{"release", "2.16.0"}, {"break", "value"}};
    record.cases["c"] = CaseInfo{};
    record.add(line(facts));
    return judge_record(record, {}).front().verdict;
  };
  const Json rate = {{"hits", 3}, {"tries", 9}, {"ended", "passed"}};
  EXPECT_EQ(verdict_of(rate), Verdict::Changed) << "it passed with a false value";
  const Json mixed = {{"seen", "900"},     {"documented", "900"}, {"healthy", "ok"},
                      {"ended", "failed"}, {"code", 1},           {"assertions", {"x.cpp:7: on purpose"}}};
  EXPECT_EQ(verdict_of(mixed), Verdict::Inconclusive) << "it has no rate";
}

TEST(Judge, WhatIsExpectedOfAFailedFix_IsItsAssertionWithoutThePlace) {
  const auto shown_of = [](const Json& assertions) {
    return shown(Result::Broken, line({{"test", "c.FixX"}, {"assertions", assertions}}));
  };
  EXPECT_EQ(shown_of({"cases/memory/c.cpp:153: Expected equality"}), "Expected equality");
  EXPECT_EQ(shown_of({"Expected: equality"}), "equality");
  EXPECT_EQ(shown_of({"no place: here"}), "no place: here");
  EXPECT_EQ(shown_of({"word"}), "word");
  EXPECT_EQ(shown_of({7}), "");
  EXPECT_EQ(shown_of(Json::array()), "");
  const std::string long_text(240, 'x');
  EXPECT_EQ(shown_of({long_text}), long_text);
  EXPECT_EQ(shown_of({long_text + "y"}), long_text + " ...");
  const TestRecord crashed = line({{"ending", "signal"}, {"code", 11}, {"seen", "900"}});
  EXPECT_EQ(shown(Result::Crashed, crashed), "900");
  EXPECT_EQ(shown(Result::Crashed, line({{"ending", "signal"}, {"code", 11}})), "signal 11");
  EXPECT_EQ(shown(Result::Holds, line(Json::object())), "");
}

TEST(Judge, ExpectedEffect_IsThatOfTheRow) {
  Expectation e;
  e.test = "c.ReproducesX";
  e.result = Result::Different;
  e.seen = "4";
  e.effect = Effect::SilentlyWrong;
  e.records = {"2.6.0/nvidia-h200.jsonl"};
  Rules rules;
  rules.expectations = {e};
  const auto effect_of = [&](const std::string& seen) {
    Record record;
    record.environment = {{"release", "2.6.0"}};
    record.cases["c"].effect = Effect::Raises;
    record.add(showed(seen));
    return judge_record(record, rules).front().effect;
  };
  EXPECT_EQ(effect_of("4"), Effect::SilentlyWrong);
  EXPECT_EQ(effect_of("5"), Effect::Raises) << "this is not what was expected";
}

TEST(ExitCode, SeveralVerdicts_WorstDecides) {
  EXPECT_EQ(exit_for({Verdict::AsDocumented, Verdict::AsExpected, Verdict::Unavailable}), Exit::AsExpected);
  EXPECT_EQ(exit_for({Verdict::AsDocumented, Verdict::NewlyFixed}), Exit::Harmless);
  EXPECT_EQ(exit_for({Verdict::NewlyFixed, Verdict::Inconclusive}), Exit::Inconclusive);
  EXPECT_EQ(exit_for({Verdict::AsDocumented, Verdict::Stale}), Exit::Inconclusive);
  EXPECT_EQ(exit_for({Verdict::Inconclusive, Verdict::FixFails}), Exit::Changed);
  EXPECT_EQ(exit_for({Verdict::Changed, Verdict::Missing}), Exit::Infrastructure);
  EXPECT_EQ(exit_for({Verdict::Unavailable, Verdict::NotApplicable}), Exit::NothingRan);
  EXPECT_EQ(exit_for(std::vector<Verdict>{}), Exit::NothingRan);
}

// Exactly the verdicts that are shown as good exit as good: colours and exit codes agree.
TEST(ExitCode, EachVerdict_FitsItsTone) {
  const std::map<Severity, std::set<Exit>> fitting = {{Severity::Pass, {Exit::AsExpected}},
                                                      {Severity::Fail, {Exit::Changed, Exit::Harmless}},
                                                      {Severity::Error, {Exit::Inconclusive, Exit::Infrastructure}},
                                                      {Severity::Skip, {Exit::Inconclusive, Exit::NothingRan}}};
  for (size_t i = 0; i < kVerdictCount; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    EXPECT_TRUE(fitting.at(severity_of(verdict)).count(exit_for({verdict}))) << to_string(verdict);
    EXPECT_EQ(exit_for({verdict}) == Exit::Harmless, verdict == Verdict::NewlyFixed) << to_string(verdict);
    EXPECT_EQ(exit_for({verdict}) == Exit::Infrastructure, verdict == Verdict::Missing) << to_string(verdict);
  }
}

// A fix of a case with two failures; what each of them shows, and what the fix does.
Verdict verdict_on_fix(const Json& one, const Json& other, const Json& fix = Json::object(), const Rules& rules = {}) {
  Record record;
  record.environment = {{"release", "2.15.0"}, {"gpu", "G"}};
  CaseInfo info;
  info.id = "c";
  info.tests = {"ControlX", "ReproducesX", "ReproducesY", "FixX"};
  record.cases["c"] = info;
  const auto add = [&](const char* test, const Json& facts) {
    if (facts.is_null()) return;
    Json line = {{"test", test}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}};
    line.update(facts);
    record.plan.emplace_back(test);
    record.add({line});
  };
  add("c.ControlX", Json::object());
  add("c.ReproducesX", one);
  add("c.ReproducesY", other);
  add("c.FixX", fix);
  return judge_record(record, rules).back().verdict;
}

TEST(Judge, FixWhereNoFailureOfItsCaseOccurs_IsNotNeeded) {
  const Json healthy = {{"seen", "ok"}, {"documented", "900"}, {"healthy", "ok"}, {"ended", "failed"}, {"code", 1}};
  const Json reproduced = {{"seen", "900"}, {"documented", "900"}, {"healthy", "ok"}};
  const Json unseen = {{"hits", 0}, {"tries", 50}, {"ended", "failed"}, {"code", 1}};
  const Json skipped = {{"ended", "skipped"}, {"code", 77}, {"skipped", "no module"}};
  const Json contradictory = {{"code", 1}};
  const Json different = {{"seen", "906"}, {"documented", "900"}, {"healthy", "ok"}, {"ended", "failed"}, {"code", 1}};
  EXPECT_EQ(verdict_on_fix(healthy, healthy), Verdict::NotNeeded);
  for (const Json& other : {reproduced, unseen, skipped, contradictory, different, Json()}) {
    EXPECT_EQ(verdict_on_fix(healthy, other), Verdict::AsDocumented)
        << other << ": not each failure was seen to be gone";
    EXPECT_EQ(verdict_on_fix(other, healthy), Verdict::AsDocumented) << other;
  }
  const Json failed = {{"ended", "failed"}, {"code", 1}};
  EXPECT_EQ(verdict_on_fix(healthy, healthy, failed), Verdict::FixFails) << "that is news wherever it happens";
  Rules fails;
  fails.expectations.resize(1);
  fails.expectations[0].test = "c.FixX";
  fails.expectations[0].result = Result::Broken;
  EXPECT_EQ(verdict_on_fix(healthy, healthy, failed, fails), Verdict::AsExpected) << "it does not hold";
  Rules open;
  open.expectations.resize(1);
  open.expectations[0].test = "c.ReproducesY";
  open.expectations[0].result = Result::Healthy;
  open.expectations[0].is_open_question = true;
  EXPECT_EQ(verdict_on_fix(healthy, healthy, Json::object(), open), Verdict::AsDocumented) << "one is in doubt";
  Rules rules;
  rules.expectations.resize(2);
  rules.expectations[0].test = "c.ReproducesX";
  rules.expectations[1].test = "c.ReproducesY";
  for (Expectation& e : rules.expectations) e.result = Result::Healthy;
  EXPECT_EQ(verdict_on_fix(healthy, healthy, Json::object(), rules), Verdict::NotNeeded) << "expected to be gone";
  EXPECT_EQ(severity_of(Verdict::NotNeeded), Severity::Skip);
  EXPECT_EQ(exit_for({Verdict::NotNeeded, Verdict::AsExpected}), Exit::AsExpected);
}

// What a rule reads, and what it decides. Each row differs from one of another verdict by one fact.
class Decide : public ::testing::Test {
 protected:
  using Change = std::function<void(Evidence& e)>;

  Decide() {
    open_.is_open_question = true;
    cannot_tell_.inapplicable = true;
  }

  static Evidence evidence(Kind kind, Result result, const Change& change) {
    Evidence e;
    e.kind = kind;
    e.reading.result = result;
    if (change) change(e);
    return e;
  }
  static void expect(Verdict verdict, std::optional<ReasonKind> reason, Kind kind, Result result,
                     const Change& change = nullptr) {
    const Judgement decision = decide(evidence(kind, result, change));
    const std::string what = fmt::format("{} {}", to_string(kind), to_string(result));
    EXPECT_EQ(to_string(decision.verdict), to_string(verdict)) << what;
    ASSERT_EQ(decision.reasons.size(), reason ? 1U : 0U) << what;
    if (reason) {
      EXPECT_EQ(decision.reasons[0].kind, *reason) << what;
    }
  }
  // Of a run broken on purpose.
  static void expect_broken(Verdict verdict, std::optional<ReasonKind> reason, Break broken, Kind kind, Result result,
                            const Change& change = nullptr) {
    expect(verdict, reason, kind, result, [&](Evidence& e) {
      e.broken = broken;
      e.left_remedy_out = broken == Break::Remedy;
      if (change) change(e);
    });
  }

  using R = ReasonKind;
  using V = Verdict;
  static constexpr std::nullopt_t kNone = std::nullopt;
  Expectation expected_, open_, cannot_tell_;
};

TEST_F(Decide, WhatIsInDoubt_ComesFirst) {
  expect(V::AsDocumented, kNone, Kind::Reproduces, Result::Reproduced);
  expect(V::Stale, kNone, Kind::Reproduces, Result::Reproduced, [](Evidence& e) { e.is_stale = true; });
  expect(V::Stale, kNone, Kind::Reproduces, Result::Reproduced, [](Evidence& e) {
    e.is_stale = true;
    e.repetitions_agree = false;
  });
  expect(V::Inconclusive, R::NotConfirmed, Kind::Reproduces, Result::Reproduced,
         [](Evidence& e) { e.repetitions_agree = false; });
  expect(V::Inconclusive, R::CrashedOnce, Kind::Operator, Result::Holds, [](Evidence& e) { e.is_lone_crash = true; });
  expect_broken(V::Changed, kNone, Break::Trigger, Kind::Operator, Result::Holds,
                [](Evidence& e) { e.is_lone_crash = true; });
}

TEST_F(Decide, TestWithoutItsGpu_IsMissingIfOneIsDemandedOrThere) {
  const auto gpu = [](bool needed, bool demanded, bool there, SkipReason reason = SkipReason::None) {
    return [=](Evidence& e) {
      e.needs_gpu = needed;
      e.is_gpu_demanded = demanded;
      e.has_gpu = there;
      e.skip_reason = reason;
    };
  };
  expect(V::Missing, R::GpuDemanded, Kind::Control, Result::Unavailable, gpu(true, true, false));
  expect(V::Unavailable, kNone, Kind::Control, Result::Unavailable, gpu(false, true, false));
  expect(V::Unavailable, kNone, Kind::Control, Result::Unavailable, gpu(true, false, false));
  expect(V::Unavailable, kNone, Kind::Control, Result::Unavailable, gpu(true, true, true));
  expect(V::AsDocumented, kNone, Kind::Control, Result::Holds, gpu(true, true, false));
  expect(V::AsDocumented, kNone, Kind::Control, Result::Holds, gpu(false, true, false));
  expect(V::Missing, R::GpuPresent, Kind::Control, Result::Unavailable, gpu(true, false, true, SkipReason::NoGpu));
  expect(V::Unavailable, kNone, Kind::Control, Result::Unavailable, gpu(true, false, true));
  expect(V::Unavailable, kNone, Kind::Control, Result::Unavailable, gpu(true, false, false, SkipReason::NoGpu));
  expect(V::Unavailable, kNone, Kind::Control, Result::Unavailable, gpu(false, false, true, SkipReason::NoGpu));
  expect(V::AsDocumented, kNone, Kind::Control, Result::Holds, gpu(true, false, true, SkipReason::NoGpu));
}

TEST_F(Decide, TestThatWasThereOrBuilt_IsMissing) {
  const auto before = [](Evidence& e) { e.ran_before = true; };
  expect(V::Missing, R::RanBefore, Kind::Control, Result::Unavailable, before);
  expect_broken(V::Unavailable, kNone, Break::Trigger, Kind::Reproduces, Result::Unavailable, before);
  const auto start = [](bool was_started, SkipReason reason) {
    return [=](Evidence& e) {
      e.was_started = was_started;
      e.skip_reason = reason;
    };
  };
  expect(V::Missing, R::WasBuilt, Kind::Control, Result::Unavailable, start(false, SkipReason::NotBuilt));
  expect(V::Unavailable, kNone, Kind::Control, Result::Unavailable, start(true, SkipReason::NotBuilt));
  expect(V::Unavailable, kNone, Kind::Control, Result::Unavailable, start(false, SkipReason::None));
}

TEST_F(Decide, CallThatIsNotNamed_IsMissingWithWhatTheRecorderSays) {
  const auto decided = [](const std::string& off) {
    return decide(evidence(Kind::Reproduces, Result::Reproduced, [&](Evidence& e) {
      e.lacks_culprit = true;
      e.recorder_off = off;
    }));
  };
  EXPECT_EQ(decided("").verdict, V::Missing);
  EXPECT_EQ(decided("").reasons.at(0).kind, R::NoCallSeen);
  EXPECT_EQ(decided("too old").verdict, V::Missing);
  EXPECT_EQ(decided("too old").reasons.at(0).kind, R::RecorderOff);
  EXPECT_EQ(decided("too old").reasons.at(0).detail, "too old");
  expect(V::AsDocumented, kNone, Kind::Reproduces, Result::Reproduced, [](Evidence& e) { e.recorder_off = "too old"; });
}

TEST_F(Decide, RunBrokenOnPurpose_MustFailAsItMust) {
  expect_broken(V::NotRun, kNone, Break::Trigger, Kind::Control, Result::Holds);
  expect_broken(V::NotRun, kNone, Break::Remedy, Kind::Reproduces, Result::Reproduced);
  expect_broken(V::Unavailable, kNone, Break::Trigger, Kind::Reproduces, Result::Unavailable);
  expect_broken(V::NotApplicable, kNone, Break::Trigger, Kind::Reproduces, Result::Inapplicable);
  expect_broken(V::Inconclusive, kNone, Break::Trigger, Kind::Operator, Result::Broken,
                [](Evidence& e) { e.is_break_visible = true; });
  expect_broken(V::AsExpected, kNone, Break::Trigger, Kind::Operator, Result::Holds,
                [](Evidence& e) { e.is_break_visible = true; });
  expect_broken(V::Changed, kNone, Break::Value, Kind::Operator, Result::Holds);
  for (const auto& [broken, result, verdict] : {std::tuple(Break::Trigger, Result::Healthy, V::AsExpected),
                                                {Break::Trigger, Result::Unseen, V::AsExpected},
                                                {Break::Trigger, Result::Reproduced, V::Changed},
                                                {Break::Trigger, Result::Invalid, V::Inconclusive},
                                                {Break::Trigger, Result::Broken, V::Inconclusive},
                                                {Break::Trigger, Result::Crashed, V::Changed},
                                                {Break::Value, Result::Different, V::AsExpected},
                                                {Break::Value, Result::Healthy, V::Changed},
                                                {Break::Value, Result::Invalid, V::Inconclusive},
                                                {Break::Value, Result::Broken, V::Inconclusive}}) {
    expect_broken(verdict, kNone, broken, Kind::Reproduces, result);
  }
  expect_broken(V::AsExpected, kNone, Break::Value, Kind::Reproduces, Result::Invalid,
                [](Evidence& e) { e.is_false_rate = true; });
  expect_broken(V::Inconclusive, kNone, Break::Trigger, Kind::Reproduces, Result::Invalid,
                [](Evidence& e) { e.is_false_rate = true; });
}

TEST_F(Decide, FixWithoutItsRemedy_MustBreakWhereItsFailureOccurs) {
  const auto gone = [](Evidence& e) { e.is_failure_gone = true; };
  for (const auto& [result, verdict] : {std::pair(Result::Broken, V::AsExpected),
                                        {Result::Crashed, V::AsExpected},
                                        {Result::Holds, V::Changed},
                                        {Result::Hung, V::Changed},
                                        {Result::Invalid, V::Inconclusive}}) {
    expect_broken(verdict, kNone, Break::Remedy, Kind::Fix, result);
  }
  expect_broken(V::NotApplicable, R::NothingToRemedy, Break::Remedy, Kind::Fix, Result::Holds, gone);
  expect_broken(V::AsExpected, kNone, Break::Remedy, Kind::Fix, Result::Broken, gone);
  expect(V::AsDocumented, kNone, Kind::Fix, Result::Holds, gone);
  expect_broken(V::Inconclusive, R::RemedyKept, Break::Remedy, Kind::Fix, Result::Broken,
                [](Evidence& e) { e.left_remedy_out = false; });
}

TEST_F(Decide, FalseValueOfAFailureThatIsGone_IsNotApplicable) {
  const auto expected = [&](Evidence& e) {
    e.is_expected = true;
    e.expectation = &expected_;
  };
  expect_broken(V::NotApplicable, R::NoValueToBreak, Break::Value, Kind::Reproduces, Result::Healthy, expected);
  expect_broken(V::AsExpected, kNone, Break::Value, Kind::Reproduces, Result::Different, expected);
  expect_broken(V::AsExpected, kNone, Break::Trigger, Kind::Reproduces, Result::Healthy, expected);
  expect_broken(V::Changed, kNone, Break::Value, Kind::Reproduces, Result::Healthy);
}

TEST_F(Decide, Expectation_DecidesLastAndGivesItsReason) {
  const auto decided = [&](const Expectation* expectation, bool is_expected, size_t repetitions,
                           bool is_stale = false) {
    return decide(evidence(Kind::Reproduces, Result::Different, [&](Evidence& e) {
      e.expectation = expectation;
      e.is_expected = is_expected;
      e.repetitions = repetitions;
      e.is_stale = is_stale;
    }));
  };
  EXPECT_EQ(decided(nullptr, false, 0).verdict, V::Changed);
  EXPECT_FALSE(decided(nullptr, false, 0).by_expectation);
  EXPECT_EQ(decided(&expected_, true, 0).verdict, V::AsExpected);
  EXPECT_TRUE(decided(&expected_, true, 0).by_expectation);
  EXPECT_EQ(decided(&expected_, false, 0).verdict, V::Changed);
  EXPECT_TRUE(decided(&expected_, false, 0).by_expectation);
  EXPECT_EQ(decided(&expected_, true, 0, true).verdict, V::Stale);
  EXPECT_FALSE(decided(&expected_, true, 0, true).by_expectation);
  EXPECT_EQ(decided(&cannot_tell_, true, 0).verdict, V::NotApplicable);
  EXPECT_TRUE(decided(&cannot_tell_, true, 0).by_expectation);
  EXPECT_EQ(decided(&cannot_tell_, false, 0).verdict, V::Changed);
  EXPECT_EQ(decided(&open_, true, 1).verdict, V::Inconclusive);
  EXPECT_EQ(decided(&open_, true, 1).reasons.at(0).kind, R::AskedTooSeldom);
  EXPECT_EQ(decided(&open_, true, 2).verdict, V::AsExpected);
  EXPECT_EQ(decided(&open_, false, 0).verdict, V::Changed);
}

TEST(Verdicts, Surprise_IsRedOrAnError) {
  for (size_t i = 0; i < kVerdictCount; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    const Severity severity = severity_of(verdict);
    EXPECT_EQ(is_surprise(verdict), severity == Severity::Fail || severity == Severity::Error) << to_string(verdict);
  }
  EXPECT_TRUE(is_surprise(Verdict::Changed));
  EXPECT_TRUE(is_surprise(Verdict::Missing));
  EXPECT_FALSE(is_surprise(Verdict::Unavailable));
}

TEST(Classify, FirstRowOfTheTableThatMatches_Decides) {
  EXPECT_EQ(result_of(Kind::Fix, Ending::Exited, SelfReport::Passed), Result::Holds);
  EXPECT_EQ(result_of(Kind::Reproduces, Ending::Exited, SelfReport::Passed), Result::Invalid);
  EXPECT_EQ(result_of(Kind::Fix, Ending::Signal, SelfReport::LeftOut), Result::Unavailable);
  EXPECT_EQ(result_of(Kind::Fix, Ending::NotStarted, SelfReport::Skipped), Result::Unavailable);
  EXPECT_EQ(result_of(Kind::Fix, Ending::NotStarted, SelfReport::Passed), Result::Invalid);
  EXPECT_EQ(result_of(Kind::Fix, Ending::Deadline, SelfReport::Skipped), Result::Hung);
  EXPECT_EQ(result_of(Kind::Fix, Ending::Unknown, SelfReport::Passed), Result::Invalid);
}

TEST(VerdictsPage, RuleTables_AreThoseOfTheProgram) {
  std::ifstream file(RECAPTURE_ROOT "/docs/reference/verdicts.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(page, ::testing::HasSubstr(render_rules())) << "put in what `recapture dev tables` prints";
}

TEST(VerdictsPage, RulesAroundTheTables_AreThoseOfTheProgramInItsOrder) {
  std::vector<std::string> names;
  for (const Rule& rule : rules()) {
    if (names.empty() || names.back() != rule.name) names.emplace_back(rule.name);
  }
  EXPECT_EQ(names.back(), "tables") << "applies if no other does";
  names.pop_back();
  for (const std::string_view name : case_rule_names()) names.emplace_back(name);
  std::ifstream file(RECAPTURE_ROOT "/docs/reference/verdicts.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const size_t from = page.find("| rule | applies when |");
  ASSERT_NE(from, std::string::npos);
  std::istringstream lines(page.substr(from));
  std::vector<std::string> on_page;
  for (std::string line; std::getline(lines, line) && line.rfind("| ", 0) == 0;) {
    on_page.push_back(line.substr(2, line.find(" |") - 2));
  }
  ASSERT_GT(on_page.size(), 2U);
  on_page.erase(on_page.begin(), on_page.begin() + 2);
  EXPECT_EQ(on_page, names);
}

// Unusual versions, and every pair of them. The expected values are Python's, a line each: its place in the order, the
// same for equal ones, or "none".
TEST(Versions, AnyTwo_AreOrderedAsByPythonPackaging) {
  std::vector<std::string> versions = {"2.9.0a0+0123abc.nv25.09",
                                       "2.16.0.dev20260101+cu130",
                                       "2.6.0+cu118",
                                       "v2.6",
                                       "2.6-1",
                                       "2.6.0-rc.1",
                                       "2.6C2",
                                       "2.6.preview",
                                       "2.6rev3",
                                       "2.6.r",
                                       "2.6a.dev1",
                                       "2.6a--1",
                                       "2.6.post-",
                                       "1!0.1",
                                       "00002.06.0",
                                       "2.6.0.0.0.1",
                                       "2.06.00",
                                       "2.6+1.a",
                                       "2.6+a.1",
                                       "2.6+10",
                                       "2.6+9",
                                       "2.6+a-b_c",
                                       "2.6+A",
                                       "2.6DEV7",
                                       "2.6_b_2",
                                       "580.159.04",
                                       "99999999999999999999999.1",
                                       "2.6.99999999999999999999998",
                                       "2.6post2.dev3",
                                       "2.6rc1.post2.dev3",
                                       "2.6rc1.post2",
                                       "2.6rc1.dev3"};
  for (const char* number : {"2.6", "2.6.1", "2.10.0", "0"}) {
    for (const char* pre : {"", "a0", "b1", "rc1", "rc10"}) {
      for (const char* post : {"", ".post0", ".post1"}) {
        for (const char* dev : {"", ".dev0", ".dev20260101"}) {
          for (const char* local : {"", "+cu118"}) {
            versions.push_back(std::string(number) + pre + post + dev + local);
          }
        }
      }
    }
  }
  const size_t good = versions.size();
  for (const char* none : {"",         "2.",     ".2",        "2..6",          "2.6abc", "2.6.0x", "2.6+",
                           "2.6+a..b", "2.6+a.", "2.6rc1rc2", "2.6.dev1a1",    "cuda13", "x2",     "2.6.post1.post2",
                           "2!",       "!2",     "2.6--",     "2.6dev1.post1", "1!2!3",  "vv2",    "2.6+\u00fc"}) {
    versions.emplace_back(none);
  }
  const std::string script = R"(
import sys
try:
    from packaging.version import Version, InvalidVersion
except ImportError:
    from pip._vendor.packaging.version import Version, InvalidVersion
def read(text):
    try:
        return Version(text)
    except InvalidVersion:
        return None
all = [read(line.rstrip("\n")) for line in sys.stdin]
order = sorted({v for v in all if v is not None})
print(*("none" if v is None else order.index(v) for v in all), sep="\n"))";
  std::string input;
  for (const std::string& version : versions) input += version + "\n";
  const std::string path = ::testing::TempDir() + "versions-" + std::to_string(getpid());
  std::ofstream(path) << input;
  const std::string asked = " -c '" + script + "' <'" + path + "' 2>/dev/null";
  const ShellResult answer = shell("python3" + asked + " || /usr/bin/python3" + asked);
  std::filesystem::remove(path);
  if (answer.code != 0) GTEST_SKIP() << "neither Python's packaging nor pip, which brings one";
  std::istringstream lines(answer.out);
  std::vector<std::string> places;
  for (std::string place; std::getline(lines, place);) places.push_back(place);
  ASSERT_EQ(places.size(), versions.size()) << answer.out;
  for (size_t i = 0; i < versions.size(); ++i) {
    EXPECT_EQ(is_version(versions[i]), places[i] != "none") << versions[i];
    EXPECT_EQ(places[i] != "none", i < good) << versions[i] << ": the list is wrong";
  }
  for (size_t a = 0; a < good; ++a) {
    for (size_t b = 0; b < good; ++b) {
      ASSERT_EQ(Release(versions[a]).is_older_than(Release(versions[b])), std::stoi(places[a]) < std::stoi(places[b]))
          << versions[a] << " and " << versions[b];
    }
  }
}

TEST(Versions, LineOfARelease_IsMajorAndMinor) {
  for (const auto& [release, line] :
       std::vector<std::pair<std::string, std::string>>{{"2.9.1", "2.9"},
                                                        {"2.9", "2.9"},
                                                        {"2.10.0+cu130", "2.10"},
                                                        {"2.16.0.dev20261124", "2.16"},
                                                        {"2.10.0a0+0123abc.nv25.10", "2.10"},
                                                        {"2.0.0", "2.0"},
                                                        {"3.0rc1", "3.0"},
                                                        {"cuda13", "cuda13"},
                                                        {"", ""}}) {
    EXPECT_EQ(Release(release).line(), line);
  }
}

// It sorts before the release, and what is expected of the release is expected of it.
TEST(Versions, BuildBeforeARelease_IsInTheReleasesRanges) {
  for (const char* build :
       {"2.13.0rc1", "2.13.0.dev20260101+cu132", "2.13.0a0+gitdeadbee", "2.13.0a0+0123abc.nv25.10"}) {
    EXPECT_TRUE(Release(build).is_older_than(Release("2.13.0"))) << build;
    EXPECT_TRUE(satisfies(build, ">=2.13")) << build;
    EXPECT_TRUE(satisfies(build, "==2.13.0")) << build;
    EXPECT_TRUE(satisfies(build, ">2.12.1, <=2.13")) << build;
    EXPECT_FALSE(satisfies(build, "<2.13")) << build;
    EXPECT_FALSE(satisfies(build, ">2.13")) << build;
  }
  EXPECT_TRUE(satisfies("2.6.0.post1.dev2", ">2.6"));
  EXPECT_FALSE(can_meet("<2.13", ">=2.13")) << "no candidate is in both";
  EXPECT_TRUE(satisfies("2.6.0+cu118", "==2.6.0"));
  EXPECT_TRUE(satisfies("2.6.0+cu118", "<=2.6"));
  EXPECT_TRUE(satisfies("2.6.0.post1", ">2.6"));
  EXPECT_TRUE(can_meet(">2.8.1", "<2.8.2")) << "2.8.1.post1, for one";
}

TEST(Range, SeveralComparisons_MustAllHold) {
  EXPECT_TRUE(satisfies("2.10.0", ">=2.9"));
  EXPECT_TRUE(Release("2.9.1").is_older_than(Release("2.10.0")));
  EXPECT_TRUE(satisfies("2.6.0", "<2.8"));
  EXPECT_FALSE(satisfies("2.13.0", ">=2.8, <2.13"));
  EXPECT_TRUE(satisfies("2.6.0", "==2.6.0"));
  EXPECT_THROW(satisfies("2.6.0", "2.6"), ExitError);
  EXPECT_THROW(satisfies("2.6.0", ">="), ExitError);
}

TEST(Verdicts, EachVerdict_HasItsWordAndTone) {
  EXPECT_EQ(to_string(Verdict::AsDocumented), "as documented");
  EXPECT_EQ(to_string(Verdict::NotRun), "not run");
  EXPECT_EQ(to_string(Verdict::NotApplicable), "not applicable");
  EXPECT_EQ(severity_of(Verdict::AsExpected), Severity::Pass);
  EXPECT_EQ(severity_of(Verdict::Unavailable), Severity::Skip);
  EXPECT_EQ(severity_of(Verdict::Missing), Severity::Error);
  EXPECT_EQ(severity_of(Verdict::NewlyFixed), Severity::Fail);
  EXPECT_EQ(severity_of(Verdict::FixFails), Severity::Fail);
}

TEST(Results, EachResult_HasOneRowInTheTable) {
  std::set<Result> judged;
  for (const JudgeRow& row : judge_rows()) {
    EXPECT_TRUE(judged.insert(row.result).second) << to_string(row.result);
    EXPECT_EQ(result_from(to_string(row.result)), row.result);
  }
  for (int i = 0; i <= static_cast<int>(Result::Invalid); ++i) {
    EXPECT_EQ(judged.count(static_cast<Result>(i)), 1U) << to_string(static_cast<Result>(i));
  }
}

Record on(const std::string& release, const std::string& gpu, const std::string& driver, const std::string& runtime) {
  Record record;
  record.environment = {{"release", release}, {"gpu", gpu}, {"driver", driver}, {"cuda_runtime", runtime}};
  return record;
}

TEST(Where, ReleaseGpuDriverAndRuntime_MustAllMatch) {
  const Record here = on("2.11.0", "NVIDIA H200", "580.159.04", "13.0");
  EXPECT_TRUE(Where{}.covers(here));
  EXPECT_TRUE((Where{">=2.11", "H200", ">=575", "<13.1"}).covers(here));
  EXPECT_FALSE((Where{"<2.11", "", "", ""}).covers(here));
  EXPECT_FALSE((Where{"", "H100", "", ""}).covers(here));
  EXPECT_FALSE((Where{"", "", "<575", ""}).covers(here));
  EXPECT_FALSE((Where{"", "", "", ">=13.1"}).covers(here));
  EXPECT_FALSE((Where{">=2.11", "", "", ""}).covers(on("cuda13", "", "", "13.0"))) << "it has no LibTorch";
}

class ChangesFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root + "/cases"); }
  void TearDown() override { std::filesystem::remove_all(root); }
  std::string error_of(const std::string& text) {
    std::ofstream(root + "/cases/expectations.toml") << text;
    try {
      read_deviations(root);
      return "";
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage);
      return stop.what();
    }
  }
  std::string root = ::testing::TempDir() + "recapture-changes-" + std::to_string(getpid());
  std::string head = "[[change]]\nwhat='w'\nnumber='n#1'\nsince='2.8'\n";
  std::string expect = "[[change.expect]]\ntests=['c.R','d.R']\nwhere={release='>=2.8'}\nrecords=['r']\n";
};

TEST_F(ChangesFile, EntryOfTwoTests_GivesOneExpectationEach) {
  ASSERT_EQ(error_of(head + expect + "result='healthy'\n"), "");
  const auto all = expectations_of(read_deviations(root));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].test, "d.R");
  EXPECT_EQ(all[1].why, "w");
  EXPECT_EQ(all[1].source, "n#1");
  EXPECT_NE(find_expectation(all, "c.R", on("2.9.0", "", "", "")), nullptr);
  EXPECT_EQ(find_expectation(all, "c.R", on("2.7.1", "", "", "")), nullptr);
}

TEST_F(ChangesFile, MalformedEntry_IsRefusedWithItsPlace) {
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of("[[change]]\nwhat='w'"), HasSubstr("expectations.toml:1: needs 'number'"));
  EXPECT_THAT(error_of(head), HasSubstr("expectations.toml:1: needs a [[change.expect]]"));
  EXPECT_THAT(error_of("[[change]]\nwhat='w'\nnumber='n#1'\nsince='soon'\n"), HasSubstr("'soon' is not a version"));
  EXPECT_THAT(error_of(head + "wy='x'\n" + expect), HasSubstr("unknown key 'wy'"));
  EXPECT_THAT(error_of(head + expect + "result='fixed'\n"),
              HasSubstr("expectations.toml:5: 'fixed' is not a result; the results are reproduced, healthy, "));
  EXPECT_THAT(error_of(head + expect + "result='different'\nseen='4'\neffect='burns'\n"),
              HasSubstr("expectations.toml:5: 'burns' is not an effect; the effects are works, warns, "));
  EXPECT_THAT(error_of(head + expect + "result='healthy'\neffect='works'\n"),
              HasSubstr("only 'different' results have an 'effect'"));
  for (const char* result : {"different", "broken", "crashed"}) {
    EXPECT_THAT(error_of(head + expect + "result='" + result + "'\n"), HasSubstr("needs 'seen'")) << result;
  }
  EXPECT_THAT(error_of(head + "[[change.expect]]\ntests=['c.R']\nresult='healthy'\n"), HasSubstr("needs 'where'"));
  EXPECT_THAT(error_of("[[change]\n"), HasSubstr("expectations.toml:1"));
  EXPECT_THAT(error_of("[[expect]]\n"), HasSubstr("unknown key 'expect'"));
}

Record record_with(const std::string& release, const Json& test) {
  Record r;
  r.path = "reports/" + release + "/r";
  r.environment = {{"release", release}, {"gpu", "G"}};
  CaseInfo info;
  info.id = "c";
  info.tests = {"Reproduces"};
  r.cases["c"] = info;
  Json all{{"test", "c.Reproduces"}, {"ending", "exited"}, {"code", 1}, {"documented", "900"}, {"healthy", "ok"}};
  all.update(test);
  all["code"] = all["ended"] == "passed" ? 0 : 1;
  r.add({all});
  return r;
}

TEST(ExpectationErrors, UnusedShadowedOrUnconfirmed_IsAnError) {
  const std::vector<std::string> matrix = {"2.6.0", "2.11.0"};
  const Record fixed = record_with("2.11.0", {{"seen", "ok"}, {"ended", "failed"}});
  const Record still = record_with("2.11.0", {{"seen", "900"}, {"ended", "passed"}});
  Expectation e;
  e.test = "c.Reproduces";
  e.where.release = ">=2.8";
  e.result = Result::Healthy;
  e.source = "pytorch#1";
  e.records = {"2.11.0/r"};
  EXPECT_THAT(expectation_errors({e}, matrix, {fixed}, "reports"), ::testing::IsEmpty());
  EXPECT_EQ(expectation_errors({e}, matrix, {still}, "reports").size(), 1U) << "the record does not show it";
  EXPECT_EQ(expectation_errors({e}, {"2.6.0"}, {fixed}, "reports").size(), 1U) << "no release of the matrix";
  EXPECT_EQ(expectation_errors({e, e}, matrix, {fixed}, "reports").size(), 1U) << "shadowed";
  Expectation open = e;
  open.source = "open question";
  open.is_open_question = true;
  EXPECT_EQ(expectation_errors({open}, matrix, {fixed}, "reports").size(), 1U) << "not confirmed";
  Expectation unknown = e;
  unknown.test = "c.Elsewhere";
  EXPECT_GE(expectation_errors({unknown}, matrix, {fixed}, "reports").size(), 1U);
}

TEST(LooseSignatures, PatternThatMatchesAForeignFailure_IsAnError) {
  const Record mine = record_with("2.11.0", {{"seen", "check \"a\""}, {"documented", "check *"}, {"ended", "passed"}});
  const Json seen = {
      {"test", "d.Reproduces"}, {"seen", "check \"b\""}, {"documented", "check \"b\""}, {"ended", "passed"}};
  Record other = record_with("2.11.0", seen);
  other.cases["d"] = other.cases.at("c");
  EXPECT_EQ(loose_signatures({mine, other}, {}).size(), 1U);
  EXPECT_THAT(loose_signatures({other}, {}), ::testing::IsEmpty());

  Rules rules;
  rules.expectations = {{"d.Reproduces", {}, Result::Reproduced, "check \"b\"", "", "", {}, ""}};
  EXPECT_THAT(loose_signatures({mine, other}, rules), ::testing::IsEmpty()) << "a known difference in the same source";
  other.cases["d"].sources = Json::array({"elsewhere"});
  EXPECT_EQ(loose_signatures({mine, other}, rules).size(), 1U);

  const Record gap =
      record_with("2.11.0", {{"seen", "check new \"b\""}, {"documented", "check *\"b\""}, {"ended", "passed"}});
  EXPECT_THAT(loose_signatures({gap, other}, {}), ::testing::IsEmpty()) << "the same words, with one left open";
}

}  // namespace
}  // namespace recapture

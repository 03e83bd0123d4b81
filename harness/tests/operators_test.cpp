// Operators under capture: the results from a test's facts, the operator that a word names, and the changes of an
// upgrade.
#include "harness/model/operators.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/base/exit.h"
#include "harness/compare/compare.h"
#include "harness/report/change.h"
#include "harness/report/latest.h"
#include "harness/report/operators.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/verdict/operators.h"
#include "harness/words/observation.h"

namespace recapture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using timeline::OperatorRow;

constexpr char kRefused[] =
    R"({"samples":{"float32":{"refused":8},"float16":{"refused":8}},"failures":[{"as":"refused",)"
    R"("type":"AcceleratorError","text":"CUDA error: operation not permitted","code":900,"api":"cuStreamSynchronize",)"
    R"("samples":16}]})";
constexpr char kRight[] = R"({"samples":{"float32":{"right":11},"float16":{"right":11}}})";

TestRecord line_of(const Json& facts, const std::string& name = "linalg_inv") {
  return TestRecord{
      {{"test", "operators." + name}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}, {"facts", facts}}};
}

OperatorVerdict verdict_of(const std::string& counts) {
  return operator_results(line_of({{"forward", R"({"samples":{"float32":)" + counts + "}}"}})).at(0).verdict;
}

TEST(OperatorResults, CountsOfSamples_MakeOneVerdict) {
  EXPECT_EQ(verdict_of(R"({"right":3,"eager":2})"), OperatorVerdict::Captured);
  EXPECT_EQ(verdict_of(R"({"undefined":3})"), OperatorVerdict::Undefined);
  EXPECT_EQ(verdict_of(R"({"refused":3,"eager":1})"), OperatorVerdict::Refused);
  EXPECT_EQ(verdict_of(R"({"refused":3,"right":1})"), OperatorVerdict::SomeRefused);
  EXPECT_EQ(verdict_of(R"({"refused":3,"wrong":1})"), OperatorVerdict::Wrong);
  EXPECT_EQ(verdict_of(R"({"right":3,"replay":1})"), OperatorVerdict::Wrong);
  EXPECT_EQ(verdict_of(R"({"right":3,"wrong":1,"hung":1})"), OperatorVerdict::Hung);
  EXPECT_EQ(verdict_of(R"({"right":3,"hung":1,"crashed":1})"), OperatorVerdict::Crashed);
  EXPECT_EQ(verdict_of(R"({"eager":3})"), OperatorVerdict::EagerFails);
  EXPECT_EQ(verdict_of(R"({"eager":3,"unavailable":1})"), OperatorVerdict::Unavailable);
  EXPECT_EQ(verdict_of(R"({"right":3,"unavailable":1})"), OperatorVerdict::Unavailable);
  EXPECT_EQ(verdict_of(R"({"refused":3,"unavailable":1})"), OperatorVerdict::Refused);
}

TEST(OperatorResults, CrashOfASample_CountsOnceARepetitionShowsIt) {
  const TestRecord crashed = line_of({{"forward", R"({"samples":{"float32":{"right":3,"crashed":1}}})"}});
  const TestRecord fine = line_of({{"forward", kRight}});
  Record record;
  EXPECT_TRUE(read_operator(record, crashed).is_lone_crash);
  EXPECT_FALSE(read_operator(record, fine).is_lone_crash);
  record.confirmations[crashed.id()] = {fine, fine};
  EXPECT_TRUE(read_operator(record, crashed).is_lone_crash);
  record.confirmations[crashed.id()] = {fine, crashed};
  EXPECT_FALSE(read_operator(record, crashed).is_lone_crash);
}

TEST(OperatorResults, PartOfCudnnThatIsNotThere_IsUnavailable) {
  const auto results = operator_results(line_of(
      {{"forward", R"({"samples":{"float32":{"eager":20}},"failures":[{"as":"eager","type":"RuntimeError","text":)"
                   R"("cudnn_status: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED","samples":20}]})"}}));
  EXPECT_EQ(results.at(0).verdict, OperatorVerdict::Unavailable);
  EXPECT_EQ(describe_failure(results.at(0).failures.at(0)),
            "unavailable: RuntimeError: cudnn_status: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED");
  const auto after_it = operator_results(line_of(
      {{"forward", R"({"samples":{"float16":{"eager":8,"crashed":8,"right":4}},"failures":[{"as":"eager","text":)"
                   R"("CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED","samples":8},{"as":"crashed","samples":8}]})"}}));
  EXPECT_EQ(after_it.at(0).verdict, OperatorVerdict::Unavailable) << "a crashed sample does not count as captured";
  EXPECT_EQ(after_it.at(0).tried, 4U);
  ASSERT_EQ(after_it.at(0).failures.size(), 1U) << "a crash that does not count is no failure";
  EXPECT_EQ(after_it.at(0).failures.at(0).how, "unavailable");
}

TEST(OperatorResults, PartOfCudnn_IsNamedByAFailureOfEagerCodeAlone) {
  const auto of_failure = [](const std::string& failure) {
    return operator_results(line_of({{"forward", R"({"samples":{"float32":{"crashed":1,"right":1}},"failures":[)" +
                                                     failure + "]}"}}))
        .at(0);
  };
  const OperatorResult other = of_failure(R"({"as":"eager","text":"no kernel"})");
  EXPECT_EQ(other.verdict, OperatorVerdict::Crashed);
  EXPECT_EQ(other.failures.at(0).how, "eager");
  EXPECT_EQ(of_failure(R"({"as":"refused","text":"CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"})").failures.at(0).how,
            "refused");
  EXPECT_EQ(of_failure(R"({"as":"refused","text":"CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"})").verdict,
            OperatorVerdict::Crashed);
  EXPECT_EQ(of_failure(R"({"as":"unavailable","text":"no cuSPARSELt"})").verdict, OperatorVerdict::Crashed);
  EXPECT_EQ(of_failure(R"({"as":"eager","text":"CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"})").verdict,
            OperatorVerdict::Unavailable);
}

TEST(OperatorResults, SamplesOfAType_AreCountedAsTheFormIs) {
  const auto of_type = [](const char* counts, const char* name) {
    const std::string forward = std::string(R"({"samples":{"float32":)") + counts + R"(},"failures":[)" +
                                R"({"as":"eager","text":"CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED"}]})";
    const OperatorSamples samples = operator_results(line_of({{"forward", forward}}, name)).at(0).by_type.at(0);
    return std::pair(samples.captured, samples.failed);
  };
  constexpr const char* kCounts = R"({"right":1,"undefined":2,"wrong":4,"refused":8,"replay":16,"eager":32})";
  EXPECT_EQ(of_type(kCounts, "linalg_inv"), (std::pair<size_t, size_t>(3, 28)));
  EXPECT_EQ(of_type(kCounts, "empty"), (std::pair<size_t, size_t>(7, 24))) << "no value of it is wrong";
  EXPECT_EQ(of_type(R"({"right":1,"crashed":2})", "linalg_inv"), (std::pair<size_t, size_t>(1, 0)))
      << "a crash after the part that is not there";
}

TEST(OperatorResults, WrongValueThatIsNone_IsNoFailureEither) {
  const auto results = operator_results(line_of(
      {{"forward", R"({"samples":{"float32":{"wrong":1,"replay":1}},"failures":[{"as":"wrong"},{"as":"replay"}]})"}},
      "empty"));
  ASSERT_EQ(results.at(0).failures.size(), 1U);
  EXPECT_EQ(results.at(0).failures.at(0).how, "replay");
}

TEST(OperatorResults, FailureOfAForm_IsTheRefusalWhereItIsRefused) {
  const auto failure_of = [](const char* counts) {
    const std::string forward =
        std::string(R"({"samples":{"float32":)") + counts + R"(},"failures":[{"as":"wrong"},{"as":"refused"}]})";
    const auto forms = forms_at_fault(operator_results(line_of({{"forward", forward}})));
    return forms.empty() ? "none" : forms.at(0).failure.value().how;
  };
  EXPECT_EQ(failure_of(R"({"refused":1})"), "refused");
  EXPECT_EQ(failure_of(R"({"refused":1,"right":1})"), "refused");
  EXPECT_EQ(failure_of(R"({"refused":1,"wrong":1})"), "wrong") << "the first is the most frequent";
  EXPECT_EQ(failure_of(R"({"right":1})"), "none");
  EXPECT_EQ(failure_of(R"({"undefined":1})"), "none");
}

TEST(OperatorResults, LostSamples_WereCapturedAndFailNow) {
  using Forms = std::vector<std::pair<std::string, std::string>>;  // A form, and its counts of samples.
  const auto results_of = [](const Forms& forms) {
    Json facts = Json::object();
    for (const auto& [form, counts] : forms) facts[form] = R"({"samples":{"float32":)" + counts + "}}";
    return operator_results(line_of(facts));
  };
  const auto lost = [&](const Forms& before, const Forms& now) -> std::optional<OperatorForm> {
    const auto samples = lost_samples(results_of(before), results_of(now));
    return samples ? std::optional(samples->form) : std::nullopt;
  };
  const std::string right = R"({"right":4})", some = R"({"right":3,"refused":1})", refused = R"({"refused":4})",
                    wrong = R"({"wrong":4})";
  EXPECT_EQ(lost({{"forward", right}}, {{"forward", some}}), OperatorForm::Forward);
  EXPECT_EQ(lost({{"forward", right}}, {{"forward", right}}), std::nullopt);
  EXPECT_EQ(lost({{"forward", right}}, {{"forward", R"({"right":4,"refused":1})"}}), std::nullopt)
      << "as many are captured";
  EXPECT_EQ(lost({{"forward", some}}, {{"forward", R"({"right":2,"refused":1})"}}), std::nullopt) << "as many fail";
  EXPECT_EQ(lost({}, {{"forward", refused}}), std::nullopt) << "the form is new";
  EXPECT_EQ(lost({{"cold", right}, {"forward", right}}, {{"cold", refused}, {"forward", right}}), std::nullopt);
  EXPECT_EQ(lost({{"forward", right}, {"backward", right}}, {{"forward", refused}, {"backward", wrong}}),
            OperatorForm::Backward)
      << "the worst";
  EXPECT_EQ(lost({{"forward", right}, {"backward", right}}, {{"forward", refused}, {"backward", refused}}),
            OperatorForm::Forward)
      << "of two as bad the first";
}

TEST(OperatorResults, SamplesThatEagerCannotCompute_DoNotCount) {
  const auto results = operator_results(
      line_of({{"forward", R"({"samples":{"float32":{"right":3,"refused":2,"eager":4,"differs":1}}})"}}));
  EXPECT_EQ(results.at(0).captured, 3U);
  EXPECT_EQ(results.at(0).tried, 5U);
}

TEST(OperatorResults, FactsOfAnotherShape_AreNoResult) {
  for (const char* text :
       {"[]", "{", "{}", R"({"samples":3})", R"({"samples":[]})", R"({"samples":{"float32":{"right":-1}}})",
        R"({"samples":{"float32":{"right":"3"}}})", R"({"samples":{"float32":[]}})"}) {
    EXPECT_THAT(operator_results(line_of({{"forward", text}})), IsEmpty()) << text;
  }
}

TEST(OperatorResults, FirstCallAndReplacement_DoNotMakeTheEffect) {
  const auto only_cold = operator_results(line_of({{"cold", kRefused}, {"forward", kRight}, {"instead", kRefused}}));
  EXPECT_EQ(effect_of_operator(only_cold), Effect::Works);
  EXPECT_EQ(describe_operator(only_cold), "captured");
  const auto backward = operator_results(line_of({{"forward", kRight}, {"backward", kRefused}}));
  EXPECT_EQ(effect_of_operator(backward), Effect::Raises);
  EXPECT_EQ(describe_operator(backward), "backward refused by cuStreamSynchronize (900)");
  EXPECT_EQ(effect_of_operator(operator_results(line_of({{"forward", R"({"samples":{"float32":{"eager":1}}})"}}))),
            std::nullopt);
}

TEST(OperatorResults, FormThatIsUnavailable_LeavesTheOperatorOpenUnlessAnotherFails) {
  const char* unavailable = R"({"samples":{"float32":{"unavailable":3}}})";
  EXPECT_EQ(effect_of_operator(operator_results(line_of({{"forward", unavailable}, {"out", kRight}}))), std::nullopt);
  EXPECT_EQ(effect_of_operator(operator_results(line_of({{"forward", unavailable}, {"out", kRefused}}))),
            Effect::Raises);
}

TEST(OperatorResults, RefusalByPyTorch_HasTypeAndText) {
  const auto results = operator_results(
      line_of({{"forward", R"({"samples":{"float32":{"refused":1}},"failures":[{"as":"refused","type":"RuntimeError",)"
                           R"("text":"Cannot copy between CPU and CUDA tensors","samples":1}]})"}}));
  EXPECT_EQ(describe_operator(results), "forward refused: RuntimeError: Cannot copy between CPU and CUDA tensors");
}

Record run_of(const std::string& release, const std::vector<TestRecord>& tests,
              const std::string& how_broken = "nothing") {
  Record record;
  record.path = release + ".jsonl";
  record.environment = Environment(fake_environment({{"release", release}, {"break", how_broken}}));
  Json names = Json::array();
  for (const TestRecord& test : tests) names.push_back(test.name());
  const Json described = fake_case(names, {{"case", "operators"}, {"family", "operators"}, {"nature", "constraint"}});
  record.cases["operators"] = CaseInfo::from(described);
  for (const TestRecord& test : tests) {
    record.plan.push_back(test.id());
    record.add(test);
  }
  record.end = "complete";
  return record;
}

// new_empty() returns uninitialised memory, so a replay and eager code may differ.
TEST(Operators, ValuesThatAreNotDefined_CannotBeWrong) {
  const auto verdict = [](const char* name, const char* counts) {
    const std::string forward = std::string(R"({"samples":{"float32":)") + counts + "}}";
    return operator_results(line_of({{"forward", forward}}, name)).at(0).verdict;
  };
  EXPECT_EQ(verdict("new_empty", R"({"wrong":1,"undefined":2})"), OperatorVerdict::Undefined);
  EXPECT_EQ(verdict("new_empty", R"({"replay":1,"undefined":2})"), OperatorVerdict::Wrong) << "a replay failed";
  EXPECT_EQ(verdict("transpose", R"({"wrong":1,"undefined":2})"), OperatorVerdict::Wrong);
}

TEST(OperatorsJudged, SampleThatCrashedOnce_IsInconclusiveUnlessItWasBrokenOnPurpose) {
  const TestRecord crashed = line_of({{"forward", R"({"samples":{"float32":{"right":3,"crashed":1}}})"}});
  const auto row_of = [&](const std::string& how) {
    return judge_record(run_of("2.11.0", {crashed}, how), Rules()).at(0);
  };
  const TestVerdict row = row_of("nothing");
  EXPECT_EQ(row.verdict, Verdict::Inconclusive);
  ASSERT_EQ(row.reasons.size(), 1U);
  EXPECT_EQ(row.reasons[0].kind, ReasonKind::CrashedOnce);
  EXPECT_TRUE(row_of("trigger").reasons.empty());
}

TEST(OperatorsBroken, RunWithoutCaptureOrWithAWrongValue_MustSeeIt) {
  const auto verdict = [](const std::string& how, const char* forward) {
    return judge_record(run_of("2.11.0", {line_of({{"forward", forward}})}, how), Rules()).at(0).verdict;
  };
  const std::string wrong = R"({"samples":{"float32":{"wrong":3,"undefined":2}}})";
  for (const char* how : {"trigger", "value"}) {
    EXPECT_EQ(verdict(how, wrong.c_str()), Verdict::AsExpected);
    EXPECT_EQ(verdict(how, kRefused), Verdict::AsExpected);
    EXPECT_EQ(verdict(how, kRight), Verdict::Changed);
  }
  EXPECT_EQ(verdict("remedy", wrong.c_str()), Verdict::NotRun);
}

compare::Comparison comparison_of(const std::vector<TestRecord>& before, const std::vector<TestRecord>& now) {
  const compare::CompareContext background;
  compare::Side from{"2.6.0", {}}, to{"2.11.0", {}};
  from.runs.push_back(compare::judge_without_staleness(run_of("2.6.0", before), background));
  to.runs.push_back(compare::judge_without_staleness(run_of("2.11.0", now), background));
  return compare_sides(from, to, background);
}

TEST(OperatorsCompared, OperatorsThatChangedAlike_AreOneChange) {
  const auto comparison = comparison_of({line_of({{"forward", kRight}}, "a"), line_of({{"forward", kRight}}, "b"),
                                         line_of({{"forward", kRefused}}, "c"), line_of({{"forward", kRight}}, "d")},
                                        {line_of({{"forward", kRefused}}, "a"), line_of({{"forward", kRefused}}, "b"),
                                         line_of({{"forward", kRight}}, "c"), line_of({{"forward", kRight}}, "d")});
  ASSERT_EQ(comparison.changes.size(), 2U);
  EXPECT_EQ(comparison.changes[0].consequence, compare::Consequence::NotCapturable);
  EXPECT_THAT(comparison.changes[0].tests, ElementsAre("operators.a", "operators.b"));
  EXPECT_EQ(render_change(comparison.changes[0].change, "2.6.0", "2.11.0"),
            "was captured in 2.6.0; in 2.11.0 it is refused");
  EXPECT_EQ(comparison.changes[1].consequence, compare::Consequence::Capturable);
  EXPECT_THAT(comparison.changes[1].tests, ElementsAre("operators.c"));
  EXPECT_EQ(exit_for(comparison), Exit::Changed);
}

TEST(OperatorsCompared, OperatorThatOneSideDidNotTry_IsNotUnknown) {
  const auto comparison = comparison_of({line_of({{"forward", kRight}}, "a"), line_of({{"forward", kRight}}, "gone")},
                                        {line_of({{"forward", kRight}}, "a"),
                                         TestRecord{{{"test", "operators.gone"},
                                                     {"ending", "exited"},
                                                     {"code", 77},
                                                     {"ended", "skipped"},
                                                     {"inapplicable", "this release has no operator gone"},
                                                     {"skipped", "Not applicable"}}},
                                         line_of({{"forward", kRight}}, "is_new")});
  EXPECT_EQ(comparison.unknown(), 0U);
  EXPECT_EQ(comparison.tests.size(), 1U);
}

std::string samples(const std::string& by_type) { return R"({"samples":)" + by_type + "}"; }

compare::ComparedTest compared_forms(const Json& before, const Json& now) {
  return comparison_of({line_of(before)}, {line_of(now)}).tests.at(0);
}

TEST(OperatorsCompared, FormOrTypeThatFailsNow_IsNotTheSameBesideAnotherFailure) {
  using compare::Consequence;
  const auto consequence = [](const Json& before, const Json& now) { return compared_forms(before, now).consequence; };
  const std::string some = samples(R"({"float32":{"right":5,"refused":3}})");
  const std::string none = samples(R"({"float32":{"refused":8}})");
  EXPECT_EQ(consequence({{"forward", some}}, {{"forward", none}}), Consequence::NotCapturable);
  EXPECT_EQ(render_compared(compared_forms({{"forward", some}}, {{"forward", none}}), "2.6.0", "2.11.0"),
            "was captured for 5 of 8 samples (forward, float32) in 2.6.0; in 2.11.0 it is captured for 0 of 8 samples");
  EXPECT_EQ(consequence({{"forward", none}}, {{"forward", some}}), Consequence::Same);
  EXPECT_EQ(consequence({{"forward", kRight}, {"backward", kRefused}}, {{"forward", kRefused}}),
            Consequence::NotCapturable);
  EXPECT_EQ(consequence({{"forward", kRefused}, {"out", kRight}}, {{"forward", kRight}, {"out", kRefused}}),
            Consequence::NotCapturable);
  EXPECT_EQ(consequence({{"forward", samples(R"({"float32":{"right":4},"float16":{"refused":4}})")}},
                        {{"forward", samples(R"({"float32":{"refused":4},"float16":{"right":4}})")}}),
            Consequence::NotCapturable);
  const std::string wrong = samples(R"({"float32":{"wrong":4}})"), right = samples(R"({"float32":{"right":4}})");
  EXPECT_EQ(consequence({{"forward", wrong}, {"backward", right}}, {{"forward", wrong}, {"backward", wrong}}),
            Consequence::NewDamage);
  EXPECT_EQ(consequence({{"forward", some}}, {{"forward", samples(R"({"float32":{"right":5,"refused":4}})")}}),
            Consequence::Same)
      << "a sample that is new";
  EXPECT_EQ(consequence({{"cold", right}, {"forward", none}}, {{"cold", none}, {"forward", none}}), Consequence::Same);
}

TEST(OperatorsCompared, FormWithoutAResult_IsUnknown) {
  const auto unknown = [](const Json& before, const Json& now) {
    return compared_forms(before, now).consequence == compare::Consequence::Unknown;
  };
  const Json both = {{"forward", kRight}, {"backward", kRight}},
             refused = {{"forward", kRight}, {"backward", kRefused}};
  for (const char* backward : {"", "[]", R"({"samples":{"float32":{"eager":4}}})"}) {
    const Json now = {{"forward", kRight}, {"backward", backward}};
    EXPECT_TRUE(unknown(both, now)) << backward;
    EXPECT_TRUE(unknown(refused, now)) << backward << ": not captured now";
    EXPECT_FALSE(unknown(now, both)) << backward;
    EXPECT_EQ(compared_forms(both, now).lacking, compare::Lacking::Nothing) << "the operator is judged";
  }
  EXPECT_EQ(render_compared(compared_forms(both, {{"forward", kRight}}), "2.6.0", "2.11.0"),
            "no result of backward in 2.11.0");
}

TEST(OperatorsCompared, OperatorThatGaveNoResult_IsUnknown) {
  const TestRecord broken{{{"test", "operators.a"}, {"ending", "exited"}, {"code", 1}, {"ended", "failed"}}};
  EXPECT_EQ(comparison_of({line_of({{"forward", kRight}}, "a")}, {broken}).unknown(), 1U);
  EXPECT_EQ(comparison_of({broken}, {line_of({{"forward", kRight}}, "a")}).unknown(), 1U);
}

TEST(OperatorCounts, RowsOfARecord_AreOneLine) {
  const Record record = run_of("2.11.0", {line_of({{"forward", kRight}}, "a"), line_of({{"forward", kRefused}}, "b"),
                                          line_of({{"forward", R"({"samples":{"float32":{"wrong":1}}})"}}, "c"),
                                          line_of({{"forward", R"({"samples":{"float32":{"eager":1}}})"}}, "d"),
                                          TestRecord{{{"test", "operators.e"},
                                                      {"ending", "exited"},
                                                      {"code", 77},
                                                      {"ended", "skipped"},
                                                      {"inapplicable", "this release has no operator e"},
                                                      {"skipped", "Not applicable"}}}});
  const auto rows = judge_record(record, Rules());
  std::vector<const TestVerdict*> all;
  for (const TestVerdict& row : rows) all.push_back(&row);
  EXPECT_EQ(report::render_operator_counts(all),
            "1 captured, 1 refused, 1 captured and wrong, 1 without a result, 1 not in this release");
}

const std::vector<Operator> kOperators = {
    {"linalg.inv", "torch.linalg.inv"},
    {"linalg.pinv", "torch.linalg.pinv"},
    {"linalg.pinv.hermitian", "torch.linalg.pinv"},
    {"nn.functional.one_hot", "torch.nn.functional.one_hot"},
    {"nn.functional.multi_head_attention_forward", "torch.nn.functional.multi_head_attention_forward"},
    {"item", "torch.Tensor.item"},
    {"int", "torch.int"},
    {"index_fill", "torch.index_fill"},
    {"__getitem__", "torch.Tensor.__getitem__"},
    {"uniform", "torch.Tensor.uniform_"}};

std::vector<std::string> named(const std::string& word) {
  std::vector<std::string> names;
  for (const Operator* one : named_operators(word, kOperators)) names.push_back(one->name);
  return names;
}

TEST(OperatorNames, AnyPrefixThatProgramsWrite_IsTheSameOperator) {
  for (const char* word : {"torch.linalg.inv", "linalg.inv", "linalg_inv", "torch.linalg.inv(A)"}) {
    EXPECT_THAT(named(word), ElementsAre("linalg.inv")) << word;
  }
  for (const char* word : {"F.one_hot", "one_hot", "torch.nn.functional.one_hot", "nn.functional.one_hot"}) {
    EXPECT_THAT(named(word), ElementsAre("nn.functional.one_hot")) << word;
  }
  EXPECT_THAT(named("aten::index_fill_"), ElementsAre("index_fill")) << "as PyTorch's profiler writes it";
  EXPECT_THAT(named("Tensor.index_fill_"), ElementsAre("index_fill"));
  EXPECT_THAT(named("torch.Tensor.uniform_"), ElementsAre("uniform"));
  EXPECT_THAT(named("uniform"), ElementsAre("uniform"));
  EXPECT_THAT(named("__getitem__"), ElementsAre("__getitem__"));
}

TEST(OperatorNames, WordOfPyTorchsMessagesAndCode_IsTheOperator) {
  for (const char* word : {"aten.index_fill_.int_Scalar", "aten::index_fill.int_Tensor", "at::index_fill",
                           "torch.ops.aten.index_fill.default", "mask.index_fill_(0, i, v)", "tensor.index_fill"}) {
    EXPECT_THAT(named(word), ElementsAre("index_fill")) << word;
  }
  for (const char* word : {".item()", "loss.item()", "aten::_local_scalar_dense", "_local_scalar_dense"}) {
    EXPECT_THAT(named(word), ElementsAre("item")) << word;
  }
  for (const char* word : {"inv", "torch.inverse", "aten.linalg_inv.default"}) {
    EXPECT_THAT(named(word), ElementsAre("linalg.inv")) << word;
  }
  for (const char* word : {"x[mask]", "h[:, keep]", "aten.index.Tensor"}) {
    EXPECT_THAT(named(word), ElementsAre("__getitem__")) << word;
  }
}

TEST(OperatorNames, Call_HasAllOfItsVariants) {
  EXPECT_THAT(named("torch.linalg.pinv"), ElementsAre("linalg.pinv", "linalg.pinv.hermitian"));
  EXPECT_THAT(named("linalg.pinv.hermitian"), ElementsAre("linalg.pinv.hermitian"));
}

std::string refusal_of(const std::string& word) {
  try {
    named(word);
  } catch (const ExitError& stop) {
    EXPECT_EQ(stop.code, Exit::Usage);
    return stop.what();
  }
  return "";
}

TEST(OperatorNames, UnknownWord_ListsNearest) {
  EXPECT_EQ(refusal_of("F.one_hott"), "there is no record of an operator 'one_hott'; did you mean one_hot?");
  EXPECT_THAT(refusal_of("np.inv"), HasSubstr("no record"));
  EXPECT_THAT(refusal_of("int(loss)"), HasSubstr("no record"))
      << "Python's int() reads the value; Tensor.int() does not";
  EXPECT_THAT(named("Tensor.int"), ElementsAre("int"));
}

TEST(OperatorNames, Module_IsReferredToItsFunctions) {
  const std::string refusal = " is a module; ask for what its forward() calls";
  EXPECT_EQ(refusal_of("nn.MultiheadAttention"),
            "nn.MultiheadAttention" + refusal + ", such as F.multi_head_attention_forward");
  EXPECT_EQ(refusal_of("torch.nn.Zzz(3)"), "nn.Zzz" + refusal);
}

std::vector<std::string> called(const std::string& line) {
  std::vector<std::string> names;
  for (const Operator* one : called_operators(line, kOperators)) names.push_back(one->name);
  return names;
}

TEST(OperatorNames, LineOfPython_NamesWhatItCalls) {
  EXPECT_THAT(called("y = torch.linalg.inv(a) @ F.one_hot(x)"), ElementsAre("linalg.inv", "nn.functional.one_hot"));
  EXPECT_THAT(called("linalg.pinv(torch.nn.functional.one_hot(i).float())"),
              ElementsAre("linalg.pinv", "nn.functional.one_hot"));
  EXPECT_THAT(called("x.view(-1).index_fill_(0, i, v)"), ElementsAre("index_fill"));
  EXPECT_THAT(called("x[0].uniform_()"), ElementsAre("uniform"));
  for (const char* line : {"np.linalg.inv(a)", "inv(a)", "inv = linalg", "np.uniform(3)", "random.uniform(0, 1)",
                           "torch.linalg.inv_ex(a)", "index_fill(x)", "reindex_fill(", ""}) {
    EXPECT_THAT(called(line), IsEmpty()) << line;
  }
}

TEST(OperatorNames, AtensName_MayHaveAnOverload) {
  const auto of_aten = [](const std::string& name) {
    const Operator* one = aten_operator(name, kOperators);
    return one == nullptr ? "" : one->name;
  };
  EXPECT_EQ(of_aten("linalg_inv"), "linalg.inv");
  EXPECT_EQ(of_aten("linalg_pinv_atol_rtol_float"), "linalg.pinv");
  EXPECT_EQ(of_aten("index_fill_int_Scalar"), "index_fill");
  EXPECT_EQ(of_aten("index_fill_"), "index_fill");
  EXPECT_EQ(of_aten("one_hot"), "nn.functional.one_hot");
  EXPECT_EQ(of_aten("uniform_"), "uniform");
  EXPECT_EQ(of_aten("_local_scalar_dense"), "item");
  EXPECT_EQ(of_aten("_none"), "");
  EXPECT_EQ(of_aten(""), "");
}

// By the statements of cases/diagnoses.toml.
TEST(OperatorNames, CodeOfACase_IsReferredToIt) {
  for (const auto& [word, id] :
       {std::pair(".cpu()", "cpu_copy_in_capture"), std::pair("tolist", "item_in_capture"),
        std::pair("torch.tensor", "tensor_literal_in_capture"), std::pair("int(loss)", "item_in_capture")}) {
    const ShellResult said =
        shell(fmt::format("'{}/recapture' --root '{}' operators '{}'", RECAPTURE_BUILD, RECAPTURE_ROOT, word));
    EXPECT_EQ(said.code, 2) << said.out;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr(fmt::format("a case shows when it fails: `recapture show {}`", id)));
  }
}

OperatorRow row_of(const std::vector<std::pair<std::string, Json>>& releases) {
  OperatorRow row{
      kOperators[0], {"linalg.inv", "torch.linalg.inv_ex(input).inverse", "Call torch.linalg.inv_ex(A)."}, {}, {}};
  for (const auto& [release, facts] : releases) {
    row.releases.push_back({release, release + "/x.jsonl.gz", facts.is_null(),
                            facts.is_null() ? std::vector<OperatorResult>() : operator_results(line_of(facts))});
  }
  return row;
}

TEST(OperatorText, RefusedOperator_NamesReleasesCauseAndWhatWorks) {
  const std::string text = report::render_text(row_of({{"2.6.0", {{"forward", kRefused}}},
                                                       {"2.11.0", {{"forward", kRefused}}},
                                                       {"2.15.0", {{"forward", kRefused}, {"instead", kRight}}}}));
  EXPECT_THAT(text, HasSubstr("torch.linalg.inv: refused in all releases on record, 2.6.0 to 2.15.0 "
                              "(cuStreamSynchronize (900)). Call torch.linalg.inv_ex(A).\n"));
  EXPECT_THAT(text, HasSubstr("  instead   captured               22 of 22 samples\n"
                              "  tried as  torch.linalg.inv_ex(input).inverse\n"));
}

TEST(OperatorText, ReplacementThatIsRefusedItself_IsNoAdvice) {
  const std::string text = report::render_text(row_of({{"2.11.0", {{"forward", kRefused}, {"instead", kRefused}}}}));
  EXPECT_THAT(text, Not(HasSubstr("Call torch.linalg.inv_ex")));
  EXPECT_THAT(text, HasSubstr("  instead   refused "));
}

TEST(OperatorText, FirstCallThatIsRefused_AsksForAWarmUp) {
  const std::string warm_up = "call it once before the capture";
  EXPECT_THAT(report::render_text(row_of({{"2.15.0", {{"forward", kRight}, {"cold", kRefused}}}})), HasSubstr(warm_up));
  EXPECT_THAT(report::render_text(row_of({{"2.15.0", {{"forward", kRefused}, {"cold", kRefused}}}})),
              Not(HasSubstr(warm_up)))
      << "no call of it can be captured";
}

TEST(OperatorText, CallThatNoSampleHas_FollowsTheVerdict) {
  OperatorRow row = row_of({{"2.15.0", {{"forward", kRight}}}});
  row.untried = {"linalg.inv", "inv(3) is refused", "item_in_capture"};
  EXPECT_THAT(report::render_text(row), HasSubstr("torch.linalg.inv: captured in 2.15.0\n"
                                                  "  but       inv(3) is refused: recapture show item_in_capture\n"));
  EXPECT_EQ(report::render_json({{row}, {"2.15.0"}}).at("operators").at("linalg.inv").at("untried").at("case"),
            "item_in_capture");
}

TEST(OperatorText, CallsThatNoSampleHas_NameOperatorsAndCases) {
  const Catalogue catalogue = read_catalogue(RECAPTURE_ROOT);
  const auto untried = read_known(RECAPTURE_ROOT, "untried", read_operators(RECAPTURE_ROOT));
  EXPECT_THAT(untried, Not(IsEmpty()));
  for (const KnownOfOperator& one : untried) EXPECT_NE(find_case(catalogue, one.case_id), nullptr) << one.case_id;
}

TEST(OperatorText, WhatIsKnownOfLater_FollowsTheForms) {
  OperatorRow row = row_of({{"2.15.0", {{"forward", kRight}}}});
  EXPECT_THAT(report::render_text(row), Not(HasSubstr("later")));
  row.known_later = {"linalg.inv", "after a drop", "fft_plan_dropped"};
  EXPECT_THAT(report::render_text(row),
              HasSubstr("  later     not right after a drop: recapture show fft_plan_dropped\n"));
  EXPECT_EQ(report::render_json({{row}, {"2.15.0"}}).at("operators").at("linalg.inv").at("later").at("why"),
            "after a drop");
  row.known_later = {};
  row.releases.at(0).later = {{"other work", "a drop"}, {}};
  EXPECT_THAT(report::render_text(row), HasSubstr("  later     right after other work, a drop (2.15.0)\n"));
  row.releases.at(0).later = {{"other work", "a drop"}, {"a drop"}};
  EXPECT_THAT(report::render_text(row), HasSubstr("  later     not right after a drop (2.15.0)\n"));
  row.releases.at(0).later->failures = {{"a drop", "wrong", "forward, float32, sample 1: output: 0 in place of 1"}};
  EXPECT_THAT(report::render_text(row),
              HasSubstr("  later     not right after a drop (2.15.0): wrong: forward, float32, "
                        "sample 1: output: 0 in place of 1\n"));
  const Json result = report::render_json({{row}, {"2.15.0"}}).at("operators").at("linalg.inv").at("results").at(0);
  EXPECT_EQ(result.at("later").at("wrong"), Json({"a drop"}));
}

TEST(OperatorText, WhatIsKnownOfLater_NamesOperatorsAndCases) {
  const Catalogue catalogue = read_catalogue(RECAPTURE_ROOT);
  const auto known = read_known(RECAPTURE_ROOT, "later", read_operators(RECAPTURE_ROOT));
  EXPECT_THAT(known, Not(IsEmpty()));
  for (const auto& one : known) EXPECT_NE(find_case(catalogue, one.case_id), nullptr) << one.case_id;
}

TEST(OperatorText, ReleasesThatDifferLater_EachHaveTheirAnswer) {
  OperatorRow row = row_of({{"2.6.0", {{"forward", kRight}}},
                            {"2.11.0", {{"forward", kRight}}},
                            {"2.12.1", {{"forward", kRight}}},
                            {"2.15.0", {{"forward", kRight}}}});
  row.releases.at(0).later = {{"a drop"}, {"a drop"}, {{"a drop", "writes", "older"}}};
  row.releases.at(1).later = {{"a drop"}, {"a drop"}, {{"a drop", "writes", "newer"}}};
  row.releases.at(3).later = {{"a drop"}, {}};
  EXPECT_THAT(
      report::render_text(row),
      HasSubstr("  later     right after a drop (2.15.0); not right after a drop (2.11.0, 2.6.0): writes: newer\n"));
}

TEST(OperatorText, GraphThatIsNotRightLater_HasARowInTheTable) {
  OperatorRow row = row_of({{"2.11.0", {{"forward", kRight}}}, {"2.15.0", {{"forward", kRight}}}});
  const std::string heading = "## Captured, and not right after something between two replays";
  EXPECT_THAT(report::render_markdown({{row}, {"2.11.0", "2.15.0"}}), Not(HasSubstr(heading)));
  row.releases.at(0).later = {{"other work"}, {}};
  const std::string right = report::render_markdown({{row}, {"2.11.0", "2.15.0"}});
  EXPECT_THAT(right, HasSubstr(heading));
  EXPECT_THAT(right, HasSubstr("\n1 other operator stay right"));
  row.releases.at(0).later = {{"other work", "a drop"}, {"a drop"}};
  const std::string wrong = report::render_markdown({{row}, {"2.11.0", "2.15.0"}});
  EXPECT_THAT(wrong, HasSubstr("| `linalg.inv` | not right after a drop | not measured |\n"));
  EXPECT_THAT(wrong, HasSubstr("\n0 other operators stay right"));
}

// Of the case operators_later.
TestRecord later_line_of(const std::string& later) {
  Json line = line_of({{"later", later}}).json();
  line["test"] = "operators_later.linalg_inv";
  return TestRecord{line};
}

Record later_run_of(const std::string& release, const std::string& later, const std::string& how_broken = "nothing") {
  Record record = run_of(release, {later_line_of(later)}, how_broken);
  record.cases.clear();
  record.cases["operators_later"] = CaseInfo::from(
      fake_case({"linalg_inv"}, {{"case", "operators_later"}, {"family", "operators"}, {"nature", "constraint"}}));
  return record;
}

const std::string kStaysRight = R"({"asked":["a","b"],"wrong":[]})", kNothingCaptured = R"({"asked":[],"wrong":[]})";
std::string wrong_later(const std::string& how) {
  return R"({"asked":["a","b"],"wrong":["b"],"how":{"b":{"as":")" + how + R"("}}})";
}

TEST(OperatorLater, Answer_IsJudgedByItsWorstAction) {
  const auto judged = [](const std::string& later) {
    return judge_record(later_run_of("2.15.0", later), Rules()).at(0);
  };
  EXPECT_EQ(judged(kStaysRight).effect, Effect::Works);
  EXPECT_EQ(to_string(judged(kStaysRight).observed), "stays right");
  EXPECT_EQ(judged(wrong_later("wrong")).effect, Effect::SilentlyWrong);
  EXPECT_EQ(judged(wrong_later("writes")).effect, Effect::SilentlyWrong);
  EXPECT_EQ(judged(wrong_later("replay")).effect, Effect::Raises);
  EXPECT_EQ(judged(wrong_later("crashed")).effect, Effect::Crashes);
  EXPECT_EQ(judged(wrong_later("hung")).effect, Effect::Hangs);
  EXPECT_EQ(to_string(judged(wrong_later("hung")).observed), "not right after b");
  EXPECT_EQ(judged(R"({"asked":["a","b"],"wrong":["a","b"],"how":{"b":{"as":"replay"},"a":{"as":"wrong"}}})").effect,
            Effect::SilentlyWrong);
  EXPECT_EQ(judged(kNothingCaptured).effect, std::nullopt) << "no sample is captured";
  for (const std::string& later : {kStaysRight, wrong_later("crashed")}) {
    EXPECT_EQ(judged(later).verdict, Verdict::AsDocumented) << "the record has the answer";
  }
}

TEST(OperatorLater, WhatNoActionAloneShows_IsInconclusive) {
  const std::string how = R"("how":{"a second graph":{"as":"wrong"},"all of them together":{"as":"wrong"}}})";
  for (const std::string& later : {R"({"asked":["a","b"],"wrong":["all of them together"],)" + how,
                                   R"({"asked":["a second graph"],"wrong":["a second graph"],)" + how}) {
    const TestVerdict row = judge_record(later_run_of("2.15.0", later), Rules()).at(0);
    EXPECT_EQ(row.effect, std::nullopt) << later;
    EXPECT_THAT(to_string(row.observed), HasSubstr("inconclusive: not right once, after a")) << later;
    EXPECT_FALSE(later_result(later_line_of(later))->is_confirmed) << later;
  }
  EXPECT_TRUE(later_result(later_line_of(wrong_later("wrong")))->is_confirmed);
}

TEST(OperatorLater, LineWithoutFacts_HasNoAnswer) {
  TestRecord line = later_line_of(kStaysRight);
  edit_line(line)->erase("facts");
  EXPECT_EQ(later_result(line), std::nullopt);
  edit_line(line)["facts"] = "later";
  EXPECT_EQ(later_result(line), std::nullopt);
}

TEST(OperatorLater, BrokenRun_MustSeeIt) {
  const auto verdict = [](const std::string& how, const std::string& later) {
    return judge_record(later_run_of("2.15.0", later, how), Rules()).at(0).verdict;
  };
  for (const char* how : {"trigger", "value"}) {
    EXPECT_EQ(verdict(how, wrong_later("wrong")), Verdict::AsExpected);
    EXPECT_EQ(verdict(how, kNothingCaptured), Verdict::AsExpected) << "nothing to see it by";
    EXPECT_EQ(verdict(how, kStaysRight), Verdict::Changed);
  }
}

TEST(OperatorLater, Change_IsOneOfItsEffect) {
  const auto consequence = [](const std::string& then, const std::string& now) {
    const compare::CompareContext background;
    compare::Side from{"2.11.0", {}}, to{"2.15.0", {}};
    from.runs.push_back(compare::judge_without_staleness(later_run_of("2.11.0", then), background));
    to.runs.push_back(compare::judge_without_staleness(later_run_of("2.15.0", now), background));
    return compare_sides(from, to, background).tests.at(0).consequence;
  };
  using compare::Consequence;
  EXPECT_EQ(consequence(kStaysRight, wrong_later("wrong")), Consequence::NewDamage);
  EXPECT_EQ(consequence(kStaysRight, wrong_later("replay")), Consequence::NewErrors);
  EXPECT_EQ(consequence(wrong_later("wrong"), kStaysRight), Consequence::Healed);
  EXPECT_EQ(consequence(wrong_later("wrong"), wrong_later("wrong")), Consequence::Same);
  EXPECT_EQ(consequence(wrong_later("crashed"), wrong_later("wrong")), Consequence::Same) << "chance decides";
  EXPECT_EQ(consequence(wrong_later("replay"), wrong_later("crashed")), Consequence::Same) << "chance decides";
  EXPECT_EQ(consequence(kStaysRight, kStaysRight), Consequence::Same);
  EXPECT_EQ(consequence(kNothingCaptured, wrong_later("wrong")), Consequence::Unknown) << "it was not wrong before";
  EXPECT_EQ(consequence(wrong_later("wrong"), kNothingCaptured), Consequence::Unknown) << "it is not right now";
}

// That other operators of the case are silently wrong is no damage of one that is right now.
TEST(OperatorLater, HealedOperator_IsHealedBesideOthers) {
  const auto run = [](const std::string& release, const std::string& later) {
    Record record = later_run_of(release, later);
    Json other = later_line_of(wrong_later("wrong")).json();
    other["test"] = "operators_later.fft_fft";
    record.tests.push_back(TestRecord{other});
    record.cases["operators_later"] = CaseInfo::from(fake_case(
        {"linalg_inv", "fft_fft"}, {{"case", "operators_later"}, {"family", "operators"}, {"nature", "constraint"}}));
    return record;
  };
  const compare::CompareContext context;
  compare::Side from{"2.11.0", {}}, to{"2.15.0", {}};
  from.runs.push_back(compare::judge_without_staleness(run("2.11.0", wrong_later("crashed")), context));
  to.runs.push_back(compare::judge_without_staleness(run("2.15.0", kStaysRight), context));
  const compare::Comparison compared = compare_sides(from, to, context);
  const auto& test = *std::ranges::find(compared.tests, "operators_later.linalg_inv", &compare::ComparedTest::test);
  EXPECT_EQ(test.consequence, compare::Consequence::Healed);
  EXPECT_FALSE(test.change->notes.has_other_forms);
}

TEST(OperatorLater, Kinds_AreThoseOfTheFirstWord) {
  EXPECT_EQ(kind_of_id("operators_later.linalg_inv"), Kind::Operator);
  EXPECT_EQ(kind_of_id("operators_later.ReproducesPoisonedMemory"), Kind::Reproduces);
  EXPECT_EQ(kind_of_id("operators_later.ControlOperatorThatOwnsItsMemory"), Kind::Control);
  EXPECT_EQ(kind_of_id("operators.linalg_inv"), Kind::Operator);
}

// A made-up record.
TEST(OperatorTable, RecordThatAsksAboutLater_IsTakenFromTheNewest) {
  const auto made = [&](const std::string& started, const std::string& later) {
    Record record;
    record.path = "./" + started + ".jsonl";
    record.environment = {{"release", "2.15.0"}, {"gpu", "G"}, {"volatile", {{"started", started}}}};
    record.add(line_of({{"forward", kRight}}));
    record.add(later_line_of(later));
    return record;
  };
  const auto later_of = [&](const std::vector<Record>& records) {
    const auto table = timeline::operator_table(RECAPTURE_ROOT, ".", records);
    const auto row = std::ranges::find(table.rows, "linalg.inv", [](const OperatorRow& one) { return one.what.name; });
    EXPECT_EQ(table.has_later(), row->releases.at(0).later.has_value());
    return row->releases.at(0).later;
  };
  const std::string right = R"({"asked":["other work"],"wrong":[]})",
                    wrong = R"({"asked":["other work","a drop"],"wrong":["a drop"]})";
  EXPECT_THAT(later_of({made("2026-01", right), made("2026-02", wrong)})->wrong, ElementsAre("a drop"));
  EXPECT_THAT(later_of({made("2026-02", right), made("2026-01", wrong)})->wrong, IsEmpty());
  for (const char* text : {"", "[]", "{}", R"({"asked":"all"})", R"({"asked":[3]})"}) {
    EXPECT_FALSE(later_of({made("2026-01", text)}).has_value()) << text;
  }
}

TEST(OperatorText, Course_NamesEachChange) {
  const std::string text = report::render_text(
      row_of({{"2.6.0", nullptr}, {"2.11.0", {{"forward", kRefused}}}, {"2.15.0", {{"forward", kRight}}}}));
  EXPECT_THAT(text, HasSubstr("torch.linalg.inv: not in 2.6.0; refused in 2.11.0; captured in 2.15.0 "
                              "(2.11.0: cuStreamSynchronize (900))\n"));
}

TEST(OperatorText, OperatorWhoseLibraryIsLeftOut_IsUnavailableAndNotListed) {
  const auto row = row_of({{"2.15.0", {{"forward", R"({"samples":{"float32":{"unavailable":3}}})"}}}});
  EXPECT_THAT(report::render_text(row), HasSubstr("torch.linalg.inv: unavailable in 2.15.0"));
  const timeline::OperatorTable table{{row}, {"2.15.0"}};
  EXPECT_EQ(report::render_text(table), "2.15.0: 1 unavailable\n");
  EXPECT_TRUE(report::view_of(table, row).is_captured);
  EXPECT_TRUE(report::operator_answers(table, "2.15.0").not_captured.empty());
}

TEST(OperatorText, InconclusiveOperator_IsNeitherCapturedNorRefused) {
  OperatorRow row = row_of({{"2.11.0", {{"forward", kRight}}}, {"2.15.0", {{"forward", kRight}}}});
  row.releases.back().inconclusive = true;
  const timeline::OperatorTable table{{row}, {"2.11.0", "2.15.0"}};
  EXPECT_THAT(report::render_text(row), HasSubstr("torch.linalg.inv: captured in 2.11.0; inconclusive in 2.15.0\n"));
  EXPECT_EQ(
      report::render_text(table),
      "torch.linalg.inv: captured in 2.11.0; inconclusive in 2.15.0\n2.11.0: 1 captured\n2.15.0: 1 inconclusive\n");
  EXPECT_FALSE(report::view_of(table, row).is_captured);
  EXPECT_EQ(report::view_of(table, row).why, "inconclusive in 2.15.0");
  EXPECT_TRUE(report::operator_answers(table, "2.15.0").not_captured.empty());
}

TEST(OperatorTable, TestThatBroke_IsInconclusiveWhereNoOtherHasAResult) {
  const auto made = [](const char* release, const char* started, const char* name, const Json& facts) {
    Record record;
    record.environment = {{"release", release},
                          {"gpu", "G"},
                          {"driver", "1"},
                          {"libtorch", release},
                          {"volatile", {{"started", started}}}};
    TestRecord line = line_of(facts, name);
    if (facts.is_null()) edit_line(line)->update({{"code", 1}, {"ended", "failed"}, {"assertions", {"x.cpp:1: no"}}});
    record.add(line);
    return record;
  };
  const auto table = timeline::operator_table(
      RECAPTURE_ROOT, ".",
      {made("2.11.0", "2026-01", "linalg_inv", {{"forward", kRight}}), made("2.11.0", "2026-02", "linalg_inv", nullptr),
       made("2.15.0", "2026-01", "linalg_inv", nullptr)});
  const auto row = std::ranges::find(table.rows, "linalg.inv", [](const OperatorRow& each) { return each.what.name; });
  ASSERT_NE(row, table.rows.end());
  EXPECT_THAT(report::view_of(table, *row).words, ElementsAre("captured", "inconclusive"));
}

TEST(OperatorText, View_HasACellForEachReleaseOfTheTable) {
  const timeline::OperatorTable table{
      {row_of({{"2.6.0", nullptr}, {"2.11.0", {{"forward", kRight}, {"out", kRefused}, {"instead", kRight}}}})},
      {"2.6.0", "2.11.0", "2.15.0"}};
  const report::OperatorView view = report::view_of(table, table.rows.at(0));
  EXPECT_THAT(view.words, ElementsAre("not in this release", "refused", ""));
  EXPECT_THAT(view.phrases, ElementsAre("not in this release", "out refused", ""));
  EXPECT_FALSE(view.is_captured);
  EXPECT_EQ(view.why, "cuStreamSynchronize (900)");
  EXPECT_EQ(view.instead, "Call torch.linalg.inv_ex(A).");
  const auto words = report::operator_words();
  for (const std::string& word : {view.words[0], view.words[1]}) {
    EXPECT_TRUE(std::any_of(words.begin(), words.end(), [&](const auto& one) { return one.text == word; })) << word;
  }
}

TEST(OperatorText, Answers_AreOfTheRelease) {
  const timeline::OperatorTable table{
      {row_of({{"2.6.0", {{"forward", kRefused}, {"instead", kRight}}}, {"2.15.0", {{"forward", kRight}}}})},
      {"2.6.0", "2.15.0"}};
  const auto answers_for = [&](const std::string& release) {
    const OperatorAnswers answers = report::operator_answers(table, release);
    return answers.of({&answers.known.at(0), &answers.known.at(0)});
  };
  for (const char* release : {"2.6.0", "2.9.1", ""}) {
    ASSERT_EQ(answers_for(release).size(), 1U) << release;
    EXPECT_EQ(answers_for(release).at(0).name, "linalg.inv");
    EXPECT_EQ(answers_for(release).at(0).advice, "Call torch.linalg.inv_ex(A).");
    EXPECT_THAT(answers_for(release).at(0).line, HasSubstr("torch.linalg.inv: refused in 2.6.0; captured in 2.15.0"));
  }
  EXPECT_THAT(answers_for("2.15.0"), IsEmpty()) << "it can be captured there";
}

TEST(OperatorJson, Table_HasEachResultOnceWithItsRecords) {
  const OperatorRow row = row_of({{"2.10.0", {{"forward", kRefused}}},
                                  {"2.11.0", {{"forward", kRight}}},
                                  {"2.12.1", {{"forward", kRefused}}},
                                  {"2.13.0", Json()}});
  const Json json = Json::parse(report::render_json_lines({{row}, {"2.10.0", "2.11.0", "2.12.1", "2.13.0"}}));
  EXPECT_EQ(json.at("schema"), 3);
  EXPECT_EQ(json.at("records"),
            Json({"2.10.0/x.jsonl.gz", "2.11.0/x.jsonl.gz", "2.12.1/x.jsonl.gz", "2.13.0/x.jsonl.gz"}));
  const Json& results = json.at("operators").at("linalg.inv").at("results");
  ASSERT_EQ(results.size(), 3U);
  const Json& refused = results.at(0);
  EXPECT_EQ(refused.at("records"), Json({{"2.10.0", 0}, {"2.12.1", 2}}));
  EXPECT_EQ(refused.at("verdict"), "refused");
  EXPECT_EQ(refused.at("forms").at("forward").at("tried"), 16);
  EXPECT_EQ(refused.at("forms").at("forward").at("failures").at(0).at("api"), "cuStreamSynchronize");
  EXPECT_EQ(results.at(1).at("verdict"), "captured");
  EXPECT_EQ(results.at(1).at("records"), Json({{"2.11.0", 1}}));
  EXPECT_EQ(results.at(2).at("records"), Json({{"2.13.0", 3}}));
  EXPECT_FALSE(results.at(2).contains("forms"));
}

}  // namespace
}  // namespace recapture

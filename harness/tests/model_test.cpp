// The nouns: releases, GPUs, and a case's description as values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "harness/model/failure_text.h"
#include "harness/model/gpu.h"
#include "harness/model/record.h"
#include "harness/model/release.h"
#include "harness/tests/fake_record.h"

namespace recapture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Release, Order_IsByVersionThenByName) {
  std::vector<std::string> names = {"nightly", "2.10.0+cu130", "cuda13", "2.10.0", "2.10", "2.9.1", "2.10.0rc1"};
  sort_releases(names);
  EXPECT_THAT(names, ElementsAre("2.9.1", "2.10.0rc1", "2.10", "2.10.0", "2.10.0+cu130", "cuda13", "nightly"));
}

TEST(Release, NewestFirst_HasOtherNamesLast) {
  std::vector<std::string> names = {"cuda13", "2.9.1", "2.10.0"};
  std::ranges::sort(names, NewestFirst(), [](const std::string& name) { return Release(name); });
  EXPECT_THAT(names, ElementsAre("2.10.0", "2.9.1", "cuda13"));
}

TEST(Release, AnyOtherName_IsNeitherOlderNorNewer) {
  const Release build("cuda13"), release("2.10.0");
  EXPECT_FALSE(build.is_older_than(release));
  EXPECT_FALSE(release.is_older_than(build));
  EXPECT_LT(release, build) << "it still has its place";
}

TEST(Release, TwoSpellingsOfAVersion_AreTwoKeysOfOneAge) {
  const Release shorter("2.10"), longer("2.10.0");
  EXPECT_FALSE(shorter.is_older_than(longer));
  EXPECT_FALSE(longer.is_older_than(shorter));
  EXPECT_NE(shorter, longer);
  EXPECT_LT(shorter, longer);
}

TEST(GpuFilter, PartOfAName_CoversItInAnySpelling) {
  EXPECT_TRUE(GpuFilter("h200").covers("NVIDIA H200"));
  EXPECT_FALSE(GpuFilter("h100").covers("NVIDIA H200"));
  EXPECT_FALSE(GpuFilter("h200").covers(""));
}

TEST(GpuFilter, None_CoversOnlyRunsWithoutAGpu) {
  EXPECT_TRUE(GpuFilter("none").covers(""));
  EXPECT_FALSE(GpuFilter("none").covers("NVIDIA H200"));
}

TEST(GpuFilter, NoWord_CoversAll) {
  EXPECT_TRUE(GpuFilter("").covers(""));
  EXPECT_TRUE(GpuFilter("").covers("NVIDIA H200"));
}

TEST(Architecture, Order_IsByNumber) {
  EXPECT_LT(Architecture("9.0"), Architecture("10.0"));
  EXPECT_LT(Architecture("8.6"), Architecture("9.0"));
}

TEST(FailureText, FormsOfAFailure_NameIt) {
  for (const char* seen :
       {"900 > invalidated > 901", "ok > none > 700", "\"check\" > active > ok", "900 > 901",
        "900 > ok by cuStreamSynchronize on the main thread", "700", "RuntimeError: no",
        "torch.AcceleratorError: CUDA error", "CaptureFailed: it ended", "torch._dynamo.exc.Unsupported: no"}) {
    EXPECT_TRUE(names_failure(seen)) << seen;
  }
}

TEST(FailureText, ValuesAndSentences_NameNone) {
  for (const char* seen : {"", "ok > none > ok", "ok > active > ok, cache kept", "[10.0, 14.0]", "0", "9001 bytes",
                           "900 > 901 > 902", "12345 > 901", "900 > none", "note: RuntimeError: no",
                           "A RuntimeError: no", "rank 1: 900", "errors: 3", "Death: rank 1 died first: signal 6"}) {
    EXPECT_FALSE(names_failure(seen)) << seen;
  }
}

TEST(FailureText, EndOfAProgramsCapture_IsItsOwnPart) {
  const auto failure = ProgramFailure::read("900 > ok by cuStreamSynchronize on the main thread");
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, "900");
  EXPECT_EQ(failure->end, "ok");
  EXPECT_FALSE(ProgramFailure::read("900 > okay"));
}

TEST(Needs, Words_AreReadAgain) {
  for (const char* words :
       {"host", "gpu", "ranks", "gpu python", "host python nemo", "ranks python", "gpu python transformer_engine"}) {
    const auto needs = Needs::read(words);
    ASSERT_TRUE(needs) << words;
    EXPECT_EQ(needs->words(), words);
  }
}

Json case_with(const Json& more) { return fake_case({"Control", "ReproducesA", "ReproducesB"}, more); }

TEST(CaseInfo, EffectOfATest_IsItsOwnOrThatOfTheCase) {
  const CaseInfo info = CaseInfo::from(case_with({{"effect", "leaks"}, {"effects", {{"ReproducesB", "hangs"}}}}));
  EXPECT_EQ(info.effect_of("ReproducesA"), Effect::Leaks);
  EXPECT_EQ(info.effect_of("ReproducesB"), Effect::Hangs);
}

TEST(CaseInfo, Description_IsWrittenAsItWasRead) {
  const Json json = CaseInfo::from(case_with({{"stopping", "300 captures"},
                                              {"nature", "race"},
                                              {"needs", "ranks python"},
                                              {"effects", {{"ReproducesB", "hangs"}, {"ReproducesA", "works"}}},
                                              {"fixes", {{"FixIt", "Do it."}, {"FixB", "Do that."}}}}))
                        .to_json();
  EXPECT_EQ(CaseInfo::from(json).to_json().dump(), json.dump());
  EXPECT_EQ(json.at("effects").dump(), R"({"ReproducesB":"hangs","ReproducesA":"works"})");
  EXPECT_EQ(json.at("needs"), "ranks python");
  EXPECT_EQ(json.at("stopping"), "300 captures");
}

// A newer program may know it; a guess would judge the record wrongly.
TEST(CaseInfo, UnknownWord_IsRefusedByName) {
  for (const auto& [key, what] :
       {std::pair{"nature", "nature"}, {"fidelity", "fidelity"}, {"effect", "effect"}, {"stopping", "stopping rule"}}) {
    try {
      CaseInfo::from(case_with({{key, "burns"}}));
      ADD_FAILURE() << key;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("the ") + what + " 'burns', which is not known"));
    }
  }
  EXPECT_THROW(CaseInfo::from(case_with({{"effects", {{"ReproducesA", "burns"}}}})), std::runtime_error);
}

}  // namespace
}  // namespace recapture

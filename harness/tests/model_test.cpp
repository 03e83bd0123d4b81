// The nouns: releases, GPUs, and a case's description as values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "harness/base/exit.h"
#include "harness/model/environment.h"
#include "harness/model/failure_text.h"
#include "harness/model/gpu.h"
#include "harness/model/origin.h"
#include "harness/model/record.h"
#include "harness/model/release.h"
#include "harness/run/machine.h"
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

// The release's own commit is in ci/matrix.toml.
TEST(Environment, AnotherCommitOfARelease_IsABuildOfItsOwn) {
  const std::string own = git_of_release("2.15.0") + std::string(28, '0');
  ASSERT_EQ(own.size(), 40U);
  EXPECT_EQ(Environment(fake_environment({{"libtorch_git", own}})).release.name(), "2.15.0");
  EXPECT_EQ(Environment(fake_environment({{"libtorch_git", ""}})).release.name(), "2.15.0");
  EXPECT_EQ(Environment(fake_environment(Json::object())).release.name(), "2.15.0") << "older records have none";
  const Environment fork = fake_environment({{"libtorch_git", "0123ABCdef"}});
  EXPECT_EQ(fork.release.name(), "2.15.0+git0123abc");
  EXPECT_EQ(text_at(fork.json(), "release"), "2.15.0+git0123abc");
  EXPECT_EQ(fork.name_in_matrix(), "2.15.0") << "as it is run";
  EXPECT_NE(fork.kind, Environment(fake_environment({{"libtorch_git", own}})).kind);
  EXPECT_EQ(Environment(fork.json()).release.name(), "2.15.0+git0123abc") << "written and read again";
  EXPECT_EQ(Environment(fork.json()).name_in_matrix(), "2.15.0");
  for (const char* other : {"2.16.0.dev20261124+cu132", "2.15.0rc1", "cuda13"}) {
    const Environment build = fake_environment({{"release", other}, {"libtorch_git", "0123abcdef"}});
    EXPECT_EQ(build.release.name(), other) << "it has a name of its own";
  }
}

TEST(Environment, Label_IsPartOfTheRelease) {
  const Environment acme = fake_environment({{"release", "2.11.0"}, {"label", "acme"}});
  EXPECT_EQ(acme.release.name(), "2.11.0+acme");
  EXPECT_THAT(acme.release.labels(), ElementsAre("acme"));
  EXPECT_EQ(acme.name_in_matrix(), "2.11.0");
  EXPECT_EQ(Environment(acme.json()).release.name(), "2.11.0+acme");
  const Environment local = fake_environment({{"release", "2.11.0a0+git0123abc"}, {"label", "acme.2"}});
  EXPECT_EQ(local.release.name(), "2.11.0a0+git0123abc.acme.2");
  EXPECT_EQ(Environment(local.json()).release.name(), "2.11.0a0+git0123abc.acme.2");
  EXPECT_EQ(local.name_in_matrix(), "2.11.0a0+git0123abc");
  EXPECT_EQ(Environment(fake_environment({{"label", "../x"}})).release.name(), "2.15.0") << "no label";
  EXPECT_EQ(Environment(fake_environment({{"release", "cuda13"}, {"label", "acme"}})).release.name(), "cuda13");
}

TEST(GpuFilter, WordsOfAName_CoverItInAnySpelling) {
  EXPECT_TRUE(GpuFilter("h200").covers("NVIDIA H200"));
  EXPECT_FALSE(GpuFilter("h100").covers("NVIDIA H200"));
  EXPECT_FALSE(GpuFilter("h200").covers(""));
  for (const auto& [word, gpu] : {std::pair("H100", "NVIDIA H100 80GB HBM3"),
                                  {"nvidia h100", "NVIDIA H100 80GB HBM3"},
                                  {"a100", "NVIDIA A100-SXM4-80GB"},
                                  {"a100-sxm4", "NVIDIA A100-SXM4-80GB"},
                                  {"gh200-480gb", "NVIDIA GH200 480GB"},
                                  {"4090", "NVIDIA GeForce RTX 4090"}}) {
    EXPECT_TRUE(GpuFilter(word).covers(gpu)) << word << " in " << gpu;
  }
  for (const auto& [word, gpu] : {std::pair("H200", "NVIDIA GH200 480GB"),
                                  {"B200", "NVIDIA GB200"},
                                  {"A10", "NVIDIA A100-SXM4-80GB"},
                                  {"A10", "NVIDIA A10G"},
                                  {"L4", "NVIDIA L40S"},
                                  {"L40", "NVIDIA L40S"},
                                  {"H100 HBM3", "NVIDIA H100 80GB HBM3"},
                                  {"h10", "NVIDIA H100 80GB HBM3"}}) {
    EXPECT_FALSE(GpuFilter(word).covers(gpu)) << word << " in " << gpu;
  }
}

TEST(GpusOnRecord, WordForOneOfTheProjects_IsNoneOfSomebodys) {
  GpusOnRecord gpus;
  gpus.add(fake_environment({{"gpu", "NVIDIA H200"}}));
  gpus.add(fake_environment({{"gpu", "NVIDIA H200 NVL"}, {"origin", "somebody"}}));
  gpus.add(fake_environment({{"gpu", "NVIDIA B200"}, {"origin", "somebody"}}));
  EXPECT_EQ(gpus.named("h200").word(), "NVIDIA H200");
  EXPECT_EQ(gpus.named("h200 nvl").word(), "NVIDIA H200 NVL");
  EXPECT_EQ(gpus.named("b200").word(), "NVIDIA B200");
  EXPECT_EQ(gpus.named("a100").word(), "a100");
  gpus.add(fake_environment({{"gpu", "NVIDIA H200 SXM"}}));
  EXPECT_THROW(gpus.named("h200"), ExitError) << "two of the project's";
}

TEST(GpuFilter, WordOfSeveralGpus_IsRefusedWithTheList) {
  const std::set<std::string> gpus = {"", "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H200", "NVIDIA H200 NVL"};
  try {
    GpuFilter("h100", gpus);
    ADD_FAILURE();
  } catch (const ExitError& stop) {
    EXPECT_EQ(stop.code, Exit::Usage);
    EXPECT_STREQ(stop.what(), "'h100' fits NVIDIA H100 80GB HBM3 and NVIDIA H100 NVL; name one of them");
  }
  const GpuFilter nvl("h100 nvl", gpus), whole("nvidia h200", gpus), none("none", gpus), unknown("A100", gpus);
  EXPECT_EQ(nvl.word(), "NVIDIA H100 NVL");
  EXPECT_TRUE(whole.covers("NVIDIA H200"));
  EXPECT_FALSE(whole.covers("NVIDIA H200 NVL")) << "the complete name of one means that one";
  EXPECT_TRUE(none.covers(""));
  EXPECT_EQ(unknown.word(), "A100");
}

TEST(Architecture, List_HasEachOnceWithItsGpus) {
  std::set<std::string_view> capabilities;
  for (const KnownArchitecture& one : architectures()) {
    EXPECT_TRUE(capabilities.insert(one.capability).second) << one.capability;
    EXPECT_EQ(Architecture(std::string(one.capability)).name(), one.name);
  }
  for (const auto& [gpu, capability, name] : std::vector<std::tuple<std::string, std::string_view, std::string_view>>{
           {"Tesla V100-SXM2-16GB", "7.0", "Volta"},
           {"Tesla T4", "7.5", "Turing"},
           {"NVIDIA A100-SXM4-80GB", "8.0", "Ampere"},
           {"NVIDIA A10G", "8.6", "Ampere"},
           {"NVIDIA L40S", "8.9", "Ada"},
           {"NVIDIA GeForce RTX 4090", "8.9", "Ada"},
           {"NVIDIA H100 80GB HBM3", "9.0", "Hopper"},
           {"NVIDIA GH200 480GB", "9.0", "Hopper"},
           {"NVIDIA B200", "10.0", "Blackwell"},
           {"NVIDIA GB200", "10.0", "Blackwell"},
           {"NVIDIA GB300", "10.3", "Blackwell"}}) {
    const KnownArchitecture* found = architecture_of(gpu);
    ASSERT_NE(found, nullptr) << gpu;
    EXPECT_EQ(found->capability, capability) << gpu;
    EXPECT_EQ(found->name, name) << gpu;
  }
  EXPECT_EQ(architecture_of("G"), nullptr);
  EXPECT_EQ(Architecture("99.0").name(), "");
}

TEST(Driver, OlderThanTheRuntimesCuda_IsOneSentence) {
  run::Machine machine;
  machine.gpus = 1;
  machine.gpu = "NVIDIA H100 80GB HBM3";
  machine.compute_capability = "9.0";
  machine.driver = "535.104";
  machine.cuda_driver = "12.2";
  const auto why = [&](const std::string& runtime) { return why_driver_cannot_run(machine, runtime, "2.15.0"); };
  EXPECT_EQ(
      why("13.2"),
      "LibTorch 2.15.0 has CUDA 13.2, which needs a driver for CUDA 13 (R580 or newer), and this one, 535.104, is "
      "for CUDA 12.2: install a newer one, or run a release with CUDA 12");
  EXPECT_EQ(why("12.9"), "") << "of one major release";
  EXPECT_EQ(why("11.8"), "");
  EXPECT_EQ(why(""), "") << "a case without CUDA";
  machine.driver = "";
  EXPECT_THAT(why("13.2"), HasSubstr("and this one is for CUDA 12.2"));
  machine.cuda_driver = "13.0";
  EXPECT_EQ(why("13.2"), "");
  machine.gpu = "Tesla V100-SXM2-16GB";
  machine.compute_capability = "7.0";
  EXPECT_EQ(why("13.2"),
            "LibTorch 2.15.0 has CUDA 13.2, and CUDA 12 was the last for Volta, such as this Tesla V100-SXM2-16GB");
  EXPECT_EQ(why("12.6"), "");
  machine.gpus = 0;
  EXPECT_EQ(why("13.2"), "");
}

TEST(MachineId, AnotherProcessor_IsAnotherMachine) {
  const Environment none = fake_environment(Json::object()), x86 = fake_environment({{"architecture", "x86_64"}});
  const Environment arm = fake_environment({{"architecture", "aarch64"}});
  EXPECT_EQ(none.machine, x86.machine) << "older records do not have it";
  EXPECT_NE(arm.machine, x86.machine);
  EXPECT_NE(arm.kind, x86.kind);
  EXPECT_NE(arm.machine.comparable(), x86.machine.comparable());
  EXPECT_NE(arm.machine.place(), x86.machine.place());
  EXPECT_EQ(label(arm.machine, {.driver = true}), "G, aarch64, driver 1");
  EXPECT_EQ(report_path(arm), "2.15.0/g.aarch64.jsonl");
  EXPECT_EQ(report_path(x86), "2.15.0/g.jsonl");
  const Environment host = fake_environment({{"gpu", ""}, {"driver", ""}});
  const Environment arm_host = fake_environment({{"gpu", ""}, {"driver", ""}, {"architecture", "aarch64"}});
  EXPECT_TRUE(stands_in(host, x86));
  EXPECT_FALSE(stands_in(arm_host, x86));
  EXPECT_TRUE(stands_in(arm_host, arm));
  const Environment without_nvml = fake_environment({{"driver", ""}});
  EXPECT_EQ(label(without_nvml.machine, {.driver = true}), "G, driver unknown");
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

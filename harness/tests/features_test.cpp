// The CUDA-graph features of a program: observed, kept in a file, and used as the scope of a gate.
#include "harness/compare/features.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/base/exit.h"
#include "harness/blame/features.h"
#include "harness/compare/policy.h"
#include "harness/report/features.h"

namespace recapture {
namespace {

using compare::Features;
using compare::Use;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string heard(int pid) {
  return fmt::format(R"({{"event":"heard","pid":{},"by":"log","why_not":""}})", pid) + "\n";
}

std::string observed(int pid, const std::string& members, bool final = true) {
  return fmt::format(R"({{"event":"features","pid":{},"captures":1,"modes":["global"],"operators":["mm"],"error":"",)"
                     R"("final":{},{}}})",
                     pid, final, members) +
         "\n";
}
const std::string kDropout = R"("used":{"generators":"aten::dropout in a capture"},"unknown":{"threads":"why"})";
const std::string kNothing = R"("used":{},"unknown":{})";

const compare::Feature& feature(const Features& features, std::string_view name) {
  for (const compare::Feature& one : features.all) {
    if (one.tag->name == name) return one;
  }
  throw std::out_of_range(std::string(name));
}
Use use(const Features& features, std::string_view name) { return feature(features, name).use; }

TEST(Features, WhatAProcessShows_IsUsedAndTheRestIsNot) {
  const Features features = blame::features_in(heard(1) + observed(1, kDropout), false);
  EXPECT_EQ(features.all.size(), kTags.size() - 1) << "every tag but that of any program";
  EXPECT_EQ(use(features, "generators"), Use::Used);
  EXPECT_EQ(feature(features, "generators").how, "aten::dropout in a capture");
  EXPECT_EQ(use(features, "threads"), Use::Assumed);
  EXPECT_EQ(use(features, "torch.load"), Use::Assumed) << "nothing shows it";
  EXPECT_EQ(use(features, "DDP"), Use::NotUsed);
  EXPECT_EQ(features.captures, 1U);
  EXPECT_THAT(features.operators, ::testing::ElementsAre("mm"));
}

TEST(Features, LaterLineOfAProcess_CountsAlone) {
  const Features features = blame::features_in(heard(1) + observed(1, kNothing, false) + observed(1, kDropout), false);
  EXPECT_EQ(features.captures, 1U);
  EXPECT_EQ(use(features, "generators"), Use::Used);
  EXPECT_EQ(use(features, "DDP"), Use::NotUsed);
}

TEST(Features, AnyProcessThatUsesIt_IsEnough) {
  const std::string two = heard(1) + heard(2) + observed(1, kNothing) + observed(2, kDropout);
  EXPECT_EQ(use(blame::features_in(two, false), "generators"), Use::Used);
  EXPECT_EQ(use(blame::features_in(two, false), "threads"), Use::Assumed);
}

TEST(Features, WhatCannotBeKnown_IsAssumed) {
  const auto doubt = [](const std::string& report, bool failed = false) {
    const Features features = blame::features_in(report, failed);
    EXPECT_EQ(use(features, "DDP"), Use::Assumed);
    return feature(features, "DDP").how;
  };
  EXPECT_EQ(doubt(heard(1) + observed(1, kNothing), true), "the program failed");
  EXPECT_EQ(doubt(heard(1) + observed(1, kNothing, false)), "a process did not come to its end");
  EXPECT_THAT(doubt(heard(1) + heard(2) + observed(1, kNothing)), HasSubstr("cannot be observed"));
  EXPECT_THAT(doubt(heard(1)), HasSubstr("cannot be observed"));
  EXPECT_EQ(doubt(""), "no capture was seen");
  std::string broken = observed(1, kNothing), none = observed(1, R"("used":{"raw CUDA calls":"cupy"},"unknown":{})");
  broken.replace(broken.find(R"("error":"")"), 10, R"("error":"x")");
  EXPECT_EQ(doubt(heard(1) + broken), "the observation failed: x");
  none.replace(none.find(R"("captures":1)"), 12, R"("captures":0)");
  EXPECT_THAT(doubt(heard(1) + none), HasSubstr("captures that are not PyTorch's"));
  const Features used = blame::features_in(heard(1) + observed(1, kDropout, false), true);
  EXPECT_EQ(use(used, "generators"), Use::Used) << "observed features stay used";
}

TEST(Features, CaptureThatFailed_IsAFeature) {
  const std::string failed =
      R"({"event":"failed","pid":1,"api":"cuEventQuery","code":900,"thread":{"id":1,"handle":2,"name":"t"}})"
      "\n";
  EXPECT_EQ(use(blame::features_in(heard(1) + observed(1, kNothing), false), "failed captures"), Use::NotUsed);
  EXPECT_EQ(use(blame::features_in(heard(1) + failed + observed(1, kNothing), false), "failed captures"), Use::Used);
}

TEST(Features, CallOfPinnedMemoryThatBrokeACapture_IsAFeature) {
  const auto by = [](const char* api) {
    const std::string failed = fmt::format(
        R"({{"event":"failed","pid":1,"api":"{}","code":900,"thread":{{"id":1,"handle":2,"name":"t"}}}})", api);
    return use(blame::features_in(heard(1) + failed + "\n" + observed(1, kNothing), false), "pinned memory");
  };
  for (const char* api : {"cuMemHostAlloc", "cuMemAllocHost_v2", "cuMemFreeHost", "cuMemHostRegister_v2"}) {
    EXPECT_EQ(by(api), Use::Used) << api;
  }
  EXPECT_EQ(by("cuMemAlloc_v2"), Use::NotUsed);
}

TEST(Features, DamagedLines_AreNotBelieved) {
  for (const char* members :
       {R"("used":[],"unknown":7)", R"("used":{"generators":3},"unknown":{"DDP":[]})", R"("x":1)"}) {
    const Features features = blame::features_in(heard(1) + observed(1, members), false);
    EXPECT_EQ(use(features, "generators"), Use::NotUsed) << members;
  }
  const std::string odd = R"({"event":"features","pid":1,"captures":-3,"modes":7,"operators":[1],"final":"yes"})";
  const Features features = blame::features_in(heard(1) + odd + "\n", false);
  EXPECT_EQ(use(features, "generators"), Use::Assumed);
  EXPECT_THAT(features.operators, IsEmpty());
}

class FeaturesFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path); }
  Features read(const std::string& text) const {
    std::ofstream(path) << text;
    return compare::read_features(path);
  }
  std::string refusal(const std::string& text) const {
    try {
      read(text);
    } catch (const ExitError& error) {
      EXPECT_EQ(error.code, Exit::Usage);
      return error.what();
    }
    return "";
  }
  const std::string path = ::testing::TempDir() + "features-" + std::to_string(getpid()) + ".toml";
};

TEST_F(FeaturesFile, WhatWasWritten_IsReadAgain) {
  Features features = blame::features_in(heard(1) + observed(1, kDropout), false);
  features.program = "python \"a b\".py";
  features.all.front().how = "two\nlines\x1b";
  const std::string text = report::render_toml(features);
  EXPECT_THAT(text,
              AllOf(HasSubstr("\"torch.load\" = \"assumed\"  # it cannot be observed\n"), Not(HasSubstr("\x1b"))));
  const Features again = read(text);
  EXPECT_EQ(again.program, features.program);
  EXPECT_EQ(again.modes, features.modes);
  ASSERT_EQ(again.all.size(), features.all.size());
  for (size_t i = 0; i < again.all.size(); ++i) {
    EXPECT_EQ(again.all[i].tag, features.all[i].tag);
    EXPECT_EQ(again.all[i].use, features.all[i].use) << again.all[i].tag->name;
  }
}

TEST_F(FeaturesFile, MissingFeature_IsAssumed) {
  const Features features = read("[features]\n\"DDP\" = \"not used\"\nrng = \"used\"\n");
  EXPECT_EQ(use(features, "DDP"), Use::NotUsed);
  EXPECT_EQ(use(features, "generators"), Use::Used) << "by another of its names";
  EXPECT_EQ(use(features, "events"), Use::Assumed);
}

TEST_F(FeaturesFile, WrongFile_IsRefusedInOneLine) {
  EXPECT_THAT(refusal("x = 1"), HasSubstr("unknown key"));
  EXPECT_THAT(refusal("program = \"p\""), HasSubstr("it has no [features]"));
  EXPECT_THAT(refusal("[features]\nDPP = \"used\""), AllOf(HasSubstr("no feature is called 'DPP'"), HasSubstr(":2")));
  EXPECT_THAT(refusal("[features]\nDDP = \"yes\""), HasSubstr("\"used\", \"assumed\" or \"not used\", not 'yes'"));
  EXPECT_THAT(refusal("[features]\nDDP = 1"), HasSubstr("DDP"));
  EXPECT_THAT(refusal("[features]\nDDP = \"used\"\nddp = \"not used\""), HasSubstr("'DDP' is given twice"));
}

TEST(FeaturesScope, FirstTagDecides) {
  const auto one = [](const std::string& id, std::vector<std::string> tags) {
    CatalogueCase made;
    made.id = id;
    made.tags = std::move(tags);
    return made;
  };
  const Catalogue catalogue = {one("draws", {"generators", "several graphs"}), one("also", {"threads", "generators"}),
                               one("any", {"DDP", "any program"}), one("loads", {"torch.load"}), one("bare", {})};
  const auto scope = cases_in_scope(blame::features_in(heard(1) + observed(1, kDropout), false), catalogue);
  EXPECT_THAT(scope, AllOf(Contains("draws"), Contains("also"), Contains("any"), Contains("loads"),
                           Contains("operators"), Not(Contains("bare"))))
      << "threads and torch.load are assumed";
  const auto less = cases_in_scope(
      blame::features_in(heard(1) + observed(1, R"("used":{"generators":"x"},"unknown":{})"), false), catalogue);
  EXPECT_THAT(less, AllOf(Contains("draws"), Not(Contains("also"))));
}

TEST(FeaturesScope, CaseWithAFeatureThatIsNotThere_IsNotMet) {
  const auto one = [](const std::string& id, std::vector<std::string> features) {
    CatalogueCase made;
    made.id = id;
    made.features = std::move(features);
    return made;
  };
  const Catalogue catalogue = {one("draws", {"generators", "several graphs"}), one("also", {"threads", "generators"}),
                               one("any", {}), one("loads", {"torch.load"})};
  EXPECT_THAT(compare::cases_not_met({}, catalogue), IsEmpty());
  EXPECT_THAT(compare::cases_not_met({"several graphs", "DDP"}, catalogue), ElementsAre("draws"));
  EXPECT_THAT(compare::cases_not_met({"generators"}, catalogue), ElementsAre("also", "draws"));
}

TEST(FeaturesOutput, Text_NamesWhatIsUsedAndWhy) {
  Features features = blame::features_in(heard(1) + observed(1, kDropout), false);
  features.program = "python x.py\x1b[31m";
  const std::string text = report::render_text(features);
  EXPECT_THAT(text,
              AllOf(HasSubstr("(1 capture, mode global)"), HasSubstr("used      generators: aten::dropout"),
                    HasSubstr("assumed   threads: why"), HasSubstr("not used  DDP, FSDP"), Not(HasSubstr("\x1b"))));
  const Json json = report::render_json(features);
  EXPECT_EQ(json.at("features").size(), features.all.size());
  EXPECT_EQ(json.at("captures"), 1);
}

}  // namespace
}  // namespace recapture

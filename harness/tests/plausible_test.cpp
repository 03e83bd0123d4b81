// Records that cannot be what they say, made of a real one by a change of its first line.
#include "harness/lint/plausible.h"

#include <fmt/chrono.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "harness/model/record.h"
#include "harness/store/select.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/this_tree.h"

namespace recapture {
namespace {

using lint::contradictions_in;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of a run of 2.15.0 on an H200, without changed code.
Environment real_one() {
  for (const std::string& path : records_below(kRoot + "/reports/2.15.0")) {
    const Environment environment = environment_of(path);
    if (environment.machine.gpu == "NVIDIA H200" && environment.machine.overrides.empty()) return environment;
  }
  ADD_FAILURE() << "there is no record of 2.15.0 on an H200";
  return {};
}

lint::KnownFacts facts() {
  return {"2026-11-30T06:00:00Z", lint::release_dates(kRoot),
          [](const std::string& revision) { return revision == text_at(real_one().json(), "revision"); }};
}

std::vector<std::string> wrong_with(const std::string& key, const Json& value) {
  return contradictions_in(real_one().with(key, value), facts());
}

TEST(Plausible, RealRecord_ContradictsNothing) {
  EXPECT_THAT(contradictions_in(real_one(), facts()), IsEmpty());
  EXPECT_GE(facts().dates.size(), 15U) << "each release of the matrix has one";
}

TEST(Plausible, EveryCommittedRecord_ContradictsNothingButItsCode) {
  const std::string now = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  size_t checked = 0;
  for (const std::string& path : records_below(kRoot + "/reports")) {
    Environment environment = environment_of(path);
    environment = environment.with("revision", "");  // A few are of changed code, from before this was refused.
    EXPECT_THAT(contradictions_in(environment, {now, lint::release_dates(kRoot), nullptr}), IsEmpty()) << path;
    ++checked;
  }
  EXPECT_GE(checked, 10U);
}

TEST(Plausible, DamagedCopy_IsRefusedWithItsReason) {
  EXPECT_THAT(wrong_with("headers", "2.14.1"), ElementsAre("its release is 2.15.0, and its headers 2.14.1"));
  EXPECT_THAT(wrong_with("libtorch", "2.14.1"), ElementsAre("its release is 2.15.0, and its LibTorch 2.14.1"));
  EXPECT_THAT(wrong_with("driver", "550.90.07"),
              ElementsAre("driver 550.90.07 cannot run CUDA runtime 13.2, which needs 580 or newer"));
  EXPECT_THAT(wrong_with("compute_capability", "8.0"), ElementsAre("NVIDIA H200 has compute capability 9.0, not 8.0"));
  EXPECT_THAT(wrong_with("gpu", "NVIDIA A100-SXM4-80GB"),
              ElementsAre("NVIDIA A100-SXM4-80GB has compute capability 8.0, not 9.0"));
  EXPECT_THAT(wrong_with("volatile", {{"started", "2030-01-01T00:00:00Z"}}),
              ElementsAre("it began at 2030-01-01T00:00:00Z, which is in the future"));
  EXPECT_THAT(wrong_with("volatile", {{"started", "2026-10-27T00:00:00Z"}}),
              ElementsAre("it began on 2026-10-27, and 2.15.0 came out on 2026-10-28"));
  EXPECT_THAT(wrong_with("revision", "0000000"),
              ElementsAre("its revision 0000000 is not in the history of this tree"));
  EXPECT_THAT(wrong_with("revision", "859c6c1-dirty"),
              ElementsAre("it was run by changed code: its revision is 859c6c1-dirty"));
  EXPECT_THAT(contradictions_in(real_one().with("headers", "2.14.1").with("driver", "550.1"), facts()),
              ElementsAre(HasSubstr("headers"), HasSubstr("driver")))
      << "all of them at once";
}

TEST(Plausible, WhatIsNotKnown_IsNoContradiction) {
  EXPECT_THAT(wrong_with("gpu", "NVIDIA X900"), IsEmpty()) << "a GPU that is newer than this program";
  EXPECT_THAT(wrong_with("gpu", "NVIDIA GH200 480GB"), IsEmpty());
  EXPECT_THAT(wrong_with("driver", ""), IsEmpty());
  EXPECT_THAT(contradictions_in(real_one().with("revision", "0000000"), {}), IsEmpty()) << "a tree without a history";
  Environment nightly = real_one().with("release", "2.16.0.dev20261124+cu132");
  nightly = nightly.with("libtorch", "2.16.0.dev20261124+cu132").with("headers", "2.16.0");
  EXPECT_THAT(contradictions_in(nightly, facts()), IsEmpty());
}

}  // namespace
}  // namespace recapture

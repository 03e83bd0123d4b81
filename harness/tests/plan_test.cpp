// Builds of ci/matrix.toml that are not releases, from the plan to the night; and the issues of a night.
#include "harness/nightly/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/nightly/collect.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/fake_tree.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kVersion = "2.16.0.dev20261124+cu132";

class Builds : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    matrix("[[build]]\nname = 'nightly'\nindex = 'https://example.org'\n");
  }
  void matrix(const std::string& builds, const std::string& releases = "'2.15.0', 'nightly'") const {
    std::ofstream(folder + "/ci/matrix.toml")
        << "[[release]]\nversion = '2.6.0'\n[[release]]\nversion = '2.15.0'\n"
        << builds << "[tier.night]\nreleases = [" << releases << "]\ngpus = { none = 'none' }\n[tier.weekend]\n";
  }
  // A record of a run of the build, or without `build` of that version alone.
  Json environment(const std::string& build) const {
    return fake_environment({{"release", kVersion}, {"gpu", ""}, {"shard", "1/1"}, {"build", build}});
  }
  void record(const std::string& path, const std::string& build, const std::string& run,
              const std::string& version = kVersion, const std::string& day = "2026-01-01") const {
    Json first = environment(build);
    first["release"] = version;
    first["volatile"] = {{"run", run}, {"started", day + "T00:00:00Z"}};
    FakeRecord{first, {fake_test("c.ControlHolds")}}.write(path);
  }
};

TEST_F(Builds, Plan_NamesABuildAsItsRelease) {
  const ShellResult said = recapture("nightly plan");
  ASSERT_EQ(said.code, 0) << said.out;
  const Json all = parse_json(said.out);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].at("release"), "nightly");
  EXPECT_EQ(all[1].at("command"), Json({"build/recapture", "run", "--continue", "--release", "nightly", "--record",
                                        "nightly-none-1of1.jsonl"}));
  EXPECT_EQ(all[1].at("code"), "none");
}

TEST_F(Builds, Plan_WithoutReleases_HasNoBuild) {
  matrix("[[build]]\nname = 'nightly'\nfolder = 'x'\n", "");
  EXPECT_THAT(recapture("nightly plan").out, AllOf(HasSubstr("2.6.0"), HasSubstr("2.15.0"), Not(HasSubstr("nightly"))));
}

TEST_F(Builds, WhatIsWrong_GetsOneLineThatNamesWhatThereIs) {
  for (const auto& [builds, releases, arguments, words] : std::vector<std::array<std::string, 4>>{
           {"", "'nightly'", "nightly plan", "there is no release 'nightly'; this file has 2.6.0, 2.15.0"},
           {"[[build]]\nname = 'ngc'\n", "'nightly'", "nightly plan", "this file has 2.6.0, 2.15.0, ngc"},
           {"", "", "nightly plan --tier pr",
            "there is no tier 'pr'; " + folder + "/ci/matrix.toml has night, weekend"},
           {"[[build]]\nindex = 'x'\n", "", "nightly plan", "'name'"},
           {"[[build]]\nname = '2.16.0'\n", "", "nightly plan", "'2.16.0' is not the name of a build, such as nightly"},
           {"[[build]]\nname = 'v2'\n", "", "nightly plan", "'v2' is not the name of a build"},
           {"[[build]]\nname = 'cuda13'\n", "", "nightly plan", "'cuda13' is not the name of a build"},
           {"[[build]]\nname = '../x'\n", "", "nightly plan", "'../x' is not the name of a build"},
           {"[[build]]\nname = 'a'\n[[build]]\nname = 'a'\n", "", "nightly plan", "there are two builds 'a'"}}) {
    matrix(builds, releases);
    const ShellResult said = recapture(arguments);
    EXPECT_EQ(said.code, 2) << builds;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
  }
}

TEST_F(Builds, ATask_IsOfTheRunsOfItsBuildAndOfNoOther) {
  const NightTask nightly{"nightly", "none", 1, 1}, exact{kVersion, "none", 1, 1};
  EXPECT_TRUE(nightly.is_of(Environment(environment("nightly"))));
  EXPECT_FALSE(nightly.is_of(Environment(environment("candidate"))));
  EXPECT_FALSE(nightly.is_of(Environment(environment(""))));
  EXPECT_TRUE(exact.is_of(Environment(environment(""))));
  EXPECT_FALSE(exact.is_of(Environment(environment("nightly"))));
}

TEST_F(Builds, Gathered_IsNamedByTheVersion) {
  record(folder + "/from/a.jsonl", "nightly", "r1");
  record(folder + "/from/b.jsonl", "", "r2");
  const Gathered night = gather(folder + "/night", {folder + "/from"}, {{"nightly", "none", 1, 1}}, {});
  EXPECT_EQ(night.whole, 1U);
  EXPECT_THAT(night.lacks, IsEmpty());
  EXPECT_THAT(night.notes, ::testing::ElementsAre(HasSubstr("b.jsonl is of no task of the plan")));
  EXPECT_TRUE(fs::exists(folder + "/night/2.16.0.dev20261124-cu132/host.jsonl"));
}

TEST_F(Builds, News_ComparesLastNightsBuildWithTonights) {
  for (const char* day : {"2026-01-01", "2026-01-02"}) {
    record(folder + "/from/" + day + "/a.jsonl", "nightly", day, std::string("2.16.0.dev") + day[9], day);
    gather(folder + "/nights/" + day, {folder + "/from/" + day}, {{"nightly", "none", 1, 1}}, {});
  }
  const ShellResult said = recapture("nightly diff --first '" + folder + "/nights'");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("2026-01-02: green"));
}

// From the folder that ci/suite builds to the night: the record has torch's own version, and the plan's name.
TEST_F(Builds, Run_ByName_RecordsTheVersionAndTheName) {
  fs::create_directories(folder + "/build/nightly/cases/doubtful");
  fs::create_directories(folder + "/site/torch");
  const std::string script = folder + "/build/nightly/cases/doubtful/twofold";
  std::ofstream(script) << "#!/bin/sh\ncase $1 in\n--environment) echo '{\"library\":\"" << folder
                        << "/site/torch/lib/libtorch_cpu.so\"}' ;;\n*) exec '" RECAPTURE_BUILD
                           "/harness/tests/twofold' \"$@\" ;;\nesac\n";
  fs::permissions(script, fs::perms::owner_all);
  const std::string run = "run --exec --continue --release nightly --record '" + FakeTree::record() + "' ";
  const ShellResult nameless = recapture(run);
  EXPECT_EQ(nameless.code, 7) << nameless.out;
  EXPECT_THAT(nameless.out, HasSubstr("site/torch/version.py has no __version__, which is the release of nightly"));
  std::ofstream(folder + "/site/torch/version.py") << "__version__ = '" << kVersion << "'\ngit_version = 'abc'\n";
  const ShellResult said = recapture(run);
  const Json recorded = read_record(FakeTree::record()).environment.json();
  EXPECT_EQ(recorded.at("release"), kVersion) << said.out;
  EXPECT_EQ(recorded.at("build"), "nightly");
  EXPECT_EQ(recorded.at("libtorch_git"), "abc");
  const NightTask nightly{"nightly", "none", 1, 1};
  EXPECT_TRUE(nightly.is_of(Environment(recorded)));
  EXPECT_THAT(recapture(run).out, HasSubstr("r.jsonl is complete")) << "it is continued by its name";
  EXPECT_THAT(recapture("run --release 2.15.0 --continue --record '" + FakeTree::record() + "'").out,
              HasSubstr(R"(its release is "nightly", not "2.15.0")"));
}

TEST_F(Builds, Run_NotBuilt_NamesWhatBuildsIt) {
  const ShellResult said = recapture("run --release nightly");
  EXPECT_EQ(said.code, 7);
  EXPECT_THAT(said.out, HasSubstr("`ci/suite nightly` gets it and builds them"));
}

// Under Slurm the machines' own records are beside the collected night.
TEST_F(Builds, Page_OfNights_CountsARecordAndItsGatheredCopyOnce) {
  for (const char* night : {"2026-01-01", "2026-01-02"}) {
    const std::string path = folder + "/nights/" + night;
    record(path + "/records/a.jsonl", "nightly", night);
    ASSERT_EQ(gather(path + "/gathered", {path + "/records"}, {{"nightly", "none", 1, 1}}, {}).whole, 1U);
  }
  const ShellResult said = recapture("page --records '" + folder + "/nights' --output -");
  ASSERT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, ContainsRegex(R"("records":2[,}])"));
}

// tools/libtorch, with a folder as a package index, and wheels with only the files that it reads.
class LibtorchBuilds : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* scripts : {"/ci", "/tools"}) fs::create_directories(folder + scripts);
    fs::create_directories(index());
    fs::copy(RECAPTURE_ROOT "/tools/libtorch", folder + "/tools/libtorch");
    std::ofstream(folder + "/ci/matrix.toml")
        << "[[release]]\nversion = '2.14.1'\nstd = 17\ncuda = 12\n[[release]]\nversion = '2.15.0'\nstd = 20\ncuda = "
           "13\n"
           "[[build]]\nname = 'nightly'\nversion = '2.16.0.dev'\nindex = 'file://"
        << folder << "/simple'\n[[build]]\nname = 'exact'\nversion = '2.16.0.dev20261123'\nindex = 'file://" << folder
        << "/simple'\n[[build]]\nname = 'wheel'\nwheel = 'simple/torch/" << wheel("2.15.0")
        << "'\n[[build]]\nname = 'folder'\nfolder = 'site'\n[[build]]\nname = 'none'\n[[build]]\nname = 'gone'\n"
           "wheel = 'gone.whl'\n[[build]]\nname = 'other'\nfolder = 'site'\n";
    publish("2.15.0");
    publish("2.16.0.dev20261123");
    publish("2.16.0.dev20261124");
    publish("2.16.0a1");
  }
  void TearDown() override { fs::remove_all(folder); }

  static std::string wheel(const std::string& version) { return "torch-" + version + "-py3-none-any.whl"; }
  std::string index() const { return folder + "/simple/torch"; }
  void publish(const std::string& version) const {
    std::ofstream(folder + "/make.py")
        << "import sys, zipfile\nversion, path = sys.argv[1:]\ninfo = f'torch-{version}.dist-info'\n"
           "with zipfile.ZipFile(path, 'w') as wheel:\n"
           "  wheel.writestr('torch/version.py', f\"__version__ = '{version}'\\n\")\n"
           "  wheel.writestr('torch/lib/libtorch_cuda.so', '')\n"
           "  wheel.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: torch\\nVersion: {version}\\n')\n"
           "  wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
           "  wheel.writestr(f'{info}/RECORD', '')\n";
    const std::string path = index() + "/" + wheel(version);
    const ShellResult made = shell("python3 -B '" + folder + "/make.py' " + version + " '" + path + "'");
    ASSERT_EQ(made.code, 0) << made.out;
    std::ofstream(index() + "/index.html", std::ios::app)
        << "<a href=\"" << wheel(version) << "\">" << wheel(version) << "</a>\n";
  }
  ShellResult libtorch(const std::string& arguments) const {
    return shell("cd '" + folder + "' && RECAPTURE_CACHE='" + folder + "/cache' tools/libtorch " + arguments);
  }
  // The folder, without the messages about the installation.
  std::string site_of(const std::string& arguments) const {
    return shell("cd '" + folder + "' && RECAPTURE_CACHE='" + folder + "/cache' tools/libtorch " + arguments +
                 " 2>/dev/null")
        .out;
  }
  std::string installed(const std::string& name) const { return folder + "/cache/libtorch/" + name; }

  const std::string folder = ::testing::TempDir() + "recapture-builds-" + std::to_string(getpid());
};

TEST_F(LibtorchBuilds, Index_GivesTheNewestOfTheLineOrTheExactVersion) {
  EXPECT_EQ(site_of("nightly --version"), "nightly\n");
  EXPECT_FALSE(fs::exists(folder + "/cache")) << "naming it installs nothing";
  EXPECT_THAT(site_of("nightly"), ContainsRegex("/nightly-2\\.16\\.0\\.dev20261124-[0-9a-f]{8}\n"));
  EXPECT_THAT(site_of("exact"), ContainsRegex("/exact-2\\.16\\.0\\.dev20261123-[0-9a-f]{8}\n"));
  EXPECT_EQ(site_of("--list"), "2.14.1\n2.15.0\n") << "each is a release";
}

TEST_F(LibtorchBuilds, NewerBuild_IsTakenOnlyWhenCasesAreRebuilt) {
  const std::string first = site_of("nightly");
  fs::create_directories(folder + "/build/nightly");
  std::ofstream(folder + "/build/nightly/libtorch.cmake")
      << "set(LIBTORCH_SITE [==[" << first.substr(0, first.size() - 1) << "]==])\n";
  publish("2.16.0.dev20261125");
  EXPECT_EQ(site_of("nightly"), first);
  EXPECT_THAT(libtorch("nightly --cmake build/nightly/libtorch.cmake").out,
              HasSubstr("installing LibTorch 2.16.0.dev20261125 in "));
}

TEST_F(LibtorchBuilds, Wheel_IsKeptApartFromTheReleaseOfItsVersion) {
  const std::string first = site_of("wheel");
  EXPECT_THAT(first, ContainsRegex("/wheel-2\\.15\\.0-[0-9a-f]{8}\n"));
  EXPECT_FALSE(fs::exists(installed("2.15.0")));
  EXPECT_EQ(site_of("wheel"), first);
  std::ofstream(index() + "/" + wheel("2.15.0"), std::ios::app) << ' ';
  EXPECT_NE(site_of("wheel"), first) << "another wheel of the same name";
}

TEST_F(LibtorchBuilds, WhatIsWrong_GetsOneLineAndItsExitCode) {
  EXPECT_EQ(shell("cd '" + folder + "' && python3 -m zipfile -e simple/torch/" + wheel("2.15.0") + " site").code, 0);
  EXPECT_EQ(site_of("folder"), folder + "/site\n");
  fs::create_directories(folder + "/build/other");
  for (const auto& [name, code, words] :
       {std::tuple("none", 2, "gives the build none neither an index nor a wheel nor a folder"),
        {"gone", 7, "gone.whl, which ci/matrix.toml has as the wheel of gone"},
        {"other", 2, "build/other exists and belongs to no build; give the build other another name"},
        {"nosuch", 2, "ci/matrix.toml has 2.14.1, 2.15.0, cuda12, cuda13, nightly, exact, wheel,"}}) {
    const ShellResult said = libtorch(name);
    EXPECT_EQ(said.code, code) << said.out;
    EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 1) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
  }
}

// ci/issues, with a fake gh that reads issues from a file and logs its calls.
class Issues : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder + "/bin");
    const std::string gh = folder + "/bin/gh";
    std::ofstream(gh)
        << "#!/usr/bin/env python3\n"
           "import json, os, pathlib, sys\n"
           "here = pathlib.Path(__file__).parent\n"
           "words = sys.argv[1:]\n"
           "if words[:2] == ['issue', 'list']: print((here / 'known.json').read_text())\n"
           "elif words[:2] == ['label', 'list']: print('[{\"name\": \"old\"}]')\n"
           "elif (here / 'broken').exists(): sys.exit('first\\nno network')\n"
           "else:\n"
           "  with open(here / 'log', 'a') as log: print(json.dumps([words, sys.stdin.read()]), file=log)\n";
    fs::permissions(gh, fs::perms::owner_all);
    known(Json::array());
  }
  void TearDown() override { fs::remove_all(folder); }

  void known(const Json& issues) const { std::ofstream(folder + "/bin/known.json") << issues.dump(); }
  ShellResult apply(const Json& issues, const std::string& option = "") const {
    std::ofstream(folder + "/issues.json") << issues.dump();
    fs::remove(folder + "/bin/log");
    return shell("cd '" + folder + "' && PATH=\"$PWD/bin:$PATH\" '" RECAPTURE_ROOT "/ci/issues' issues.json " + option);
  }
  // The changing calls of gh: their arguments, and their standard input.
  Json told() const {
    Json all = Json::array();
    std::ifstream log(folder + "/bin/log");
    for (std::string line; std::getline(log, line);) all.push_back(parse_json(line));
    return all;
  }
  static Json issue(const Json& more = Json::object()) {
    Json one = {{"fingerprint", "f1"}, {"title", "T"}, {"body", "B f1"}, {"state", "open"}, {"labels", Json::array()}};
    one.update(more);
    return Json::array({one});
  }
  static Json found(int number, const std::string& state, const std::string& body = "x f1") {
    return {{"number", number}, {"state", state}, {"body", body}};
  }

  const std::string folder = ::testing::TempDir() + "recapture-issues-" + std::to_string(getpid());
};

TEST_F(Issues, OpenAndNew_IsCreatedWithItsLabels) {
  EXPECT_EQ(apply(issue({{"labels", {"old", "new"}}})).code, 0);
  EXPECT_EQ(told(), Json::parse(R"([[["label", "create", "--", "new"], ""],
      [["issue", "create", "--title=T", "--body-file=-", "--label=old", "--label=new"], "B f1"]])"));
}

TEST_F(Issues, OpenAndOpen_GetsAComment) {
  known(Json::array({found(7, "OPEN")}));
  EXPECT_EQ(apply(issue()).code, 0);
  EXPECT_EQ(told(), Json::parse(R"([[["issue", "comment", "7", "--body-file=-"], "B f1"]])"));
}

TEST_F(Issues, OpenAndClosed_IsReopened) {
  known(Json::array({found(7, "CLOSED")}));
  EXPECT_EQ(apply(issue()).code, 0);
  EXPECT_EQ(told(), Json::parse(R"([[["issue", "reopen", "7"], ""],
      [["issue", "comment", "7", "--body-file=-"], "B f1"]])"));
}

TEST_F(Issues, HealedAndOpen_IsClosed) {
  known(Json::array({found(9, "CLOSED"), found(7, "OPEN")}));
  EXPECT_EQ(apply(issue({{"state", "healed"}})).code, 0);
  EXPECT_EQ(told(), Json::parse(R"([[["issue", "comment", "7", "--body-file=-"], "B f1"],
      [["issue", "close", "7"], ""]])"));
}

TEST_F(Issues, HealedAndNotOpen_ChangesNothing) {
  EXPECT_EQ(apply(issue({{"state", "healed"}})).code, 0);
  known(Json::array({found(7, "CLOSED")}));
  EXPECT_EQ(apply(issue({{"state", "healed"}})).code, 0);
  EXPECT_EQ(told(), Json::array());
}

TEST_F(Issues, FoundByTheSearchButOfAnotherCause_IsNotIt) {
  known(Json::array({found(7, "OPEN", "like it, and not the same")}));
  EXPECT_EQ(apply(issue()).code, 0);
  EXPECT_EQ(told().at(0).at(0).at(1), "create");
}

TEST_F(Issues, HostileText_ReachesGhUnchanged) {
  const std::string body = "--body $(touch made) `touch made` \"'; touch made #\n--title x\n f1";
  EXPECT_EQ(apply(issue({{"title", "--repo=x $(touch made)\n`touch made`"}, {"body", body}})).code, 0);
  ASSERT_EQ(told().size(), 1U);
  EXPECT_EQ(told().at(0).at(0),
            Json({"issue", "create", "--title=--repo=x $(touch made) `touch made`", "--body-file=-"}));
  EXPECT_EQ(told().at(0).at(1), body);
  EXPECT_FALSE(fs::exists(folder + "/made"));
}

TEST_F(Issues, DryRun_PrintsTheCommandsAndRunsNone) {
  known(Json::array({found(7, "CLOSED")}));
  const ShellResult said = apply(issue(), "--dry-run");
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.out, "gh issue reopen 7\ngh issue comment 7 --body-file=-\n");
  EXPECT_EQ(told(), Json::array());
}

TEST_F(Issues, WhatIsWrong_GetsOneLineAndItsExitCode) {
  for (const auto& [json, words] :
       {std::pair(Json::object(), "not what `recapture nightly diff --issue` prints"),
        {Json::array({Json{{"title", "T"}}}), "not what `recapture nightly diff --issue` prints"},
        {issue({{"state", "shut"}}), "issue 1: its state is neither open nor healed"},
        {issue({{"labels", "x"}}), "issue 1: its labels are not a list of strings"},
        {issue({{"fingerprint", "a OR is:open"}}), "issue 1: its fingerprint is not of letters and digits alone"}}) {
    const ShellResult said = apply(json);
    EXPECT_EQ(said.code, 2) << said.out;
    EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), 1) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
  }
  std::ofstream(folder + "/bin/broken");
  const ShellResult broken = apply(issue());
  EXPECT_EQ(broken.code, 7);
  EXPECT_EQ(broken.out, "issues: f1: gh issue create failed: no network\n");
}

}  // namespace
}  // namespace recapture

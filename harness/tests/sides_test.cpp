// The names for the two sides of a comparison, and the runs that gate makes itself.
#include "harness/compare/sides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "harness/base/exit.h"
#include "harness/record/baselines.h"
#include "harness/tests/fake_run.h"
#include "harness/tests/fake_tree.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

// Records in their own folder, read by the program.
class Sides : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    fs::create_directories(reports);
    FakeRun().saw(kOk).write(reports + "/2.6.0/g.jsonl");
    FakeRun now;
    now.release = "2.15.0";
    now.started = "2026-01-02T00:00:00Z";
    now.saw("D").write(reports + "/2.15.0/g.jsonl");
  }
  ShellResult compare_sides(const std::string& arguments) const { return recapture("compare " + arguments); }
  // For verbs that look the case up.
  void add_catalogue() const {
    CatalogueCase one;
    one.id = "c";
    one.family = "f";
    one.title = "A title";
    one.documented = "D";
    one.needs = {.gpus = 1};
    one.deadline_s = 60;
    one.tests = {{"Control", Kind::Control, {}, ""}, {"Reproduces", Kind::Reproduces, Effect::Raises, ""}};
    fs::create_directories(folder + "/cases");
    std::ofstream(folder + "/cases/catalogue.json") << render_text(Catalogue{one});
  }

  const std::string reports = folder + "/reports";
};

TEST_F(Sides, ReleaseRecordOrFolder_NamesASide) {
  const std::vector<std::string> all = {"2.6.0 2.15.0", "2.6 2.15", "2.6.0/g.jsonl 2.15.0",
                                        reports + "/2.6.0 " + reports + "/2.15.0/"};
  for (const std::string& sides : all) {
    const ShellResult said = compare_sides(sides);
    EXPECT_EQ(said.code, 1) << sides << "\n" << said.out;
    EXPECT_THAT(said.out, HasSubstr("2.6.0 -> 2.15.0 on G, driver 1: ")) << sides;
    EXPECT_THAT(said.out, HasSubstr("new errors")) << sides;
  }
  EXPECT_EQ(compare_sides("2.6.0 2.6.0").code, 2);  // Both sides are the same.
  EXPECT_EQ(compare_sides("2.15.0 2.6.0").code, 5);
  FakeRun blind;
  blind.release = "2.7.0";
  blind.not_there("Reproduces", "skipped").write(reports + "/2.7.0/g.jsonl");
  const ShellResult unknown = compare_sides("2.6.0 2.7.0");
  EXPECT_EQ(unknown.code, 6) << unknown.out;
  EXPECT_THAT(unknown.out, HasSubstr(": too much is unknown\n"));
  EXPECT_THAT(compare_sides("2.6.0 2.15.0").out, Not(HasSubstr("too much")));
}

TEST_F(Sides, Release_IsFoundInFoldersOfAnyName) {
  fs::create_directories(folder + "/nights/2026-01-02");
  fs::copy(reports + "/2.6.0/g.jsonl", folder + "/nights/2026-01-01.jsonl");
  fs::copy(reports + "/2.15.0/g.jsonl", folder + "/nights/2026-01-02/g.jsonl");
  for (const char* sides : {"2.6.0 2.15.0", "2.6 2.15.0+cu130"}) {
    const ShellResult said = compare_sides(std::string(sides) + " --records " + folder + "/nights");
    EXPECT_EQ(said.code, 1) << said.out;
    EXPECT_THAT(said.out, StartsWith("2.6.0 -> 2.15.0 on G"));
  }
}

// Nights and builds beside the two releases.
class BuildSides : public Sides {
 protected:
  void SetUp() override {
    Sides::SetUp();
    add_catalogue();
    add("2.16.0.dev20261123+cu132", kOk, "20261123", {{"build", "nightly"}});
    add("2.16.0.dev20261124+cu132", "D", "20261124", {{"build", "nightly"}});
    add("2.16.0rc1", "D", "rc1");
    add("2.15.0", "D", "acme", {{"label", "acme"}});
    add("2.15.0", kOk, "fork", {{"libtorch_git", "0123abcdef0123abcdef"}});
    add("2.15.0", kOk, "digits", {{"libtorch_git", "12345678901234567890"}});
    for (const char* label : {"0", "2024", "acme.5"}) add("2.14.0", kOk, label, {{"label", label}});
  }
  void add(const std::string& release, const std::string& seen, const std::string& file,
           const Json& more = Json::object()) const {
    Json environment = {{"release", release},
                        {"cuda_runtime", "12.4"},
                        {"volatile", {{"started", "2026-03-01T00:00:00Z"}, {"run", file}}}};
    environment.update(more);
    FakeRecord record{fake_environment(environment),
                      {fake_test("c.Control"), fake_failure("c.Reproduces", seen, "D*", kOk)}};
    record.write(folder + "/nights/" + file + ".jsonl");
  }
  std::string head(const std::string& sides) const {
    const std::string said = recapture("compare " + sides + " --records " + folder + "/nights").out;
    return said.substr(0, said.find(" on G"));
  }
};

TEST_F(BuildSides, Build_IsNamedAsAPersonTypesIt) {
  EXPECT_EQ(head("2.6.0 nightly"), "2.6.0 -> 2.16.0.dev20261124+cu132") << "releases are the tree's own records";
  EXPECT_EQ(head("nightly~1 nightly"), "2.16.0.dev20261123+cu132 -> 2.16.0.dev20261124+cu132");
  EXPECT_EQ(head("2.16.0.dev20261123 2.16.0.dev20261124"), "2.16.0.dev20261123+cu132 -> 2.16.0.dev20261124+cu132");
  EXPECT_EQ(head("2.15 rc"), "2.15.0 -> 2.16.0rc1");
  EXPECT_EQ(head("2.15 acme"), "2.15.0 -> 2.15.0+acme");
  EXPECT_EQ(head("2.15 0123abcd"), "2.15.0 -> 2.15.0+git0123abc");
  EXPECT_EQ(head("2.15 git0123abc"), "2.15.0 -> 2.15.0+git0123abc");
  EXPECT_EQ(head("2.15 1234567"), "2.15.0 -> 2.15.0+git1234567") << "a commit of digits alone";
  EXPECT_EQ(head("2.15 2024"), "2.15.0 -> 2.14.0+2024") << "a label of digits alone";
  EXPECT_EQ(head("2.15 0"), "2.15.0 -> 2.14.0+0") << "2.14.0 does not end with its label";
  EXPECT_EQ(head("2.15 acme.5"), "2.15.0 -> 2.14.0+acme.5");
  EXPECT_EQ(head("2.15 2.15.0+git0123abc"), "2.15.0 -> 2.15.0+git0123abc");
  EXPECT_EQ(head("2.15 " + folder + "/nights/rc1.jsonl"), "2.15.0 -> 2.16.0rc1");
  EXPECT_EQ(head("2.15 " + folder + "/nights/fork.jsonl"), "2.15.0 -> 2.15.0+git0123abc");
  for (const auto& [sides, code, why] : std::vector<std::tuple<std::string, int, std::string>>{
           {"2.6.0 nightly~2", 4, "there is no nightly~2: 2 such builds on record, the oldest is 2.16.0.dev20261123"},
           {"2.6.0 other", 2, "'other' is not a release, build, record, folder, latest, latest~1 or baseline"},
           {"2.6.0 2.15.0+other", 2, "there are no records of 2.15.0+other"}}) {
    const ShellResult said = recapture("compare " + sides + " --records " + folder + "/nights");
    EXPECT_EQ(said.code, code) << sides;
    EXPECT_THAT(said.out, HasSubstr(why));
  }
}

TEST_F(BuildSides, BuildThatSomebodySent_IsMeantOnlyOnItsMachine) {
  add("2.16.0.dev20261125+cu132", "D", "20261125", {{"build", "nightly"}, {"gpu", "H"}, {"origin", "somebody"}});
  add("2.16.0.dev20261120+cu132", "D", "20261120", {{"build", "nightly"}, {"gpu", "H"}, {"origin", "somebody"}});
  EXPECT_EQ(head("2.6.0 nightly"), "2.6.0 -> 2.16.0.dev20261124+cu132");
  EXPECT_THAT(recapture("compare nightly~1 nightly --gpu h --records " + folder + "/nights").out,
              StartsWith("2.16.0.dev20261120+cu132 -> 2.16.0.dev20261125+cu132 on H"));
}

TEST_F(BuildSides, NoBuildOfItsKind_SaysHowToGetOne) {
  for (const auto& [word, how] : {std::pair("nightly",
                                            "run `ci/suite nightly`, and compare its record or version, such "
                                            "as 2.16.0.dev20261124;"),
                                  {"rc", "run `ci/suite rc`, and compare its record or version, such as 2.16.0rc1;"}}) {
    const ShellResult said = recapture(std::string("compare 2.15 ") + word);
    EXPECT_EQ(said.code, 2) << said.out;
    EXPECT_THAT(said.out, HasSubstr(how));
  }
}

TEST_F(BuildSides, GateTakesABuild_AndSaysWhatItBreaks) {
  const std::string records = " --records " + folder + "/nights";
  const ShellResult blocked = recapture("gate nightly~1 nightly" + records);
  EXPECT_EQ(blocked.code, 1) << blocked.out;
  EXPECT_THAT(blocked.out, StartsWith("2.16.0.dev20261123+cu132 -> 2.16.0.dev20261124+cu132 on G, driver 1: blocked"));
  EXPECT_EQ(recapture("gate 2.15.0 acme" + records).code, 0) << "both raise D";
}

// Records of a release on other machines, as a run there would write them.
class SidesOnMachines : public Sides {
 protected:
  void SetUp() override {
    Sides::SetUp();
    add_catalogue();
    add("NVIDIA H200", "580.159.04", kOk, "a");
    add("NVIDIA H200", "590.44.01", "D", "b");
    add("NVIDIA H100 80GB HBM3", "580.159.04", kOk, "c");
    add("NVIDIA GH200 480GB", "580.159.04", "D", "d");
  }
  void add(const std::string& gpu, const std::string& driver, const std::string& seen, const std::string& file) const {
    FakeRun run;
    run.release = "2.14.1";
    run.gpu = gpu;
    run.driver = driver;
    run.saw(seen).write(reports + "/2.14.1/" + file + ".jsonl");
  }
};

TEST_F(SidesOnMachines, TwoDrivers_AreComparedOnTheSameGpu) {
  const ShellResult said = compare_sides("2.14.1 2.14.1 --from-driver 580 --to-driver 590 --all");
  EXPECT_EQ(said.code, 1) << said.out;
  EXPECT_THAT(said.out, StartsWith("2.14.1, driver 580.159.04 -> 2.14.1, driver 590.44.01 on NVIDIA H200, driver "
                                   "580.159.04 -> NVIDIA H200, driver 590.44.01: breaks"));
  EXPECT_THAT(said.out, HasSubstr("new errors"));
  EXPECT_EQ(compare_sides("2.14.1 2.14.1 --from-driver 590 --to-driver 580").code, 5) << "healed";
  EXPECT_EQ(recapture("gate 2.14.1 2.14.1 --from-driver 580.159.04 --to-driver 590.44.01").code, 1);
  EXPECT_EQ(recapture("gate 2.14.1 2.14.1 --from-driver 590 --to-driver 580").code, 0);
}

TEST_F(SidesOnMachines, TwoGpus_AreComparedWithTheSameDriver) {
  const ShellResult same = compare_sides("2.14.1 2.14.1 --from-gpu H100 --to-gpu H200 --driver 580");
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_THAT(same.out, StartsWith("2.14.1, NVIDIA H100 80GB HBM3 -> 2.14.1, NVIDIA H200 on "));
  EXPECT_EQ(compare_sides("2.14.1 2.14.1 --from-gpu H200 --to-gpu GH200").code, 1) << "with the driver of both";
}

TEST_F(SidesOnMachines, MachineThatIsNotOnRecord_IsAnErrorWithThoseThatAre) {
  for (const auto& [options, code, why] : std::vector<std::tuple<std::string, int, std::string>>{
           {"--from-driver 580 --to-driver 600", 4, "no run of 2.14.1 on a GPU with driver 600; runs on record: "},
           {"--from-driver 580 --to-driver 590 --gpu H100", 4, "on NVIDIA H100 80GB HBM3 with driver 590"},
           {"", 2, "both sides are 2.14.1; name two releases, or two machines by --from-driver"}}) {
    const ShellResult said = compare_sides("2.14.1 2.14.1 " + options);
    EXPECT_EQ(said.code, code) << options << said.out;
    EXPECT_THAT(said.out, HasSubstr(why));
  }
  EXPECT_THAT(compare_sides("latest 2.14.1 --from-driver 580").out, HasSubstr("'latest' stays on the other side's"));
  EXPECT_THAT(recapture("gate 2.14.1 2.14.1 --run --from-driver 580").out,
              HasSubstr("--run runs on this machine alone"));
}

TEST_F(SidesOnMachines, WordOfSeveralGpus_IsAnErrorThatListsThem) {
  for (const char* command : {"compare 2.14.1 2.6.0 --gpu NVIDIA", "gate 2.14.1 2.6.0 --gpu nvidia",
                              "show c --gpu nvidia", "history c --gpu nvidia", "bisect c.Reproduces --gpu nvidia"}) {
    const ShellResult said = recapture(command);
    EXPECT_EQ(said.code, 2) << command << "\n" << said.out;
    EXPECT_THAT(said.out, HasSubstr("fits NVIDIA GH200 480GB and NVIDIA H100 80GB HBM3 and NVIDIA H200")) << command;
  }
}

// In the folder of the release too: its record there is not the release's.
TEST_F(BuildSides, AnotherCommitOfARelease_IsAColumnOfItsOwn) {
  for (const char* file : {"acme", "fork"}) {
    fs::copy(folder + "/nights/" + file + ".jsonl", reports + "/2.15.0/" + file + ".jsonl");
  }
  EXPECT_THAT(compare_sides("2.6.0 2.15.0").out, StartsWith("2.6.0 -> 2.15.0 on G"));
  EXPECT_EQ(compare_sides("2.6.0 2.15.0").code, 1) << "the release raises; the fork does not";
  EXPECT_EQ(compare_sides("2.6.0 git0123abc").code, 0);
  const std::string shown = recapture("show c").out;
  EXPECT_THAT(shown, HasSubstr("works in 2.6.0; raises in 2.15.0 and 2.15.0+acme; works in 2.15.0+git0123abc\n"));
}

TEST_F(Sides, FamilyThatATagIsCalledToo_MustBeMeasured) {
  CatalogueCase known, never;
  known.id = "c";
  never.id = "d";
  never.family = "streams";
  for (CatalogueCase* one : {&known, &never}) {
    one->title = "A title";
    one->documented = "D";
    one->tags = {"side streams"};
    one->needs = {.gpus = 1};
    one->deadline_s = 60;
    one->tests = {{"Control", Kind::Control, {}, ""}, {"Reproduces", Kind::Reproduces, Effect::Raises, ""}};
  }
  known.family = "f";
  never.tests.pop_back();
  fs::create_directories(folder + "/cases");
  std::ofstream(folder + "/cases/catalogue.json") << render_text(Catalogue{known, never});
  const auto gate = [&](const std::string& word) {
    std::ofstream(folder + "/p.toml") << "scope = ['" << word << "']\n";
    return recapture("gate 2.15.0 2.6.0 --policy " + folder + "/p.toml");
  };
  EXPECT_EQ(gate("side streams").code, 0) << gate("side streams").out;
  EXPECT_EQ(gate("streams").code, 6);
  EXPECT_THAT(gate("streams").out, HasSubstr("1 of 3 tests in scope are unknown, and 10 % may be"));
}

TEST_F(Sides, FolderThatIsNotThere_IsNamed) {
  for (const char* verb : {"compare", "gate"}) {
    const ShellResult said = recapture(std::string(verb) + " 2.6.0 2.15.0 --records " + folder + "/nowhere");
    EXPECT_EQ(said.code, 2);
    EXPECT_EQ(said.out, "recapture: " + folder + "/nowhere is not a folder; --records takes a folder\n");
  }
}

// Runs of January whose records are called by their days; each is whole and lacks nothing.
class CountedSides : public FakeTree {
 protected:
  struct Library {
    std::string version, by;  // "preload" if it was chosen.
  };
  void add(const std::string& release, int day, const std::string& gpu = "G",
           const Library& runtime = {"12.4", ""}) const {
    FakeRun run;
    run.release = release;
    run.gpu = gpu;
    run.driver = gpu.empty() ? "" : "1";
    run.runtime = runtime.version;
    run.runtime_by = runtime.by;
    run.started = fmt::format("2026-01-{:02}T00:00:00Z", day);
    run.saw(kOk).write(fmt::format("{}/{}/{}.jsonl", reports, release, day));
  }
  std::string path(const std::string& release, int day) const {
    return fmt::format("{}/{}/{}.jsonl", reports, release, day);
  }
  // The days of both sides' runs, "3 -> 4", or the error line.
  std::string days(const std::string& from, const std::string& to, const MachineChoice& choice = {}) const {
    try {
      const BothSides sides = sides_of(from, to, choice, reports, {});
      return days_of(sides.from) + " -> " + days_of(sides.to);
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::NothingRan) << stop.what();
      return stop.what();
    }
  }
  const std::string reports = folder + "/reports";

 private:
  static std::string days_of(const Side& side) {
    std::vector<std::string> all;
    for (const JudgedRun& run : side.runs) all.push_back(fs::path(run.record.path).stem());
    return fmt::format("{}", fmt::join(all, " "));
  }
};

TEST_F(CountedSides, BothCounted_AreOfTheNewestRunsMachineAndLine) {
  add("2.9.0", 1);
  add("2.9.1", 2, "H");
  add("2.9.1", 3);
  add("2.11.0", 4);
  add("2.9.1", 5);
  add("2.11.0", 6, "H");
  add("2.9.1", 7);
  EXPECT_EQ(days("latest~1", "latest"), "5 -> 7");
  EXPECT_EQ(days("latest~2", "latest~1"), "3 -> 5");
  EXPECT_EQ(days("latest~3", "latest"), "1 -> 7") << "2.9.0 is of the same line";
  EXPECT_EQ(days("baseline", "latest~1"), "3 -> 5");
  EXPECT_EQ(days("latest", "baseline"), "7 -> 5");
  add("2.11.0", 8, "H");
  EXPECT_EQ(days("latest~1", "latest"), "6 -> 8");
  EXPECT_EQ(days("latest~1", "latest", {"g", "", {}}), "5 -> 7") << "the newest that the choice allows";
}

TEST_F(CountedSides, LineOfReleases_IsMajorAndMinorVersion) {
  add("2.16.0.dev20261123", 1);
  add("2.16.0rc1+cu130", 2);
  add("2.1.0", 3);
  add("2.16.0.dev20261124", 4);
  EXPECT_EQ(days("latest~1", "latest"), "2 -> 4");
  EXPECT_EQ(days("latest~2", "latest"), "1 -> 4");
  add("cuda12", 5);
  add("cuda13", 6);
  add("cuda12", 7);
  EXPECT_EQ(days("latest~1", "latest"), "5 -> 7");
  add("cuda13", 8);
  EXPECT_EQ(days("latest~1", "latest"), "6 -> 8");
}

TEST_F(CountedSides, OneCounted_IsOfTheMachineAndLineOfTheOther) {
  add("2.9.0", 1);
  add("2.9.1", 2);
  add("2.9.1", 3, "H");
  add("2.11.0", 4);
  add("2.9.1", 5);
  add("2.11.0", 6, "H");
  for (const std::string& to : {path("2.9.1", 2), std::string("2.9.1/2.jsonl")}) {
    EXPECT_EQ(days("latest", to), "5 -> 2") << to;
    EXPECT_EQ(days("latest~2", to), "1 -> 2") << to;
    EXPECT_EQ(days("baseline", to), "1 -> 2") << to;
  }
  EXPECT_EQ(days("2.9.0", "latest"), "1 -> 5");
  EXPECT_EQ(days(reports + "/2.9.0", "latest~1"), "1 -> 2");
  EXPECT_EQ(days("2.9.1", "latest", {"h", "", {}}), "3 -> 3");
  EXPECT_EQ(days("baseline", "2.11.0"),
            "there is no baseline of 2.11 on H, driver 1: none of 0 earlier runs "
            "is marked or complete; other lines there: 2.9 (1); 2.11 also on G, driver 1 (1)");
}

TEST_F(CountedSides, Libraries_AreTheSameOrTheReleasesOwn) {
  const Library chosen{"12.9", "preload"};
  add("2.9.0", 1);
  add("2.9.1", 2, "G", chosen);
  add("2.9.1", 3, "G", {"13.0", "preload"});
  add("2.9.1", 4, "G", {"12.8", ""});
  add("2.9.1", 5, "G", chosen);
  EXPECT_EQ(days("latest~1", "latest"), "2 -> 5");
  EXPECT_EQ(days("latest", path("2.9.1", 4)), "4 -> 4");
  EXPECT_EQ(days("baseline", path("2.9.1", 4)), "1 -> 4") << "each with its own";
  EXPECT_EQ(days("latest", "2.9.1"), "4 -> 4") << "a release's own libraries count";
  EXPECT_EQ(days("latest", "latest~1", {"", "", {{"cuda_runtime", "12.8"}}}), "4 -> 1");
  EXPECT_EQ(days("latest", "latest~1", {"", "", {{"cuda_runtime", "13.0"}}}),
            "there is no latest~1 of 2.9 on G, driver 1, CUDA runtime 13.0: 1 run; 2.9 also on "
            "G, driver 1, CUDA runtime 12.9 (2) and 1 more");
  EXPECT_EQ(days("latest", "latest~1", {"", "", {{"cuda_runtime", "99.1"}}}),
            "neither side ran with CUDA runtime 99.1");
}

TEST_F(CountedSides, Baseline_IsOfTheLineEvenIfAnotherIsMarked) {
  add("2.9.1", 1);
  add("2.11.0", 2);
  add("2.9.1", 3);
  add("2.9.1", 4);
  add("2.9.1", 5, "H");
  mark_baseline(path("2.11.0", 2), reports);
  mark_baseline(path("2.9.1", 5), reports);
  EXPECT_EQ(days("baseline", path("2.9.1", 4)), "3 -> 4");
  mark_baseline(path("2.9.1", 1), reports);
  EXPECT_EQ(days("baseline", path("2.9.1", 4)), "1 -> 4");
}

TEST_F(CountedSides, Baseline_IsBeforeTheOtherSideOnItsMachine) {
  add("2.9.1", 3);
  FakeRun other;
  other.release = "2.9.1";
  other.saw(kOk);
  for (const auto& [gpu, day] : {std::pair("G", "05"), std::pair("H", "01")}) {
    other.gpu = gpu;
    other.started = fmt::format("2026-01-{}T00:00:00Z", day);
    other.write(fmt::format("{}/outside/{}.jsonl", folder, day));
  }
  EXPECT_EQ(days("baseline", folder + "/outside"), "3 -> 05");
}

TEST_F(CountedSides, CopyOfARun_IsNoRunBeforeIt) {
  FakeRun run = FakeRun().saw(kOk);
  run.release = "2.9.1";
  for (const int day : {1, 2}) {
    run.id = fmt::format("run of {}", day);
    run.started = fmt::format("2026-01-0{}T00:00:00Z", day);
    run.write(path("2.9.1", day));
  }
  run.write(reports + "/collected/2.9.1/copy of 2.jsonl");
  EXPECT_EQ(days("latest~1", "latest"), "1 -> copy of 2");
  EXPECT_EQ(days("baseline", "latest"), "1 -> copy of 2");
  EXPECT_EQ(days("baseline", path("2.9.1", 2)), "1 -> 2");
  EXPECT_THAT(days("latest~2", "latest"), HasSubstr("there is no latest~2"));
}

TEST_F(CountedSides, TooFewRuns_GetOneLineWithWhatThereIs) {
  add("2.4.1", 28, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(days("latest~1", "latest"), "there is no latest~1 of 2.4 on NVIDIA H100 80GB HBM3, driver 1: 1 run");
  for (int minor = 5; minor < 13; ++minor) add(fmt::format("2.{}.0", minor), minor, "NVIDIA H100 80GB HBM3");
  add("2.4.0", 3, "NVIDIA H200");
  add("2.4.1", 4, "NVIDIA H200");
  add("2.9.1", 27, "NVIDIA H100 80GB HBM3");
  const std::string line = days("latest~1", "latest");
  EXPECT_EQ(line,
            "there is no latest~1 of 2.4 on NVIDIA H100 80GB HBM3, driver 1: 1 run; other lines there: 2.12 (1), "
            "2.11 (1), 2.10 (1), 2.9 (2), 2.8 (1), 2.7 (1) and 2 more; 2.4 also on NVIDIA H200, driver 1 (2)");
  EXPECT_EQ(days("baseline", "latest"),
            "there is no baseline of 2.4 on NVIDIA H100 80GB HBM3, driver 1: none of 0 earlier "
            "runs is marked or complete; " +
                line.substr(line.find("other lines")));
  FakeRun elsewhere;
  elsewhere.release = "2.9.1";
  elsewhere.gpu = "J";
  elsewhere.saw(kOk).write(folder + "/elsewhere.jsonl");
  EXPECT_EQ(days(folder + "/elsewhere.jsonl", "latest"),
            "there is no latest of 2.9 on J, driver 1: 0 runs; 2.9 also on NVIDIA H100 80GB HBM3, driver 1 (2)");
}

TEST_F(CountedSides, GpuThatRanNothing_ListsThoseThatRan) {
  add("2.9.0", 1, "NVIDIA H200");
  add("2.9.1", 2, "NVIDIA H200");
  add("2.9.1", 3, "NVIDIA H200");
  add("2.9.1", 4, "NVIDIA H100");
  add("2.9.1", 5, "");
  EXPECT_EQ(
      days("2.9", "2.9.0", {"A100", "", {}}),
      "no run of 2.9 on A100; runs on record: NVIDIA H100 (1), NVIDIA H200 (2), no GPU (1); the nearest on record "
      "is NVIDIA H100, driver 1, a GPU of another architecture");
  EXPECT_EQ(days("latest", "baseline", {"A100", "", {}}),
            "no run of any release on A100; runs on record: NVIDIA H100 (1), NVIDIA H200 (3), no GPU (1); the nearest "
            "on record is NVIDIA H100, driver 1, a GPU of another architecture");
  EXPECT_EQ(
      days("2.9", "2.9.0", {"h200", "7", {}}),
      "no run of 2.9 on NVIDIA H200 with driver 7; runs on record: NVIDIA H100, driver 1 (1), NVIDIA H200, "
      "driver 1 (2), no GPU (1); the nearest on record is NVIDIA H200, driver 1, the same GPU with another driver");
  for (const char* none : {"none", "None"}) {
    EXPECT_EQ(days("2.9.0", "2.9", {none, "", {}}), "no run of 2.9.0 without a GPU; runs on record: NVIDIA H200 (1)");
  }
}

TEST_F(Sides, GateWithJson_HasItsAnswer) {
  std::ofstream(folder + "/p.toml") << "block = ['stopped holding']\n";
  const Json blocked = Json::parse(recapture("gate 2.6 2.15 --json").out);
  EXPECT_EQ(blocked["answer"], "blocked");
  EXPECT_EQ(blocked["exit"], 1);
  EXPECT_EQ(blocked["changes"][0]["blocks"], true);
  const Json passes = Json::parse(recapture("gate 2.6 2.15 --json --policy " + folder + "/p.toml").out);
  EXPECT_EQ(passes["answer"], "passes");
  EXPECT_EQ(passes["changes"][0]["blocks"], false);
}

TEST_F(Sides, SameRelease_UsesTheNamesAsTyped) {
  FakeRun second;
  second.started = "2026-01-03T00:00:00Z";
  second.saw("D").write(reports + "/2.6.0/g.run-2.jsonl");
  EXPECT_THAT(compare_sides(reports + "/2.6.0/g.jsonl " + reports + "/2.6.0/g.run-2.jsonl").out,
              StartsWith("g.jsonl -> g.run-2.jsonl on G"));
  FakeRun cut = second;
  cut.started = "2026-01-04T00:00:00Z";
  cut.end = "";
  cut.write(reports + "/2.6.0/g.run-3.jsonl");
  FakeRun other = second;
  other.gpu = "J";
  other.write(folder + "/elsewhere.jsonl");
  const ShellResult none = compare_sides(folder + "/elsewhere.jsonl latest");
  EXPECT_EQ(none.code, 4) << none.out;
  EXPECT_THAT(none.out, HasSubstr("there is no latest of 2.6 on J, driver 1: 0 runs"));
  const ShellResult said =
      compare_sides("baseline latest --all");  // The newest is cut short, the one before it is complete.
  EXPECT_THAT(said.out, StartsWith("baseline -> latest on G"));
  EXPECT_THAT(said.out, HasSubstr("note: latest: 2.6.0, " + reports + "/2.6.0/g.run-3.jsonl\n")) << "which run that is";
  EXPECT_THAT(said.out, HasSubstr("note: latest: the run did not come to its end"));
  EXPECT_EQ(said.code, 0) << said.out;
}

TEST_F(Sides, MarkedRun_IsTheBaselineSide) {
  FakeRun second;
  second.release = "2.15.0";
  second.started = "2026-01-03T00:00:00Z";
  second.saw("D").write(reports + "/2.15.0/g.run-2.jsonl");
  FakeRun first = second;
  first.tests.resize(1);
  first.started = "2026-01-01T00:00:00Z";
  first.saw(kOk).write(reports + "/2.15.0/first.jsonl");
  EXPECT_EQ(compare_sides("baseline latest").code, 0) << "the run before it";
  EXPECT_EQ(recapture("baseline " + reports + "/2.15.0/first.jsonl").out, "2.15.0/first.jsonl is a baseline\n");
  EXPECT_EQ(recapture("baseline " + reports + "/2.15.0/first.jsonl").code, 0) << "marking twice has the same effect";
  EXPECT_EQ(text_of(reports + "/good.txt"), "2.15.0/first.jsonl\n");
  EXPECT_EQ(compare_sides("baseline latest").code, 1);
  FakeRun cut;
  cut.end = "";
  cut.write(reports + "/2.6.0/cut.jsonl");
  cut.write(folder + "/elsewhere.jsonl");
  for (const auto& [path, code, words] : std::vector<std::tuple<std::string, int, std::string>>{
           {reports + "/2.6.0/cut.jsonl", 2, "is incomplete, so no run can be compared with it"},
           {folder + "/elsewhere.jsonl", 2, "is not below"},
           {folder + "/none.jsonl", 2, "No such file"}}) {
    const ShellResult said = recapture("baseline " + path);
    EXPECT_EQ(said.code, code) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
  }
}

TEST_F(Sides, BaselineWithACrash_NamesTheTest) {
  FakeRun run;
  run.release = "2.15.0";
  run.line({{"test", "c.Reproduces"}, {"ending", "signal"}, {"code", 11}}).write(reports + "/2.15.0/crashed.jsonl");
  EXPECT_EQ(recapture("baseline " + reports + "/2.15.0/crashed.jsonl").out,
            "2.15.0/crashed.jsonl is a baseline\n"
            "note: 1 test in it crashed or hung, and will not be reported as new: c.Reproduces\n");
}

TEST_F(Sides, BuildOfTheSameName_DoesNotHideTheRelease) {
  fs::create_directories(folder + "/build/2.15.0/cases");
  EXPECT_EQ(shell("cd '" + folder + "/build' && ./recapture compare 2.6.0 2.15.0").code, 1);
}

TEST_F(Sides, SeveralMachines_OneIsCompared) {
  for (const char* release : {"2.6.0", "2.15.0"}) {
    FakeRun other;
    other.release = release;
    other.gpu = "Another";
    other.saw(kOk).write(reports + "/" + release + "/a.jsonl");
  }
  EXPECT_THAT(compare_sides("2.6.0 2.15.0 --all").out, HasSubstr("--gpu or --driver chooses"));
  EXPECT_EQ(compare_sides("2.6.0 2.15.0 --gpu another").code, 0);
  EXPECT_EQ(compare_sides("2.6.0 2.15.0 --gpu g --driver 1").code, 1);
  FakeRun host;
  host.gpu = host.driver = "";
  host.saw(kOk).write(reports + "/2.6.0/host.jsonl");
  host.release = "2.15.0";
  host.write(reports + "/2.15.0/host.jsonl");
  EXPECT_THAT(compare_sides("2.6.0 2.15.0 --gpu none").out, StartsWith("2.6.0 -> 2.15.0 on a machine without a GPU: "));
}

TEST_F(Sides, SeveralMachines_TheOneWithMostComparableTestsIsTaken) {
  for (const char* release : {"2.6.0", "2.15.0"}) {
    FakeRun again, other;
    again.release = other.release = release;
    again.saw(kOk).write(reports + "/" + release + "/g-again.jsonl");
    other.gpu = "Another";
    other.saw(kOk).saw(kOk, "ReproducesTwo").write(reports + "/" + release + "/a.jsonl");
  }
  EXPECT_THAT(compare_sides("2.6.0 2.15.0").out, StartsWith("2.6.0 -> 2.15.0 on Another, driver 1: "));
  FakeRun rewritten;
  rewritten.gpu = "Another";
  rewritten.not_there("Reproduces", "skipped").not_there("ReproducesTwo", "skipped").write(reports + "/2.6.0/a.jsonl");
  EXPECT_THAT(compare_sides("2.6.0 2.15.0").out, StartsWith("2.6.0 -> 2.15.0 on G, driver 1: "));
}

TEST_F(Sides, TestThatTheMachineLacks_IsComparedOnAnother) {
  const auto write = [&](const std::string& driver, const std::string& runtime_by = "",
                         const std::string& origin = "") {
    for (const auto& [release, seen] : {std::pair<std::string, std::string>("2.6.0", kOk), {"2.15.0", "D"}}) {
      FakeRun more, other;
      more.release = other.release = release;
      more.saw(kOk, "ReproducesThree").saw(kOk, "ReproducesFour").write(reports + "/" + release + "/g-more.jsonl");
      other.gpu = "Another";
      other.driver = driver;
      other.origin = origin;
      if (release == "2.15.0") other.runtime_by = runtime_by;
      other.saw("D").saw(seen, "ReproducesTwo").write(reports + "/" + release + "/a.jsonl");
    }
  };
  write("1");
  const std::string on_another = "; on Another, driver 1\n";
  const ShellResult said = compare_sides("2.6.0 2.15.0 --all");
  EXPECT_THAT(said.out, StartsWith("2.6.0 -> 2.15.0 on G, driver 1: "));
  EXPECT_THAT(said.out, HasSubstr("note: 1 test is compared on Another, driver 1, where both sides have a result\n"));
  EXPECT_THAT(said.out, HasSubstr(on_another));
  const Json json = parse_json(compare_sides("2.6.0 2.15.0 --json").out);
  std::map<std::string, std::string> machines;  // By test.
  for (const Json& change : json.at("changes")) {
    for (const Json& test : change.at("tests")) machines[test] = change.value("machine", "");
  }
  EXPECT_THAT(machines, ElementsAre(Pair("c.Reproduces", ""), Pair("c.ReproducesTwo", "Another, driver 1")));
  FakeRun now;
  now.release = "2.15.0";
  now.saw(kOk).write(reports + "/2.15.0/g.jsonl");
  EXPECT_THAT(recapture("gate 2.6.0 2.15.0").out, AllOf(HasSubstr(": blocked\n"), HasSubstr(on_another)));
  EXPECT_THAT(compare_sides("2.6.0 2.15.0 --gpu g").out, Not(HasSubstr("Another"))) << "chosen";
  write("1", "", "somebody");
  EXPECT_THAT(compare_sides("2.6.0 2.15.0").out, Not(HasSubstr("; on Another"))) << "somebody sent it";
  write("1", "preload");
  EXPECT_THAT(compare_sides("2.6.0 2.15.0").out, Not(HasSubstr("; on Another"))) << "a chosen runtime";
  write("2");
  EXPECT_THAT(compare_sides("2.6.0 2.15.0").out, Not(HasSubstr("; on Another"))) << "another driver";
}

TEST_F(Sides, MachineOfNoRecord_IsNamedWithTheNearest) {
  add_catalogue();
  for (const char* release : {"2.6.0", "2.15.0"}) {
    FakeRun run;
    run.release = release;
    run.driver = "2";
    run.saw(kOk).write(folder + "/else/" + release + "/g.jsonl");
  }
  const std::string nearest = "G, driver 1, the same GPU with another driver", sides = " 2.6.0 2.15.0";
  for (const char* verb : {"compare", "gate"}) {
    const std::string here = verb + sides, there = here + " --records " + folder + "/else";
    for (const char* side : {"2.6.0", "2.15.0"}) {
      EXPECT_THAT(recapture(there).out,
                  HasSubstr(fmt::format("note: {}: no record is of this machine; the nearest is {}\n", side, nearest)));
    }
    EXPECT_EQ(parse_json(recapture(there + " --json").out).at("not_on_record"),
              (Json{{{"side", "2.6.0"}, {"what", "machine"}, {"nearest", nearest}},
                    {{"side", "2.15.0"}, {"what", "machine"}, {"nearest", nearest}}}));
    EXPECT_EQ(parse_json(recapture(here + " --json").out).at("not_on_record"), Json::array());
    const auto properties = [&](const std::string& question) {
      const std::string path = folder + "/x.xml";
      recapture(question + " --json --junit " + path);
      pugi::xml_document xml;
      EXPECT_TRUE(xml.load_file(path.c_str()));
      std::vector<std::string> values;
      for (const auto& one : xml.select_nodes("//testsuite[@name='c']/properties/property[@name='nearest_machine']")) {
        values.emplace_back(one.node().attribute("value").value());
      }
      return values;
    };
    EXPECT_THAT(properties(there), ElementsAre("2.6.0: " + nearest, "2.15.0: " + nearest));
    EXPECT_THAT(properties(here), ElementsAre());
  }
}

TEST_F(Sides, MachineOfNoRecord_IsNamedInWhatIsShownOfACase) {
  add_catalogue();
  FakeRun run;
  run.release = "2.15.0";
  run.driver = "2";
  run.saw("D").write(folder + "/else/2.15.0/g.jsonl");
  const std::string nearest = "G, driver 1, the same GPU with another driver";
  const std::string note = "no record is of G, driver 2; the nearest on record is " + nearest;
  const auto as_one_line = [](std::string text) {
    for (size_t at = 0; (at = text.find('\n', at)) != text.npos;) {
      text.replace(at, std::min(text.find_first_not_of(" \n", at), text.size()) - at, " ");
    }
    return text;
  };
  const std::string there = "show c --records " + folder + "/else";
  EXPECT_THAT(as_one_line(recapture(there).out), HasSubstr(" note        " + note));
  EXPECT_THAT(as_one_line(recapture(there + " --all").out), HasSubstr(" note: " + note));
  EXPECT_EQ(parse_json(recapture(there + " --json").out)[0]["results"][0]["nearest_machine"], nearest);
  for (const char* form : {"", " --all"}) {
    EXPECT_THAT(recapture(std::string("show c") + form).out, Not(HasSubstr("no record is of")));
  }
  EXPECT_EQ(parse_json(recapture("show c --json").out)[0]["results"][0]["nearest_machine"], "");
}

TEST_F(Sides, GpuOrDriverOfNoRecord_IsRefusedWithTheNearest) {
  add_catalogue();
  for (const auto& [question, nearest] :
       {std::pair("show c --gpu B200", "G, driver 1, a GPU of another architecture"),
        {"show --left --gpu B200", "G, driver 1, a GPU of another architecture"},
        {"compare 2.6.0 2.15.0 --gpu B200", "G, driver 1, a GPU of another architecture"},
        {"gate 2.6.0 2.15.0 --gpu g --driver 9", "G, driver 1, the same GPU with another driver"}}) {
    const ShellResult said = recapture(question);
    EXPECT_EQ(said.code, 4) << said.out;
    EXPECT_THAT(said.out, HasSubstr(std::string("; the nearest on record is ") + nearest + "\n")) << question;
    EXPECT_TRUE(said.is_one_line()) << said.out;
  }
  EXPECT_THAT(recapture("show c --gpu Riva").out, HasSubstr("records are of G\n")) << "nothing is known of it";
}

// More tests, damage and another GPU with the same driver: each would change an answer if the project had run it.
TEST_F(Sides, RecordThatSomebodySent_ChangesNoAnswerOfTheProjectsMachines) {
  add_catalogue();
  const std::vector<std::string> questions = {"compare 2.6.0 2.15.0 --json",
                                              "gate 2.6.0 2.15.0 --json",
                                              "compare 2.6.0 2.15.0",
                                              "gate 2.6.0 2.15.0 --verbose",
                                              "gate 2.6.0 2.7.0 --json",
                                              "compare 2.6.0 latest",
                                              "show c",
                                              "show c 2.15.0",
                                              "dev tables failures",
                                              "show 2.7.0/g.jsonl",
                                              "bisect c.Reproduces --gpu G --driver 1"};
  FakeRun lacking;
  lacking.release = "2.7.0";
  lacking.not_there("Reproduces", "skipped").write(reports + "/2.7.0/g.jsonl");
  const auto answers = [&] {
    std::vector<std::string> all;
    for (const std::string& question : questions) all.push_back(recapture(question).out);
    return all;
  };
  const std::vector<std::string> before = answers();
  const auto send = [&](const std::string& origin) {
    for (const char* release : {"2.6.0", "2.7.0", "2.15.0"}) {
      for (const auto& [gpu, driver] : {std::pair("Another", "1"), {"G", "2"}}) {
        Json environment = {{"release", release},
                            {"gpu", gpu},
                            {"driver", driver},
                            {"volatile", {{"started", "2026-03-01T00:00:00Z"}}}};
        if (!origin.empty()) environment["origin"] = origin;
        FakeRecord record{
            fake_environment(environment),
            {fake_test("c.Control"), fake_failure("c.Reproduces", release[2] == '6' ? kOk : "D", "D*", kOk),
             fake_failure("c.ReproducesTwo", release[2] == '6' ? kOk : "D", "D*", kOk)},
            {{"effect", "silently wrong"}}};
        record.write(fmt::format("{}/{}/{}.jsonl", reports, release, gpu));
      }
    }
  };
  send("somebody");
  EXPECT_EQ(answers(), before);
  EXPECT_THAT(recapture("compare 2.6.0 2.15.0 --gpu another").out, StartsWith("2.6.0 -> 2.15.0 on Another, driver 1: "))
      << "it answers for its own machine";
  send("");
  const std::vector<std::string> after = answers();
  for (size_t i = 0; i + 1 < questions.size(); ++i) EXPECT_NE(after[i], before[i]) << questions[i];
}

TEST_F(Sides, ReleaseWithSentRecordsAlone_IsNotMeantByItsLine) {
  add_catalogue();
  const std::string nights = folder + "/nights", elsewhere = " --records " + nights;
  const auto write = [&](const std::string& release, const std::string& seen, const std::string& origin) {
    FakeRun run;
    run.release = release;
    run.origin = origin;
    run.saw(seen).write(reports + "/" + release + "/g.jsonl");
    run.write(nights + "/" + release + ".jsonl");
  };
  write("2.6.0", kOk, "");
  write("2.7.0", "D", "");
  const std::vector<std::string> questions = {"compare 2.6 2.7",          "gate 2.6 2.7", "compare 2.6 2.7" + elsewhere,
                                              "gate 2.6 2.7" + elsewhere, "show 2.7",     "show c --release 2.7",
                                              "history c --release 2.7"};
  const auto answers = [&] {
    std::vector<std::string> all;
    for (const std::string& question : questions) all.push_back(recapture(question).out);
    return all;
  };
  const std::vector<std::string> before = answers();
  write("2.7.1", kOk, "somebody");
  EXPECT_EQ(answers(), before);
  EXPECT_THAT(compare_sides("2.7 2.7.1").out, StartsWith("2.7.0 -> 2.7.1 on G, driver 1: ")) << "its own name";
  write("2.8.0", kOk, "somebody");
  EXPECT_THAT(compare_sides("2.7 2.8").out, StartsWith("2.7.0 -> 2.8.0 on G, driver 1: ")) << "no other is of its line";
  write("2.7.1", kOk, "");
  const std::vector<std::string> after = answers();
  for (size_t i = 0; i < questions.size(); ++i) EXPECT_NE(after[i], before[i]) << questions[i];
}

TEST_F(Sides, HostCase_IsTakenFromRunsWithoutAGpu) {
  FakeRun before, now;
  before.gpu = before.driver = now.gpu = now.driver = "";
  now.release = "2.15.0";
  before.saw(kOk, "ReproducesTwo").write(reports + "/2.6.0/host.jsonl");
  now.saw("D", "ReproducesTwo").write(reports + "/2.15.0/host.jsonl");
  EXPECT_THAT(compare_sides("2.6 2.15").out, Not(HasSubstr("ReproducesTwo"))) << "it needs a GPU, and ran without one";
  before.needs = now.needs = "python";
  before.write(reports + "/2.6.0/host.jsonl");
  now.write(reports + "/2.15.0/host.jsonl");
  for (const char* machine : {"", " --gpu g"}) {
    const ShellResult said = compare_sides(std::string("2.6 2.15 --all") + machine);
    EXPECT_THAT(said.out, StartsWith("2.6.0 -> 2.15.0 on G, driver 1: "));
    EXPECT_THAT(said.out, HasSubstr("ReproducesTwo"));
    EXPECT_THAT(said.out, Not(HasSubstr("no GPU")));
  }
  EXPECT_THAT(compare_sides(reports + "/2.6.0/g.jsonl 2.15 --all").out, HasSubstr("1: not part of any run of 2.6.0"))
      << "one run alone";
}

TEST_F(Sides, SeveralRuntimes_OneIsTakenAndNamed) {
  FakeRun other;
  other.release = "2.15.0";
  other.runtime = "13.2";
  other.started = "2026-01-03T00:00:00Z";
  other.saw(kOk).write(reports + "/2.15.0/g.run-2.jsonl");
  const ShellResult newest = compare_sides("2.6.0 2.15.0 --all");
  EXPECT_EQ(newest.code, 0) << newest.out;
  EXPECT_THAT(newest.out, HasSubstr("CUDA runtime 12.4 -> 13.2"));
  EXPECT_THAT(newest.out, HasSubstr("--cuda-runtime chooses of 12.4, 13.2"));
  EXPECT_EQ(compare_sides("2.6.0 2.15.0 --cuda-runtime 12.4").code, 1);
}

TEST_F(Sides, ChosenRuntime_TakesTheMachineThatRanMostWithIt) {
  FakeRun other;
  other.gpu = "Another";
  other.saw(kOk);
  for (const char* release : {"2.6.0", "2.15.0"}) {
    other.release = release;
    other.runtime = "12.9";
    other.write(reports + "/" + release + "/a.jsonl");
  }
  EXPECT_THAT(compare_sides("2.6.0 2.15.0").out, StartsWith("2.6.0 -> 2.15.0 on Another, driver 1: "));
  FakeRun more;
  more.saw(kOk);
  for (const char* name : {"g.run-2", "g.run-3"}) {
    for (const char* release : {"2.6.0", "2.15.0"}) {
      more.release = release;
      more.write(reports + "/" + release + "/" + name + ".jsonl");
    }
  }
  EXPECT_THAT(compare_sides("2.6.0 2.15.0").out, StartsWith("2.6.0 -> 2.15.0 on G, driver 1: ")) << "it has more runs";
  EXPECT_THAT(compare_sides("2.6.0 2.15.0 --cuda-runtime 12.9").out,
              StartsWith("2.6.0 -> 2.15.0 on Another, driver 1: "));
  more.runtime = "12.9";
  more.write(reports + "/2.15.0/g.run-4.jsonl");
  other.write(reports + "/2.15.0/a.run-2.jsonl");
  other.release = "2.6.0";
  other.write(reports + "/2.6.0/a.run-2.jsonl");
  EXPECT_THAT(compare_sides("2.6.0 2.15.0 --cuda-runtime 12.9").out,
              StartsWith("2.6.0 -> 2.15.0 on Another, driver 1: "))
      << "one run of three with it, and two of two";
}

TEST_F(Sides, NoChosenRuntime_TakesTheMachineWithTheReleasesOwn) {
  FakeRun other;
  other.gpu = "Another";
  other.runtime_by = "preload";
  other.saw(kOk);
  for (const char* release : {"2.6.0", "2.15.0"}) {
    for (const char* runtime : {"12.0", "12.9"}) {
      other.release = release;
      other.runtime = runtime;
      other.write(reports + "/" + release + "/a-" + runtime + ".jsonl");
    }
  }
  const auto expect = [&](const char* sides, const char* machine, const char* why) {
    EXPECT_THAT(compare_sides(sides).out, StartsWith(std::string("2.6.0 -> 2.15.0 on ") + machine + ", driver 1: "))
        << why;
  };
  expect("2.6.0 2.15.0", "G", "two runs a side, and none with a runtime that is the release's own");
  expect("2.6.0 2.15.0 --cuda-runtime 12.9", "Another", "where one was chosen");
  expect("2.6.0 2.15.0 --gpu Another", "Another", "where that is all there is");
  other.runtime_by.clear();
  for (const char* release : {"2.6.0", "2.15.0"}) {
    other.release = release;
    other.runtime = "12.4";
    other.write(reports + "/" + release + "/a.jsonl");
  }
  FakeRun more;
  more.saw(kOk);
  for (const char* release : {"2.6.0", "2.15.0"}) {
    more.release = release;
    more.write(reports + "/" + release + "/g.run-2.jsonl");
  }
  expect("2.6.0 2.15.0", "G", "two runs that count, and one of three");
  more.runtime = "12.9";
  more.runtime_by = "preload";
  for (const char* name : {"g.run-3", "g.run-4"}) more.write(reports + "/2.15.0/" + name + ".jsonl");
  expect("2.6.0 2.15.0 --cuda-runtime 12.9", "Another", "both sides ran with it there, and one on G, twice");
}

TEST_F(Sides, BadSides_GetOneLineAndTheirExitCode) {
  FakeRun elsewhere, broken;
  elsewhere.release = "2.11.0";
  elsewhere.driver = "2";
  elsewhere.saw(kOk).write(reports + "/2.11.0/g.jsonl");
  broken.broken = "trigger";
  broken.saw(kOk).write(folder + "/broken.jsonl");
  fs::create_directories(folder + "/empty");
  std::ofstream(folder + "/none.jsonl") << "{\"nothing\":1}\n";
  std::ofstream(folder + "/torn.jsonl") << "{\"recapture\":2,\n{}\n";
  std::ofstream(folder + "/x.txt") << "mine";
  const std::string f = folder + "/";
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"2.6.0", 2, "TO is missing: recapture compare FROM TO"},
      {"2.16.0 2.15.0", 2, "there are no records of 2.16.0; the newest are 2.6.0, 2.11.0 and 2.15.0"},
      {"2.6.0 nonsense", 2, "'nonsense' is not a release, build, record, folder, latest, latest~1 or baseline"},
      {"2.6.0 " + f + "missing.jsonl", 2, "cannot read it: No such file or directory"},
      {"2.6.0 " + f + "empty", 4, "no records below"},
      {"2.6.0 " + f + "none.jsonl", 2, "none.jsonl:1: not a line of a record"},
      {"2.6.0 " + f + "torn.jsonl", 2, "torn.jsonl:1: not a line of a record"},
      {"2.6.0 " + f + "broken.jsonl", 2, "was broken on purpose (trigger)"},
      {"2.6.0 2.11.0", 2, "not comparable: 2.6.0 ran on G, driver 1, and 2.11.0 on G, driver 2; GPU, driver"},
      {"2.6.0 " + reports, 2, "a side is one release"},
      {"2.6.0 latest~x", 2, "'latest~x' is not a run such as latest~1"},
      {"2.6.1 2.15.0", 2, "there are no records of 2.6.1; did you mean 2.6.0?"},
      {"latest latest~7", 4, "there is no latest~7 of 2.15 on G, driver 1: 1 run; other lines there: 2.6 (1)"},
      {"baseline 2.6.0", 4, "there is no baseline of 2.6"},
      {"2.6.0 2.15.0 --gpu B200", 4, "no run of 2.6.0 on B200; runs on record: G (1)"},
      {"2.6.0 2.15.0 --gpu none", 4, "no run of 2.6.0 without a GPU"},
      {"2.6.0 2.15.0 --cuda-runtime 99.1", 4, "neither side ran with CUDA runtime 99.1"},
      {"2.6.0 2.15.0 --json --markdown", 2, "--json and --markdown cannot be combined"},
      {"2.6.0 2.15.0 --junit " + f + "x.txt", 2, "is not XML"},
      {"2.6.0 2.15.0 --junit " + f + "no/x.xml", 7, "cannot write it"},
      {"latest~1 latest --records " + f + "empty", 4, "no records below"},
      {"'' 2.15.0", 2, "is empty"},
  };
  for (const auto& [arguments, code, words] : table) {
    const ShellResult said = compare_sides(arguments);
    EXPECT_EQ(said.code, code) << arguments << "\n" << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << arguments;
    EXPECT_TRUE(said.is_one_line()) << arguments << "\n" << said.out;
  }
  EXPECT_EQ(compare_sides("2.6.0 2.15.0 > /dev/full").code, 7);
}

TEST_F(Sides, JUnitFile_IsWrittenBesideTheOutput) {
  const std::string xml = folder + "/out.xml";
  EXPECT_EQ(compare_sides("2.6.0 2.15.0 --json --junit " + xml).code, 1);
  pugi::xml_document document;
  EXPECT_TRUE(document.load_file(xml.c_str()));
}

// With the same case built for both releases.
class GateRuns : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    fs::remove(cases + "/twofold");
    add_case("steady");
    fs::create_directories(folder + "/build/2.6.0");
    fs::copy(folder + "/build/2.15.0/cases", folder + "/build/2.6.0/cases", fs::copy_options::recursive);
  }
  void catalogue() const {
    const ShellResult made = recapture("dev catalogue --release 2.15.0");
    fs::create_directories(folder + "/cases");
    std::ofstream(folder + "/cases/catalogue.json") << made.out;
  }
  size_t records(const std::string& release) const {
    const fs::path runs = folder + "/build/gate/" + release;
    return fs::exists(runs) ? static_cast<size_t>(std::distance(fs::directory_iterator(runs), {})) : 0;
  }
};

TEST_F(GateRuns, MissingRun_IsMadeAndNothingElse) {
  const ShellResult said = shell("'" + folder + "/build/recapture' gate 2.6 2.15 --run --gpu none --json 2>/dev/null");
  EXPECT_EQ(said.code, 0) << said.out;
  const Json answer = Json::parse(said.out);
  EXPECT_EQ(answer.at("unknown"), 0);
  ASSERT_EQ(answer.at("changes").size(), 1U);
  EXPECT_EQ(answer.at("changes")[0].at("consequence"), "healed");
  EXPECT_EQ(records("2.6.0"), 1U);
  EXPECT_EQ(records("2.15.0"), 1U);
  EXPECT_EQ(recapture("gate 2.6 2.15 --run --gpu none").code, 0);
  EXPECT_EQ(records("2.6.0"), 1U) << "a recorded result was run again";
  fs::remove_all(folder + "/build/gate/2.15.0");
  EXPECT_EQ(recapture("gate 2.6 2.15 --run --gpu none").code, 0);
  EXPECT_EQ(records("2.15.0"), 1U);
  add_case("steady_too");
  fs::copy(cases + "/steady_too", folder + "/build/2.6.0/cases/doubtful/steady_too");
  catalogue();
  const ShellResult more = recapture("gate 2.6 2.15 --run --gpu none");
  EXPECT_EQ(more.code, 0);
  EXPECT_THAT(more.out, AllOf(HasSubstr("steady_too.ControlHolds"), Not(HasSubstr("steady.ControlHolds"))));
}

TEST_F(GateRuns, RunOfAnotherMachine_DoesNotCount) {
  ASSERT_EQ(recapture("gate 2.6 2.15 --run --gpu none").code, 0);
  const fs::path path = fs::directory_iterator(folder + "/build/gate/2.6.0")->path();
  std::ifstream file(path);
  std::string record{std::istreambuf_iterator<char>(file), {}};
  const std::string none = "\"gpu\":\"\"";
  ASSERT_NE(record.find(none), record.npos) << record.substr(0, 300);
  std::ofstream(path) << record.replace(record.find(none), none.size(), "\"gpu\":\"H\"");
  EXPECT_EQ(recapture("gate 2.6 2.15 --run --gpu none").code, 0);
  EXPECT_EQ(records("2.6.0"), 2U);
}

TEST_F(GateRuns, UnbuiltReleaseOrAbsentGpu_IsRefused) {
  for (const auto& [arguments, code, words] : std::vector<std::tuple<std::string, int, std::string>>{
           {"2.6 2.15", 7, "no GPU to run on: no driver; --gpu none runs what needs none"},
           {"2.6 latest --gpu none", 2, "'latest'"},
           {"2.6 2.11 --gpu none", 2, "'2.11'"},
           {"2.6 2.15 --gpu none --records /proc/nowhere", 7, "cannot make this record"},
           {"2.6 2.15 --gpu none --json --markdown", 2, "cannot be combined"}}) {
    const ShellResult said = recapture("gate --run " + arguments);
    EXPECT_EQ(said.code, code) << arguments << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
  }
}

TEST_F(Sides, GatePolicy_IsAppliedOrRefused) {
  const std::string policy = folder + "/p.toml";
  const auto gate = [&](const std::string& text) {
    std::ofstream(policy) << text;
    return recapture("gate 2.6.0 2.15.0 --policy " + policy);
  };
  const ShellResult blocked = recapture("gate 2.6.0 2.15.0");
  EXPECT_EQ(blocked.code, 1);
  EXPECT_THAT(
      blocked.out,
      HasSubstr(": blocked\n  new errors: c: worked; now shows D\n    fix: no remedy is known to hold in 2.15.0\n"));
  EXPECT_EQ(recapture("gate 2.15.0 2.6.0").code, 0) << "improvements do not block";
  const ShellResult passes = gate("block = ['broken handlers']\nunknown = 5\n");
  EXPECT_EQ(passes.code, 0) << passes.out;
  EXPECT_THAT(passes.out, HasSubstr(": passes\n"));
  const ShellResult old = gate("block = ['new failures']\n");
  EXPECT_EQ(old.code, 1);
  EXPECT_THAT(old.out, HasSubstr("p.toml: 'new failures' is now called new damage and new errors\n"));
  const ShellResult waived = gate("[[waiver]]\ntest = 'c'\nreason = 'known'\nuntil = '2.16'\n");
  EXPECT_EQ(waived.code, 0) << waived.out;
  EXPECT_THAT(waived.out, HasSubstr("\n  waived: c.Reproduces (known; until 2.16)\n"));
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"block = ['everything']", "'block' takes new damage, new errors"},
           {"block = ['the same']", "not 'the same'"},
           {"block = 'new errors'", "'block' is not a list of strings"},
           {"blocks = []", "unknown key 'blocks'"},
           {"unknown = 101", "'unknown' must be a whole number of percent"},
           {"unknown = '5 %'", "'unknown' must be a whole number of percent"},
           {"scope = ['zeppelins']", "'zeppelins'"},
           {"concerns = ['zeppelins']", "'zeppelins'"},
           {"scope = []\nconcerns = []", "'concerns' is the old name of 'scope'"},
           {"without = ['zeppelins']", "'without': no feature is called 'zeppelins'"},
           {"without = ['any program']", "no feature is called 'any program'"},
           {"machines = ['']", "'machines' has an empty name"},
           {"scope = ['compile']\nwithout = ['torch.compile']", "'without' has 'torch.compile', which 'scope' names"},
           {"[[waiver]]\ntest = 'c'", "'reason'"},
           {"[[waiver]]\ntest = 'd'\nreason = 'x'", "'d'"},
           {"[[waiver]]\ntest = 'c'\nreason = 'x'\nuntil = 'soon'", "'until' takes a date such as"},
           {"[[waiver]]\ntest = 'c'\nreason = 'x'\nuntil = '2026-02-40'", "'until' takes a date such as"},
           {"[[waiver]]\ntest = 'c'\nreason = 'x'\nuntil = '2027-02-30'", "'until' takes a date such as"},
           {"block = [", "p.toml:1: "}}) {
    const ShellResult said = gate(text);
    EXPECT_EQ(said.code, 2) << text;
    EXPECT_THAT(said.out, HasSubstr(words)) << text;
    EXPECT_EQ(std::count(said.out.begin(), said.out.end(), '\n'), text.find("concerns") == 0 ? 2 : 1) << said.out;
  }
  EXPECT_EQ(recapture("gate 2.6.0 2.15.0 --policy " + folder + "/none.toml").code, 2);
  EXPECT_EQ(recapture("gate 2.6.0 2.15.0 --without zeppelins").code, 2);
  const ShellResult elsewhere = gate("machines = ['B200', 'A100']\n");
  EXPECT_EQ(elsewhere.code, 4);
  EXPECT_THAT(elsewhere.out, HasSubstr("no run of 2.6.0 on B200 or A100; runs on record: G (1)"));
}

}  // namespace
}  // namespace recapture

// Which release changed it: from records of every kind, and by running what they lack.
#include "harness/report/bisect.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/compare/sides.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/fake_tree.h"
#include "harness/tests/namespaces.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kReproduced = "D > active > ok", kHealthy = "ok > active > ok";
const std::vector<std::string> kMatrix = {"2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1"};

// A tree with records of a line of c.Reproduces and a Control that holds.
class Bisect : public FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    fs::create_directories(folder + "/cases");
    fs::create_directories(folder + "/reports");
    std::ofstream matrix(folder + "/ci/matrix.toml");
    for (const std::string& release : kMatrix) matrix << "[[release]]\nversion = '" << release << "'\n";
    CatalogueCase one;
    one.id = "c";
    one.family = "f";
    one.title = "A title";
    one.nature = Nature::Defect;
    one.documented = "D";
    one.fidelity = Fidelity::Verbatim;
    one.needs = {.gpus = 1};
    one.effect = Effect::Raises;
    one.deadline_s = 60;
    one.tests = {{"Control", Kind::Control, {}, ""},
                 {"Reproduces", Kind::Reproduces, Effect::Raises, ""},
                 {"ReproducesAtRate", Kind::Reproduces, Effect::Raises, ""},
                 {"FixIt", Kind::Fix, {}, "Do it."}};
    std::ofstream(folder + "/cases/catalogue.json") << render_text(Catalogue{one});
  }

  static Json saw(const std::string& seen) { return fake_failure("c.Reproduces", seen, "D*", kHealthy); }
  static Json rate(int hits, int tries) {
    Json line = fake_test("c.ReproducesAtRate", {{"hits", hits}, {"tries", tries}});
    line.update(fake_ending(hits > 0));
    return line;
  }
  static Json unavailable() {
    return fake_test("c.Reproduces", {{"code", 77}, {"ended", "skipped"}, {"skipped", "no Python"}});
  }

  void record(const std::string& release, const std::vector<Json>& lines, const Json& environment = Json::object(),
              const std::string& hash = "h") {
    static int number = 0;
    Json more = {{"release", release}, {"volatile", {{"started", fmt::format("2026-01-01T00:00:{:02}Z", number)}}}};
    more.update(environment);
    FakeRecord record{fake_environment(more), {fake_test("c.Control")}, {{"hash", hash}}};
    record.tests.insert(record.tests.end(), lines.begin(), lines.end());
    record.write(fmt::format("{}/reports/{}/{}.jsonl", folder, release, ++number));
  }
  void change(const std::string& since, const std::string& where) const {
    std::ofstream(folder + "/cases/expectations.toml")
        << "[[change]]\nwhat = 'it was mended'\nnumber = 'pytorch#1'\nsince = '" << since
        << "'\n[[change.expect]]\ntests = ['c.Reproduces']\nwhere = { release = '" << where
        << "' }\nresult = 'healthy'\nrecords = ['2.6.0/g.jsonl']\n";
  }
  Json answer(const std::string& more = "") const {
    return Json::parse(shell(command("bisect c.Reproduces --json " + more + " 2>/dev/null")).out);
  }
};

TEST_F(Bisect, RecordsOnBothSides_NameTheReleaseThatChangedIt) {
  record("2.5.1", {saw(kReproduced)});
  record("2.6.0", {saw(kHealthy)});
  record("2.9.1", {saw(kHealthy)});
  change("2.6", ">=2.6");
  const ShellResult said = recapture("bisect c.Reproduces");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_EQ(said.out,
            "c.Reproduces: A title\n\n"
            "G, driver 1\n"
            "  2.5.1: reproduced  D > active > ok\n"
            "    raised D in 2.5.1; in 2.6.0 it works\n"
            "    it was mended: pytorch#1, since 2.6\n"
            "    bounded by records on both sides\n"
            "  2.6.0, 2.9.1: healthy  ok > active > ok\n"
            "  2.7.1, 2.8.0: not on record\n"
            "  2.6.0 changed it\n");
}

TEST_F(Bisect, NightThatChangedIt_HasBothCommits) {
  const std::string before(40, 'a'), after(40, 'b');
  record("2.9.1", {saw(kHealthy)});
  record("2.16.0.dev20261122+cu132", {saw(kHealthy)}, {{"build", "nightly"}, {"libtorch_git", before}});
  record("2.16.0.dev20261123+cu132", {saw(kReproduced)}, {{"build", "nightly"}, {"libtorch_git", after}});
  record("2.16.0.dev20261124+cu132", {saw(kReproduced)},
         {{"build", "nightly"}, {"libtorch_git", std::string(40, 'c')}});
  fs::create_directories(folder + "/nights");
  for (const char* night : {"22", "23", "24"}) {
    const std::string name = fmt::format("2.16.0.dev202611{}+cu132", night);
    fs::rename(folder + "/reports/" + name, folder + "/nights/" + night);
  }
  const std::string both = "bisect c.Reproduces --records " + folder + "/nights --records " + folder + "/reports";
  for (const std::string& command : {"bisect c.Reproduces --records " + folder + "/nights", both}) {
    const ShellResult said = recapture(command);
    EXPECT_EQ(said.code, 0) << said.out;
    EXPECT_THAT(said.out, HasSubstr(fmt::format("    commits: {} (2.16.0.dev20261122+cu132) to {} "
                                                "(2.16.0.dev20261123+cu132)\n",
                                                before, after)));
    EXPECT_THAT(said.out, HasSubstr("  2.16.0.dev20261123+cu132 changed it\n"));
    EXPECT_EQ(said.out.find("  2.9.1, 2.16.0.dev20261122+cu132: healthy") != std::string::npos, command == both);
  }
  const Json json = Json::parse(recapture(both + " --json").out);
  EXPECT_EQ(json.at("machines")[0].at("changes")[0].at("commits"), (Json{{"from", before}, {"to", after}}));
}

TEST_F(Bisect, RecordThatCannotBeRead_MayHaveAnotherChange) {
  record("2.5.1", {saw(kReproduced)});
  record("2.6.0", {saw(kHealthy)});
  std::ofstream(folder + "/reports/2.6.0/broken.jsonl") << "{\n";
  const ShellResult said = recapture("bisect c.Reproduces");
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("broken.jsonl: 1: not a line of a record"), HasSubstr("2.6.0 changed it\n")));
}

TEST_F(Bisect, GapInTheRecords_GivesARangeAndMarksTheKnownChangeAsAGuess) {
  record("2.5.1", {saw(kReproduced)});
  record("2.8.0", {saw(kHealthy)});
  change("2.6", ">=2.6");
  const ShellResult said = recapture("bisect c.Reproduces");
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("    2.6 is a guess: the records say after 2.5.1 and not after 2.8.0\n"),
                              HasSubstr("    between lie 2.6.0, 2.7.1\n"),
                              HasSubstr("  it changed after 2.5.1 and not after 2.8.0\n")));
  EXPECT_EQ(answer().at("machines")[0].at("changes")[0].at("between"), Json({"2.6.0", "2.7.1"}));
}

TEST_F(Bisect, WrongSinceOfAChange_IsContradictedByTheRecords) {
  record("2.5.1", {saw(kReproduced)});
  record("2.6.0", {saw(kReproduced)});
  record("2.7.1", {saw(kHealthy)});
  change("2.6", ">=2.7");
  EXPECT_THAT(recapture("bisect c.Reproduces").out,
              HasSubstr("the records contradict 2.6: 2.6.0 does not have it yet"));
  change("2.8", ">=2.7");
  EXPECT_THAT(recapture("bisect c.Reproduces").out, HasSubstr("the records contradict 2.8: 2.7.1 has it already"));
}

TEST_F(Bisect, FailureThatVanishesAndComesBack_GivesTwoChanges) {
  record("2.5.1", {saw(kReproduced), fake_test("c.FixIt", {{"code", 1}, {"ended", "failed"}, {"assertions", {"x"}}})});
  record("2.6.0", {saw(kHealthy), fake_test("c.FixIt")});
  record("2.7.1", {saw("900 > invalidated > 901"), fake_test("c.FixIt", {{"code", 1}, {"ended", "failed"}})});
  const ShellResult said = recapture("bisect c.Reproduces");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("raised D in 2.5.1; in 2.6.0 it works"),
                              HasSubstr("worked in 2.6.0; in 2.7.1 it raises CUDA error 900, invalidating the capture"),
                              HasSubstr("2.6.0 changed it; 2.7.1 changed it")));
  const ShellResult fix = recapture("bisect c.FixIt");
  EXPECT_EQ(fix.code, 0) << fix.out;
  EXPECT_THAT(fix.out, AllOf(HasSubstr("the fix \"Do it.\" failed in 2.5.1; in 2.6.0 it holds"),
                             HasSubstr("the fix \"Do it.\" held in 2.6.0; in 2.7.1 it fails")));
}

TEST_F(Bisect, HarmlessDifferentResult_IsAChange) {
  Catalogue catalogue = read_catalogue(folder);
  for (CatalogueTest& test : catalogue.front().tests) {
    if (test.name == "Reproduces") test.effect = Effect::Works;
  }
  std::ofstream(folder + "/cases/catalogue.json") << render_text(catalogue);
  record("2.5.1", {saw("E by another")});
  record("2.6.0", {saw("D")});
  const ShellResult said = recapture("bisect c.Reproduces");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("showed E by another in 2.5.1; in 2.6.0 it shows D"), HasSubstr("2.6.0 changed it")));
}

TEST_F(Bisect, UnavailableInconclusiveOrOtherCode_IsNotCompared) {
  record("2.5.1", {saw(kReproduced)});
  record("2.6.0", {unavailable()});
  Json again = saw("other");
  again["confirms"] = 1;
  record("2.7.1", {saw(kHealthy), again});
  record("2.8.0", {saw(kHealthy)}, Json::object(), "other");
  record("2.9.1", {saw(kReproduced)});
  const ShellResult said = recapture("bisect c.Reproduces");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("  2.6.0: cannot run in 2.6.0: no Python\n"), HasSubstr("  2.7.1: inconclusive: "),
                    HasSubstr("  2.8.0: not comparable: 2.5.1 and 2.8.0 ran different code of the case\n"),
                    HasSubstr("  no change from 2.5.1 to 2.9.1\n")));
}

TEST_F(Bisect, FalseExpectation_DoesNotHideTheChange) {
  record("2.5.1", {saw(kReproduced)});
  record("2.6.0", {saw(kHealthy)});
  change("2.6", ">=2.5");  // The entry is wrong for 2.5.1, and a guess for 2.9.1.
  record("2.9.1", {saw(kHealthy)});
  EXPECT_EQ(recapture("bisect c.Reproduces").code, 0);
}

TEST_F(Bisect, RaceWithoutAHit_NeedsFiveRuns) {
  record("2.5.1", {rate(3, 10)});
  for (int i = 0; i < 4; ++i) record("2.6.0", {rate(0, 10)});
  ShellResult said = recapture("bisect c.ReproducesAtRate");
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, HasSubstr("2.6.0: insufficient data: a race that did not occur in 4 runs, and 5 would be"));
  record("2.6.0", {rate(0, 10)});
  said = recapture("bisect c.ReproducesAtRate");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("was a race that occurred in 1 of 1 runs in 2.5.1; in 2.6.0 it occurs in 0 of 5"));
}

TEST_F(Bisect, RaceWithoutAHitInTheNewestRun_StaysReproduced) {
  for (const char* release : {"2.5.1", "2.6.0"}) record(release, {rate(3, 10)});
  record("2.6.0", {rate(0, 10)});
  const ShellResult said = recapture("bisect c.ReproducesAtRate");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("  2.5.1, 2.6.0: reproduced  3 of 10 tries\n"));
}

TEST_F(Bisect, OtherGpuOrChosenRuntime_IsAnsweredSeparately) {
  record("2.5.1", {saw(kReproduced)});
  record("2.6.0", {saw(kHealthy)});
  record("2.6.0", {saw(kReproduced)}, {{"cuda_runtime", "12.9"}, {"cuda_runtime_by", "preload"}});
  record("2.5.1", {saw(kReproduced)}, {{"gpu", "H"}});
  record("2.6.0", {saw(kReproduced)}, {{"gpu", "H"}});
  record("2.6.0", {saw(kHealthy)}, {{"break", "trigger"}});
  const auto answers = [&](const std::string& more) {
    std::vector<std::string> all;
    const Json json = answer(more);
    for (const Json& one : json.at("machines"))
      all.push_back(one.at("machine").get<std::string>() + ": " + one.at("answer").get<std::string>());
    return all;
  };
  EXPECT_THAT(answers(""), ElementsAre("G, driver 1: 2.6.0 changed it",
                                       "G, driver 1, CUDA runtime 12.9: nothing to compare 2.6.0 with",
                                       "H, driver 1: no change from 2.5.1 to 2.6.0"));
  EXPECT_THAT(recapture("bisect c.Reproduces --cuda-runtime 12.9").out,
              AllOf(HasSubstr("CUDA runtime 12.9\n  2.6.0: reproduced  "), HasSubstr("nothing to compare 2.6.0 with"),
                    Not(HasSubstr("not on record"))));
  EXPECT_THAT(answers("--gpu h"), ElementsAre("H, driver 1: no change from 2.5.1 to 2.6.0"));
  EXPECT_THAT(answers("--cuda-runtime 12.9"), ElementsAre(HasSubstr("nothing to compare")));
  EXPECT_EQ(recapture("bisect c.Reproduces --gpu none").code, 4);
  EXPECT_THAT(recapture("bisect c.Reproduces --gpu H300").out,
              ::testing::EndsWith("no run with these options has c.Reproduces; GPUs on record: G, H\n"));
}

TEST_F(Bisect, AgreeingMachines_AreFoldedIntoTheOneWithTheNarrowestRange) {
  const Json other = {{"gpu", "A"}}, another = {{"gpu", "B"}, {"cuda_runtime", "12.9"}, {"cuda_runtime_by", "preload"}};
  for (const char* release : {"2.5.1", "2.6.0"}) record(release, {saw(kReproduced)});
  for (const char* release : {"2.7.1", "2.8.0"}) record(release, {saw(kHealthy)});
  record("2.5.1", {saw(kReproduced)}, other);
  record("2.8.0", {saw(kHealthy)}, other);
  record("2.6.0", {saw(kReproduced)}, another);
  ShellResult said = recapture("bisect c.Reproduces");
  EXPECT_EQ(said.code, 0) << "on A it is known to be after 2.5.1 and not after 2.8.0, and on G when" << said.out;
  EXPECT_THAT(said.out, HasSubstr("\n\nG, driver 1\n"));
  EXPECT_THAT(said.out, HasSubstr("  the same on A, driver 1: 2.5.1, 2.8.0\n"
                                  "  the same on B, driver 1, CUDA runtime 12.9: 2.6.0\n"
                                  "  2.7.1 changed it\n"));
  EXPECT_EQ(answer().at("machines").size(), 3U);
  record("2.7.1", {saw(kReproduced)}, other);
  said = recapture("bisect c.Reproduces");
  EXPECT_THAT(said.out, AllOf(HasSubstr("\n\nA, driver 1\n"), HasSubstr("  2.8.0 changed it\n")));
  EXPECT_EQ(said.code, 0) << said.out;
  record("2.5.1", {saw(kHealthy)}, {{"gpu", "C"}});
  record("2.8.0", {saw(kReproduced)}, {{"gpu", "C"}});
  said = recapture("bisect c.Reproduces");
  EXPECT_THAT(said.out, HasSubstr("  it changed after 2.5.1 and not after 2.8.0\n"));
  EXPECT_EQ(said.code, 6) << said.out;
}

TEST_F(Bisect, BadInput_IsOneLineWithItsExitCode) {
  record("2.5.1", {saw(kReproduced)});
  for (const auto& [arguments, code, words] : std::vector<std::tuple<std::string, int, std::string>>{
           {"c.Reprodces", 2, "did you mean c.Reproduces?"},
           {"c", 2, "bisect takes one test, such as c.Reproduces"},
           {"f", 2, "bisect takes one test, such as c.Reproduces"},
           {"c.FixIt", 4, "no run with these options has c.FixIt"},
           {"c.Reproduces --records /nowhere", 2, "/nowhere is not a folder"},
           {"c.Reproduces --run", 7, "no GPU to run on: no driver"},
           {"c.Reproduces --gpu none --libtorch /nowhere", 2, "/nowhere has no torch/version.py"}}) {
    const ShellResult said = recapture("bisect " + arguments);
    EXPECT_EQ(said.code, code) << arguments << said.out;
    EXPECT_THAT(said.out, HasSubstr(words)) << arguments;
    EXPECT_TRUE(said.is_one_line()) << said.out;
  }
  std::ofstream(folder + "/reports/2.5.1/broken.jsonl") << "{\n";
  const ShellResult said = recapture("bisect c.Reproduces");
  EXPECT_EQ(said.code, 6);
  EXPECT_THAT(said.out, AllOf(HasSubstr("broken.jsonl"), HasSubstr("nothing to compare 2.5.1 with")));
}

// The same case built for every release, with a failure that the last ones do not have.
class BisectRuns : public Bisect {
 protected:
  void SetUp() override {
    Bisect::SetUp();
    fs::remove(cases + "/twofold");
    add_case("steady");
    const ShellResult made = recapture("dev catalogue --release 2.15.0");
    std::ofstream(folder + "/cases/catalogue.json") << made.out;
    for (const std::string& release : kMatrix) build(release, release < "2.8");
    fs::remove_all(folder + "/build/2.15.0");
  }
  std::string binary(const std::string& release) const {
    return folder + "/build/" + release + "/cases/doubtful/steady";
  }
  void build(const std::string& release, bool is_old) const {
    fs::create_directories(fs::path(binary(release)).parent_path());
    fs::copy(RECAPTURE_BUILD "/harness/tests/twofold", binary(release));
    if (is_old) std::ofstream{binary(release) + ".old"};
  }
  size_t runs(const std::string& release) const {
    const fs::path kept = folder + "/build/bisect/" + release;
    return fs::exists(kept) ? static_cast<size_t>(std::distance(fs::directory_iterator(kept), {})) : 0;
  }
  std::vector<size_t> all_runs() const {
    std::vector<size_t> all;
    for (const std::string& release : kMatrix) all.push_back(runs(release));
    return all;
  }
  ShellResult bisect(const std::string& more) const {
    return shell(command("bisect steady.ReproducesInOldReleases --gpu none " + more + " 2>/dev/null"));
  }
};

TEST_F(BisectRuns, MissingReleases_RunTheEndsThenTheMiddleAndOnlyOnce) {
  const ShellResult said = bisect("--run");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("  2.8.0 changed it\n"), HasSubstr("  2.6.0: not on record\n")));
  EXPECT_THAT(all_runs(), ElementsAre(1, 0, 1, 1, 1));
  EXPECT_EQ(bisect("--run").out, said.out);
  EXPECT_THAT(all_runs(), ElementsAre(1, 0, 1, 1, 1)) << "a recorded result was run again";
}

TEST_F(BisectRuns, ReleaseThatCannotRunOrIsNotBuilt_IsNotCompared) {
  std::ofstream{binary("2.8.0") + ".away"};
  fs::remove_all(folder + "/build/2.7.1");
  const ShellResult said = bisect("--run");
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("it changed after 2.6.0 and not after 2.9.1"), HasSubstr("between lie 2.7.1, 2.8.0"),
                    HasSubstr("  2.7.1: not on record, and not built here\n"),
                    HasSubstr("  2.8.0: cannot run in 2.8.0: a requirement is missing\n")));
  EXPECT_THAT(all_runs(), ElementsAre(1, 1, 0, 1, 1));
}

TEST_F(BisectRuns, ReleaseWithoutAnEnvironment_DoesNotStopTheOthers) {
  fs::remove(binary("2.8.0"));
  std::ofstream(binary("2.8.0")) << "#!/bin/sh\n"
                                    "[ \"$1\" = --describe ] && exec '" RECAPTURE_BUILD
                                    "/harness/tests/twofold' \"$@\"\n"
                                    "exit 5\n";
  fs::permissions(binary("2.8.0"), fs::perms::owner_all);
  const ShellResult said = bisect("--run");
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("it changed after 2.7.1 and not after 2.9.1"),
                              HasSubstr("cannot report its environment")));
}

TEST_F(BisectRuns, FoldersOfNightlies_AreOrderedByVersionAndTheUnbuiltNamed) {
  std::string folders;
  for (const std::string nightly : {"2.16.0.dev20260103", "2.16.0.dev20260101+cu130", "2.16.0.dev20260102"}) {
    const std::string site = folder + "/" + nightly.substr(0, 18);
    fs::create_directories(site + "/torch/lib");
    std::ofstream{site + "/torch/lib/libtorch_cpu.so"};
    std::ofstream(site + "/torch/version.py") << "__version__ = '" << nightly << "'\n";
    if (nightly.find('+') != std::string::npos) fs::create_directories(site + "/torch-" + nightly + ".dist-info");
    if (nightly.back() != '2') build(nightly, nightly.back() == '3');
    folders += " " + site;
  }
  const ShellResult said = bisect("--libtorch" + folders);
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("2.16.0.dev20260101+cu130 changed it"),
                              HasSubstr("2.16.0.dev20260102: its cases are not built; `ci/suite --build " + folder)));
  EXPECT_EQ(runs("2.16.0.dev20260103"), 1U);
}

}  // namespace
}  // namespace recapture

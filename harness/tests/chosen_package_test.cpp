// Another release of a Python package than the cases' own, as with `run --transformer-engine`.
#include <fstream>

#include "harness/case/types.h"
#include "harness/store/result_matrix.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/stand_in.h"

namespace recapture {
namespace {

using ::testing::HasSubstr;

class ChosenPackage : public StandIn {
 protected:
  void SetUp() override {
    StandIn::SetUp();
    add("rude", "rude");
    std::filesystem::create_directories(folder + "/cache/transformer_engine/2.19.0-python3.11");
  }
  ShellResult run(const std::string& options) const {
    std::filesystem::remove(record());
    return shell("RECAPTURE_CACHE='" + folder + "/cache' " + kTransformerEngineVariable + "=9.9.9 " +
                 command("run rude.ControlNamesItsEnvironment --record " + record() + " " + options));
  }
};

TEST_F(ChosenPackage, ChosenRelease_ReachesTheTestsAndIsAMachineOfItsOwn) {
  const ShellResult said = run("--transformer-engine 2.19.0");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr(", TransformerEngine 2.19.0"));
  EXPECT_EQ(fact_of("rude.ControlNamesItsEnvironment", std::string("env.") + kTransformerEngineVariable), "2.19.0");
  EXPECT_EQ(fact_of("rude.ControlNamesItsEnvironment", "env.LD_PRELOAD"), "");
  const Record chosen = read_record(record());
  EXPECT_EQ(chosen.env("transformer_engine"), "2.19.0");
  EXPECT_EQ(chosen.env("transformer_engine_by"), "variable");
  EXPECT_EQ(run("").code, 0);
  const Record own = read_record(record());
  EXPECT_FALSE(own.environment.json().contains("transformer_engine"));
  EXPECT_EQ(fact_of("rude.ControlNamesItsEnvironment", std::string("env.") + kTransformerEngineVariable), "");
  EXPECT_NE(own.environment.kind, chosen.environment.kind);
  EXPECT_EQ(file_name(chosen.environment.machine), file_name(own.environment.machine) + ".te-2.19.0");
}

TEST_F(ChosenPackage, AbsentOrWrongRelease_IsOneLineWithItsExitCode) {
  for (const auto& [release, code, words] :
       {std::tuple{"2.19.1", 7, "; `tools/transformer_engine 2.19.1` gets it"},
        {"2.19", 7, "TransformerEngine 2.19 is not in "},  // A package needs the full release.
        {"newest", 2, "--transformer-engine takes a version such as 2.20.2, not 'newest'"}}) {
    const ShellResult said = run(std::string("--transformer-engine ") + release);
    EXPECT_EQ(said.code, code) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_FALSE(std::filesystem::exists(record()));
  }
}

TEST_F(ChosenPackage, TwoReleases_AreSidesOfAComparison) {
  std::filesystem::create_directories(folder + "/reports/2.15.0");
  const auto write = [&](const std::string& name, const std::string& seen, const Json& environment) {
    std::ofstream(folder + "/reports/2.15.0/" + name) << fake_environment(environment).dump() << "\n"
                                                      << Json{{"plan", {"c.Reproduces"}}}.dump() << "\n"
                                                      << fake_case({"Reproduces"}).dump() << "\n"
                                                      << Json{{"test", "c.Reproduces"},
                                                              {"ending", "exited"},
                                                              {"code", seen == "D" ? 0 : 1},
                                                              {"ended", seen == "D" ? "passed" : "failed"},
                                                              {"seen", seen},
                                                              {"documented", "D"},
                                                              {"healthy", "ok"}}
                                                             .dump()
                                                      << "\n"
                                                      << Json{{"end", "complete"}}.dump() << "\n";
  };
  write("g.jsonl", "D", Json::object());
  write("g.te-2.20.2.jsonl", "ok", {{"transformer_engine", "2.20.2"}, {"transformer_engine_by", "variable"}});
  const std::string reports = folder + "/reports";
  const ShellResult said =
      recapture("compare " + reports + "/2.15.0/g.jsonl " + reports + "/2.15.0/g.te-2.20.2.jsonl --records " + reports);
  EXPECT_THAT(said.out, HasSubstr("1 of 1 tests judged, 0 unknown\n"));
  EXPECT_THAT(said.out, HasSubstr("heals ("));
  const ShellResult chosen = recapture("compare 2.15.0 " + reports + "/2.15.0/g.te-2.20.2.jsonl --records " + reports +
                                       " --transformer-engine 2.21.0");
  EXPECT_EQ(chosen.code, 4);
  EXPECT_THAT(chosen.out, HasSubstr("neither side ran with TransformerEngine 2.21.0"));
}

}  // namespace
}  // namespace recapture

// An archive for a vendor: its contents, its verification, its privacy, and errors for bad input.
#include "harness/report/triage.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "harness/base/file.h"
#include "harness/base/regex.h"
#include "harness/model/record_files.h"
#include "harness/store/select.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/small_tree.h"
#include "harness/tests/this_tree.h"
#include "harness/triage/privacy.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const SmallTree& tree() {
  static const SmallTree tree({"2.11.0/nvidia-h200.run-7.jsonl.gz", "2.11.0/nvidia-h200.run-43.jsonl.gz",
                               "2.11.0/nvidia-h200.run-47.jsonl.gz", "2.11.0/nvidia-h200.run-48.jsonl.gz",
                               "2.13.0/nvidia-h200.jsonl.gz", "2.15.0/nvidia-h200.jsonl.gz"});
  return tree;
}

std::map<std::string, std::string> files_below(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().lexically_relative(folder).string()] = contents(entry.path());
  }
  return files;
}

class Triage : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder + "/bin"); }
  void TearDown() override { fs::remove_all(folder); }

  // The program on a machine whose python3 is a fake: a shell script that behaves as `says` for judge.py.
  ShellResult triage(const std::string& arguments, const std::string& before = "") const {
    return shell("cd '" + folder + "' && " + before + "RECAPTURE_CACHE=/nonexistent " + tree().command("triage ") +
                 arguments);
  }
  // Shell text that puts a g++ on the path that compiles once, and then copies. Most of a bundle's time is for
  // compiling the program that writes its programs, which is the same for all bundles of a test.
  std::string compile_once() const {
    const std::string path = folder + "/bin/g++", built = "'" + folder + "/built'";
    std::ofstream(path) << "#!/bin/sh\nfor word; do [ \"$last\" = -o ] && program=$word; last=$word; done\n"
                        << "[ -e " << built << " ] && exec cp " << built << " \"$program\"\n"
                        << "/usr/bin/g++ \"$@\" && cp \"$program\" " << built << "\n";
    chmod(path.c_str(), 0755);
    return "PATH='" + folder + "/bin':$PATH ";
  }
  // A fake python3 with a torch that behaves for each program as a line of the script says. It has no headers, so
  // run.sh compiles no case.
  void python(const std::string& judge, const std::string& torch = "2.11.0") const {
    const std::string path = folder + "/bin/python3";
    std::ofstream(path) << "#!/bin/sh\ncase \"$*\" in\n"
                        << "*sys.executable*) echo '" << path << "' ;;\n*torch.__version__*) echo '" << torch
                        << "' ;;\n"
                        << "*flags.py*) echo 'no headers' >&2; exit 1 ;;\n*judge.py*) " << judge << " ;;\nesac\n";
    chmod(path.c_str(), 0755);
  }
  // Behaves as the bundle claims.
  static constexpr char kHonest[] =
      "case \"$2\" in Reproduces*) echo 'REPRODUCED: it'; exit 1 ;; *) echo 'NOT REPRODUCED: holds' ;; esac";

  std::map<std::string, std::string> unpacked(const std::string& archive) const {
    const std::string at = folder + "/unpacked";
    fs::remove_all(at);
    fs::create_directories(at);
    EXPECT_EQ(shell("tar -xzf '" + archive + "' -C '" + at + "'").code, 0);
    return files_below(at);
  }

  const std::string folder = ::testing::TempDir() + "recapture-triage-" + std::to_string(getpid());
  const std::string with_python = "--python '" + folder + "/bin/python3' ";
};

const std::string kPython = "grad_of_python_graphed_callable.Reproduces";

TEST_F(Triage, SimulatedCase_IsNoFailureOfAVendors) {
  const ShellResult said = triage("decoder_frozen_after_raise");
  EXPECT_EQ(said.code, 4);
  EXPECT_THAT(said.out, HasSubstr("decoder_frozen_after_raise is simulated: our own model"));
  EXPECT_TRUE(said.is_one_line()) << said.out;
}

TEST_F(Triage, VerifiedBundle_IsWritten) {
  python(kHonest);
  const ShellResult said = triage(kPython + " --release 2.11.0 " + with_python);
  ASSERT_EQ(said.code, 0) << said.out;
  const auto files = unpacked(folder + "/" + kPython + ".tar.gz");
  const std::string report = files.at(kPython + "/REPORT.md");
  EXPECT_THAT(report, StartsWith("**Verified**: "));
  EXPECT_THAT(report, HasSubstr("torch 2.11.0"));
  EXPECT_THAT(said.out, HasSubstr(report.substr(0, report.find('\n'))));
  // PyTorch's form, which contains the program.
  EXPECT_THAT(report, HasSubstr("## 🐛 Describe the bug\n"));
  EXPECT_THAT(report, HasSubstr("## Versions\n"));
  EXPECT_THAT(report, HasSubstr("graphed_model = torch.cuda.make_graphed_callables(model, (sample_x,))\n"));
  EXPECT_THAT(report, HasSubstr("https://github.com/pytorch/pytorch/issues/181723"));
  EXPECT_THAT(report, ContainsRegex("It shows (in|from) LibTorch 2[.]"));
  EXPECT_THAT(report, ContainsRegex("\n  holds on NVIDIA H200: .*2[.]11[.]0"));
  const std::string program = files.at(kPython + "/Reproduces.py");
  EXPECT_THAT(program, HasSubstr("\nmodel.weight.grad = None\n"));
  EXPECT_THAT(program, HasSubstr("documented = \"[22.0, 44.0, 66.0, 88.0]\""));
  EXPECT_THAT(files.at(kPython + "/FixKeepGradients.py"), HasSubstr("model.zero_grad(set_to_none=False)"));
  EXPECT_EQ(files.count(kPython + "/ControlWithoutGraph.py"), 1U);
}

// A case with a program of its own: that program, whose functions run.sh names.
TEST_F(Triage, CaseWithAProgram_IsBundledWithIt) {
  python(
      "case \"$2 $3\" in 'optimizer_state_loaded.py fails') echo 'REPRODUCED: it'; exit 1 ;; *) echo 'NOT REPRODUCED: "
      "holds' ;; esac");
  const ShellResult said = triage("optimizer_state_loaded --release 2.11.0 " + with_python);
  ASSERT_EQ(said.code, 0) << said.out;
  const std::string test = "optimizer_state_loaded.PythonReproduces";
  auto files = unpacked(folder + "/" + test + ".tar.gz");
  std::vector<std::string> names;
  for (const auto& [name, text] : files) names.push_back(name.substr(test.size() + 1));
  EXPECT_THAT(names, ElementsAre("REPORT.md", "judge.py", "optimizer_state_loaded.py", "record.jsonl", "run.sh"));
  const std::string program = contents(kRoot + "/cases/training/optimizer_state_loaded.py");
  EXPECT_EQ(files[test + "/optimizer_state_loaded.py"], program);
  const std::string report = files[test + "/REPORT.md"];
  EXPECT_THAT(report, StartsWith("**Verified**: "));
  EXPECT_THAT(report, HasSubstr("    optimizer.load_state_dict(saved)  # cause: "));
  EXPECT_THAT(report, HasSubstr("\nprint(fails())\n```"));
  EXPECT_THAT(report, HasSubstr("\nimport copy\n\nimport torch\n"));
  EXPECT_THAT(report, Not(HasSubstr("def fix_")));
  EXPECT_THAT(report, HasSubstr("* seen: -1.875\n"));
  EXPECT_THAT(report, HasSubstr("instead of loading them. `sh run.sh fix fix_copy_into_the_state`\n  holds on "));

  // The sentence of a fix stands with the test in C++ where there is one.
  ASSERT_EQ(triage("fft_plan_dropped --release 2.11.0 --output fft.tar.gz " + with_python).code, 1);
  python("exit 2");
  ASSERT_EQ(triage("fft_plan_dropped --release 2.11.0 --output fft.tar.gz " + with_python).code, 0);
  EXPECT_THAT(unpacked(folder + "/fft.tar.gz").at("fft_plan_dropped.PythonReproduces/REPORT.md"),
              HasSubstr("* Capture again after the cache was cleared. `sh run.sh fix fix_capture_again`\n"));
}

// A report on made-up records.
class TriageReport : public ::testing::Test {
 protected:
  TriageReport() {
    one.id = "c";
    one.title = "A title";
    one.why = "It fails.";
    one.nature = Nature::Defect;
    one.effect = Effect::Raises;
    one.tests = {{"Control", Kind::Control, {}, ""},
                 {"Reproduces", Kind::Reproduces, Effect::Raises, ""},
                 {"FixIt", Kind::Fix, {}, "Do."}};
    rules.tree["c"] = {"f", "", "", "h"};
  }

  // A run of all tests, with this observation of Reproduces.
  void run(const std::string& release, const std::string& saw, const Json& more = Json::object(),
           const std::string& hash = "h") {
    Record record;
    record.environment = fake_environment(more);
    record.environment = record.environment.with("release", release);
    record.cases.emplace("c", CaseInfo::from(fake_case({"Control", "Reproduces", "FixIt"}, {{"hash", hash}})));
    for (const char* test : {"c.Control", "c.Reproduces", "c.FixIt"}) {
      record.plan.emplace_back(test);
      Json line = fake_test(test);
      if (kind_of_id(test) == Kind::Reproduces) {
        line.update({{"seen", saw}, {"documented", "D"}, {"healthy", "ok"}});
        if (saw != "D") line.update({{"code", 1}, {"ended", "failed"}});
      }
      record.add(TestRecord{line});
    }
    record.end = "complete";
    records.push_back(record);
  }

  std::string report(const std::string& release = "") const {
    const ResultMatrix board(records, rules);
    const std::vector<OnMachine> machines = latest(board);
    Bundle bundle;
    bundle.main = "c.cpp";
    bundle.files = {{"c.cpp", program}};
    const CompareContext background{};
    TriageInput story{one,        "Reproduces", machines, record_that_shows(machines, "c.Reproduces", release),
                      background, bundle};
    if (!python.empty()) story.python = {"p.Reproduces", python};
    return render_report(story, {});
  }

  CatalogueCase one;
  Rules rules;
  std::vector<Record> records;
  std::string program = "int main() {}\n", python;
};

TEST_F(TriageReport, TextOfTheRecord_StaysInItsLine) {
  run("2.11.0", "D");
  const std::string hostile = "\x1b[31mE\n\n## Versions\r", escaped = "\\x1b[31mE\\n\\n## Versions\\x0d";
  Json line = records.back().tests[1].json();
  for (const char* member : {"message", "exception"}) line[member] = member + hostile;
  line["probes"] = {{"sticky", "after" + hostile}};
  line["culprit"] = {{"api", "api" + hostile}, {"log", "log" + hostile}};
  const Json race = {{"hits", 1}, {"tries", 2}, {"stopping", "stopping" + hostile}};
  const std::vector<std::pair<Json, std::vector<std::string>>> table = {
      {line, {"message", "exception", "after", "api", "log"}}, {fake_test("c.Reproduces", race), {"stopping"}}};
  for (const auto& [each, members] : table) {
    records.back().tests[1] = each;
    const std::string text = report();
    for (const std::string& member : members) EXPECT_THAT(text, HasSubstr(member + escaped));
    EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r"))));
    EXPECT_EQ(text.find("\n## Versions"), text.rfind("\n## Versions")) << "the report's own heading alone";
  }
}

TEST_F(TriageReport, ProgramInCpp_StandsInTheTextInFortyLines) {
  run("2.11.0", "D");
  EXPECT_THAT(report(), HasSubstr("\nc.cpp:\n\n```cpp\nint main() {}\n```\n"));
  const std::string body = "  call();\n";
  program =
      "// Prose.\n#include \"x.h\"\n\nRECAPTURE_CASE = {\n    .title = \"A title\",\n};\n\nint call();\n\n"
      "// The first.\nTEST(C, Control) {\n" +
      body + "}\n\nTEST(C, Reproduces) {\n";
  for (int i = 0; i < 30; ++i) program += body;
  program += "}\n\nTEST(C, FixIt) {\n" + body + "}\n";
  std::string text = report();
  EXPECT_THAT(text, HasSubstr("\nFrom c.cpp:\n\n```cpp\nint call();\n\nTEST(C, Reproduces) {\n  call();\n"));
  EXPECT_THAT(text, Not(HasSubstr("FixIt)")));
  const size_t at = program.find("TEST(C, Reproduces) {\n");
  for (int i = 0; i < 30; ++i) program.insert(program.find('\n', at) + 1, body);
  text = report();
  const size_t begin = text.find("```cpp\n") + 7, end = text.find("```", begin);
  EXPECT_EQ(std::count(text.begin() + static_cast<long>(begin), text.begin() + static_cast<long>(end), '\n'), 40);
  EXPECT_THAT(text, HasSubstr("```cpp\nTEST(C, Reproduces) {\n")) << "the shared code does not fit";
  python = "documented = 1\n\nclass Outcome:\n    text = 1\n\nimport torch\nwith Outcome() as seen:\n    capture()\n";
  EXPECT_THAT(report(),
              HasSubstr("```python\nimport contextlib\nimport torch\nwith contextlib.nullcontext() as seen:\n    "
                        "capture()\n```\n"))
      << "the exception itself";
  python += "print(seen, documented)\n";
  EXPECT_THAT(report(), HasSubstr("```python\ndocumented = 1\n")) << "it needs the lines before";
  python = "import torch\n";
  EXPECT_THAT(report(), HasSubstr("The same in Python (p.Reproduces), which reproduced it on record "
                                  "too:\n\n```python\nimport torch\n```\n"));
}

TEST_F(TriageReport, MachinesThatShowTheSame_AreOneRow) {
  for (int minor = 1; minor <= 15; ++minor) {
    run(fmt::format("2.{}.0", minor), "D", {{"cuda_runtime", minor < 11 ? "12.4" : "13.0"}});
  }
  run("2.6.0", "D", {{"gpu", "Other"}});
  const std::string text = report();
  EXPECT_THAT(text, HasSubstr("| 2.1.0, 2.2.0, 2.3.0, "));
  EXPECT_THAT(text, HasSubstr(", 2.15.0 | 12.4, 13.0 | G | 1 | reproduced | "));
  EXPECT_THAT(text, HasSubstr("\n| 2.6.0 | 12.4 | Other | 1 | reproduced | "));
  size_t rows = 0;
  for (size_t at = text.find("| reproduced |"); at != text.npos; at = text.find("| reproduced |", at + 1)) ++rows;
  EXPECT_EQ(rows, 2U);
}

TEST_F(TriageReport, RecordThatSomebodySent_IsTakenOnlyWithoutAnother) {
  run("2.15.0", "D", {{"gpu", "Other"}, {"origin", "somebody"}});
  const auto taken = [&] {
    const ResultMatrix board(records, rules);
    return record_that_shows(latest(board), "c.Reproduces", "").env("release");
  };
  EXPECT_EQ(taken(), "2.15.0");
  run("2.6.0", "D", Json::object(), "older");
  EXPECT_EQ(taken(), "2.6.0");
  run("2.11.0", "D");
  EXPECT_EQ(taken(), "2.11.0");
}

TEST_F(TriageReport, RemedyInAnOlderForm_IsListedApart) {
  run("2.6.0", "D", Json::object(), "older");
  run("2.11.0", "D");
  const std::string text = report();
  EXPECT_THAT(text, HasSubstr("| reproduced (by an older form of this test) |"));
  EXPECT_THAT(text, HasSubstr("* Do.\n  holds on G: 2.11.0\n  held in an older form of the test on G: 2.6.0\n"));
}

TEST_F(TriageReport, ChosenNccl_IsNamedWithTheRelease) {
  run("2.7.1", "E", {{"nccl", "2.26.2"}});
  run("2.10.0", "D", {{"nccl", "2.27.5"}});
  run("2.12.1", "ok", {{"nccl", "2.29.7"}});
  EXPECT_THAT(report(),
              HasSubstr("It shows in LibTorch 2.10.0; it does not in 2.12.1; it fails in another way in 2.7.1.\n"));
  EXPECT_THAT(report(), Not(HasSubstr("| NCCL |"))) << "each is the release's own";
  run("2.11.0", "D", {{"nccl", "2.27.7"}, {"nccl_by", "preload"}});
  run("2.11.0", "ok", {{"nccl", "2.28.9"}});
  const std::string text = report();
  EXPECT_THAT(text, HasSubstr("It shows from LibTorch 2.10.0 to 2.11.0 (NCCL 2.27.7); it does not in 2.11.0 (NCCL "
                              "2.28.9), 2.12.1; it fails in another way in 2.7.1.\n"));
  EXPECT_THAT(text, HasSubstr("\n| LibTorch | CUDA runtime | NCCL | GPU | driver | what it shows | date |\n"
                              "| --- | --- | --- | --- | --- | --- | --- |\n"));
  EXPECT_THAT(text, HasSubstr("\n| 2.11.0 | 12.4 | 2.27.7 | G | 1 | reproduced |"));
  EXPECT_THAT(text, HasSubstr("\n| 2.11.0, 2.12.1 | 12.4 | 2.28.9, 2.29.7 | G | 1 | healthy |"));
}

TEST_F(TriageReport, ReleaseOnBothSides_IsNamedWithItsMachine) {
  run("2.11.0", "D", {{"nccl", "2.28.9"}});
  run("2.11.0", "ok", {{"gpu", "Other"}});
  EXPECT_THAT(report(), HasSubstr("It shows in LibTorch 2.11.0 (G); it does not in 2.11.0 (Other).\n"))
      << "not by an NCCL that one of them does not name";
  run("2.11.0", "ok", {{"driver", "2"}, {"nccl", "2.28.9"}});
  run("2.11.0", "D", {{"gpu", "Other"}, {"driver", "2"}});
  EXPECT_THAT(report(),
              HasSubstr("It shows in LibTorch 2.11.0 on some machines; it does not in 2.11.0 on some machines.\n"));
}

// A fault of the case itself is not reported upstream.
TEST_F(TriageReport, ReleaseByANeighboursExpectation_FailsInAnotherWay) {
  run("2.2.2", "E");
  run("2.6.0", "D");
  EXPECT_THAT(report(), HasSubstr("it fails in another way in 2.2.2"));
  rules.expectations = {
      {"c.Reproduces", {"<2.6", "", "", ""}, Result::Different, "E", "a guess", "x#1", {"2.1.2/g.jsonl"}, ""}};
  EXPECT_THAT(report(), HasSubstr("it fails in another way in 2.2.2")) << "its neighbour's expectation holds there";
  rules.expectations.front().records = {"2.2.2/g.jsonl"};
  rules.expectations.front().inapplicable = true;
  EXPECT_THAT(report(), Not(HasSubstr("| 2.2.2 |"))) << "the case cannot run there";
  rules.expectations.front().records = {"2.1.2/g.jsonl"};
  try {
    report("2.2.2");
    ADD_FAILURE() << "2.2.2 does not show it";
  } catch (const ExitError& stop) {
    EXPECT_EQ(std::string(stop.what()), "no record shows c.Reproduces in 2.2.2; in 2.2.2 it is inapplicable");
  }
}

TEST_F(Triage, ContradictionToTheRecord_WritesNothing) {
  const std::string once = compile_once();
  for (const char* judge : {"echo 'NOT REPRODUCED: [14.0]'", "echo 'REPRODUCED: always'; exit 1"}) {
    python(judge);
    const ShellResult said = triage(kPython + " --release 2.11.0 " + with_python, once);
    EXPECT_EQ(said.code, 1) << judge;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr("REPRODUCED: "));
    EXPECT_FALSE(fs::exists(folder + "/" + kPython + ".tar.gz"));
  }
}

TEST_F(Triage, UnverifiedBundle_IsMarkedInItsFirstLine) {
  const std::string once = compile_once();
  python("echo 'COULD NOT RUN: this torch finds no GPU'; exit 2");
  EXPECT_EQ(triage(kPython + " --release 2.11.0 " + with_python, once).code, 0);
  const std::string report = unpacked(folder + "/" + kPython + ".tar.gz").at(kPython + "/REPORT.md");
  EXPECT_THAT(report, StartsWith("**Not verified**: "));
  EXPECT_THAT(report.substr(0, report.find('\n')), HasSubstr("COULD NOT RUN: this torch finds no GPU"));
  // Another torch than the record's is no evidence against it.
  python("echo 'NOT REPRODUCED: [14.0]'", "2.99.0");
  EXPECT_EQ(triage(kPython + " --release 2.11.0 " + with_python, once).code, 0);
  EXPECT_THAT(unpacked(folder + "/" + kPython + ".tar.gz").at(kPython + "/REPORT.md"),
              StartsWith("**Not verified**: "));
}

// The program uses the fake driver, as in blame_test.
TEST_F(Triage, BlameOfTheFailure_StandsInTheReportWhereACaptureFailed) {
  const std::string once = compile_once();
  fs::create_directories(folder + "/lib");
  fs::copy(RECAPTURE_BUILD "/harness/tests/libfake_driver.so", folder + "/lib/libcuda.so.1");
  const auto report_of = [&](const std::string& what) {
    python("case \"$2\" in Reproduces*) '" RECAPTURE_BUILD "/harness/tests/breaker' " + what +
           " >/dev/null 2>&1; echo 'REPRODUCED: it'; exit 1 ;; *) echo 'NOT REPRODUCED: holds' ;; esac");
    const ShellResult said =
        triage(kPython + " --release 2.11.0 " + with_python, "LD_LIBRARY_PATH='" + folder + "/lib' " + once);
    EXPECT_EQ(said.code, 0) << said.out;
    return unpacked(folder + "/" + kPython + ".tar.gz").at(kPython + "/REPORT.md");
  };
  const std::string kHeading = "The call, its stack and the driver's log, of a run of the attached program:";
  EXPECT_THAT(report_of("sync"),
              AllOf(StartsWith("**Verified**: "), HasSubstr(kHeading), HasSubstr("cuStreamSynchronize")));
  EXPECT_THAT(report_of("fine"), AllOf(StartsWith("**Verified**: "), Not(HasSubstr(kHeading))))
      << "CUDA, and no failure";
}

TEST_F(Triage, SameRecords_GiveTheSameBytes) {
  python(kHonest);
  const std::string once = compile_once();
  ASSERT_EQ(triage(kPython + " --release 2.11.0 --output 1.tar.gz " + with_python, once).code, 0);
  ASSERT_EQ(triage(kPython + " --release 2.11.0 --output 2.tar.gz " + with_python, once).code, 0);
  const std::string bytes = contents(folder + "/1.tar.gz");
  EXPECT_EQ(bytes, contents(folder + "/2.tar.gz"));
  EXPECT_LT(bytes.size(), 100'000U);
}

TEST_F(Triage, PrivateTextInARecord_WritesNothing) {
  python(kHonest);
  fs::create_directories(folder + "/records/2.11.0");
  std::string record = record_text(RECAPTURE_ROOT "/reports/2.11.0/nvidia-h200.run-7.jsonl.gz");
  const std::string system = "Ubuntu 24.04.3 LTS";
  ASSERT_NE(record.find(system), record.npos);
  record.replace(record.find(system), system.size(), "Ubuntu of anna@example.org");
  std::ofstream(folder + "/records/2.11.0/nvidia-h200.jsonl") << record;
  const ShellResult said = triage(kPython + " --release 2.11.0 --records '" + folder + "/records' " + with_python);
  EXPECT_EQ(said.code, 6) << said.out;
  EXPECT_TRUE(said.is_one_line()) << said.out;
  EXPECT_THAT(said.out, HasSubstr("nothing was written: "));
  EXPECT_FALSE(fs::exists(folder + "/" + kPython + ".tar.gz"));
}

// Many users have names that occur in a program, a path of a package or a sentence.
TEST_F(Triage, UserNamedLikeAWordOfTheTree_GetsTheBundle) {
  python("echo 'COULD NOT RUN: no GPU'; exit 2");
  const std::string once = compile_once();
  for (const char* user : {"nvidia", "torch", "dev", "test", "will"}) {
    const ShellResult said = triage(kPython + " --release 2.11.0 " + with_python, once + fmt::format("USER={} ", user));
    EXPECT_EQ(said.code, 0) << user << ": " << said.out;
  }
  fs::create_directories(folder + "/records/2.11.0");
  const std::string record = record_text(RECAPTURE_ROOT "/reports/2.11.0/nvidia-h200.run-7.jsonl.gz");
  const std::string system = "Ubuntu 24.04.3 LTS";
  for (const char* place : {"Ubuntu in /home/nvidia/x", "Ubuntu of anna"}) {
    std::string theirs = record;
    theirs.replace(theirs.find(system), system.size(), place);
    std::ofstream(folder + "/records/2.11.0/nvidia-h200.jsonl") << theirs;
    for (const char* user : {"nvidia", "anna"}) {
      const ShellResult said =
          triage(kPython + " --release 2.11.0 --output x.tar.gz --records '" + folder + "/records' " + with_python,
                 once + fmt::format("USER={} ", user));
      const bool tells = std::string(place).find("/home") != std::string::npos || std::string(user) == "anna";
      EXPECT_EQ(said.code, tells ? 6 : 0) << place << ", " << user << ": " << said.out;
    }
  }
}

TEST_F(Triage, Constraint_IsCalledNoDefectFirst) {
  python("exit 2");
  const auto report_of = [&](const std::string& test, const std::string& release) {
    const ShellResult said = triage(test + " --release " + release + " " + with_python);
    EXPECT_EQ(said.code, 0) << said.out;
    return unpacked(folder + "/" + test + ".tar.gz").at(test + "/REPORT.md");
  };
  const std::string constraint = report_of("item_in_capture.Reproduces", "2.15.0");
  const size_t said = constraint.find("**A documented constraint of CUDA or PyTorch, and not a defect**");
  EXPECT_LT(said, constraint.find("# item() during a capture invalidates it"));
  EXPECT_THAT(report_of(kPython, "2.11.0"), Not(HasSubstr("constraint")));

  // The driver's log: quoted in PyTorch's message, heard by the recorder, or neither.
  const std::string lacks = "The record has no text of the driver's log";
  EXPECT_THAT(constraint, HasSubstr("The CUDA driver logged these messages"));
  EXPECT_THAT(constraint, Not(HasSubstr(lacks)));
  const std::string heard = report_of("event_query_in_other_thread.Reproduces", "2.13.0");
  EXPECT_THAT(heard, HasSubstr("* the driver's log: API call conflicts with a stream capture sequence initiated"));
  EXPECT_THAT(heard, Not(HasSubstr(lacks)));
  EXPECT_THAT(report_of("event_query_in_other_thread.Reproduces", "2.15.0"), HasSubstr(lacks));
}

TEST_F(Triage, BundleThatTarCannotUnpack_IsNotWritten) {
  python(kHonest);
  std::ofstream(folder + "/bin/tar") << "#!/bin/sh\nexit 3\n";
  chmod((folder + "/bin/tar").c_str(), 0755);
  const ShellResult said = triage(kPython + " --release 2.11.0 " + with_python, "PATH='" + folder + "/bin':$PATH ");
  EXPECT_EQ(said.code, 7) << said.out;
  EXPECT_THAT(said.out, HasSubstr("tar cannot unpack the bundle: "));
  EXPECT_FALSE(fs::exists(folder + "/" + kPython + ".tar.gz"));
}

// While a bundle is verified, and before that, while Python is queried.
TEST_F(Triage, CtrlC_LeavesNothingBehind) {
  const std::string stop = "kill -INT $(cat '" + folder + "/pid'); exec sleep 100";
  const std::string file = folder + "/bin/python3";
  const std::string once = compile_once();
  const auto interrupted = [&] {
    const ShellResult said = triage(kPython + " --release 2.11.0 " + with_python, "echo $$ > pid && exec env " + once);
    EXPECT_EQ(said.code, 130) << said.out;
    EXPECT_THAT(said.out, HasSubstr("interrupted; nothing was written"));
    EXPECT_FALSE(fs::exists(folder + "/" + kPython + ".tar.gz"));
  };
  python(stop);
  interrupted();
  std::ofstream(file) << "#!/bin/sh\n" << stop << "\n";
  interrupted();
}

// The case's calls between the programs are written in Python.
TEST_F(Triage, CallsBetweenPrograms_AreWrittenInPython) {
  python(kHonest, "2.15.0");
  const std::string test = "nvrtc_log_in_shared_bytes.ReproducesFourAndMore";
  ASSERT_EQ(triage(test + " --release 2.15.0 " + with_python).code, 0);
  const auto files = unpacked(folder + "/" + test + ".tar.gz");
  const std::string program = files.at(test + "/ReproducesFourAndMore.py");
  const size_t object = program.find("object_1 = c_api.PyBytes_FromStringAndSize(b\" \", 1)\n");
  const size_t log =
      program.find("nvrtc.nvrtcGetProgramLog(program, ctypes.c_void_p(c_api.PyBytes_AsString(object_1)))");
  const size_t load = program.find("seen_2 = run(PROGRAM_1, count=\"3\"");
  EXPECT_LT(object, log);
  EXPECT_LT(log, load);
  EXPECT_LT(load, program.find("\nseen = seen_3\n"));
  // A program cannot show the memory of another library.
  EXPECT_EQ(files.count(test + "/ControlLogIsNulAlone.py"), 0U);
  const std::string report = files.at(test + "/REPORT.md");
  EXPECT_THAT(report, HasSubstr("**Describe the bug**"));
  EXPECT_THAT(report, HasSubstr("https://github.com/NVIDIA-NeMo/NeMo/issues/15423"));
  EXPECT_THAT(report, Not(HasSubstr("is in nemo_run_nvrtc")));  // A recipient does not have that case.
}

const CatalogueCase& one_case(const std::string& id) {
  static const Catalogue all = read_catalogue(kRoot);
  return *std::find_if(all.begin(), all.end(), [&](const CatalogueCase& one) { return one.id == id; });
}

std::set<std::string> cuda_calls(const std::string& source) {
  std::set<std::string> calls;
  static const RE2 kCall(R"(\b(cuda[A-Z]\w+)\()");
  for (const Match& call : all_matches(source, kCall)) calls.emplace(call[1]);
  return calls;
}

// A program beside a case is short, self-contained, and makes the calls of the case in each of its tests.
TEST_F(Triage, ProgramOfTheCudaRuntimeAlone_IsOneShortFile) {
  size_t found = 0;
  for (const CatalogueCase& one : read_catalogue(kRoot)) {
    const std::string path = kRoot + "/cases/" + one.family + "/" + one.id;
    if (!fs::exists(path + ".cu")) continue;
    ++found;
    const std::string source = contents(path + ".cu");
    EXPECT_LE(std::count(source.begin(), source.end(), '\n'), 150);
    EXPECT_THAT(source, Not(HasSubstr("gtest")));
    EXPECT_THAT(source, Not(HasSubstr("#include \"")));
    std::set<std::string> theirs = cuda_calls(contents(path + ".cpp"));
    for (const std::string& call : cuda_calls(source)) EXPECT_EQ(theirs.count(call), 1U) << call;
    for (const CatalogueTest& test : one.tests) EXPECT_THAT(source, HasSubstr('"' + test.name + '"'));
    const Bundle bundle = bundle_of(kRoot, one, one.tests.at(1).name, {});
    EXPECT_EQ(bundle.shape, Shape::Cuda);
    EXPECT_THAT(bundle.file("run.sh").text, HasSubstr("-o program"));
  }
  EXPECT_GE(found, 1U);
}

TEST_F(Triage, LongProgramOfTheCudaRuntime_IsRefused) {
  fs::create_directories(folder + "/cases/f");
  CatalogueCase one;
  one.id = "c";
  one.family = "f";
  one.needs = {.gpus = 1};
  one.tests = {{"Control", Kind::Control, {}, ""}, {"Reproduces", Kind::Reproduces, Effect::Raises, ""}};
  std::ofstream(folder + "/cases/f/c.cu") << std::string(151, '\n');
  try {
    bundle_of(folder, one, "Reproduces", {});
    ADD_FAILURE();
  } catch (const ExitError& stop) {
    EXPECT_EQ(stop.code, Exit::Usage);
    EXPECT_THAT(stop.what(), HasSubstr("151 lines"));
  }
}

// For any release of the other project.
TEST_F(Triage, BundleOfForeignFiles_IsRefused) {
  for (const auto& [need, words] : {std::pair{&Needs::nemo, "it runs files of NeMo's"},
                                    {&Needs::transformer_engine, "it runs files of TransformerEngine's"}}) {
    size_t cases = 0;
    for (const CatalogueCase& one : read_catalogue(kRoot)) {
      if (!(one.needs.*need)) continue;
      ++cases;
      try {
        bundle_of(kRoot, one, "Reproduces", {});
        ADD_FAILURE() << one.id;
      } catch (const ExitError& stop) {
        EXPECT_EQ(stop.code, Exit::Usage);
        EXPECT_THAT(stop.what(), HasSubstr(words));
      }
    }
    EXPECT_GT(cases, 0U) << words;
  }
}

// All includes of any case are there, and nothing of GoogleTest or of the runner.
TEST_F(Triage, BundleOfACase_HasAllThatItIncludes) {
  size_t cases = 0;
  std::set<std::string> read;  // Most files belong to many cases.
  for (const CatalogueCase& one : read_catalogue(kRoot)) {
    if (one.needs.nemo || one.needs.transformer_engine) continue;
    const auto reproduces = std::find_if(one.tests.begin(), one.tests.end(),
                                         [](const CatalogueTest& test) { return test.kind == Kind::Reproduces; });
    if (reproduces == one.tests.end()) continue;
    const Bundle bundle = bundle_of(kRoot, one, reproduces->name, {});
    if (bundle.shape == Shape::Cuda) continue;
    ++cases;
    std::set<std::string> names;
    for (const BundleFile& file : bundle.files) names.insert(file.name);
    static const RE2 kInclude("\n#include [\"<]([^\">]+)[\">]");
    for (const BundleFile& file : bundle.files) {
      if (read.insert(file.text).second) {
        EXPECT_THAT(private_parts(file.text), IsEmpty()) << one.id << " " << file.name;
      }
      for (const Match& include : all_matches(file.text, kInclude)) {
        const std::string name(include[1]);
        const bool is_ours = name.rfind("fixtures/", 0) == 0 || name.rfind("harness/", 0) == 0;
        const bool is_shim = name.rfind("gtest/", 0) == 0 || name.rfind("gmock/", 0) == 0;
        if (is_shim) {
          EXPECT_EQ(names.count("shim/" + name), 1U) << one.id << " " << file.name << " " << name;
        }
        // Within RECAPTURE_HAS_LIBTORCH, which is not defined for the CUDA runtime alone.
        if (is_ours && !(bundle.shape == Shape::Runtime && name.rfind("fixtures/torch/", 0) == 0)) {
          EXPECT_EQ(names.count(name), 1U) << one.id << " " << file.name << " " << name;
        }
      }
    }
    EXPECT_LT(archive_of("x", bundle.files).size(), 80'000U) << one.id;
  }
  EXPECT_GE(cases, 100U);
}

// A second run of the script with another torch, or another nvcc, must not use the first one's binary.
TEST_F(Triage, AnotherTorch_IsBuiltForAgain) {
  const std::string bin = folder + "/bin/";
  for (const char* compiler : {"g++", "nvcc"}) {  // Its programs print what they were built with.
    std::ofstream(bin + compiler) << "#!/bin/sh\necho \"echo 'NOT REPRODUCED: built with $TORCH'\" > program\n"
                                  << "chmod +x program\n";
    chmod((bin + compiler).c_str(), 0755);
  }
  std::ofstream(bin + "python3") << "#!/bin/sh\necho -I$TORCH\n";
  chmod((bin + "python3").c_str(), 0755);
  for (const auto& [id, shape] :
       {std::pair{"grad_aliases_static_buffer", Shape::Case}, {"driver_crash_beside_capture", Shape::Cuda}}) {
    const CatalogueCase& one = one_case(id);
    const auto reproduces = std::find_if(one.tests.begin(), one.tests.end(),
                                         [](const CatalogueTest& test) { return test.kind == Kind::Reproduces; });
    const Bundle bundle = bundle_of(kRoot, one, reproduces->name, {});
    ASSERT_EQ(bundle.shape, shape);
    std::ofstream(folder + "/run.sh") << bundle.file("run.sh").text;
    for (const char* torch : {"2.11.0", "2.15.0"}) {
      EXPECT_THAT(shell("cd '" + folder + "' && PATH='" + bin + "':$PATH TORCH=" + torch + " sh run.sh").out,
                  HasSubstr("built with " + std::string(torch)))
          << id;
    }
  }
}

// The shim for GoogleTest judges as GoogleTest does.
TEST_F(Triage, Shim_JudgesAsGoogleTestDoes) {
  Bundle bundle = bundle_of(kRoot, one_case("decoder_frozen_after_raise"), "Reproduces", {});
  for (const BundleFile& file : bundle.files) {
    fs::create_directories(fs::path(folder + "/" + file.name).parent_path());
    std::ofstream(folder + "/" + file.name) << file.text;
  }
  std::ofstream(folder + "/mini.cpp") << R"cpp(
#include <stdexcept>
#include "harness/case/case.h"
    using namespace recapture;
    RECAPTURE_CASE = {.title = "t",
                      .sources = {},
                      .documented = "d",
                      .nature = Nature::Defect,
                      .fidelity = Fidelity::Modelled,
                      .tags = {}};
    class Mini : public ::testing::Test {
     protected:
      void SetUp() override {
        if (skip) GTEST_SKIP() << "no " << 1 << " GPU";
      }
      inline static bool skip = false;
      const std::vector<double> wrong{22, 44}, right{14, 27};
    };
    TEST_F(Mini, ControlHolds) {
      EXPECT_EQ(1 + 1, 2) << "never said";
      EXPECT_THAT(std::string("abc"), testing::HasSubstr("b"));
    }
    TEST_F(Mini, ControlFails) { EXPECT_EQ(1, 2) << "because"; }
    TEST_F(Mini, ControlAssertLeaves) {
      ASSERT_TRUE(false);
      EXPECT_ANY_THROW(throw 1);
      std::abort();
    }
    TEST_F(Mini, ControlThrows) { throw std::runtime_error("words"); }
    TEST_F(Mini, Reproduces) { REPRODUCES(wrong, wrong, right); }
    TEST_F(Mini, ReproducesHealthy) { REPRODUCES(right, wrong, right); }
    TEST_F(Mini, ReproducesNeither) { REPRODUCES("900 > x", "900 > y*", "ok*"); }
    TEST_F(Mini, ReproducesPattern) { REPRODUCES("900 > yes", "900 > y*", "ok*"); }
    TEST_F(Mini, ReproducesBesideAFailure) {
      EXPECT_EQ(1, 2);
      REPRODUCES(wrong, wrong, right);
    }
    TEST_F(Mini, ReproducesNothing) {}
    TEST_F(Mini, ReproducesSkipped) { GTEST_SKIP() << "no GPU"; }
    TEST_F(Mini, ReproducesLacking) { NOT_APPLICABLE("no such API"); }
    TEST_F(Mini, ReproducesAtRate) { REPRODUCES_AT_RATE(3, 100); }
    TEST_F(Mini, ReproducesAtNoRate) { REPRODUCES_AT_RATE(0, 100); }
    TEST_F(Mini, FixHolds) {
      int x = 0;
      REMEDY(x = 1);
      WITHOUT_REMEDY(x = 2);
      TRIGGER(++x);
      EXPECT_EQ(x, 2);
    }
  )cpp";
  ASSERT_EQ(shell("cd '" + folder + "' && g++ -std=c++17 -w -I. -Ishim mini.cpp shim/main.cpp -o mini").code, 0);
  const auto ends = [&](const std::string& test, int code, const std::string& words) {
    const ShellResult said = shell("cd '" + folder + "' && ./mini " + test);
    EXPECT_EQ(said.code, code) << test << said.out;
    EXPECT_THAT(said.out, ::testing::EndsWith(words + "\n")) << test;
  };
  ends("ControlHolds", 0, "NOT REPRODUCED: ControlHolds holds");
  ends("ControlFails", 1, "REPRODUCED: ControlFails does not hold");
  EXPECT_THAT(shell("cd '" + folder + "' && ./mini ControlFails").out, HasSubstr("1 == 2: 1 and 2 (because)\n"));
  ends("ControlAssertLeaves", 1, "REPRODUCED: ControlAssertLeaves does not hold");
  ends("ControlThrows", 1, "REPRODUCED: ControlThrows does not hold");
  ends("Reproduces", 1, "REPRODUCED: { 22, 44 }");
  ends("ReproducesHealthy", 0, "NOT REPRODUCED: { 14, 27 }");
  ends("ReproducesNeither", 2, "COULD NOT RUN: 900 > x, which is neither the failure, 900 > y*, nor health");
  ends("ReproducesPattern", 1, "REPRODUCED: 900 > yes");
  EXPECT_EQ(shell("cd '" + folder + "' && ./mini ReproducesBesideAFailure").code, 2);
  ends("ReproducesNothing", 2, "COULD NOT RUN: it did not come to its end");
  ends("ReproducesSkipped", 2, "COULD NOT RUN: no GPU");
  ends("ReproducesLacking", 2, "COULD NOT RUN: Not applicable: no such API");
  ends("ReproducesAtRate", 1, "REPRODUCED: 3 of 100 tries");
  ends("ReproducesAtNoRate", 0, "NOT REPRODUCED: 0 of 100 tries");
  ends("FixHolds", 0, "NOT REPRODUCED: FixHolds holds");
  ends("Unknown", 2, "COULD NOT RUN: there is no test Unknown");
}

// The same for the program of a case, which main() has judged already, but for what ends the process.
TEST_F(Triage, ProgramOfACase_IsJudgedByWhatItShows) {
  const Bundle bundle = bundle_of(kRoot, one_case("optimizer_state_loaded"), "PythonReproduces", {});
  ASSERT_EQ(bundle.shape, Shape::Program);
  std::ofstream(folder + "/judge.py") << bundle.file("judge.py").text;
  const std::string program = contents(kRoot + "/cases/training/optimizer_state_loaded.py");
  const std::string main = program.substr(program.find("def main("));
  const auto ends = [&](const std::string& body, const std::string& name, int code, const std::string& words) {
    std::string text =
        "import os, re, signal, sys, traceback, types, unittest\n"
        "torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: True))\n"
        "DOCUMENTED = 'signal 11'\nHEALTHY = 'right: 1'\n" +
        body + main;
    std::ofstream(folder + "/p.py") << text;
    const ShellResult said = shell("cd '" + folder + "' && python3 judge.py p.py " + name);
    EXPECT_EQ(said.code, code) << body << said.out;
    EXPECT_THAT(said.out, ::testing::EndsWith(words + "\n")) << body;
  };
  const std::string crash = "def fails():\n    os.kill(os.getpid(), 11)  # cause\n    return 'right: 1'\n";
  ends(crash, "fails", 1, "REPRODUCED: signal 11");
  ends(crash, "control", 0, "NOT REPRODUCED: right: 1");
  const std::string replaced = "def fails():\n    return '# cause'  # cause: return 'right: 1'\n";
  ends(replaced, "fails", 2, "COULD NOT RUN: # cause, which is neither the failure nor health");
  ends(replaced, "control", 0, "NOT REPRODUCED: right: 1");
  ends("def fails():\n    os.kill(os.getpid(), 14)\n", "fails", 2,
       "COULD NOT RUN: hangs, which is neither the failure nor health");
  ends("import atexit\ndef fails():\n    atexit.register(os.kill, os.getpid(), 6)\n    return 'right: 1'\n", "fails", 0,
       "NOT REPRODUCED: right: 1");
  ends("def fails():\n    os._exit(3)\n", "fails", 2,
       "COULD NOT RUN: nothing, which is neither the failure nor health");
  ends("def fails():\n    raise unittest.SkipTest('needs 2 GPUs, has 1')\n", "fails", 2,
       "COULD NOT RUN: needs 2 GPUs, has 1");
  ends("def fix_it():\n    return 'right: 1'\n", "fix_it", 0, "NOT REPRODUCED: right: 1");
  ends("def fix_it():\n    os.kill(os.getpid(), 11)\n", "fix_it", 1, "REPRODUCED: signal 11 and not right: 1");
  ends("def fix_it():\n    return 2\n", "fix_it", 1, "REPRODUCED: 2 and not right: 1");
}

// The verdict of run.sh and judge.py on a Python program.
TEST_F(Triage, PythonProgram_IsJudgedByWhatItShows) {
  const Bundle bundle = bundle_of(kRoot, one_case("grad_of_python_graphed_callable"), "Reproduces",
                                  {{"ControlWithoutGraph", {"x", ""}}, {"Reproduces", {"x", ""}}});
  ASSERT_EQ(bundle.shape, Shape::Python);
  std::ofstream(folder + "/judge.py") << bundle.file("judge.py").text;
  const auto ends = [&](const std::string& program, int code, const std::string& words) {
    std::ofstream(folder + "/p.py") << program;
    const ShellResult said = shell("cd '" + folder + "' && python3 judge.py p.py");
    EXPECT_EQ(said.code, code) << program << said.out;
    EXPECT_THAT(said.out, ::testing::EndsWith(words + "\n")) << program;
  };
  const std::string both = "documented = 'TypeError: *'\nhealthy = '[1]'\n";
  ends(both + "seen = [1]", 0, "NOT REPRODUCED: [1]");
  ends(both + "raise TypeError('no\\nmore')", 1, "REPRODUCED: TypeError: no");
  ends(both + "seen = 2", 2, "COULD NOT RUN: 2, which is neither the failure nor health");
  ends(both + "import no_such_module", 2, "COULD NOT RUN: ModuleNotFoundError: No module named 'no_such_module'");
  ends("healthy = '1'\nseen = 1", 0, "NOT REPRODUCED: 1");
  ends("healthy = '1'\nseen = 2", 1, "REPRODUCED: 2 and not 1");
  ends("healthy = '1'\nassert False, 'x'", 1, "REPRODUCED: AssertionError: x and not 1");
  ends("healthy = '1'\nimport no_such_module", 2,
       "COULD NOT RUN: ModuleNotFoundError: No module named 'no_such_module'");
}

TEST(Privacy, PrivateText_IsFound) {
  for (const char* text :
       {"File \"/home/alice/.cache/x.py\"", "/Users/alice/x", "in /srv/alice/y", " /tmp/tmp.abc/z", "see /mnt/data1/q",
        "alice.b@example.com", "10.0.12.7", "host 192.168.1.1, up", "fe80:0:0:0:1:2:3:4", "a4:bf:01:2e:33:9c",
        "GPU-6e2f1c9a-1b2c-3d4e-5f60-718293a4b5c6", "serial 1652622012345"}) {
    EXPECT_THAT(private_parts(text), Not(IsEmpty())) << text;
  }
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  if (std::string(host.data()).size() >= 3 && std::string(host.data()) != "localhost") {
    EXPECT_THAT(private_parts("on " + std::string(host.data()) + ", today"), Not(IsEmpty()));
  }
}

TEST(Privacy, PublicText_IsNotReported) {
  for (const char* text :
       {"driver 580.159.04, CUDA 13.0.88", "/usr/lib/x86_64-linux-gnu/libcuda.so.1(+0x1234)",
        "(site-packages)/torch/x.py", "https://github.com/pytorch/pytorch/issues/181723", "global/self=900>901",
        "folder + \"/nvidia/cuda_nvrtc/lib\"", "// a comment", "cuStreamSynchronize+0x12",
        "70d99e998b4955e0049d13a98d77ae1b14db1f45", "at 0x7faa70aabbcc", "namespace::name", "\"/tmp\""}) {
    EXPECT_THAT(private_parts(text), IsEmpty()) << text;
  }
  ASSERT_EQ(setenv("SLURMD_NODENAME", "nvidia", 1), 0);  // Counts as a name of this machine.
  EXPECT_THAT(private_parts("a program of nvidia, at /home/nvidia/x"), ElementsAre("/home/n", "nvidia"));
  EXPECT_THAT(private_parts("a program of nvidia, at /home/nvidia/x", {}, "import nvidia\n"), ElementsAre("/home/n"));
  EXPECT_THAT(private_parts("a program of nvidia", {}, "import nvidia_smi\n"), ElementsAre("nvidia"));
  unsetenv("SLURMD_NODENAME");
  EXPECT_THAT(private_parts("cuDNN version: 9.19.0.56"), ElementsAre("9.19.0.56"));
  EXPECT_THAT(private_parts("cuDNN version: 9.19.0.56", {"9.19.0.56"}), IsEmpty());
  EXPECT_EQ(without_places("at /tmp/r/x.py, /opt/v/lib/site-packages/torch/a.py", "/tmp/r"),
            "at ./x.py, (site-packages)/torch/a.py");
  for (const char* own : {"/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib64/nvidia/libcuda.so.1", "/lib/nvidia/x"}) {
    EXPECT_EQ(without_places(own, "/tmp/r"), own) << "the driver's folder, not a package's";
  }
  EXPECT_EQ(without_places("/usr/lib/python3/dist-packages/torch/a.py", "/tmp/r"), "(site-packages)/torch/a.py");
}

TEST_F(Triage, BadInput_GetsOneLineAndItsExitCode) {
  python(kHonest);
  fs::create_directories(folder + "/empty");
  fs::create_directories(folder + "/bad");
  std::ofstream(folder + "/bad/x.jsonl") << "no record\n";
  std::ofstream(folder + "/words") << "words\n";
  struct Bad {
    const char* arguments;
    int code;
    const char* words;
  };
  for (const Bad& bad : std::vector<Bad>{
           {"grad_of_python_graphed_calable", 2, "did you mean grad_of_python_graphed_callable"},
           {"gradient", 2, "triage takes one test or case, not 'gradient'"},
           {"'item*'", 2, "triage takes one test or case"},
           {"item_in_capture.FixReadAfterReplay", 2, "is a fix; a bundle shows a failure"},
           {"item_in_capture --release 9.9.9", 2, "9.9.9"},
           {"item_in_capture --records empty", 4, "no record has a result of item_in_capture.PythonReproduces"},
           {"item_in_capture --records bad", 2, "x.jsonl"},
           {"item_in_capture --records none", 2, "none is not a folder"},
           {"multinomial_in_capture.Reproduces --release 2.15.0", 2, "no record shows"},
           {"nemo_run_nvrtc.Reproduces3_0", 2, "cannot be a bundle: it runs files of NeMo's"},
           {"", 2, "TEST is missing"},
           {"driver_crash_beside_capture --python words", 2, "is not a python3"},
           {"driver_crash_beside_capture --libtorch empty", 7, "has no torch"}}) {
    const ShellResult said = triage(bad.arguments);
    EXPECT_EQ(said.code, bad.code) << bad.arguments << "\n" << said.out;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr(bad.words));
  }
}

TEST_F(Triage, NoCompiler_GetsOneLineAndWritesNothing) {
  python(kHonest);
  const ShellResult said = triage(kPython + " --release 2.11.0 " + with_python, "PATH=/none ");
  EXPECT_EQ(said.code, 7) << said.out;
  EXPECT_THAT(said.out, HasSubstr("there is no g++, with which triage reads the Python programs"));
  EXPECT_TRUE(said.is_one_line()) << said.out;
  EXPECT_FALSE(fs::exists(folder + "/" + kPython + ".tar.gz"));
}

TEST_F(Triage, OutputThatIsNoArchive_IsNotOverwritten) {
  python("exit 2");
  std::ofstream(folder + "/words") << "words\n";
  fs::create_directories(folder + "/out");
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  const std::string start = kPython + " --release 2.11.0 " + with_python + "--output ", once = compile_once();
  for (const auto& [output, code, words] :
       std::vector<std::tuple<const char*, int, const char*>>{{"words", 2, "is not an archive"},
                                                              {"out", 2, "is a folder"},
                                                              {"pipe", 2, "is not an archive"},
                                                              {"none/x.tar.gz", 7, "No such file or directory"}}) {
    const ShellResult said = triage(start + output, once);
    EXPECT_EQ(said.code, code) << said.out;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr(words));
  }
  EXPECT_EQ(contents(folder + "/words"), "words\n");
  // Before anything is compiled or run.
  EXPECT_THAT(triage(kPython + " --output out", "PATH=/none ").out,
              HasSubstr("out is a folder; --output takes a file"));
  EXPECT_EQ(triage(kPython + " --output none/x.tar.gz", "PATH=/none ").code, 7);
}

// The bundles that were sent: equal to today's, verified, small, and without private data.
TEST_F(Triage, CommittedBundles_AreVerifiedAndUpToDate) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(kRoot + "/reports/triage")) {
    ++count;
    const std::string name = entry.path().filename().string();
    ASSERT_EQ(name.substr(name.size() - 7), ".tar.gz") << name;
    const std::string test = name.substr(0, name.size() - 7);
    EXPECT_LT(entry.file_size(), 100'000U) << name;
    auto sent = unpacked(entry.path());
    EXPECT_THAT(sent.at(test + "/REPORT.md"), StartsWith("**Verified**: ")) << name;
    const std::string record = sent.at(test + "/record.jsonl");
    const Json environment = parse_json(record.substr(0, record.find('\n')));
    std::vector<std::string> versions;
    for (const auto& [key, value] : environment.items()) {
      if (value.is_string()) versions.push_back(value);
    }
    for (const auto& [file, text] : sent) EXPECT_THAT(private_parts(text, versions), IsEmpty()) << file;
    python("exit 2");
    const ShellResult said =
        triage(test + " --release " + environment.at("release").get<std::string>() + " " + with_python);
    ASSERT_EQ(said.code, 0) << said.out;
    auto today = unpacked(folder + "/" + test + ".tar.gz");
    for (auto& [file, text] : sent) {
      // They were verified on a GPU when a program was still built only once, even if torch changed.
      static const std::string kBuiltOnce = "  [ ! -x program ] || return 0\n";
      if (const size_t at = text.find(kBuiltOnce); at != text.npos) text.erase(at, kBuiltOnce.size());
      // The headers of harness/case/ are those of the verification. New kinds of cases add to them.
      if (file.rfind(test + "/harness/case/", 0) == 0) continue;
      if (file != test + "/REPORT.md" && file != test + "/record.jsonl") {
        EXPECT_EQ(text, today[file]) << file;
      }
    }
    EXPECT_EQ(sent.size(), today.size());
  }
  EXPECT_GE(count, 4U);
}

TEST(Archive, NameTooLongForTheHeader_IsRefused) {
  EXPECT_FALSE(archive_of("x", {{std::string(98, 'a'), ""}}).empty());
  try {
    archive_of("x", {{std::string(99, 'a'), ""}});
    ADD_FAILURE() << "x/ and 99 letters are 101 bytes";
  } catch (const ExitError& stop) {
    EXPECT_EQ(stop.code, Exit::Usage);
  }
}

}  // namespace
}  // namespace recapture

// The programs in Python beside the cases, as `recapture run` runs them: with a real Python, and a torch that is a few
// lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "harness/model/program.h"
#include "harness/model/record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"
#include "harness/verdict/judge.h"
#include "harness/verdict/verdict.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kTorch = R"(
import os
with open(os.path.join(os.path.dirname(__file__), "imports.txt"), "a") as file:
    file.write("imported\n")
class cuda:
    is_available = staticmethod(lambda: True)
)";

class RunPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder + "/ci");
    fs::create_directories(folder + "/build/2.15.0/cases/lies");
    fs::create_directories(folder + "/cases/lies");
    std::ofstream(folder + "/ci/matrix.toml") << "[[release]]\nversion = '2.15.0'\n";
    fs::copy(RECAPTURE_BUILD "/recapture", folder + "/build/recapture");
    fs::copy(RECAPTURE_BUILD "/harness/tests/fake_canary", folder + "/build/canary");
    std::ofstream(folder + "/build/canary.txt") << R"({"gpus":0,"canary":"none","reason":"no driver"})"
                                                << "\n";
    // The torch of this machine's Python.
    const std::string number = shell("python3 -c 'import sys; print(sys.version_info[1], end=str())'").out;
    const std::string program = shell("python3 -c 'import sys; print(sys.executable, end=str())'").out;
    fs::create_directories(folder + "/env/bin");
    fs::create_directories(site() + "/torch");
    fs::create_symlink(program, folder + "/env/bin/python3." + number);
    std::ofstream(site() + "/torch/__init__.py") << kTorch;
    std::ofstream(site() + "/torch/_C.cpython-3" + number + "-x86_64-linux-gnu.so") << "";
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string site() const { return folder + "/env/lib/python3/site-packages"; }

  // Adds a case whose program has these bodies.
  void add(const std::string& name, const std::string& fails,
           const std::string& fix = "    return 'healthy'  # fix: return 'broken'\n",
           const std::string& documented = "wrong*", const std::string& healthy = "healthy") const {
    const std::string example = contents(kRoot + "/cases/sync/item_in_capture.py");
    const size_t imports = example.find("import re"), constants = example.find("DOCUMENTED"),
                 main = example.find("def main(");
    fs::copy(RECAPTURE_BUILD "/harness/tests/liar", folder + "/build/2.15.0/cases/lies/" + name);
    std::ofstream(folder + "/cases/lies/" + name + ".py")
        << "\"\"\"A program.\"\"\"\n\n"
        << example.substr(imports, constants - imports) << "DOCUMENTED = '" << documented << "'\nHEALTHY = '" << healthy
        << "'\n\n\n"
        << "def fails():\n"
        << fails << "\n\ndef fix_holds():\n"
        << fix << "\n\n"
        << example.substr(main);
  }
  ShellResult recapture(const std::string& arguments) const {
    return shell("RECAPTURE_FAKE_SITE='" + site() + "' '" + folder + "/build/recapture' " + arguments);
  }
  std::string record() const { return folder + "/r.jsonl"; }
  Record run(const std::string& arguments) const {
    fs::remove(record());
    const ShellResult ended = recapture("run --jobs 1 --record " + record() + " " + arguments);
    EXPECT_TRUE(fs::exists(record())) << ended.out;
    return read_record(record());
  }
  std::map<std::string, Result> results_of(const std::string& tests, const std::string& arguments) const {
    std::map<std::string, Result> results;
    for (const TestVerdict& row : judge_record(run(tests + " " + arguments), {})) results[row.test] = row.result;
    return results;
  }
  Result result_of(const std::string& test, const std::string& arguments) const {
    return results_of(test, arguments).at(test);
  }

  const std::string folder = ::testing::TempDir() + "recapture-programs-" + std::to_string(getpid());
};

TEST_F(RunPrograms, EachEnd_HasItsOwnResult) {
  add("wrong", "    return 'wrong: 3'\n");
  add("healthy", "    return 'healthy'\n");
  add("different", "    return 'another'\n");
  add("raises", "    raise ValueError('no\\nmore')\n", "    raise ValueError('no')\n", "ValueError: no");
  add("chained", "    try:\n        raise ValueError('no')\n    finally:\n        raise KeyError\n", "    pass\n",
      "ValueError: no > KeyError: ");
  add("crashes", "    import ctypes\n    ctypes.string_at(0)\n", "    import os\n    os.abort()\n", "signal 11");
  add("hangs", "    import threading\n    signal.alarm(1)\n    threading.Event().wait()\n", "    pass\n", "hangs");
  add("lacks", "    raise unittest.SkipTest('this torch has no such function')\n");
  add("few_gpus", "    raise unittest.SkipTest('needs 2 GPUs, has 1')\n");
  add("imports", "    import no_such_library\n");
  add("races", "    return '2 of 30'\n", "    return '0 of 30'\n", "* of 30", "0 of 30");
  add("never", "    return '0 of 30'\n", "    return '1 of 30'\n", "* of 30", "0 of 30");
  add("ranks",
      "    from multiprocessing import get_context\n    ranks = get_context('spawn')\n    queue = ranks.Queue()\n"
      "    rank = ranks.Process(target=queue.put, args=('wrong',))\n    rank.start()\n    return queue.get()\n");
  const std::vector<std::tuple<std::string, Result, Result>> truth = {
      {"wrong", Result::Reproduced, Result::Holds},     {"healthy", Result::Healthy, Result::Holds},
      {"different", Result::Different, Result::Holds},  {"raises", Result::Reproduced, Result::Broken},
      {"chained", Result::Reproduced, Result::Broken},  {"crashes", Result::Reproduced, Result::Broken},
      {"hangs", Result::Reproduced, Result::Broken},    {"lacks", Result::Inapplicable, Result::Holds},
      {"few_gpus", Result::Unavailable, Result::Holds}, {"imports", Result::Unavailable, Result::Holds},
      {"races", Result::Reproduced, Result::Holds},     {"never", Result::Unseen, Result::Broken},
      {"ranks", Result::Reproduced, Result::Holds},
  };
  for (const char* how : {"", "--exec"}) {
    const std::map<std::string, Result> results = results_of("'*.Python*'", how);
    for (const auto& [name, fails, fix] : truth) {
      EXPECT_EQ(to_string(results.at(name + ".PythonReproduces")), to_string(fails)) << name << " " << how;
      EXPECT_EQ(to_string(results.at(name + ".PythonFixHolds")), to_string(fix)) << name << " " << how;
    }
  }
}

TEST_F(RunPrograms, LineOfATest_HasWhatWasSeenAndTheProgramsHash) {
  add("wrong", "    return 'wrong: 3'\n");
  const Record seen = run("wrong.PythonReproduces wrong.PythonFixHolds");
  const TestRecord& line = *seen.find("wrong.PythonReproduces");
  EXPECT_EQ(line.text("seen"), "wrong: 3");
  EXPECT_EQ(line.text("documented"), "wrong*");
  EXPECT_EQ(line.text("healthy"), "healthy");
  EXPECT_EQ(line.text("program"), programs_in_tree(folder).at("wrong").code);
  EXPECT_EQ(line.text("how"), "fork");
  EXPECT_EQ(seen.find("wrong.PythonFixHolds")->object("facts").text("value"), "healthy");
}

TEST_F(RunPrograms, BrokenOnPurpose_FailsAsItMust) {
  add("wrong", "    return 'wrong'  # cause: return 'healthy'\n");
  add("stays", "    return 'wrong'  # cause: return 'healthy'\n",
      "    # fix stays: nothing is left out\n    return 'healthy'\n");
  EXPECT_EQ(result_of("wrong.PythonReproduces", "--break trigger"), Result::Healthy);
  EXPECT_EQ(result_of("wrong.PythonReproduces", "--break value"), Result::Different);
  EXPECT_EQ(result_of("wrong.PythonFixHolds", "--break remedy"), Result::Broken);
  EXPECT_EQ(result_of("stays.PythonFixHolds", "--break remedy"), Result::Inapplicable);
  const ShellResult all = recapture("run --break remedy 'wrong.Python*' --record " + folder + "/b.jsonl");
  EXPECT_EQ(all.code, 0) << all.out;
}

TEST_F(RunPrograms, Torch_IsImportedOnceForAllOfThem) {
  for (const char* name : {"one", "two", "three"}) add(name, "    return 'wrong'\n");
  run("'*.Python*'");
  EXPECT_EQ(contents(site() + "/torch/imports.txt"), "imported\n");
}

TEST_F(RunPrograms, WithoutThePythonOfTheRelease_TheyCannotRun) {
  add("wrong", "    return 'wrong'\n");
  for (const auto& entry : fs::directory_iterator(site() + "/torch")) {
    if (entry.path().extension() == ".so")
      fs::rename(entry.path(), site() + "/torch/_C.cpython-399-x86_64-linux-gnu.so");
  }
  const Record seen = run("wrong.PythonReproduces");
  EXPECT_THAT(seen.tests.at(0).text("skipped"), HasSubstr("no python3.99 on PATH"));
}

TEST_F(RunPrograms, ProgramThatWasEdited_IsNotResumed) {
  add("wrong", "    return 'wrong'\n");
  add("other", "    return 'wrong'\n");
  run("wrong.PythonReproduces");
  std::string lines = contents(record());
  lines.erase(lines.find("{\"end\""));
  std::ofstream(record()) << lines;
  std::ofstream(folder + "/cases/lies/wrong.py", std::ios::app) << "# A comment is no edit.\n";
  EXPECT_EQ(recapture("run --resume " + record()).code, 0);
  std::ofstream(record()) << lines;
  const std::string program = contents(folder + "/cases/lies/wrong.py");
  std::ofstream(folder + "/cases/lies/wrong.py") << "EDITED = 1\n" << program;
  const ShellResult refused = recapture("run --resume " + record());
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, HasSubstr("wrong.py has been edited since"));
}

}  // namespace
}  // namespace recapture

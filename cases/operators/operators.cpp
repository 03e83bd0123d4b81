// Some operators of PyTorch cannot be captured.
//
// Each test is an operator of PyTorch's own list for tests (OpInfo), named with underscores: linalg_inv. Its samples
// are captured and replayed with two sets of values in their inputs, and compared with eager: forward, backward, in
// place, into out=, and once as the first call of a process. A test passes if its samples were tried; its record has
// what became of them. Most refusals come from an operator that waits for the GPU, reads a value on the host, or copies
// between the two.
//
// operators.tsv has the operators of all releases, instead.toml what to capture in place of those that are refused.
//
// Alone:  g++ cases/operators/operators.cpp $(tools/libtorch --flags) -o operators

#include "fixtures/python/operators.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "fixtures/cuda/capture.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "Some operators of PyTorch cannot be captured",
    .sources = {{"PyTorch documentation", "CUDA semantics: Constraints"}},
    .documented = "cudaErrorStreamCaptureUnsupported(900), then cudaErrorStreamCaptureInvalidated(901)",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"host reads"},
    .needs = "gpu python",
    .deadline_s = 900,
};

// The lists are no code: a longer one leaves the records of the operators that it has already as they are.
__asm__(
    ".pushsection .rodata\n"
    "operators_list:\n.incbin \"cases/operators/operators.tsv\"\n.byte 0\n"
    "operators_instead:\n.incbin \"cases/operators/instead.toml\"\n.byte 0\n"
    ".popsection\n");
extern const char operators_list[], operators_instead[];

namespace {

class Operators : public PythonProgramTest {
 public:
  explicit Operators(std::string name = "") : name_(std::move(name)) {}

  void SetUp() override {
    if (const std::string reason = no_gpu_in_child(); !reason.empty()) GTEST_SKIP() << reason;
    PythonTest::SetUp();
  }

  void TestBody() override {
    if (importer != 0 && importer != getpid()) after_fork();
    if (importer == 0) import();
    if (!import_failure.empty()) GTEST_SKIP() << import_failure;
    const std::string seen =
        python("import recapture_operators\nseen = recapture_operators.probe(name)", {{"name", name_}});
    std::istringstream lines(seen);
    size_t forms = 0;
    for (std::string line; std::getline(lines, line);) {
      const size_t tab = line.find('\t');
      if (tab == std::string::npos) break;
      record(line.substr(0, tab), line.substr(tab + 1));
      ++forms;
    }
    if (seen == "absent") NOT_APPLICABLE("this release has no operator " + name_);
    ASSERT_GT(forms, 0U) << seen;
  }

  // Once for all tests: importing OpInfo takes seconds. In the parent of the tests, where there is a server.
  void import() {
    importer = getpid();
    import_failure = imported();
  }

 private:
  std::string imported() {
    try {
      const std::string seen = python(R"py(
import sys, types
module = types.ModuleType("recapture_operators")
exec(compile(program, "<operators>", "exec"), module.__dict__)
sys.modules["recapture_operators"] = module
module.set_up(capture_errors, how, instead)
module.prepare()
seen = "ready"
)py",
                                      {{"program", kOperators},
                                       {"capture_errors", capture_errors()},
                                       {"how", how_broken()},
                                       {"instead", operators_instead}});
      return seen == "ready" ? "" : "OpInfo cannot be imported: " + seen;
    } catch (const std::exception& e) {  // There is no Python.
      return e.what();
    }
  }

  // A process whose parent has used CUDA cannot use it.
  static std::string no_gpu_in_child() {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    const pid_t child = fork();
    if (child == 0) {
      const std::string reason = no_gpu();
      [[maybe_unused]] const ssize_t n = write(ends[1], reason.data(), reason.size());
      _exit(0);
    }
    close(ends[1]);
    std::string reason;
    char part[512];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) reason.append(part, static_cast<size_t>(n));
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return reason;
  }

  static void after_fork() {
    importer = getpid();
    if (auto* tell = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "PyOS_AfterFork_Child"))) tell();
  }

  static std::string how_broken() { return !trigger_on() ? "trigger" : expects_wrong_value() ? "value" : "nothing"; }

  std::string name_;
  static pid_t importer;
  static std::string import_failure;
};

pid_t Operators::importer = 0;
std::string Operators::import_failure;

// The name of an operator as that of a test: linalg_inv.
std::string test_of(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

[[maybe_unused]] const bool registered = [] {
  std::istringstream lines(operators_list);
  std::string line;
  std::getline(lines, line);  // The heading.
  while (std::getline(lines, line)) {
    const std::string name = line.substr(0, line.find('\t'));
    testing::RegisterTest("Operators", test_of(name).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [name]() -> Operators* { return new Operators(name); });
  }
  return true;
}();

}  // namespace

void recapture::prepare_to_serve() { Operators().import(); }

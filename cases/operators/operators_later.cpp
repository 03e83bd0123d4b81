// The graph of a captured operator goes wrong, or ends its process, after something that programs do between replays.
//
// Each test in small letters is an operator of PyTorch's own list for tests (OpInfo), as in the case operators. Some of
// its samples are captured, forward and backward, and replayed twice. Then eight things are done that programs do, and
// each graph is replayed again: other work of the same libraries, a second graph that is replayed and destroyed,
// cuFFT's and cuDNN's plans dropped, the allocator's settings changed, its free memory filled with a pattern, its free
// memory released, and cuBLAS's workspaces cleared. docs/reference/operators.md has each.
//
// Outputs are compared to the bit with those of the first replay, and the pattern is looked at for writes. Last bits
// that vary from replay to replay are no difference. Only where a replay is then wrong, further processes find the
// actions that are wrong alone, so that the record names them.
//
// A test passes if its operator was asked; the record has the answer. Planted operators, each of which an action
// breaks, show that none would go unnoticed.
//
// Alone:  g++ cases/operators/operators_later.cpp $(tools/libtorch --flags) -o operators_later

#include "fixtures/python/operators_later.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "fixtures/cuda/capture.h"
#include "fixtures/python/operators.h"
#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "The graph of a captured operator is not right after something that programs do between its replays",
    .sources = {{"PyTorch documentation", "CUDA semantics: Constraints"}},
    .documented = "not documented; found by trying: not right after something between two replays",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"any program"},
    .needs = "gpu python",
    .deadline_s = 900,
    .effect = Effect::SilentlyWrong,
};

// The list is no code: a longer one leaves the records of the operators that it has already as they are.
__asm__(
    ".pushsection .rodata\n"
    "operators_list:\n.incbin \"cases/operators/operators.tsv\"\n.byte 0\n"
    ".popsection\n");
extern const char operators_list[];

namespace {

pid_t importer = 0;
std::string lack_of_gpu;
std::string import_failure;

void after_fork() {
  importer = getpid();
  if (auto* tell = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "PyOS_AfterFork_Child"))) tell();
}

// A process whose parent has used CUDA cannot use it.
std::string no_gpu_in_child() {
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

class OperatorsLater : public PythonTest {
 public:
  void SetUp() override {
    if (importer == 0) import();
    if (!lack_of_gpu.empty()) GTEST_SKIP() << lack_of_gpu;
    PythonTest::SetUp();
    if (IsSkipped()) return;
    if (importer != getpid()) after_fork();
    if (!import_failure.empty()) GTEST_SKIP() << import_failure;
  }

  // Once for all tests: importing OpInfo takes seconds. In the parent of the tests, where there is a server.
  void import() {
    importer = getpid();
    lack_of_gpu = no_gpu_in_child();
    if (lack_of_gpu.empty()) import_failure = imported();
  }

 protected:
  // The lines about an operator: a fact, a tab and its value.
  std::string probe(const std::string& name, const std::string& how) {
    return python(R"py(
import recapture_operators
recapture_operators.broken = how
seen = recapture_operators.probe_later(name)
)py",
                  {{"name", name}, {"how", how}});
  }

  // Records them. Returns how many.
  static size_t record_lines(const std::string& seen) {
    std::istringstream lines(seen);
    size_t facts = 0;
    for (std::string line; std::getline(lines, line); ++facts) {
      const size_t tab = line.find('\t');
      if (tab == std::string::npos) break;
      record(line.substr(0, tab), line.substr(tab + 1));
    }
    return facts;
  }

  void plant(const char* operator_name) { planted_ = operator_name; }

  // Of the planted operator: "not right after …" if its graph does not survive the action, else "right".
  std::string after(const std::string& action) {
    const std::string seen = probe("planted " + planted_, "nothing");
    if (record_lines(seen) == 0 || seen.find("\"asked\":[]") != std::string::npos) return seen;
    const size_t begin = seen.find("\"wrong\":["), end = seen.find(']', begin);
    if (begin == std::string::npos || end == std::string::npos) return seen;
    const bool is_wrong = seen.substr(begin, end - begin).find('"' + action + '"') != std::string::npos;
    return is_wrong ? "not right after " + action : "right";
  }

 private:
  std::string imported() {
    try {
      const std::string seen =
          python(R"py(
import sys, types
module = types.ModuleType("recapture_operators")
for program in (operators, later):
    exec(compile(program, "<operators>", "exec"), module.__dict__)
sys.modules["recapture_operators"] = module
module.set_up(capture_errors, "nothing", "")
module.prepare()
seen = "ready"
)py",
                 {{"operators", kOperators}, {"later", kOperatorsLater}, {"capture_errors", capture_errors()}});
      return seen == "ready" ? "" : "OpInfo cannot be imported: " + seen;
    } catch (const std::exception& e) {  // There is no Python.
      return e.what();
    }
  }

  std::string planted_ = "nothing";
};

// An operator of the list.
class OneOperator : public OperatorsLater {
 public:
  explicit OneOperator(std::string name) : name_(std::move(name)) {}

  void TestBody() override {
    const std::string seen = probe(name_, how_broken());
    if (seen == "absent") NOT_APPLICABLE("this release has no operator " + name_);
    ASSERT_GT(record_lines(seen), 0U) << seen;
  }

 private:
  static std::string how_broken() { return !trigger_on() ? "trigger" : expects_wrong_value() ? "value" : "nothing"; }

  std::string name_;
};

class Importer : public OperatorsLater {
  void TestBody() override {}
};

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
    testing::RegisterTest("OperatorsLater", test_of(name).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [name]() -> OperatorsLater* { return new OneOperator(name); });
  }
  return true;
}();

constexpr char kRightAfterAll[] =
    R"("asked":["other work","a second graph","dropped FFT plans","dropped cuDNN plans","other settings",)"
    R"("poisoned memory","released memory","cleared workspaces"],"wrong":[])";

TEST_F(OperatorsLater, ControlOperatorThatOwnsItsMemory) {
  const std::string seen = probe("planted nothing", "nothing");
  record_lines(seen);
  EXPECT_THAT(seen, ::testing::HasSubstr(kRightAfterAll));
}

TEST_F(OperatorsLater, ControlOperatorWhoseLastBitsVary) {
  const std::string seen = probe("planted bits that vary", "nothing");
  record_lines(seen);
  EXPECT_THAT(seen, ::testing::HasSubstr(kRightAfterAll));
}

TEST_F(OperatorsLater, ReproducesOtherWork) {
  TRIGGER(plant("other work"));
  REPRODUCES(after("other work"), "not right after other work", "right");
}

TEST_F(OperatorsLater, ReproducesASecondGraph) {
  TRIGGER(plant("a second graph"));
  REPRODUCES(after("a second graph"), "not right after a second graph", "right");
}

TEST_F(OperatorsLater, ReproducesDroppedFftPlans) {
  TRIGGER(plant("dropped FFT plans"));
  REPRODUCES(after("dropped FFT plans"), "not right after dropped FFT plans", "right");
}

TEST_F(OperatorsLater, ReproducesDroppedCudnnPlans) {
  TRIGGER(plant("dropped cuDNN plans"));
  REPRODUCES(after("dropped cuDNN plans"), "not right after dropped cuDNN plans", "right");
}

TEST_F(OperatorsLater, ReproducesOtherSettings) {
  TRIGGER(plant("other settings"));
  REPRODUCES(after("other settings"), "not right after other settings", "right");
}

TEST_F(OperatorsLater, ReproducesPoisonedMemory) {
  TRIGGER(plant("poisoned memory"));
  REPRODUCES(after("poisoned memory"), "not right after poisoned memory", "right");
}

TEST_F(OperatorsLater, ReproducesAWriteToFreedMemory) {
  TRIGGER(plant("a write"));
  REPRODUCES(after("poisoned memory"), "not right after poisoned memory", "right");
}

TEST_F(OperatorsLater, ReproducesABackwardPass) {
  TRIGGER(plant("a backward pass"));
  REPRODUCES(after("poisoned memory"), "not right after poisoned memory", "right");
}

TEST_F(OperatorsLater, ReproducesReleasedMemory) {
  TRIGGER(plant("released memory"));
  REPRODUCES(after("released memory"), "not right after released memory", "right");
}

TEST_F(OperatorsLater, ReproducesClearedWorkspaces) {
  TRIGGER(plant("cleared workspaces"));
  REPRODUCES(after("cleared workspaces"), "not right after cleared workspaces", "right");
}

}  // namespace

void recapture::prepare_to_serve() { Importer().import(); }

// After one thread has called a function compiled with mode="reduce-overhead", the first call of another compiled
// function fails in every other thread.
//
// In releases with this failure, CUDAGraph Trees exist only in the thread that imported them: the first one that called
// a compiled function. A call in another thread that needs a new graph, for another function or another size, fails by
// an assertion without a message. A server meets this if it warms up one model in its main thread and another in a
// worker. Later releases (2.13) create trees in each thread.
//
// Alone:  g++ cases/compile/compiled_function_in_other_thread.cpp $(tools/libtorch --flags) -o compiled_function_in_other_thread

#include "fixtures/python/compiled_settings.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, the first call of a compiled function fails in a second thread",
    .sources = {{"upstream", "pytorch#123177"}},
    .documented = "AssertionError in cudagraph_trees.get_obj",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "threads"},
    .features = {"torch.compile", "threads"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes = {{"FixOneThread", "Call all compiled functions in one thread, from the first call on."},
              {"FixNoCudaGraphs",
               "Compile functions that several threads call without CUDA graphs: mode='default' or "
               "'max-autotune-no-cudagraphs'."}},
};

class CompiledFunctionInOtherThread : public CompiledSettingsTest {
 protected:
  // One call after another, each in its executor's thread; an executor has one thread. `function` and `size` are those
  // of the call with `value`, 1 to 5.
  std::string calls(const std::string& mode, const std::string& executors,
                    const std::string& function = "double if value < 4 else triple", const std::string& size = "8") {
    return compiled(R"py(
from concurrent.futures import ThreadPoolExecutor

@torch.compile(mode="{mode}")
def double(x):
    return x * 2

@torch.compile(mode="{mode}")
def triple(x):
    return x * 3

def call(value):
    function, size = {function}, {size}
    try:
        return function(torch.full((size,), float(value), device="cuda")).tolist()[0]
    except Exception as exception:
        return raised_in(exception)

a, b = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
seen = [executor.submit(call, value).result() for value, executor in enumerate({executors}, 1)]
seen = f"{seen}, {counts()}"
)py",
                    {{"mode", mode}, {"executors", executors}, {"function", function}, {"size", size}});
  }

  const std::string kOne = "(a, a, a, a, a)", kTwo = "(a, a, a, b, b)";
};

constexpr char kAssertion[] =
    "[2.0, 4.0, 6.0, 'AssertionError in get_obj', 'AssertionError in get_obj'], 1 graphs, 2 launches";
constexpr char kValues[] = "[2.0, 4.0, 6.0, 12.0, 15.0], 2 graphs, 3 launches";

TEST_F(CompiledFunctionInOtherThread, Control) { EXPECT_EQ(calls("reduce-overhead", kOne), kValues); }

// The second thread replays what the first one has recorded, or records it for itself (2.13).
TEST_F(CompiledFunctionInOtherThread, ControlRecordedFunction) {
  EXPECT_THAT(calls("reduce-overhead", kTwo, "double"),
              ::testing::AnyOf("[2.0, 4.0, 6.0, 8.0, 10.0], 1 graphs, 4 launches",
                               "[2.0, 4.0, 6.0, 8.0, 10.0], 2 graphs, 3 launches"));
}

TEST_F(CompiledFunctionInOtherThread, Reproduces) {
  std::string executors = kOne;
  TRIGGER(executors = kTwo);
  REPRODUCES(calls("reduce-overhead", executors), kAssertion, kValues);
}

TEST_F(CompiledFunctionInOtherThread, ReproducesOtherSize) {
  std::string executors = kOne;
  TRIGGER(executors = kTwo);
  REPRODUCES(calls("reduce-overhead", executors, "double", "8 if value < 4 else 16"), kAssertion,
             "[2.0, 4.0, 6.0, 8.0, 10.0], 2 graphs, 3 launches");
}

TEST_F(CompiledFunctionInOtherThread, FixOneThread) {
  std::string executors = kTwo;
  REMEDY(executors = kOne);
  EXPECT_EQ(calls("reduce-overhead", executors), kValues);
}

TEST_F(CompiledFunctionInOtherThread, FixNoCudaGraphs) {
  std::string mode = "reduce-overhead";
  REMEDY(mode = "default");
  EXPECT_EQ(calls(mode, kTwo), "[2.0, 4.0, 6.0, 12.0, 15.0], 0 graphs, 0 launches");
}

// After one thread has called a function compiled with mode="reduce-overhead", the first call of another compiled
// function fails in every other thread.
//
// In releases with this failure, CUDAGraph Trees exist only in the thread that imported them: the first one that called
// a compiled function. A call in another thread that needs a new graph, for another function or another size, fails by
// an assertion without a message. A server meets this if it warms up one model in its main thread and another in a
// worker. Later releases (2.15) create trees in each thread.
//
// Alone:  g++ cases/compile/compiled_function_in_other_thread.cpp $(tools/libtorch --flags) -o compiled_function_in_other_thread

#include "fixtures/python/compiled_programs.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, the first call of a compiled function fails in a second thread",
    .sources = {{"upstream", "pytorch#123177"}},
    .documented = "AssertionError in cudagraph_trees.get_obj",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile", "threads"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes = {{"FixOneThread", "Call all compiled functions in one thread, from the first call on."},
              {"FixNoCudaGraphs",
               "Compile functions that several threads call without CUDA graphs: mode='default' or "
               "'max-autotune-no-cudagraphs'."}},
};

class CompiledFunctionInOtherThread : public CompiledTest {
 protected:
  // One call after another, each in its executor's thread; an executor has one thread.
  std::string calls(const std::string& mode, const std::string& executors) {
    return compiled(R"py(
import traceback
from concurrent.futures import ThreadPoolExecutor

@torch.compile(mode="{mode}")
def double(x):
    return x * 2

@torch.compile(mode="{mode}")
def triple(x):
    return x * 3

def call(value):
    function = double if value < 4 else triple
    try:
        return function(torch.full((8,), float(value), device="cuda")).tolist()[0]
    except Exception as e:
        traceback.print_exc()
        return f"{type(e).__name__} in {traceback.extract_tb(e.__traceback__)[-1].name}"

a, b = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
seen = [executor.submit(call, value).result() for value, executor in enumerate({executors}, 1)]
seen = f"{seen}, {counts()}"
)py",
                    {{"mode", mode}, {"executors", executors}});
  }

  const std::string kOne = "(a, a, a, a, a)", kTwo = "(a, a, a, b, b)";
};

constexpr char kValues[] = "[2.0, 4.0, 6.0, 12.0, 15.0], 2 graphs, 3 launches";

TEST_F(CompiledFunctionInOtherThread, Control) { EXPECT_EQ(calls("reduce-overhead", kOne), kValues); }

TEST_F(CompiledFunctionInOtherThread, Reproduces) {
  std::string executors = kOne;
  TRIGGER(executors = kTwo);
  REPRODUCES(calls("reduce-overhead", executors),
             "[2.0, 4.0, 6.0, 'AssertionError in get_obj', 'AssertionError in get_obj'], 1 graphs, 2 launches",
             kValues);
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

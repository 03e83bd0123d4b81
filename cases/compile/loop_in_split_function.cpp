// A function compiled with mode="reduce-overhead" that has a torch.while_loop or scan fails where Inductor splits it at
// the loop.
//
// With graph_partition, which is on by default, releases from 2.10 on leave a loop out of the graphs and record what is
// before and behind it. The loop hands its results to the part behind it as a list. CUDAGraph Trees look at each input
// of a part and not into a list. So they take a result that the part only passes on for memory that the part allocated,
// and miss it in their pool. Where the part computes with the results and passes none on, the second call fails in the
// recording instead, by an assertion about the type of an input. Up to 2.9 a function with a loop runs without CUDA
// graphs, as one with torch.cond does in all releases.
//
// Only Python can state it: the program is loop_in_split_function.py.
//
// Alone:  g++ cases/compile/loop_in_split_function.cpp $(tools/libtorch --flags) -o loop_in_split_function

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a compiled function with a torch.while_loop or scan fails where it is split at the loop",
    .sources = {{"upstream", "pytorch#176310"}, {"upstream", "pytorch#176267"}},
    .documented = "RuntimeError: These storage data ptrs are not allocated in pool (0, 1) but should be: {…}",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes = {{"FixUnrollTheLoop",
               "Write a loop with a fixed number of steps as a Python loop: the compiler unrolls it, and the function "
               "is one graph."},
              {"FixDoNotSplit",
               "Set torch._inductor.config.graph_partition = False: the function is right, and runs without CUDA "
               "graphs."}},
};

// A function compiled with mode="reduce-overhead" that gets its own last output back cannot read it after
// cudagraph_mark_step_begin().
//
// A cache or a state that each step returns and the next one takes is an output of CUDAGraph Trees. The documents
// advise to call cudagraph_mark_step_begin() before each step. It begins a new generation, and the trees free the
// outputs of the last one as the next call begins, before they look at its inputs: the step finds its own state
// overwritten. So the advice against this error is its cause here. A clone of the output, or a state that is updated in
// place, is not of the trees.
//
// Only Python can state it: the program is own_output_after_mark_step.py.
//
// Alone:  g++ cases/compile/own_output_after_mark_step.cpp $(tools/libtorch --flags) -o own_output_after_mark_step

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title =
        "In Python, a compiled function's own last output is freed before the next step reads it, if steps are marked",
    .sources = {{"upstream", "pytorch#175557"}, {"upstream", "pytorch#184804"}},
    .documented =
        "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"torch.compile"},
    .features = {"torch.compile"},
    .needs = "gpu python",
    .deadline_s = 240,
    .fixes = {{"FixCloneTheOutput", "Clone the output before it is the next step's input."},
              {"FixUpdateInPlace", "Keep the state in a tensor of your own, and copy_() each step's output into it."}},
};

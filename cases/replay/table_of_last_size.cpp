// A module that keeps a table for the last size alone frees the table that a graph of another size reads.
//
// A table of positions, a mask or an arange() is made again only when the size changes, and kept in one attribute. The
// warm-up makes it, so the capture reads it from outside of the graph's pool. An eager call with another size, or the
// warm-up of the next graph, replaces the attribute: nothing else holds the old table, its memory goes to other work,
// and each replay computes with what is there. Serving code captures a graph for each of several sizes, and so frees
// the table of each graph but the last. The graph raises no error, and eager code is right. It is
// input_freed_after_capture without a line that drops an input.
//
// Only Python states it: the program is table_of_last_size.py.
//
// Alone:  g++ cases/replay/table_of_last_size.cpp $(tools/libtorch --flags) -o table_of_last_size

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a module that keeps a table for the last size alone frees the one that a graph reads",
    .sources = {{"upstream", "vllm-omni#7556"}},
    .documented = "the new arange cache makes already-captured CUDA graphs read freed memory",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"any program"},
    .needs = "gpu python",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixKeepATableForEachSize",
               "Keep a table for each size, in a dictionary, and drop none that a graph has read."},
              {"FixMakeTheLongestBefore",
               "Make one table for the largest size before the first capture, and take its beginning."},
              {"FixCaptureAgain", "Capture the graph again after the table has been replaced."}},
};

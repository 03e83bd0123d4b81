// After Optimizer.load_state_dict() a graph with the optimizer's step goes on with the old state.
//
// A module's load_state_dict() copies into the parameters that are there. An optimizer's makes new tensors and drops
// its own, so eager steps use what was loaded, and the captured step does not: it has the addresses of the old momentum
// and step count, whose memory is then free. A program that goes back to a checkpoint trains on with the moments that
// led away from it, or with what has taken the memory. No error is raised.
//
// That the tensors are replaced is reported for eager code, for other references to them. We found no report on graphs.
//
// Only Python can state it, as the optimizer is Python's: the program is optimizer_state_loaded.py.
//
// Alone:  g++ cases/training/optimizer_state_loaded.cpp $(tools/libtorch --flags) -o optimizer_state_loaded

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a captured optimizer step ignores what Optimizer.load_state_dict() loads after the capture",
    .sources = {{"upstream", "pytorch#147288"},
                {"PyTorch source", "torch/optim/optimizer.py: Optimizer.load_state_dict"}},
    .documented = "not documented; found by reading: the step goes on with the old momentum, -1.875 in place of -1.5",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"optimizer"},
    .features = {"optimizer"},
    .needs = "gpu python",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixCopyIntoTheState",
               "Copy the loaded tensors into those of the optimizer's state with copy_(), instead of loading them."},
              {"FixCaptureAgain", "Load the state, then capture the step again."}},
};

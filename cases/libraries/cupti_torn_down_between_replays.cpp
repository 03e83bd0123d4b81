// A process crashes that replays a graph in and between profiles, if CUPTI is torn down after each profile.
//
// PyTorch's profiler gets the kernels of a replay from CUPTI. With TEARDOWN_CUPTI=1 it finalises CUPTI at the end of
// each profile and initialises it again in the next one, so that an idle CUPTI slows nothing down. A graph is then
// launched under another CUPTI than the one that it was first launched under. PyTorch turned the teardown off where
// Inductor's switch for CUDA graphs is set, which a graph that a program captures does not set, and has left it on for
// CUDA 12.6 and newer, where the crash was believed to be fixed.
//
// Only Python can state it: the program is cupti_torn_down_between_replays.py.
//
// Alone:  g++ cases/libraries/cupti_torn_down_between_replays.cpp $(tools/libtorch --flags) -o cupti_torn_down_between_replays

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, replays in and between profiles crash if CUPTI is torn down after each profile",
    .sources = {{"upstream", "pytorch#112507"}, {"upstream", "pytorch#150957"}},
    .documented = "crashes on 2nd non-lazy CUPTI re-init after teardown (CUDA 12)",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"extensions"},
    .features = {"extensions"},
    .needs = "gpu python",
    .effect = Effect::Crashes,
    .fixes = {{"FixKeepCupti", "Leave TEARDOWN_CUPTI unset, or set it to 0 before the first profile."}},
};

// A replay waits for eager work on other streams, of which it is independent, once more streams are busy than the
// process has connections to the GPU.
//
// A process has eight hardware connections, or as many as CUDA_DEVICE_MAX_CONNECTIONS names when CUDA starts, and its
// streams share them in turn. What two streams of one connection submit is handed to the GPU in the order of
// submission. So a graph launch behind a kernel that waits for an earlier one on such a stream waits as well, however
// many branches the graph has. A single kernel with the same stream would wait too; a graph holds back all of its work
// at once. With one connection, which some frameworks set so that collectives keep their order, any busy stream delays
// every replay. Nothing reports it: the values are right, and the step takes longer.
//
// Here eight streams of PyTorch's pool have a quarter of a second of work each, and the graph is launched on a ninth.
//
// Only Python states it: the program is replay_waits_for_eager_work.py.
//
// Alone:  g++ cases/streams/replay_waits_for_eager_work.cpp $(tools/libtorch --flags) -o replay_waits_for_eager_work

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a replay waits for unrelated eager work if more streams are busy than there are connections",
    .sources = {{"upstream", "pytorch#176582"}},
    .documented = "CUDA Graph replay can be delayed by when unrelated eager work is submitted on another stream",
    .nature = Nature::Constraint,
    .fidelity = Fidelity::Modelled,
    .tags = {"side streams"},
    .features = {"side streams"},
    .needs = "gpu python",
    .effect = Effect::Works,
    .fixes = {{"FixUseFewerStreams",
               "Use fewer streams at a time than CUDA_DEVICE_MAX_CONNECTIONS, which is 8 by default and may be 32, and "
               "do not set it to 1 beside such work."}},
    .connections = 8,
};

// Memory that is allocated under torch.cuda.use_mem_pool() in a capture does not come from that pool.
//
// The allocator looked for the pool of an allocation among the pools that were entered, in their order, and a capture
// enters its own first. So a buffer that has to be of a certain pool, because its memory is registered with NCCL or
// NVSHMEM or comes from an allocator of one's own, silently came from the graph's. Later releases refuse to enter a
// pool in a capture, and the newest allow it and keep the pool with the graph.
//
// Only Python can state it in all releases: the program is pool_entered_in_capture.py.
//
// Alone:  g++ cases/memory/pool_entered_in_capture.cpp $(tools/libtorch --flags) -o pool_entered_in_capture

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, use_mem_pool() in a capture is without effect: the memory comes from the graph's pool",
    .sources = {{"upstream", "pytorch#168137"}},
    .documented = "a user mempool entered during graph capture: allocations go to another pool, silently",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"memory pools", "NCCL"},
    .features = {"memory pools"},
    .needs = "gpu python",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixAllocateBeforeTheCapture",
               "Allocate the buffer under use_mem_pool() before the capture, and write into it in the capture."},
              {"FixCaptureIntoThePool", "Capture with pool=pool.id, so that all memory of the graph is of the pool."}},
};

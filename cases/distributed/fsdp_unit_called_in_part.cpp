// A module of a FSDP unit that is called alone leaves an event behind, and the next capture waits for it.
//
// fully_shard([norm, head]) makes one unit of two modules: FSDP gathers it before the first one runs, and takes it as
// done after the last. Where a program calls one of them outside the model, as for a loss in chunks, the unit stays
// open: FSDP keeps the event of its all-gather and takes the unit, and not the model, for the root of what follows. So
// its streams do not wait for the model's stream at the next forward(). In a captured one they are then not part of the
// capture, and the model waits for what they gather: 905. Eager code is right. In 2.15 a backward pass closes the unit,
// and a forward pass alone does not.
//
// The process group is PyTorch's fake one, which copies nothing between ranks, so that one GPU is enough. Only values
// of the shard of this rank are looked at.
//
// Only Python can state it: the program is fsdp_unit_called_in_part.py.
//
// Alone:  g++ cases/distributed/fsdp_unit_called_in_part.cpp $(tools/libtorch --flags) -o fsdp_unit_called_in_part

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, a capture breaks after a module of a FSDP unit was called alone, outside the model",
    .sources = {{"upstream", "torchtitan#4143"}},
    .documented =
        "some all_gather_state is left on the module, which contains some CUDA event outside of CUDA graph capture",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"FSDP", "NCCL"},
    .features = {"FSDP"},
    .needs = "gpu python",
    .deadline_s = 120,
    .fixes = {{"FixShardThemOneByOne",
               "Call fully_shard() for each module that runs alone, and not for a list of them."},
              {"FixCallItInTheModel", "Call all modules of a unit in the forward() of the model that FSDP shards."}},
};

# case: pinned_block_recycled_under_graph
# without ReproducesAllocatedInside: from 2.11 on its block is not used again
import torch

import recapture
from programs import run


def replayed(drop, replays_before=0):
    x = torch.zeros(1024, device="cuda")
    pinned = torch.full((1024,), 3.0).pin_memory()
    x.copy_(pinned, non_blocking=True)
    torch.cuda.synchronize()
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.copy_(pinned, non_blocking=True)  # FOUND ReproducesAllocatedBefore: freed
            y = x * 2
        for _ in range(replays_before):
            graph.replay()
            torch.cuda.synchronize()
        if drop:
            del pinned
        other = torch.full((1024,), 9.0).pin_memory()
        if not replays_before:
            graph.replay()
        y.sum().item()
        other.sum()
    return report


def ControlDroppedAfterTheReplay():
    return replayed(drop=True, replays_before=1)


def ReproducesAllocatedBefore():
    return replayed(drop=True)


def FixKeepTheBuffer():
    return replayed(drop=False)


if __name__ == "__main__":
    run(globals())

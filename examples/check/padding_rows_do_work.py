# case: padding_rows_do_work
# without ControlEager: there is no graph in it
# without ReproducesWithZeros: only the program knows that row 0 is in use, until a batch has it
import torch

import recapture
from programs import run


def serve(batches, padding=None, rows=64):
    """A graph for eight rows writes a cache by slots; a batch has the slots from 10 on, and the rest is padding."""
    cache = torch.zeros(rows, device="cuda")
    slots, tokens = torch.zeros(8, dtype=torch.long, device="cuda"), torch.zeros(8, device="cuda")
    cache[slots] = tokens
    torch.cuda.synchronize()
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            cache[slots] = tokens
        for size in batches:
            slots[:size] = torch.arange(10, 10 + size, device="cuda")  # FOUND ReproducesWithSlotsOfAnEarlierBatch: padding
            if padding is not None:
                slots[size:] = padding  # FOUND Reproduces: padding
            graph.replay()
    return report


def Control():
    return serve((8, 8))


def Reproduces():
    return serve((5, 5), -1)


def ReproducesWithSlotsOfAnEarlierBatch():
    return serve((8, 5))


def FixSlotOfItsOwn():
    return serve((8, 5), 64, 65)


if __name__ == "__main__":
    run(globals())

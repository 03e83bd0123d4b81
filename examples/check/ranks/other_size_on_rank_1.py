# rank 0: ranks; rank 1: ranks
import itertools

import torch


def program(rank, device):
    calls = (number for number in itertools.count(1))  # check() sets no generator back, as it does iterators.

    def step(x):
        call = next(calls)
        y = x * 2
        if rank == 1 and call > 9:  # Rank 1 pads to another size in the capture.
            y = torch.cat([y, y])
        torch.distributed.all_reduce(y)  # FOUND 0 1
        return y.sum(0, keepdim=True)

    return step, lambda i: torch.full((8,), 1.0 + i, device=device)

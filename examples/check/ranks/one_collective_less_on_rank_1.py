# rank 0: ranks; rank 1: ranks
import itertools

import torch


def program(rank, device):
    calls = (number for number in itertools.count(1))  # check() sets no generator back, as it does iterators.

    def step(x):
        call = next(calls)
        y, z = x * 2, x * 3
        torch.distributed.all_reduce(y)  # FOUND 1
        if rank == 0 or call <= 9:  # Three warm-ups and two times three calls come before the capture.
            torch.distributed.all_reduce(z)  # FOUND 0
        return y + z

    return step, lambda i: torch.full((8,), 1.0 + i, device=device)

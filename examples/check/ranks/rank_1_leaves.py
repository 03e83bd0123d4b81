# rank 0: ranks; rank 1: leaves
import itertools

import torch


def program(rank, device):
    calls = (number for number in itertools.count(1))  # check() sets no generator back, as it does iterators.

    def step(x):
        call = next(calls)
        if rank == 1 and call == 5:
            raise ValueError("rank 1 has no batch")
        return torch.relu(x) + 1

    return step, lambda i: torch.full((8,), 1.0 + i, device=device)

# rank 0: ranks; rank 1: leaves
import itertools

import torch


def program(rank, device):
    calls = itertools.count(1)  # check() does not set it back, as it does numbers and lists.

    def step(x):
        call = next(calls)
        if rank == 1 and call == 5:
            raise ValueError("rank 1 has no batch")
        return torch.relu(x) + 1

    return step, lambda i: torch.full((8,), 1.0 + i, device=device)

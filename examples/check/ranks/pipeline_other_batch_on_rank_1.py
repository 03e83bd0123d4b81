# rank 0: ranks; rank 1: ranks
import itertools

import torch


def program(rank, device):
    weight = torch.full((8, 8), 0.125, device=device)
    handed = torch.zeros(4, 8, device=device)
    calls = (number for number in itertools.count(1))  # check() sets no generator back, as it does iterators.

    def step(x):
        call = next(calls)
        rows = 4
        if rank == 0:
            y = x @ weight
            torch.distributed.send(y, 1)  # FOUND 0
            return y
        if call > 9:  # Three warm-ups and two times three calls come before the capture.
            rows = 2
        torch.distributed.recv(handed[:rows], 0)  # FOUND 1
        return handed @ weight

    return step, lambda i: torch.full((4, 8), 1.0 + i, device=device)

# rank 0: none; rank 1: side_effect
import torch


def program(rank, device):
    seen = []

    def step(x):
        y = x * 2
        torch.distributed.all_reduce(y)
        if rank == 1:
            seen.append(y)  # FOUND 1
        return y

    return step, lambda i: torch.full((8,), 1.0 + i, device=device)

# rank 0: none; rank 1: none
import torch


def program(rank, device):
    weight = torch.full((8,), 2.0, device=device)

    def step(x):
        y = x * weight
        torch.distributed.all_reduce(y)
        return y + 1

    return step, lambda i: torch.full((8,), 1.0 + i + rank, device=device)

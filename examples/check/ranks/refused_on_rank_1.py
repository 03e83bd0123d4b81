# rank 0: none; rank 1: refused
import torch


def program(rank, device):
    def step(x):
        y = x * 2
        torch.distributed.all_reduce(y)
        if rank == 1:
            y.sum(0, keepdim=True).item()  # FOUND 1
        return y + 1

    return step, lambda i: torch.full((8,), 1.0 + i, device=device)

# rank 0: wrong_value; rank 1: host_value
import torch


def program(rank, device):
    steps = [0]

    def step(x):
        steps[0] += rank
        y = x * (1 + steps[0])  # FOUND 1
        torch.distributed.all_reduce(y)
        return y

    return step, lambda i: torch.full((8,), 1.0 + i, device=device)

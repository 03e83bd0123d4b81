# rank 0: host_value; rank 1: none
import itertools

import torch


def program(rank, device):
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
    fully_shard(model)
    scales = itertools.cycle((1.0, 0.5, 0.25))  # As often as check() has inputs.

    def step(x):
        with torch.no_grad():
            y = model(x)
            return y * next(scales) if rank == 0 else y  # FOUND 0

    return step, lambda i: torch.full((4, 8), 1.0 + i + rank, device=device)

# rank 0: none; rank 1: none
import torch
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce


def program(rank, device):
    torch.manual_seed(1)
    first, second = torch.randn(8, 16), torch.randn(16, 8)
    columns, rows = first.chunk(2, 1)[rank].contiguous().to(device), second.chunk(2, 0)[rank].contiguous().to(device)

    def step(x):
        y = all_reduce((x @ columns).relu() @ rows, "sum", torch.distributed.group.WORLD)
        return all_gather_tensor(y, 0, torch.distributed.group.WORLD) * 2

    return step, lambda i: torch.full((4, 8), 1.0 + i, device=device)

# rank 0: none; rank 1: none
import torch


def program(rank, device):
    torch.manual_seed(1)
    weight = torch.randn(8, 8).to(device)
    handed = torch.zeros(4, 8, device=device)

    def step(x):
        if rank == 0:
            y = x @ weight
            torch.distributed.send(y, 1)
            return y
        torch.distributed.recv(handed, 0)
        return handed @ weight

    return step, lambda i: torch.full((4, 8), 1.0 + i, device=device)

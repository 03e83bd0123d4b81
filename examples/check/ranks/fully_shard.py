# rank 0: none; rank 1: none
import torch


def program(rank, device):
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
    for part in (model[0], model[2], model):
        fully_shard(part)

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, lambda i: torch.full((4, 8), 1.0 + i + rank, device=device)

# rank 0: none; rank 1: none
import torch


def program(rank, device):
    from torch.distributed.fsdp import FullyShardedDataParallel
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
    # Units inside: the outermost one keeps its parameters gathered. A limit would wait for an event in the capture.
    options = {"device_id": torch.device(device, rank) if device == "cuda" else torch.device(device),
               "limit_all_gathers": False}
    for number in (0, 2):
        model[number] = FullyShardedDataParallel(model[number], **options)
    model = FullyShardedDataParallel(model, **options)

    def step(x):
        with torch.no_grad():
            return model(x)

    return step, lambda i: torch.full((4, 8), 1.0 + i + rank, device=device)

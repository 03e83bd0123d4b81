# rank 0: none; rank 1: none
import torch


def program(rank, device):
    torch.manual_seed(1)
    model = torch.nn.Linear(8, 4).to(device)
    ids = [rank] if device == "cuda" else None
    stream = torch.cuda.Stream() if device == "cuda" else None
    with torch.cuda.stream(stream):
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    with torch.cuda.stream(stream):
        for _ in range(11):
            step(torch.ones(4, 8, device=device))
    return step, lambda i: torch.full((4, 8), 1.0 + i + rank, device=device)

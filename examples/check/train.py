import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()
average = [parameter.detach().clone() for parameter in model.parameters()]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
updates = torch.zeros((), dtype=torch.long)


def step(x, target):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        updates.add_(1)
        weight = torch.clamp(9 / (10 + updates), min=0.01)  # Soon the average changes slowly.
        for slow, parameter in zip(average, model.parameters()):
            slow.add_(weight * (parameter - slow))
    return loss


def make_inputs(i):
    generator = torch.Generator("cuda").manual_seed(i)
    return (torch.randn(32, 64, device="cuda", generator=generator),
            torch.randint(8, (32,), device="cuda", generator=generator))

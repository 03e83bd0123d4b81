# api: exception cause: unregistered_generator|unregistered_generator_in_python; each step tries again, for one reason.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

generator = torch.Generator("cuda")


def drop(values):
    return values * torch.bernoulli(torch.full_like(values, 0.5), generator=generator)  # CULPRIT


for step in range(5):
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            drop(x)
    except RuntimeError as error:
        print(step, "eager:", type(error).__name__)
        drop(x)

# api: exception cause: unregistered_generator|unregistered_generator_in_python
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

generator = torch.Generator(device="cuda")
generator.manual_seed(1)
with torch.cuda.graph(g):
    torch.rand(8, generator=generator, device="cuda")  # CULPRIT

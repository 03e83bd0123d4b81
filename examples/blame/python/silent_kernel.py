# api: none silent: cuLaunchKernel
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def step():
    with torch.cuda.stream(torch.cuda.default_stream()):
        return x.mul_(2)  # SILENT


with torch.cuda.graph(g):
    step()
    y = x + 1

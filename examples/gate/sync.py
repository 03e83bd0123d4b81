"""Reads a value back inside a capture, and continues without a graph if that is refused."""
import torch

x = torch.ones(8, device="cuda")


def step():
    y = x * 2
    return y if y.sum().item() > 3 else -y


graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        step()
except RuntimeError:
    step()
torch.cuda.synchronize()

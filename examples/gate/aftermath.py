"""Continues after a failed capture with another one."""
import torch

x = torch.ones(1024, device="cuda")
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        y = x * 2
        raise ValueError("a shape that cannot be captured")
except ValueError:
    pass
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
graph.replay()
torch.cuda.synchronize()

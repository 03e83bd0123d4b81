"""Copies the result of each replay into pinned memory."""
import torch

x, host = torch.ones(1024, device="cuda"), torch.empty(1024, pin_memory=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
for _ in range(3):
    graph.replay()
    host.copy_(y, non_blocking=True)
torch.cuda.synchronize()

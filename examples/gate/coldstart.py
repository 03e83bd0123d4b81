"""Captures a convolution and a matrix product."""
import torch

conv = torch.nn.Conv2d(3, 8, 3, device="cuda")
x, w = torch.ones(2, 3, 16, 16, device="cuda"), torch.ones(14, 14, device="cuda")
with torch.no_grad():
    for _ in range(2):
        conv(x) @ w
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = conv(x) @ w
graph.replay()
torch.cuda.synchronize()

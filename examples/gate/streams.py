"""Forks a second stream off the capture and joins it."""
import torch

x, side = torch.ones(1024, device="cuda"), torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    z = x + 1
    torch.cuda.current_stream().wait_stream(side)
    z = z + y
graph.replay()
torch.cuda.synchronize()

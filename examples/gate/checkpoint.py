"""Captures a step that recomputes a block with dropout."""
import torch
from torch.utils.checkpoint import checkpoint

block = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout()).cuda()
x = torch.ones(8, 16, device="cuda", requires_grad=True)


def step():
    checkpoint(block, x, use_reentrant=False, preserve_rng_state=False).sum().backward()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
graph.replay()
torch.cuda.synchronize()

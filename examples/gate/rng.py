"""Replays random numbers of the default generator and of its own one."""
import torch

x = torch.ones(1024, device="cuda")
own = torch.Generator(device="cuda")
graph = torch.cuda.CUDAGraph()
graph.register_generator_state(own)
with torch.cuda.graph(graph):
    y = torch.nn.functional.dropout(x) + torch.rand(1024, device="cuda", generator=own)
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()

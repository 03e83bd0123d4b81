"""Captures a training step, forward and backward."""
import torch

model = torch.nn.Linear(16, 16, device="cuda")
x = torch.ones(8, 16, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        model.zero_grad(set_to_none=True)
        model(x).sum().backward()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
model.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    model(x).sum().backward()
graph.replay()
torch.cuda.synchronize()

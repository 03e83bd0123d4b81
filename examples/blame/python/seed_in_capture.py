# api: exception cause: generator_seeded_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    torch.cuda.manual_seed(5)  # CULPRIT
    y = torch.rand(8, device="cuda")

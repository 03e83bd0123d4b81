# api: any cause: library_that_synchronises_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

indices = torch.arange(8, device="cuda")
torch.bincount(indices)
torch.cuda.synchronize()
with torch.cuda.graph(g):
    torch.bincount(indices)  # CULPRIT

# api: any cause: library_that_synchronises_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

x.to_sparse()
torch.cuda.synchronize()
with torch.cuda.graph(g):
    z = x.to_sparse()  # CULPRIT

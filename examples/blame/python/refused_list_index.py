# api: exception cause: host_index_in_capture; the list becomes a tensor on the CPU, which is copied.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

x[[0, 2]]
torch.cuda.synchronize()
with torch.cuda.graph(g):
    z = x[[0, 2]]  # CULPRIT

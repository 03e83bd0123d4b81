# api: cuStreamSynchronize code: 900 cause: host_branch_in_capture|library_that_synchronises_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

other = x.clone()
with torch.cuda.graph(g):
    y = x + 1
    if not torch.equal(x, other):  # CULPRIT
        y = y + 1

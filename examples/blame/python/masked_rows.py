# api: cuStreamSynchronize code: 900 cause: boolean_index_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

hidden, other = torch.ones(64, 8, device="cuda"), torch.zeros(64, 8, device="cuda")
keep = torch.arange(64, device="cuda") % 2 == 0
hidden[~keep] = other[~keep]
torch.cuda.synchronize()
with torch.cuda.graph(g):
    hidden[~keep] = other[~keep]  # CULPRIT

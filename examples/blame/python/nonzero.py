# api: cuStreamSynchronize code: 900 cause: nonzero_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
torch.nonzero(x)
with torch.cuda.graph(g):
    torch.nonzero(x)  # CULPRIT

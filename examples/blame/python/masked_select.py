# api: cuStreamSynchronize code: 900 cause: boolean_index_in_capture|nonzero_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    z = torch.masked_select(x, x > 0)  # CULPRIT

# api: cuCtxSynchronize code: 900 cause: device_synchronize_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    torch.cuda.synchronize()  # CULPRIT

# api: cuCtxSynchronize code: 900 cause: capture_inside_capture; torch.cuda.graph() synchronizes as it begins.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    y = x + 1
    with torch.cuda.graph(torch.cuda.CUDAGraph()):  # CULPRIT
        y = y + 1

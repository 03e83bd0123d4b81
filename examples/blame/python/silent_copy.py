# api: none silent: cuMemcpy
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
side = torch.cuda.Stream()
source = torch.ones(1024, device="cuda")
with torch.cuda.graph(g):
    with torch.cuda.stream(side):
        x.copy_(source, non_blocking=True)  # SILENT
    y = x + 1

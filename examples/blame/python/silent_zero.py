# api: none silent: cuLaunchKernel
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
side = torch.cuda.Stream()
with torch.cuda.graph(g):
    with torch.cuda.stream(side):
        x.zero_()  # SILENT
    y = x + 1

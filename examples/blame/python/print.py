# api: cuStreamSynchronize code: 900 cause: print_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
str(x)
with torch.cuda.graph(g):
    print("loss", x.sum())  # CULPRIT

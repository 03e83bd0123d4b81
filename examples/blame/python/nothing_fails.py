# api: none
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    y = x + 1
g.replay()
torch.cuda.synchronize()
print(y.sum().item())

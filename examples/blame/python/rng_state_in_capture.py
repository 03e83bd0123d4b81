# api: none; PyTorch 2.10 and newer permit it.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    state = torch.cuda.get_rng_state()
    y = torch.rand(8, device="cuda")

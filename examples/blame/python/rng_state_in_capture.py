# api: exception cause: rng_state_in_python_capture|rng_state_read_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    state = torch.cuda.get_rng_state()  # CULPRIT
    y = torch.rand(8, device="cuda")

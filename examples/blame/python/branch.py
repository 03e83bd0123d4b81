# api: cuStreamSynchronize code: 900 cause: host_branch_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def clip(value):
    if value > 1:  # CULPRIT
        return value / 2
    return value


with torch.cuda.graph(g):
    clip(x.sum())

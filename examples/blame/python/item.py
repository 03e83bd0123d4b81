# api: cuStreamSynchronize code: 900 cause: item_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def step():
    loss = (x * 2).sum()
    return loss.item()  # CULPRIT


with torch.cuda.graph(g):
    step()

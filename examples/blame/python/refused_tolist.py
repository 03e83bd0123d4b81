# api: exception cause: item_in_capture|cpu_copy_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def lengths(tensor):
    return tensor.tolist()  # CULPRIT


with torch.cuda.graph(g):
    y = x * len(lengths(x[:4]))

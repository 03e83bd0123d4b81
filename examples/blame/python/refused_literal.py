# api: exception cause: tensor_literal_in_capture; the helper's cache is empty at the first call.
import functools

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


@functools.lru_cache
def window():
    return torch.tensor([0.25, 0.5, 0.25], device="cuda")  # CULPRIT


with torch.cuda.graph(g):
    y = x[:3] * window()

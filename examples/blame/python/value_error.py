# api: exception cause: exception_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def check(tensor):
    if tensor.shape[0] != 512:
        raise ValueError(f"512 wanted, not {tensor.shape[0]}")  # CULPRIT


with torch.cuda.graph(g):
    y = x + 1
    check(y)

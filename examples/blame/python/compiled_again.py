# api: any cause: compiled_function_in_python_capture|library_that_synchronises_in_capture; another dtype than that of the warm-up
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


@torch.compile(dynamic=False)  # CULPRIT
def scale(values):
    return values * 2 + 1


scale(x)
torch.cuda.synchronize()
with torch.cuda.graph(g):
    scale(x.half())

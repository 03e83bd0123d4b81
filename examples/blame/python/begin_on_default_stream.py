# api: exception cause: capture_on_default_stream|unknown
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

try:
    g.capture_begin()  # CULPRIT
except RuntimeError as error:
    print(type(error).__name__)

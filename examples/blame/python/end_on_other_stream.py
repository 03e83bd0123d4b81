# api: exception cause: capture_end_on_other_stream|unknown
import os

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

first, second = torch.cuda.Stream(), torch.cuda.Stream()
with torch.cuda.stream(first):
    g.capture_begin()
    y = x + 1
try:
    with torch.cuda.stream(second):
        g.capture_end()  # CULPRIT
except RuntimeError as error:
    print(type(error).__name__, flush=True)
os._exit(0)  # The capture is still open; at exit the interpreter would free its objects.

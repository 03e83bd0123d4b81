# api: exception cause: exception_in_capture; a program that leaves in the middle of its capture
import sys

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def check(settings):
    if "seed" not in settings:
        sys.exit(4)  # CULPRIT


with torch.cuda.graph(g):
    y = x + 1
    check({})

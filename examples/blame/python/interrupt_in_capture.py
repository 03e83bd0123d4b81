# api: exception cause: exception_in_capture; Ctrl-C in the middle of a capture
import signal

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def warm_up():
    signal.raise_signal(signal.SIGINT)  # CULPRIT
    return x + 1


with torch.cuda.graph(g):
    y = x + 1
    warm_up()

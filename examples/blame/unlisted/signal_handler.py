# api: cuCtxSynchronize code: 900 cause: device_synchronize_in_capture; a timer's handler runs between two lines.
import signal

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def report(signum, frame):
    torch.cuda.synchronize()  # CULPRIT


signal.signal(signal.SIGALRM, report)
with torch.cuda.graph(g):
    y = x + 1
    signal.raise_signal(signal.SIGALRM)
    y = y + 1

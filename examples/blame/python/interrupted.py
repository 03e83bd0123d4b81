# api: none; a training loop that Ctrl-C ends, long after its capture
import signal

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    y = x + 1
for step in range(1000):
    g.replay()
    if step == 10:
        signal.raise_signal(signal.SIGINT)

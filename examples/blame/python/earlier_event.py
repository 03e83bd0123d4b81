# api: cuStreamWaitEvent code: 905 cause: capture_waits_for_earlier_work
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
other = torch.cuda.Stream()
event = torch.cuda.Event()
with torch.cuda.stream(other):
    z = x * 3
event.record(other)
with torch.cuda.graph(g):
    event.wait()  # CULPRIT
    y = x + 1

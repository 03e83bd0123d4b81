# api: any fails: sometimes cause: default_stream_work_beside_blocking_capture|capture_waits_for_earlier_work|side_stream_not_joined|unknown; the consumer says that it works on the default stream.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    y = x + 1
    capsule = y.__dlpack__(stream=1)  # CULPRIT

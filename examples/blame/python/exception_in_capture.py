# api: cuStreamEndCapture code: 904 cause: side_stream_not_joined; all that the driver sees of the ValueError
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
side = torch.cuda.Stream()
with torch.cuda.graph(g):  # CULPRIT
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        z = x * 3
    raise ValueError("shape")

# api: exception cause: exception_in_capture; the end of the capture returns 904, which follows from the exception
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
side = torch.cuda.Stream()
with torch.cuda.graph(g):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        z = x * 3
    raise ValueError("shape")  # CULPRIT

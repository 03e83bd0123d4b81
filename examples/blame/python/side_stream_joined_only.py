# api: cuStreamWaitEvent code: 905 cause: side_stream_without_fork
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    z = x * 3
    del z  # Its memory is the side stream's next tensor.
torch.cuda.synchronize()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    g.capture_begin()
    y = x + 1
    with torch.cuda.stream(side):
        z = x * 3
    stream.wait_stream(side)  # CULPRIT
    g.capture_end()

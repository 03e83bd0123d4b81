# api: cuMemAlloc_v2|cuMemCreate code: 900 cause: side_stream_without_fork; only PyTorch's allocator calls cudaMalloc.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
side = torch.cuda.Stream()
big = torch.ones(1 << 26, device="cuda")
with torch.cuda.graph(g):
    y = x + 1
    with torch.cuda.stream(side):
        z = big * 3  # CULPRIT

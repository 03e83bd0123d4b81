# api: cuStreamSynchronize code: 900 cause: stream_synchronize_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

with torch.cuda.graph(g):
    torch.cuda.current_stream().synchronize()  # CULPRIT

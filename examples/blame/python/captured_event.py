# api: cuEventSynchronize code: 907|900 cause: event_synchronize_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
event = torch.cuda.Event()
with torch.cuda.graph(g, capture_error_mode="relaxed"):
    y = x + 1
    event.record()
    event.synchronize()  # CULPRIT

# api: cuEventQuery code: 900 cause: event_query_in_other_thread
import threading

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
event = torch.cuda.Event()
event.record()
torch.cuda.synchronize()


def poll():
    event.query()  # CULPRIT


poller = threading.Thread(target=poll, name="poller")
with torch.cuda.graph(g):
    poller.start(), poller.join()  # CAPTURE
    y = x + 1

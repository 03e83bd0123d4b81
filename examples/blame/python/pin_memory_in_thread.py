# api: cuMemHostAlloc code: 900 cause: pinned_allocation_in_other_thread
import threading

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def load():
    torch.empty(1 << 20).pin_memory()  # CULPRIT


with torch.cuda.graph(g):
    loader = threading.Thread(target=load, name="loader")
    loader.start()
    loader.join()  # CAPTURE
    y = x + 1

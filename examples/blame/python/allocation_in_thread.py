# api: cuMemAlloc_v2|cuMemCreate code: 900 cause: allocation_in_other_thread
import threading

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def load():
    torch.empty(1 << 28, device="cuda")  # CULPRIT


with torch.cuda.graph(g):
    loader = threading.Thread(target=load, name="loader")
    loader.start()
    loader.join()  # CAPTURE
    y = x + 1

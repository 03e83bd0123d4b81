# api: cuCtxSynchronize code: 900 cause: capture_inside_capture|wait_in_other_thread; each thread captures for itself.
import threading

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def capture():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):  # CULPRIT
        x + 1


with torch.cuda.graph(g):
    y = x + 1
    second = threading.Thread(target=capture, name="second")
    second.start()
    second.join()  # CAPTURE

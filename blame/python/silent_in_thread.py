# api: none silent: cuLaunchKernel
import threading

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
side = torch.cuda.Stream()


def prepare():
    with torch.cuda.stream(side):
        x.mul_(2)  # SILENT


with torch.cuda.graph(g):
    helper = threading.Thread(target=prepare, name="helper")
    helper.start()
    helper.join()
    y = x + 1

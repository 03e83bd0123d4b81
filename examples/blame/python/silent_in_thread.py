# api: none silent: cuLaunchKernel
import sys
import threading

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
side = torch.cuda.Stream()


main = threading.get_ident()


def prepare():
    while sys._current_frames()[main].f_code.co_filename != threading.__file__:
        pass  # Until the capturing thread waits for this one.
    with torch.cuda.stream(side):
        x.mul_(2)  # SILENT


with torch.cuda.graph(g):
    helper = threading.Thread(target=prepare, name="helper")
    helper.start()
    helper.join()
    y = x + 1

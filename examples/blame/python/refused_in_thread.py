# api: exception cause: cpu_copy_in_capture; the thread that captures is not the main one, and nobody catches what it raises.
import threading

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def capture():
    with torch.cuda.graph(g):
        (x + 1).cpu()  # CULPRIT


thread = threading.Thread(target=capture, name="capture")
thread.start()
thread.join()
print("the main thread goes on")

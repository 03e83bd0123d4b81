# api: exception cause: cpu_copy_in_capture; the capturing thread is not the main one, and its exception is not caught.
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

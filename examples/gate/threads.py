"""A thread works on its own stream while the main thread captures."""
import threading

import torch

x, stop = torch.ones(1024, device="cuda"), threading.Event()
own = torch.cuda.Stream()


def work():
    with torch.cuda.stream(own):
        y = torch.ones(1024, device="cuda")
        while not stop.is_set():
            y.mul_(1)


worker = threading.Thread(target=work, name="loader")
worker.start()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, capture_error_mode="thread_local"):
    z = x * 2
stop.set()
worker.join()
graph.replay()
torch.cuda.synchronize()

# api: any cause: communicator_made_in_capture; not the watchdog: the first collective makes the communicator in the capture.
import os
import socket

import torch


def capture():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    x = torch.randn(1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.distributed.all_reduce(x)  # CULPRIT
    graph.replay()
    torch.cuda.synchronize()
    del graph  # Or the group waits for it.
    torch.distributed.destroy_process_group()


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
capture()

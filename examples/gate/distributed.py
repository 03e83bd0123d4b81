"""Captures a step of DistributedDataParallel, with one rank."""
import os

import torch

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29677", RANK="0", WORLD_SIZE="1")
torch.distributed.init_process_group("nccl")
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16, device="cuda"))
    x = torch.ones(8, 16, device="cuda")
    for _ in range(11):
        model.zero_grad(set_to_none=True)
        model(x).sum().backward()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
    model(x).sum().backward()
graph.replay()
torch.cuda.synchronize()
del graph
torch.distributed.destroy_process_group()

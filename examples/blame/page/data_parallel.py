# api: cuStreamWaitEvent code: 906 cause: ddp_on_default_stream; made, and warmed up, on the default stream
import os
import socket

import torch


def train(model, batch):
    model.zero_grad()
    model(batch).sum().backward()  # CAPTURE


def capture():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    torch.distributed.barrier()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(128, 128).cuda())
    batch = torch.randn(32, 128, device="cuda")
    for _ in range(15):
        train(model, batch)
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
        train(model, batch)


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
capture()

# api: cuStreamWaitEvent code: 906 cause: ddp_on_default_stream
import os
import socket

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
import torch

torch.cuda.set_device(0)
torch.distributed.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[0])
x = torch.ones(4, 8, device="cuda")
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(11):
        model.zero_grad(set_to_none=True)
        model(x).sum().backward()
torch.cuda.synchronize()
with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
    model.zero_grad(set_to_none=True)
    model(x).sum().backward()  # CAPTURE

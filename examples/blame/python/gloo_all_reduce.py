# api: cuStreamSynchronize code: 900 cause: gloo_collective_in_capture; a thread of gloo waits for the copy to the host.
import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(1024, device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    y = x * 2
    dist.all_reduce(y)  # CULPRIT

# api: cuGraphExecDestroy code: 900 cause: graph_destroyed_in_capture
import gc

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
old = torch.cuda.CUDAGraph()
with torch.cuda.graph(old):
    z = x * 3


class Holder:
    pass


with torch.cuda.graph(g):
    y = x + 1
    holder = Holder()
    holder.itself, holder.graph = holder, old
    del holder, old
    gc.collect()  # CULPRIT

# api: exception cause: cpu_copy_in_capture; each size falls back to eager, for one reason.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def step(batch):
    return (batch * 2).cpu()  # CULPRIT


for size in (1, 2, 4):
    batch = torch.ones(size, device="cuda")
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            step(batch)
    except RuntimeError as error:
        print("eager for", size, type(error).__name__, step(batch).sum())

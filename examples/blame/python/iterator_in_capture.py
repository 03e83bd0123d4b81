# api: none; exceptions that are handled inside a capture, and a capture in a handler
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

batches = iter([x, x + 1])
with torch.cuda.graph(g):
    while True:
        try:
            y = next(batches) * 2
        except StopIteration:
            break
    y = getattr(x, "no_such_attribute", y) + 1
g.replay()
try:
    {}["no such key"]
except KeyError:
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second):
        y = x + 1
    second.replay()
torch.cuda.synchronize()
print(y.sum().item())

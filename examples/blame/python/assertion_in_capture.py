# api: exception cause: exception_in_capture; the program goes on without a graph.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


def step(batch):
    assert batch.shape[0] == 512, "the batch has another size"  # CULPRIT
    return batch * 2


try:
    with torch.cuda.graph(g):
        y = x + 1
        step(x)
except AssertionError as error:
    print(error)
print((x * 2).sum().item())

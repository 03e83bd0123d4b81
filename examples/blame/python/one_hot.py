# api: any cause: library_that_synchronises_in_capture; it reads the greatest class.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

labels = torch.arange(8, device="cuda")
torch.nn.functional.one_hot(labels)
torch.cuda.synchronize()


def encode(classes):
    return torch.nn.functional.one_hot(classes)  # CULPRIT


with torch.cuda.graph(g):
    encode(labels)

# api: cuStreamSynchronize code: 900 cause: host_branch_in_capture; the hook runs on autograd's thread.
import os

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

layer = torch.nn.Linear(1024, 4).cuda()


def skip_overflow(gradient):
    if gradient.isinf().any():  # CULPRIT
        gradient.zero_()
    return gradient


layer.weight.register_hook(skip_overflow)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    layer(x).sum().backward()
torch.cuda.synchronize()
try:
    with torch.cuda.graph(g, stream=stream):
        layer(x).sum().backward()
except RuntimeError as error:
    print(type(error).__name__, flush=True)
os._exit(0)  # At exit the interpreter may abort: autograd's thread still handles the error.

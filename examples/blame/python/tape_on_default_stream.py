# api: cuStreamWaitEvent code: 906 cause: gradient_tape_on_default_stream; on autograd's thread, which runs no Python
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

p = torch.ones(8, device="cuda", requires_grad=True)
q = torch.ones(8, device="cuda", requires_grad=True)
r = q + 1  # On the default stream, as is its node.
with torch.cuda.graph(g):
    (p * r).sum().backward()  # CAPTURE

# api: cuStreamSynchronize code: 900 cause: nonzero_in_capture|boolean_index_in_capture; autograd's thread has no Python: the line that called backward
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
p = torch.ones(8, device="cuda", requires_grad=True)
mask = torch.arange(8, device="cuda") > 3
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    loss = p[mask].sum()
torch.cuda.synchronize()
with torch.cuda.graph(g, stream=stream):
    loss.backward()  # CAPTURE

# api: cuStreamSynchronize code: 900 cause: nonzero_in_capture; autograd's thread counts the zeros of a product.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

p = torch.ones(8, device="cuda", requires_grad=True)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    p.prod().backward()
torch.cuda.synchronize()
with torch.cuda.graph(g, stream=stream):
    p.prod().backward()  # CAPTURE

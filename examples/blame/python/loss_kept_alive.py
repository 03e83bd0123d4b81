# api: cuStreamWaitEvent code: 906 cause: gradient_tape_on_default_stream; the tape lives as long as its loss.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

layer = torch.nn.Linear(1024, 4).cuda()
kept = layer(x).sum()  # On the default stream.
kept.backward(retain_graph=True)
torch.cuda.synchronize()
with torch.cuda.graph(g):
    layer(x).sum().backward()  # CAPTURE

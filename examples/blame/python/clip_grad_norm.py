# api: cuStreamSynchronize code: 900 cause: gradient_norm_read_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

layer = torch.nn.Linear(8, 8).cuda()
for parameter in layer.parameters():
    parameter.grad = torch.ones_like(parameter)
torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0, error_if_nonfinite=True)
torch.cuda.synchronize()
with torch.cuda.graph(g):
    torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0, error_if_nonfinite=True)  # CULPRIT

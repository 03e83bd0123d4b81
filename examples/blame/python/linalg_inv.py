# api: cuStreamSynchronize|cuCtxSynchronize|cuEventSynchronize|exception cause: library_that_synchronises_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

matrix = torch.eye(64, device="cuda") * 2
torch.linalg.inv(matrix)
torch.cuda.synchronize()
with torch.cuda.graph(g):
    torch.linalg.inv(matrix)  # CULPRIT

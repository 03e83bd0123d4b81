# api: any cause: library_that_synchronises_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

covariance = torch.eye(16, device="cuda")
torch.linalg.cholesky(covariance)
torch.cuda.synchronize()
with torch.cuda.graph(g):
    factor = torch.linalg.cholesky(covariance)  # CULPRIT

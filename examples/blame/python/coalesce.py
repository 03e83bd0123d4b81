# api: any cause: library_that_synchronises_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

indices = torch.tensor([[0, 0, 1]], device="cuda")
sparse = torch.sparse_coo_tensor(indices, torch.ones(3, device="cuda"), (4,), check_invariants=False)
sparse.coalesce()
torch.cuda.synchronize()
with torch.cuda.graph(g):
    sparse.coalesce()  # CULPRIT

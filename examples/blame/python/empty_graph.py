# api: none silent: cuStreamEndCapture
import warnings

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()
warnings.simplefilter("ignore")
with torch.cuda.graph(g):  # SILENT
    pass

# api: cuCtxSynchronize code: 900 cause: device_synchronize_in_capture
import numpy
import torch
from numba import cuda

counts = cuda.to_device(numpy.zeros(8))
cuda.synchronize()
x = torch.ones(1024, device="cuda")
y = x + 1
torch.cuda.synchronize()
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    y = x + 1
    cuda.synchronize()  # CULPRIT

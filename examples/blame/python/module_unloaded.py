# api: cuModuleUnload code: 900 cause: module_unloaded_in_capture; the last reference to a compiled kernel goes.
import ctypes

import torch

NOTHING = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing() { ret; }\n"
cuda = ctypes.CDLL("libcuda.so.1")


class Kernel:
    def __init__(self):
        self.module = ctypes.c_void_p()
        assert cuda.cuModuleLoadData(ctypes.byref(self.module), NOTHING) == 0

    def __del__(self):
        cuda.cuModuleUnload(self.module)  # CULPRIT


x = torch.ones(1024, device="cuda")
kernel = Kernel()
torch.cuda.synchronize()
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    y = x * 2
    kernel = None

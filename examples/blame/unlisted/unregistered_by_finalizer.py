# api: cuMemHostUnregister code: 900 cause: pinned_release_in_capture|unknown; the object that owns a buffer dies in the capture.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


class Staging:
    def __init__(self, size):
        self.memory = torch.empty(size, dtype=torch.uint8)
        torch.cuda.check_error(int(torch.cuda.cudart().cudaHostRegister(self.memory.data_ptr(), size, 0)))

    def __del__(self):
        torch.cuda.cudart().cudaHostUnregister(self.memory.data_ptr())  # CULPRIT


staging = Staging(1 << 20)
with torch.cuda.graph(g):
    y = x + 1
    staging = None
    y = y + 1

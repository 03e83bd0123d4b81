# api: cuMemHostAlloc code: 900 fails: sometimes cause: pinned_allocation_in_capture; PyTorch 2.10 and newer permit it.
import torch


def capture():
    host = torch.randn(8 << 20)
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
        pinned = host.pin_memory()  # CULPRIT
        torch.randn(8 << 20, pin_memory=True)
        del pinned
        torch._C._host_emptyCache()


capture()

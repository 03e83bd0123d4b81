# api: cuMemHostAlloc code: 900 cause: pinned_allocation_in_capture
import torch


def capture():
    host = torch.randn(8 << 20)
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
        pinned = host.pin_memory()  # CULPRIT
        torch.randn(8 << 20, pin_memory=True)
        del pinned
        torch._C._host_emptyCache()


capture()

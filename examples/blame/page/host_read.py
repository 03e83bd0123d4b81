# api: cuStreamSynchronize code: 900 cause: item_in_capture
import torch


def capture():
    source = torch.randn(1, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
        doubled = source * 2
        print("doubled:", doubled.item())  # CULPRIT


capture()

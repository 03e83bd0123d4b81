# api: none; a capture may allocate, and empty_cache() frees nothing in it.
import torch


def capture():
    empty_cache, torch.cuda.empty_cache = torch.cuda.empty_cache, lambda: None
    small = torch.randn(8, device="cuda")
    del small  # It stays in the cache: the begin of the capture does not empty it.
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
        torch.cuda.empty_cache = empty_cache
        large = torch.randn(32, device="cuda")
        torch.cuda.empty_cache()
    torch.cuda.empty_cache()
    return large


capture()

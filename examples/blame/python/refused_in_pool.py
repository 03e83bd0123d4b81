# api: exception cause: pageable_copy_in_capture; a pool hands the exception of its thread to the main one.
from concurrent.futures import ThreadPoolExecutor

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

table = torch.ones(1024)


def capture():
    with torch.cuda.graph(g):
        return x + table.cuda()  # CULPRIT


with ThreadPoolExecutor(1) as pool:
    pool.submit(capture).result()

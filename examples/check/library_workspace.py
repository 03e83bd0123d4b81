# case: workspace_grown_after_capture
"""A library whose work is no operator: only the addresses in the graph's nodes show its workspace."""
import ctypes

import torch

import recapture
from programs import run

SIZE = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")


class Library:
    """It copies through a workspace, and releases it after each call unless it keeps it."""

    def __init__(self, keeps=False):
        self.workspace, self.keeps = torch.empty(SIZE, device="cuda"), keeps

    def copy(self, to, source):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        to, source = ctypes.c_uint64(to.data_ptr()), ctypes.c_uint64(source.data_ptr())
        cuda.cuMemcpyDtoDAsync_v2(to, source, ctypes.c_size_t(4 * SIZE), stream)  # FOUND Reproduces: freed

    def copied(self, x):
        y = torch.empty(SIZE, device="cuda")
        self.copy(self.workspace, x)
        self.copy(y, self.workspace)
        if not self.keeps:
            self.workspace = torch.empty(SIZE, device="cuda")
        return y * 2


def inputs(i):
    return torch.full((SIZE,), 5.0 + 2 * i, device="cuda")


def Reproduces():
    return recapture.check(Library().copied, inputs)


def FixKeepTheWorkspace():
    return recapture.check(Library(keeps=True).copied, inputs)


if __name__ == "__main__":
    run(globals())

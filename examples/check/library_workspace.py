# case: workspace_grown_after_capture
"""A library whose work is no operator: only the addresses in the graph's nodes tell of its workspace."""
import ctypes

import torch

import recapture
from programs import run

SIZE = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")


class Library:
    """It copies through a workspace, and each call takes another one: a new one, or one of two."""

    def __init__(self, spare=None):
        self.workspace, self.spare = torch.empty(SIZE, device="cuda"), spare

    def copy(self, to, source):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        to, source = ctypes.c_uint64(to.data_ptr()), ctypes.c_uint64(source.data_ptr())
        cuda.cuMemcpyDtoDAsync_v2(to, source, ctypes.c_size_t(4 * SIZE), stream)  # FOUND Reproduces: freed

    def copied(self, x):
        y = torch.empty(SIZE, device="cuda")
        self.copy(self.workspace, x)
        self.copy(y, self.workspace)
        if self.spare is None:
            self.workspace = torch.empty(SIZE, device="cuda")
        else:
            self.workspace, self.spare = self.spare, self.workspace
        return y * 2


def inputs(i):
    return torch.full((SIZE,), 5.0 + 2 * i, device="cuda")


def Reproduces():
    return recapture.check(Library().copied, inputs)


def FixKeepTheWorkspace():
    return recapture.check(Library(spare=torch.empty(SIZE, device="cuda")).copied, inputs)


if __name__ == "__main__":
    run(globals())

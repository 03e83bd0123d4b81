# case: copy_refused_in_capture
# without Reproduces: it raises
# without ReproducesInEachMode: it raises
import ctypes

import torch

import recapture
from programs import run

staged = torch.zeros(4, device="cuda")


class Attributes(ctypes.Structure):  # CUmemcpyAttributes
    _fields_ = [("order", ctypes.c_int), ("source", ctypes.c_int * 2), ("target", ctypes.c_int * 2), ("flags", ctypes.c_uint)]


cuda = ctypes.CDLL("libcuda.so.1")
WITHOUT = "" if hasattr(cuda, "cuMemcpyBatchAsync_v2") else "the driver is older than CUDA 13"


def batch_copy(x):
    """A library's batch of one copy. It ignores the driver's error, which no later call of PyTorch reports."""
    to, source = ctypes.c_uint64(staged.data_ptr()), ctypes.c_uint64(x.data_ptr())
    size, first, attributes = ctypes.c_size_t(16), ctypes.c_size_t(0), Attributes(order=1)
    stream, count = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), ctypes.c_size_t(1)
    batch = [ctypes.byref(to), ctypes.byref(source), ctypes.byref(size), count]
    cuda.cuMemcpyBatchAsync_v2(*batch, ctypes.byref(attributes), ctypes.byref(first), count, stream)  # FOUND ReproducesMissingCopy: outside


def doubled_after_batch(x):
    batch_copy(x)
    return staged * 2


def doubled_after_copy(x):
    staged.copy_(x)
    return staged * 2


def doubled():
    return staged * 2


def inputs(i):
    return torch.full((4,), 5.0 + 2 * i, device="cuda")


def Control():
    return recapture.check(doubled_after_copy, inputs)


def ReproducesMissingCopy():
    return WITHOUT or recapture.check(doubled_after_batch, inputs)


def FixPlainCopy():
    return recapture.check(doubled_after_copy, inputs)


def FixCopyOutsideTheCapture():
    stream = torch.cuda.Stream()  # The call takes no default stream.

    def before(i):
        x = inputs(i)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            batch_copy(x)
        torch.cuda.synchronize()
        return ()

    return WITHOUT or recapture.check(doubled, before)


if __name__ == "__main__":
    run(globals())

# case: copy_refused_in_capture
# without Reproduces: it raises
# without ReproducesInEachMode: it raises
import ctypes

import torch

import recapture
from programs import run

staged = torch.zeros(4, device="cuda")


class Attributes(ctypes.Structure):  # cudaMemcpyAttributes
    _fields_ = [("order", ctypes.c_int), ("source", ctypes.c_int * 2), ("target", ctypes.c_int * 2), ("flags", ctypes.c_uint)]


def runtime():
    """CUDA 13's, whose cudaMemcpyBatchAsync has eight parameters."""
    try:
        return ctypes.CDLL("libcudart.so.13")
    except OSError:
        return None


def batch_copy(x):
    """A batch of one copy, whose error is not looked at."""
    to, source = ctypes.c_void_p(staged.data_ptr()), ctypes.c_void_p(x.data_ptr())
    size, first, attributes = ctypes.c_size_t(16), ctypes.c_size_t(0), Attributes(order=1)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    count = ctypes.c_size_t(1)
    runtime().cudaMemcpyBatchAsync(ctypes.byref(to), ctypes.byref(source), ctypes.byref(size), count, ctypes.byref(attributes), ctypes.byref(first), count, stream)  # FOUND ReproducesMissingCopy: outside


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
    return recapture.check(doubled_after_batch, inputs) if runtime() else "there is no CUDA runtime 13"


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

    return recapture.check(doubled, before) if runtime() else "there is no CUDA runtime 13"


if __name__ == "__main__":
    run(globals())

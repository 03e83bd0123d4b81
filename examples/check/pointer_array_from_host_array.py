# case: pointer_array_from_host_array
# without ControlEager: check() runs eager code in each variant
import ctypes

import torch

import recapture
from programs import run

cuda = ctypes.CDLL("libcuda.so.1")
a, b = torch.full((1,), 3.0, device="cuda"), torch.full((1,), 4.0, device="cuda")
table = torch.zeros(2, dtype=torch.long, device="cuda")
pinned = torch.zeros(2, dtype=torch.long).pin_memory()


def upload(array):
    """A library's part: the operands' addresses, and from there to the device."""
    pointers = (ctypes.c_int64 * 2).from_address(array)
    pointers[0], pointers[1] = a.data_ptr(), b.data_ptr()
    cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(table.data_ptr()), ctypes.c_void_p(array), ctypes.c_size_t(16),  # FOUND Reproduces: freed
                              ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))


def with_a_temporary(x):
    array = (ctypes.c_int64 * 2)()
    upload(ctypes.addressof(array))
    return table.clone(), x * 2


def with_pinned_memory(x):
    upload(pinned.data_ptr())
    return table.clone(), x * 2


def without_upload(x):
    return table.clone(), x * 2


def inputs(i):
    return torch.full((1,), 1.0 + i, device="cuda")


def Control():
    return recapture.check(with_pinned_memory, inputs)


def Reproduces():
    return recapture.check(with_a_temporary, inputs)


def FixKeepThePinnedArray():
    return recapture.check(with_pinned_memory, inputs)


def FixUploadBeforeTheCapture():
    upload(pinned.data_ptr())
    torch.cuda.synchronize()
    return recapture.check(without_upload, inputs)


if __name__ == "__main__":
    run(globals())

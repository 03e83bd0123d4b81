# case: library_work_outside_graph
# without ControlEager: check() runs eager code in each variant
import ctypes

import torch

import recapture
from programs import run

cuda = ctypes.CDLL("libcuda.so.1")
staged = torch.zeros(4, device="cuda")
side = torch.cuda.Stream()
through = (ctypes.c_float * 4)()


def address(tensor):
    return ctypes.c_uint64(tensor.data_ptr())


def inputs(i):
    return torch.full((4,), 5.0 + 2 * i, device="cuda")


def stage(x):
    """A library that goes through the host, on the legacy stream."""
    cuda.cuMemcpyDtoH_v2(through, address(x), ctypes.c_size_t(16))
    cuda.cuMemcpyHtoD_v2(address(staged), through, ctypes.c_size_t(16))  # FOUND ReproducesOnTheLegacyStream: outside


def staged_on_the_legacy_stream(x):
    stage(x)
    return staged * 2


def staged_on_a_stream(x):
    with torch.cuda.stream(side):
        staged.copy_(x)  # FOUND ReproducesOnAStreamOfItsOwn: outside
    return staged * 2


def staged_on_the_current_stream(x):
    cuda.cuMemcpyDtoDAsync_v2(address(staged), address(x), ctypes.c_size_t(16),
                              ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
    return staged * 2


def staged_on_a_forked_stream(x):
    current = torch.cuda.current_stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        staged.copy_(x)
    current.wait_stream(side)
    return staged * 2


def doubled():
    return staged * 2


def Control():
    return recapture.check(staged_on_the_current_stream, inputs)


def ReproducesOnTheLegacyStream():
    return recapture.check(staged_on_the_legacy_stream, inputs)


def ReproducesOnAStreamOfItsOwn():
    return recapture.check(staged_on_a_stream, inputs)


def FixPassTheCurrentStream():
    return recapture.check(staged_on_the_current_stream, inputs)


def FixForkAndJoinItsStream():
    return recapture.check(staged_on_a_forked_stream, inputs)


def FixCallBeforeEachReplay():
    def before(i):
        stage(inputs(i))
        return ()

    return recapture.check(doubled, before)


if __name__ == "__main__":
    run(globals())

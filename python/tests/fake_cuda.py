"""`with fake_cuda():` runs a PyTorch program for the GPU on the host, with the fake graphs of stand_in.py.

"cuda" is the host, a stream is a number, and torch.cuda.graph() and make_graphed_callables() capture by StandIn's rules:
0-dim tensors count as host memory. Operators run in a capture, too, but what they computed is overwritten afterwards.
"""
import contextlib
import itertools
from unittest import mock

import torch
from stand_in import FakeGraph, SideStream
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from recapture._check import recording
from recapture._check.watching import CudaEvents

recording._places[__file__] = recording.SKIPPED  # Its lines are no program's.
_WARM_UPS = 3


def on_device(tensor):
    return tensor.dim() > 0 or tensor.untyped_storage().nbytes() > 16  # A view of one element is no number.


class Stream:
    numbers = itertools.count(2)

    def __init__(self, *_, number=None, **__):
        self.cuda_stream = next(Stream.numbers) if number is None else number

    def synchronize(self):
        pass

    def wait_stream(self, other):
        pass


class Event:
    def record(self, stream=None):
        pass

    wait = synchronize = record


class CUDAGraph(FakeGraph):
    capturing = False  # Whether any is.

    def __init__(self):
        super().__init__(SideStream(), on_device)

    def capture_begin(self, *_, **__):
        CUDAGraph.capturing = True
        self.__enter__()

    def capture_end(self):
        self.__exit__(None, None, None)
        CUDAGraph.capturing = False
        with _disable_current_modes(), torch.no_grad():
            for storage in self.own.values():  # A capture computes nothing.
                torch.empty(0, dtype=torch.uint8).set_(storage).fill_(0x46)

    def replay(self):
        with _disable_current_modes():
            super().replay()

    def pool(self):
        return (0, id(self))


@contextlib.contextmanager
def graph(captured, **_):
    captured.capture_begin()
    yield
    captured.capture_end()


def make_graphed_callables(module, samples, **_):
    """One callable, whose gradients go to its inputs and parameters alone, as PyTorch's own."""
    leaves = [tensor for tensor in (*samples, *(module.parameters() if isinstance(module, torch.nn.Module) else ()))
              if tensor.requires_grad]
    for _ in range(_WARM_UPS):
        output = module(*samples)
        if leaves:
            torch.autograd.grad(output, leaves, torch.empty_like(output), allow_unused=True)
    forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(forward):
        output = module(*samples)
    gradients = []
    if leaves:
        upstream = torch.empty_like(output)
        with torch.cuda.graph(backward):
            gradients = torch.autograd.grad(output, leaves, upstream, allow_unused=True)

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(_, *inputs):
            for sample, given in zip(samples, inputs):
                if sample.data_ptr() != given.data_ptr():
                    sample.detach().copy_(given)
            forward.replay()
            return output.detach()

        @staticmethod
        def backward(_, given):
            upstream.copy_(given)
            backward.replay()
            by_leaf = {id(leaf): gradient for leaf, gradient in zip(leaves, gradients)}
            return tuple(by_leaf.get(id(tensor)) for tensor in (*samples, *leaves[len(samples):]))

    if not isinstance(module, torch.nn.Module):
        return Graphed.apply
    module.forward = Graphed.apply
    return module


class _OnHost(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.cuda:
            return args[0]
        if "cuda" in str(kwargs.get("device", "")):
            kwargs["device"] = "cpu"
        args = tuple("cpu" if isinstance(value, str) and value.startswith("cuda") else value for value in args)
        return function(*args, **kwargs)


class Events(CudaEvents):
    def on_device(self, tensor):
        return on_device(tensor)

    def is_capturing(self):
        return CUDAGraph.capturing

    def pool_ranges(self, graph):
        return [(storage.data_ptr(), storage.data_ptr() + storage.nbytes()) for storage in graph.own.values()]


def _autocast(device, **options):
    return torch.amp.autocast("cpu", dtype=torch.bfloat16, **options)


@contextlib.contextmanager
def fake_cuda():
    with contextlib.ExitStack() as stack:
        for name, fake in (("CUDAGraph", CUDAGraph), ("graph", graph), ("Stream", Stream), ("Event", Event),
                           ("stream", lambda _: contextlib.nullcontext()), ("synchronize", lambda device=None: None),
                           ("current_stream", lambda device=None: Stream(number=1)), ("is_available", lambda: True),
                           ("make_graphed_callables", make_graphed_callables),
                           ("graph_pool_handle", lambda: (0, 0))):
            stack.enter_context(mock.patch.object(torch.cuda, name, fake))
        stack.enter_context(mock.patch.object(torch, "autocast", _autocast))
        stack.enter_context(mock.patch.object(torch.nn.Module, "cuda", lambda module, device=None: module))
        stack.enter_context(_OnHost())
        yield Events()

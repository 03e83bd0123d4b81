"""Twenty faults of a capture, planted into the stand-in: what tools/discover must find, and where."""
import dataclasses
import os
import signal
import threading
import weakref
from typing import Callable, Tuple

import torch
from discovery.host import OnHost
from stand_in import StandIn

from recapture._check.cuda import Refused


def scale(stand_in, index):
    for tensor in results_of(stand_in, index):
        tensor.mul_(3) if tensor.is_floating_point() or tensor.is_complex() else tensor.add_(1)


def zero(stand_in, index):
    for tensor in results_of(stand_in, index):
        tensor.zero_()


def results_of(stand_in, index):
    """What a step has made, or else what it has written."""
    func, (args, _), result = stand_in.frozen.steps[index]
    made = result if result is not None else args[0].tensor() if hasattr(args[0], "tensor") else args[0]
    return [tensor for tensor in (made if isinstance(made, (list, tuple)) else [made]) if isinstance(tensor, torch.Tensor)]


def crash(stand_in, index):
    os.kill(os.getpid(), signal.SIGSEGV)


def abort(stand_in, index):
    os.abort()


def leave(stand_in, index):
    os._exit(3)


def hang(stand_in, index):
    signal.pause()


def fail(stand_in, index):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def draw(stand_in, index):
    torch.rand(1)


def after(name):
    return lambda host: any(name in told for told in host.seen)


def in_thread(host):
    return threading.current_thread() is not threading.main_thread()


@dataclasses.dataclass(frozen=True)
class Fault:
    """In a replay, `effect` follows the first step of each of `operators`, in this order, where `when` holds."""

    name: str
    operators: Tuple[str, ...]
    when: Callable
    effect: Callable
    op: str  # An operator of programs.OPS that the shrunk program has,
    feature: str = ""  # and what else.
    state: str = "differs"


FAULTS = [
    Fault("plans cleared", ("_fft_c2c",), after("cufft_plan_cache.clear"), scale, "fft2", "action:clear_fft_plans"),
    Fault("plans evicted", ("_fft_c2r",), after("cufft_plan_cache.max_size"), crash, "rfft", "action:shrink_fft_plans", "crash"),
    Fault("workspace freed", ("aten.mm.",), after("clearCublasWorkspaces"), scale, "matmul", "action:clear_workspaces"),
    Fault("memory given back", ("aten.convolution.",), after("empty_cache"), fail, "conv2d", "action:empty_cache", "raised"),
    Fault("waits for ever", ("aten.sort.",), after("memory_fraction"), hang, "sort", "action:memory_fraction", "hang"),
    Fault("stays zero", ("aten.cumsum.",), after("_record_memory_history"), zero, "cumsum", "action:memory_history"),
    Fault("other library", ("aten._linalg_solve_ex.",), after("preferred_linalg_library"), scale, "solve", "action:linalg_library"),
    Fault("draws once more", ("aten.bernoulli.",), after("profiler.profile"), draw, "bernoulli", "action:profile"),
    Fault("in a thread", ("aten._softmax.",), in_thread, scale, "softmax", "play:thread"),
    Fault("from the twentieth replay on", ("aten.native_layer_norm.",), lambda host: host.replays > 20, scale, "layer_norm"),
    Fault("second graph alive", ("aten.flip.",), lambda host: len(host.alive) > 1, zero, "roll"),
    Fault("captured again", ("aten.index_add.",), lambda host: host.captures > len(host.alive), scale, "index_add"),
    Fault("after a sort", ("aten.sort.", "aten.cumsum."), lambda host: True, scale, "cumsum", "op:sort"),
    Fault("refused together", ("aten.embedding.", "aten.gather."), None, None, "embedding", "op:gather", "refused"),
    Fault("gradient", ("aten._softmax_backward_data.",), lambda host: True, scale, "softmax", "wrap:grad"),
    Fault("aborts", ("aten.bmm.",), after("MemPool"), abort, "bmm", "action:memory_pool", "crash"),
    Fault("poisoned", ("aten.max_pool2d_with_indices.",), after("blocks"), scale, "max_pool"),
    Fault("leaves", ("aten.roll.",), after("_set_allocator_settings"), leave, "roll", "", "crash"),
    Fault("algorithm chosen anew", ("aten.var.",), after("cudnn.benchmark"), scale, "var", "action:cudnn_benchmark"),
    Fault("state written in place", ("aten.mul_.", "aten.add_."), after("preferred_blas_library"), zero, "state",
          "action:blas_library"),
]


class Faulty(OnHost):
    """A stand-in with one fault, or none."""

    def __init__(self, fault=None):
        super().__init__(self._make)
        self.fault = fault
        self.begin()

    def begin(self):
        self.seen, self.alive, self.captures, self.replays = set(), [], 0, 0

    def told(self, name):
        self.seen.add(name)

    def blocks(self):
        self.seen.add("blocks")
        return []

    def _make(self):
        return _FaultyStandIn(self)

    def living(self):
        return [weak for weak in self.alive if weak() is not None]


class _FaultyStandIn(StandIn):
    def __init__(self, host):
        super().__init__()
        self.host = host

    def capture(self, call):
        outputs = super().capture(call)
        fault = self.host.fault
        self.at = _match(self.frozen.steps, fault.operators) if fault else None
        if self.at is not None and fault.effect is None:
            raise Refused(RuntimeError("CUDA error: operation not permitted when stream is capturing"))
        self.host.captures += 1
        self.host.alive = [*self.host.living(), weakref.ref(self)]
        return outputs

    def replay(self):
        self.host.replays += 1
        self.host.alive = self.host.living()
        super().replay()

    def after_step(self, index):
        if index == self.at and self.host.fault.when(self.host):
            self.host.fault.effect(self, index)


def _match(steps, operators):
    """The step that ends the sequence, or None."""
    wanted = list(operators)
    for index, (func, _, _) in enumerate(steps):
        if wanted[0] in f"{func}":
            wanted.pop(0)
            if not wanted:
                return index
    return None

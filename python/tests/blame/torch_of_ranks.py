"""A stand-in for PyTorch with two ranks on the fake CUDA driver, for the programs of examples/blame/ranks.

A tensor is one number. In a capture nothing is computed, and a replay does what was captured. What waits for the GPU in
PyTorch calls the driver here. Ranks meet over a socket; one whose other rank is gone waits for ever, as with NCCL.
"""
import contextlib
import ctypes
import multiprocessing as processes
import os
import signal
import socket
import sys
import time
import traceback
import types
from multiprocessing.connection import wait as wait_for_processes

cu = ctypes.CDLL("libcuda.so.1")
_made = {"stream": None, "current": None, "capturing": None}  # The stream of captures, the current one, the graph.


def _check(code):
    if code:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")


def _wait():
    _begin()
    _check(cu.cuStreamSynchronize(_made["current"]))


def _begin():
    if _made["stream"] is None:
        cu.cuInit(0)
        _made["stream"] = ctypes.c_void_p()
        cu.cuStreamCreate(ctypes.byref(_made["stream"]), 0)
        _made["current"] = _made["stream"]


def _do(step):
    _begin()
    if _made["capturing"] is None:
        step()
    else:
        _made["capturing"].steps.append(step)


class Tensor:
    def __init__(self, value, count):
        self.value, self.count, self.shape = value, count, (count,)

    def _of(self, compute):
        made = Tensor(0.0, self.count)
        _do(lambda: setattr(made, "value", compute()))
        return made

    def __mul__(self, factor):
        return self._of(lambda: self.value * factor)

    def __matmul__(self, other):
        return self._of(lambda: self.value * other.value)

    def __gt__(self, number):
        return self._of(lambda: float(self.value > number))

    def __getitem__(self, mask):  # Its size is on the GPU.
        _wait()
        return self

    def sum(self):
        return self._of(lambda: self.value * self.count)

    def copy_(self, other):
        _do(lambda: setattr(self, "value", other.value))
        return self

    def item(self):
        _wait()
        return self.value

    def tolist(self):
        _wait()
        return [self.value] * self.count

    def backward(self):
        """DDP's hooks run on the stream on which it was made, and wait there for the gradients."""
        for model in DistributedDataParallel.made:
            _check(cu.cuStreamWaitEvent(model.stream, ctypes.c_void_p(2), 0))
            _do(lambda: _exchange(0.0))


def ones(*shape, device=None):
    count = 1
    for size in shape:
        count *= size
    return Tensor(1.0, count)


def zeros(*shape, device=None):
    return ones(*shape)._of(lambda: 0.0)


def relu(x):
    return x._of(lambda: max(x.value, 0.0))


class Stream:
    def __init__(self):
        _begin()
        self.handle = ctypes.c_void_p()
        cu.cuStreamCreate(ctypes.byref(self.handle), 0)

    def wait_stream(self, other):
        pass

    def synchronize(self):
        _check(cu.cuStreamSynchronize(self.handle))


class Event:
    def record(self):
        pass

    def query(self):
        _check(cu.cuEventQuery(None))


class CUDAGraph:
    def __init__(self):
        self.steps = []

    def capture_begin(self, stream):
        self.stream, _made["capturing"] = stream, self
        _check(cu.cuStreamBeginCapture_v2(stream, 0))

    def capture_end(self):
        _made["capturing"] = None
        _check(cu.cuStreamEndCapture(self.stream, ctypes.byref(ctypes.c_void_p())))

    def replay(self):
        for step in self.steps:
            step()


def _current_stream():
    stream = Stream()
    stream.handle = _made["current"]
    return stream


@contextlib.contextmanager
def _on_stream(stream):
    before, _made["current"] = _made["current"], stream.handle
    try:
        yield
    finally:
        _made["current"] = before


class Capture:
    def __init__(self, graph, stream=None):
        _begin()
        self.graph, self.stream = graph, stream.handle if stream else _made["stream"]

    def __enter__(self):
        self.before, _made["current"] = _made["current"], self.stream
        self.graph.capture_begin(self.stream)

    def __exit__(self, *error):
        _made["current"] = self.before
        self.graph.capture_end()


class Linear:
    def __init__(self, *_):
        pass

    def cuda(self):
        return self

    def zero_grad(self, set_to_none=True):
        pass

    def __call__(self, x):
        return relu(x)


class DistributedDataParallel(Linear):
    made = []

    def __init__(self, module, device_ids):
        _begin()
        is_default = _made["current"] is _made["stream"]  # No program makes one in another stream's place.
        self.stream = None if is_default else _made["current"]
        DistributedDataParallel.made.append(self)


def _init_process_group(backend, store, rank, world_size):
    address = store[len("file://"):]
    if rank == 0:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address + ".new")
            listening.listen(1)
            os.rename(address + ".new", address)
            _made["other"] = listening.accept()[0]
    else:
        _made["other"] = socket.socket(socket.AF_UNIX)
        while not os.path.exists(address):
            time.sleep(0.01)
        _made["other"].connect(address)
    _made["rank"] = rank


def _send(value):
    with contextlib.suppress(OSError):
        _made["other"].sendall(b"%20.6f" % value)


def _receive():
    with contextlib.suppress(OSError):
        text = _made["other"].recv(20, socket.MSG_WAITALL)
        if len(text) == 20:
            return float(text)
    while True:
        signal.pause()


def _exchange(value):
    _send(value)
    return _receive()


def _all_reduce(x):
    _do(lambda: setattr(x, "value", x.value + _exchange(x.value)))


class ProcessRaisedException(Exception):
    pass


class ProcessExitedException(Exception):
    pass


def _run(told, function, number, args):
    try:
        function(number, *args)
    except Exception:
        told.put(traceback.format_exc())
        sys.exit(1)


def _spawn(function, args, nprocs):
    """Starts the ranks; when one fails the others are ended, as torch.multiprocessing does."""
    context = processes.get_context("spawn")
    told = context.SimpleQueue()
    ranks = [context.Process(target=_run, args=(told, function, number, args)) for number in range(nprocs)]
    for rank in ranks:
        rank.start()
    left = list(ranks)
    while left:
        wait_for_processes([rank.sentinel for rank in left])
        for rank in [rank for rank in left if rank.exitcode is not None]:
            left.remove(rank)
            if rank.exitcode:
                for other in left:
                    other.terminate()
                    other.join()
                if rank.exitcode == 1 and not told.empty():
                    raise ProcessRaisedException(told.get())
                raise ProcessExitedException(f"process {ranks.index(rank)} terminated with {rank.exitcode}")


def _module(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    return module


__version__ = "2.11.0+cu130"
cuda = _module("torch.cuda", Stream=Stream, Event=Event, CUDAGraph=CUDAGraph, graph=Capture, stream=_on_stream,
               current_stream=_current_stream, device_count=lambda: 2, set_device=lambda rank: _begin(),
               synchronize=lambda: _check(cu.cuCtxSynchronize_v2()))
_module("torch.cuda.graphs", CUDAGraph=CUDAGraph)
_module("torch.distributed.distributed_c10d", is_initialized=lambda: "rank" in _made, get_rank=lambda: _made["rank"])
_module("torch.distributed.fsdp", FullyShardedDataParallel=lambda module, **_: module,
        ShardingStrategy=types.SimpleNamespace(NO_SHARD=None))
_module("torch.distributed._composable.fsdp", fully_shard=lambda model: model)
distributed = _module("torch.distributed", init_process_group=_init_process_group, all_reduce=_all_reduce,
                      send=lambda x, to: _do(lambda: _send(x.value)),
                      recv=lambda x, source: _do(lambda: setattr(x, "value", _receive())))
nn = _module("torch.nn", Linear=Linear, Sequential=Linear,
             parallel=types.SimpleNamespace(DistributedDataParallel=DistributedDataParallel))
multiprocessing = _module("torch.multiprocessing", spawn=_spawn, ProcessRaisedException=ProcessRaisedException,
                          ProcessExitedException=ProcessExitedException)
no_grad = contextlib.nullcontext

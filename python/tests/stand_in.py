"""A fake of CUDA graphs on the host: replays the operators of a capture with the host values of that time.

A replay runs the operators of the capture with their original host arguments and storages, and writes into the original
results. Code that is not an operator does not run. Memory of the capture itself stays alive; a storage from outside
does not, and a freed one reads as foreign values. 0-dim tensors count as host memory, all others as device memory,
except those that a test names.
"""
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from recapture._check import later, recording
from recapture._check.cuda import Refused
from recapture._check.recording import tensors_in

recording._places[__file__] = recording.SKIPPED  # Its lines are no program's.

FOREIGN = 12345.0
_HOST_READS = ("aten._local_scalar_dense.default", "aten.nonzero.default", "aten.equal.default")


class _Outside:
    """A tensor from outside the capture; its storage may die."""

    def __init__(self, tensor):
        self.weak = StorageWeakRef(tensor.untyped_storage())
        self.like = (tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))

    def tensor(self):
        dtype, offset, shape, stride = self.like
        if self.weak.expired():
            return torch.full(shape, FOREIGN).to(dtype)
        storage = torch.UntypedStorage._new_with_weak_ptr(self.weak.cdata)
        return torch.empty(0, dtype=dtype).set_(storage, offset, shape, stride)


class FakeGraph(TorchDispatchMode):
    """`with` it, operators are captured; replay() runs them."""

    supports_higher_order_operators = True

    def __init__(self, side, on_device):
        super().__init__()
        self.steps, self.own, self.side, self.on_device = [], {}, side, on_device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if str(func) in _HOST_READS and any(t.dim() for t in tensors_in((args, kwargs))):
            raise RuntimeError("operation not permitted when stream is capturing")
        if self.side.on:  # Another stream's work runs at once, and is in no graph.
            return func(*args, **kwargs)
        packed = _each(self._pack, args), _each(self._pack, kwargs)
        result = self.in_capture(func, args, kwargs)
        given = {tensor.untyped_storage()._cdata for tensor in tensors_in((args, kwargs))}
        made = {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors_in(result)}
        for key in made.keys() - given:
            self.own.setdefault(key, made[key])
        schema = getattr(func, "_schema", None)
        is_new = (schema is None or schema.returns) and not made.keys() <= given
        self.steps.append((func, packed, result if is_new else None))
        return result

    def in_capture(self, func, args, kwargs):
        return func(*args, **kwargs)

    in_replay = in_capture

    def replay(self, after_step=lambda index: None):
        with torch.no_grad():
            for index, (func, (args, kwargs), result) in enumerate(self.steps):
                made = self.in_replay(func, _each(_unpack, args), _each(_unpack, kwargs))
                if result is not None:
                    for target, source in zip(tensors_in(result), tensors_in(made)):
                        target.detach().copy_(source)
                after_step(index)

    def _pack(self, value):
        if isinstance(value, torch.Tensor):
            if not self.on_device(value):
                return value.detach().clone() if value.untyped_storage()._cdata not in self.own else value
            return value if value.untyped_storage()._cdata in self.own else _Outside(value)
        return value


def _unpack(value):
    return value.tensor() if isinstance(value, _Outside) else value


def _each(change, value):
    if isinstance(value, (list, tuple)):
        return type(value)(_each(change, item) for item in value)
    if isinstance(value, dict):
        return {key: _each(change, item) for key, item in value.items()}
    return change(value)


class SideStream:
    """`with side:` is work on a stream that does not capture."""

    on = False

    def __enter__(self):
        self.on = True

    def __exit__(self, *_):
        self.on = False


class StandIn:
    """The backend of check() for the host."""

    device, reads_addresses, graph_type = "cpu", True, FakeGraph

    def __init__(self, on_device=()):
        self.side, self.nodes, self.frozen, self.open = SideStream(), [], None, False
        self.storages = {tensor.untyped_storage()._cdata for tensor in on_device}

    def on_device(self, tensor):
        return tensor.dim() > 0 or tensor.untyped_storage()._cdata in self.storages

    def synchronize(self):
        pass

    def run(self, call):
        return call()

    def is_capturing(self):
        return self.open and not self.side.on

    def count_nodes(self):
        return len(self.frozen.steps) if self.open else 0

    @property
    def node_count(self):
        return len(self.nodes)

    def end(self):
        pass

    def capture(self, call, read_nodes=True):
        self.frozen, self.open = self.graph_type(self.side, self.on_device), True
        try:
            with self.frozen:
                return call()
        except Exception as error:
            raise Refused(error) from error
        finally:
            self.open = False

    def blame(self, call):
        return None

    def replay(self, while_waiting=None):
        self.frozen.replay(self.after_step)

    def after_step(self, index):
        """A fault of a test may come between the steps of a replay."""

    def generator_state(self):
        return torch.get_rng_state()

    def set_generator_state(self, state):
        torch.set_rng_state(state)

    def count_addresses(self):
        return 0

    def freed_addresses(self):
        return []

    def pageable_sources(self):
        return []

    def actions(self, operators):
        self.asked = Actions(getattr(self, "planted", {}))
        return self.asked

    def peak(self):
        return 0

    def reset_peak(self):
        pass


class Actions:
    """What a program does between replays: nothing on the host, but for what a test plants in `StandIn.planted`."""

    def __init__(self, planted):
        self.planted, self.did, self.written, self.ended = planted, [], False, False
        self.all = dict.fromkeys(later.WORDS)

    def do(self, name):
        self.did.append(name)
        if name in self.planted:
            self.written = self.planted[name]() == "written"

    def holds(self, address):
        return True

    def is_untouched(self):
        return not self.written

    def end(self):
        self.ended = True

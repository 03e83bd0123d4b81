"""A stand-in for CUDA, so that programs run without a GPU: python/tests/stand_in.py captures, torch.cuda does nothing."""
import ctypes
import re
import types

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from recapture._check.recording import tensors_in

from .running import WARM_UP, Replay


class Nothing:
    """Every attribute exists and does nothing. `told` has what was called or set."""

    def __init__(self, name, told, **known):
        self.__dict__.update(_name=name, _told=told, **known)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(f"{self._name}.{name}", self._told)

    def __setattr__(self, name, value):
        self._told(f"{self._name}.{name}")

    def __call__(self, *args, **kwargs):
        self._told(self._name)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __iter__(self):
        return iter(())


class _Kept(TorchDispatchMode):
    """What a step writes, as it was before: on the host a capture computes, and on a GPU it does not."""

    def __init__(self):
        super().__init__()
        self.storages = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        arguments = func._schema.arguments
        given = [*zip(arguments, args), *((each, kwargs[each.name]) for each in arguments if each.name in kwargs)]
        for argument, value in given:
            if argument.alias_info and argument.alias_info.is_write or argument.name.startswith("running_"):
                for tensor in tensors_in(value):
                    storage = tensor.untyped_storage()
                    if storage._cdata not in self.storages:  # A clone() would be an operator of the capture.
                        self.storages[storage._cdata] = (storage, ctypes.string_at(storage.data_ptr(), storage.nbytes()))
        return func(*args, **kwargs)

    def restore(self):
        for storage, before in self.storages.values():
            ctypes.memmove(storage.data_ptr(), before, len(before))


class OnHost:
    """`make` gives a stand-in for one capture."""

    def __init__(self, make=None):
        if make is None:
            from stand_in import StandIn as make
        self.make = make
        cuda = Nothing("torch.cuda", self.told, get_rng_state=torch.get_rng_state, set_rng_state=torch.set_rng_state,
                       manual_seed=torch.manual_seed)
        backends = types.SimpleNamespace(cuda=Nothing("torch.backends.cuda", self.told), cudnn=Nothing("torch.backends.cudnn", self.told))
        mine = {"cuda": cuda, "backends": backends, "_C": Nothing("torch._C", self.told), "profiler": Nothing("torch.profiler", self.told)}
        outer = torch

        class Torch(types.ModuleType):
            def __getattr__(self, name):
                return mine[name] if name in mine else getattr(outer, name)

        self.torch = Torch("torch")

    def names(self):
        return {}

    def any(self, name, wanted):
        return wanted

    def told(self, name):
        """A call of what does nothing here."""

    def source(self, source):
        source = re.sub(r"\.pin_memory\(\)|, pin_memory=True|, device=\"cuda\"|devices=\[0\]", "", source)
        return source.replace('"cuda"', '"cpu"').replace('Generator("cpu")', "Generator()")

    def begin(self):
        pass

    def stream(self):
        return None

    def warm_up(self, step, stream):
        for _ in range(WARM_UP):
            step()

    def capture(self, step, stream, like, generators):
        state = torch.get_rng_state()
        states = [generator.get_state() for generator in generators]
        stand_in = self.make()
        stand_in.on_device = lambda tensor: True
        kept = _Kept()

        def call():
            with kept:
                return step()

        outputs = stand_in.capture(call)
        kept.restore()
        torch.set_rng_state(state)
        for generator, drawn in zip(generators, states):
            generator.set_state(drawn)
        return Replay(stand_in, outputs, stand_in.replay)

    def synchronize(self):
        pass

    def recover(self):
        return True

    def blocks(self):
        return []

    def on_device(self, tensor):
        return True

    def facts(self):
        return {"gpu": None}

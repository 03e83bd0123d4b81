"""The stand-in for CUDA graphs with collectives: a capture launches none, and a replay runs those of gloo.

  python stand_in_ranks.py RANK OF STORE PROGRAM…    runs check() on programs of examples/check/ranks as one rank
"""
import functools
import json
import os
import signal
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    import conftest  # noqa: F401  Finds the package and PyTorch.

import torch
import torch.distributed as dist
from stand_in import StandIn, _Frozen, _tensors, _unpack

from recapture._check import recording
from recapture._check.ranks import is_collective

recording._places[__file__] = recording.SKIPPED
ROOT = Path(__file__).resolve().parent.parent.parent


class _FrozenCollectives(_Frozen):
    """In a capture a collective goes to a process group that does nothing."""

    def __init__(self, side, on_device, nowhere):
        super().__init__(side, on_device)
        self.nowhere = nowhere

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not is_collective(str(func)):
            return super().__torch_dispatch__(func, types, args, kwargs)
        packed = self._pack(args), self._pack(kwargs)
        names = [argument.name for argument in func._schema.arguments]
        result = func(*(self._elsewhere(name, value) for name, value in zip(names, args)),
                      **{name: self._elsewhere(name, value) for name, value in kwargs.items()})
        made = not self._is_view(args, kwargs, result)
        for tensor in _tensors(result) if made else ():
            self.own.setdefault(tensor.untyped_storage()._cdata, tensor.untyped_storage())
        self.steps.append((func, packed, result if made else None))
        return result

    def _elsewhere(self, name, value):
        if name == "group_name":
            return self.nowhere.group_name
        return self.nowhere.boxed() if name == "process_group" else value


@functools.lru_cache(maxsize=None)
def nowhere(process):
    """A process group whose collectives do nothing."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401  Registers its backend.
    return dist.new_group(backend="fake")


class RankStandIn(StandIn):
    def __init__(self, on_device=()):
        super().__init__(on_device)
        self.nowhere = nowhere(os.getpid())

    def capture(self, call):
        before = _Frozen
        try:
            globals_of_base = StandIn.capture.__globals__
            globals_of_base["_Frozen"] = lambda side, on_device: _FrozenCollectives(side, on_device, self.nowhere)
            return super().capture(call)
        finally:
            globals_of_base["_Frozen"] = before

    def replay(self, while_waiting=None):
        with torch.no_grad():
            for index, (func, (args, kwargs), result) in enumerate(self.frozen.steps):
                made = func(*_unpack(args), **_unpack(kwargs))
                if is_collective(str(func)):
                    made = _waited(made)
                if result is not None:
                    for target, source in zip(_tensors(result), _tensors(made)):
                        target.detach().copy_(source)
                self.after_step(index)


def _waited(made):
    for item in made if isinstance(made, (list, tuple)) else [made]:
        if isinstance(item, torch.ScriptObject):
            dist.Work.unbox(item).wait()
        elif isinstance(item, torch.Tensor) and not isinstance(made, (list, tuple)):
            return torch.ops._c10d_functional.wait_tensor(item)
    return made


class RankThatDies(RankStandIn):
    """In the replay rank 1 ends, and the GPU of the other one waits for it."""

    def replay(self, while_waiting=None):
        if dist.get_rank() == 1:
            os._exit(9)
        while True:
            while_waiting()
            time.sleep(0.01)


def main(rank, of, store, *names):
    signal.alarm(300)  # Ends a rank that waits for ever.
    sys.path.insert(0, str(ROOT / "examples" / "check"))
    import two_ranks
    dist.init_process_group("gloo", store=dist.FileStore(store, int(of)), rank=int(rank), world_size=int(of))
    make = RankThatDies if os.environ.get("RANK_1_DIES_IN_ITS_REPLAY") else RankStandIn
    for name in names:
        dist.barrier()
        try:
            report = two_ranks.judged(two_ranks.load(name), int(rank), "cpu", make())
        except ValueError as error:
            print(f"{name}: rank {rank} leaves: {error}", file=sys.stderr, flush=True)
            continue
        print(f"{name} rank {rank}: {json.dumps(report.to_dict())}", flush=True)
        print(report, file=sys.stderr, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

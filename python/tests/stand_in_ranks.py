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
from stand_in import FakeGraph, StandIn

from recapture._check import recording
from recapture._check.ranks import is_collective

recording._places[__file__] = recording.SKIPPED
ROOT = Path(__file__).resolve().parent.parent.parent


@functools.lru_cache(maxsize=None)
def nowhere(process):
    """A process group whose collectives do nothing. All ranks make it together."""
    import torch.testing._internal.distributed.fake_pg  # noqa: F401  Registers its backend.
    return dist.new_group(backend="fake")


class FakeGraphOfRanks(FakeGraph):
    """In a capture a collective goes to a process group that does nothing, and a replay waits for it."""

    def in_capture(self, func, args, kwargs):
        if is_collective(str(func)):
            args = [self._elsewhere(argument.name, value) for argument, value in zip(func._schema.arguments, args)]
            kwargs = {name: self._elsewhere(name, value) for name, value in kwargs.items()}
        return func(*args, **kwargs)

    def _elsewhere(self, name, value):
        if name == "group_name":
            return nowhere(os.getpid()).group_name
        return nowhere(os.getpid()).boxed() if name == "process_group" else value

    def in_replay(self, func, args, kwargs):
        made = func(*args, **kwargs)
        if is_collective(str(func)):
            if isinstance(made, torch.Tensor):
                return torch.ops._c10d_functional.wait_tensor(made)
            for item in made if isinstance(made, (list, tuple)) else [made]:
                if isinstance(item, torch.ScriptObject):
                    dist.Work.unbox(item).wait()
        return made


class RankStandIn(StandIn):
    graph_type = FakeGraphOfRanks

    def __init__(self, on_device=()):
        super().__init__(on_device)
        nowhere(os.getpid())


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

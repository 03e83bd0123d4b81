"""Faults of graphs with collectives, planted into one rank of the stand-in: what tools/discover --ranks 2 must find."""
import dataclasses
import os
import signal
from typing import Callable

import torch.distributed as dist
from discovery import collectives
from discovery.host import OnHost
from stand_in_ranks import RankStandIn

from recapture._check.ranks import Ranks


def written_by(stand_in, index):
    """What a collective of a replay has written: its first operand, or the tensors in it."""
    _, (args, _), _ = stand_in.frozen.steps[index]
    first = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
    return [each.tensor() if hasattr(each, "tensor") else each for each in first]


def scale(stand_in, index):
    for tensor in written_by(stand_in, index):
        tensor.mul_(3)


def crash(stand_in, index):
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(stand_in, index):
    signal.pause()


@dataclasses.dataclass(frozen=True)
class Fault:
    """In a replay of rank `rank`, `effect` follows the first step of `operator` where `after` has been called."""

    name: str
    operator: str
    after: str
    effect: Callable
    rank: int
    op: str
    action: str
    state: str = "differs"


FAULTS = [
    Fault("sums of another group", "allreduce_", "new_group", scale, 1, "all_reduce", "make_group"),
    Fault("communicator is gone", "_allgather_base_", "destroy_process_group", crash, 0, "all_gather", "make_and_destroy_group",
          "crash"),
    Fault("waits for the other rank", "broadcast_", "new_group", hang, 1, "broadcast", "make_group", "hang"),
    Fault("buffer of an eager collective", "alltoall_base_", "all_reduce", scale, 0, "all_to_all", "eager_collective"),
]


class Noted:
    """torch.distributed, with what a program has called between its replays."""

    def __init__(self, seen):
        self._seen = seen

    def __getattr__(self, name):
        self._seen.add(name)
        return getattr(dist, name)


def make_on_host(fault):
    def make(rank, of, folder, limit):
        class OnRank(collectives.Agreeing, OnHost):
            def __init__(self):
                self.seen = set()
                super().__init__(lambda: _Faulty(self, fault if fault and fault.rank == rank else None))
                os.environ["GLOO_SOCKET_IFNAME"] = "lo"
                store = dist.FileStore(f"{folder}/store", of)
                dist.init_process_group("gloo", store=store, rank=rank, world_size=of)
                self.ranks = Ranks(dist.PrefixStore("discover", store), rank, of, limit)
                self.ranks.begin()

            def names(self):
                return {**super().names(), "dist": Noted(self.seen)}

            def begin(self):
                self.seen.clear()

            def capture(self, step, stream, like, generators):
                made = self.agreed(lambda: OnHost.capture(self, step, stream, like, generators))
                self.seen.clear()  # What the step itself calls is no action.
                return made

        return OnRank()
    return make


class _Faulty(RankStandIn):
    def __init__(self, host, fault):
        super().__init__()
        self.host, self.fault, self.at = host, fault, None

    def capture(self, call):
        outputs = super().capture(call)
        wanted = self.fault.operator if self.fault else None
        self.at = next((index for index, (func, _, _) in enumerate(self.frozen.steps) if wanted and f".{wanted}." in f"{func}"), None)
        return outputs

    def after_step(self, index):
        if index == self.at and self.fault.after in self.host.seen:
            self.fault.effect(self, index)


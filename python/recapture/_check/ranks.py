"""The other ranks of a process group: what their captures contain, and whether they are still there.

Ranks meet in the store that the process group was made with. Nothing here is a collective, so nothing hangs: a rank that
has left, whose process has ended, or that does not come in time is named.
"""
from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List, Optional, Tuple

import torch

from .findings import Finding, Kind, Line
from .recording import Call, Operator, group_of, host_form

LIMIT_S = 120.0  # For a rank that is alive: it may compile meanwhile.
_POLL_S = 0.01
_COLLECTIVES = ("c10d.", "c10d_functional.", "_c10d_functional.")
_NO_COLLECTIVES = ("wait_tensor", "_wrap_tensor_autograd")
_NO_ARGUMENTS = ("process_group", "async_op", "timeout", "group_name", "tag")
_PEERS = ("dst", "src")
_UNEVEN = ("alltoall", "all_to_all", "gather", "scatter")  # Their operands differ from rank to rank.
CASE = "ranks_choose_different_graphs"


class Gone(RuntimeError):
    """Another rank is not there; the text has which, and why."""


def is_collective(operator: str) -> bool:
    return operator.startswith(_COLLECTIVES) and operator.split(".")[1] not in _NO_COLLECTIVES


def collectives_of(call: Call) -> List[Operator]:
    return [operator for operator in call.operators if is_collective(operator.name) and operator.captured]


def described(operator: Operator) -> Dict[str, Any]:
    """A collective as all ranks of its group must have it."""
    tensors = [f"{'x'.join(map(str, operand.shape)) or 'scalar'} {str(operand.dtype).split('.')[-1]}"
               for operand in operator.operands]
    host = [f"{name} {host_form(value)}" for name, value in operator.host if name not in (*_NO_ARGUMENTS, *_PEERS)]
    group, line = group_of(operator.host), operator.line
    members = group_members(group)  # A peer is a number within its group.
    peers = [members[value] if members else value for name, value in operator.host if name in _PEERS]
    return {"name": operator.name.split(".")[1].strip("_"), "group": group, "tensors": tensors,
            "host": host, "peers": peers, "line": f"{os.path.basename(line.file)}:{line.number}" if line else ""}


def _text(collective: Dict[str, Any]) -> str:
    at = f" at {collective['line']}" if collective["line"] else ""
    return f"{collective['name']} of {', '.join(collective['tensors']) or 'nothing'}{at}"


def _is_same(one: Dict[str, Any], other: Dict[str, Any]) -> bool:
    if one["name"].startswith(_UNEVEN):
        return bool(one["name"] == other["name"])
    return all(one[key] == other[key] for key in ("name", "tensors", "host"))


class Ranks:
    """This rank's view of the others. Every rank makes the same calls in the same order."""

    _made = 0  # In this process. All ranks check the same number of times, or they do not meet.

    def __init__(self, store: Any, rank: int, of: int, limit: float = LIMIT_S) -> None:
        self.store, self.rank, self.of, self.limit = store, rank, of, limit
        self.steps: Dict[Tuple[int, ...], int] = {}  # Of those that meet.
        self.where: Dict[int, Tuple[str, int]] = {}  # Of the other ranks: the machine, and the process there.
        self.gone: Dict[int, str] = {}

    @classmethod
    def of_this_process(cls) -> Optional["Ranks"]:
        """Nothing without a process group of several ranks."""
        distributed = torch.distributed
        if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() < 2:
            return None
        cls._made += 1
        store = distributed.PrefixStore(f"recapture/check/{cls._made}", distributed.distributed_c10d._get_default_store())
        return cls(store, distributed.get_rank(), distributed.get_world_size())

    def others(self) -> List[int]:
        return [rank for rank in range(self.of) if rank != self.rank and rank not in self.gone]

    def begin(self) -> None:
        for rank, where in self.exchange("begin", [_machine(), os.getpid()]).items():
            self.where[rank] = (where[0], where[1])

    def leave(self, why: str) -> None:
        """Tells the others that this rank goes no further."""
        try:
            self.store.set(f"left/{self.rank}", why)
        except RuntimeError:  # The store is that of a rank that has ended.
            pass

    def exchange(self, name: str, mine: Any, among: Tuple[int, ...] = ()) -> Dict[int, Any]:
        """What the other ranks have at the same step; those that are gone have nothing, and are in `gone`."""
        self.steps[among] = self.steps.get(among, 0) + 1
        step = f"{'-'.join(map(str, among))}/{self.steps[among]} {name}"
        try:
            self.store.set(f"{step}/{self.rank}", json.dumps(mine))
        except RuntimeError as error:
            self._store_is_lost(error)
        found: Dict[int, Any] = {}
        until = time.monotonic() + self.limit
        for rank in self.others():
            if among and rank not in among:
                continue
            answer = self._wait(f"{step}/{rank}", rank, until)
            if answer is not None:
                found[rank] = json.loads(answer)
        return found

    def any(self, name: str, wanted: bool, among: Tuple[int, ...] = ()) -> bool:
        """Whether a rank wants what has to be done by all."""
        return any([wanted, *self.exchange(name, wanted, among).values()])

    def require(self) -> None:
        """Raises Gone if a rank is not there any more; called while the GPU may wait for it."""
        missing = self.gone_now()
        if missing:
            raise Gone(missing)

    def _wait(self, key: str, rank: int, until: float) -> Optional[str]:
        while rank not in self.gone:
            try:
                if self.store.check([key]):
                    return str(self.store.get(key).decode())
                if self.store.check([f"left/{rank}"]):
                    self.gone[rank] = f"has left: {self.store.get(f'left/{rank}').decode()}"
                    return None
            except RuntimeError as error:
                self._store_is_lost(error)
                return None
            self.look(rank)
            if time.monotonic() > until:
                self.gone[rank] = f"did not come within {self.limit:.0f} seconds"
            time.sleep(_POLL_S)
        return None

    def look(self, rank: int) -> None:
        """Notes that the process of a rank on this machine has ended."""
        machine, process = self.where.get(rank, ("", 0))
        if machine == _machine() and not _is_alive(process):
            self.gone[rank] = f"is gone: its process {process} has ended"

    def gone_now(self) -> str:
        """The ranks whose process has ended or that have left, as a sentence; empty if all are there."""
        for rank in self.others():
            self.look(rank)
            try:
                if rank not in self.gone and self.store.check([f"left/{rank}"]):
                    self.gone[rank] = f"has left: {self.store.get(f'left/{rank}').decode()}"
            except RuntimeError as error:
                self._store_is_lost(error)
        return self.missing()

    def missing(self) -> str:
        return "; ".join(f"rank {rank} {why}" for rank, why in sorted(self.gone.items()))

    def _store_is_lost(self, error: BaseException) -> None:
        text = (str(error).strip().splitlines() or [""])[0][:200]
        for rank in self.others():
            self.gone[rank] = f"cannot be reached: the store is lost ({text})"

    # What all have captured.

    def meet_before_replay(self, call: Call) -> Optional[Finding]:
        """Of a program's own replay: why the ranks of its collectives do not replay graphs that fit together."""
        mine = [described(operator) for operator in collectives_of(call)]
        if not mine:
            return None
        members = [group_members(each["group"]) for each in mine]
        everyone = list(range(self.of))
        among = tuple(sorted({rank for ranks in members for rank in (everyone if ranks is None else ranks)}))
        others = self.exchange("replay", mine, among)
        if not self.gone:
            found = self.compare(call, others)
            if not self.any("compared", found is not None, among):
                return None
            return found or absent("the graphs that other ranks replay do not fit together")
        return absent(self.missing())

    def compare(self, call: Call, others: Dict[int, List[Dict[str, Any]]]) -> Optional[Finding]:
        """The first collective that another rank of its group does not have, has otherwise, or has more of."""
        operators = collectives_of(call)
        mine = [described(operator) for operator in operators]
        groups = {each["group"]: None for each in [*mine, *(each for other in others.values() for each in other)]}
        for group in groups:
            members = group_members(group)
            if members is not None and self.rank not in members:
                continue
            own = [number for number, each in enumerate(mine) if each["group"] == group and not each["peers"]]
            for rank, other in sorted(others.items()):
                if members is not None and rank not in members:
                    continue
                theirs = [each for each in other if each["group"] == group and not each["peers"]]
                found = self._first_difference(operators, mine, own, theirs, rank)
                if found:
                    return found
        return self._unpaired(operators, mine, others)

    def _first_difference(self, operators: List[Operator], mine: List[Dict[str, Any]], own: List[int],
                          theirs: List[Dict[str, Any]], rank: int) -> Optional[Finding]:
        for at in range(max(len(own), len(theirs))):
            here = mine[own[at]] if at < len(own) else None
            there = theirs[at] if at < len(theirs) else None
            if here and there and _is_same(here, there):
                continue
            near = operators[own[at]] if at < len(own) else operators[own[-1]] if own else None
            return _differs(f"collective {at + 1} is not that of rank {rank}", self.rank, _text(here) if here else "none",
                            rank, _text(there) if there else "none", near)
        return None

    def _unpaired(self, operators: List[Operator], mine: List[Dict[str, Any]],
                  others: Dict[int, List[Dict[str, Any]]]) -> Optional[Finding]:
        """Each send has its receive, in the same order."""
        for rank, other in sorted(others.items()):
            for ours, peers in (("send", "recv"), ("recv", "send")):
                own = [number for number, each in enumerate(mine) if each["name"].startswith(ours) and rank in each["peers"]]
                theirs = [each for each in other if each["name"].startswith(peers) and self.rank in each["peers"]]
                for at in range(max(len(own), len(theirs))):
                    here = mine[own[at]] if at < len(own) else None
                    there = theirs[at] if at < len(theirs) else None
                    if here and there and here["tensors"] == there["tensors"]:
                        continue
                    near = operators[own[at]] if at < len(own) else operators[own[-1]] if own else None
                    return _differs(f"{ours} {at + 1} has no {peers} of rank {rank} that fits", self.rank,
                                    _text(here) if here else "none", rank, _text(there) if there else "none", near)
        return None


def _differs(what: str, rank: int, here: str, other: int, there: str, near: Optional[Operator]) -> Finding:
    return Finding(Kind.RANKS, f"{what}: a replay would wait for ever, or combine values that do not belong together",
                   f"rank {rank}: {here}", f"rank {other}: {there}", near.name if near else "", near.line if near else None, CASE)


def absent(missing: str, line: Optional[Line] = None) -> Finding:
    return Finding(Kind.RANKS, f"{missing}; what follows needs all ranks, and was left out", "all ranks",
                   missing, "", line, CASE)


def group_members(name: str) -> Optional[List[int]]:
    """The ranks of a group; None if it is not known here."""
    distributed = torch.distributed
    for group, known in getattr(distributed.distributed_c10d._world, "pg_names", {}).items():
        if known == name:
            return list(distributed.get_process_group_ranks(group))
    return None


def _machine() -> str:
    """Processes with the same text see each other's numbers."""
    try:
        return f"{os.uname().nodename} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _is_alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False

"""What the rules share: what the program's operators, captures and replays have done so far."""
from __future__ import annotations

import dataclasses
import functools
import re
import sys
from types import CodeType, FrameType
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

import torch

from ..findings import Finding, Line
from ..recording import COPIES, OWN, Operand, Operator, Storage, line_of, place_of

Frame = Tuple[CodeType, int]
Given = List[Tuple[Operand, torch.Tensor]]
NEVER = 0
_DEEPEST = 24  # Frames of the program that are looked at.
_MOST_SOURCES = 64
# These read the shape and type of a tensor, and not its values.
_LIKE = re.compile(r"aten\.(?:\w+_like|new_\w+|empty\w*|sym_\w+|_?set_\w*|resize_\w*)\.")


@dataclasses.dataclass
class Made:
    """The operator outside a capture that made a storage."""

    operator: str
    line: Optional[Line]
    frames: Tuple[Frame, ...]
    sources: FrozenSet[int]  # The storages that it was computed from.
    order: int
    by_autocast: bool


@dataclasses.dataclass(eq=False)  # A key of what each rule knows about the graph.
class Uses:
    """What a graph does with memory that the program can change between replays."""

    reads: Dict[int, Operator]
    writes: FrozenSet[int]  # From outside.
    made: FrozenSet[int]  # In the capture, and alive after it.
    operators: List[Operator]
    order: int = NEVER  # Of the end of the capture.
    replayed: int = NEVER


def own_frames() -> Tuple[Frame, ...]:
    """The program's own frames, the innermost first."""
    found: List[Frame] = []
    frame: Optional[FrameType] = sys._getframe()
    while frame and len(found) < _DEEPEST:
        if place_of(frame.f_code.co_filename) == OWN:
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


@functools.lru_cache(maxsize=None)
def reads_values(operator: str) -> bool:
    return not _LIKE.match(operator)


class Follower:
    """Each method is called at an event of the program."""

    def install(self) -> None: ...
    def remove(self) -> None: ...

    # make_graphed_callables() is called, and returns or raises.
    def make(self, callables: Any) -> None: ...
    def has_made(self) -> None: ...
    def has_failed_to_make(self) -> None: ...

    # A capture begins, has run an operator, and ends with a graph or without one.
    def begin(self) -> None: ...
    def captured(self, operator: Operator, given: Given) -> None: ...
    def end(self, uses: Uses) -> None: ...
    def has_failed_to_capture(self) -> None: ...

    # A graph's replay comes, and is launched.
    def replaying(self, uses: Uses) -> None: ...
    def replayed(self, uses: Uses) -> None: ...

    # An operator that makes no view has run outside a capture.
    def eager(self, operator: Operator, given: Given) -> None: ...

    # A storage is dead, and its number may come again.
    def forget(self, key: int) -> None: ...


class Tracking(Follower):
    """What all rules read: each event comes here first."""

    def __init__(self, storages: Dict[int, Storage]) -> None:
        self.storages = storages
        self.findings: List[Finding] = []
        self.order = 1  # Of the events.
        self.made: Dict[int, Made] = {}
        self.changed: Dict[int, int] = {}  # When the program last wrote a storage outside a graph.
        self.writers: Dict[int, Uses] = {}  # The graph that last came to write a storage.
        self.last_step = NEVER  # Of any optimizer.
        self.is_open = False  # A capture.
        self.is_making = False  # In make_graphed_callables().
        self.made_at: Optional[Line] = None
        self.visited: Set[Frame] = set()  # By the open capture.
        self.around: Set[CodeType] = set()  # The functions that run around the capture.

    def make(self, callables: Any) -> None:
        self.is_making, self.made_at = True, line_of(sys._getframe())

    def has_made(self) -> None:
        self.is_making = False

    has_failed_to_make = has_made

    def begin(self) -> None:
        self.is_open, self.visited, self.around = True, set(), {code for code, _ in own_frames()}

    def captured(self, operator: Operator, given: Given) -> None:
        self.visited.update(own_frames())

    def end(self, uses: Uses) -> None:
        self.is_open = False
        self.order += 1
        uses.order = self.order
        self.writers.update(dict.fromkeys(uses.writes | uses.made, uses))

    def has_failed_to_capture(self) -> None:
        self.is_open = False

    def replayed(self, uses: Uses) -> None:
        self.order += 1
        uses.replayed = self.order

    def eager(self, operator: Operator, given: Given) -> None:
        self.order += 1
        touched = {operand.storage for operand in operator.operands}
        self.changed.update((operand.storage, self.order) for operand in operator.operands if operand.written)
        sources: Optional[FrozenSet[int]] = None
        for result in operator.results:
            if result.on_device and result.storage not in touched:
                if sources is None:
                    sources = self._sources(touched) if reads_values(operator.name) else frozenset()
                self.made[result.storage] = Made(operator.name, operator.line, own_frames(), sources, self.order,
                                                 operator.name in COPIES and bool(torch.is_autocast_enabled()))

    def _sources(self, touched: Set[int]) -> FrozenSet[int]:
        found = set(touched)
        for key in touched:
            if key in self.made:
                found |= self.made[key].sources
        return frozenset(sorted(found)[:_MOST_SOURCES])

    def forget(self, key: int) -> None:
        for known in (self.made, self.changed, self.writers):
            known.pop(key, None)


class Rule(Follower):
    def __init__(self, tracking: Tracking) -> None:
        self.tracking, self.findings = tracking, tracking.findings

"""Buffers that warm-ups have trained: batch_norm_trained_by_warm_up.

A warm-up in training mode changes running statistics, as each step does. If they still have these values at a replay, and
no optimizer has made a step in between, the inputs of the warm-up have become part of the model.
"""
from __future__ import annotations

import dataclasses
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..findings import Finding, Kind, Line
from ..recording import Operator
from .tracking import NEVER, Frame, Given, Rule, Tracking, Uses, own_frames


@dataclasses.dataclass
class Buffer:
    """A buffer that make_graphed_callables() may change."""

    name: str
    tensor: "weakref.ref[torch.Tensor]"
    before: torch.Tensor


@dataclasses.dataclass
class Learned:
    """Running statistics that eager code in training mode has changed."""

    order: int
    frames: Tuple[Frame, ...]
    line: Optional[Line]


class TrainedBuffers(Rule):
    def __init__(self, tracking: Tracking) -> None:
        super().__init__(tracking)
        self.buffers: List[Buffer] = []  # Of what make_graphed_callables() was given last.
        self.trained: List[Tuple[List[Buffer], Optional[Line]]] = []
        self.learned: Dict[int, Learned] = {}
        self.by_graph: Dict[Uses, Dict[int, Learned]] = {}

    def make(self, callables: Any) -> None:
        modules = callables if isinstance(callables, (tuple, list)) else (callables,)
        self.buffers = [Buffer(name, weakref.ref(buffer), buffer.detach().clone()) for module in modules
                        if isinstance(module, torch.nn.Module) for name, buffer in module.named_buffers()]

    def has_made(self) -> None:
        self.trained.append((self.buffers, self.tracking.made_at))

    def end(self, uses: Uses) -> None:
        by_graph = self.by_graph[uses] = {}
        for operator in uses.operators:
            key = _statistics_of(operator)
            learned = self.learned.get(key)
            if learned and learned.order > self.tracking.last_step and not self.tracking.visited.isdisjoint(learned.frames):
                by_graph[key] = learned

    def replaying(self, uses: Uses) -> None:
        for buffers, line in self.trained:
            names = [buffer.name for buffer in buffers if _is_changed(buffer)]
            if names:
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                self._add(f"the warm-ups of make_graphed_callables() have changed the buffer {names[0]}{more}", line,
                          "make_graphed_callables")
        self.trained.clear()
        for key, learned in self.by_graph[uses].items():
            if self.tracking.changed.get(key, NEVER) <= learned.order:
                self._add("warm-ups before the capture have changed running statistics", learned.line, "batch_norm")
                break
        self.by_graph[uses].clear()

    def _add(self, what: str, line: Optional[Line], operator: str) -> None:
        self.findings.append(Finding(
            Kind.WARM_UP, f"{what}, and nothing has put them back", "buffers as they were before the first step",
            "buffers that have learned the inputs of the warm-ups", operator, line, "batch_norm_trained_by_warm_up"))

    def eager(self, operator: Operator, given: Given) -> None:
        key = -1 if self.tracking.is_making else _statistics_of(operator)
        if key >= 0:
            self.learned[key] = Learned(self.tracking.order, own_frames(), operator.line)

    def forget(self, key: int) -> None:
        self.learned.pop(key, None)


def _is_changed(buffer: Buffer) -> bool:
    tensor = buffer.tensor()
    if tensor is None or tensor.shape != buffer.before.shape:
        return False
    now = tensor.detach()
    if now.is_floating_point():
        return not torch.equal(now.nan_to_num(), buffer.before.nan_to_num())
    return not torch.equal(now, buffer.before)


def _statistics_of(operator: Operator) -> int:
    """The storage of the running mean that a batch_norm in training mode changes, or -1."""
    if "batch_norm" not in operator.name or "backward" in operator.name or ("training", True) not in operator.host:
        return -1
    return next((operand.storage for operand in operator.operands if operand.argument == "running_mean"), -1)

"""A backward pass that was captured under autocast: backward_captured_under_autocast.

Eager code calls backward() after it has left autocast. A capture of both passes, as of make_graphed_callables() under
autocast, rounds operands of the backward pass to half precision, and each replay does so.
"""
from __future__ import annotations

from typing import Any, List, Optional, Set

import torch

from ..findings import Finding, Kind, Line, count
from ..recording import Operator
from .tracking import Given, Rule, Tracking

_HALVES = (torch.float16, torch.bfloat16)


class BackwardUnderAutocast(Rule):
    def __init__(self, tracking: Tracking) -> None:
        super().__init__(tracking)
        self.exact: Set[str] = set()  # Nodes of a backward pass that eager code ran with operands in float32.
        self.inexact: Set[str] = set()  # Those in which autocast rounded an operand of eager code.
        self.rounded = False  # Whether a backward pass of the open capture has been reported.
        self.casts: List[str] = []  # Nodes whose operands autocast has rounded in make_graphed_callables().

    def make(self, callables: Any) -> None:
        self.casts = []

    def has_made(self) -> None:
        if self.casts:
            self._add(f"in {count(len(set(self.casts)), 'node')} of it, the first in {self.casts[0]}", self.tracking.made_at)

    def begin(self) -> None:
        self.rounded = False

    def captured(self, operator: Operator, given: Given) -> None:
        node = _running_node() if _rounds(operator) else ""
        if not node or node.startswith("ToCopyBackward"):  # That is the backward pass of a cast in the forward pass.
            return
        if self.tracking.is_making:
            self.casts.append(node)
        elif node in self.exact - self.inexact and not self.rounded:
            self.rounded = True
            self._add(f"in {node}, which eager code ran with operands in float32", operator.line)

    def _add(self, nodes: str, line: Optional[Line]) -> None:
        self.findings.append(Finding(
            Kind.WRONG_VALUE, "the backward pass was captured under autocast, which eager code has left by then: autocast rounded "
            f"operands {nodes}", "the operands as they are", "operands in half precision", "aten._to_copy.default", line,
            "backward_captured_under_autocast"))

    def eager(self, operator: Operator, given: Given) -> None:
        node = _running_node()
        if node and _rounds(operator):
            self.inexact.add(node)
        elif node and any(operand.on_device and operand.dtype == torch.float32 for operand in operator.operands):
            self.exact.add(node)


def _rounds(operator: Operator) -> bool:
    return operator.name == "aten._to_copy.default" and bool(operator.results) and operator.results[0].dtype in _HALVES and \
        operator.operands[0].dtype == torch.float32


def _running_node() -> str:
    """The node of the backward pass that runs; "" outside of one, and before 2.1."""
    current = getattr(torch._C, "_current_autograd_node", None)
    node = current() if current else None
    return node.name() if node is not None else ""

"""A tensor that is read before its graph ran: table_made_in_capture.

A capture computes nothing. What it makes has no values until the first replay, unless the program writes them itself.
"""
from __future__ import annotations

from typing import Dict

from ..findings import Finding, Kind
from ..recording import Operator
from .tracking import Given, Rule, Tracking, Uses, reads_values


class EarlyReads(Rule):
    def __init__(self, tracking: Tracking) -> None:
        super().__init__(tracking)
        self.empty: Dict[int, Uses] = {}  # Storages that a capture made, without a replay so far.

    def end(self, uses: Uses) -> None:
        self.empty.update(dict.fromkeys(uses.made, uses))

    def replaying(self, uses: Uses) -> None:
        for key, operator in uses.reads.items():
            owner = self.empty.get(key)
            if owner and owner is not uses:
                self._find(operator, key)

    def replayed(self, uses: Uses) -> None:
        for key in uses.writes | uses.made:
            self.empty.pop(key, None)

    def eager(self, operator: Operator, given: Given) -> None:
        for operand, _ in given:
            if operand.written:
                self.empty.pop(operand.storage, None)
            elif operand.storage in self.empty and operand.on_device and reads_values(operator.name):
                self._find(operator, operand.storage)

    def _find(self, operator: Operator, key: int) -> None:
        del self.empty[key]  # One finding a tensor.
        self.findings.append(Finding(
            Kind.EARLY, "it reads a tensor that was made in a capture, before the first replay of that graph: a capture "
            "computes nothing", "the values of the tensor", "whatever its memory held", operator.name, operator.line,
            "table_made_in_capture"))

    def forget(self, key: int) -> None:
        self.empty.pop(key, None)

"""Rows of padding that do work: padding_rows_do_work.

A graph always writes as many rows as its capture. The rows beyond a smaller batch write by whatever their part of the index
tensor has: the rows of an earlier batch, a negative index, or the index of a row that a batch uses.
"""
from __future__ import annotations

import dataclasses
import re
from typing import Dict, List, Optional, Set, Tuple

import torch

from ..comparison import where
from ..findings import Finding, Kind, Line
from ..recording import COPIES, Operator
from .tracking import NEVER, Given, Rule, Tracking, Uses

_MOST_ROWS = 100_000
# What only adds is left out: a row of padding may add zero.
_WRITES_BY_INDEX = re.compile(r"aten\.(?:index_put_|_index_put_impl_|index_copy_|index_fill_|scatter_)\.")
_WHOLE = (torch.int32, torch.int64)


@dataclasses.dataclass
class Segment:
    """Bytes of an index tensor that one operator has written."""

    begin: int
    end: int
    first: int  # Where the operator began to write.
    order: int
    padding: Optional[int]  # The value that all rows have, as padding has.
    lowest: int
    line: Optional[Line]


@dataclasses.dataclass
class Index:
    """A tensor from outside that a graph writes by."""

    operator: Operator
    begin: int  # In bytes, of the part that the graph reads.
    end: int
    dtype: torch.dtype


class RowsOfPadding(Rule):
    def __init__(self, tracking: Tracking) -> None:
        super().__init__(tracking)
        self.indices: Dict[Uses, Dict[int, Index]] = {}
        self.segments: Dict[int, List[Segment]] = {}  # Of index tensors, in their order.
        self.rows: Dict[int, Set[int]] = {}  # Values that index tensors had since their capture, but for padding.
        self._spans: Dict[int, Tuple[int, int, torch.dtype]] = {}  # Whole numbers that the open capture reads.

    def begin(self) -> None:
        self._spans = {}

    def captured(self, operator: Operator, given: Given) -> None:
        if operator.name in COPIES or _WRITES_BY_INDEX.match(operator.name):
            for operand, tensor in given:
                if operand.on_device and not operand.written and tensor.dtype in _WHOLE:
                    begin, end = _bytes_of(tensor)
                    known = self._spans.get(operand.storage, (begin, end, tensor.dtype))
                    self._spans[operand.storage] = (min(begin, known[0]), max(end, known[1]), tensor.dtype)

    def end(self, uses: Uses) -> None:
        self.indices[uses] = {}
        for operator in uses.operators:
            if operator.captured and _WRITES_BY_INDEX.match(operator.name):
                self._note_indices(uses, operator)

    def _note_indices(self, uses: Uses, operator: Operator) -> None:
        if not operator.operands or not operator.operands[0].written or operator.operands[0].origin[0] == "made" or \
                ("accumulate", True) in operator.host:
            return
        for operand in operator.operands[1:]:
            if not operand.argument.startswith(("index", "indices")) or operand.dtype not in _WHOLE:
                continue
            origin, key = operand.origin, operand.storage
            while origin[0] == "made":  # Through a cast, as of int32 to int64.
                maker = uses.operators[origin[1]]
                if maker.name not in COPIES or not maker.operands:
                    break
                origin, key = maker.operands[0].origin, maker.operands[0].storage
            if origin[0] != "made" and key in self._spans:
                self.indices[uses][key] = Index(operator, *self._spans[key])
                self.segments.setdefault(key, [])
                self.rows.setdefault(key, set())

    def replaying(self, uses: Uses) -> None:
        for key, index in self.indices[uses].items():
            if self.tracking.changed.get(key, NEVER) > max(uses.replayed, uses.order):
                self._find(uses, key, index)

    def _find(self, uses: Uses, key: int, index: Index) -> None:
        segments = [part for part in self.segments[key] if part.begin < index.end and index.begin < part.end]
        fresh = {part.first: part.line for part in segments if part.order > uses.replayed}
        stale = [part for part in segments if part.order <= uses.replayed and part.padding is None and part.first in fresh]
        negative = [part for part in segments if part.lowest < 0]
        used = [part for part in segments if part.padding in self.rows[key]]
        if stale:
            self._add(index, f"{_rows_of(stale, index)} are left from an earlier, larger batch", fresh[stale[0].first],
                      "writes rows of the earlier batch as well")
        elif negative:
            self._add(index, f"{_rows_of(negative, index)} have a negative index, which counts from the end",
                      negative[0].line, "a row of padding writes one of the last rows")
        elif used:
            self._add(index, f"{_rows_of(used, index)} of padding have the index {used[0].padding}, and so has a row of "
                      "a batch", used[0].line, f"a row of padding writes row {used[0].padding}, which is in use")

    def _add(self, index: Index, what: str, line: Optional[Line], graph: str) -> None:
        self.findings.append(Finding(
            Kind.PADDING, f"{index.operator.name} at {where(index.operator.line)} writes by it, and {what}",
            "writes the rows of this batch alone", graph, index.operator.name, line, "padding_rows_do_work"))

    def eager(self, operator: Operator, given: Given) -> None:
        for operand, tensor in given:
            if operand.written and operand.storage in self.segments:
                self._write(operand.storage, operator.line, tensor)

    def _write(self, key: int, line: Optional[Line], tensor: torch.Tensor) -> None:
        begin, end = _bytes_of(tensor)
        if begin == end:
            return
        values = sorted(set(tensor.flatten().tolist()))
        padding = values[0] if len(values) == 1 and tensor.numel() > 1 else None
        if padding is None and len(self.rows[key]) < _MOST_ROWS:
            self.rows[key].update(values)
        parts: List[Segment] = []
        for part in self.segments[key]:
            if part.begin < begin:
                parts.append(dataclasses.replace(part, end=min(part.end, begin)))
            if end < part.end:
                parts.append(dataclasses.replace(part, begin=max(part.begin, end)))
        parts.append(Segment(begin, end, begin, self.tracking.order, padding, values[0], line))
        self.segments[key] = sorted(parts, key=lambda part: part.begin)

    def forget(self, key: int) -> None:
        self.segments.pop(key, None)
        self.rows.pop(key, None)


def _rows_of(parts: List[Segment], index: Index) -> str:
    """How many of the graph's rows they are."""
    size = int(torch.empty(0, dtype=index.dtype).element_size())
    rows = sum(min(part.end, index.end) - max(part.begin, index.begin) for part in parts) // size
    return f"{rows} of {(index.end - index.begin) // size} rows"


def _bytes_of(tensor: torch.Tensor) -> Tuple[int, int]:
    """The bytes of its storage from its first to its last element."""
    size = tensor.element_size()
    begin = tensor.storage_offset() * size
    if tensor.numel() == 0:
        return begin, begin
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * size

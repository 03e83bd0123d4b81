"""How a program treats its graphs: values that a warm-up kept, rows of padding, gradients, and results that are read early.

The rules here need no eager run to compare with. Each follows storages through the program's own operators.
"""
from __future__ import annotations

import dataclasses
import re
import sys
import weakref
from types import CodeType, FrameType
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

import torch

try:
    from torch.optim.optimizer import register_optimizer_step_pre_hook as register_hook
except ImportError:
    register_hook = None

from .comparison import is_view, where
from .findings import DROP_WHAT_IS_CACHED, Finding, Kind, Line, count
from .recording import COPIES, OWN, Operator, Storage, key_of, line_of, place_of, storage_of

Frame = Tuple[CodeType, int]
_NEVER = 0
_DEEPEST = 24  # Frames of the program that are looked at.
_MOST_SOURCES = 64
_MOST_ROWS = 100_000
# These read the shape and type of a tensor, and not its values.
_LIKE = re.compile(r"aten\.(?:\w+_like|new_\w+|empty\w*|sym_\w+|_?set_\w*|resize_\w*)\.")
_WRITES_BY_INDEX = re.compile(r"aten\.(?:index_put_|_index_put_impl_|index_copy_|index_add_|index_fill_|scatter_\w*)\.")
_HALVES, _WHOLE = (torch.float16, torch.bfloat16), (torch.int32, torch.int64)


@dataclasses.dataclass
class Made:
    """The operator outside a capture that made a storage."""

    operator: str
    line: Optional[Line]
    frames: Tuple[Frame, ...]
    sources: FrozenSet[int]  # The storages that it was computed from.
    order: int


@dataclasses.dataclass
class Segment:
    """Bytes of an index tensor that one operator has written."""

    begin: int
    end: int
    first: int  # Where the operator began to write.
    order: int
    padding: Optional[int]  # The value that all rows have, as padding has.


@dataclasses.dataclass
class Index:
    """A tensor from outside that a graph writes by."""

    operator: Operator
    begin: int  # In bytes, of the part that the graph reads.
    end: int
    dtype: torch.dtype


@dataclasses.dataclass
class Uses:
    """What a graph does with memory that the program can change between replays."""

    order: int  # Of the end of the capture.
    replayed: int = _NEVER
    reads: Dict[int, Operator] = dataclasses.field(default_factory=dict)
    writes: FrozenSet[int] = frozenset()
    kept: Dict[int, Tuple[Made, Operator]] = dataclasses.field(default_factory=dict)  # What a warm-up made.
    indices: Dict[int, Index] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Gradient:
    """A parameter's gradient that a graph writes."""

    parameter: "weakref.ref[torch.Tensor]"
    uses: Uses
    storage: int


@dataclasses.dataclass
class Buffer:
    """A buffer that make_graphed_callables() has changed."""

    name: str
    tensor: "weakref.ref[torch.Tensor]"
    before: torch.Tensor


class Making:
    """A running call of make_graphed_callables()."""

    def __init__(self, callables: Any, line: Optional[Line]) -> None:
        self.line = line
        self.casts: List[str] = []  # The nodes of the backward pass whose operands autocast has rounded.
        self.buffers: List[Buffer] = []
        modules = callables if isinstance(callables, (tuple, list)) else (callables,)
        for module in modules:
            if isinstance(module, torch.nn.Module):
                self.buffers += [Buffer(name, weakref.ref(buffer), buffer.detach().clone())
                                 for name, buffer in module.named_buffers()]


def frames_of(frame: Optional[FrameType]) -> Tuple[Frame, ...]:
    """The program's own frames, the innermost first."""
    found: List[Frame] = []
    while frame and len(found) < _DEEPEST:
        if place_of(frame.f_code.co_filename) == OWN:
            found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


class Usage:
    """Follows the program's operators, captures, replays and optimizers; `findings` has what was seen since it was taken."""

    def __init__(self, storages: Dict[int, Storage]) -> None:
        self.storages = storages
        self.findings: List[Finding] = []
        self.order = 1
        self.made: Dict[int, Made] = {}
        self.changed: Dict[int, int] = {}  # When the program last wrote a storage outside a graph.
        self.line_of_write: Dict[int, Optional[Line]] = {}  # Of index tensors.
        self.empty: Dict[int, Uses] = {}  # Storages that a capture made, without a replay so far.
        self.segments: Dict[int, List[Segment]] = {}  # Of index tensors, in their order.
        self.rows: Dict[int, Set[int]] = {}  # Values that index tensors had since their capture, but for padding.
        self.writers: Dict[int, Uses] = {}  # The graph that last came to write a storage.
        self.gradients: Dict[int, Gradient] = {}  # By the id of the parameter.
        self.read: Set[int] = set()  # Gradients that something has read since their replay.
        self.optimizers: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()
        self.stepped: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()
        self.cleared: "weakref.WeakKeyDictionary[Any, Optional[Line]]" = weakref.WeakKeyDictionary()
        self.making: Optional[Making] = None
        self.trained: List[Making] = []
        self.is_open = False  # A capture.
        self._visited: Set[Frame] = set()
        self._around: Set[CodeType] = set()  # The functions that run around the capture.
        self._spans: Dict[int, Tuple[int, int, torch.dtype]] = {}  # Whole numbers that the open capture reads.
        self._hooks: List[Any] = []

    # Optimizers.

    def install(self) -> None:
        watched = weakref.ref(self)
        if register_hook:
            def step(optimizer: Any, args: Any, kwargs: Any) -> None:
                usage = watched()
                if usage:
                    usage.stepping(optimizer, line_of(sys._getframe(1)))
            self._hooks.append(register_hook(step))
        original = torch.optim.Optimizer.zero_grad

        def zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            usage = watched()
            if usage:
                usage.clearing(optimizer, line_of(sys._getframe(1)))
            return original(optimizer, *args, **kwargs)

        torch.optim.Optimizer.zero_grad = zero_grad

        class Restore:
            @staticmethod
            def remove() -> None:
                torch.optim.Optimizer.zero_grad = original
        self._hooks.append(Restore)

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def clearing(self, optimizer: Any, line: Optional[Line]) -> None:
        if self._link(optimizer):
            self.cleared[optimizer] = line

    def _link(self, optimizer: Any) -> bool:
        """Notes which gradients are memory that a graph writes, and returns whether one is."""
        self.optimizers.add(optimizer)
        found = False
        for parameter in _parameters_of(optimizer):
            key = None if parameter.grad is None else key_of(parameter.grad)
            uses = None if key is None else self.writers.get(key)
            if uses and key is not None:
                self.gradients[id(parameter)] = Gradient(weakref.ref(parameter), uses, key)
                found = True
        return found

    def stepping(self, optimizer: Any, line: Optional[Line]) -> None:
        if self.is_open:
            return  # The graph reads what it is captured with.
        self.order += 1
        self._link(optimizer)
        before, self.stepped[optimizer] = self.stepped.get(optimizer, _NEVER), self.order
        parameters = list(_parameters_of(optimizer))
        lost = sum(self._has_lost_gradient(parameter, before) for parameter in parameters)
        if lost:
            self.findings.append(Finding(
                Kind.UNREAD, f"{count(lost, 'parameter')} of {len(parameters)} no longer "
                f"{'has' if lost == 1 else 'have'} the gradient that the graph writes, so step() at {where(line)} does not see it",
                "step() uses the gradient of this step", "step() skips these parameters, or uses an older gradient",
                "Optimizer.step", self.cleared.get(optimizer) or line, "gradients_set_to_none_between_replays"))

    def _has_lost_gradient(self, parameter: torch.Tensor, before: int) -> bool:
        """Whether a graph has written its gradient since the last step, and nothing reads it."""
        gradient = self.gradients.get(id(parameter))
        owner = gradient.parameter() if gradient else None
        if gradient is None or owner is None or owner is not parameter:
            return False
        key = None if owner.grad is None else key_of(owner.grad)
        replayed = gradient.uses.replayed
        return key != gradient.storage and replayed > before and gradient.storage not in self.read and \
            not self._is_newer(key, replayed)

    def _is_newer(self, key: Optional[int], order: int) -> bool:
        made = self.made.get(key) if key is not None else None
        return key is not None and max(self.changed.get(key, _NEVER), made.order if made else _NEVER) > order

    # make_graphed_callables().

    def make(self, callables: Any, line: Optional[Line]) -> None:
        self.making = Making(callables, line)

    def has_made(self) -> None:
        making, self.making = self.making, None
        if not making:
            return
        if making.casts:
            self.findings.append(Finding(
                Kind.WRONG_VALUE, "the backward pass was captured under autocast, which eager code has left by then: "
                f"autocast rounded operands in {count(len(set(making.casts)), 'node')} of it, the first in {making.casts[0]}",
                "the operands as they are", "operands in half precision", "aten._to_copy.default", making.line,
                "backward_captured_under_autocast"))
        self.trained.append(making)

    def has_failed_to_make(self) -> None:
        self.making = None

    def _find_trained(self) -> None:
        """A buffer that still has the value of the warm-ups when a graph is replayed."""
        for making in self.trained:
            names = [buffer.name for buffer in making.buffers if _is_changed(buffer)]
            if names:
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                self.findings.append(Finding(
                    Kind.WARM_UP, f"the warm-ups of make_graphed_callables() have changed the buffer {names[0]}{more}",
                    "buffers as they were before the first step", "buffers that have learned the sample inputs",
                    "make_graphed_callables", making.line, "batch_norm_trained_by_warm_up"))
        self.trained.clear()

    # Captures.

    def begin(self, frame: Optional[FrameType]) -> None:
        self.is_open = True
        self._visited, self._spans = set(), {}
        self._around = {code for code, _ in frames_of(frame)}

    def captured(self, operator: Operator, given: Iterable[Tuple[Any, torch.Tensor]], frame: Optional[FrameType]) -> None:
        self._visited.update(frames_of(frame))
        if operator.name in COPIES or _WRITES_BY_INDEX.match(operator.name):
            for operand, tensor in given:
                if operand.on_device and not operand.written and tensor.dtype in _WHOLE:
                    begin, end = _bytes_of(tensor)
                    known = self._spans.get(operand.storage, (begin, end, tensor.dtype))
                    self._spans[operand.storage] = (min(begin, known[0]), max(end, known[1]), tensor.dtype)
        if self.making and operator.name == "aten._to_copy.default" and operator.results and \
                operator.results[0].dtype in _HALVES and operator.operands[0].dtype == torch.float32:
            node = _running_node()
            if node and not node.startswith("ToCopyBackward"):
                self.making.casts.append(node)

    def end(self, reads: Dict[int, Operator], writes: Iterable[int], made: Iterable[int], operators: List[Operator]) -> Uses:
        """The capture has ended; `made` are the storages that outlive it."""
        self.is_open = False
        self.order += 1
        written, made = set(writes), set(made)
        uses = Uses(self.order, reads=dict(reads), writes=frozenset(written | made))
        visited = {code for code, _ in self._visited} - self._around
        for key, operator in reads.items():
            found = self.made.get(key)
            if found and key not in written and found.sources and self._is_left_out(found, visited):
                uses.kept[key] = (found, operator)
        for operator in operators:
            if operator.captured and _WRITES_BY_INDEX.match(operator.name):
                self._note_indices(uses, operator, operators)
        for key in written:
            self.writers[key] = uses
        for key in made:
            self.writers[key] = self.empty[key] = uses
        for optimizer in list(self.optimizers):
            self._link(optimizer)
        return uses

    def _is_left_out(self, made: Made, visited: Set[CodeType]) -> bool:
        """Whether the capture ran the function that made it, but not that line."""
        return any(frame[0] in visited and frame not in self._visited for frame in made.frames)

    def _note_indices(self, uses: Uses, operator: Operator, operators: List[Operator]) -> None:
        if not operator.operands or not operator.operands[0].written or operator.operands[0].origin[0] == "made":
            return
        for operand in operator.operands[1:]:
            if not operand.argument.startswith(("index", "indices")) or operand.dtype not in _WHOLE:
                continue
            origin, key = operand.origin, operand.storage
            while origin[0] == "made":  # Through a cast, as of int32 to int64.
                maker = operators[origin[1]]
                if maker.name not in COPIES or not maker.operands:
                    break
                origin, key = maker.operands[0].origin, maker.operands[0].storage
            if origin[0] != "made" and key in self._spans:
                uses.indices[key] = Index(operator, *self._spans[key])
                self.segments.setdefault(key, [])
                self.rows.setdefault(key, set())

    # Replays.

    def replaying(self, uses: Uses) -> None:
        self._find_trained()
        for key, operator in uses.reads.items():
            owner = self.empty.get(key)
            if owner and owner is not uses:
                self._find_early(operator, key)
        for key, (made, operator) in uses.kept.items():
            newest = max((self.changed.get(source, _NEVER) for source in made.sources
                          if source in self.storages and not self.storages[source].dead), default=_NEVER)
            if newest > uses.order and self.changed.get(key, _NEVER) < newest:
                self.findings.append(Finding(
                    Kind.REBOUND, f"a warm-up made it at {where(made.line)}, which the capture did not run, and what it was "
                    "computed from has changed since", f"the result of {made.operator}, computed anew when the program drops it",
                    "the tensor of the warm-up in every replay", operator.name, operator.line,
                    "autocast_cache_across_capture" if "_to_copy" in made.operator else "value_cached_by_warm_up",
                    remedy="" if "_to_copy" in made.operator else DROP_WHAT_IS_CACHED))
        for key, index in uses.indices.items():
            self._find_padding(uses, key, index)

    def _find_padding(self, uses: Uses, key: int, index: Index) -> None:
        if self.changed.get(key, _NEVER) <= max(uses.replayed, uses.order):
            return
        segments = [part for part in self.segments[key] if part.begin < index.end and index.begin < part.end]
        fresh = {part.first for part in segments if part.order > uses.replayed}
        stale = [part for part in segments if part.order <= uses.replayed and part.padding is None and part.first in fresh]
        size = _itemsize(index.dtype)
        if stale:
            rows = sum(min(part.end, index.end) - max(part.begin, index.begin) for part in stale) // size
            self._add_padding(key, index, f"{count(rows, 'index', 'indices')} of {(index.end - index.begin) // size} are those of "
                              "an earlier, larger batch", "writes the rows of this batch alone",
                              "writes rows of the earlier batch as well")
            return
        values = self._values(key, index)
        if values is not None and bool((values < 0).any()):
            number = int((values < 0).sum())
            self._add_padding(key, index, f"{count(number, 'index', 'indices')} of {values.numel()} "
                              f"{'is' if number == 1 else 'are'} negative, and counted from the end",
                              "a row of padding writes nothing", "a row of padding writes one of the last rows")
            return
        used = [part.padding for part in segments if part.padding in self.rows[key]]
        if used:
            self._add_padding(key, index, f"rows of padding have {used[0]}, and so has a row of a batch",
                              "a row of padding writes nothing", f"a row of padding writes row {used[0]}, which is in use")

    def _add_padding(self, key: int, index: Index, what: str, eager: str, graph: str) -> None:
        self.findings.append(Finding(
            Kind.PADDING, f"{index.operator.name} at {where(index.operator.line)} writes by it: {what}", eager, graph,
            index.operator.name, self.line_of_write.get(key) or index.operator.line, "padding_rows_do_work"))

    def _values(self, key: int, index: Index) -> Optional[torch.Tensor]:
        storage = self.storages.get(key)
        if not storage or storage.dead:
            return None
        size = _itemsize(index.dtype)
        alive = torch.UntypedStorage._new_with_weak_ptr(storage.weak.cdata)
        device = torch.device(alive.device)
        return torch.empty(0, dtype=index.dtype, device=device).set_(
            alive, index.begin // size, ((index.end - index.begin) // size,))

    def replayed(self, uses: Uses) -> None:
        self.order += 1
        uses.replayed = self.order
        for key in uses.writes:
            self.empty.pop(key, None)
        self.read.update(key for key in uses.reads if key in self.writers)
        self.read -= uses.writes

    # Eager code around them.

    def eager(self, operator: Operator, given: Iterable[Tuple[Any, torch.Tensor]], frame: Optional[FrameType]) -> None:
        if is_view(operator):
            return
        self.order += 1
        by_values = not _LIKE.match(operator.name)
        for operand, tensor in given:
            key = operand.storage
            if operand.written:
                self.changed[key] = self.order
                self.empty.pop(key, None)
                if key in self.segments:
                    self.line_of_write[key] = operator.line
                    self._write(key, tensor)
            elif by_values and operand.on_device:
                if key in self.empty:
                    self._find_early(operator, key)
                if key in self.writers:
                    self.read.add(key)
        touched = {operand.storage for operand in operator.operands}
        sources: Optional[FrozenSet[int]] = None
        for result in operator.results:
            if result.on_device and result.storage not in touched:
                if sources is None:
                    sources = self._sources(touched) if by_values else frozenset()
                self.made[result.storage] = Made(operator.name, operator.line, frames_of(frame), sources, self.order)

    def _sources(self, touched: Set[int]) -> FrozenSet[int]:
        found = set(touched)
        for key in touched:
            if key in self.made:
                found |= self.made[key].sources
        return frozenset(sorted(found)[:_MOST_SOURCES])

    def _find_early(self, operator: Operator, key: int) -> None:
        del self.empty[key]  # One finding a tensor.
        self.findings.append(Finding(
            Kind.EARLY, "it reads a tensor that was made in a capture, before the first replay of that graph: a capture "
            "computes nothing", "the values of the tensor", "whatever its memory held", operator.name, operator.line,
            "table_made_in_capture"))

    def _write(self, key: int, tensor: torch.Tensor) -> None:
        begin, end = _bytes_of(tensor)
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
        parts.append(Segment(begin, end, begin, self.order, padding))
        self.segments[key] = sorted(parts, key=lambda part: part.begin)

    def forget(self, dead: Iterable[int]) -> None:
        """A number of a storage may come again once nothing remembers it."""
        for key in dead:
            for known in (self.made, self.changed, self.line_of_write, self.empty, self.segments, self.rows, self.writers):
                known.pop(key, None)
            self.read.discard(key)


def _is_changed(buffer: Buffer) -> bool:
    tensor = buffer.tensor()
    if tensor is None or tensor.shape != buffer.before.shape:
        return False
    now = tensor.detach()
    if now.is_floating_point():
        return not torch.equal(now.nan_to_num(), buffer.before.nan_to_num())
    return not torch.equal(now, buffer.before)


def _parameters_of(optimizer: Any) -> Iterable[torch.Tensor]:
    for group in getattr(optimizer, "param_groups", ()):
        for parameter in group["params"]:
            if storage_of(parameter) is not None:
                yield parameter


def _running_node() -> str:
    """The node of the backward pass that runs; "" outside of one, and before 2.1."""
    current = getattr(torch._C, "_current_autograd_node", None)
    node = current() if current else None
    return node.name() if node is not None else ""


def _itemsize(dtype: torch.dtype) -> int:
    return int(torch.empty(0, dtype=dtype).element_size())


def _bytes_of(tensor: torch.Tensor) -> Tuple[int, int]:
    """The bytes of its storage from its first to its last element."""
    size = tensor.element_size()
    begin = tensor.storage_offset() * size
    if tensor.numel() == 0:
        return begin, begin
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * size

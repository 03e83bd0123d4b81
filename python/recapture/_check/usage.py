"""How a program treats its graphs: values that a warm-up kept, rows of padding, gradients, and results that are read early.

The rules here need no eager run to compare with. Each follows storages through the program's own operators.
"""
from __future__ import annotations

import dataclasses
import gc
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
from .findings import Finding, Kind, Line, count
from .recording import COPIES, OWN, Operator, Storage, key_of, line_of, place_of, storage_of

Frame = Tuple[CodeType, int]
_NEVER = 0
_DEEPEST = 24  # Frames of the program that are looked at.
_MOST_SOURCES = 64
_MOST_ROWS = 100_000
# These read the shape and type of a tensor, and not its values.
_LIKE = re.compile(r"aten\.(?:\w+_like|new_\w+|empty\w*|sym_\w+|_?set_\w*|resize_\w*)\.")
# What only adds is left out: a row of padding may add zero.
_WRITES_BY_INDEX = re.compile(r"aten\.(?:index_put_|_index_put_impl_|index_copy_|index_fill_|scatter_)\.")
_HALVES, _WHOLE = (torch.float16, torch.bfloat16), (torch.int32, torch.int64)


@dataclasses.dataclass
class Made:
    """The operator outside a capture that made a storage."""

    operator: str
    line: Optional[Line]
    frames: Tuple[Frame, ...]
    sources: FrozenSet[int]  # The storages that it was computed from.
    order: int
    by_autocast: bool


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


@dataclasses.dataclass
class Uses:
    """What a graph does with memory that the program can change between replays."""

    order: int  # Of the end of the capture.
    replayed: int = _NEVER
    reads: Dict[int, Operator] = dataclasses.field(default_factory=dict)
    writes: FrozenSet[int] = frozenset()
    kept: Dict[int, Tuple[Made, Operator]] = dataclasses.field(default_factory=dict)  # What a warm-up made.
    learned: Dict[int, Learned] = dataclasses.field(default_factory=dict)
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


@dataclasses.dataclass
class Learned:
    """Running statistics that eager code in training mode has changed."""

    order: int
    frames: Tuple[Frame, ...]
    line: Optional[Line]


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
        self.empty: Dict[int, Uses] = {}  # Storages that a capture made, without a replay so far.
        self.segments: Dict[int, List[Segment]] = {}  # Of index tensors, in their order.
        self.rows: Dict[int, Set[int]] = {}  # Values that index tensors had since their capture, but for padding.
        self.writers: Dict[int, Uses] = {}  # The graph that last came to write a storage.
        self.gradients: Dict[int, Gradient] = {}  # By the id of the parameter.
        self.read: Set[int] = set()  # Gradients that something has read since their replay.
        self.optimizers: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()
        self.stepped: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()
        self.cleared: "weakref.WeakKeyDictionary[Any, Optional[Line]]" = weakref.WeakKeyDictionary()
        self.exact: Set[str] = set()  # Nodes of a backward pass that eager code ran with operands in float32.
        self.inexact: Set[str] = set()  # Those in which autocast rounded an operand of eager code.
        self.rounded = False  # Whether a backward pass of the open capture has been reported.
        self.making: Optional[Making] = None
        self.trained: List[Making] = []
        self.learned: Dict[int, Learned] = {}
        self.last_step = _NEVER  # Of any optimizer.
        self.is_open = False  # A capture.
        self._visited: Set[Frame] = set()
        self._around: Set[CodeType] = set()  # The functions that run around the capture.
        self._spans: Dict[int, Tuple[int, int, torch.dtype]] = {}  # Whole numbers that the open capture reads.
        self._hooks: List[Any] = []
        self._replaced: Tuple[Any, ...] = ()

    # Optimizers.

    def install(self) -> None:
        watched = weakref.ref(self)
        if register_hook:
            def step(optimizer: Any, args: Any, kwargs: Any) -> None:
                usage = watched()
                if usage:
                    usage.stepping(optimizer, line_of(sys._getframe(1)))
            self._hooks.append(register_hook(step))
        optimizer_type = torch.optim.Optimizer
        self._replaced = (optimizer_type.zero_grad, optimizer_type.__init__)
        zero_grad, init = self._replaced

        def clear(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            usage = watched()
            if usage:
                usage.clearing(optimizer, line_of(sys._getframe(1)))
            return zero_grad(optimizer, *args, **kwargs)

        def make(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            init(optimizer, *args, **kwargs)
            usage = watched()
            if usage:
                usage.optimizers.add(optimizer)

        optimizer_type.zero_grad, optimizer_type.__init__ = clear, make
        for thing in gc.get_objects():
            if issubclass(type(thing), optimizer_type):
                self.optimizers.add(thing)

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self._replaced:
            torch.optim.Optimizer.zero_grad, torch.optim.Optimizer.__init__ = self._replaced
            self._replaced = ()

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
        self.last_step = self.order
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
            self._add_rounding(f"in {count(len(set(making.casts)), 'node')} of it, the first in {making.casts[0]}", making.line)
        self.trained.append(making)

    def has_failed_to_make(self) -> None:
        self.making = None

    def _find_trained(self) -> None:
        """A buffer that still has the value of the warm-ups when a graph is replayed."""
        for making in self.trained:
            names = [buffer.name for buffer in making.buffers if _is_changed(buffer)]
            if names:
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                self._add_learned(f"the warm-ups of make_graphed_callables() have changed the buffer {names[0]}{more}",
                                  making.line, "make_graphed_callables")
        self.trained.clear()

    def _add_learned(self, what: str, line: Optional[Line], operator: str) -> None:
        self.findings.append(Finding(
            Kind.WARM_UP, f"{what}, and nothing has put them back", "buffers as they were before the first step",
            "buffers that have learned the inputs of the warm-ups", operator, line, "batch_norm_trained_by_warm_up"))

    # Captures.

    def begin(self, frame: Optional[FrameType]) -> None:
        self.is_open, self.rounded = True, False
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
        if _rounds(operator):
            self._note_rounding(_running_node(), operator.line)

    def _note_rounding(self, node: str, line: Optional[Line]) -> None:
        """A captured operator has rounded an operand to half precision."""
        if not node or node.startswith("ToCopyBackward"):  # That is the backward pass of a cast in the forward pass.
            return
        if self.making:
            self.making.casts.append(node)
        elif node in self.exact - self.inexact and not self.rounded:
            self.rounded = True
            self._add_rounding(f"in {node}, which eager code ran with operands in float32", line)

    def _add_rounding(self, nodes: str, line: Optional[Line]) -> None:
        self.findings.append(Finding(
            Kind.WRONG_VALUE, "the backward pass was captured under autocast, which eager code has left by then: autocast rounded "
            f"operands {nodes}", "the operands as they are", "operands in half precision", "aten._to_copy.default", line,
            "backward_captured_under_autocast"))

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
            learned = self.learned.get(_statistics_of(operator))
            if learned and learned.order > self.last_step and not self._visited.isdisjoint(learned.frames):
                uses.learned[_statistics_of(operator)] = learned
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
        if not operator.operands or not operator.operands[0].written or operator.operands[0].origin[0] == "made" or \
                ("accumulate", True) in operator.host:
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
        for key, learned in uses.learned.items():
            if self.changed.get(key, _NEVER) <= learned.order:
                self._add_learned("warm-ups before the capture have changed running statistics", learned.line, "batch_norm")
                break
        uses.learned.clear()
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
                    "autocast_cache_across_capture" if made.by_autocast else "value_cached_by_warm_up"))
        for key, index in uses.indices.items():
            self._find_padding(uses, key, index)

    def _find_padding(self, uses: Uses, key: int, index: Index) -> None:
        if self.changed.get(key, _NEVER) <= max(uses.replayed, uses.order):
            return
        segments = [part for part in self.segments[key] if part.begin < index.end and index.begin < part.end]
        fresh = {part.first: part.line for part in segments if part.order > uses.replayed}
        stale = [part for part in segments if part.order <= uses.replayed and part.padding is None and part.first in fresh]
        negative = [part for part in segments if part.lowest < 0]
        used = [part for part in segments if part.padding in self.rows[key]]
        if stale:
            self._add_padding(index, f"{_rows_of(stale, index)} are left from an earlier, larger batch", fresh[stale[0].first],
                              "writes rows of the earlier batch as well")
        elif negative:
            self._add_padding(index, f"{_rows_of(negative, index)} have a negative index, which counts from the end",
                              negative[0].line, "a row of padding writes one of the last rows")
        elif used:
            self._add_padding(index, f"{_rows_of(used, index)} of padding have the index {used[0].padding}, and so has a row of "
                              "a batch", used[0].line, f"a row of padding writes row {used[0].padding}, which is in use")

    def _add_padding(self, index: Index, what: str, line: Optional[Line], graph: str) -> None:
        self.findings.append(Finding(
            Kind.PADDING, f"{index.operator.name} at {where(index.operator.line)} writes by it, and {what}",
            "writes the rows of this batch alone", graph, index.operator.name, line, "padding_rows_do_work"))

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
                    self._write(key, operator.line, tensor)
            elif by_values and operand.on_device:
                if key in self.empty:
                    self._find_early(operator, key)
                if key in self.writers:
                    self.read.add(key)
        if not self.making and _statistics_of(operator) >= 0:
            self.learned[_statistics_of(operator)] = Learned(self.order, frames_of(frame), operator.line)
        node = _running_node()
        if node and _rounds(operator):
            self.inexact.add(node)
        elif node and any(operand.on_device and operand.dtype == torch.float32 for operand in operator.operands):
            self.exact.add(node)
        touched = {operand.storage for operand in operator.operands}
        sources: Optional[FrozenSet[int]] = None
        for result in operator.results:
            if result.on_device and result.storage not in touched:
                if sources is None:
                    sources = self._sources(touched) if by_values else frozenset()
                self.made[result.storage] = Made(operator.name, operator.line, frames_of(frame), sources, self.order,
                                                 operator.name in COPIES and bool(torch.is_autocast_enabled()))

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
        parts.append(Segment(begin, end, begin, self.order, padding, values[0], line))
        self.segments[key] = sorted(parts, key=lambda part: part.begin)

    def forget(self, dead: Iterable[int]) -> None:
        """A number of a storage may come again once nothing remembers it."""
        for key in dead:
            for known in (self.made, self.changed, self.empty, self.segments, self.rows, self.writers, self.learned):
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


def _rounds(operator: Operator) -> bool:
    return operator.name == "aten._to_copy.default" and bool(operator.results) and operator.results[0].dtype in _HALVES and \
        operator.operands[0].dtype == torch.float32


def _statistics_of(operator: Operator) -> int:
    """The storage of the running mean that a batch_norm in training mode changes, or -1."""
    if "batch_norm" not in operator.name or "backward" in operator.name or ("training", True) not in operator.host:
        return -1
    return next((operand.storage for operand in operator.operands if operand.argument == "running_mean"), -1)


def _running_node() -> str:
    """The node of the backward pass that runs; "" outside of one, and before 2.1."""
    current = getattr(torch._C, "_current_autograd_node", None)
    node = current() if current else None
    return node.name() if node is not None else ""


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

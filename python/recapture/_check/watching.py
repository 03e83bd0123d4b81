"""Watches a program's own captures and replays: freed memory, overwritten memory, missing waits, and how it uses them."""
from __future__ import annotations

import dataclasses
import itertools
import sys
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch

from .comparison import dead_operands, is_view, refusal, where, work_outside
from .cuda import root_of
from .findings import CheckReport, Finding, Kind, Line
from .ranks import Gone, Ranks, absent
from .recording import Call, Operator, Recorder, Storage, line_of
from .usage import Usage
from .usage.tracking import Uses

_LIMITS = [
    "Host values, branches and Python state that the capture froze: check(fn, make_inputs) shows them.",
    "Inputs that the program should have copied and did not, as long as the old ones live.",
    "Work of threads that began before, and of libraries that launch kernels themselves.",
]


@dataclasses.dataclass
class Graph:
    """A capture, and the memory that its replays read and write."""

    number: int
    call: Call
    line: Optional[Line]
    reads: Dict[int, Operator] = dataclasses.field(default_factory=dict)
    writes: Dict[int, Operator] = dataclasses.field(default_factory=dict)
    ranges: List[Tuple[int, int]] = dataclasses.field(default_factory=list)  # All memory that it writes, its own too.
    kept: Set[int] = dataclasses.field(default_factory=set)  # Storages that it made and that outlived the capture.
    pool: List[Tuple[int, int]] = dataclasses.field(default_factory=list)  # The memory of its pool.
    last: Tuple[int, int] = (0, 0)  # Stream and time of the last replay.
    waits: List[Any] = dataclasses.field(default_factory=list)  # External events that each replay waits for,
    records: List[Any] = dataclasses.field(default_factory=list)  # and events that it records.
    uses: Optional[Uses] = None


_numbers = itertools.count()


class Clocks:
    """Which work is ordered before which: by streams, events, and the host's waits."""

    def __init__(self) -> None:
        self.known: Dict[int, Dict[int, int]] = {}
        self.host: Dict[int, int] = {}
        # An event's clock is stored on the event: in 2.11 torch.cuda.Event leaves weak references to it dangling
        # (pytorch#183403), and the interpreter crashes on them at exit.
        self.attribute = f"_recapture_clock_{next(_numbers)}"

    def _of(self, stream: int) -> Dict[int, int]:
        return self.known.setdefault(stream, {stream: 0})

    @staticmethod
    def _merge(into: Dict[int, int], other: Dict[int, int]) -> None:
        for stream, time in other.items():
            into[stream] = max(into.get(stream, 0), time)

    def work(self, stream: int) -> Tuple[int, int]:
        """New work on a stream, after everything that the host has waited for."""
        clock = self._of(stream)
        self._merge(clock, self.host)
        clock[stream] += 1
        return stream, clock[stream]

    def record(self, event: Any, stream: int) -> None:
        setattr(event, self.attribute, dict(self._of(stream)))

    def wait(self, event: Any, stream: int) -> None:
        self._merge(self._of(stream), getattr(event, self.attribute, {}))

    def wait_on_host(self, event: Any) -> None:
        self._merge(self.host, getattr(event, self.attribute, {}))

    def synchronize(self, stream: Optional[int] = None) -> None:
        for number in list(self.known) if stream is None else [stream]:
            self._merge(self.host, self._of(number))

    def comes_before(self, work: Tuple[int, int], stream: int) -> bool:
        stream_of_work, time = work
        return max(self._of(stream).get(stream_of_work, 0), self.host.get(stream_of_work, 0)) >= time

    def is_done(self, work: Tuple[int, int]) -> bool:
        return self.host.get(work[0], 0) >= work[1]


class CudaEvents:
    """Reports captures, replays and waits to the watch: replaces methods of torch.cuda's classes."""

    def __init__(self) -> None:
        self.replaced: List[Tuple[Any, str, Any]] = []

    def install(self, watch: "Watch") -> None:
        def around(owner: Any, name: str, after: Callable[..., None], before: Optional[Callable[..., None]] = None,
                   failed: Optional[Callable[[BaseException], None]] = None) -> None:
            original = getattr(owner, name)

            def method(*args: Any, **kwargs: Any) -> Any:
                if before:
                    before(*args, **kwargs)
                try:
                    result = original(*args, **kwargs)
                except BaseException as error:
                    if failed:
                        failed(error)
                    raise
                after(result, *args, **kwargs)
                return result

            self.replaced.append((owner, name, owner.__dict__.get(name)))
            setattr(owner, name, method)

        graph = torch.cuda.CUDAGraph
        around(graph, "capture_begin", lambda _, g, *a, **k: watch.begin(g))
        around(graph, "capture_end", lambda _, g: watch.end(g), lambda g: watch.ending(g), watch.failed)
        around(graph, "replay", lambda _, g: watch.replayed(g), lambda g: watch.replaying(g))
        event, stream = torch.cuda.Event, torch.cuda.Stream
        around(event, "record", lambda _, e, stream=None: watch.recorded(e, self.number(stream)))
        around(event, "wait", lambda _, e, stream=None: watch.waited(e, self.number(stream)))
        around(event, "synchronize", lambda _, e: watch.clocks.wait_on_host(e))
        around(stream, "synchronize", lambda _, s: watch.clocks.synchronize(s.cuda_stream))
        around(torch.cuda, "synchronize", lambda _, device=None: watch.clocks.synchronize())
        around(torch.cuda, "make_graphed_callables", lambda *_, **__: watch.has_made(),
               lambda callables, *a, **k: watch.making(callables), lambda _: watch.usage.has_failed_to_make())

    def remove(self) -> None:
        for owner, name, original in reversed(self.replaced):
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self.replaced.clear()

    @staticmethod
    def number(stream: Any = None) -> int:
        return int((stream or torch.cuda.current_stream()).cuda_stream)

    def current(self) -> int:
        return self.number()

    def on_device(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.is_cuda)

    def is_capturing(self) -> bool:
        return bool(torch.cuda.is_current_stream_capturing())

    def pool_ranges(self, graph: Any) -> List[Tuple[int, int]]:
        pool = tuple(graph.pool())
        return [(segment["address"], segment["address"] + segment["total_size"]) for segment in torch.cuda.memory_snapshot()
                if tuple(segment.get("segment_pool_id", ())) == pool]


class Watch:
    """A context manager around captures and replays; its value is the report, complete at its end."""

    def __init__(self, events: Any = None) -> None:
        self.events = events or CudaEvents()
        self.report = CheckReport("the captures and replays of this block")
        self.clocks = Clocks()
        self.graphs: "weakref.WeakKeyDictionary[Any, Graph]" = weakref.WeakKeyDictionary()
        self.all: List[Graph] = []
        self.open: Optional[Graph] = None
        self.storages: Dict[int, Storage] = {}
        self.written: Dict[int, Tuple[Tuple[int, int], Optional[Line], str]] = {}  # Last writer of a storage.
        self.readers: Dict[int, Tuple[Tuple[int, int], Optional[Line], str]] = {}  # Last reader, of pinned memory.
        self.lost: Dict[int, Tuple[Graph, Graph]] = {}  # Storages of one graph that another's replay overwrote.
        self.overlaps: Dict[Tuple[int, int], Set[int]] = {}
        self.usage = Usage(self.storages)
        self.limit = 100_000
        self.replays = 0
        self.ranks = Ranks.of_this_process()
        if self.ranks:
            self.report.rank, self.report.ranks = self.ranks.rank, self.ranks.of

    def __enter__(self) -> CheckReport:
        if self.ranks:
            self.ranks.begin()
            if self.ranks.gone:
                self._add(absent(self.ranks.missing()))
                self.ranks = None
        self.recorder = Recorder(self.events.on_device, capturing=self.events.is_capturing, storages=self.storages)
        self.recorder.after = self._after
        self.recorder.begin([])
        try:
            self.events.install(self)
            self.usage.install()
        except BaseException:
            self.events.remove()
            self.usage.remove()
            raise
        self.recorder.__enter__()
        return self.report

    def __exit__(self, *exception: Any) -> None:
        self.events.remove()
        self.usage.remove()
        self.recorder.__exit__(*exception)
        self._take()
        if self.ranks:
            self.ranks.leave(f"{exception[0].__name__} has ended its block" if exception[0] else "its block has ended")
        self.report.compared = {"graphs": len(self.all), "replays": self.replays,
                                "operators": sum(len(graph.call.operators) for graph in self.all)}
        if self.open:
            self.report.unknown.append("The capture that began last, which has not ended in this block.")
        elif not self.all:
            self.report.unknown.append("Anything: nothing was captured in this block.")
        elif not self.replays:
            self.report.unknown.append("Replays: none ran in this block.")
        self.report.unknown += _LIMITS

    def _add(self, finding: Finding) -> None:
        key = (finding.kind, finding.line, finding.case)
        if key not in {(other.kind, other.line, other.case) for other in self.report.findings}:
            self.report.findings.append(finding)

    def _take(self) -> None:
        """Adds what the rules about the program's use have found."""
        for finding in self.usage.findings:
            self._add(finding)
        self.usage.findings.clear()

    # Captures.

    def making(self, callables: Any) -> None:
        with self.recorder.paused():
            try:
                self.usage.make(callables)
            except BaseException:  # It copies buffers.
                self.usage.has_failed_to_make()
                raise

    def has_made(self) -> None:
        if self.usage.tracking.is_making:
            self.usage.has_made()
            self._take()

    def begin(self, graph: Any) -> None:
        self.usage.begin()
        call = self.recorder.begin([])
        self.open = Graph(len(self.all) + 1, call, line_of(sys._getframe(1)))

    def ending(self, graph: Any) -> None:
        """The last operators belong to the capture; the program's next ones do not."""
        if not self.open:
            return
        for finding in work_outside(self.open.call):
            self._add(finding)

    def failed(self, error: BaseException) -> None:
        """The capture has ended without a graph; the program's next operators are eager code."""
        self.open = None
        self.usage.has_failed_to_capture()
        self.recorder.begin([])
        self._add(refusal(root_of(error), self.recorder.running))
        self.recorder.running = None

    def end(self, graph: Any) -> None:
        entry, self.open = self.open, None
        self.recorder.begin([])
        if not entry:
            return
        for operator in entry.call.operators:
            if not operator.captured:
                continue
            for operand in operator.operands:
                if operand.origin[0] in ("outside", "fresh") and self._is_used(operator, operand):
                    (entry.writes if operand.written else entry.reads).setdefault(operand.storage, operator)
            for operand in operator.operands + operator.results:
                storage = self.storages[operand.storage]
                if (operand.written or operand.origin[0] == "made") and operand.on_device and storage.size:
                    entry.ranges.append((storage.address, storage.address + storage.size))
        entry.kept = {key for key in entry.call.made if not self.storages[key].dead}
        entry.pool = self.events.pool_ranges(graph)
        for operator in entry.call.operators:
            for operand in operator.operands:
                if operand.origin[0] == "fresh":
                    operand.origin = ("outside", operand.storage)
        entry.ranges = sorted(set(entry.ranges))
        entry.uses = Uses(entry.reads, frozenset(entry.writes), frozenset(entry.kept), entry.call.operators)
        self.usage.end(entry.uses)
        self.graphs[graph] = entry
        self.all.append(entry)

    def _is_used(self, operator: Operator, operand: Any) -> bool:
        if operand.on_device:
            return True
        return self.storages[operand.storage].pinned and "copy" in operator.name

    def recorded(self, event: Any, stream: int) -> None:
        self.clocks.record(event, stream)
        if self.open:
            self.open.records.append(event)

    def waited(self, event: Any, stream: int) -> None:
        if self.open and not any(event is other for other in self.open.records):
            self.open.waits.append(event)
        self.clocks.wait(event, stream)

    # Replays.

    def replaying(self, graph: Any) -> None:
        entry = self.graphs.get(graph)
        if not entry:
            return
        if self.ranks:
            self._meet(self.ranks, entry)
        if entry.uses:
            with self.recorder.paused():  # It reads buffers.
                self.usage.replaying(entry.uses)
            self._take()
        stream = self.events.current()
        for event in entry.waits:
            self.clocks.wait(event, stream)
        for finding in dead_operands(entry.call, self.storages, self._is_graph_memory):
            self._add(finding)
        for key, operator in entry.reads.items():
            writer = self.written.get(key)
            if writer and not self.clocks.comes_before(writer[0], stream):
                self._add(Finding(
                    Kind.UNORDERED, f"a replay reads it for {operator.name} at {where(operator.line)}, on another stream, "
                    "which does not wait for this", "reads what was written", "may read the old values", writer[2],
                    writer[1], "copy_on_another_stream"))
            if key in self.lost:
                owner, other = self.lost[key]
                self._add(_lost(operator.line, operator.name, owner, other))
        for other in self.all:
            if other is not entry and other.last[1] and not self.clocks.comes_before(other.last, stream) and \
                    _overlap(entry.ranges, other.ranges):
                self._add(Finding(
                    Kind.UNORDERED, f"graphs {entry.number} and {other.number} share memory, and neither replay waits for "
                    "the other", "memory of its own", "intermediates that the other graph may overwrite", "CUDAGraph.replay",
                    line_of(sys._getframe(1)), "graphs_side_by_side_in_a_pool"))

    def _meet(self, ranks: Ranks, entry: Graph) -> None:
        """A replay that would wait for ever is not begun."""
        found = ranks.meet_before_replay(entry.call)
        if found:
            self._add(dataclasses.replace(found, line=line_of(sys._getframe(2)), operator="CUDAGraph.replay"))
            raise Gone(f"recapture check: {found.what}: {found.eager}; {found.graph}")

    def replayed(self, graph: Any) -> None:
        entry = self.graphs.get(graph)
        if not entry:
            return
        self.replays += 1
        if entry.uses:
            self.usage.replayed(entry.uses)
        line = line_of(sys._getframe(1))
        stream = self.events.current()
        work = entry.last = self.clocks.work(stream)
        for event in entry.records:
            self.clocks.record(event, stream)
        for key in entry.writes:
            self.written[key] = (work, line, "CUDAGraph.replay")
        for key in entry.reads:
            self.readers[key] = (work, line, "CUDAGraph.replay")
        for key in entry.kept:
            self.lost.pop(key, None)
        for other in self.all:
            if other is not entry and other.last[1]:
                self.lost.update((key, (other, entry)) for key in self._overwritten(entry, other))

    def _overwritten(self, graph: Graph, owner: Graph) -> Set[int]:
        """Storages of one graph in memory that another graph's replay writes."""
        pair = (graph.number, owner.number)
        if pair not in self.overlaps:
            storages = {key: self.storages[key] for key in owner.kept}
            self.overlaps[pair] = {key for key, storage in storages.items()
                                   if _overlap(graph.ranges, [(storage.address, storage.address + storage.size)])}
        return self.overlaps[pair]

    def _is_graph_memory(self, storage: Storage) -> bool:
        """Memory of a pool is not freed; conflicts between replays there are reported separately."""
        return any(begin <= storage.address < end for graph in self.all for begin, end in graph.pool)

    # Eager code around them.

    def _after(self, operator: Operator, given: Any) -> None:
        if self.open:
            self.usage.captured(operator, given)
            return
        if not is_view(operator):
            with self.recorder.paused():  # It reads the values of index tensors.
                self.usage.eager(operator, given)
            self._take()
        call = self.recorder.calls[-1]
        call.operators.clear()  # Only the operators in captures are needed later.
        call.made.clear()
        if len(self.storages) > self.limit:
            self._forget_dead()
        if operator.name in ("aten.detach.default", "aten.view.default", "aten.alias.default"):
            return
        self._find_repeated(operator)
        for operand in operator.operands:
            if operand.storage in self.lost and not operand.written:
                owner, other = self.lost[operand.storage]
                self._add(_lost(operator.line, operator.name, owner, other))
        if not operator.on_device:
            self._host_work(operator)
            return
        stream = self.events.current()
        work = self.clocks.work(stream)
        for operand in operator.operands:
            if operand.written:
                self.written[operand.storage] = (work, operator.line, operator.name)
            elif not operand.on_device:
                self.readers[operand.storage] = (work, operator.line, operator.name)
        for result in operator.results:
            if all(result.storage != operand.storage for operand in operator.operands):
                self.written[result.storage] = (work, operator.line, operator.name)
        if _waits(operator):
            self.clocks.synchronize(stream)

    def _forget_dead(self) -> None:
        used = {operand.storage for graph in self.all for operator in graph.call.operators
                for operand in operator.operands + operator.results}
        dead = [key for key, storage in self.storages.items() if storage.dead and key not in used]
        for key in dead:
            del self.storages[key]
            self.usage.forget(key)
            self.written.pop(key, None)
            self.readers.pop(key, None)
        self.recorder.calls[-1].fresh.clear()
        self.limit = max(self.limit, 2 * len(self.storages))

    def _host_work(self, operator: Operator) -> None:
        """The host writes memory that a graph's replay, possibly still running, copies from."""
        for operand in operator.operands:
            reader = self.readers.get(operand.storage)
            pinned = self.storages[operand.storage].pinned
            if operand.written and pinned and reader and not self.clocks.is_done(reader[0]):
                self._add(Finding(
                    Kind.UNORDERED, f"the host writes pinned memory that {reader[2]} at {where(reader[1])} may not have "
                    "read yet", "waits for the copy", "uploads what the host has written since", operator.name,
                    operator.line, "pinned_buffer_overwritten"))

    def _find_repeated(self, operator: Operator) -> None:
        """The output of several replays, used as if it were several tensors."""
        if len(operator.operands) < 2:
            return
        outputs = {key for graph in self.all for key in graph.kept}
        seen: Set[Any] = set()
        for operand in operator.operands:
            name = operand.argument.split("[")[0]
            key = (name, operand.storage, operand.offset)
            if "[" in operand.argument and operand.storage in outputs and key in seen:
                self._add(Finding(
                    Kind.OVERWRITTEN, "a list holds the output of one graph several times: each replay has overwritten "
                    "the one before", "a tensor of each step's own", "the values of the last replay, several times",
                    operator.name, operator.line, "output_overwritten_by_replay"))
            seen.add(key)


def _lost(line: Optional[Line], operator: str, owner: Graph, other: Graph) -> Finding:
    return Finding(
        Kind.OVERWRITTEN,
        f"it reads a tensor of graph {owner.number}, whose memory a replay of graph {other.number} has used since",
        f"the values of graph {owner.number}", f"those of graph {other.number}", operator, line, "graphs_sharing_a_pool")


def _overlap(ranges: List[Tuple[int, int]], others: List[Tuple[int, int]]) -> bool:
    return any(a < d and c < b for a, b in ranges for c, d in others)


def _waits(operator: Operator) -> bool:
    """Whether the host waits for this operator: it reads a value back, or copies without non_blocking."""
    if "_local_scalar_dense" in operator.name or "nonzero" in operator.name or "aten.equal" in operator.name:
        return True
    if "copy" not in operator.name:
        return False
    sides = {operand.on_device for operand in operator.operands + operator.results}
    return len(sides) == 2 and not any(name == "non_blocking" and value for name, value in operator.host)

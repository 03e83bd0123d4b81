"""Runs a function eagerly and as a graph, and reports where they differ."""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

import torch

from . import comparison, later, progress
from .copies import joins, on_host
from .cuda import FREE, Node, Refused
from .findings import CheckReport, Finding, Kind, Line, shown
from .garbage import look_at_old_objects
from .ranks import Gone, Ranks, absent, collectives_of, described
from .recording import COPIES, SCALARS, Call, Operator, Recorder, Storage, host_form, is_dataclass, key_of, line_at, storage_of, tensors_in
from .state import Iterators, Saved, State, changed_host_values, has_data, lines_that_change, value_at

Arguments = Tuple[Tuple[Any, ...], Dict[str, Any]]
_MOST = 12  # Findings in a report; more would only be consequences of the first ones.
_REPEATED = 0.1  # Eager values that differ more between runs are not repeatable, rather than noisy.


class ReplayFailed(Exception):
    """`error` is the exception of the replay of call `number`."""

    def __init__(self, number: int, error: BaseException) -> None:
        super().__init__(str(error))
        self.number, self.error = number, error


class LaterFailed(ReplayFailed):
    """Of a replay after other work; the report has it already."""


class Inputs:
    """The sets of inputs: make_inputs(i), or variations of one set."""

    def __init__(self, make_inputs: Any) -> None:
        self.make = make_inputs

    def get(self, number: int) -> Arguments:
        if self.make is None:
            return (), {}
        if callable(self.make):
            return _as_arguments(self.make(number))
        return _as_arguments(_varied(self.make, number))


def _as_arguments(given: Any) -> Arguments:
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], tuple) and isinstance(given[1], dict):
        return given
    if isinstance(given, dict):
        return (), given
    if isinstance(given, (list, tuple)):
        return tuple(given), {}
    return (given,), {}


def _with_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A copy of containers with `change` applied to each tensor."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_with_tensors(item, change) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(item, change) for item in value)
    if isinstance(value, dict):
        changed = copy.copy(value)  # Keeps its type, whose constructor may take other arguments than dict's.
        changed.update((key, _with_tensors(item, change)) for key, item in value.items())
        return changed
    if is_dataclass(value):
        changed = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(changed, field.name, _with_tensors(getattr(value, field.name), change))
        return changed
    return value


def _varied(value: Any, number: int) -> Any:
    """Other values of the same kind: an index stays an index."""
    def vary(tensor: torch.Tensor) -> torch.Tensor:
        if number == 0 or tensor.numel() == 0:
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        rolled = torch.roll(tensor.detach().reshape(-1), number).reshape(tensor.shape)
        if rolled.is_floating_point():
            rolled = rolled * (1 + number / 8)
        return rolled.requires_grad_(tensor.requires_grad)

    return _with_tensors(value, vary)


def _leaves(value: Any, name: str) -> Iterable[Tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{name}[{number}]")
    elif is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name), f"{name}.{field.name}")
    else:
        yield name, value


def tensors_by_name(result: Any, arguments: Arguments) -> Dict[str, torch.Tensor]:
    """A call's outputs and its arguments."""
    leaves = [*_leaves(result, "output"), *_leaves(arguments[0], "input"), *_leaves(arguments[1], "input")]
    return {name: leaf for name, leaf in leaves if isinstance(leaf, torch.Tensor) and has_data(leaf)}


@dataclasses.dataclass
class Difference:
    """A value of two runs: its distance, and both where they differ most."""

    name: str
    apart: float
    tolerance: float
    samples: Tuple[str, str]
    storage: Optional[int]


class _Ended(Exception):
    """Another rank does not go on, so this one does not either. `finding` may be nothing."""

    def __init__(self, finding: Optional[Finding] = None) -> None:
        super().__init__()
        self.finding = finding


class Run:
    """The result of one pass over all inputs: outputs of each call, and the state after the last, on the host.

    With `against` it keeps no copies, but what differs from that run.
    """

    def __init__(self, against: Optional["Run"] = None, keep: bool = True) -> None:
        self.outputs: List[Dict[str, torch.Tensor]] = []
        self.state: Dict[str, torch.Tensor] = {}
        self.generators: List[Any] = []
        self.seconds = 0.0
        self.against, self.keep = against, keep
        self.differences: List[Difference] = []

    def add_outputs(self, values: Dict[str, torch.Tensor]) -> None:
        number = len(self.outputs)
        others = self.against.outputs[number] if self.against and number < len(self.against.outputs) else {}
        self.outputs.append(self._taken(others, values, f"of call {number + 1}"))

    def end(self, state: Dict[str, torch.Tensor]) -> None:
        others = self.against.state if self.against and len(self.outputs) == len(self.against.outputs) else {}
        self.state = self._taken(others, {name: value for name, value in state.items() if has_data(value)},
                                 "after the last call")

    def _taken(self, others: Dict[str, torch.Tensor], values: Dict[str, torch.Tensor], when: str) -> Dict[str, torch.Tensor]:
        """The copies of values, which are compared with others; a large one is compared where it is."""
        copies = on_host(values if self.keep else
                         {name: values[name] for name in others if name in values and joins(values[name])})
        for name, other in others.items():
            value = values.get(name)
            if value is None:
                continue
            near = copies[name] if joins(value) else value
            apart, tolerance = comparison.difference(other, near), comparison.tolerance_of(other)
            if apart > 0:
                samples = comparison.sample(other, near) if apart > tolerance else ("", "")
                self.differences.append(Difference(f"{name} {when}", apart, tolerance, samples, key_of(value)))
        return copies if self.keep else {}


def noise_of(differences: List[Difference]) -> Tuple[List[str], float]:
    """Of two runs of eager code: the values that are not repeated, and the largest difference of the others."""
    repeated = [each.apart for each in differences if each.apart <= _REPEATED]
    return [each.name for each in differences if each.apart > _REPEATED], max([0.0, *repeated])


def beyond_noise(differences: List[Difference], not_repeated: List[str], noise: float) -> List[Difference]:
    return [each for each in differences
            if each.apart > max(each.tolerance, 10 * noise) and each.name not in not_repeated]


def beyond_rounding(differences: List[Difference], nudged: List[Difference]) -> List[Difference]:
    """Without the values that other last bits of what goes in change as much; `nudged` is what these changed."""
    apart = {each.name: each.apart for each in nudged}
    return [each for each in differences if each.apart > 10 * apart.get(each.name, 0.0)]


class Checking:
    def __init__(self, fn: Callable[..., Any], make_inputs: Any, count: int, warm_up: int, backend: Any,
                 ask_later: bool = False) -> None:
        self.ask_later = ask_later
        self.fn, self.inputs, self.count, self.warm_up, self.backend = fn, Inputs(make_inputs), count, warm_up, backend
        self.report = CheckReport(_name_of(fn))
        self.ranks = Ranks.of_this_process()
        if self.ranks:
            self.report.rank, self.report.ranks = self.ranks.rank, self.ranks.of
        self.storages: Dict[int, Storage] = {}
        self.calls: List[Call] = []  # Of the last recorded run.
        self.unseen = ""  # The part of the state that was not reached.
        self.not_repeated: List[str] = []  # Values that differ between two runs of eager code.
        self.opaque: Dict[str, str] = {}  # Outputs that may have tensors, and their types.
        self.skipped_from = 0  # The first call whose inputs do not fit into the static ones.
        self.generator: Any = None
        self.before = self.saved = Saved(State({}))  # The state before the check, and after the warm-up.
        self.noise = 0.0  # The largest difference between two runs of eager code, relative to the values.
        self.host_changes: List[Dict[str, Tuple[Any, Any, bool]]] = []  # Of each call of the last run.
        self.static: Arguments = ((), {})
        self.captured_state: Dict[str, bool] = {}  # The tensors of the state that was captured: whether one is a parameter.
        self.side_effects: List[Tuple[Finding, bool]] = []  # With each, whether tensors are lost.
        self.hidden: List[Any] = []  # Weak references to storages that no walk finds, of the last recorded run.
        self.dead: List[Finding] = []  # Operands that have been freed since the capture.
        self.has_same_nodes = True  # Whether the graph has as many nodes as that of the capture that was recorded.
        self.replayed: Optional[Tuple[Arguments, Any]] = None  # The inputs and outputs of the backend's graph.
        self.growing: Tuple[str, ...] = ()  # Names of tensors in containers that grow begin so.
        self.opaque_operators: Dict[str, Optional[Line]] = {}
        self.say: Callable[[str], None] = progress.say

    # The passes.

    def check(self) -> CheckReport:
        with self._recording():
            torch.empty(0)  # The first use of a dispatch mode imports half of PyTorch.
        began = time.monotonic()
        if self.ranks:
            self.say("waiting for the other ranks")
            self.ranks.begin()
            if self.ranks.gone:
                self.report.findings.append(absent(self.ranks.missing()))
                return self.report
        self.say("saving the state")
        self.backend.synchronize()
        state = self._state()
        self.before = Saved(state)
        iterators = Iterators(state)
        del state
        generator = self.backend.generator_state()
        failed = stuck = False
        try:
            self._check()
        except _Ended as ended:
            self.report.findings += [ended.finding] if ended.finding else []
            self.report.remarks += [finding for finding, _ in self.side_effects]
            self._add_limits()
        except Gone as gone:
            stuck = True
            self.report.findings.append(absent(str(gone)))
            self.report.unknown.append("The state was not restored: the GPU waits for another rank in a replay.")
        except ReplayFailed as failure:
            failed = True
            if self.ranks:
                self.ranks.leave(f"its replay failed: {comparison.first_line(failure.error)[:200]}")
            if not isinstance(failure, LaterFailed):
                self.report.findings.append(Finding(
                    Kind.WRONG_VALUE, f"the replay of call {failure.number} failed", "runs",
                    comparison.first_line(failure.error)[:300]))
        except BaseException as error:
            if self.ranks:
                self.ranks.leave(f"{type(error).__name__}: {comparison.first_line(error)[:200]}")
            raise
        finally:
            try:
                if not stuck:
                    self.before.restore()
                    self.backend.set_generator_state(generator)
            except Exception as error:
                if not failed:
                    raise
                # A failed kernel leaves an unusable context.
                self.report.unknown.append(f"The state was not restored: {comparison.first_line(error)}.")
            finally:
                iterators.put_back()
        if self.ranks and not failed and not self.ranks.gone:
            self.ranks.exchange("end", None)  # A process that ended would be missed by a rank that still waits for its GPU.
        if not failed and not stuck:
            self.backend.end()
        self.report.findings = _arranged(self.report.findings)[:_MOST]
        self.report.remarks = _arranged(self.report.remarks)
        self.report.cost["seconds"] = round(time.monotonic() - began, 3)
        return self.report

    def _check(self) -> None:
        for number in range(self.warm_up):
            self.say(f"warming up, call {number + 1} of {self.warm_up}")
            self.backend.reset_peak()
            arguments = self.inputs.get(0)
            self.backend.run(lambda: self._call(arguments))
            del arguments
        eager_peak = self.backend.peak()
        self.saved = Saved(self._state())
        self.generator = self.backend.generator_state()
        self.say("running eager code")
        bare = self._run_eagerly(record=False)
        eager_seconds = bare.seconds / self.count
        self._restore()
        self.say("recording eager code")
        eager = self._recorded(bare)
        if self._by_all("hidden", self.saved.hide(self.hidden) and any(each.apart for each in eager.differences)):
            self._restore()
            bare = self._run_eagerly(record=False)
            self._restore()
            eager = self._run_eagerly(record=True, against=bare)
        self.not_repeated, self.noise = noise_of(eager.differences)
        del bare
        eager.against, eager.differences = None, []
        calls = self.calls
        self.report.compared = {"inputs": self.count, "operators": len(calls[0].operators),
                                "host values": sum(len(op.host) for op in calls[0].operators)}
        self.report.findings += comparison.compare_calls(calls)
        if not self._found(Kind.CONTROL_FLOW):
            self.report.findings += comparison.compare_outputs(eager.outputs, _definition_of(self.fn))
        self._find_side_effects()
        self.say("capturing and replaying")
        captured = self._capture_and_replay(eager)
        self.report.cost.update({
            "eager_call_seconds": round(eager_seconds, 6),
            "eager_peak_bytes": eager_peak, "peak_bytes": self.backend.peak()})
        if captured:
            self._classify(calls, *captured, eager)
            if self.ask_later:
                self._later(captured[0])
        else:
            self.report.remarks += [finding for finding, _ in self.side_effects]
        self._add_limits()

    def _recorded(self, bare: Run) -> Run:
        """A run with its operators recorded; or without, where a library fails below a dispatch mode."""
        try:
            return self._run_eagerly(record=True, against=bare)
        except Exception as error:
            if self.ranks:  # The others may wait for what this run had to do.
                raise
            reason = comparison.first_line(error)[:200]
        self._restore()
        eager = self._run_eagerly(record=False, against=bare)
        self.report.unknown.append(f"Which operators the function calls: recording them fails ({reason}).")
        self.calls, self.host_changes, self.hidden = [Call() for _ in range(self.count)], [], []
        return eager

    def _add_limits(self) -> None:
        self._add_unknown()
        self.report.unknown += _LIMITS
        if not self.backend.reads_addresses:
            self.report.unknown.append("Addresses in kernels' parameters: this driver is older than CUDA 12.4.")

    def _by_all(self, name: str, wanted: bool) -> bool:
        """Whether to run the function now: all ranks do, or none, because it may wait for the others."""
        if not self.ranks:
            return wanted
        wanted = self.ranks.any(name, wanted)
        if self.ranks.gone:
            raise _Ended(absent(self.ranks.missing()))
        return wanted

    def _found(self, *kinds: Kind) -> bool:
        return any(finding.kind in kinds for finding in self.report.findings)

    def _add_unknown(self) -> None:
        unknown = self.report.unknown
        if self.unseen:
            unknown.append(self.unseen)
        if self.not_repeated:
            more = f" and {len(self.not_repeated) - 6} more" if len(self.not_repeated) > 6 else ""
            unknown.append(f"Values that eager code does not repeat: {', '.join(self.not_repeated[:6])}{more}.")
        if self.skipped_from:
            unknown.append(
                f"Replays from call {self.skipped_from} on: the shapes of its inputs are not those of the capture.")
        unknown += [f"Inside {name}{f' at {comparison.where(line)}' if line else ''}: its operators are not recorded one by "
                    "one, and its results are compared." for name, line in self.opaque_operators.items()]
        unknown += [f"Tensors in {name}, whose type is {kind}." for name, kind in self.opaque.items()]

    def _state(self) -> State:
        state = State({_name_of(self.fn): self.fn})
        self.unseen = state.unseen
        return state

    def _call(self, arguments: Arguments) -> Any:
        return self.fn(*arguments[0], **arguments[1])

    def _restore(self) -> None:
        self.saved.restore()
        self.backend.set_generator_state(self.generator)
        if torch.is_autocast_enabled(self.backend.device):
            torch.clear_autocast_cache()  # As in training, which enters a region in each step.

    def _recording(self, **options: Any) -> Recorder:
        return Recorder(self.backend.on_device, storages=self.storages, **options)

    def _run_eagerly(self, record: bool, against: Optional[Run] = None, keep: bool = True,
                     change: Callable[[Any], Any] = lambda arguments: arguments, **options: Any) -> Run:
        run = Run(against, keep)
        recorder = self._recording(generator_state=self.backend.generator_state, **options) if record else None
        if recorder:
            self.calls = recorder.calls
            self.host_changes = []
            hidden = recorder.hidden
            self.opaque_operators = recorder.opaque
        for number in range(self.count):
            arguments = change(self.inputs.get(number))
            if torch.is_autocast_enabled(self.backend.device):
                torch.clear_autocast_cache()
            state = self._state() if recorder else None
            if recorder and state:
                recorder.begin(tensors_in(list(arguments)), state.tensors.values())
                recorder.calls[-1].generator = self.backend.generator_state()

            def call() -> Any:
                if not recorder:
                    return self._call(arguments)
                with recorder:
                    return self._call(arguments)

            began = time.monotonic()
            result = self.backend.run(call)
            run.seconds += time.monotonic() - began
            run.add_outputs(tensors_by_name(result, arguments))
            leaves = [*_leaves(result, "output"), *_leaves(arguments[0], "input"), *_leaves(arguments[1], "input")]
            self.opaque.update((name, type(leaf).__name__) for name, leaf in leaves
                               if not isinstance(leaf, (torch.Tensor, *SCALARS, torch.dtype, torch.device)))
            del leaves
            run.generators.append(self.backend.generator_state())
            del result, arguments, call
            after = self._state() if state or number == self.count - 1 else None
            if recorder and state and after:
                recorder.calls[-1].generator_after = run.generators[-1]
                self.host_changes.append(changed_host_values(state, after))
        if recorder:
            self.hidden = [self.storages[key].weak for key in hidden]
        assert after
        run.end(after.tensors)
        return run

    def _capture_and_replay(self, eager: Run) -> Optional[Tuple[Call, Run]]:
        self.saved.restore()
        self.backend.set_generator_state(self.generator)
        self.before.weaken()
        self.saved.weaken()
        static = self.static = copy_of(self.inputs.get(0))  # Static inputs live as long as the graph.
        recorder = self._recording(capturing=self.backend.is_capturing, count_nodes=self.backend.count_nodes)
        captured = recorder.begin(tensors_in(list(static)), self._state().tensors.values())
        try:
            with_recorder = _within(recorder, lambda: self._call(static))
            # The nodes of the second graph are read; with ranks there is none.
            result = self.backend.capture(with_recorder, read_nodes=bool(self.ranks))
        except Refused as refused:
            if self.ranks:
                self.ranks.exchange("captured", {"refused": comparison.first_line(refused.cause)[:200], "collectives": []})
            else:
                unwatched = self._captured_unwatched()
                if unwatched:
                    return self.calls[0], self._replay(*unwatched, eager)
            # A second capture of one rank alone could wait for the others.
            blamed = None if self.ranks else self._blame()
            self.report.findings.append(comparison.refusal(refused.cause, recorder.running, blamed))
            return None
        self.captured_state = {name: isinstance(tensor, torch.nn.Parameter)
                               for name, tensor in self._state().tensors.items()}
        self.report.findings += comparison.work_outside(captured)
        if self.ranks:
            self._compare_captures(self.ranks, captured)
        nodes = self.backend.node_count
        if self.ranks:  # Where another rank's capture is refused, a replay would wait for it.
            run = self._replay(static, result, eager)
            self.dead = comparison.dead_operands(captured, self.storages)
            return captured, run
        try:  # What a cache got in this capture has its values then: the next one may find it there.
            self.backend.replay()
        except Exception as error:
            raise ReplayFailed(1, error) from error
        for number in range(self.count):  # As between replays: what these drop is dead.
            self.inputs.get(number)
        self.dead = comparison.dead_operands(captured, self.storages)
        del result, static
        try:
            unwatched = self._captured_again()
        except Refused as refused:
            # Dynamo compiles nothing below a mode, and then refuses what it would have compiled before.
            watched = self._captured_below_a_mode() if type(refused.cause).__module__.startswith("torch._dynamo") else None
            if not watched:
                self.report.findings.append(comparison.refusal(refused.cause, None, self._blame()))
                return None
            unwatched = watched
        self.has_same_nodes = self.backend.node_count == nodes
        self.static, self.replayed = unwatched[0], unwatched
        return captured, self._replay(*unwatched, eager)

    def _compare_captures(self, ranks: Ranks, captured: Call) -> None:
        """A replay of graphs that do not fit together could wait for ever: then there is none."""
        mine = [described(operator) for operator in collectives_of(captured)]
        self.report.compared["collectives"] = len(mine)
        others = ranks.exchange("captured", {"refused": "", "collectives": mine})
        if ranks.gone:
            raise _Ended(absent(ranks.missing()))
        for rank, other in sorted(others.items()):
            if other["refused"]:
                self.report.unknown.append(f"Replays: the capture of rank {rank} was refused ({other['refused']}), so no "
                                           "rank replays.")
                raise _Ended
        found = ranks.compare(captured, {rank: other["collectives"] for rank, other in others.items()})
        if self._by_all("compared", found is not None):
            if not found:
                self.report.unknown.append("Replays: the graphs of other ranks do not fit together.")
            raise _Ended(found)

    def _replay(self, static: Arguments, result: Any, eager: Optional[Run] = None,
                checks: Optional[Callable[[], None]] = None, keep: bool = False) -> Run:
        run = Run(eager, keep)
        self.saved.restore_contents()
        self.backend.set_generator_state(self.generator)
        for number in range(self.count):
            given = self.inputs.get(number)
            if self._by_all("fits", not _copy_into(static, given)):
                self.skipped_from = number + 1
                break
            del given
            began = time.monotonic()
            try:
                if self.ranks:
                    self.backend.replay(self.ranks.require)
                else:
                    self.backend.replay()
            except Gone:
                raise
            except Exception as error:
                raise ReplayFailed(number + 1, error) from error
            run.seconds += time.monotonic() - began
            run.add_outputs(tensors_by_name(result, static))
            run.generators.append(self.backend.generator_state())
            if checks:
                checks()
        run.end(self._state().tensors)
        return run

    # Findings.

    def _blame(self) -> Any:
        """Captures again, and returns the report of `recapture blame`."""
        self.saved.restore()
        self.backend.set_generator_state(self.generator)
        static = copy_of(self.inputs.get(0))
        return self.backend.blame(lambda: self._call(static))

    def _find_side_effects(self) -> None:
        """The lines that change numbers and containers; _place_side_effects() decides which of them matter."""
        changed: Dict[str, Tuple[Any, Any, bool]] = {}
        for changes in self.host_changes:
            for path, change in changes.items():
                changed.setdefault(path, change)
        if not self._by_all("side effects", bool(changed)):
            return
        self.say("looking for the lines that change the host's state")
        self._restore()
        arguments = self.inputs.get(0)
        places = self._state().places

        def probe() -> Any:
            return tuple((path, host_form(value_at(places[path]))) for path in changed if path in places)

        found = lines_that_change(lambda: self.backend.run(lambda: self._call(arguments)), probe)
        lines: Dict[str, Optional[Line]] = {}
        for line, before, after in found:
            for (path, a), (_, b) in zip(before, after):
                if a != b:
                    lines.setdefault(path, line)
        findings: Dict[Any, Tuple[Finding, bool]] = {}
        for path, (before, after, tensors) in sorted(changed.items(), key=lambda item: item[0] not in lines):
            line = lines.get(path)
            hooks = line is not None and "hook" in line.function
            finding = Finding(
                Kind.SIDE_EFFECT, f"{path} changes in each call of eager code, and a replay runs no Python",
                f"{before} becomes {after} in the first call", "changes in the capture alone", "", line,
                "inner_hooks_of_graphed_callable" if hooks else "host_logic_frozen")
            first, loses = findings.get(line or path, (None, False))
            if first:
                finding = dataclasses.replace(first, follows=(*first.follows, finding))
            findings[line or path] = (finding, tensors or loses)
        self.side_effects = list(findings.values())
        self.growing = tuple(f"{path[len('len('):-1]}[" for path, (_, _, tensors) in changed.items() if tensors)

    def _place_side_effects(self, written: List[Tuple[Finding, int, bool]], call: Call, differs: bool) -> None:
        """A number that the host keeps reaches a tensor as an argument or by a branch, which other findings have."""
        findings, remarks = self.report.findings, self.report.remarks
        for finding, storage, read in written:
            at = next((number for number, cause in enumerate(findings)
                       if cause.kind in (Kind.HOST_VALUE, Kind.WRONG_VALUE) and comparison.reads(call, storage, cause)), None)
            if at is not None:
                findings[at] = dataclasses.replace(findings[at], follows=(*findings[at].follows, finding))
            else:
                (findings if read and differs else remarks).append(finding)
        alone = not findings
        for finding, tensors in self.side_effects:
            (findings if tensors and alone else remarks).append(finding)

    def _classify(self, calls: List[Call], captured: Call, graph: Run, eager: Run) -> None:
        report, first = self.report, calls[0]
        parameters = {name for name, is_parameter in self.captured_state.items() if is_parameter}
        gradients = {name for name in self.captured_state if name.endswith(".grad")}
        report.compared.update({
            "outputs": len(eager.outputs[0]), "parameters": len(parameters), "gradients": len(gradients),
            "tensors": len(set(self.captured_state) - parameters - gradients),
            "generators": 1 + len(self.saved.generators)})
        written = comparison.host_tensors_written(first)
        on_host = {storage for _, storage, _ in written}
        wrong = beyond_noise(graph.differences, self.not_repeated, self.noise)
        shifted = [number for number, (a, b) in enumerate(zip(eager.generators, graph.generators), 1)
                   if not _equal_states(a, b)]
        self._drop_what_makes_no_difference(graph, bool(shifted))
        rebound = {(finding.line, finding.operator) for finding in report.findings if finding.kind == Kind.REBOUND}
        dead = self.dead
        report.findings += [finding for finding in dead if (finding.line, finding.operator) not in rebound]
        report.findings += self._from_addresses(captured, known=bool(dead))
        unexplained = bool(wrong) and not report.findings
        rewound = self._rewound(calls) if shifted or unexplained else None
        if rewound:
            report.findings.append(rewound)
        elif shifted and not report.findings:
            report.findings.append(Finding(
                Kind.RANDOM, f"after call {shifted[0]} the generator has drawn another number of values",
                "as the eager calls", "another offset", "", None, "generator_rewound_in_capture"))
        asks = bool(wrong) and not report.findings
        if self._by_all("rounding", asks):
            kept = self._without_rounding(wrong if asks else [], eager)
            wrong = kept if asks else wrong
        if self.noise > 1e-3:
            report.unknown.append(f"Eager code itself differs from run to run by {self.noise:.1g} of the largest value; "
                                  "smaller differences of the graph are not reported.")
        report.differing = [(each.name, *each.samples) for each in wrong]
        on_gpu = [each for each in wrong if each.storage not in on_host and not each.name.startswith(self.growing or "\0")]
        differs = bool(on_gpu)
        if differs and not report.findings and self.ranks:
            self._ask_other_ranks(self.ranks, on_gpu[0])
        elif self.ranks:
            self.ranks.exchange("findings", [_place(finding) for finding in report.findings])
        asks = differs and not report.findings and not any(read for _, _, read in written)
        if asks:
            report.findings += comparison.compare_with_capture(first, captured)
            asks = not report.findings
        if self._by_all("locate", asks):
            located = self._locate(on_gpu[0] if asks else None)
            report.findings += [located] if asks else []
        self._place_side_effects(written, first, differs)

    def _ask_other_ranks(self, ranks: Ranks, wrong: Difference) -> None:
        """A value that is wrong because another rank has sent a wrong one."""
        for rank, places in sorted(ranks.exchange("findings", []).items()):
            if places:
                self.report.findings.append(Finding(
                    Kind.WRONG_VALUE, f"{wrong.name} differs, and rank {rank} has: {places[0]}", *wrong.samples))
                return

    def _drop_what_makes_no_difference(self, graph: Run, shifted: bool) -> None:
        """A frozen number that is divided out again, say, is a remark where every value is the same to the last bit."""
        hidden = self.not_repeated or self.skipped_from or self.opaque or self.unseen
        if graph.differences or shifted or hidden:
            return
        harmless = (Kind.HOST_VALUE, Kind.CONTROL_FLOW, Kind.REBOUND)
        kept = [finding for finding in self.report.findings if finding.kind not in harmless or not finding.operator]
        self.report.remarks += [finding for finding in self.report.findings if finding not in kept]
        self.report.findings = kept

    def _without_rounding(self, wrong: List[Difference], eager: Run) -> List[Difference]:
        """Leaves out values that a change of the last bits of inputs and parameters changes as much.

        A gradient that is zero but for rounding, for example: a capture may choose another algorithm for a product.
        """
        self.say("measuring the effect of rounding")
        kept = beyond_rounding(wrong, self._with_other_last_bits(eager, 1))
        if self._by_all("rounding, the other way", bool(kept)):
            kept = beyond_rounding(kept, self._with_other_last_bits(eager, -1))
        if self._by_all("noise", bool(kept)):  # Two runs of eager code may agree by accident.
            self._restore()
            kept = beyond_rounding(kept, self._run_eagerly(record=False, against=eager, keep=False).differences)
        if kept and self.replayed:
            wrong_again = {each.name for each in self._replay(*self.replayed, eager).differences if each.apart > each.tolerance}
            kept = [each for each in kept if each.name in wrong_again]
        if len(kept) < len(wrong):
            count = len(wrong) - len(kept)
            self.report.unknown.append(f"{count} value{'s that are' if count > 1 else ' that is'} rounding alone: a change of "
                                       "the inputs' last bits has as much effect as the capture.")
        return kept

    def _with_other_last_bits(self, eager: Run, sign: int) -> List[Difference]:
        """What changes where inputs and parameters have other last bits."""
        self._restore()
        with torch.no_grad():
            for tensor in self._state().tensors.values():
                if isinstance(tensor, torch.nn.Parameter) and tensor.is_floating_point() and storage_of(tensor) is not None:
                    tensor.copy_(nudged(tensor, sign))
        return self._run_eagerly(record=False, against=eager, keep=False,
                                 change=lambda arguments: _with_tensors(arguments, lambda x: nudged(x, sign))).differences

    def _from_addresses(self, captured: Call, known: bool) -> List[Finding]:
        self.report.compared["kernels"] = sum(1 for node in self.backend.nodes if node.kind == "kernel")
        self.report.compared["addresses"] = self.backend.count_addresses()
        pageable = self.backend.pageable_sources()
        freed = [] if known else list({each[0].number: each for each in self.backend.freed_addresses()}.values())
        free = [address for _, address, fate in freed if fate == FREE]
        if self._by_all("freed", bool(free)):
            unused = self._not_used(free, captured, freed)
            freed = [each for each in freed if each[1] not in unused]
        found = []  # From here on there may be another capture.
        for node in pageable:
            line, operator = self._launcher(captured, node.number)
            found.append(Finding(
                Kind.FREED, "the graph copies from host memory that is not pinned, and nothing keeps that memory",
                "what the memory holds in the call", f"what lies at {node.host_source:#x} at the replay", operator,
                line, "pageable_source_freed_before_replay" if operator else "pointer_array_from_host_array",
                f"{node.kind} node {node.number}"))
        for node, address, fate in freed:
            line, operator = self._launcher(captured, node.number)
            found.append(self._in_freed_memory(node, address, fate, line, operator))
        return found

    @staticmethod
    def _in_freed_memory(node: Node, address: int, fate: str, line: Optional[Line], operator: str) -> Finding:
        return Finding(Kind.FREED, f"a parameter of the {node.kind} points into memory that has been freed",
                       "memory that is alive", f"{address:#x}, {fate}", operator, line, "workspace_grown_after_capture",
                       f"{node.kind} node {node.number}")

    def _not_used(self, addresses: List[int], captured: Call, freed: List[Tuple[Node, int, str]]) -> Set[int]:
        """Addresses in free memory that no replay reads or writes: that memory is filled, and the replays are the same.

        A word of a kernel's parameters that is no address may hold one by accident, such as that of a gradient that the
        capture itself has dropped.
        """
        if not self.replayed:
            return set()
        actions = self.backend.actions(set())
        try:
            sound = self._replay(*self.replayed, keep=True)
            not_repeated, noise = noise_of(self._replay(*self.replayed, sound).differences)
            actions.do("poison")
            wrong = beyond_noise(self._replay(*self.replayed, sound).differences, not_repeated, noise)
            if wrong or not actions.is_untouched():
                return set()
            return {address for address in addresses if actions.holds(address)}
        except (ReplayFailed, RuntimeError) as failure:  # What was read there is an address.
            for node, address, fate in freed:
                operator = next((each for each in captured.operators if each.nodes[0] <= node.number < each.nodes[1]), None)
                self.report.findings.append(self._in_freed_memory(
                    node, address, fate, operator.line if operator else None, operator.name if operator else ""))
            cause = failure.error if isinstance(failure, ReplayFailed) else failure
            raise LaterFailed(0, cause) from cause
        finally:
            with contextlib.suppress(RuntimeError):
                actions.end()

    def _launcher(self, captured: Call, number: int) -> Tuple[Optional[Line], str]:
        """The operator of a node and its line; for a node without an operator, the line from a traced capture."""
        for operator in captured.operators if self.has_same_nodes else ():
            if operator.nodes[0] <= number < operator.nodes[1]:
                return operator.line, operator.name
        for line, before, after in self._node_lines():
            if before <= number < after:
                return line, ""
        return None, ""

    def _node_lines(self) -> List[Tuple[Optional[Line], int, int]]:
        """Captures again, line by line: the nodes that each line adds."""
        if self.ranks:  # A capture of one rank alone could wait for the others.
            return []
        self.saved.restore()
        static = copy_of(self.inputs.get(0))
        lines: List[Tuple[Optional[Line], int, int]] = []

        def call() -> None:
            lines.extend(lines_that_change(lambda: self._call(static), self.backend.count_nodes))

        try:
            self.backend.capture(call, read_nodes=False)
        except Refused:
            return []
        return lines

    def _rewound(self, calls: List[Call]) -> Optional[Finding]:
        """A generator that a call has set back to a state that it had left; equal states alone are no evidence."""
        seen: List[Any] = []
        for call in calls:
            last = call.generator
            seen.append(last)
            drawing = [operator for operator in call.operators if operator.generator is not None]
            states = [(state, operator) for operator in drawing for state in (operator.generator, operator.generator_after)]
            for state, operator in [*states, (call.generator_after, drawing[-1] if drawing else None)]:
                if _equal_states(state, last):
                    continue
                if any(_equal_states(state, other) for other in seen):
                    return Finding(
                        Kind.RANDOM, "the generator is set back in each call of eager code, and by no replay",
                        "draws the same numbers in each call", "goes on in the sequence with each replay",
                        operator.name if operator else "", self._line_that_rewinds() or (operator.line if operator else None),
                        "generator_rewound_in_capture")
                seen.append(state)
                last = state
        return None

    def _line_that_rewinds(self) -> Optional[Line]:
        if self.ranks:  # Which do not run the function now.
            return None
        self._restore()
        torch.manual_seed(0x2545F491)  # A state that no call has been in, so that drawing on leads to none either.
        seen: List[bytes] = []
        for number in range(min(2, self.count)):
            arguments = self.inputs.get(number)
            seen.append(self._generator_bytes())
            changes = lines_that_change(lambda: self.backend.run(lambda: self._call(arguments)), self._generator_bytes)
            for line, before, after in changes:
                if after in seen or _offset(after) < _offset(before) and after[:8] == before[:8]:
                    return line
                seen.append(after)
        return None

    def _generator_bytes(self) -> bytes:
        return bytes(self.backend.generator_state().tolist())

    def _locate(self, wrong: Optional[Difference]) -> Finding:
        """Runs both again with a checksum after each operator. Nothing is wrong where another rank asks for it."""
        name, samples = (wrong.name, wrong.samples) if wrong else ("nothing", ("", ""))
        unknown = Finding(Kind.WRONG_VALUE, f"{name} differs, and no operator could be singled out", *samples)
        if not self.calls[0].operators:
            return unknown
        self.say("looking for the first operator that differs")
        self._restore()
        self._run_eagerly(record=True, keep=False, fingerprint=fingerprint)
        calls = self.calls
        self.saved.restore()
        self.backend.set_generator_state(self.generator)
        static = copy_of(self.inputs.get(0))
        recorder = self._recording(fingerprint=fingerprint)
        captured = recorder.begin(tensors_in(list(static)), self._state().tensors.values())
        try:
            result = self.backend.capture(_within(recorder, lambda: self._call(static)), read_nodes=False)
        except Refused:
            return unknown
        replayed: List[List[List[Any]]] = []

        def keep() -> None:
            replayed.append(_checksums(captured))

        self._replay(static, result, checks=keep)
        for number, (call, seen) in enumerate(zip(calls, replayed), 1):
            for operator, sums in zip(call.operators, _checksums(call)):
                operator.checks = [(name, origin, own) for (name, origin, _), own in zip(operator.checks, sums)]
            found = comparison.first_difference(call, captured, seen, self.noise)
            if found:
                return self._located(calls, captured, number, *found)
        return unknown

    def _located(self, calls: List[Call], captured: Call, number: int, index: int, label: str, eager_sum: Any,
                 graph_sum: Any) -> Finding:
        operator = captured.operators[index]
        eager_text, graph_text = f"{eager_sum[0].item():.6g}", f"{graph_sum[0].item():.6g}"
        operand = next((o for o in operator.operands if o.argument == label and not o.written), None)
        source = operand or next((o for o in operator.operands if operator.name in COPIES and not o.written), None)
        if source and not source.on_device and source.origin[0] in ("outside", "fresh"):
            return Finding(
                Kind.SIDE_EFFECT, f"in call {number} {operator.name} copies what the host has written, and a replay runs no code "
                "of the host's", f"sum {eager_text}", f"sum {graph_text}", operator.name,
                self._line_that_writes(source.storage) or operator.line, "host_logic_frozen")
        if operand and operand.origin[0] in ("outside", "fresh"):
            line = self._line_that_writes(operand.storage) or operator.line
            return Finding(
                Kind.OUTSIDE, f"in call {number} the operand {label} of {operator.name} has been written by work that is "
                "neither an operator nor in the graph", f"sum {eager_text}", f"sum {graph_text}", operator.name, line,
                "library_work_outside_graph")
        if calls[number - 1].operators[index].drew:
            return Finding(Kind.RANDOM, f"in call {number} it draws other numbers", f"sum {eager_text}",
                           f"sum {graph_text}", operator.name, operator.line, "generator_rewound_in_capture")
        return Finding(Kind.WRONG_VALUE, f"in call {number} its {label} is the first value that differs",
                       f"sum {eager_text}", f"sum {graph_text}", operator.name, operator.line, None)

    # Later.

    def _later(self, recorded: Call) -> None:
        """Replays again after what a program does between two replays. It comes last: a replay may break the context."""
        if self.ranks:
            self.report.unknown.append("Whether the graph is right later: that is asked of one rank alone.")
            return
        if self.report.findings:
            self.report.unknown.append("Whether the graph is right later: it is not right now.")
            return
        began = time.monotonic()
        look_at_old_objects()
        operators = {operator.name for operator in recorded.operators}
        for part, dropped, case in later.KNOWN:
            at = next((operator for operator in recorded.operators if part in operator.name), None)
            if at:
                self.report.findings.append(Finding(
                    Kind.NOT_LATER, f"the graph is right, but not after {dropped}; not tried here, for it can end the process",
                    "makes another plan", "goes on with what was freed", at.name, at.line, case))
        actions = self.backend.actions(operators)
        try:
            self._replay_after(actions, began)
        finally:
            with contextlib.suppress(RuntimeError):  # A failed kernel leaves an unusable context.
                actions.end()
            self.report.cost["later_seconds"] = round(time.monotonic() - began, 3)

    def _replay_after(self, actions: Any, began: float) -> None:
        try:
            graph = self._captured_again()
        except Refused as refused:
            self.report.unknown.append(f"Whether the graph is right later: {comparison.first_line(refused.cause)[:200]}")
            return
        sound = self._replay(*graph, keep=True)
        not_repeated, noise = noise_of(self._replay(*graph, sound).differences)
        for done, name in enumerate(actions.all):
            words, case = later.WORDS[name]
            if time.monotonic() - began > later.SECONDS:
                self.report.unknown.append(f"Whether the graph is right after {words}: {later.SECONDS:g} s had passed.")
                return
            self.report.compared["later"] = done + 1
            self.say(f"replaying after {words}")
            try:
                actions.do(name)
            except Exception as error:  # No memory for it, say. A broken context shows in the replay.
                self.report.unknown.append(f"Whether the graph is right after {words}: {comparison.first_line(error)[:200]}")
            try:
                wrong = beyond_noise(self._replay(*graph, sound).differences, not_repeated, noise)
                writes = not actions.is_untouched()
            except (ReplayFailed, RuntimeError) as failure:
                cause = failure.error if isinstance(failure, ReplayFailed) else failure
                self.report.findings.append(Finding(
                    Kind.NOT_LATER, f"the graph is right, but its replay fails after {words}", "runs",
                    comparison.first_line(cause)[:300], case=case))
                raise LaterFailed(0, cause) from cause
            if wrong or writes:
                actions.end()
                del graph
                operator = self._first_changed(actions, name)
                self.report.findings.append(Finding(
                    Kind.NOT_LATER, f"the graph is right, but not after {words}" if wrong else
                    f"the graph writes to memory that is not its own, which shows after {words}",
                    wrong[0].samples[0] if wrong else "leaves it as it is",
                    f"{wrong[0].samples[1]} in {wrong[0].name}" if wrong else "writes to it",
                    operator.name if operator else "", operator.line if operator else None, case))
                return  # What comes behind it would show the same.

    def _captured_again(self, recorder: Optional[Recorder] = None) -> Tuple[Arguments, Any]:
        """Inputs and outputs of another capture, which nothing watches unless there is a recorder: below a dispatch mode,
        some operators take another way, such as the backward of cumprod."""
        self.saved.restore()
        self.backend.set_generator_state(self.generator)
        static = copy_of(self.inputs.get(0))

        def call() -> Any:
            return self._call(static)

        return static, self.backend.capture(_within(recorder, call) if recorder else call)

    def _captured_unwatched(self) -> Optional[Tuple[Arguments, Any]]:
        """The graph of a function whose capture was refused below the recorder, if it is not refused without: Dynamo compiles
        nothing below a mode, for example, and runs a compiled flex_attention() operator by operator."""
        try:
            self.static, result = self.replayed = self._captured_again()
        except Refused:
            return None
        self.captured_state = {name: isinstance(tensor, torch.nn.Parameter)
                               for name, tensor in self._state().tensors.items()}
        self.has_same_nodes = False
        self.report.unknown.append("Which operators the graph has: its capture is refused only where they are recorded.")
        return self.static, result

    def _captured_below_a_mode(self) -> Optional[Tuple[Arguments, Any]]:
        try:
            return self._captured_again(self._recording())
        except Refused:
            return None

    def _first_changed(self, actions: Any, name: str) -> Optional[Operator]:
        """The first operator of the graph whose checksums are others after an action."""
        recorder = self._recording(fingerprint=fingerprint)
        captured = recorder.begin(())
        passes: List[List[List[List[Any]]]] = []

        def keep() -> None:
            passes[-1].append(_checksums(captured))

        try:
            graph = self._captured_again(recorder)
            for again in (False, True):
                if again:
                    actions.do(name)
                passes.append([])
                self._replay(*graph, checks=keep)
        except (Refused, ReplayFailed, RuntimeError):
            return None
        for before, after in zip(*passes):
            for operator, a, b in zip(captured.operators, before, after):
                if any(x is not None and y is not None and comparison.difference(x, y) > 1e-6 for x, y in zip(a, b)):
                    return operator
        return None

    def _line_that_writes(self, key: int) -> Optional[Line]:
        """The line of eager code after which a tensor of the function's state has different contents."""
        if self.ranks:  # Which do not run the function now.
            return None
        self._restore()
        tensor = next((t for t in self._state().tensors.values() if key_of(t) == key), None)
        if tensor is None:
            return None
        arguments = self.inputs.get(1 if self.count > 1 else 0)

        def probe() -> Any:
            self.backend.synchronize()
            return tuple(fingerprint(tensor).tolist())

        changes = lines_that_change(lambda: self.backend.run(lambda: self._call(arguments)), probe)
        return changes[0][0] if changes else None


_LIMITS = [
    "Values of other inputs, and branches that none of these took.",
    "What the program does with an output: each replay overwrites that of the one before.",
    "What depends on timing: other threads, other streams, host memory that is written while a replay reads it.",
]

def _within(recorder: Recorder, call: Callable[[], Any]) -> Callable[[], Any]:
    def recorded() -> Any:
        with recorder:
            return call()

    return recorded


def copy_of(arguments: Arguments) -> Arguments:
    """The static inputs."""
    def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
        kept = tensor.detach().clone(memory_format=torch.preserve_format)
        if tensor.device.type == "cpu" and torch.cuda.is_initialized() and tensor.is_pinned():
            kept = kept.pin_memory()
        return kept.requires_grad_(tensor.requires_grad)

    return _with_tensors(arguments[0], copy_tensor), _with_tensors(arguments[1], copy_tensor)


def _copy_into(static: Arguments, given: Arguments) -> bool:
    targets, sources = list(tensors_in(list(static))), list(tensors_in(list(given)))
    if [t.shape for t in targets] != [t.shape for t in sources]:
        return False
    with torch.no_grad():
        for target, source in zip(targets, sources):
            target.copy_(source)
    return True


def fingerprint(tensor: torch.Tensor) -> Any:
    """Two numbers that summarise a tensor: its sum and its norm."""
    if tensor.layout != torch.strided or tensor.is_quantized:
        return None
    values = tensor.detach()
    if values.is_complex():
        values = torch.view_as_real(values)
    values = values.to(torch.float64)
    if not values.numel():
        return None
    return torch.stack([values.sum(), values.pow(2).sum().sqrt()])


def _checksums(call: Call) -> List[List[Optional[torch.Tensor]]]:
    """The present checksums of each operator, on the host."""
    places = {(at, number): check for at, operator in enumerate(call.operators)
              for number, (_, _, check) in enumerate(operator.checks) if check is not None}
    copies = on_host({f"{at} {number}": check for (at, number), check in places.items()})
    return [[copies.get(f"{at} {number}") for number in range(len(operator.checks))]
            for at, operator in enumerate(call.operators)]


def nudged(tensor: torch.Tensor, sign: int = 1) -> torch.Tensor:
    """The tensor with other last bits."""
    if not tensor.is_floating_point() or storage_of(tensor) is None or tensor.layout != torch.strided:
        return tensor
    values = tensor.detach()
    signs = torch.arange(values.numel(), device=values.device).remainder_(2).mul_(2).sub_(1).reshape(values.shape)
    size = torch.finfo(values.dtype).eps * (8 if values.dtype in (torch.float32, torch.float64) else 1)
    return (values * (1 + sign * size * signs.to(values.dtype))).requires_grad_(tensor.requires_grad)


def _equal_states(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and torch.equal(a, b))


def _offset(state: bytes) -> int:
    """A CUDA generator's state is its seed and its offset."""
    return int.from_bytes(state[8:16], "little", signed=True) if len(state) == 16 else 0


def _definition_of(fn: Any) -> Optional[Line]:
    code = getattr(fn.forward if isinstance(fn, torch.nn.Module) else fn, "__code__", None)
    return code and line_at(code, code.co_firstlineno)


def _name_of(fn: Any) -> str:
    if isinstance(fn, torch.nn.Module):
        return type(fn).__name__
    name = getattr(fn, "__name__", None) or getattr(getattr(fn, "func", None), "__name__", None) or type(fn).__name__
    return str(name)


def _place(finding: Finding) -> str:
    return f"{finding.kind.value} at {shown(finding.line.file)}:{finding.line.number}" if finding.line else finding.kind.value


_RANK = {kind: rank for rank, kind in enumerate((
    Kind.REFUSED, Kind.RANKS, Kind.HOST_VALUE, Kind.CONTROL_FLOW, Kind.REBOUND, Kind.FREED, Kind.OUTSIDE, Kind.RANDOM,
    Kind.OVERWRITTEN, Kind.UNORDERED, Kind.SIDE_EFFECT, Kind.WRONG_VALUE, Kind.NOT_LATER))}


def _arranged(findings: List[Finding]) -> List[Finding]:
    seen, kept = set(), []
    for finding in sorted(findings, key=lambda f: _RANK[f.kind]):
        key = (finding.kind, finding.line, finding.operator, finding.what)  # Two operands of one operator are two.
        if key not in seen:
            seen.add(key)
            kept.append(finding)
    return kept

"""Compares recordings of calls, and values: the differences, and which kind of failure they are."""
from __future__ import annotations

import dataclasses
import difflib
import math
import traceback
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import torch

from .findings import CAPTURE_A_GRAPH_EACH, CASES, DROP_WHAT_IS_CACHED, FORK_THE_STREAM, Finding, Kind, Line
from .recording import Call, Operand, Operator, Storage, host_form, line_of

_OPTIMIZERS = ("aten._foreach_", "aten._fused_")


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_short(item) for item in value[:4]) + (", …]" if len(value) > 4 else "]")
    text = repr(value) if isinstance(value, str) else str(value)
    if isinstance(value, float) and len(text) > 9:
        text = f"{value:.7g}"
    return text if len(text) <= 60 else text[:57] + "…"


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(_short(value) for value in values)


def where(line: Optional[Line]) -> str:
    return f"{line.file.rsplit('/', 1)[-1]}:{line.number}" if line else "an unknown line"


def _in_optimizer(operator: Operator) -> bool:
    inside = operator.line.inside if operator.line else ""
    text = operator.line.text if operator.line else ""
    return operator.name.startswith(_OPTIMIZERS) or "optim" in inside or ".step(" in text


@dataclasses.dataclass
class Clue:
    """A finding, where in the first call it is, and what tells causes apart: numbers, or which call has which tensor."""

    finding: Finding
    index: int
    pattern: Tuple[Any, ...] = ()


def compare_calls(calls: List[Call]) -> List[Finding]:
    """The differences between calls of eager code, one for each cause; a graph has the first call's values."""
    first, others = calls[0], calls[1:]
    ends: Dict[int, int] = {}  # Where each call first differs from the first one.
    clues: List[Clue] = []
    for number, call in enumerate(others, 1):
        finding, ends[number] = _parting(first, call, number)
        if finding and not any(finding.line == other.finding.line for other in clues):
            clues.append(Clue(finding, ends[number]))
    for index in range(min(len(first.operators), max(ends.values(), default=0))):
        operators = [first.operators[index]] + [call.operators[index] for number, call in enumerate(others, 1)
                                                if index < ends[number]]
        if len(operators) > 1:
            clues += [Clue(finding, index, pattern) for finding, pattern in _host_values(operators)]
            clues += [Clue(finding, index, pattern) for finding, pattern in _rebound(operators)]
    return _by_cause(sorted(clues, key=lambda clue: clue.index))


def _by_cause(clues: List[Clue]) -> List[Finding]:
    """What has the same cause as an earlier difference is put below it."""
    causes: List[Tuple[Clue, List[Finding]]] = []
    for clue in clues:
        below = next((follows for cause, follows in causes if _follows(cause, clue)), None)
        if below is None:
            causes.append((clue, []))
        elif _place(clue.finding) not in [_place(other) for other in below]:
            below.append(clue.finding)
    return [dataclasses.replace(cause.finding, follows=tuple(other for other in follows
                                                             if _place(other) != _place(cause.finding)))
            for cause, follows in causes]


def _place(finding: Finding) -> Tuple[Any, ...]:
    return finding.kind, finding.line, finding.operator


def _follows(cause: Clue, clue: Clue) -> bool:
    a, b = cause.finding, clue.finding
    if (a.kind, b.kind) == (Kind.HOST_VALUE, Kind.CONTROL_FLOW):
        return b.what.endswith(_OTHER_SHAPE) and any(isinstance(value, int) for value in cause.pattern)
    if a.kind != b.kind or a.kind == Kind.CONTROL_FLOW:
        return False
    if a.kind == Kind.HOST_VALUE and a.line is not None and a.line == b.line:
        return True
    return cause.pattern == clue.pattern or a.kind == Kind.HOST_VALUE and _is_linear(cause.pattern, clue.pattern)


def _is_linear(values: Tuple[Any, ...], others: Tuple[Any, ...]) -> bool:
    """Whether numbers follow from others, as 1 - lam from lam. Two pairs of numbers are always on a line."""
    numbers = [value for value in (*values, *others) if isinstance(value, (int, float)) and math.isfinite(value)]
    if len(values) < 3 or len(values) != len(others) or len(numbers) != 2 * len(values):
        return False
    x, y = [values[0] - value for value in values], [others[0] - value for value in others]
    at = max(range(len(x)), key=lambda i: abs(x[i]))
    if not x[at]:
        return False
    size = max(abs(value) for value in others)
    return all(abs(b - y[at] / x[at] * a) <= 1e-6 * size for a, b in zip(x, y))


_OTHER_SHAPE = "operands of another shape or type than the first one"


def _parting(first: Call, call: Call, number: int) -> Tuple[Optional[Finding], int]:
    for index, (a, b) in enumerate(zip(first.operators, call.operators)):
        if a.name != b.name or len(a.operands) != len(b.operands):
            return Finding(
                Kind.CONTROL_FLOW, f"call {number + 1} takes another way than the first one from here on",
                f"{b.name} at {where(b.line)} in call {number + 1}", f"{a.name} in every replay", a.name,
                a.line, "host_logic_frozen"), index
        if any(x.shape != y.shape or x.dtype != y.dtype for x, y in zip(a.operands, b.operands)):
            return Finding(
                Kind.CONTROL_FLOW, f"call {number + 1} has {_OTHER_SHAPE}",
                _listed(tuple(operand.shape) for operand in b.operands) + f" in call {number + 1}",
                _listed(tuple(operand.shape) for operand in a.operands) + " in every replay", a.name, a.line,
                "host_logic_frozen", remedy=CAPTURE_A_GRAPH_EACH), index
    if len(first.operators) != len(call.operators):
        index = min(len(first.operators), len(call.operators))
        longer = first if len(first.operators) > index else call
        extra = longer.operators[index]
        in_graph = longer is first
        return Finding(
            Kind.CONTROL_FLOW, f"call {number + 1} has {'fewer' if in_graph else 'more'} operators than the first one",
            f"{'no' if in_graph else ''} {extra.name} in call {number + 1}".strip(),
            f"{extra.name} in every replay" if in_graph else f"{extra.name} in no replay", extra.name, extra.line,
            "host_logic_frozen"), index
    return None, len(first.operators)


def _host_values(operators: List[Operator]) -> Iterable[Tuple[Finding, Tuple[Any, ...]]]:
    first = operators[0]
    for position, (name, value) in enumerate(first.host):
        values = [op.host[position][1] if position < len(op.host) else None for op in operators]
        if all(other is value for other in values):
            continue
        if len({host_form(v) if not isinstance(v, list) else str(v) for v in values}) > 1:
            case = "optimizer_step_in_graph" if _in_optimizer(first) else "host_scalar_baked_in"
            yield (Finding(Kind.HOST_VALUE, f"the argument {name} is a number of the host's and changes from call to call",
                           _listed(values), f"{_short(value)} in every replay", first.name, first.line, case),
                   tuple(v if isinstance(v, (int, float)) else str(v) for v in values))


def _rebound(operators: List[Operator]) -> Iterable[Tuple[Finding, Tuple[Any, ...]]]:
    first = operators[0]
    for position, operand in enumerate(first.operands):
        operands = [op.operands[position] for op in operators]
        if not operand.on_device or all(other.origin == operand.origin for other in operands):
            continue
        outside = {other.storage for other in operands if other.origin[0] == "outside"}
        if not outside:
            continue
        # What the first call sees first, because only a cache of a library has it, is the same tensor in the next call.
        origins = [("outside", other.storage) if other.storage in outside else other.origin for other in operands]
        different = list(dict.fromkeys(origins))
        if len(different) > 1:
            yield (Finding(
                Kind.REBOUND, f"the operand {operand.argument} was not made by this call and is another tensor in each",
                f"{len(different)} tensors in {len(origins)} calls", "that of the capture in every replay", first.name,
                first.line, "input_rebound"), tuple(different.index(origin) for origin in origins))


def host_tensors_written(call: Call) -> List[Tuple[Finding, int, bool]]:
    """Host operators that write to memory that outlives the call: no replay runs them.

    With each the storage, and whether work on the GPU copies what was written, or something that was computed from it.
    """
    found, seen = [], set()
    for operator in call.operators:
        for operand in operator.operands:
            kept = operand.origin[0] == "outside" and operand.storage not in seen
            if operand.written and kept and not operand.on_device and not operator.on_device:
                seen.add(operand.storage)
                finding = Finding(
                    Kind.SIDE_EFFECT, "it writes a tensor on the host, and a replay runs no operator there",
                    "runs in each call", "in no replay", operator.name, operator.line, "host_logic_frozen")
                found.append((finding, operand.storage, bool(_readers(call, operand.storage))))
    return found


def _readers(call: Call, storage: int) -> List[Operator]:
    """The operators on the GPU that read a host tensor, or what host operators computed from it."""
    derived, readers = {storage}, []
    for operator in call.operators:
        if not any(operand.storage in derived and not (operand.written and len(operator.operands) == 1)
                   for operand in operator.operands):
            continue
        if any(operand.on_device for operand in operator.operands + operator.results):
            readers.append(operator)
        else:
            derived.update(result.storage for result in operator.results)
            derived.update(operand.storage for operand in operator.operands if operand.written)
    return readers


def reads(call: Call, storage: int, finding: Finding) -> bool:
    """Whether a finding is at an operator on the GPU that reads a host tensor."""
    return any((operator.name, operator.line) == (place.operator, place.line) for operator in _readers(call, storage)
               for place in (finding, *finding.follows))


def compare_with_capture(eager: Call, captured: Call) -> List[Finding]:
    """The differences between the capture and the eager call with the same inputs."""
    names = [[op.name for op in call.operators] for call in (eager, captured)]
    if names[0] == names[1]:
        return [*_reads_older(eager, captured, 0, 0, len(eager.operators)),
                *_host_values_of_capture(eager, captured)]
    blocks = difflib.SequenceMatcher(a=names[0], b=names[1], autojunk=False).get_matching_blocks()
    for block in blocks:
        older = _reads_older(eager, captured, block.a, block.b, block.size)
        if older:
            return older
    first = blocks[0] if blocks[0].a == 0 and blocks[0].b == 0 else None
    at = first.size if first else 0
    eager_operator = eager.operators[at] if at < len(eager.operators) else None
    graph_operator = captured.operators[at] if at < len(captured.operators) else None
    operator = graph_operator or eager_operator
    assert operator
    return [Finding(Kind.CONTROL_FLOW, "the capture takes another way than eager code with the same inputs",
                    f"{eager_operator.name} at {where(eager_operator.line)}" if eager_operator else
                    "no further operator",
                    f"{graph_operator.name} in every replay" if graph_operator else "no further operator",
                    operator.name, operator.line, "host_logic_frozen")]


def _host_values_of_capture(eager: Call, captured: Call) -> List[Finding]:
    for a, b in zip(eager.operators, captured.operators):
        for (name, eager_value), (_, graph_value) in zip(a.host, b.host):
            if isinstance(eager_value, (bool, int, float)) and host_form(eager_value) != host_form(graph_value):
                return [Finding(Kind.HOST_VALUE, f"the argument {name} differs between the capture and eager code",
                                _short(eager_value), f"{_short(graph_value)} in every replay", b.name, b.line,
                                "optimizer_step_in_graph" if _in_optimizer(b) else "host_scalar_baked_in")]
    return []


def _reads_older(eager: Call, captured: Call, at_a: int, at_b: int, size: int) -> List[Finding]:
    """An operand that eager code computes in the call, but that existed before the capture."""
    for offset in range(size):
        a, b = eager.operators[at_a + offset], captured.operators[at_b + offset]
        for eager_operand, graph_operand in zip(a.operands, b.operands):
            if eager_operand.origin[0] == "made" and graph_operand.origin[0] == "outside" and graph_operand.on_device:
                maker = eager.operators[eager_operand.origin[1]]
                cast = "_to_copy" in maker.name
                return [Finding(
                    Kind.REBOUND, f"the operand {graph_operand.argument} is computed by each eager call, and the capture "
                    "found one that was made before",
                    f"the result of {maker.name} at {where(maker.line)}, in each call",
                    "the tensor from before the capture in every replay", b.name, b.line,
                    "autocast_cache_across_capture" if cast else "input_rebound",
                    remedy="" if cast else DROP_WHAT_IS_CACHED)]
    return []


def dead_operands(call: Call, storages: Dict[int, Storage],
                  is_graph_memory: Callable[[Storage], bool] = lambda _: False) -> List[Finding]:
    """Operands of captured operators that have been freed since, except for the graph's own memory."""
    findings, seen = [], set()
    written = {operand.storage for operator in call.operators for operand in operator.operands if operand.written}
    for operator in call.operators:
        if is_view(operator):
            continue
        for operand in operator.operands:
            storage = storages[operand.storage]
            if operand.origin[0] not in ("outside", "input") or not storage.dead or operand.storage in seen:
                continue
            if not operand.on_device and not (storage.pinned and "copy" in operator.name):
                continue
            if storage.size == 0 or is_graph_memory(storage):
                continue
            seen.add(operand.storage)
            findings.append(_dead(operator, operand, storage, operand.storage in written))
    return findings


def _dead(operator: Operator, operand: Operand, storage: Storage, written: bool) -> Finding:
    case = ("pinned_block_recycled_under_graph" if not operand.on_device else
            "workspace_grown_after_capture" if written else "input_freed_after_capture")
    return Finding(Kind.FREED, f"the operand {operand.argument} was freed after the capture, and every replay "
                   f"{'writes' if written else 'reads'} its memory", f"a tensor of {storage.size} bytes that is alive",
                   f"{storage.size} bytes at {storage.address:#x}, which belong to others", operator.name, operator.line,
                   case)


def work_outside(call: Call) -> List[Finding]:
    """Operators in a capture whose stream did not capture: one finding, since one wait is missing."""
    found: Dict[Optional[Line], Finding] = {}
    for operator in call.operators:
        if operator.on_device and not operator.captured and not is_view(operator) and operator.line not in found:
            found[operator.line] = Finding(
                Kind.OUTSIDE, "it ran on a stream that was not captured: once, beside the capture",
                "runs in each call", "in no replay", operator.name, operator.line, "library_work_outside_graph",
                remedy=FORK_THE_STREAM)
    findings = list(found.values())
    return [dataclasses.replace(findings[0], follows=tuple(findings[1:]))] if findings else []


def is_view(operator: Operator) -> bool:
    if any(operand.written for operand in operator.operands) or not operator.results:
        return False
    read = {operand.storage for operand in operator.operands}
    return all(result.storage in read for result in operator.results) or "empty" in operator.name


def compare_outputs(outputs: List[Dict[str, torch.Tensor]], definition: Optional[Line]) -> List[Finding]:
    """Outputs, by name, that differ between eager calls: a graph has the first call's.

    `definition` is where the function begins.
    """
    for number, names in enumerate(outputs[1:], 2):
        more, fewer = sorted(set(names) - set(outputs[0])), sorted(set(outputs[0]) - set(names))
        if more or fewer:
            return [Finding(
                Kind.CONTROL_FLOW, f"call {number} has {'more' if more else 'fewer'} outputs than the first one",
                f"{'' if more else 'no '}{(more or fewer)[0]} in call {number}",
                f"{'no ' if more else ''}{(more or fewer)[0]} in every replay", line=definition,
                case="host_logic_frozen")]
    return []


# Failures in the capture.

_REFUSALS = (  # Part of an exception's text, and the case that documents it.
    ("attempt to increase offset for a cuda generator", "unregistered_generator"),
    ("pageable", "pageable_copy_in_capture"),
    ("unless the cpu tensor is pinned", "pageable_copy_in_capture"),
    ("capturable is false", "optimizer_step_in_graph"),
)
_REFUSED_CALLS = (
    (".item()", "item_in_capture"), (".tolist()", "item_in_capture"), (".cpu()", "cpu_copy_in_capture"),
    ("nonzero", "nonzero_in_capture"),
)


def first_line(error: BaseException) -> str:
    """The type of an exception and the first line of its text."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def refusal(cause: BaseException, operator: Optional[Operator], blamed: Any = None) -> Finding:
    """A failed capture: `operator` had begun, and `blamed` is the report of `recapture blame`."""
    line = None
    for frame, _ in traceback.walk_tb(cause.__traceback__):
        line = line_of(frame) or line
    message = first_line(cause)
    what = "the capture failed; `recapture blame` names the CUDA call"
    if blamed and blamed.cause:
        what = f"the capture failed: {blamed.cause}"
    if blamed and blamed.api:
        message = f"{blamed.api} returned {blamed.code}; {message}"
    return Finding(Kind.REFUSED, what, "runs", message[:300], operator.name if operator else "", line,
                   _case_of_refusal(str(cause), line))


def _case_of_refusal(text: str, line: Optional[Line]) -> Optional[str]:
    for part, case in _REFUSALS:
        if part in text.lower():
            return case
    for part, case in _REFUSED_CALLS:
        if line and part in line.text:
            return case
    return CASES[Kind.REFUSED]


# Values.

def _strided(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a sparse or jagged tensor as a strided one."""
    tensor = tensor.detach()
    if tensor.layout == torch.strided:
        return tensor
    return tensor.values() if tensor.is_nested else tensor.to_dense()


_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 3e-2,
              torch.complex64: 1e-4, torch.complex128: 1e-9}


_CHUNK = 1 << 22  # Values that are compared at a time, so that the copies for it stay small,
_WIDE_CHUNK = 1 << 20  # and of which a distance is taken: these copies are several, and wider.


def _pieces(a: torch.Tensor, b: torch.Tensor, most: int) -> Iterable[Tuple[int, torch.Tensor, torch.Tensor]]:
    """Both tensors in pieces, on the device of the second one."""
    if a.numel() <= most:
        yield 0, a.to(b.device).reshape(-1), b.reshape(-1)
        return
    a, b = a.reshape(-1), b.reshape(-1)
    for begin in range(0, a.numel(), most):
        yield begin, a[begin:begin + most].to(b.device), b[begin:begin + most]


def compare(a: torch.Tensor, b: torch.Tensor) -> Tuple[float, int]:
    """The distance of two tensors relative to the largest value of the first, and the place where they differ most.

    0 if they are equal, infinite if they cannot be compared.
    """
    infinity = float("inf")
    if a.layout != b.layout or a.dtype != b.dtype:
        return infinity, 0
    a, b = _strided(a), _strided(b)
    if a.shape != b.shape:
        return infinity, 0
    if a.numel() == 0 or all(torch.equal(x, y) for _, x, y in _pieces(a, b, _CHUNK)):
        return 0.0, 0
    exact = not (a.is_floating_point() or a.is_complex())
    wide = torch.int64 if exact else torch.complex128 if a.is_complex() else torch.float64
    most, size, place = 0.0, 0.0, 0
    for begin, x, y in _pieces(a, b, _WIDE_CHUNK):
        x, y = x.to(wide), y.to(wide)
        if exact:
            if not torch.equal(x, y):
                return infinity, begin + int((x - y).abs().argmax())
            continue
        far, at = (x - y).abs().max(0)
        distance, largest_value = torch.stack([far, x.abs().max()]).tolist()
        if math.isfinite(distance):  # So is every value.
            if distance > most:
                most, place = distance, begin + int(at)
            size = max(size, largest_value)
            continue
        odd = torch.isnan(x) | torch.isinf(x) | torch.isnan(y) | torch.isinf(y)
        apart = torch.where(odd, torch.zeros_like(x), x - y).abs()
        unequal = odd & (x != y) & ~(torch.isnan(x) & torch.isnan(y))
        if bool(unequal.any()):
            return infinity, begin + int(unequal.to(torch.uint8).argmax())
        largest, at = apart.max(0)
        if float(largest) > most:
            most, place = float(largest), begin + int(at)
        size = max(size, float(torch.where(odd, torch.zeros_like(x), x).abs().max()))
    return (most / size if size else most), place


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return compare(a, b)[0]


def tolerance_of(tensor: torch.Tensor) -> float:
    return _TOLERANCE.get(tensor.dtype, 0.0)


def sample(a: torch.Tensor, b: torch.Tensor) -> Tuple[str, str]:
    """The values where two tensors differ most, with their place."""
    a, b = _strided(a), _strided(b)
    if a.shape != b.shape:
        return str(tuple(a.shape)), str(tuple(b.shape))
    if a.numel() == 0:
        return "", ""
    index = compare(a, b)[1]
    place = f"[{index}]" if a.numel() > 1 else ""
    values = (tensor.reshape(-1)[index].item() for tensor in (a, b))
    x, y = (f"{int(value) if isinstance(value, bool) else value:.6g}{place}" for value in values)
    return x, y


def first_difference(eager: Call, captured: Call, replayed: List[List[Any]], noise: float) -> Optional[Tuple[int, str, Any, Any]]:
    """The first operator whose checksums differ: graph_operator number, which tensor, and both checksums."""
    for index, (eager_operator, graph_operator) in enumerate(zip(eager.operators, captured.operators)):
        if eager_operator.name != graph_operator.name:
            return None
        for (name, _, a), b in zip(eager_operator.checks, replayed[index]):
            if a is None or b is None:
                continue
            if difference(a, b) > max(1e-6, 10 * noise):
                return index, name, a, b
    return None

"""Compares recordings of calls, and values: the differences, and which kind of failure they are."""
from __future__ import annotations

import difflib
import traceback
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import torch

from .findings import CASES, Finding, Kind, Line
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


def compare_calls(calls: List[Call]) -> List[Finding]:
    """The differences between calls of eager code; a graph has the first call's values."""
    first, others = calls[0], calls[1:]
    lengths = [len(call.operators) for call in calls]
    ends: Dict[int, int] = {}  # Where each call first differs from the first one.
    findings: List[Finding] = []
    for number, call in enumerate(others, 1):
        finding, end = _parting(first, call, number)
        ends[number] = end
        if finding and not any(finding.line == other.line for other in findings):
            findings.append(finding)
    seen = set()
    for index in range(max(lengths[1:] or [0])):
        present = [(0, first)] + [(n, c) for n, c in enumerate(others, 1) if index < ends[n]]
        if len(present) < 2 or index >= len(first.operators):
            break
        operators = [call.operators[index] for _, call in present]
        for finding in _host_values(operators):
            key = (finding.kind, finding.line, finding.operator)
            if key not in seen:
                seen.add(key)
                findings.append(finding)
        for finding, origins in _rebound(operators):
            if origins not in seen:  # The first read; later readers follow from it.
                seen.add(origins)
                findings.append(finding)
    return findings


def _parting(first: Call, call: Call, number: int) -> Tuple[Optional[Finding], int]:
    for index, (a, b) in enumerate(zip(first.operators, call.operators)):
        shapes_a = [(operand.shape, operand.dtype) for operand in a.operands]
        shapes_b = [(operand.shape, operand.dtype) for operand in b.operands]
        if a.name != b.name or len(a.operands) != len(b.operands):
            return Finding(
                Kind.CONTROL_FLOW, f"call {number + 1} takes another way than the first one from here on",
                f"{b.name} at {where(b.line)} in call {number + 1}", f"{a.name} in every replay", a.name,
                a.line, "host_logic_frozen"), index
        if shapes_a != shapes_b:
            return Finding(
                Kind.CONTROL_FLOW, f"call {number + 1} has operands of another shape or type than the first one",
                _listed(shape for shape, _ in shapes_b) + f" in call {number + 1}",
                _listed(shape for shape, _ in shapes_a) + " in every replay", a.name, a.line,
                "host_logic_frozen"), index
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


def _host_values(operators: List[Operator]) -> Iterable[Finding]:
    first = operators[0]
    for position, (name, value) in enumerate(first.host):
        values = [op.host[position][1] if position < len(op.host) else None for op in operators]
        if len({host_form(v) if not isinstance(v, list) else str(v) for v in values}) > 1:
            case = "optimizer_step_in_graph" if _in_optimizer(first) else "host_scalar_baked_in"
            yield Finding(Kind.HOST_VALUE, f"the argument {name} is a number of the host's and changes from call to call",
                          _listed(values), f"{_short(value)} in every replay", first.name, first.line, case)


def _rebound(operators: List[Operator]) -> Iterable[Tuple[Finding, Any]]:
    first = operators[0]
    for position, operand in enumerate(first.operands):
        origins = [op.operands[position].origin for op in operators]
        outside = [origin for origin in origins if origin[0] == "outside"]
        if outside and len(set(origins)) > 1 and operand.on_device:
            finding = Finding(
                Kind.REBOUND, f"the operand {operand.argument} was not made by this call and is another tensor in each",
                f"{len(set(origins))} tensors in {len(origins)} calls", "that of the capture in every replay", first.name,
                first.line, "input_rebound")
            yield finding, tuple(origins)


def host_tensors_written(call: Call) -> List[Finding]:
    """Host operators that write to memory that outlives the call: no replay runs them."""
    findings, seen = [], set()
    for operator in call.operators:
        for operand in operator.operands:
            kept = operand.origin[0] == "outside" and operand.storage not in seen
            if operand.written and kept and not operand.on_device and not operator.on_device:
                seen.add(operand.storage)
                findings.append(Finding(
                    Kind.SIDE_EFFECT, "it writes a tensor on the host, and a replay runs no operator there",
                    "runs in each call", "in no replay", operator.name, operator.line, "host_logic_frozen"))
    return findings


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
                    "autocast_cache_across_capture" if cast else "input_rebound")]
    return []


def dead_operands(call: Call, storages: Dict[int, Storage],
                  is_graph_memory: Callable[[Storage], bool] = lambda _: False) -> List[Finding]:
    """Operands of captured operators that have been freed since, except for the graph's own memory."""
    findings, seen = [], set()
    written = {operand.storage for operator in call.operators for operand in operator.operands if operand.written}
    for operator in call.operators:
        if _is_view(operator):
            continue
        for operand in operator.operands:
            storage = storages[operand.storage]
            if operand.origin[0] not in ("outside", "input") or not storage.dead or operand.storage in seen:
                continue
            if not operand.on_device and not (storage.pinned and "copy" in operator.name):
                continue
            if is_graph_memory(storage):
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
    """Operators in a capture whose stream did not capture."""
    findings, seen = [], set()
    for operator in call.operators:
        if operator.on_device and not operator.captured and not _is_view(operator) and operator.line not in seen:
            seen.add(operator.line)
            findings.append(Finding(
                Kind.OUTSIDE, "it ran on a stream that was not captured: once, beside the capture",
                "runs in each call", "in no replay", operator.name, operator.line, "library_work_outside_graph"))
    return findings


def _is_view(operator: Operator) -> bool:
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


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """The distance of two tensors relative to the largest value; 0 if equal, infinite if they cannot be compared."""
    if a.layout != b.layout or a.dtype != b.dtype:
        return float("inf")
    a, b = _strided(a), _strided(b)
    if a.shape != b.shape:
        return float("inf")
    if a.numel() == 0 or torch.equal(a, b):
        return 0.0
    if not (a.is_floating_point() or a.is_complex()):
        return float("inf")
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    unequal_nan = (torch.isnan(a) != torch.isnan(b)).any()
    if bool(unequal_nan):
        return float("inf")
    infinite = torch.isinf(a) | torch.isinf(b)
    if bool((infinite & (a != b)).any()):
        return float("inf")
    apart = torch.where(infinite | torch.isnan(a), torch.zeros_like(a), a - b).abs().max()
    size = torch.where(infinite | torch.isnan(a), torch.zeros_like(a), a).abs().max()
    return float(apart / size) if float(size) else float(apart)


def tolerance_of(tensor: torch.Tensor) -> float:
    return _TOLERANCE.get(tensor.dtype, 0.0)


def sample(a: torch.Tensor, b: torch.Tensor) -> Tuple[str, str]:
    """The values where two tensors differ most, with their place."""
    a, b = _strided(a).cpu(), _strided(b).cpu()
    if a.shape != b.shape:
        return str(tuple(a.shape)), str(tuple(b.shape))
    if a.numel() == 0:
        return "", ""
    if a.dtype == torch.bool:
        a, b = a.int(), b.int()
    apart = (a.double() - b.double()).abs() if not a.is_complex() else (a - b).abs()
    index = int(torch.nan_to_num(apart, nan=float("inf")).argmax())
    place = f"[{index}]" if a.numel() > 1 else ""
    return f"{a.reshape(-1)[index].item():.6g}{place}", f"{b.reshape(-1)[index].item():.6g}{place}"


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

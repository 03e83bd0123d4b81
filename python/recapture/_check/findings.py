"""The results of a check: kinds, findings, and the report as text and as JSON."""
from __future__ import annotations

import dataclasses
import enum
import json
import os
from typing import Any, Dict, List, Optional, Tuple


class Kind(enum.Enum):
    """Why a graph computes something else than eager code.

        frozen = [finding for finding in report.findings if finding.kind is recapture.Kind.HOST_VALUE]
    """

    REFUSED = "refused"
    HOST_VALUE = "host value frozen"
    CONTROL_FLOW = "control flow frozen"
    REBOUND = "input rebound"
    FREED = "input freed"
    OVERWRITTEN = "output overwritten"
    UNORDERED = "not waited for"
    RANDOM = "random numbers repeated or shifted"
    OUTSIDE = "work outside the graph"
    SIDE_EFFECT = "side effect lost"
    WRONG_VALUE = "wrong value"


# The cases that a finding can name, each with the fix that a program can apply. A test compares both with
# cases/catalogue.json.
FIXES: Dict[str, str] = {
    "autocast_cache_across_capture":
        "Use torch.autocast(..., cache_enabled=False) around the warm-up and the capture of a graph.",
    "boolean_index_in_capture": "",
    "cpu_copy_in_capture": "",
    "copy_on_another_stream":
        "Record an event after the copy and let the replay's stream wait for it: wait_stream() in Python.",
    "generator_rewound_in_capture":
        "Rewind the generator with set_state() or manual_seed() before a replay, not inside the capture.",
    "graphs_sharing_a_pool": "Clone a graph's output before another graph of its pool is replayed.",
    "graphs_side_by_side_in_a_pool":
        "Replay graphs of one pool one after the other, on one stream or with an event between.",
    "host_logic_frozen": "Keep the condition in a CUDA tensor, compute both branches and select with torch.where().",
    "host_scalar_baked_in":
        "Keep numbers that change in 0-dim CUDA tensors, and fill_() or copy_() them before graph.replay().",
    "inner_hooks_of_graphed_callable":
        "Make graphed callables of the inner modules whose hooks have to run, and not of the one around them.",
    "input_freed_after_capture":
        "Keep every tensor that the capture read for as long as the graph may be replayed, and copy_() into it.",
    "input_rebound":
        "Update running statistics and other hidden state in place, with copy_(), add_() or lerp_().",
    "item_in_capture": "",
    "library_work_outside_graph":
        "Let the library launch its work on the current stream, at::cuda::getCurrentCUDAStream().",
    "nonzero_in_capture": "",
    "operators": "",
    "optimizer_step_in_graph":
        "Capture forward and backward alone, call optimizer.step() after graph.replay(), and keep the capture's .grad "
        "tensors, which zero_grad() drops.",
    "output_overwritten_by_replay":
        "Keep output.clone(), and not the output itself, of a graph that is replayed again.",
    "pageable_copy_in_capture": "",
    "pageable_source_freed_before_replay":
        "Copy from a pinned tensor in the capture and keep that tensor for as long as the graph is replayed.",
    "pinned_block_recycled_under_graph":
        "Keep a reference to the pinned tensor for as long as a graph that copies from it may be replayed.",
    "pinned_buffer_overwritten":
        "Record an event after graph.replay(), and synchronize() with it before the pinned buffer is written.",
    "pointer_array_from_host_array":
        "Build the array of pointers in pinned memory, and keep it for as long as the graph may be replayed.",
    "unregistered_generator":
        "Call graph.register_generator_state(generator) before the capture; from 2.14 on this happens by itself.",
    "workspace_grown_after_capture":
        "Keep a workspace that has been replaced alive for as long as a graph may refer to it.",
}

# The case of a kind if no more specific one is known.
CASES: Dict[Kind, Optional[str]] = {
    Kind.REFUSED: "operators",
    Kind.HOST_VALUE: "host_scalar_baked_in",
    Kind.CONTROL_FLOW: "host_logic_frozen",
    Kind.REBOUND: "input_rebound",
    Kind.FREED: "input_freed_after_capture",
    Kind.OVERWRITTEN: "output_overwritten_by_replay",
    Kind.UNORDERED: "copy_on_another_stream",
    Kind.RANDOM: "generator_rewound_in_capture",
    Kind.OUTSIDE: "library_work_outside_graph",
    Kind.SIDE_EFFECT: "host_logic_frozen",
    Kind.WRONG_VALUE: None,
}


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of the program; `inside` is the innermost line outside PyTorch, if it differs.

        if finding.line:
            print(f"{finding.line.file}:{finding.line.number} in {finding.line.function}")
    """

    file: str
    number: int
    function: str
    text: str = ""
    inside: str = ""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One difference between the graph and eager code. `eager` and `graph` are their values.

        for finding in report.findings:
            print(finding.kind, finding.line, finding.what, finding.fix)
    """

    kind: Kind
    what: str  # One sentence: what differs.
    eager: str
    graph: str
    operator: str = ""
    line: Optional[Line] = None
    case: Optional[str] = None
    node: str = ""  # The node of the graph, if an address was the evidence.

    @property
    def fix(self) -> str:
        return FIXES.get(self.case or "", "")


@dataclasses.dataclass
class CheckReport:
    """The findings of a check, and what it compared. True if nothing was found.

        report = recapture.check(step, make_inputs)
        assert report, str(report)
    """

    subject: str
    findings: List[Finding] = dataclasses.field(default_factory=list)
    compared: Dict[str, int] = dataclasses.field(default_factory=dict)
    differing: List[Tuple[str, str, str]] = dataclasses.field(default_factory=list)  # What, eager's value, the graph's.
    unknown: List[str] = dataclasses.field(default_factory=list)  # What this check could not judge.
    cost: Dict[str, float] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        return render_text(self)

    def to_dict(self) -> Dict[str, Any]:
        """The JSON that docs/reference/check-json.md describes."""
        findings = []
        for finding in self.findings:
            line = finding.line and {"file": finding.line.file, "line": finding.line.number,
                                     "function": finding.line.function, "text": finding.line.text,
                                     "inside": finding.line.inside}
            findings.append({"kind": finding.kind.name.lower(), "line": line, "operator": finding.operator,
                             "what": finding.what, "eager": finding.eager, "graph": finding.graph,
                             "node": finding.node, "case": finding.case, "fix": finding.fix})
        differing = [{"what": what, "eager": eager, "graph": graph} for what, eager, graph in self.differing]
        return {"schema": 1, "subject": self.subject, "findings": findings, "differing": differing,
                "compared": self.compared, "unknown": self.unknown, "cost": self.cost}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)


def shown(file: str) -> str:
    """A path as a user would type it."""
    here = os.getcwd() + os.sep
    return file[len(here):] if file.startswith(here) else file


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


_NOUNS = {"inputs": "set of inputs", "outputs": "output", "parameters": "parameter", "gradients": "gradient",
          "tensors": "other tensor", "operators": "operator", "host values": "host value", "kernels": "kernel",
          "addresses": "address", "graphs": "graph", "replays": "replay", "generators": "generator"}
_PLURALS = {"inputs": "sets of inputs", "addresses": "addresses"}


def render_text(report: CheckReport) -> str:
    lines = []
    found = count(len(report.findings), "finding") if report.findings else "nothing found"
    lines.append(f"recapture check: {report.subject}: {found}")
    for finding in report.findings:
        lines.append("")
        if finding.line:
            place = f"{shown(finding.line.file)}:{finding.line.number} in {finding.line.function}"
            lines.append(f"{finding.kind.value}: {place}")
            if finding.line.text:
                lines.append(f"    {finding.line.text}")
        else:
            lines.append(f"{finding.kind.value}:")
        if finding.operator:
            inside = f" (called in {finding.line.inside})" if finding.line and finding.line.inside else ""
            lines.append(f"  operator  {finding.operator}{inside}")
        if finding.node:
            lines.append(f"  node      {finding.node}")
        lines.append(f"  what      {finding.what}")
        lines.append(f"  eager     {finding.eager}")
        lines.append(f"  graph     {finding.graph}")
        if finding.case:
            lines.append(f"  case      {finding.case}; `recapture show {finding.case}`")
        if finding.fix:
            lines.append(f"  fix       {finding.fix}")
    if report.differing:
        lines += ["", "values that differ"]
        for what, eager, graph in report.differing[:8]:
            lines.append(f"  {what}: eager {eager}, graph {graph}")
        if len(report.differing) > 8:
            lines.append(f"  … {len(report.differing) - 8} more")
    if report.compared:
        parts = [count(number, _NOUNS.get(noun, noun), _PLURALS.get(noun, ""))
                 for noun, number in report.compared.items() if number]
        lines += ["", f"compared: {', '.join(parts)}"] if parts else [""]
    if report.unknown:
        lines += ["not shown by this:"] + [f"  {sentence}" for sentence in report.unknown]
    return "\n".join(lines) + "\n"

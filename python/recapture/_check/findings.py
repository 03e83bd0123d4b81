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
    RANKS = "other on another rank"
    NOT_LATER = "not right later"
    EARLY = "read before a replay"
    UNREAD = "gradient not read"
    PADDING = "rows of padding at work"
    WARM_UP = "changed by the warm-up"


CAPTURE_A_GRAPH_EACH = "Capture a graph for each branch, or shape, and let the host replay the right one."
DROP_WHAT_IS_CACHED = "Drop what the warm-up has cached before the capture, so that its kernels are captured."
FORK_THE_STREAM = ("Call side_stream.wait_stream(capture_stream) before the side stream's first work, and the reverse before "
                   "the capture ends.")
SAME_IN_A_CAPTURE = "Compute the same in a capture as without one, whatever is_current_stream_capturing() says."

# The cases that a finding can name, each with the fix that a program can apply. A test compares both with
# cases/catalogue.json.xz.
FIXES: Dict[str, str] = {
    "autocast_cache_across_capture":
        "Use torch.autocast(..., cache_enabled=False) around the warm-up and the capture of a graph.",
    "backward_captured_under_autocast":
        "Enter the autocast region in the module's forward(), and call make_graphed_callables() outside of any region.",
    "batch_norm_trained_by_warm_up":
        "Clone the buffers before the warm-ups or make_graphed_callables(), and copy_() the clones back afterwards: the "
        "graph has the buffers' addresses.",
    "boolean_index_in_capture": "",
    "cpu_copy_in_capture": "",
    "copy_on_another_stream":
        "Record an event after the copy and let the replay's stream wait for it: wait_stream() in Python.",
    "fft_plan_dropped":
        "Do not clear torch.backends.cuda.cufft_plan_cache, or make it smaller, while a graph with an FFT is replayed.",
    "generator_rewound_in_capture":
        "Rewind the generator with set_state() or manual_seed() before a replay, not inside the capture.",
    "gradients_set_to_none_between_replays":
        "Keep the .grad tensors: zero_grad(set_to_none=False), or no zero_grad() where the graph writes the gradients and "
        "does not add to them.",
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
    "padding_rows_do_work":
        "Give rows of padding a slot that no request reads: one row more than the cache needs.",
    "pageable_copy_in_capture": "",
    "pageable_source_freed_before_replay":
        "Copy from a pinned tensor in the capture and keep that tensor for as long as the graph is replayed.",
    "pinned_block_recycled_under_graph":
        "Keep a reference to the pinned tensor for as long as a graph that copies from it may be replayed.",
    "pinned_buffer_overwritten":
        "Record an event after graph.replay(), and synchronize() with it before the pinned buffer is written.",
    "pointer_array_from_host_array":
        "Build the array of pointers in pinned memory, and keep it for as long as the graph may be replayed.",
    "ranks_choose_different_graphs":
        "Agree on the padded size before each step, with an all_reduce of the largest, and choose the graph by what all "
        "ranks agreed on.",
    "table_made_in_capture":
        "Make the table in a warm-up, or in the module's constructor, before the capture.",
    "unregistered_generator":
        "Call graph.register_generator_state(generator) before the capture; from 2.14 on this happens by itself.",
    "value_cached_by_warm_up": DROP_WHAT_IS_CACHED,
    "workspace_grown_after_capture":
        "Keep a workspace that has been replaced alive for as long as a graph may refer to it.",
}

# The fix where that of the case is for something else that the case documents too. A test compares these as well.
_FIXES_BY_KIND: Dict[Tuple[Kind, str], str] = {
    (Kind.SIDE_EFFECT, "host_logic_frozen"):
        "Change counters and other host state beside graph.replay(), not in the captured code.",
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
    Kind.RANKS: "ranks_choose_different_graphs",
    Kind.NOT_LATER: None,
    Kind.EARLY: "table_made_in_capture",
    Kind.UNREAD: "gradients_set_to_none_between_replays",
    Kind.PADDING: "padding_rows_do_work",
    Kind.WARM_UP: "batch_norm_trained_by_warm_up",
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
    remedy: str = ""  # The fix, if it is not the first one of the case.
    follows: Tuple["Finding", ...] = ()  # What has the same cause.

    @property
    def fix(self) -> str:
        case = self.case or ""
        return self.remedy or _FIXES_BY_KIND.get((self.kind, case)) or FIXES.get(case, "")

    def to_dict(self) -> Dict[str, Any]:
        line = self.line and {"file": self.line.file, "line": self.line.number, "function": self.line.function,
                              "text": self.line.text, "inside": self.line.inside}
        return {"kind": self.kind.name.lower(), "line": line, "operator": self.operator, "what": self.what,
                "eager": self.eager, "graph": self.graph, "node": self.node, "case": self.case, "fix": self.fix,
                "follows": [finding.to_dict() for finding in self.follows]}


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
    remarks: List[Finding] = dataclasses.field(default_factory=list)  # What no value on the GPU depends on.
    rank: Optional[int] = None  # Of this process, in a process group of several ranks,
    ranks: int = 1  # and their number.

    def __bool__(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        return render_text(self)

    def to_dict(self) -> Dict[str, Any]:
        """The JSON that docs/reference/check-json.md describes."""
        differing = [{"what": what, "eager": eager, "graph": graph} for what, eager, graph in self.differing]
        return {"schema": 1, "subject": self.subject, "findings": [finding.to_dict() for finding in self.findings],
                "remarks": [finding.to_dict() for finding in self.remarks], "differing": differing,
                "compared": self.compared, "unknown": self.unknown, "cost": self.cost, "rank": self.rank,
                "ranks": self.ranks}

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
          "addresses": "address", "collectives": "collective", "graphs": "graph", "replays": "replay", "generators": "generator",
          "later": "action between replays"}
_PLURALS = {"inputs": "sets of inputs", "addresses": "addresses", "later": "actions between replays"}


_SHOWN = 6  # Of what has the same cause; --json has the rest.


def _place_of(finding: Finding) -> str:
    return f"{shown(finding.line.file)}:{finding.line.number} in {finding.line.function}" if finding.line else "somewhere"


def _describe(finding: Finding) -> List[str]:
    lines = [f"{finding.kind.value}: {_place_of(finding)}" if finding.line else f"{finding.kind.value}:"]
    if finding.line and finding.line.text:
        lines.append(f"    {finding.line.text}")
    if finding.operator:
        inside = f" (called in {finding.line.inside})" if finding.line and finding.line.inside else ""
        lines.append(f"  operator  {finding.operator}{inside}")
    if finding.node:
        lines.append(f"  node      {finding.node}")
    lines += [f"  what      {finding.what}", f"  eager     {finding.eager}", f"  graph     {finding.graph}"]
    for other in finding.follows[:_SHOWN]:
        operator = f", {other.operator}" if other.operator else ""
        lines.append(f"  with it   {other.kind.value}: {_place_of(other)}{operator}")
    if len(finding.follows) > _SHOWN:
        lines.append(f"  with it   … {len(finding.follows) - _SHOWN} more")
    if finding.case:
        lines.append(f"  case      {finding.case}; `recapture show {finding.case}`")
    if finding.fix:
        lines.append(f"  fix       {finding.fix}")
    return lines


def render_text(report: CheckReport) -> str:
    lines = []
    found = count(len(report.findings), "finding") if report.findings else "nothing found"
    of_rank = "" if report.rank is None else f"rank {report.rank} of {report.ranks}: "
    lines.append(f"recapture check: {of_rank}{report.subject}: {found}")
    for finding in report.findings:
        lines += ["", *_describe(finding)]
    if report.remarks:
        for title, of_host in (("harmless unless you read it", True), ("without effect on any value", False)):
            remarks = [finding for finding in report.remarks if (finding.kind == Kind.SIDE_EFFECT) == of_host]
            lines += ["", title] if remarks else []
            lines += [f"  {_place_of(finding)}: {finding.what}" for finding in remarks[:_SHOWN]]
            lines += [f"  … {len(remarks) - _SHOWN} more"] if len(remarks) > _SHOWN else []
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

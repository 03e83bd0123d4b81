"""check() on the host: a stand-in replays what the dispatcher saw."""
import collections
import ctypes
import dataclasses
import io
import json
import os
import random
import subprocess
import sys
import time
import types
import typing

import pytest

torch = pytest.importorskip("torch")

from stand_in import StandIn  # noqa: E402

import recapture  # noqa: E402
import recapture._check as package  # noqa: E402
from recapture._check import Kind, command, comparison, fixture_check, main, state  # noqa: E402
from recapture._check.checking import Inputs  # noqa: E402
from recapture._check.cuda import FREE, GIVEN, GONE, CudaBackend, Node, Ranges, blocks  # noqa: E402

HERE = __file__
torch.set_num_threads(1)


def line_with(mark):
    return next(n for n, line in enumerate(open(HERE).read().splitlines(), 1) if line.endswith(f"# {mark}"))


def filled(i):
    return torch.full((4,), 1.0 + i)


def check(fn, make_inputs=filled, backend=None, **options):
    return recapture.check(fn, make_inputs, backend=backend or StandIn(), **options)


def first(report):
    assert report.findings, str(report)
    finding = report.findings[0]
    return finding.kind, finding.line and finding.line.number


# What is frozen.

def test_number_that_changes_is_a_frozen_host_value():
    def scaled(x, factor):
        return x * factor  # scaled

    report = check(scaled, lambda i: (filled(i), (2.0, 3.0, 4.0)[i]))
    assert first(report) == (Kind.HOST_VALUE, line_with("scaled"))
    assert report.findings[0].eager == "2.0, 3.0, 4.0" and report.findings[0].graph.startswith("2.0")
    assert [what for what, _, _ in report.differing] == ["output of call 2", "output of call 3"]


def test_number_that_stays_is_none():
    assert not check(lambda x, factor: x * factor, lambda i: (filled(i), 2.0)).findings


def test_zero_dim_tensor_of_the_host_is_a_host_value():
    count = torch.zeros(())

    def averaged(x):
        count.add_(1)  # counted
        return x / count  # averaged

    report = check(averaged)
    assert [(finding.kind, finding.line.number) for finding in report.findings] == [
        (Kind.HOST_VALUE, line_with("averaged"))]
    assert [(finding.kind, finding.line.number) for finding in report.findings[0].follows] == [
        (Kind.SIDE_EFFECT, line_with("counted"))]
    assert report.findings[0].eager == "4.0, 5.0, 6.0"


def test_learning_rate_of_an_optimizer_names_its_case():
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()  # rate

    def inputs(i):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + i)
        return filled(i)

    report = check(step, inputs)
    assert first(report) == (Kind.HOST_VALUE, line_with("rate"))
    assert report.findings[0].case == "optimizer_step_in_graph"


def test_branch_is_frozen_where_operators_differ():
    def branched(x, up):
        if up:
            return x + 1  # up
        return x.neg()

    report = check(branched, lambda i: (filled(i), i == 0))
    assert first(report) == (Kind.CONTROL_FLOW, line_with("up"))
    assert "neg" in report.findings[0].eager and "add" in report.findings[0].graph


def test_call_with_more_operators_is_another_way():
    def extra(x, more):
        y = x + 1
        return y.exp() if more else y  # exp

    report = check(extra, lambda i: (filled(i), i == 2))
    assert first(report) == (Kind.CONTROL_FLOW, line_with("exp"))
    assert report.findings[0].graph == "aten.exp.default in no replay"


def test_shape_that_changes_is_another_way():
    def doubled(x):
        return x * 2  # doubled

    assert first(check(doubled, lambda i: torch.ones(4 + i))) == (Kind.CONTROL_FLOW, line_with("doubled"))


def test_question_for_the_capture_is_found_by_its_operators():
    backend = StandIn()

    def asks(x):
        return (x.neg() if backend.is_capturing() else x) * 3  # asks

    assert first(check(asks, backend=backend)) == (Kind.CONTROL_FLOW, line_with("asks"))


def test_capture_that_differs_without_effect_is_none():
    backend = StandIn()
    assert not check(lambda x: (x + 0 if backend.is_capturing() else x) * 3, backend=backend).findings


def test_output_that_only_some_calls_have_is_another_way():
    def several(x, both):  # several
        y = x * 2
        return (y, y) if both else (y,)

    for more_later in (True, False):
        report = check(several, lambda i: (filled(i), (i > 0) == more_later))
        assert len(report.findings) == 1 and first(report) == (Kind.CONTROL_FLOW, line_with("several"))
        assert report.findings[0].what == f"call 2 has {'more' if more_later else 'fewer'} outputs than the first one"


# Tensors from outside.

class Centred:
    def __init__(self):
        self.mean = torch.zeros(4)

    def __call__(self, x):
        y = x - self.mean  # mean
        self.mean = self.mean * 0.5 + x
        return y


def test_state_that_is_assigned_is_rebound():
    report = check(Centred())
    assert first(report) == (Kind.REBOUND, line_with("mean"))
    assert [finding.kind for finding in report.findings] == [Kind.REBOUND]


def test_state_that_is_written_is_none():
    mean = torch.zeros(4)

    def centred(x):
        y = x - mean
        mean.lerp_(x, 0.5)
        return y

    assert not check(centred).findings


def test_tensor_that_is_dropped_after_the_capture_is_freed():
    backend, kept = StandIn(), {"mask": torch.ones(4)}

    def masked(x):
        y = x * kept["mask"]  # mask
        if backend.is_capturing():
            kept["mask"] = torch.ones(4)
        return y

    assert first(check(masked, backend=backend)) == (Kind.FREED, line_with("mask"))


def test_autocast_cache_from_before_is_rebound():
    weight = torch.nn.Parameter(torch.eye(4))

    def step(x):
        y = torch.nn.functional.linear(x, weight)  # cast
        with torch.no_grad():
            weight.mul_(0.5)
        return y

    def inputs(i):
        return torch.full((4, 4), 1.0 + i)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        report = check(step, inputs)
    assert first(report) == (Kind.REBOUND, line_with("cast"))
    assert report.findings[0].case == "autocast_cache_across_capture"
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        assert not check(step, inputs).findings


# Work that is no operator of the capture.

def test_work_of_another_stream_is_outside():
    backend, staged = StandIn(), torch.zeros(4)

    def library(x):
        with backend.side:
            staged.copy_(x)  # staged
        return staged * 2

    assert first(check(library, backend=backend)) == (Kind.OUTSIDE, line_with("staged"))


def test_work_that_is_no_operator_is_outside():
    staged = torch.zeros(4)

    def library(x):
        source = x.tolist()
        memory = (ctypes.c_float * 4).from_address(staged.data_ptr())
        memory[:] = source  # memory
        return staged * 2

    assert first(check(library)) == (Kind.OUTSIDE, line_with("memory"))


def test_output_that_eager_code_never_repeats_hides_no_other():
    staged = torch.zeros(4)

    def library(x):
        source, number = x.tolist(), torch.zeros(1, dtype=torch.long)
        ctypes.c_long.from_address(number.data_ptr()).value = time.monotonic_ns()
        (ctypes.c_float * 4).from_address(staged.data_ptr())[:] = source
        return staged * 2, number

    report = check(library)
    assert [what for what, _, _ in report.differing if "output[0]" in what] == ["output[0] of call 2", "output[0] of call 3"]
    assert not [what for what, _, _ in report.differing if "output[1]" in what]
    assert "Values that eager code does not repeat: output[1] of call 1, output[1] of call 2, output[1] of call 3." \
        in report.unknown


def only_remark(report):
    assert not report.findings and len(report.remarks) == 1, str(report)
    return report.remarks[0].kind, report.remarks[0].line.number


def test_counter_that_no_tensor_reads_is_a_remark():
    counts = {"calls": 0}

    def counted(x):
        counts["calls"] += 1  # counter
        return x * 2

    report = check(counted)
    assert only_remark(report) == (Kind.SIDE_EFFECT, line_with("counter"))
    assert "harmless unless you read it" in str(report) and "torch.where" not in report.remarks[0].fix
    assert report.remarks[0].fix == "Change counters and other host state beside graph.replay(), not in the captured code."
    assert counts == {"calls": 0}


def test_list_that_grows_is_a_lost_side_effect():
    history = []

    def kept(x):
        y = x * 2
        history.append(y.detach())  # append
        return y

    assert first(check(kept)) == (Kind.SIDE_EFFECT, line_with("append"))
    assert history == []


def test_hook_of_an_inner_module_names_its_case():
    model, calls = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), [0]

    def count_hook(module, inputs, output):
        calls[0] += 1  # hook

    model[0].register_forward_hook(count_hook)
    report = check(model)
    assert only_remark(report) == (Kind.SIDE_EFFECT, line_with("hook"))
    assert report.remarks[0].case == "inner_hooks_of_graphed_callable"


def test_read_of_a_value_is_refused():
    def read(x):
        return x * x.sum(0, keepdim=True).nonzero().numel()  # read

    report = check(read)
    assert first(report) == (Kind.REFUSED, line_with("read"))
    assert "not permitted" in report.findings[0].graph


def test_refusal_has_what_blame_says():
    def read(x):
        return x * x.nonzero().numel()

    backend = StandIn()
    backend.blame = lambda call: types.SimpleNamespace(api="cuStreamSynchronize", code=900, cause="nonzero() waits")
    finding = check(read, backend=backend).findings[0]
    assert finding.what == "the capture failed: nonzero() waits"
    assert finding.graph.startswith("cuStreamSynchronize returned 900; RuntimeError: operation not permitted")


def test_generator_that_is_set_back_is_random():
    state = torch.get_rng_state()

    def drawn(x):
        torch.set_rng_state(state)
        return x + torch.rand(4)

    report = check(drawn)
    assert report.findings[0].kind == Kind.RANDOM


def test_dropout_is_none():
    assert not check(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())).findings


# Addresses in the graph's nodes.

class StandInWithNodes(StandIn):
    """Its graph has a node for each operator; `pageable` and `freed` define which node points where."""

    pageable, freed = None, None

    def pageable_sources(self):
        return [] if self.pageable is None else [Node(self.pageable, "copy", [], 0x1000)]

    def freed_addresses(self):
        return [] if self.freed is None else [(Node(self.freed, "kernel", [0x2000]), 0x2000, FREE)]


def two_operators(x):
    y = x * 2
    return y + 1  # added


def test_address_in_freed_memory_names_the_operator_that_launched_the_node():
    backend = StandInWithNodes()
    backend.freed, backend.planted = 1, {"poison": lambda: "written"}
    report = check(two_operators, backend=backend)
    assert first(report) == (Kind.FREED, line_with("added"))
    finding = report.findings[0]
    assert finding.operator == "aten.add.Tensor" and finding.node == "kernel node 1" and "0x2000" in finding.graph


def test_address_in_freed_memory_that_no_replay_uses_is_no_address():
    backend = StandInWithNodes()
    backend.freed = 1
    assert not check(two_operators, backend=backend).findings
    assert backend.asked.did == ["poison"] and backend.asked.ended


def test_replay_that_fails_once_freed_memory_is_filled_read_it():
    backend = StandInWithNodes()

    def poison():
        def fail(index):
            raise RuntimeError("illegal memory access")
        backend.after_step = fail

    backend.freed, backend.planted = 1, {"poison": poison}
    report = check(two_operators, backend=backend)
    assert first(report) == (Kind.FREED, line_with("added")) and len(report.findings) == 1


def test_copy_from_pageable_memory_is_of_memory_that_nothing_keeps():
    backend = StandInWithNodes()
    backend.pageable = 1
    report = check(two_operators, backend=backend)
    assert first(report) == (Kind.FREED, line_with("added"))
    assert report.findings[0].case == "pageable_source_freed_before_replay"


def test_node_of_no_operator_has_the_line_that_added_it():
    backend, launched = StandInWithNodes(), []
    backend.pageable = 1
    backend.count_nodes = lambda: len(launched) + len(backend.frozen.steps) if backend.open else 0

    def library(x):
        y = x * 2
        if backend.open:
            launched.append("a copy")  # launched
        return y + 1

    report = check(library, backend=backend)
    finding = next(finding for finding in report.findings if finding.kind == Kind.FREED)
    assert (finding.line.number, finding.operator) == (line_with("launched"), "")
    assert finding.case == "pointer_array_from_host_array"


class Allocator:
    """One segment of four blocks, as torch.cuda.memory_snapshot() has it."""

    def __init__(self, monkeypatch):
        self.states = ["active_allocated"] * 4
        monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [
            {"address": 0x1000, "total_size": 0x400, "segment_pool_id": (0, 0),
             "blocks": [{"size": 0x100, "state": state} for state in self.states]}])


def test_address_is_followed_from_the_beginning_of_the_capture(monkeypatch):
    allocator, gone = Allocator(monkeypatch), set()
    backend = CudaBackend.__new__(CudaBackend)
    backend.graph = types.SimpleNamespace(pool=lambda: (0, 1))
    backend.driver = types.SimpleNamespace(is_known=lambda address: address not in gone)
    backend.nodes = [Node(0, "kernel", [0x1010, 7]), Node(1, "kernel", [0x1110]), Node(2, "copy", [0x1210]),
                     Node(3, "kernel", [0x5000]), Node(4, "kernel", [0x1310])]
    allocator.states[3] = "inactive"  # What lay there had been freed before.
    backend._alive = blocks(alive=True)
    allocator.states[0] = "inactive"
    gone.add(7)  # Never an address.
    backend._look_at_addresses()
    assert backend.count_addresses() == 4
    allocator.states[:2] = ["active_allocated", "inactive"]
    gone.add(0x5000)
    assert [(node.number, word, fate) for node, word, fate in backend.freed_addresses()] == [
        (0, 0x1010, GIVEN), (1, 0x1110, FREE), (3, 0x5000, GONE)]
    backend.graph = types.SimpleNamespace(pool=lambda: (0, 0))
    assert [fate for _, _, fate in backend.freed_addresses()] == [GIVEN, GONE], "its own pool keeps its memory"


def test_address_at_the_end_of_a_range_is_outside():
    ranges = Ranges([(0x3000, 0x3100), (0x1000, 0x1100)])
    assert [address in ranges for address in (0xfff, 0x1000, 0x10ff, 0x1100, 0x2fff, 0x3000, 0x3100)] == [
        False, True, True, False, False, True, False]


def test_old_driver_is_told_of():
    backend = StandIn()
    backend.reads_addresses = False
    assert any("older than CUDA 12.4" in line for line in check(lambda x: x * 2, backend=backend).unknown)
    assert not any("CUDA 12.4" in line for line in check(lambda x: x * 2).unknown)


def test_inputs_that_no_static_ones_can_hold_are_named():
    report = check(lambda x, _: x * 2, lambda i: (filled(i), torch.ones(4 + i)))
    assert not report.findings
    assert "Replays from call 2 on: the shapes of its inputs are not those of the capture." in report.unknown
    assert not any("Replays" in line for line in check(lambda x: x * 2).unknown)


def test_state_that_is_too_large_is_named(monkeypatch):
    numbers = [[number] for number in range(50)]
    monkeypatch.setattr(state, "_LIMIT", 5)
    assert any("more than 5 objects" in line for line in check(lambda x: x * len(numbers)).unknown)
    monkeypatch.undo()
    assert not any("objects" in line for line in check(lambda x: x * len(numbers)).unknown)


def test_output_that_cannot_be_looked_into_is_named():
    class Answer:
        def __init__(self, value):
            self.value = value

    report = check(lambda x: {"answer": Answer(x * 2), "name": "x", "both": (x + 1, None)})
    assert "Tensors in output['answer'], whose type is Answer." in report.unknown
    assert not any("whose type" in line for line in check(lambda x: (x * 2, None, 3)).unknown)


def test_replay_that_fails_is_a_finding():
    backend, value = StandIn(), torch.zeros(4)

    def fail():
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA")

    backend.replay = fail
    report = check(lambda x: value.add_(x), backend=backend)
    assert first(report) == (Kind.WRONG_VALUE, None)
    assert report.findings[0].what == "the replay of call 1 failed"
    assert report.findings[0].graph == "RuntimeError: CUDA error: an illegal memory access was encountered"
    assert value.tolist() == [0.0] * 4


def test_replay_that_breaks_the_context_leaves_a_report():
    backend = StandIn()

    def fail(*_):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def replay():
        backend.set_generator_state = fail
        fail()

    backend.replay = replay
    report = check(lambda x: x * 2, backend=backend)
    assert report.findings[0].what == "the replay of call 1 failed"
    assert any("was not restored: RuntimeError: CUDA error" in line for line in report.unknown)


@pytest.mark.parametrize("values", [torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()])
def test_sparse_tensors_are_compared(values):
    assert comparison.difference(values, values.clone()) == 0
    assert comparison.difference(values, 2 * values) == 1
    assert comparison.sample(values, 2 * values) == ("1[0]", "2[0]")


# The command.

def ended(capsys, *words):
    status = main(list(words))
    said = capsys.readouterr()
    return status, said.err.strip()


def test_command_without_a_gpu_is_unavailable(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    status, said = ended(capsys, "test_check:two_operators")
    assert (status, said) == (7, "recapture check: PyTorch sees no GPU, and a graph is captured on one")


@pytest.mark.parametrize("words, said", [
    (["two_operators"], "two_operators is not MODULE:FUNCTION, such as train:step"),
    (["no_such_module:step"], "no_such_module cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
    (["test_check:no_step"], "test_check:no_step: test_check has no no_step"),
    (["test_check:HERE"], "test_check:HERE cannot be called"),
    (["test_check:two_operators", "--count", "1"], "--count is 1; it must be 2 or more"),
    (["test_check:two_operators", "--warm-up", "0"], "--warm-up is 0; it must be 1 or more"),
    (["test_check:two_operators", "--inputs", "none"], "none: test_check has no none"),
])
def test_command_says_what_is_wrong_in_one_line(capsys, words, said):
    assert ended(capsys, *words) == (2, f"recapture check: {said}")


def test_command_takes_the_path_of_a_file(capsys, monkeypatch, tmp_path):
    real = package.check
    monkeypatch.setattr(package, "check", lambda *given, **options: real(*given, backend=StandIn(), **options))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "here/below").mkdir(parents=True)
    for path in ("here/first_file.py", "here/below/second_file.py", "third_file.py"):
        (tmp_path / path).write_text("import torch\ndef step(): return torch.ones(4) * 2\n")
    monkeypatch.chdir(tmp_path / "here")
    for spelt in ("./first_file.py", "below/second_file.py", "../third_file.py", str(tmp_path / "third_file.py")):
        assert main([f"{spelt}:step"]) == 0, capsys.readouterr().err
        assert capsys.readouterr().out.startswith("recapture check: step: nothing found\n")


def test_command_prints_the_report_and_says_by_its_status_whether_something_was_found(capsys, monkeypatch):
    backend = StandIn()
    real = package.check
    monkeypatch.setattr(package, "check", lambda *given, **options: real(*given, backend=backend, **options))
    assert main(["test_check:two_operators", "--inputs", "filled"]) == 0
    assert capsys.readouterr().out.startswith("recapture check: two_operators: nothing found\n")
    assert main(["test_check:draws", "--inputs", "filled", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["kind"] == "host_value"
    status, said = ended(capsys, "test_check:fails", "--inputs", "filled")
    assert (status, said) == (2, "recapture check: test_check:fails failed outside the capture: ValueError: no")


@pytest.mark.parametrize("source, said", [
    ("import sys\nsys.exit(0)", "cannot be imported: SystemExit: 0"),
    ("import sys\nstep = lambda: sys.exit(0)", "ending:step failed outside the capture: SystemExit: 0"),
])
def test_program_that_ends_itself_is_never_a_pass(capsys, monkeypatch, tmp_path, source, said):
    (tmp_path / "ending.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ending", raising=False)
    backend, real = StandIn(), package.check
    monkeypatch.setattr(package, "check", lambda *given, **options: real(*given, backend=backend, **options))
    status, error = ended(capsys, "ending:step")
    assert status == 2 and error.endswith(said) and error.count("\n") == 0


def test_error_of_its_own_is_no_finding(capsys, monkeypatch):
    def fail(_):
        raise KeyError("ours")

    monkeypatch.setattr(command, "main", fail)
    status, said = ended(capsys, "test_check:two_operators")
    assert status == 7 and said.startswith("Traceback") and said.endswith("KeyError: 'ours'")


def test_report_is_printed_in_any_encoding(monkeypatch):
    monkeypatch.setattr(package, "check", lambda *_, **options: package.CheckReport("step …"))
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="latin-1"))
    assert main(["test_check:two_operators"]) == 0
    sys.stdout.flush()
    assert out.getvalue() == b"recapture check: step \\u2026: nothing found\n"


def draws(x):
    return x * random.random()


def fails(x):
    raise ValueError("no")


# What is compared, and what is left behind.

def test_training_step_is_compared_with_its_state_and_left_as_it_was():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    report = check(step, lambda i: torch.randn(8, 4, generator=torch.Generator().manual_seed(i)),
                   StandIn(on_device=model.buffers()))
    assert not report.findings, str(report)
    assert report.compared["parameters"] == 6 and report.compared["gradients"] == 6
    assert report.compared["inputs"] == 3 and report.compared["operators"] > 20
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not optimizer.state and torch.equal(torch.get_rng_state(), generator)


def test_python_generator_is_left_as_it_was():
    random.seed(1)
    state = random.getstate()
    report = check(lambda x: x * random.random())
    assert report.findings[0].kind == Kind.HOST_VALUE and random.getstate() == state


def test_one_set_of_inputs_is_varied():
    inputs = Inputs((torch.tensor([1.0, 2.0]), torch.tensor([0, 1]), 3))
    seen = [[value.tolist() if isinstance(value, torch.Tensor) else value for value in inputs.get(i)[0]] for i in range(3)]
    assert seen == [[[1.0, 2.0], [0, 1], 3], [[2.25, 1.125], [1, 0], 3], [[1.25, 2.5], [0, 1], 3]]


class Pair(typing.NamedTuple):
    x: torch.Tensor
    factor: float


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    factor: float


@pytest.mark.parametrize("make", [Pair, Batch, lambda x, factor: collections.defaultdict(list, x=x, factor=factor)])
def test_inputs_in_containers_are_copied(make):
    def scaled(batch):
        x, factor = (batch["x"], batch["factor"]) if isinstance(batch, dict) else (batch.x, batch.factor)
        return x * factor  # batched

    for inputs in (lambda i: (make(filled(i), 2.0),), (make(filled(0), 2.0),)):
        report = check(scaled, inputs)
        assert not report.findings and report.compared["outputs"] >= 1, str(report)
    report = check(scaled, lambda i: (make(filled(i), float(i)),))
    assert first(report) == (Kind.HOST_VALUE, line_with("batched"))


def test_input_that_cannot_be_looked_into_is_named():
    report = check(lambda batch: batch.x * 2, lambda i: (types.SimpleNamespace(x=filled(0)),))
    assert "Tensors in input[0], whose type is SimpleNamespace." in report.unknown


def test_fixture_fails_with_the_report():
    with pytest.raises(AssertionError, match="host value frozen"):
        fixture_check(lambda x, f: x * f, lambda i: (filled(i), float(i)), backend=StandIn())
    assert not fixture_check(lambda x: x * 2, filled, backend=StandIn()).findings


def test_exception_of_eager_code_is_raised():
    with pytest.raises(ZeroDivisionError):
        check(lambda x: 1 / 0)


def test_one_call_shows_nothing():
    with pytest.raises(ValueError, match="two calls"):
        check(lambda x: x, count=1)


def test_capture_without_a_call_before_it_is_wrong_usage():
    with pytest.raises(ValueError, match="warm_up is 0"):
        check(lambda x: x, warm_up=0)


def test_fixture_fails_where_python_leaves_assertions_out():
    code = ("import types, recapture._check as package\n"
            "package.check = lambda *_, **options: types.SimpleNamespace(findings=[1])\n"
            "try: package.fixture_check(None)\nexcept AssertionError: print('failed')\n")
    done = subprocess.run([sys.executable, "-O", "-c", code], stdout=subprocess.PIPE,
                          env={"PYTHONPATH": os.path.dirname(os.path.dirname(package.__path__[0]))})
    assert done.stdout == b"failed\n"


def test_report_is_json():
    report = json.loads(check(Centred()).to_json())
    assert set(report) == {"schema", "subject", "findings", "remarks", "differing", "compared", "unknown", "cost", "rank", "ranks"}
    assert (report["rank"], report["ranks"]) == (None, 1)
    assert report["findings"][0]["kind"] == "rebound" and report["findings"][0]["line"]["line"] == line_with("mean")
    assert report["findings"][0]["fix"].startswith("Update running statistics")

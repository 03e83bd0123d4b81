"""tools/discover without a GPU: planted faults are found and shrunk, and sound programs have no finding.

A sample by default; all faults and 500 programs with DISCOVER_IN_FULL in the environment, as in `ci/test --all`.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("hypothesis")
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tools"))
torch.set_num_threads(1)

from discover_faults import FAULTS, Faulty  # noqa: E402
from discovery import drafting, programs, running, searching, serving  # noqa: E402
from discovery.programs import ACTIONS, OPS, PLAYS, WRAPS, Event, Program, Statement, count_lines, source_of  # noqa: E402

from recapture._check.cuda import Refused  # noqa: E402

running.prepare()
searching.prepare()
IN_FULL = bool(os.environ.get("DISCOVER_IN_FULL"))
SAMPLE = ("plans cleared", "plans evicted", "after a sort", "refused together")
OPERATORS = ("mul", "add", "relu", "fft2", "rfft", "matmul", "conv2d", "sort", "cumsum", "solve", "bernoulli", "softmax",
             "layer_norm", "roll", "index_add", "embedding", "gather", "bmm", "max_pool", "var", "state", "dropout", "in_place", "view",
             "randn_generator", "step_sgd", "pinned", "strided", "where", "cat")
ON_HOST = [action for action in ACTIONS if action not in ("loader", "subprocess", "dynamo_reset")]  # Those take seconds.


def plan(folder, fault=None, **options):
    values = {"seed": 1, "seconds": 3000, "jobs": 1, "limit": 3 if fault and fault.state == "hang" else 60, "shrink": 600,
              "examples": 400, "host": True, "compile": False, "most_rounds": 6, "sizes": (8, 32)}
    return searching.Plan(output=folder, make_backend=lambda: Faulty(fault), **{**values, **options})


def wraps(ops):
    return {(op, wrap) for op in ops for wrap in programs.wraps_of(OPS[op]) if wrap in ("plain", "write", "grad", "side")
            and (wrap != "grad" or op in ("softmax", "matmul", "mul", "layer_norm", "cumsum"))}


def found_by(folder, fault, ops, actions):
    where = plan(folder, fault)
    hunter = searching.Hunter(where, "test")
    strategy = programs.strategy(list(ops), wraps(ops), list(actions), where.sizes)
    paths = (searching.Round(hunter, where.at(0.8)).run(strategy, searching.seed_of(1, turn)) for turn in range(12))
    path = next(filter(None, paths), None)
    hunter.close()
    return json.loads(path.read_text()) if path else None


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if IN_FULL or fault.name in SAMPLE], ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_and_shrunk(tmp_path, fault):
    few = sorted({fault.op, "mul", *(feature[3:] for feature in (fault.feature,) if feature.startswith("op:"))})
    actions = sorted({feature[7:] for feature in (fault.feature,) if feature.startswith("action:")} | {"empty_cache", "seed"})
    finding = found_by(tmp_path, fault, OPERATORS if IN_FULL else few, ON_HOST if IN_FULL else actions)
    assert finding and finding["state"] == fault.state and finding["repeated"]
    assert {f"op:{fault.op}", fault.feature or f"op:{fault.op}"} <= set(finding["features"]), finding["source"]
    program = Program.of(finding["program"])
    assert finding["lines"] <= 15 and len(program.statements()) <= 2 and len(program.events) <= 2, finding["source"]


def test_sound_programs_have_no_finding(tmp_path):
    where = plan(tmp_path, most_rounds=1, examples=500 if IN_FULL else 60)
    ops, allowed, actions = list(OPERATORS), wraps(OPERATORS), list(ON_HOST)
    if IN_FULL:  # All that the stand-in can capture.
        where.ops, where.actions = tuple(OPS), tuple(ON_HOST)
        ops, allowed, actions, _ = searching.calibrate(where)
    for path in tmp_path.glob("*"):
        path.unlink()
    searching.sequences(where, ops, allowed, actions)
    result = searching.merged(where)
    assert result["findings"] == [] and result["unrepeated"] == []
    assert result["counts"]["same"] >= where.examples * 0.8, result["counts"]


def answer(source, backend=None):
    server = serving.Server(lambda: backend or Faulty())
    try:
        return server.run({"source": source}, 30)
    finally:
        server.close()


def test_what_eager_code_does_not_repeat_is_no_finding():
    text = "def program():\n    data = torch.zeros(8, 8)\n    import sys\n" \
           "    runs = sys.modules.setdefault('runs', [])\n    runs.append(1)\n    yield data + 3.0 ** len(runs)\n"
    assert answer(text)["state"] == "not repeated"


def test_a_program_that_eager_code_refuses_is_no_finding():
    assert answer("def program():\n    data = torch.zeros(8, 8)\n    yield data @ data[0, 0]\n")["state"] == "invalid"


def test_a_crash_of_eager_code_is_no_finding():
    result = answer("def program():\n    import os\n    os.abort()\n    yield\n")
    assert result["state"] == "invalid" and "signal 6" in result["why"]


def test_a_finding_is_repeated_from_its_file(tmp_path):
    program = Program(8, ((Statement("fft2", 0, 0),),), (Event("clear_fft_plans"),))
    hunter = searching.Hunter(plan(tmp_path, FAULTS[0]), "test")
    result = hunter.run(program, fresh=True, locate=True)
    path = hunter.write(program, result, part="test")
    again = hunter.run(Program.of(json.loads(path.read_text())["program"]), fresh=True)
    hunter.close()
    assert result["first"]["operator"] == "aten._fft_c2c.default" and again["state"] == "differs"


def test_a_finding_is_tried_on_other_releases(tmp_path):
    program = Program(8, ((Statement("fft2", 0, 0),),), (Event("clear_fft_plans"),))
    hunter = searching.Hunter(plan(tmp_path, FAULTS[0]), "test")
    path = hunter.write(program, hunter.run(program, fresh=True, locate=True), part="test")
    hunter.close()
    ends = {"9.1": "exit 0", "9.2": "exit 1", "9.3": "kill -SEGV $$", "9.4": "exit 3",
            "9.5": "printf 'Traceback (most recent call last):\\nRuntimeError: no\\n' >&2; exit 1"}
    for release, end in ends.items():
        python = tmp_path / release
        python.write_text(f"#!/bin/sh\n[ \"$1\" = -c ] && exec echo {release}\n[ \"$1\" = '{path.with_suffix('.py')}' ] || exit 9\n{end}\n")
        python.chmod(0o755)
    seen = drafting.try_releases(path, [str(tmp_path / release) for release in ends])
    assert seen == {"9.1": "right", "9.2": "wrong", "9.3": "signal 11", "9.4": "exit status 3", "9.5": "RuntimeError: no"}
    assert json.loads(path.read_text())["releases"] == seen
    assert "| 9.1: right; 9.2: wrong; " in path.with_suffix(".md").read_text()


def test_findings_with_the_same_first_operator_and_action_are_one(tmp_path):
    hunter = searching.Hunter(plan(tmp_path, FAULTS[0]), "test")
    for size, more in ((8, ()), (64, (Statement("mul", 0, 1),))):
        program = Program(size, ((Statement("fft2", 0, 0), *more),), (Event("clear_fft_plans"),))
        hunter.write(program, hunter.run(program, fresh=True, locate=True))
    hunter.close()
    findings = [json.loads(path.read_text()) for path in tmp_path.glob("finding-*.json")]
    assert [(finding["times"], finding["program"]["size"]) for finding in findings] == [(2, 8)]


def test_what_a_case_documents_is_not_searched(tmp_path):
    where = plan(tmp_path)
    with_fft = Program(8, ((Statement("stft", 0, 1), Statement("mul", 0, 1)),), (Event("clear_fft_plans"),))
    without = Program(8, ((Statement("mul", 0, 1),),), (Event("clear_fft_plans"),))
    assert with_fft.documented() == "fft_plan_dropped" and not without.documented()
    for action in ("seed", "set_rng_state", "fork_rng"):
        dropped_out = Program(8, ((Statement("gru", 0, 1),),), (Event(action),))
        assert dropped_out.documented() == "rnn_dropout_state_replaced"
    for host in (False, True):
        where.host = host
        assert searching.Hunter(where, "test").is_known(with_fft) != host and not searching.Hunter(where, "test").is_known(without)
    cases = {path.stem for path in (ROOT / "cases").glob("*/*.cpp")}
    assert {case for _, _, case in programs.DOCUMENTED} <= cases and all(names for names, _, _ in programs.DOCUMENTED)


def every_feature():
    for op in OPS.values():
        for wrap in programs.wraps_of(op):
            yield Program(8, ((Statement(op.name, 0, 1, wrap),),), ())
    for name in [*ACTIONS, *PLAYS]:
        yield Program(8, ((Statement("fft", 0, 1),), (Statement("mul", 0, 1),)), (Event(name, 1),), shared=True)


def test_every_program_is_python_and_names_what_pytorch_has():
    for program in every_feature():
        source = source_of(program)
        compile(source, "program", "exec")
        for path in re.findall(r"\btorch((?:\.\w+)+)", source):
            found = torch
            for name in path[1:].split("."):
                found = vars(found).get(name) if name in ("max_size", "clear") else getattr(found, name, None)
                assert found is not None, f"torch{path}"
                if name == "cufft_plan_cache":  # Asking the object itself needs a GPU.
                    found = torch.backends.cuda.cuFFTPlanCache


def test_drafts_are_python_and_have_the_form_of_a_case():
    program = Program(8, ((Statement("fft", 0, 1),),), (Event("clear_fft_plans"), Event("hold_free")))
    source = source_of(program)
    finding = {"state": "differs", "operator": "aten._fft_c2c.default", "actions": program.actions(), "source": source,
               "result": {"state": "differs", "first": {"operator": "aten._fft_c2c.default", "line": "v0 = torch.fft.fft(x0).real"}}}
    for text in (drafting.program_text(finding), drafting.case_text(finding)):
        compile(text, "draft", "exec")
    case = drafting.case_text(finding)
    assert case.count("  # cause") == 1 and "def fix_" in case and count_lines(source) <= 15
    model = (ROOT / "cases" / "sync" / "item_in_capture.py").read_text()
    assert case.endswith(model[model.index("def main("):])


def test_a_wrapper_never_changes_which_operands_a_statement_has():
    for wrap in WRAPS:
        assert "{v}" in WRAPS[wrap] and set(re.findall(r"\{(\w+)\}", WRAPS[wrap])) <= {"v", "a", "b", "e", "e_g", "e_ab", "n", "f"}


@pytest.mark.parametrize("words,said", [([], "--output DIR is missing"), (["--output", "/proc/1"], "is not empty"),
                                        (["--replay", "nowhere.json"], "there is no file"),
                                        (["--python", "/bin/false", "--output", "x"], "/bin/false cannot import torch"),
                                        (["--jobs", "0", "--output", "x"], "at least 1")])
def test_wrong_use_is_one_line_and_2(words, said):
    ended = subprocess.run([sys.executable, str(ROOT / "tools/discover"), *words], stderr=subprocess.PIPE, universal_newlines=True)
    assert ended.returncode == 2 and said in ended.stderr


def test_what_runs_before_the_forks_starts_no_engine_and_no_cuda():
    """autograd's engine initialises CUDA, and so does the question for GPUs: no process forked after that could use it."""
    text = """
import torch._dynamo
def refuse(*args, **options):
    raise SystemExit("used before a fork")
torch.autograd.backward = torch.autograd.grad = torch.Tensor.backward = torch.cuda.is_available = torch.cuda.device_count = refuse
from discovery import running, searching
running.prepare()
searching.prepare()
"""
    subprocess.run([sys.executable, "-c", text], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(
        [str(ROOT / "tools"), *sys.path])})


def test_the_gpus_are_counted_in_a_child():
    assert serving.in_child(os.getppid) == os.getpid() and serving.in_child(lambda: 1 / 0) is None


class Unusable(Faulty):
    """As a CUDA that was initialised before the fork."""

    def __init__(self):
        raise RuntimeError("CUDA error: initialization error\nCUDA kernel errors might be reported later.\n")


def test_a_search_in_which_nothing_can_run_has_the_reason(tmp_path):
    where = searching.Plan(seed=1, seconds=300, jobs=1, limit=5, shrink=1, examples=1, host=True, compile=False,
                           ops=("mul",), actions=(), wraps=("plain",), output=tmp_path, make_backend=Unusable)
    found = searching.search(where)
    assert found["ops"] == [] and found["calibration"]["tried"] == 1
    assert searching.reason_of(found["calibration"], 300) == \
        "nothing can be run: crash in eager code: exit status 1 RuntimeError: CUDA error: initialization error"
    assert "--seconds" in searching.reason_of({"excluded": []}, 5)


def test_a_search_that_ran_nothing_ends_with_7(tmp_path):
    ended = subprocess.run([sys.executable, str(ROOT / "tools/discover"), "--host", "--seconds", "1", "--jobs", "1", "--output",
                            str(tmp_path / "found")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, universal_newlines=True,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert ended.returncode == 7 and "nothing was run" in ended.stderr


class RefusesOneSize(Faulty):
    """As a library that runs what cannot be captured for large matrices only."""

    def source(self, source):
        self.refuses = "roll(3, 0)" in source and "torch.zeros(32, 32" in source
        return super().source(source)

    def capture(self, *args):
        if self.refuses:
            raise Refused(RuntimeError("operation not permitted when stream is capturing"))
        return super().capture(*args)


def test_what_is_refused_alone_at_its_size_is_no_finding(tmp_path):
    where = plan(tmp_path, examples=60)
    where.make_backend = RefusesOneSize
    hunter = searching.Hunter(where, "test")
    strategy = programs.strategy(["roll", "mul"], wraps(["roll", "mul"]), ["seed"], (8, 32))
    assert searching.Round(hunter, where.at(0.8)).run(strategy, 1) is None
    hunter.close()
    assert hunter.counts["refused alone"] and hunter.counts["same"] and any("at 32: roll" in why for why in hunter.reasons)


@pytest.mark.parametrize("action, is_refused", [("second_graph", True), ("other_work", False)])
def test_graph_of_an_action_may_be_what_is_refused_alone(tmp_path, action, is_refused):
    where = plan(tmp_path)
    where.make_backend = RefusesOneSize
    hunter = searching.Hunter(where, "test")
    program = programs.Program(32, ((programs.Statement("mul", 0, 0),),), (programs.Event(action, op="roll"),))
    assert hunter.refused_alone(program) == is_refused
    hunter.close()

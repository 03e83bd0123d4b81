"""tools/evaluate without a GPU: the truth covers all programs, and the judge sees what is wrong."""
import ast
import importlib.machinery
import importlib.util
import json
import signal
import types
from pathlib import Path

import pytest

from recapture._check.findings import Kind

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "python" / "tests" / "evaluation"
TRUTH = json.loads((PROGRAMS / "truth.json").read_text())


def load():
    loader = importlib.machinery.SourceFileLoader("evaluate", str(ROOT / "tools/evaluate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("evaluate", loader))
    loader.exec_module(module)
    return module


def test_every_program_has_its_truth():
    written = {f"{path.stem}/{node.name}" for path in PROGRAMS.glob("*.py") if path.stem != "common"
               for node in ast.parse(path.read_text()).body
               if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not node.args.args}
    assert written == set(TRUTH)


def test_silent_programs_have_kinds_and_a_line_and_no_other_has():
    silent = {name for name, truth in TRUTH.items() if truth["truth"] == "silent"}
    assert set(load().marks()) == silent == {name for name, truth in TRUTH.items() if "kinds" in truth}
    assert {kind.upper() for name in silent for kind in TRUTH[name]["kinds"]} <= set(Kind.__members__)
    assert {truth["truth"] for truth in TRUTH.values()} == {"sound", "silent", "refused"}


def test_there_are_enough_that_check_was_not_improved_by():
    new = [truth["truth"] for truth in TRUTH.values() if not truth.get("known")]
    assert new.count("sound") >= 200 and new.count("silent") >= 60
    modules = ("vision/", "text/", "sequences/", "pictures/", "libraries/")
    libraries = [truth["truth"] for name, truth in TRUTH.items() if name.startswith(modules) and not truth.get("known")]
    assert libraries.count("sound") >= 80 and "silent" not in libraries


def test_versions_that_differ_are_named(monkeypatch):
    evaluate = load()
    wanted = dict(line.split("==") for line in (PROGRAMS / "requirements.txt").read_text().splitlines() if not line.startswith("#"))
    there = {**wanted, "torch": wanted["torch"] + "+cu130", "gpytorch": "0.1"}
    monkeypatch.setattr(evaluate.importlib.metadata, "version", there.get)
    assert evaluate.libraries() == (there, [f"gpytorch is 0.1, not {wanted['gpytorch']}"])


def done(eager, graph, check, **noise):
    again = {mode: noise.get(mode, eager) for mode in ("up", "down")}
    return {("p", mode): result for mode, result in {"eager": eager, "graph": graph, "check": check, **again}.items()}


def values(number):
    torch = pytest.importorskip("torch")
    return {"value": {"outputs": [{"output": torch.full((4,), number)}], "kept": {}}}


def report(*findings):
    return {"value": {"findings": [{"kind": kind, "line": {"file": "p.py", "line": line}} for kind, line in findings]}}


@pytest.mark.parametrize("graph, findings, judged", [
    (1.0, [], ("sound", [])),
    (1.0, [("freed", 7)], ("sound", ["found freed at p.py:7, though eager and graph agree"])),
    (2.0, [("rebound", 7), ("freed", 9)], ("silent", [])),
    (2.0, [("freed", 7)], ("silent", ["the first kind is freed, not rebound"])),
    (2.0, [("rebound", 8)], ("silent", ["the line is p.py:8, not 7"])),
    (2.0, [], ("silent", ["nothing was found, though output of call 1 differs 500 times the tolerance"])),
])
def test_judge_compares_and_sees_kind_and_line(graph, findings, judged):
    truth = {"truth": "silent", "kinds": ["rebound"]}
    assert load().judge("p", truth, [7], done(values(1.0), values(graph), report(*findings))) == judged


@pytest.mark.parametrize("graph, watch, wrong", [
    (1.0, {}, []),
    (1.0, {"watch": report()}, []),
    (1.0, {"watch": report(("unread", 7))}, ["with check() found unread at p.py:7"]),
    (1.0, {"watch": {"error": "RuntimeError: no"}}, ["with check() failed: RuntimeError: no"]),
    (2.0, {"watch": report(("unread", 7))}, []),
])
def test_judge_reads_what_a_block_found_in_a_sound_program(graph, watch, wrong):
    findings = [("rebound", 7)] if graph == 2.0 else []
    runs = {**done(values(1.0), values(graph), report(*findings)), **{("p", mode): run for mode, run in watch.items()}}
    assert load().judge("p", {"truth": "sound"}, [], runs)[1] == wrong


@pytest.mark.parametrize("mode", ["up", "down"])
@pytest.mark.parametrize("apart, state", [(0.5, "sound"), (0.01, "silent")])
def test_what_eager_code_or_rounding_changes_as_much_is_no_difference(mode, apart, state):
    """A gradient that is zero but for rounding, such as that of a key's bias in attention."""
    given = done(values(1.0), values(2.0), report(), **{mode: values(1.0 + apart)})
    assert load().judge("p", {"truth": "sound"}, None, given)[0] == state


def test_a_difference_whose_noise_was_not_measured_is_left_out():
    given = done(values(1.0), values(2.0), report())
    del given["p", "down"]
    assert load().judge("p", {"truth": "sound"}, None, given) == ("left out", [])


def test_last_bits_are_altered():
    torch = pytest.importorskip("torch")
    kept = torch.linspace(1, 2, 8)
    up, down = (load().altered(kept, sign) for sign in (1, -1))
    assert not torch.equal(up, kept) and not torch.equal(up, down) and torch.allclose(up, kept, rtol=1e-5)
    assert load().altered(torch.arange(3), 1).tolist() == [0, 1, 2]


def run(monkeypatch, tmp_path, modes, jobs, **options):
    evaluate = load()
    monkeypatch.setattr(evaluate, "MODES", modes)
    given = types.SimpleNamespace(**{"seconds": 60, "timeout": 50, "jobs": 2, **options})
    return evaluate.run_all(jobs, given, str(tmp_path))


def test_noise_is_measured_where_a_value_differs(monkeypatch, tmp_path):
    modes = {mode: lambda name, mode=mode: values(2.0 if (name, mode) == ("q", "graph") else 1.0)["value"]
             for mode in ("eager", "graph", "up", "down")}
    found = run(monkeypatch, tmp_path, modes, [(name, mode) for name in "pq" for mode in ("graph", "eager")])
    assert sorted(found) == [("p", "eager"), ("p", "graph"), *(("q", mode) for mode in sorted(modes))]


@pytest.mark.parametrize("options, found", [({"seconds": 7}, None), ({"timeout": 2}, "no end after 2 s")])
def test_a_program_that_the_end_of_the_run_cuts_off_is_left_out(monkeypatch, tmp_path, options, found):
    ended = run(monkeypatch, tmp_path, {"check": lambda name: signal.pause()}, [("p", "check")], **options)
    assert [result["error"] for result in ended.values()] == ([found] if found else [])


def test_judge_sees_refusals_failures_and_what_did_not_run():
    evaluate, refused = load(), {"error": "RuntimeError: operation not permitted"}
    truth = {"truth": "refused"}
    assert evaluate.judge("p", truth, None, done(values(1.0), refused, report(("refused", 7)))) == ("refused", [])
    assert evaluate.judge("p", truth, None, done(values(1.0), refused, report())) == (
        "refused", ["the capture is refused, and check does not say so"])
    assert evaluate.judge("p", truth, None, done(values(1.0), values(1.0), refused)) == (
        "sound", ["check failed: RuntimeError: operation not permitted"])
    assert evaluate.judge("p", truth, None, done(refused, refused, report()))[0] == "invalid"
    assert evaluate.judge("p", truth, None, {}) == ("left out", [])
    absent = {"error": "ModuleNotFoundError: No module named 'gpytorch'"}
    assert evaluate.judge("p", truth, None, done(absent, absent, absent)) == ("left out", [])

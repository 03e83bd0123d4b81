"""tools/evaluate without a GPU: the truth covers all programs, and the judge sees what is wrong."""
import ast
import importlib.machinery
import importlib.util
import json
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
    libraries = [name for name, truth in TRUTH.items() if name.startswith(modules) and not truth.get("known")]
    assert len(libraries) >= 80 and {TRUTH[name]["truth"] for name in libraries} == {"sound"}


def test_versions_that_differ_are_named(monkeypatch):
    evaluate = load()
    wanted = dict(line.split("==") for line in (PROGRAMS / "requirements.txt").read_text().splitlines() if not line.startswith("#"))
    there = {**wanted, "torch": wanted["torch"] + "+cu130", "gpytorch": "0.1"}
    monkeypatch.setattr(evaluate.importlib.metadata, "version", there.get)
    assert evaluate.libraries() == (there, [f"gpytorch is 0.1, not {wanted['gpytorch']}"])


def done(eager, graph, check):
    return {("p", "eager"): eager, ("p", "graph"): graph, ("p", "check"): check}


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

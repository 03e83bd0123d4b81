"""All names that check() reports are in the catalogue, and the example programs cover every test of their case."""
import importlib.machinery
import importlib.util
import json
import lzma
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from recapture._check.findings import (  # noqa: E402
    _FIXES_BY_KIND,
    CAPTURE_A_GRAPH_EACH,
    CASES,
    DROP_WHAT_IS_CACHED,
    FIXES,
    FORK_THE_STREAM,
    SAME_IN_A_CAPTURE,
    Kind,
)

ROOT = Path(__file__).resolve().parent.parent.parent
CATALOGUE = {case["id"]: case for case in json.loads(lzma.decompress((ROOT / "cases/catalogue.json.xz").read_bytes()))}
PROGRAMS = [path for path in sorted((ROOT / "examples/check").glob("*.py"))
            if path.read_text().startswith("# case: ") and path.stem not in ("healthy", "cost", "library_workspace", "modes")]
# Silent cases of these families that have no program, and why.
LEFT_OUT = {
    "cublas_workspace_freed_by_reset": "2.12 to 2.14 alone have it",
    "pool_entered_in_capture": "the memory is of another pool; the values are right",
    "pool_unmapped_under_graph": "the driver unmaps the memory between two replays, long after a check",
    "reserved_without_graph_memory": "a statistic is wrong, and no value",
    "rnn_dropout_state_replaced": "the graph is right until the program sets a seed, long after a check",
    "table_of_last_size": "the mechanism is that of input_freed_after_capture",
    "wait_for_baked_in_number": "it is of the CUDA runtime alone",
}


def load_judge():
    loader = importlib.machinery.SourceFileLoader("judge", str(ROOT / "tools/check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("judge", loader))
    loader.exec_module(module)
    return module


def test_every_kind_has_a_case_or_none():
    assert set(CASES) == set(Kind)
    assert {case for case in CASES.values() if case} <= set(FIXES)


@pytest.mark.parametrize("case", sorted(FIXES))
def test_case_and_its_fix_are_in_the_catalogue(case):
    fixes = [test["fix"] for test in CATALOGUE[case]["tests"] if "fix" in test]
    assert not FIXES[case] or FIXES[case] in fixes


def test_other_remedies_are_in_the_catalogue():
    documented = {test["fix"] for case in CATALOGUE.values() for test in case["tests"] if "fix" in test}
    assert {CAPTURE_A_GRAPH_EACH, DROP_WHAT_IS_CACHED, FORK_THE_STREAM, SAME_IN_A_CAPTURE} <= documented
    for (_, case), fix in _FIXES_BY_KIND.items():
        assert fix in [test.get("fix") for test in CATALOGUE[case]["tests"]]


def test_cases_that_the_code_names_have_an_entry():
    source = "".join(path.read_text() for path in (ROOT / "python/recapture/_check").rglob("*.py"))
    named = set(re.findall(r'"([a-z]+(?:_[a-z]+)+)"', source)) & set(CATALOGUE)
    assert named <= set(FIXES)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_has_every_test_of_its_case(path):
    text = path.read_text()
    case = CATALOGUE[re.match(r"# case: (\w+)", text)[1]]
    there = set(re.findall(r"^def ([A-Z]\w*)\(", text, re.MULTILINE))
    without = set(re.findall(r"^# without (\w+): .", text, re.MULTILINE))
    names = {test["name"] for test in case["tests"] if not test["name"].startswith("Python")}
    assert there | without == names and not there & without
    marked = {name for line in re.findall(r"# (?:FOUND|REMARK) (.*)", text) for name in re.findall(r"(\w+):", line)}
    assert marked == {name for name in there if name.startswith("Reproduces")}


def test_kinds_of_marks_exist():
    for variant in load_judge().variants():
        assert {kind.upper() for kind in variant.kinds} <= set(Kind.__members__), variant.name


def test_every_silent_mechanism_has_a_program():
    silent = {case["id"] for case in CATALOGUE.values() if case["family"] in ("replay", "rng", "memory", "pinned")
              and any(test.get("effect") == "silently wrong" for test in case["tests"])}
    assert silent - {path.stem for path in PROGRAMS} == set(LEFT_OUT)


def test_healthy_functions_are_thirty():
    text = (ROOT / "examples/check/healthy.py").read_text()
    assert len(re.findall(r"^def [A-Z]", text, re.MULTILINE)) == 30


def test_judge_sees_kind_line_and_alarms():
    judge = load_judge()
    variant = judge.Variant(Path("p.py"), "Reproduces", "case", ["freed", "refused"], 7)
    sound = judge.Variant(Path("p.py"), "Control", "case", [], None)

    def report(kind, line, file="p.py"):
        return {"findings": [{"kind": kind, "line": {"line": line, "file": file}}]}

    assert not list(judge.judge(variant, [report("freed", 7)])) and not list(judge.judge(sound, [{"findings": []}]))
    assert list(judge.judge(variant, [report("random", 7)])) == ["the kind is random, not freed or refused"]
    assert list(judge.judge(variant, [report("freed", 8)])) == ["the line is p.py:8, not 7"]
    assert list(judge.judge(variant, [report("freed", 7, "q.py")])) == ["the line is q.py:7, not 7"]
    assert list(judge.judge(variant, [{"findings": []}])) == ["nothing was found"]
    assert list(judge.judge(sound, [])) == list(judge.judge(variant, [])) == ["it checked nothing"]
    remark = judge.Variant(Path("p.py"), "Reproduces", "case", ["side_effect"], 7, "remarks")
    remarked = {"findings": [], "remarks": report("side_effect", 7)["findings"]}
    assert not list(judge.judge(remark, [remarked]))
    assert list(judge.judge(remark, [{**remarked, "remarks": []}])) == ["nothing was found"]
    assert list(judge.judge(remark, [{**remarked, **report("freed", 8)}])) == [
        "found freed at line 8, though nothing is wrong"]
    assert list(judge.judge(sound, [report("freed", 7)])) == ["found freed at line 7, though nothing is wrong"]

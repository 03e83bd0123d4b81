"""The day of a release that no record has, rehearsed: what is expected of it, and tools/add_release.

A complete column of the newest release gets the next one's name in a temporary folder. Nothing changed, so no answer may
call anything new. Then ten changes are planted in it, and exactly these are news.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Set, Tuple

import pytest
import tomllib

sys.path.insert(0, str(Path(__file__).parent))
import columns
from columns import BUILD, IN_FULL, ROOT, Lines

GPUS = {"NVIDIA H200": "h200", "NVIDIA H100 80GB HBM3": "h100", "": "host"}
NEXT = "2.16.0"
NEWEST = tomllib.loads((ROOT / "ci/matrix.toml").read_text(encoding="utf-8"))["release"][-1]["version"]
NEWS = ("changed", "newly fixed", "regressed", "control fails", "fix fails")


def said(*words: object, tree: Path = ROOT, code: Tuple[int, ...] = (0,)) -> str:
    done = subprocess.run([str(BUILD / "recapture"), "--root", str(tree), *map(str, words)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", check=False)
    assert done.returncode in code, f"{words}: {done.returncode}\n{done.stdout[-2000:]}"
    return done.stdout


def rows_of(record: Path) -> List[Dict[str, str]]:
    shown = said("show", "--json", record, code=(0, 1, 5, 6, 7))
    rows: List[Dict[str, str]] = json.loads(shown[shown.index("["):])
    return rows


def surprises(record: Path) -> Dict[str, str]:
    wrong = (*NEWS, "inconclusive", "stale", "missing")
    return {f"{row['case']}.{row['test']}": row["verdict"] for row in rows_of(record) if row["verdict"] in wrong}


@pytest.fixture(scope="session")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Lines]:
    """A complete column of the newest release on each machine, without what is a surprise there itself."""
    folder = tmp_path_factory.mktemp("columns")
    made = {}
    for gpu, name in GPUS.items():
        lines = columns.column(NEWEST, gpu)
        odd = surprises(columns.write(folder / f"{name}.jsonl", lines))
        assert len(odd) < len(lines) / 10, odd  # Results of programs that changed since are stale.
        lines = [line for line in lines if line.get("test") not in odd]
        left = {line["test"].split(".")[0] for line in lines if "test" in line}
        lines = [line for line in lines if line.get("case", "") in left or "case" not in line]
        lines[1] = {"plan": [test for test in lines[1]["plan"] if test not in odd]}
        made[gpu] = lines
    return made


@pytest.fixture(scope="session")
def next_release(newest: Dict[str, Lines]) -> Dict[str, Lines]:
    return {gpu: columns.as_release(lines, NEXT, "2026-11-29T12:00:00Z") for gpu, lines in newest.items()}


@pytest.mark.parametrize("gpu", GPUS)
def test_a_release_in_which_nothing_changed_surprises_nobody(next_release: Dict[str, Lines], gpu: str, tmp_path: Path) -> None:
    record = columns.write(tmp_path / "next.jsonl", next_release[gpu])
    assert surprises(record) == {}
    text = said("show", record)
    notes = [line for line in text.splitlines() if line.startswith("note: no ")]
    assert [line for line in notes if NEXT in line and f"as expected of {NEWEST}, the nearest release" in line] == notes, notes
    assert len(notes) == 1 and "guess" not in text, "it is said once, and not for each test"


def test_a_gpu_and_a_driver_of_no_record_are_named_with_the_nearest(newest: Dict[str, Lines], tmp_path: Path) -> None:
    for members, words in (
            ({"driver": "590.44.01"}, "the same GPU with another driver"),
            ({"gpu": "NVIDIA GH200 480GB"}, "another GPU of the same architecture"),
            ({"gpu": "NVIDIA B200", "compute_capability": "10.0"}, "a GPU of another architecture")):
        lines = columns.relabelled(newest["NVIDIA H200"], **members)
        record = columns.write(tmp_path / "other.jsonl", lines)
        assert surprises(record) == {}, members
        note = next(line for line in said("show", record).splitlines() if line.startswith("note: no record is of"))
        assert members.get("gpu", "NVIDIA H200") in note and note.endswith(words), note


def test_what_is_not_as_expected_is_news(next_release: Dict[str, Lines], tmp_path: Path) -> None:
    lines = [dict(line) for line in next_release["NVIDIA H200"]]
    planted = plant(lines, lines)
    found = surprises(columns.write(tmp_path / "next.jsonl", lines))
    assert {test for test, verdict in found.items() if verdict in NEWS} == planted


# ---- ten planted changes ----


def by_test(lines: Lines) -> Dict[str, Dict[str, columns.Json]]:
    return {line["test"]: line for line in lines if "test" in line and "confirms" not in line}


def plant(lines: Lines, also: Lines) -> Set[str]:
    """A crash, a hang, a wrong value, a fix that fails, a control that fails and five texts, of tests in both columns."""
    common = by_test(also)
    tests = {name: line for name, line in by_test(lines).items() if name in common and common[name].get("seen") == line.get("seen")}
    plain = [name for name, line in sorted(tests.items())
             if name.endswith(".Reproduces") and line.get("ended") == "passed" and line.get("seen") == line.get("documented")
             and "hits" not in line and "facts" not in line]
    cases: List[str] = []
    for name in plain:  # Of ten cases with a control and a fix that hold.
        case = name.split(".")[0]
        fixes = [other for other in tests if other.startswith(f"{case}.Fix") and tests[other].get("ended") == "passed"]
        controls = [other for other in tests if other.startswith(f"{case}.Control")]
        if fixes and len(controls) == 1 and tests[controls[0]].get("ended") == "passed":
            cases.append(case)
    assert len(cases) >= 10
    chosen = cases[:: len(cases) // 10][:10]
    fix = next(name for name in sorted(tests) if name.startswith(f"{chosen[3]}.Fix") and tests[name].get("ended") == "passed")
    control = next(name for name in sorted(tests) if name.startswith(f"{chosen[4]}.Control"))
    planted = [f"{case}.Reproduces" for case in chosen]
    planted[3], planted[4] = fix, control
    failed = {"code": 1, "ended": "failed"}
    ways: List[Dict[str, object]] = [
        {"ending": "signal", "code": 11}, {"ending": "deadline", "code": 0}, {**failed, "seen": "[99, 99]"},
        {**failed, "assertions": ["cases/x.cpp:1: Expected equality: 1 2"]},
        {**failed, "assertions": ["cases/x.cpp:2: Expected equality: 3 4"]},
        *({**failed, "seen": f"check \"another text {number}\" > active > ok"} for number in range(5))]
    gone = ("seen", "ended", "message", "exception", "error", "culprit")
    for test, way in zip(planted, ways):
        for at, line in enumerate(lines):
            if line.get("test") == test and "confirms" not in line:
                kept = {key: value for key, value in line.items() if key not in gone}
                lines[at] = {**kept, **way}
    lines[:] = [line for line in lines if not ("confirms" in line and line.get("test") in planted)]
    return set(planted)


# ---- tools/add_release ----


def add_release(tree: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(tree / "tools/add_release"), *map(str, words)], cwd=tree, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", check=False)


def state(tree: Path) -> str:
    return subprocess.run(["git", "status", "--porcelain"], cwd=tree, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout


def test_what_does_not_belong_there_is_refused_and_nothing_changes(
        clone: Path, next_release: Dict[str, Lines], tmp_path: Path) -> None:
    lines = next_release["NVIDIA H200"]
    whole = columns.write(tmp_path / "whole.jsonl", lines)
    cut = columns.write(tmp_path / "cut.jsonl", lines[:-1])
    other = columns.write(tmp_path / "other.jsonl", columns.as_release(lines, "2.15.1", "2026-11-29T12:00:00Z"))
    future = columns.write(tmp_path / "future.jsonl", columns.as_release(lines, NEXT, "2099-01-01T00:00:00Z"))
    labelled = columns.write(tmp_path / "labelled.jsonl", columns.relabelled(lines, label="acme"))
    as_written = columns.write(tmp_path / "as_written.jsonl", columns.relabelled(lines, release="2.16.0+acme", label="acme"))
    zero = columns.write(tmp_path / "zero.jsonl", columns.relabelled(lines, label="0"))
    forked = columns.write(tmp_path / "forked.jsonl", columns.relabelled(lines, libtorch_git="0123abcdef0123abcdef"))
    in_the_tree = columns.write(clone / f"{NEXT}-h200.jsonl", lines)  # As the guide has it; git ignores it.
    for words, reason in (((NEXT, cut), "it was cut short"), ((NEXT, in_the_tree), "--date gives the day"),
                          ((NEXT, other), "a record of 2.15.1, not of 2.16.0"),
                          ((NEXT, labelled), "a record of 2.16.0+acme, not of 2.16.0"),
                          ((NEXT, as_written), "a record of 2.16.0+acme, not of 2.16.0"),
                          ((NEXT, zero), "a record of 2.16.0+0, not of 2.16.0"),
                          (("--date", "2026-11-28", NEXT, whole, forked), "a record of 2.16.0+git0123abc, and 2.16.0 was built from "),
                          ((NEXT, whole), "--date gives the day"), ((NEXT, tmp_path / "none.jsonl"), "it is not a complete record"),
                          (("--date", "2026-11-28", NEXT, future), "is in the future")):
        done = add_release(clone, *words)
        assert (done.returncode, reason in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
        assert state(clone) == ""
    in_the_tree.unlink()
    readme = clone / "README.md"
    before = readme.read_text(encoding="utf-8")
    readme.write_text(before + "\n", encoding="utf-8")
    done = add_release(clone, "--date", "2026-11-28", NEXT, whole)
    assert (done.returncode, "not committed" in done.stderr) == (2, True), done.stderr
    readme.write_text(before, encoding="utf-8")
    assert state(clone) == ""


@pytest.mark.skipif(not IN_FULL, reason="minutes: ci/test --all")
def test_a_release_is_added_without_news_and_all_tests_of_the_tree_are_green(
        clone: Path, next_release: Dict[str, Lines], tmp_path: Path) -> None:
    records = [columns.write(tmp_path / f"{name}.jsonl", next_release[gpu]) for gpu, name in GPUS.items()]
    done = add_release(clone, "--date", "2026-11-28", NEXT, *records)
    assert done.returncode == 0, done.stderr
    assert "\n0 news; " in done.stdout and "by hand" not in done.stdout, done.stdout
    changed = state(clone)
    assert "ci/matrix.toml" in changed and "cases/expectations.toml" in changed and "README.md" in changed
    again = add_release(clone, "--date", "2026-11-28", NEXT, *records)
    assert (again.returncode, state(clone)) == (0, changed), again.stderr
    assert "nothing was changed" in again.stdout
    python = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    for words in ([BUILD / "harness/tests/tree_test", "--gtest_brief=1"], [BUILD / "harness/tests/unit_test", "--gtest_brief=1"],
                  [BUILD / "harness/tests/harness_test", "--gtest_brief=1", "--gtest_filter=*FirstWords*:*Golden*:*Page*"],
                  [*python, *(clone / "python/tests" / f"test_{name}.py" for name in ("links", "readme_gpus", "schemas"))]):
        env = {**os.environ, "RECAPTURE_ROOT": str(clone), "RECAPTURE_BUILD": str(BUILD)}
        if words[0] != sys.executable:
            env.pop("PYTHONPATH", None)  # The program's own tests start a Python without torch.
        tests = subprocess.run([*map(str, words)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                               check=False)
        failed = "\n".join(line for line in tests.stdout.splitlines() if "FAILED" in line)
        assert tests.returncode == 0, f"{words[0]}\n{failed}\n{tests.stdout[-4000:]}"


@pytest.mark.skipif(not IN_FULL, reason="minutes: ci/test --all")
def test_ten_planted_changes_are_ten_news(clone: Path, next_release: Dict[str, Lines], tmp_path: Path) -> None:
    records: List[Path] = []
    planted: Set[str] = set()
    gpus = ["NVIDIA H200", "NVIDIA H100 80GB HBM3"]
    for gpu, other in zip(gpus, reversed(gpus)):
        lines = [dict(line) for line in next_release[gpu]]
        planted |= plant(lines, next_release[other])
        records.append(columns.write(tmp_path / f"{GPUS[gpu]}.jsonl", lines))
    done = add_release(clone, "--date", "2026-11-28", NEXT, *records)
    assert done.returncode == 0, done.stderr
    assert len(planted) == 10
    assert "\n10 news; " in done.stdout, done.stdout
    for test in planted:
        assert f"{test} on " in done.stdout

"""Damage and holes that are planted in made-up pairs of records: the oracle sees each, and `gate` answers alike.

A pair is one real record, cut down to two cases, as the run of two releases; then one of the two is changed.
"""

import os
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Tuple

import pytest
from gate_oracle import ROOT, WAYS, Gate, Lines, Question, disagreements, write_lines
from reading import Json, Pair, Row, Scope, expected, race_change, read_cases, read_lines, read_records

PROGRAM = Path(os.environ.get("RECAPTURE_BUILD", str(ROOT / "build"))) / "recapture"
OLDER, NEWER, GPU = "2.14.1", "2.15.0", "NVIDIA H200"
RECORD = ROOT / "reports/2.14.1/nvidia-h200.jsonl.gz"
SILENT = "pinned_buffer_overwritten"  # Its failure is silent; a program meets it with pinned memory.
RAISING = "item_in_capture"  # It raises; a program meets it by reading on the host.
WORDS = ("pinned memory", "host reads")  # A scope of each, with the one case and without the other.

LIMITS = "not_measured = 100\n"  # All other cases of the tree are in neither record.
Pairs = Tuple[Lines, Lines]


def case_of(line: Json) -> str:
    return str(line.get("case") or line.get("test", "").split(".")[0])


def one_run() -> Lines:
    cases = (SILENT, RAISING)
    lines = [line for line in read_lines(RECORD) if case_of(line) in ("", *cases)]
    return [dict(line, plan=[each for each in line["plan"] if each.split(".")[0] in cases]) if "plan" in line else line for line in lines]


def with_test(lines: Lines, test: str, **members: Any) -> Lines:
    """The line of the test with other members; None takes one away."""

    def changed(line: Json) -> Json:
        return {key: value for key, value in {**line, **members}.items() if value is not None}

    assert any(line.get("test") == test for line in lines)
    return [changed(line) if line.get("test") == test else line for line in lines]


def healthy(lines: Lines, test: str) -> Lines:
    line = next(line for line in lines if line.get("test") == test)
    gone = {key: None for key in ("raised_by", "culprit", "exception", "message", "error")}
    text = "case.cpp:1: Failed\nThe documented failure did not occur."
    return with_test(lines, test, seen=line["healthy"], ended="failed", code=1, assertions=[text], **gone)


def repeated(lines: Lines, test: str, **members: Any) -> Lines:
    """A repetition of the test, which ended otherwise."""
    at = next(i for i, line in enumerate(lines) if line.get("test") == test)
    again = with_test([lines[at]], test, confirms=1, **members)
    return [*lines[: at + 1], *again, *lines[at + 1 :]]


S, R = f"{SILENT}.Reproduces", f"{RAISING}.Reproduces"
AS_DOCUMENTED: Json = {"seen": "{ 9, 9, 9, 9 }", "ended": "passed", "code": 0, "assertions": None}  # Of S.
CRASH: Json = {"ending": "signal", "code": 11, "ended": None, "seen": None}
HANG: Json = {"ending": "deadline", "code": 0, "ended": None, "seen": None}

# What is planted: how the pair is changed, the answer with all cases in scope, and the test that it is about.
PLANTS: Dict[str, Tuple[Callable[[Lines, Lines], Pairs], str, str]] = {
    "nothing": (lambda older, newer: (older, newer), "passes", ""),
    "a failure that goes": (lambda older, newer: (older, healthy(newer, S)), "passes", ""),
    "works, then silently wrong": (lambda older, newer: (healthy(older, S), newer), "blocked", S),
    "works, then raises": (lambda older, newer: (healthy(older, R), newer), "blocked", R),
    "raises, then crashes": (lambda older, newer: (older, with_test(newer, R, **CRASH)), "blocked", R),
    "raises, then hangs": (lambda older, newer: (older, with_test(newer, R, **HANG)), "blocked", R),
    "a crash in one try of two": (lambda older, newer: (older, repeated(newer, R, **CRASH)), "blocked", R),
    "a hang in one try of two": (lambda older, newer: (older, repeated(newer, R, **HANG)), "blocked", R),
    "silently wrong in one try of two": (
        lambda older, newer: (healthy(older, S), repeated(healthy(newer, S), S, **AS_DOCUMENTED)),
        "blocked",
        S,
    ),
    "a fix that crashes": (
        lambda older, newer: (older, with_test(newer, f"{SILENT}.FixWaitForTheCopy", **CRASH)),
        "blocked",
        f"{SILENT}.FixWaitForTheCopy",
    ),
    "damage that only the newer release ran": (  # With code that no older release on record has.
        lambda older, newer: (WAYS["left out of the plan"](older, SILENT), WAYS["another hash"](newer, SILENT)),
        "cannot tell",
        S,
    ),
    "what raises, that only the older release ran": (
        lambda older, newer: (older, WAYS["left out of the plan"](newer, RAISING)),
        "passes",
        "",
    ),
    **{
        f"a silent case: {name}": (
            lambda older, newer, way=way: (healthy(older, S), way(newer, SILENT)),  # type: ignore[misc]
            "cannot tell",
            S,
        )
        for name, way in WAYS.items()
    },
}


def write_pair(folder: Path, pair: Pairs) -> Path:
    records = folder / "reports"
    for release, lines in zip((OLDER, NEWER), pair):
        (records / release).mkdir(parents=True)
        write_lines(records / release / RECORD.stem, [dict(line, release=release) if "recapture" in line else line for line in lines])
    return records


@pytest.fixture(scope="module", name="gate")
def fixture_gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    words = sorted({tag for case in read_cases(ROOT).values() for tag in case.tags})
    with Gate(PROGRAM, tmp_path_factory.mktemp("policies"), words, LIMITS) as gate:
        yield gate


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_is_seen(plant: str, gate: Gate, tmp_path: Path) -> None:
    change, answer, test = PLANTS[plant]
    folder = write_pair(tmp_path, change(one_run(), one_run()))
    records = read_records(PROGRAM, ROOT, folder)
    reading = Pair(records, OLDER, NEWER).on(GPU)
    allowed = expected(records, reading, Scope(), gate.words)
    assert allowed.answer == answer, reading
    assert allowed.exits == {{"passes": 0, "blocked": 1, "cannot tell": 6}[answer]}
    assert test in [found.test for found in allowed.damage + allowed.holes] or not test
    # The gate answers alike, with all cases in scope and in others.
    for scope in (Scope(), *(Scope(word, alone) for word in WORDS for alone in (False, True))):
        said = gate.ask(Question(OLDER, NEWER, GPU, scope), (), folder)
        if said.json["judged"] == 0:  # Nothing is known of this scope.
            assert said.exit == 6
        else:
            assert not list(disagreements(said, expected(records, reading, scope, gate.words))), (plant, str(scope), said)


def race(hits: int, tries: int, release: str = NEWER) -> Row:
    return Row(
        record="", release=release, gpu=GPU, driver="", started="", chosen=False, case="race", test="ReproducesAtRate", code="",
        result="reproduced" if hits else "unseen", effect="silently wrong" if hits else "", verdict="as documented", seen="",
        hits=hits, tries=tries, stopping="a fixed number of calls", tried=(), probes=(), captured=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "damage"),
    [
        ((0, 4000), (1000, 1000), True),
        ((1, 1000), (1000, 1000), True),
        ((10, 1000), (12, 1000), False),
        ((1000, 1000), (10, 1000), False),
        ((10, 1000), (25, 1000), False),  # Twice as often is what two runs of one release differ by.
    ],
)
def test_races_are_compared_by_their_rate(before: Tuple[int, int], after: Tuple[int, int], damage: bool) -> None:
    found = race_change([race(*before, release=OLDER)], [race(*after)])
    assert (found is not None and found.sure) == damage


def test_five_runs_of_a_race_are_compared_by_ranks() -> None:
    rarely, often = [race(10 + i, 1000, release=OLDER) for i in range(5)], [race(16 + i, 1000) for i in range(5)]
    found = race_change(rarely, often)
    assert found is not None and found.sure
    assert race_change(rarely, [race(10 + 2 * i, 1000) for i in range(5)]) is None


def test_runs_of_the_newer_release_that_disagree(gate: Gate, tmp_path: Path) -> None:
    run = one_run()
    records = write_pair(tmp_path, (healthy(run, S), healthy(run, S)))
    earlier = [dict(line, release=NEWER, volatile={**line["volatile"], "started": "2026-01-01T00:00:00Z", "run": "earlier"})
               if "recapture" in line else line for line in run]  # fmt: skip
    write_lines(records / NEWER / "nvidia-h200.run-2.jsonl", earlier)
    read = read_records(PROGRAM, ROOT, records)
    allowed = expected(read, Pair(read, OLDER, NEWER).on(GPU), Scope(), gate.words)
    assert allowed.answer == "cannot tell" and [found.test for found in allowed.holes] == [S]
    said = gate.ask(Question(OLDER, NEWER, GPU, Scope()), (), records)
    assert not list(disagreements(said, allowed)), said

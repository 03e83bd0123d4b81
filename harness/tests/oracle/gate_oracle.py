#!/usr/bin/env python3
"""gate_oracle.py [--sample N] [--seed S] [--whole]

Compares `gate` with a reading of the records that shares no code with it (reading.py): for every pair of releases, on
every GPU and on any, in every scope; and again with a case that blocks taken out of the newer release's records, in seven
ways. `recapture dev gates` answers, which is `gate` without a new process for each question. Prints the counts and each
disagreement.

A scope is a word of `recapture list --features`, and once more with all others in `without`; or none. The records from
which a case is taken have that case alone, as a gate decides each test by itself; with --whole they have all.
Exit status: 1 if the two disagree.
"""

import argparse
import collections
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar

from reading import Expected, Json, Pair, Reading, Records, Scope, expected, read_lines, read_records, records_in

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Question:
    """What `gate` is asked."""

    older: str
    newer: str
    gpu: str  # Empty: none is chosen.
    scope: Scope
    case: str = ""  # Taken out of the newer release's records…
    way: str = ""  # …in this way.


@dataclass
class Answer:
    exit: int
    json: Json
    command: str


def policy_text(scope: Scope, words: Sequence[str], waived: Sequence[str]) -> str:
    lines = [f"scope = {json.dumps([scope.word])}"] if scope.word else []
    if scope.alone:
        lines.append(f"without = {json.dumps(scope.without(list(words)))}")
    for case in waived:
        lines += ["[[waiver]]", f"test = {json.dumps(case)}", 'reason = "another case that blocks"']
    return "\n".join(lines) + "\n"


class Gate:
    """One process that answers; policies are files in a folder of its own, which begin with `keys`."""

    def __init__(self, program: Path, folder: Path, words: Sequence[str], keys: str = "") -> None:
        self.folder, self.words, self.keys = Path(tempfile.mkdtemp(dir=folder)), words, keys
        self.policies: Dict[str, Path] = {}
        self.process = subprocess.Popen(
            [str(program), "dev", "gates"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def ask(self, question: Question, waived: Sequence[str] = (), records: Optional[Path] = None) -> Answer:
        text = self.keys + policy_text(question.scope, self.words, waived)
        policy = self.policies.get(text)
        if policy is None:
            policy = self.folder / f"policy-{len(self.policies)}.toml"
            policy.write_text(text, encoding="utf-8")
            self.policies[text] = policy
        asked = {"from": question.older, "to": question.newer, "policy": str(policy), "gpu": question.gpu}
        if records:
            asked["records"] = str(records)
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        options = " ".join(f"--{key} '{value}'" for key, value in asked.items() if value and key not in ("from", "to"))
        return Answer(answer["exit"], answer, f"gate {question.older} {question.newer} --json {options}")


# ---- what differs ----

def named(answer: Json) -> str:
    """The tests that the verdict names as lacking."""
    return json.dumps([answer.get("lacking", []), answer.get("why", "")])


def over_a_limit(answer: Json) -> bool:
    """The policy's limits for tests that can only raise, and for what no side has judged."""
    found = re.search(r"(\d+) of (\d+)( measured)? tests in scope are (unknown|not measured), and (10|50) % may be: \w", answer["why"])
    return found is not None and int(found[1]) * 100 > int(found[2]) * int(found[5])


def disagreements(answer: Answer, allowed: Expected) -> Iterator[Tuple[str, List[str]]]:
    """Each as what is wrong, and the tests."""
    damage, holes = [found.test for found in allowed.damage], [found.test for found in allowed.holes]
    blocking = {str(test).split(" ")[0] for test in answer.json.get("blocking", [])}
    if answer.exit not in (0, 1, 6):
        yield f"exit status {answer.exit}: {answer.json.get('error', '')}", []
    elif answer.exit not in allowed.exits:
        if damage:
            yield ("passes" if answer.exit == 0 else "cannot tell") + " over damage", damage
        elif answer.exit == 1:
            yield "blocked, without damage", sorted(blocking)
        elif holes:
            yield "passes over a hole", holes
        elif answer.exit != 6 or not over_a_limit(answer.json):
            yield "cannot tell, without damage or a hole", [str(answer.json.get("why", ""))]
    elif answer.exit == 6:
        text = named(answer.json)
        lacking = [test for test in holes if test not in text]
        if lacking:
            yield "cannot tell, and does not name", lacking
    elif answer.exit == 1:
        perhaps = {found.test for found in allowed.perhaps}
        lost = [test for test in damage if test not in blocking]
        if lost:
            yield "blocked, and does not name", lost
        more = sorted(test for test in blocking if test not in perhaps)
        if more:
            yield "blocked, also by what is no damage", more


# ---- seven ways to take a case out of a record ----

Lines = List[Json]


def tests_of(lines: Lines, case: str) -> List[str]:
    return [line["test"] for line in lines if line.get("test", "").startswith(f"{case}.")]


def without_lines(lines: Lines, case: str) -> Lines:
    return [line for line in lines if not line.get("test", "").startswith(f"{case}.")]


def cut_off(lines: Lines, case: str) -> Lines:
    """The run ends before the case: the other tests have already run."""
    return [line for line in without_lines(lines, case) if line.get("case") != case and "end" not in line]


def left_out(lines: Lines, case: str) -> Lines:
    kept = [dict(line) for line in without_lines(lines, case) if line.get("case") != case]
    for line in kept:
        if "plan" in line:
            line["plan"] = [test for test in line["plan"] if not test.startswith(f"{case}.")]
    return kept


def other_hash(lines: Lines, case: str) -> Lines:
    return [dict(line, hash=f"{int(line['hash'], 16) ^ 1:016x}") if line.get("case") == case else line for line in lines]


def without_line(lines: Lines, case: str) -> Lines:
    """The run came to its end, and the planned tests have no line."""
    return without_lines(lines, case)


def skip(line: Json) -> Json:
    kept: Json = {key: line[key] for key in ("test", "how", "confirms") if key in line}
    return {**kept, "ending": "exited", "code": 77, "ended": "skipped", "skipped": "needs 2 GPUs, 1 here", "volatile": {"seconds": 1.0}}


def skipped(lines: Lines, case: str) -> Lines:
    return [skip(line) if line.get("test", "").startswith(f"{case}.") else line for line in lines]


def contradictory(lines: Lines, case: str) -> Lines:
    """It passed, and its process was killed from outside."""
    return [
        dict(line, ending="signal", code=9) if line.get("test", "").startswith(f"{case}.") else line for line in lines
    ]


def control_skipped(lines: Lines, case: str) -> Lines:
    """Without a Control the others of its case show nothing; without any Control, its tests were not started."""
    controls = [test for test in tests_of(lines, case) if test.startswith(f"{case}.Control")]
    if not controls:
        keep = ("test", "how")
        return [
            {**{key: line[key] for key in keep if key in line}, "ending": "not started", "code": 0}
            if line.get("test", "").startswith(f"{case}.")
            else line
            for line in lines
        ]
    return [skip(line) if line.get("test") in controls else line for line in lines]


WAYS: Dict[str, Callable[[Lines, str], Lines]] = {
    "cut off": cut_off,
    "left out of the plan": left_out,
    "another hash": other_hash,
    "no line": without_line,
    "skipped": skipped,
    "contradictory": contradictory,
    "no Control": control_skipped,
}


def write_lines(path: Path, lines: Lines) -> None:
    text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def only(lines: Lines, case: str) -> Lines:
    """The lines of a run that are not about another case."""
    kept: Lines = []
    for line in lines:
        if "plan" in line:
            kept.append(dict(line, plan=[test for test in line["plan"] if test.startswith(f"{case}.")]))
        elif line.get("case", case) == case and line.get("test", f"{case}.").startswith(f"{case}."):
            kept.append(line)
    return kept


class Archive:
    """Folders of records of all releases, in which one case is missing from one release in some way."""

    def __init__(self, folder: Path, whole: bool) -> None:
        self.folder, self.whole = folder, whole
        self.runs: Dict[Path, Lines] = {}

    def lines(self, path: Path) -> Lines:
        if path not in self.runs:
            self.runs[path] = read_lines(path)
        return self.runs[path]

    def of_case(self, case: str) -> Path:
        """The records as they are, of this case alone."""
        base = self.folder / case
        if not base.exists():
            for path in itertools.chain.from_iterable(map(records_in, sorted((ROOT / "reports").glob("[0-9]*")))):
                if tests_of(self.lines(path), case):
                    (base / path.parent.name).mkdir(parents=True, exist_ok=True)
                    write_lines(base / path.parent.name / path.name[: -len(".gz")], only(self.lines(path), case))
        return base

    def without(self, release: str, case: str, way: str) -> Path:
        base = ROOT / "reports" if self.whole else self.of_case(case)
        records = self.folder / f"{release}-{case}-{way}".replace(" ", "_")
        records.mkdir()
        for each in sorted(base.glob("[0-9]*")):
            if each.name != release:
                (records / each.name).symlink_to(each, target_is_directory=True)
                continue
            (records / release).mkdir()
            for path in records_in(each):
                lines = read_lines(path)
                write_lines(records / release / path.name.replace(".gz", ""), WAYS[way](lines, case) if tests_of(lines, case) else lines)
        return records


# ---- all questions ----

class Oracle:
    def __init__(self, records: Records) -> None:
        self.records = records
        self.words = sorted({tag for case in records.cases.values() for tag in case.tags})
        self.readings: Dict[Tuple[str, str, str], Reading] = {}

    def scopes(self) -> List[Scope]:
        return [Scope(), *(Scope(word) for word in self.words), *(Scope(word, alone=True) for word in self.words)]

    def pairs(self) -> List[Tuple[str, str]]:
        return list(itertools.combinations(self.records.releases, 2))

    def questions(self) -> List[Question]:
        return [
            Question(older, newer, gpu, scope)
            for older, newer in self.pairs()
            for gpu in [*self.records.gpus, ""]
            if all(self.records.by_side.get((release, gpu)) for release in (older, newer) if gpu)
            for scope in self.scopes()
        ]

    def reading(self, older: str, newer: str, gpu: str, machine: str) -> Reading:
        """`machine` is what the gate chose where --gpu names none."""
        key = (older, newer, gpu or f"any, {machine}")
        if key not in self.readings:
            pair = Pair(self.records, older, newer)
            self.readings[key] = pair.on(gpu) if gpu else pair.on_any(machine)
        return self.readings[key]

    def blocking_cases(self, question: Question) -> List[str]:
        found = self.reading(question.older, question.newer, question.gpu, self.records.gpus[-1]).damage
        return sorted({each.test.split(".")[0] for each in found if each.sure and each.anywhere})

    def taken_out(self) -> List[Question]:
        """Each case with damage, taken out in each way; all cases are in scope."""
        return [
            Question(older, newer, gpu, Scope(), case, way)
            for older, newer in self.pairs()
            for gpu in self.records.gpus
            for case in self.blocking_cases(Question(older, newer, gpu, Scope()))
            for way in WAYS
        ]


Wrong = List[Tuple[str, List[str], str]]
NO_LIMITS = "unknown = 100\nnot_measured = 100\n"  # For records that have one case alone.


def word_for(exit_status: int) -> str:
    return {0: "passes", 1: "blocked", 6: "cannot tell"}.get(exit_status, f"exit status {exit_status}")


def compare(oracle: Oracle, gate: Gate, question: Question) -> Tuple[str, Wrong]:
    answer = gate.ask(question)
    reading = oracle.reading(question.older, question.newer, question.gpu, str(answer.json.get("gpu", "")))
    allowed = expected(oracle.records, reading, question.scope, oracle.words)
    by_limit = answer.exit == 6 and not answer.json["lacking"]
    return ("cannot tell, by a limit" if by_limit else word_for(answer.exit)), [
        (what, tests, answer.command) for what, tests in disagreements(answer, allowed)
    ]


def compare_taken_out(oracle: Oracle, gate: Gate, question: Question, records: Path, whole: bool) -> Tuple[str, Wrong]:
    """With waivers for all that blocks besides the case, so that nothing else can."""
    reading = oracle.reading(question.older, question.newer, question.gpu, question.gpu)
    others = {found.test.split(".")[0] for found in reading.damage + reading.holes} if whole else set()
    answer = gate.ask(question, sorted(others - {question.case}), records)
    what = f"{question.case} {question.way} in {question.newer}"
    if answer.exit == 0:
        return "passes", [(f"passes where a case that blocked is lacking: {question.way}", [question.case], answer.command)]
    if answer.exit not in (1, 6):
        return word_for(answer.exit), [(f"exit status {answer.exit}: {what}: {answer.json.get('error', '')}", [], answer.command)]
    if answer.exit == 6 and f"{question.case}." not in named(answer.json):
        return word_for(6), [(f"cannot tell, and does not name what is lacking: {question.way}", [question.case], answer.command)]
    return word_for(answer.exit), []


T = TypeVar("T")


def shares(everything: Sequence[T], count: int) -> List[Sequence[T]]:
    """Neighbours together: questions about the same sides share a comparison."""
    size = -(-len(everything) // count) or 1
    return [everything[at : at + size] for at in range(0, len(everything), size)]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--program", type=Path, default=ROOT / "build/recapture")
    parser.add_argument("--sample", type=int, metavar="N", help="this many questions, and as many with a case taken out / 4")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="how many run at a time")
    parser.add_argument("--shown", type=Path, metavar="FILE", help="what `recapture show --all --json` has printed")
    parser.add_argument("--pairs-only", action="store_true", help="take no case out")
    parser.add_argument("--whole", action="store_true", help="take a case out of records that have all others")
    parser.add_argument("--count", action="store_true", help="only print how many questions there are")
    parser.add_argument("--list", type=int, default=40, metavar="N", help="print at most this many disagreements")
    options = parser.parse_args(arguments)
    program = options.program.resolve()
    shown = json.loads(options.shown.read_text(encoding="utf-8")) if options.shown else None
    oracle = Oracle(read_records(program, ROOT, shown=shown))
    questions = oracle.questions()
    taken_out = [] if options.pairs_only else oracle.taken_out()
    print(f"{len(oracle.pairs())} pairs of releases, {len(oracle.scopes())} scopes, {len(questions)} questions, "
          f"{len(taken_out)} with a case taken out")
    if options.sample is None:
        read = collections.Counter(
            expected(oracle.records, oracle.reading(q.older, q.newer, q.gpu, q.gpu), q.scope, oracle.words).answer
            for q in questions
            if q.gpu
        )
        print("read from the records, with a GPU chosen: " + ", ".join(f"{read[each]} {each}" for each in sorted(read)))
    if options.count:
        return 0
    if options.sample is not None:
        chance = random.Random(options.seed)
        questions = sorted(chance.sample(questions, min(options.sample, len(questions))), key=str)
        taken_out = chance.sample(taken_out, min((options.sample + 3) // 4, len(taken_out)))
    answers: Dict[str, int] = collections.Counter()
    answers_taken_out: Dict[str, int] = collections.Counter()
    wrong: Dict[Tuple[str, Tuple[str, ...]], List[str]] = {}
    lock = threading.Lock()

    def note(counts: Dict[str, int], answer: str, found: Wrong) -> None:
        with lock:
            counts[answer] += 1
            for what, tests, command in found:
                wrong.setdefault((what, tuple(tests)), []).append(command)

    def ask(share: Sequence[Question]) -> None:
        with Gate(program, folder, oracle.words) as gate:
            for question in share:
                note(answers, *compare(oracle, gate, question))

    def ask_taken_out(share: Sequence[Question]) -> None:
        archive = Archive(Path(tempfile.mkdtemp(dir=folder)), options.whole)
        with Gate(program, folder, oracle.words, "" if options.whole else NO_LIMITS) as gate:
            for (newer, case, way), asked in itertools.groupby(share, lambda each: (each.newer, each.case, each.way)):
                records = archive.without(newer, case, way)
                for question in asked:
                    note(answers_taken_out, *compare_taken_out(oracle, gate, question, records, options.whole))
                shutil.rmtree(records)

    taken_out.sort(key=lambda each: (each.case, each.newer, each.way, each.gpu))
    before = os.times()
    with tempfile.TemporaryDirectory(prefix="gate-oracle-") as name, ThreadPoolExecutor(options.jobs) as pool:
        folder = Path(name)
        for act, everything in ((ask, questions), (ask_taken_out, taken_out)):
            list(pool.map(act, shares(everything, options.jobs)))
    after = os.times()
    spent = sum(after[:4]) - sum(before[:4])
    for title, counts in (("gate", answers), ("gate, with a case taken out", answers_taken_out)):
        if counts:
            print(f"{title}: " + ", ".join(f"{counts[each]} {each}" for each in sorted(counts)))
    total = sum(len(commands) for commands in wrong.values())
    print(f"{total} disagreements, {len(wrong)} different; {spent:.0f} s of a processor")
    for (what, tests), commands in sorted(wrong.items(), key=lambda each: -len(each[1]))[: options.list]:
        print(f"{len(commands)} times: {what}: {', '.join(tests[:6])}{f' and {len(tests) - 6} more' if len(tests) > 6 else ''}")
        print(f"  recapture {commands[0]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

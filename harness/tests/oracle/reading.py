"""A reading of the records that shares no code with `gate`: what each test showed on each side, and what that allows.

Rules: docs/decisions/0049-count-what-a-gate-lacks-by-what-it-could-hide.md, docs/guide/upgrade.md, docs/reference/policy.md.
The judgement of a single test is that of `recapture show --all --json`.
"""

import gzip
import itertools
import json
import lzma
import math
import subprocess
import tarfile
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

Json = Dict[str, Any]

DAMAGE = {"silently wrong", "leaks", "hangs", "crashes"}
SILENT = {"silently wrong", "leaks"}
FROM_OUTSIDE = {1, 2, 3, 9, 15}  # Signals that no crash sends.
RUNS = {"works", "warns", "leaks"}  # A program that warns or leaks counts as one that runs.
# Results that are no evidence of what the release does.
NO_EVIDENCE = {"not run", "unavailable", "inapplicable", "invalid", "unseen"}
ANY_PROGRAM = "any program"


def version_of(release: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


@dataclass(frozen=True)
class Row:
    """One test of one record."""

    record: str
    release: str
    gpu: str
    driver: str
    started: str
    chosen: bool  # With a library that is not the release's own.
    case: str
    test: str
    code: str  # The hash of the case.
    result: str
    effect: str
    verdict: str  # Of a result whose control fails: "inconclusive", even if the code was edited since.
    seen: str
    hits: int
    tries: int
    stopping: str
    tried: Tuple[str, ...]  # What each process of it showed: the first, and the repetitions.
    probes: Tuple[Tuple[str, str], ...]
    captured: Tuple[Tuple[str, int], ...]  # Of an operator: how many samples of each form were captured.

    @property
    def name(self) -> str:
        return f"{self.case}.{self.test}"

    @property
    def kind(self) -> str:
        if self.case == "operators":
            return "operator"
        return next((kind for kind in ("Control", "Fix") if self.test.startswith(kind)), "Reproduces")

    @property
    def found_no_graph(self) -> bool:
        """Whether this release captures no sample of an operator, so that there is no graph to be right later."""
        return self.case == "operators_later" and self.result == "holds" and self.effect == ""

    @property
    def judged(self) -> bool:
        if self.result in NO_EVIDENCE or self.verdict in ("inconclusive", "insufficient data", "simulated"):
            return False
        return self.effect != ""

    @property
    def once(self) -> Optional[str]:
        """Damage in one of several tries that did not agree; of an operator, in one of its samples."""
        if self.kind == "operator" and self.verdict == "inconclusive" and self.effect in DAMAGE:
            return self.effect
        if len(set(self.tried)) < 2:
            return None
        return next((shown for shown in self.tried if shown in DAMAGE), None)

    @property
    def evidence(self) -> bool:
        return self.judged or self.once is not None


@dataclass
class Case:
    tags: List[str]
    features: List[str]
    host: bool  # Needs no GPU.
    race: bool
    simulated: bool
    effects: Set[str]  # Of its tests, by the description.


@dataclass
class Records:
    rows: List[Row]
    cases: Dict[str, Case]

    def __post_init__(self) -> None:
        self.sides: Dict[Tuple[str, str], Dict[str, List[Row]]] = {}
        self.releases = sorted({row.release for row in self.rows}, key=version_of)
        self.gpus = sorted({row.gpu for row in self.rows if row.gpu})
        # Every test of a case whose failure is damage, by its description or in any record.
        self.can_hide = {name for name, case in self.cases.items() if case.effects & DAMAGE}
        self.by_side: Dict[Tuple[str, str], Dict[str, List[Row]]] = {}
        for row in self.rows:
            if row.effect in DAMAGE or row.once:
                self.can_hide.add(row.case)
            self.by_side.setdefault((row.release, row.gpu), {}).setdefault(row.name, []).append(row)
        for tests in self.by_side.values():
            for rows in tests.values():
                rows.sort(key=lambda row: row.started)
        # By test, effect and code: the oldest release that shows it, with its own libraries, on any machine.
        self.oldest: Dict[Tuple[str, str, str], Tuple[int, ...]] = {}
        for row in self.rows:
            if row.judged and not row.chosen:
                key, version = (row.name, row.effect, row.code), version_of(row.release)
                self.oldest[key] = min(version, self.oldest.get(key, version))

    def side(self, release: str, gpu: str) -> Dict[str, List[Row]]:
        """The rows of a release on a GPU; those of a case that needs none also from the machines without one."""
        if (release, gpu) in self.sides:
            return self.sides[(release, gpu)]
        tests = {name: [row for row in rows if not row.chosen] for name, rows in self.by_side.get((release, gpu), {}).items()}
        for name, rows in self.by_side.get((release, ""), {}).items():
            case = self.cases.get(name.split(".")[0])
            if case and case.host:
                tests[name] = [row for row in rows if row.judged] + tests.get(name, [])
        self.sides[(release, gpu)] = {name: rows for name, rows in tests.items() if rows}
        return self.sides[(release, gpu)]


def show_rows(program: Path, root: Path, records: Path) -> List[Json]:
    command = [str(program), "show", "--all", "--json", str(records)]
    shown = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=False)
    rows: List[Json] = json.loads(shown.stdout)
    return rows


def shown_by(line: Json, documented: str) -> str:
    """What one process of a test showed; `documented`: the effect that the case describes. A control or a fix that fails
    shows that, too."""
    if line["ending"] == "signal":
        return "" if line["code"] in FROM_OUTSIDE else "crashes"
    if line["ending"] == "deadline":
        return "hangs"
    name = line["test"].split(".")[1]
    if line.get("ended") == "failed" and name.startswith(("Control", "Fix", "PythonFix")):
        return documented
    if "seen" in line and line["seen"] == line.get("documented"):
        return documented
    return str(line.get("ended", ""))


def captured_samples(line: Json) -> Tuple[Tuple[str, int], ...]:
    counts: Dict[str, int] = {}
    for form in ("forward", "backward", "inplace", "out"):
        text = line.get("facts", {}).get(form)
        if text:
            counts[form] = sum(int(kinds.get("right", 0)) for kinds in json.loads(text).get("samples", {}).values())
    return tuple(sorted(counts.items()))


ARCHIVE = "records.tar.xz"


@lru_cache(maxsize=2)  # Records are read folder by folder.
def archived(archive: Path) -> Dict[str, bytes]:
    """The texts in an archive, by the names that their files would have."""
    texts: Dict[str, bytes] = {}
    with tarfile.open(archive) as members:
        for member in members:
            content = members.extractfile(member)
            if member.name.startswith(("head/", "rest/")) and content:
                name = member.name.partition("/")[2] + ".gz"
                texts[name] = texts.get(name, b"") + content.read()
    return texts


def records_in(folder: Path) -> List[Path]:
    """The records of a folder; one in the archive has the path that its file would have."""
    names = {path.name for path in folder.glob("*.jsonl*")}
    if (folder / ARCHIVE).exists():
        names |= archived(folder / ARCHIVE).keys()
    return [folder / name for name in sorted(names)]


def read_lines(path: Path) -> List[Json]:
    if path.exists():
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    else:
        data = archived(path.parent / ARCHIVE)[path.name]
    return [json.loads(line) for line in data.splitlines()]


def read_cases(root: Path) -> Dict[str, Case]:
    with lzma.open(root / "cases/catalogue.json.xz", "rt", encoding="utf-8") as text:
        catalogue = json.load(text)
    return {
        case["id"]: Case(
            tags=case["tags"],
            features=case["features"],
            host=case["needs"].split()[0] == "host",
            race=case["nature"] == "race",
            simulated=case["fidelity"] == "simulated",
            effects={case["effect"]} | {test["effect"] for test in case["tests"] if "effect" in test},
        )
        for case in catalogue
    }


def read_hashes(root: Path) -> Dict[Tuple[str, str], str]:
    """What code a record's hash is today: hashing has changed, and the sources have not."""
    with open(root / "reports/hashes.tsv", encoding="utf-8") as text:
        lines = [line.rstrip("\n").split("\t") for line in text]
    return {(line[0], line[1]): line[2] for line in lines[1:]}


def read_records(program: Path, root: Path, folder: Optional[Path] = None, shown: Optional[List[Json]] = None) -> Records:
    folder = folder or root / "reports"
    cases, hashes = read_cases(root), read_hashes(root)
    judged: Dict[Tuple[str, str], Json] = {}
    for each in show_rows(program, root, folder) if shown is None else shown:
        judged[(str((root / each["record"]).resolve()), f"{each['case']}.{each['test']}")] = each
    rows: List[Row] = []
    for path in itertools.chain.from_iterable(map(records_in, sorted(each for each in folder.iterdir() if each.is_dir()))):
        lines = read_lines(path)
        head = lines[0]
        if head["break"] != "nothing" or not head["release"][0].isdigit():
            continue
        chosen = any(by in head for by in ("cuda_runtime_by", "nccl_by", "transformer_engine_by"))
        headers = {line["case"]: line for line in lines if "case" in line}
        tests: Dict[str, List[Json]] = {}
        for line in lines:
            if "test" in line:
                tests.setdefault(line["test"], []).append(line)
        plan: List[str] = next((line["plan"] for line in lines if "plan" in line), [])
        for name in list(tests) + [test for test in plan if test not in tests]:
            case, test = name.split(".", 1)
            verdict = judged.get((str(path.resolve()), name))
            if verdict is None or (case in cases and cases[case].simulated):
                continue
            tried = tests.get(name, [])
            first: Json = next((line for line in tried if "confirms" not in line), tried[0] if tried else {})
            header: Json = headers.get(case, {})
            code = str(header.get("hash", ""))
            documented = header.get("effects", {}).get(test) or header.get("effect", "")
            rows.append(
                Row(
                    record=str(path.relative_to(folder.parent)),
                    release=head["release"],
                    gpu=head["gpu"],
                    driver=head["driver"],
                    started=head["volatile"].get("started", ""),
                    chosen=chosen,
                    case=case,
                    test=test,
                    code=hashes.get((case, code), code),
                    result=verdict["result"],
                    effect=verdict["effect"],
                    verdict=verdict["verdict"],
                    seen=verdict["seen"],
                    hits=int(first.get("hits", 0)),
                    tries=int(first.get("tries", 0)),
                    stopping=str(first.get("stopping", "")),
                    tried=tuple(shown_by(line, documented) for line in tried),
                    probes=tuple(sorted((key, str(value)) for key, value in first.get("probes", {}).items())),
                    captured=captured_samples(first) if case == "operators" else (),
                )
            )
    return Records(without_failed_controls(rows), cases)


def without_failed_controls(rows: List[Row]) -> List[Row]:
    """What a case shows in a record in which a control of it fails is no evidence. The verdict on edited code hides that."""
    failed = {
        (row.record, row.case)
        for row in rows
        if row.kind == "Control" and row.verdict == "stale" and row.result not in NO_EVIDENCE | {"holds"}
    }
    return [
        replace(row, verdict="inconclusive")
        if (row.record, row.case) in failed and row.kind != "Control" and not row.test.startswith("Python")
        else row
        for row in rows
    ]


# ---- what a pair of sides allows ----

@dataclass(frozen=True)
class Finding:
    test: str
    why: str
    anywhere: bool = True  # Counts outside the scope as well.
    sure: bool = True  # False: the texts leave it open.


@dataclass
class Reading:
    damage: List[Finding] = field(default_factory=list)
    holes: List[Finding] = field(default_factory=list)
    gaps: List[Finding] = field(default_factory=list)
    cases: Dict[str, Tuple[List[Finding], List[Finding]]] = field(default_factory=dict)
    effects: Dict[str, List[Tuple[str, str, str]]] = field(default_factory=dict)  # By case: test, before, now.
    judged: Set[str] = field(default_factory=set)  # Cases of which a test is judged on both sides.

    def add_lost_signs(self) -> None:
        """What told of silent damage works now, and the damage is still there: the texts leave open what that is."""
        for tests in self.effects.values():
            if any(before in SILENT and now in SILENT for _, before, now in tests):
                for name, before, now in tests:
                    if before not in SILENT | RUNS and now in RUNS:
                        self.damage.append(Finding(name, f"{before} -> {now} beside silent damage", sure=False))

    def by_case(self) -> Dict[str, Tuple[List[Finding], List[Finding]]]:
        """Damage and holes; made once, when all has been read."""
        if not self.cases:
            for part, each in ((0, self.damage), (1, self.holes)):
                for found in each:
                    self.cases.setdefault(found.test.split(".")[0], ([], []))[part].append(found)
        return self.cases


def interval(hits: int, tries: int, z: float = 3.29) -> Tuple[float, float]:
    """Wilson's interval; 99.9 % by default."""
    if tries == 0:
        return 0.0, 1.0
    share, square = hits / tries, z * z
    centre = (share + square / (2 * tries)) / (1 + square / tries)
    half = z * math.sqrt(share * (1 - share) / tries + square / (4 * tries * tries)) / (1 + square / tries)
    return max(0.0, centre - half), min(1.0, centre + half)


def newest(rows: Iterable[Row]) -> Optional[Row]:
    judged = [row for row in rows if row.judged]
    return judged[-1] if judged else None


def change(older: Row, newer: Row) -> Optional[Finding]:
    """What a change from one result to another does to a program."""
    before, after = older.effect, newer.effect
    name = newer.name
    if newer.kind == "operator":
        if after in DAMAGE and before not in DAMAGE:
            return Finding(name, f"{before} -> {after}")
        fewer = dict(newer.captured)
        lost = any(fewer.get(form, 0) < count for form, count in older.captured)
        if before in RUNS and after == "raises":
            return Finding(name, "no longer captured", anywhere=False)
        return Finding(name, "fewer samples captured", anywhere=False, sure=False) if lost else None
    if newer.case == "operators_later" and not newer.test.startswith("Reproduces") and newer.kind == "Reproduces":
        if before not in RUNS and after not in RUNS:
            return None  # Whether such a replay crashes, raises or has other values is chance (decision 49).
    if newer.kind in ("Control", "Fix"):
        if older.result != "holds":
            worse = after in DAMAGE and before not in DAMAGE
            return Finding(name, f"a test that failed: {before} -> {after}", sure=False) if worse else None
        if newer.result == "holds":
            return None
        if after in DAMAGE:
            return Finding(name, f"held -> {after}")
        return Finding(name, "stopped holding", anywhere=False)
    if after in DAMAGE and before not in DAMAGE:
        return Finding(name, f"{before} -> {after}")
    if before == "leaks" and after in DAMAGE - {"leaks"}:
        return Finding(name, f"{before} -> {after}")
    if before in DAMAGE and after in DAMAGE and before != after:
        return Finding(name, f"{before} -> {after}", sure=False)
    if before in RUNS and after == "raises":
        return Finding(name, f"{before} -> raises", anywhere=False)
    if before == after == "raises" and older.probes != newer.probes:
        return Finding(name, "leaves its process in another state", anywhere=False, sure=False)
    return None


def rank_sum_p(one: List[float], other: List[float]) -> float:
    """Two-sided, exact: how often a split of all values into two such groups differs as much."""
    values = sorted(one + other)
    ranks = {value: (2 * values.index(value) + values.count(value) + 1) / 2 for value in values}
    middle = len(one) * (len(values) + 1) / 2
    seen = abs(sum(ranks[value] for value in one) - middle)
    sums = [sum(group) for group in itertools.combinations([ranks[value] for value in values], len(one))]
    return sum(abs(each - middle) >= seen - 1e-9 for each in sums) / len(sums)


def race_change(older: List[Row], newer: List[Row]) -> Optional[Finding]:
    """A race that shows damage in a share of its tries that is surely higher."""
    before, after = [row for row in older if row.tries], [row for row in newer if row.tries]
    if not before or not after or not any(row.effect in DAMAGE for row in after):
        return None
    shares = [[row.hits / row.tries for row in rows] for rows in (before, after)]
    found = Finding(after[-1].name, f"{max(shares[0]):.4f} -> {min(shares[1]):.4f} of its tries")
    if min(len(before), len(after)) >= 5:
        higher = sum(shares[1]) / len(after) > sum(shares[0]) / len(before)
        return found if higher and rank_sum_p(shares[0], shares[1]) < 0.01 else None
    if any("until" in row.stopping or "first" in row.stopping for row in before + after):
        return None  # A hit ends the tries: their number varies by a factor of a thousand.
    most, least = max(interval(row.hits, row.tries)[1] for row in before), min(interval(row.hits, row.tries)[0] for row in after)
    # Ten times: runs of one release can differ by five.
    return found if least > 10 * most else replace(found, sure=False) if least > 2 * most else None


class Pair:
    """All that two releases show of each test, on one GPU or on any."""

    def __init__(self, records: Records, older: str, newer: str) -> None:
        self.records, self.older, self.newer = records, older, newer

    def same_before(self, row: Row, effect: str) -> bool:
        """The older release, or one before it, shows this effect in the same code, on any machine."""
        shown = self.records.oldest.get((row.name, effect, row.code))
        return shown is not None and shown <= version_of(self.older)

    def test(self, name: str, older: List[Row], newer: List[Row], reading: Reading) -> None:
        case = self.records.cases.get(name.split(".")[0])
        # A program in Python repeats the case's own tests, and few releases have run it.
        if case is None or (name.split(".")[1].startswith("Python") and not (older and newer)):
            return
        was_judged = [row for row in older if row.judged]
        evidence = [row for row in newer if row.evidence]
        codes = {row.code for row in was_judged} & {row.code for row in evidence}
        if codes:
            self.both(case, [row for row in older if row.code in codes], [row for row in newer if row.code in codes], reading)
        elif was_judged:
            if name.split(".")[0] in self.records.can_hide and not any(row.result == "inapplicable" for row in newer[-1:]):
                unseen = any(row.result == "unseen" or row.found_no_graph for row in newer)
                reading.holes.append(Finding(name, f"judged in {self.older} alone", sure=not unseen))
        elif evidence:
            self.newer_alone(case, older, evidence, reading)
        else:
            reading.gaps.append(Finding(name, "judged on neither side"))

    def newer_alone(self, case: Case, older: List[Row], evidence: List[Row], reading: Reading) -> None:
        name = evidence[-1].name
        if case.race and any(row.result == "unseen" for row in older):
            found = race_change(older, evidence)
            if found:
                reading.damage.append(found)
            return
        if any(row.result == "inapplicable" for row in older[-1:]):
            return
        for row in evidence:
            effect = row.once or row.effect
            is_new = not self.same_before(row, effect) and not any(each.once == effect for each in older)
            if row.code == evidence[-1].code and effect in DAMAGE and is_new:
                reading.holes.append(Finding(name, f"{effect} in {self.newer}, not judged in {self.older}"))
                return

    def both(self, case: Case, older: List[Row], newer: List[Row], reading: Reading) -> None:
        evidence = [row for row in newer if row.evidence]
        now = evidence[-1]
        was = newest(row for row in older if row.code == now.code) or newest(older)
        assert was
        if was.code != now.code:  # Both ran several codes; the newest of the newer side is not the older side's.
            now = next(row for row in reversed(evidence) if row.code == was.code)
        before = {effect for row in older for effect in (row.once, row.effect if row.judged else None)}
        if now.once:
            found = None if now.once in before or was.effect in DAMAGE else Finding(now.name, f"{now.once} in one try")
        else:
            found = change(was, now)
        reading.judged.add(now.case)
        if now.kind == "Reproduces":
            reading.effects.setdefault(now.case, []).append((now.name, was.effect, now.effect))
        if not found and case.race:
            found = race_change(older, newer)
        if found:
            reading.damage.append(found)
            if found.sure and found.anywhere:
                return
        if was.effect in DAMAGE or now.once or now.effect in DAMAGE:
            return
        for row in evidence:
            effect = row.once or row.effect
            if effect in DAMAGE:
                sure = row.code == now.code and not before & DAMAGE
                reading.holes.append(Finding(row.name, f"runs of {self.newer} disagree: {effect}, {now.effect}", sure=sure))
                return

    def on(self, gpu: str) -> Reading:
        """With --gpu: this GPU alone."""
        reading = Reading()
        older, newer = self.records.side(self.older, gpu), self.records.side(self.newer, gpu)
        for name in sorted(set(older) | set(newer)):
            self.test(name, older.get(name, []), newer.get(name, []), reading)
        reading.add_lost_signs()
        return reading

    def judged_on(self, gpu: str, name: str) -> bool:
        codes = [
            {row.code for row in self.records.side(release, gpu).get(name, []) if row.judged}
            for release in (self.older, self.newer)
        ]
        return bool(codes[0] & codes[1])

    def damaged_before(self, name: str) -> bool:
        """The older release shows damage in this test on some machine."""
        sides = (self.records.side(self.older, gpu).get(name, []) for gpu in self.records.gpus)
        return any(row.effect in DAMAGE or row.once for rows in sides for row in rows)

    def on_any(self, gpu: str) -> Reading:
        """Without --gpu: what this GPU lacks is taken from another (decision 44), and damage on another blocks."""
        reading = self.on(gpu)
        others = {other: self.on(other) for other in self.records.gpus if other != gpu}
        newer = self.records.side(self.newer, gpu)
        holes = []
        for hole in reading.holes:
            if not any(self.judged_on(other, hole.test) for other in others):
                holes.append(hole)
            elif hole.test in newer:  # Tried, and without an answer: no other GPU outvotes it.
                holes.append(replace(hole, sure=False))
        reading.holes = holes
        known = {found.test for found in reading.damage if found.sure and found.anywhere}
        for other, there in others.items():
            reading.judged |= there.judged
            for found in there.damage:
                if found.test not in known:
                    sure = found.sure and found.anywhere and not self.damaged_before(found.test)
                    reading.damage.append(replace(found, why=f"{found.why}, on {other}", sure=sure))
            reading.holes += [replace(hole, why=f"{hole.why}, on {other}", sure=False) for hole in there.holes]
        return reading


@dataclass(frozen=True)
class Scope:
    """What a policy selects: one word, or none for all cases; `alone`: a program that has this feature and no other."""

    word: str = ""
    alone: bool = False

    def without(self, words: List[str]) -> List[str]:
        return [word for word in words if word not in (self.word, ANY_PROGRAM)] if self.alone else []

    def __str__(self) -> str:
        return f"{self.word or 'all cases'}{', and no other feature' if self.alone else ''}"


@dataclass
class Expected:
    """What the gate may answer."""

    exits: Set[int]
    damage: List[Finding]  # Each must be named as blocking.
    perhaps: List[Finding]
    holes: List[Finding]  # Each must be named where the answer is "cannot tell".

    @property
    def answer(self) -> str:
        return "blocked" if self.damage else "cannot tell" if self.holes else "passes"


def expected(records: Records, reading: Reading, scope: Scope, words: List[str], waived: Iterable[str] = ()) -> Expected:
    without, waivers = set(scope.without(words)), set(waived)
    sure: List[Finding] = []
    perhaps: List[Finding] = []
    holes: List[Finding] = []
    open_hole = False
    for name, (damage, lacking) in reading.by_case().items():
        case = records.cases[name]
        if name in waivers or without & set(case.features):
            continue
        selected = not scope.word or scope.word in case.tags or ANY_PROGRAM in case.tags
        # Operators are in every scope of features; a policy's scope has them by their tag.
        maybe = name == "operators" and scope.word != ""
        for found in damage:
            if found.anywhere or selected or maybe:
                perhaps.append(found)
                if found.sure and (found.anywhere or not maybe):
                    sure.append(found)
        holes += [found for found in lacking if found.sure]
        open_hole = open_hole or any(not found.sure for found in lacking)
    exits = {1} if sure else {6} if holes else {0}
    if len(sure) < len(perhaps):
        exits.add(1)
    if not sure and open_hole:
        exits.add(6)
    # docs/reference/policy.md: a word of which no test is judged.
    if not sure and scope.word and not any(scope.word in records.cases[case].tags for case in reading.judged if case in records.cases):
        exits = exits - {0} | {6}
    return Expected(exits, sure, perhaps, holes)

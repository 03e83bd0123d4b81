"""Chooses which programs run, and handles findings: confirms each alone, shrinks it, compares it with others, writes it."""
import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import time
from pathlib import Path

from . import drafting, programs
from .programs import ACTIONS, ACTIONS_WITH_OP, OPS, OTHER_GRAPHS, SIZES, WRAPS, Event, Program, Statement, count_lines, source_of, wraps_of
from .serving import Server, in_processes

FOUND = ("differs", "refused", "raised", "crash", "hang")
PROGRAMS_OF_A_PROCESS = 50
COMPILE_LIMIT = 4  # Times the limit of other programs.
SLOW_ACTIONS = ("profile", "loader", "subprocess")  # Not among all actions at once.
SECONDS_OF_CALIBRATION = 30  # At least, where that is less than most of the time: a process may take ten to start.
UNREPEATED = 3  # Written by each process.
MOST_VARIANTS = 200  # Of a finding's operators, wrappers and actions.


class Found(Exception):
    """A program whose graph does not do what eager code does."""


@dataclasses.dataclass
class Plan:
    """The options of a search, and when each part must be done."""

    seed: int
    seconds: int
    jobs: int
    limit: float
    shrink: float
    examples: int
    output: Path
    make_backend: object
    make_server: object = None
    host: bool = False
    ops: tuple = tuple(OPS)
    actions: tuple = tuple(ACTIONS)
    wraps: tuple = tuple(WRAPS)
    sizes: tuple = SIZES
    compile: bool = True
    began: float = dataclasses.field(default_factory=time.monotonic)
    most_rounds: int = 10 ** 9

    def at(self, part):
        return self.began + part * self.seconds

    def is_documented(self, program):
        """Whether a case has what the program may do wrong. What is planted into the stand-in is in no case."""
        return not self.host and bool(program.documented())

    def server(self):
        """A process that runs programs, or one for each rank."""
        return self.make_server() if self.make_server else Server(self.make_backend)


def group(result):
    return "refused" if result["state"] == "refused" else "found"


def write_json(path, value):
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(value, indent=1) + "\n")
    part.replace(path)


class Hunter:
    """The work of one process of the search."""

    def __init__(self, plan, name):
        self.plan, self.name = plan, name
        self.server = self.spare = None
        self.counts = collections.Counter()
        self.covered = collections.Counter()
        self.reasons = collections.Counter()
        self.known = []
        self.alone = {}  # Whether an operator with a wrapper is refused alone at a size.
        self.unrepeated = 0
        self.written = time.monotonic()

    # Processes.

    def _warm(self):
        if self.server and (self.server.ended or len(self.server.before) >= PROGRAMS_OF_A_PROCESS):
            self.server.close()
            self.server = None
        if not self.server:
            self.server, self.spare = self.spare or self.plan.server(), None
        return self.server

    def run(self, program, fresh=False, locate=False, limit=None, source=None):
        self.counts["runs"] += 1
        source = source or source_of(program)
        limit = limit or self.plan.limit * (COMPILE_LIMIT if "torch.compile" in source else 1)
        if fresh:
            server, self.spare = self.spare or self.plan.server(), None
            result = server.run({"source": source, "locate": locate}, limit)
            server.close()
            self.spare = self.plan.server()  # Begins beside what comes next.
        else:
            server = self._warm()
            result = server.run({"source": source, "locate": locate}, limit)
            if server.ended or result.get("broken"):
                server.close()
        return result

    def close(self):
        for server in (self.server, self.spare):
            if server:
                server.close()
        self.server = self.spare = None

    # What is known.

    def learn(self):
        self.known = []
        for path in sorted(self.plan.output.glob("finding-*.json")):
            with contextlib.suppress(ValueError, KeyError, OSError):
                finding = json.loads(path.read_text())
                self.known += [set(features) for features in (finding["features"], *finding["also"])]

    def is_known(self, program):
        if self.plan.is_documented(program):
            return True
        features = program.features()
        return any(known <= features for known in self.known)

    # Findings.

    def refused_alone(self, program):
        """Whether a statement of the program, or of a graph that an action captures, is refused with no other one and no action:
        calibration asks for one size, and a library chooses by size what it runs. That is no finding."""
        captured = {Statement(event.op, 0, 1) for event in program.events if event.name in OTHER_GRAPHS}
        for statement in captured.union(program.statements()):
            key = (statement.op, statement.wrap, program.size)
            if key not in self.alone:
                one = Program(program.size, ((Statement(statement.op, 0, 1, statement.wrap),),), ())
                self.alone[key] = self.run(one, fresh=True)["state"] == "refused"
            if self.alone[key]:
                self.reasons[f"refused alone at {program.size}: {statement.op} {statement.wrap}"] += 1
                return True
        return False

    def confirm(self, program, result, before):
        """The result of the program alone in a process. What shows only after other programs is kept as it is."""
        alone = self.run(program, fresh=True)
        if alone["state"] in FOUND:
            return alone
        self.counts["not repeated alone"] += 1
        if self.unrepeated < UNREPEATED:
            self.unrepeated += 1
            write_json(self.plan.output / f"unrepeated-{self.name}-{self.unrepeated}.json",
                       {"program": program.to_dict(), "source": source_of(program), "result": result, "alone": alone,
                        "before": before[-PROGRAMS_OF_A_PROCESS:]})
        return alone

    def write(self, program, result, **more):
        """Writes a finding and its drafts, or adds to the one that has the same first operator and action."""
        source = source_of(program)
        first = result.get("first", {})
        operator = first.get("operator") or "+".join(sorted({statement.op for statement in program.statements()}))
        actions = program.actions() or sorted(f for f in program.features() if f.startswith(("play:", "graphs:", "wrap:")))
        if result["state"] in ("refused", "raised"):  # Then the message is what tells failures apart.
            operator_key = re.sub(r"0x[0-9a-f]+|[0-9]+", "N", result.get("why", ""))[:120]
        else:
            operator_key = operator
        key = f"{operator_key} {'+'.join(actions)} {group(result)}"
        name = re.sub(r"[^a-z0-9]+", "-", f"{operator_key} {'+'.join(actions)}".lower()).strip("-")[:60]
        path = self.plan.output / f"finding-{name}-{hashlib.sha256(key.encode()).hexdigest()[:6]}.json"
        lines = count_lines(source)
        finding = {"schema": 1, "key": key, "state": result["state"], "operator": operator, "actions": actions, "lines": lines,
                   "features": sorted(program.features()), "program": program.to_dict(), "source": source, "result": result,
                   "seed": self.plan.seed, "process": self.name, "times": 1, "also": [], **more}
        try:
            other = json.loads(path.read_text())
            times, seen = other["times"] + 1, [*other["also"], finding["features"]]
            if (other["lines"], len(other["source"])) <= (lines, len(source)):
                finding = other
            finding.update(times=times, also=[each for each in seen if each != finding["features"]][-MOST_VARIANTS:])
        except (OSError, ValueError):
            print(f"found: {key}: {result['state']}, {lines} lines", flush=True)
        write_json(path, finding)
        drafting.write(path, finding)
        self.known.append(program.features())
        return path

    def reduce_events(self, program, result):
        """Leaves out each event that the finding does not need."""
        index = 0
        while index < len(program.events):
            fewer = dataclasses.replace(program, events=program.events[:index] + program.events[index + 1:])
            other = self.run(fewer, fresh=True)
            if other["state"] in FOUND and group(other) == group(result):
                program, result = fewer, other
            else:
                index += 1
        return program, result

    def save_counts(self, force=False):
        if force or time.monotonic() - self.written > 5:
            self.written = time.monotonic()
            write_json(self.plan.output / f".counts-{self.name}.json",
                       {"counts": dict(self.counts), "covered": dict(self.covered), "reasons": dict(self.reasons.most_common(50))})


# First part: what can be captured here. What cannot be is left out of programs by this measurement, and by no list.

def calibrate(plan):
    items = [("op", op, wrap) for op in plan.ops for wrap in wraps_of(OPS[op]) if wrap in plan.wraps and wrap != "compile"]
    items += [("action", action, "") for action in plan.actions]
    items.sort(key=lambda item: hashlib.sha256(repr(item).encode()).digest())  # Spreads what is slow.
    until = min(max(plan.at(0.2), time.monotonic() + SECONDS_OF_CALIBRATION), plan.at(0.6))
    folder = plan.output / ".calibration"
    folder.mkdir(exist_ok=True)

    def work(number, attempt):
        hunter = Hunter(plan, f"calibration-{number}")
        path = folder / f"{number}.jsonl"
        done = len(path.read_text().splitlines()) if path.exists() else 0
        with path.open("a") as file:
            for kind, name, wrap in items[number::plan.jobs][done:]:
                if time.monotonic() > until:
                    break
                if kind == "op":
                    program = Program(64, ((Statement(name, 0, 1, wrap),),), ())
                else:
                    program = Program(64, ((Statement("matmul", 0, 1),), (Statement("add", 0, 1),)), (Event(name, 0, "add", 100),))
                result = hunter.run(program)
                if result["state"] in FOUND and result["state"] != "refused" and not plan.host:  # There it is the stand-in's.
                    alone = hunter.run(program, fresh=True, locate=True)
                    if alone["state"] in FOUND:
                        hunter.write(program, alone, part="calibration")
                    result = alone
                why = result.get("why") or result.get("how") or result.get("phase") or ""
                file.write(json.dumps([kind, name, wrap, result["state"], why]) + "\n")
                file.flush()
        hunter.close()
        hunter.save_counts(force=True)

    in_processes(plan.jobs, work, until + 0.05 * plan.seconds, again=True)
    results = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    for path in folder.glob("*.jsonl"):
        path.unlink()
    folder.rmdir()
    good = {(kind, name, wrap) for kind, name, wrap, state, _ in results if state == "same"}
    ops = [op for op in plan.ops if any(("op", op, wrap) in good for wrap in WRAPS)]
    wraps = {(op, wrap) for _, op, wrap in good if wrap}
    if plan.compile:
        wraps |= {(op, "compile") for op in ops if (op, "plain") in wraps and not OPS[op].alone and not OPS[op].needs}
    actions = [action for action in plan.actions if ("action", action, "") in good]
    excluded = sorted([name, wrap, state, why] for kind, name, wrap, state, why in results if state != "same")
    return ops, wraps, actions, {"tried": len(results), "of": len(items), "excluded": excluded}


# Second part: each operator, forward and backward, with all actions at once; each alone where the values then differ.

def one_by_one(plan, ops, wraps, actions):
    chosen = [action for action in actions if action not in SLOW_ACTIONS and action != "destroy_other"]

    def event(action, op):
        other = op if not OPS[op].needs and not OPS[op].alone else "matmul"
        return Event(action, 0, other if action in ACTIONS_WITH_OP else "mul", 100 if action in ACTIONS_WITH_OP else 64)

    items = [(op, wrap) for op in ops for wrap in ("plain", "grad") if (op, wrap) in wraps]
    items.sort(key=lambda item: hashlib.sha256(repr(item).encode()).digest())

    def work(number, attempt):
        hunter = Hunter(plan, f"alone-{number}")
        for op, wrap in items[number::plan.jobs]:
            if time.monotonic() > plan.at(0.4):
                hunter.counts["operators left out"] += 1
                continue
            graphs = ((Statement(op, 0, 1, wrap),),)
            tried = [action for action in chosen if not plan.is_documented(Program(64, graphs, (event(action, op),)))]
            program = Program(64, graphs, (Event("plain"), *(event(action, op) for action in tried)))
            if hunter.run(program)["state"] not in FOUND:
                continue
            found = False
            hunter.learn()
            for action in tried:
                alone = Program(64, graphs, (Event("plain"), event(action, op)))
                if time.monotonic() > plan.at(0.45) or hunter.is_known(alone):
                    continue
                if hunter.run(alone)["state"] in FOUND:
                    result = hunter.run(alone, fresh=True, locate=True)
                    if result["state"] in FOUND:
                        hunter.write(alone, result, part="alone")
                        found = True
            result = {} if found or hunter.is_known(program) else hunter.run(program, fresh=True)
            if result.get("state") in FOUND:
                hunter.write(*hunter.reduce_events(program, result), part="alone")
            hunter.save_counts()
        hunter.close()
        hunter.save_counts(force=True)

    in_processes(plan.jobs, work, plan.at(0.5))


# Third part: sequences.

def seed_of(*parts):
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big")


class Round:
    """One run of Hypothesis: it ends with the first finding, which it has shrunk, or when all examples are sound."""

    def __init__(self, hunter, until):
        self.hunter, self.plan, self.until = hunter, hunter.plan, until
        self.results, self.target, self.best, self.shrink_until = {}, None, None, None
        self.tries = 0

    def judge(self, program):
        source = source_of(program)
        if source in self.results:
            return self.results[source]
        if time.monotonic() > (self.shrink_until or self.until):
            return {"state": "not run"}
        hunter = self.hunter
        if hunter.is_known(program):
            hunter.counts["avoided"] += 1
            return self.results.setdefault(source, {"state": "avoided"})
        limit = max(2.0, self.plan.limit / 4) if self.best and self.best[1]["state"] == "hang" else None
        result = hunter.run(program, limit=limit)
        before = hunter.server.before[:-1]
        if self.target is None:
            hunter.counts["programs"] += 1
            hunter.counts[result["state"]] += 1
            for feature in program.features():
                hunter.covered[feature] += 1
            if result["state"] == "invalid" or result["state"] in ("not repeated", "rounding"):
                hunter.reasons[f"{result['state']}: {result.get('why', '')}"[:160]] += 1
            if result["state"] in FOUND or result["state"] == "invalid" and result.get("broken") and before:
                result = hunter.confirm(program, result, before)
            if result["state"] == "refused" and hunter.refused_alone(program):
                hunter.counts["refused alone"] += 1
                result = {"state": "avoided"}
        else:
            self.tries += 1
        hunter.save_counts()
        self.results[source] = result
        return result

    def test(self, program):
        result = self.judge(program)
        if result["state"] not in FOUND or self.target not in (None, group(result)):
            return
        if self.target is None:
            self.target = group(result)
            self.shrink_until = min(time.monotonic() + self.plan.shrink, self.plan.at(0.93))
        rank = (count_lines(source_of(program)), len(source_of(program)))
        if self.best is None or rank < self.best[2]:
            self.best = (program, result, rank)
        raise Found

    def run(self, strategy, seed):
        import hypothesis
        options = hypothesis.settings(
            max_examples=self.plan.examples, database=None, deadline=None, print_blob=False, report_multiple_bugs=False,
            phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink), verbosity=hypothesis.Verbosity.quiet,
            suppress_health_check=list(hypothesis.HealthCheck))

        @hypothesis.seed(seed)
        @options
        @hypothesis.given(strategy)
        def test(program):
            self.test(program)

        try:
            test()
        except Found:
            pass
        except Exception as error:  # Hypothesis's own: what it calls flaky, for example.
            self.hunter.reasons[f"hypothesis: {type(error).__name__}"] += 1
        if self.best:
            program, result, _ = self.best
            alone = self.hunter.run(program, fresh=True, locate=True)
            repeated = alone["state"] in FOUND
            return self.hunter.write(program, alone if repeated else result, part="sequences", round_seed=seed,
                                     tries=self.tries, repeated=repeated)
        return None


def prepare():
    """Newer versions of Hypothesis draw constants of the modules that are loaded: a seed would give other programs where
    other files are, and reading all of PyTorch for that takes half a minute."""
    with contextlib.suppress(ImportError, AttributeError):
        from hypothesis.internal.conjecture import providers
        none = providers._local_constants
        if hasattr(providers, "_get_local_constants"):
            providers._get_local_constants = lambda: none


def sequences(plan, ops, wraps, actions):
    plain = programs.strategy(ops, wraps, actions, plan.sizes)
    compiled = programs.strategy([op for op in ops if (op, "compile") in wraps], wraps, actions, plan.sizes, compiled=True, most=3) \
        if any(wrap == "compile" for _, wrap in wraps) else plain

    prepare()

    def work(number, attempt):
        hunter = Hunter(plan, f"{number}-{attempt}")
        of_compile = plan.jobs >= 8 and number % 8 == 7  # Compiling takes seconds.
        for turn in range(plan.most_rounds):
            if time.monotonic() > plan.at(0.82):
                break
            hunter.learn()
            hunter.counts["rounds"] += 1
            Round(hunter, plan.at(0.82)).run(compiled if of_compile else plain, seed_of(plan.seed, number, attempt, turn))
        hunter.close()
        hunter.save_counts(force=True)

    in_processes(plan.jobs, work, plan.at(0.96), again=True)


def search(plan):
    """Runs all parts; the result is what discover.json has."""
    parts = {}
    ops, wraps, actions, excluded = calibrate(plan)
    parts["calibration"] = time.monotonic() - plan.began
    print(f"{len(ops)} operators, {len(wraps)} with their wrappers, {len(actions)} actions; "
          f"{len(excluded['excluded'])} of {excluded['tried']} left out", flush=True)
    if ops:
        one_by_one(plan, ops, wraps, actions)
        parts["one by one"] = time.monotonic() - plan.began
        sequences(plan, ops, wraps, actions)
        parts["sequences"] = time.monotonic() - plan.began
    return {"ops": ops, "actions": actions, "calibration": excluded,
            "seconds": {name: round(seconds, 1) for name, seconds in parts.items()}, **merged(plan)}


def reason_of(calibration, seconds):
    """Why nothing could be run."""
    excluded = calibration["excluded"]
    if not excluded:
        return f"nothing was run: no program ended in the first part of {seconds} s; --seconds gives more"
    return f"nothing can be run: {excluded[0][3]}"


def merged(plan):
    """The counts of all processes, and the findings."""
    sums = {name: collections.Counter() for name in ("counts", "covered", "reasons")}
    for path in sorted(plan.output.glob(".counts-*.json")):
        try:
            part = json.loads(path.read_text())
        except ValueError:
            continue
        for name, total in sums.items():
            total.update(part[name])
        path.unlink()
    for path in plan.output.glob(".finding-*"):
        path.unlink()
    findings = []
    for path in sorted(plan.output.glob("finding-*.json")):
        finding = json.loads(path.read_text())
        findings.append({"file": path.name, **{key: finding.get(key) for key in
                                               ("key", "state", "operator", "actions", "lines", "times", "part", "repeated", "tries")}})
    return {"counts": dict(sums["counts"]), "covered": dict(sorted(sums["covered"].items())),
            "reasons": dict(sums["reasons"].most_common(60)), "findings": findings,
            "unrepeated": [path.name for path in sorted(plan.output.glob("unrepeated-*.json"))]}

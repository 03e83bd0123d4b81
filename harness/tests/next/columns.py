"""A complete column of a release on a machine, of the committed records, and the same under another release's name.

No result is invented: only members of the first line change, so that whatever an answer finds new is the answer's fault.
A planted change is one that a test makes in it on purpose.
"""

import copy
import gzip
import json
import os
import tarfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("RECAPTURE_BUILD", str(ROOT / "build")))
IN_FULL = "REHEARSE_IN_FULL" in os.environ  # ci/test --all
Json = Any
Lines = List[Dict[str, Json]]


def named_texts(folder: Path) -> List[Tuple[str, str]]:
    """The records of a release, by name: in its archive, in two parts each, and in files."""
    texts: Dict[str, str] = {}
    if (folder / "records.tar.xz").exists():
        with tarfile.open(folder / "records.tar.xz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                if member.name.startswith(("head/", "rest/")) and content:
                    name = member.name.partition("/")[2] + ".gz"
                    texts[name] = texts.get(name, "") + content.read().decode()
    for path in folder.glob("*.jsonl*"):
        data = path.read_bytes()
        texts[path.name] = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return sorted(texts.items())


def lines_of(text: str) -> Iterator[Dict[str, Json]]:
    for line in text.split("\n"):
        try:
            yield json.loads(line)
        except ValueError:  # The last line of a run that was killed.
            return


def column(release: str, gpu: str, reports: Path = ROOT / "reports") -> Lines:
    """The newest result of each test on a machine ("" has no GPU), of the runs with the release's own libraries."""
    runs = []
    for _, text in named_texts(reports / release):
        lines = list(lines_of(text))
        first = lines[0]
        is_own = not any(name.endswith("_by") for name in first) and not first.get("env") and first.get("break", "nothing") == "nothing"
        if is_own and first.get("gpu", "") == gpu:
            runs.append((first.get("volatile", {}).get("started", ""), lines))
    runs.sort(key=lambda run: run[0])
    assert runs, f"no record of {release} on {gpu or 'a machine without a GPU'}"
    described: Dict[str, Dict[str, Json]] = {}
    tests: Dict[str, Lines] = {}  # With the confirmations of each.
    for _, lines in runs:
        for line in lines:
            if "case" in line:
                described[line["case"]] = line
            elif "test" in line and "confirms" not in line:
                if could_run(line) or line["test"] not in tests:
                    tests[line["test"]] = [line]
            elif "test" in line and line["test"] in tests:
                tests[line["test"]].append(line)
    tests = {name: found for name, found in tests.items() if name.split(".")[0] in described}
    order = sorted(tests, key=lambda name: name.split(".")[0])
    # Of the newest run of unchanged code: a few records are older than the rule that refuses others.
    first = next(lines[0] for _, lines in reversed(runs) if not lines[0].get("revision", "").endswith("-dirty"))
    first = copy.deepcopy(first)
    first["gpus"] = max(lines[0].get("gpus", 0) for _, lines in runs)  # Some tests ran with two.
    result: Lines = [first, {"plan": order}]
    last = ""
    for name in order:
        case = name.split(".")[0]
        if case != last:
            result.append(described[case])
            last = case
        result += tests[name]
    return result + [{"end": "complete"}]


def could_run(line: Dict[str, Json]) -> bool:
    return "skipped" not in line and "stub" not in line and line.get("ending") != "not started"


def relabelled(lines: Lines, **members: Json) -> Lines:
    """With other members of the first line; the run has an id of its own."""
    renamed = copy.deepcopy(lines)
    renamed[0].update(members)
    renamed[0].get("volatile", {})["run"] = format(abs(hash(json.dumps(members, sort_keys=True))) % 16**12, "012x")
    return renamed


def as_release(lines: Lines, release: str, started: str) -> Lines:
    made = relabelled(lines, release=release, libtorch=release, headers=release)
    made[0]["volatile"]["started"] = started
    return made


def write(path: Path, lines: Lines) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    return path


def result(lines: Lines, test: str) -> Dict[str, Json]:
    return next(line for line in lines if line.get("test") == test and "confirms" not in line)


def without_confirmations(lines: Lines, test: str) -> None:
    lines[:] = [line for line in lines if not ("confirms" in line and line.get("test") == test)]

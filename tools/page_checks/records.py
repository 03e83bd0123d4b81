"""The records for the page, and build/recapture's output for them."""
import itertools
import json
import lzma
import os
import re
import subprocess
import tarfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RECAPTURE = ROOT / "build/recapture"
RELEASES = ["2.1.2", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0",
            "2.12.0", "2.13.0", "2.14.0", "2.15.0"]
GPUS = ["NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA B200"]
CASES = 200
HOSTILE = ('</script><script>window.hurt = 1</script><!-- <img src="http://127.0.0.1:9/x" onerror="window.hurt = 1">'
           "<a href=\"javascript:window.hurt = 1\">x</a> \u202e \x01\x02 & \"'")
HOSTILE_KEYS = ("gpu", "driver", "cuda_runtime", "revision", "title", "documented", "family", "seen", "healthy",
                "message", "exception", "skipped", "raised_by")


def catalogue():
    """The cases of the page, without those of the operators, which have a table of their own."""
    return [case for case in json.loads(lzma.decompress((ROOT / "cases/catalogue.json.xz").read_bytes())) if case["family"] != "operators"]


def lines_of(path, stop=None):
    folder, name = (ROOT / "reports" / path).parent, Path(path).stem
    with tarfile.open(folder / "records.tar.xz") as archive:
        text = b"".join(archive.extractfile(f"{part}/{name}").read() for part in ("head", "rest"))
    return [json.loads(line) for line in text.splitlines()[:stop]]


def write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def moved_result(line, test, offset):
    """A result under the name of another test, its stack offset by `offset`."""
    line = dict(line, test=test)
    if "frames" in line.get("culprit", {}):
        frames = [re.sub(r"\+0x([0-9a-f]+)$", lambda match: f"+{hex(int(match[1], 16) + offset)}", frame)
                  for frame in line["culprit"]["frames"]]
        line["culprit"] = dict(line["culprit"], frames=frames)
    return line


def make_big(folder):
    """What 15 releases on 4 GPUs would leave: from a release on that differs from test to test, a test shows what it
    showed on record in another; stacks have other offsets in each release; and there are more cases, under new names.
    """
    newest = lines_of("2.11.0/nvidia-h200.jsonl.gz")
    others = [{line["test"]: line for line in lines_of(path) if "test" in line and "confirms" not in line}
              for path in ("2.6.0/nvidia-h200.jsonl.gz", "2.15.0/nvidia-h200.jsonl.gz")]
    described = {line["case"]: line for line in newest if "case" in line}
    by_case = {}
    for line in newest:
        if "test" in line and "confirms" not in line and line["test"].split(".")[0] in described:
            by_case.setdefault(line["test"].split(".")[0], {})[line["test"]] = line
    names = [(case, case) for case in by_case]
    names += [(f"{case}_again", case) for case in list(by_case)[:CASES - len(names)]]
    for (number, release), (column, gpu) in itertools.product(enumerate(RELEASES), enumerate(GPUS)):
        environment = dict(newest[0], release=release, libtorch=release, gpu=gpu, driver=f"58{column}.1",
                           volatile={"started": f"2026-10-{number + 1:02}T0{column}:00:00Z", "jobs": 8})
        lines, plan = [], []
        for name, case in names:
            lines.append(dict(described[case], case=name))
            for test, line in by_case[case].items():
                changes_at = zlib.crc32(f"{name}{test}{column // 2}".encode()) % (4 * len(RELEASES))
                line = others[changes_at % 2].get(test, line) if number >= changes_at else line
                lines.append(moved_result(line, f"{name}.{test.split('.')[1]}", number * 4096 + column))
                plan.append(lines[-1]["test"])
        write_lines(folder / release / f"{gpu.lower().replace(' ', '-')}.jsonl",
                    [environment, {"plan": plan}, *lines, {"end": "complete"}])


def make_hostile(folder, names="hostile_"):
    """Two releases in which every text is an attack, of cases that the catalogue does not have."""
    for release in ("2.6.0", "2.15.0"):
        lines = lines_of(f"{release}/nvidia-h200.jsonl.gz", 120)
        for line in lines:
            for key in HOSTILE_KEYS:
                if line.get(key):  # The reader refuses control characters in a family.
                    line[key] += re.sub(r"[^ -~]", "", HOSTILE) if key == "family" else HOSTILE
            if "culprit" in line:
                line["culprit"] = dict(line["culprit"], api=HOSTILE, thread=HOSTILE, frames=[HOSTILE])
            for key in ("case", "test"):
                if key in line:
                    line[key] = names + line[key]
            if "plan" in line:
                line["plan"] = [names + test for test in line["plan"]]
            if "probes" in line:
                line["probes"] = {HOSTILE: HOSTILE}
        write_lines(folder / release / "hostile.jsonl", lines)


def make_hostile_cases(folder):
    """The same of cases that the catalogue has: the site has a row and a page for each."""
    make_hostile(folder, "")


def write_page(output, make_records=None):
    """The page of records that a function makes, or of those in reports/; and the seconds of a processor that it took,
    which other work on the machine does not change.
    """
    command = [RECAPTURE, "page", "--output", output]
    if output.exists():  # tools/page --keep
        return output, 0.1
    if make_records:
        records = output.with_suffix("")
        make_records(records)
        command += ["--records", records]
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return output, usage.ru_utime + usage.ru_stime


def json_of(*arguments):
    result = subprocess.run([RECAPTURE, *arguments], capture_output=True, text=True)
    return json.loads(result.stdout)


def compare(*sides):
    """What `recapture compare` counts, on which machine, and its exit status."""
    result = subprocess.run([RECAPTURE, "compare", "--json", *sides], capture_output=True, text=True)
    comparison = json.loads(result.stdout)
    figures = {}
    for change in comparison["changes"]:
        figures[change["consequence"]] = figures.get(change["consequence"], 0) + len(change["tests"])
    figures["the same"] = comparison["judged"] - sum(figures.values())
    figures["unknown"] = comparison["unknown"]
    return {word: count for word, count in figures.items() if count}, comparison["machine"], result.returncode

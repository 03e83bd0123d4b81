"""`python -m recapture.gate_pins BASE [-- OPTION...]`: `recapture gate` for a change of a torch pin between BASE and HEAD.

The pins are read from requirements*.txt, constraints*.txt, pyproject.toml, Dockerfiles and Containerfiles that changed: a
requirement of torch with a version or a wheel, an image pytorch/pytorch:VERSION, a variable such as TORCH_VERSION. Of a
range the first bound counts. A pin that comes beside others of its file is compared with the last of them. OPTIONs go to
`recapture gate`. The answer is Markdown of a comment's size, on standard output and, on GitHub, in the job's summary.

Exit status: 0 where no pin changed or the gate passes, else the gate's: 1 blocked, 6 cannot tell. Also 6 for a pin that
is no release (an image of a vendor's, a development build), for one that is removed, for another build of one release
(2.6.0+cu124, 2.6.0+cu126, or the index of another one), and for a range whose first bound stays or is only an upper one;
2 for a wrong command line, 7 where git fails.
"""
from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Tuple

from recapture import _places

PASSES, BLOCKED, USAGE, CANNOT_TELL, UNAVAILABLE = 0, 1, 2, 6, 7  # harness/base/exit.h
MOST_BYTES = 60000  # A comment on GitHub holds 65536 characters.

_FILES = re.compile(r"(?:^|/)(?:requirements[^/]*/[^/]+\.(?:txt|in)|(?:[^/]*requirements|constraints)[^/]*\.(?:txt|in)"
                    r"|pyproject\.toml|[^/]*(?:Dockerfile|Containerfile)[^/]*)$", re.IGNORECASE)
_VERSION = r"v?\d+(?:\.\d+)*[\w.*+]*"
_BOUND = r"(?:===?|~=|!=|>=|<=|<|>|\^)\s*" + _VERSION
_EXACT = r"(v?\d+\.\d+[\w.+]*)"
_PINS = [re.compile(words, re.IGNORECASE) for words in (
    # torch==2.6.0, "torch[opt] ~= 2.6", 'torch (>=2.6,<2.9)', Conda's pytorch=2.5.1; not torchvision, pytorch-lightning
    # or torch-geometric.
    r"(?<![\w./-])(?:py)?torch\s*(?:\[[^\]]*\])?\s*\(?\s*(" + _BOUND + r"(?:\s*,\s*" + _BOUND + ")*)",
    r"(?<![\w./-])(?:py)?torch\s*=\s*" + _EXACT,
    # Poetry's and pixi's: torch = "^2.6", torch = {version = "2.6.0", ...}, torch = [{version = "2.6.0", ...}]
    r"(?<![\w./-])[\"']?(?:py)?torch[\"']?\s*=\s*(?:\[?\s*\{.*?\bversion\s*=\s*)?[\"']\s*((?:" + _BOUND + "|=?" +
    _VERSION + r")(?:\s*,\s*" + _BOUND + ")*)",
    # torch @ https://…/torch-2.6.0%2Bcu124-cp311-cp311-linux_x86_64.whl
    r"(?<![\w-])torch-(\d+\.\d+[a-z0-9.]*(?:(?:%2B|\+)[a-z0-9.]+)?)-",
    r"\bpytorch/pytorch:(v?\d+\.\d+[\w.]*(?:-cuda[\d.]+)?)",
    r"\bpytorch/pytorch(?:\.git)?@v(\d+\.\d+[\w.]*)",
    r"(?<![a-z0-9])(?:PY)?TORCH_?(?:VER(?:SION)?|TAG)\s*[=\s]\s*[\"']?[=~^<>! ]*" + _EXACT,
)]
_HEADER = re.compile(r"\s*\[.*\]\s*(?:#.*)?$")
_TABLE = re.compile(r"\s*\[[\w.\"' -]*\.\s*[\"']?(?:py)?torch[\"']?\s*\]")
_LIST = re.compile(r"\s*[\"']?(?:py)?torch[\"']?\s*=\s*\[")
_FOREIGN = re.compile(r"\b((?:nvidia|rocm)/pytorch:[\w.-]+|pytorch/pytorch@sha256:\w+)", re.IGNORECASE)
# PyTorch's own index of one build: https://download.pytorch.org/whl/cu126. Without it pip takes that of PyPI.
_INDEX = re.compile(r"\bdownload\.pytorch\.org/whl/(?:nightly/|test/)?((?:cpu|cu|rocm|xpu)[\w.]*)")
_RELEASE = re.compile(r"\d+\.\d+(?:\.\d+)?$")


class Change(NamedTuple):
    """A pin that was changed; before or after is "" where there was none."""

    before: str
    after: str


class Problem(Exception):
    pass


def pins_of(line: str) -> List[str]:
    """The torches that a line asks for: "2.6.0" for exactly one, "2.6.0+cu124" or "2.6.0-cuda12.4" for a build of one, a
    range such as ">=2.6,<2.9"."""
    line = re.sub(r"(^|\s)#.*", "", line)
    found = sorted(((match.start(1), match.group(1)) for pattern in _PINS for match in pattern.finditer(line)))
    pins = []
    for _, text in found:
        bounds = [re.sub(r"\s+|\.?\*$", "", bound).rstrip(".").replace("%2B", "+") for bound in text.split(",")]
        is_one = len(bounds) == 1 and bounds[0][0] in "=v0123456789"
        pins.append(bounds[0].lstrip("=v") if is_one else ",".join(bounds))
    return pins or _FOREIGN.findall(line)


def pins_in(text: str) -> List[str]:
    """The torches that a file asks for, in order. In TOML torch may have a table or a list of several lines."""
    pins: List[str] = []
    in_table, depth = False, 0  # Of brackets inside the list.
    for line in text.splitlines():
        start = _LIST.match(line)
        if start:
            line, depth = line[start.end():], 1
        elif depth == 0 and _HEADER.match(line):
            in_table = bool(_TABLE.match(line))
        if depth > 0:
            for part in line.split("{")[1:]:
                pins += pins_of("torch = {" + part)
            depth = max(0, depth + line.count("[") - line.count("]"))
        else:
            pins += pins_of("torch = {" + line if in_table else line)
    return pins


def index_of(text: str) -> str:
    """The builds of torch that a file's indexes have: "cu126", "cpu, cu126"; "PyPI" without one."""
    lines = (re.sub(r"(^|\s)#.*", "", line) for line in text.splitlines())
    return ", ".join(sorted({build for line in lines for build in _INDEX.findall(line)})) or "PyPI"


def release_of(pin: str) -> str:
    """2.6.0 of 2.6.0 and 2.6.0+cu124, 2.6 of >=2.6,<2.9; "" for what names no release, such as 2.6.0a0 and <2.9."""
    version = re.sub(r"^(?:~=|>=|<=|>|\^)v?|(?<=\d)(?:\+|-cuda).*", "", pin.split(",")[0])
    return version if _RELEASE.match(version) else ""


def changes_of(before: List[str], after: List[str]) -> List[Change]:
    """The changes between a file's old pins and its new ones. A pin that only moved, or is there twice, is no change."""
    removed = list((Counter(before) - Counter(after)).elements())
    added = list((Counter(after) - Counter(before)).elements())
    if not added:
        changes = [Change(pin, "") for pin in removed if pin not in after]
    elif not removed:  # A pin beside others may replace them, for example on one platform.
        changes = [Change(before[-1] if before else "", pin) for pin in added if pin not in before]
    else:
        changes = [Change(removed[min(i, len(removed) - 1)], added[min(i, len(added) - 1)])
                   for i in range(max(len(removed), len(added)))]
    return list(dict.fromkeys(changes))


def is_line_of(short: str, release: str) -> bool:
    """Whether `gate` may take both for one release: 2.6 is the newest of 2.6.0, 2.6.1 and so on."""
    return release.startswith(short + ".") and short.count(".") == 1


def git(*words: str) -> str:
    try:
        done = subprocess.run(["git", "-c", "core.quotePath=false", *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    except OSError as error:
        raise Problem("git cannot be started: {}".format(error)) from None
    if done.returncode != 0:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Problem("git {}: {}".format(words[0], why[0] if why else "status {}".format(done.returncode)))
    return done.stdout.decode("utf-8", "replace")


def changes_from(base: str) -> Tuple[Dict[Change, List[str]], Dict[Change, List[str]]]:
    """The changes of pins and those of indexes in HEAD since it left `base`, each with its files; those from it if a
    shallow clone lacks that commit."""
    try:
        git("rev-parse", "--quiet", "--verify", base + "^{commit}")
    except Problem:
        git("fetch", "--quiet", "--depth=1", "origin", base)
    try:
        start = git("merge-base", base, "HEAD").strip()
    except Problem:
        start = base
    words = git("diff", "--name-status", "-z", "--no-ext-diff", "--no-renames", start, "HEAD").split("\0")
    changes: Dict[Change, List[str]] = {}
    builds: Dict[Change, List[str]] = {}
    for status, file in zip(words[::2], words[1::2]):
        if not _FILES.search(file):
            continue
        before = "" if status == "A" else git("cat-file", "blob", "{}:{}".format(start, file))
        after = "" if status == "D" else git("cat-file", "blob", "HEAD:{}".format(file))
        for change in changes_of(pins_in(before), pins_in(after)):
            changes.setdefault(change, []).append(file)
        if status not in "AD" and index_of(before) != index_of(after):
            builds.setdefault(Change(index_of(before), index_of(after)), []).append(file)
    return changes, builds


def gate(before: str, after: str, options: List[str]) -> Tuple[int, str]:
    done = subprocess.run([_places.program(), "gate", before, after, "--markdown", *options], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    text = done.stdout.decode("utf-8", "replace").strip()
    said = done.stderr.decode("utf-8", "replace").strip()
    if said:
        text += "\n\n```\n{}\n```".format(said)
    return done.returncode, text.strip()


def answer(change: Change, options: List[str]) -> Tuple[int, str]:
    if not change.before:
        return PASSES, "{} is pinned for the first time: there are no two releases to compare.".format(change.after)
    if not change.after:
        return CANNOT_TELL, "Cannot tell: {} is no longer pinned.".format(change.before)
    before, after = release_of(change.before), release_of(change.after)
    if not before or not after:
        return CANNOT_TELL, "Cannot tell: {} is not a release of PyTorch, and no record is of it.".format(
            change.after if before else change.before)
    if before == after and change.before[0].isdigit() and change.after[0].isdigit():
        return CANNOT_TELL, "Cannot tell: {} and {} are builds of one release, whose CUDA libraries may differ.".format(*change)
    if before == after or is_line_of(before, after) or is_line_of(after, before):
        return CANNOT_TELL, "Cannot tell which releases {} and {} install; `recapture gate` takes their numbers.".format(
            *change)
    return gate(before, after, options)


def worst(codes: List[int]) -> int:
    """Blocked comes before a failure, and that before "cannot tell"."""
    for code in [BLOCKED] + [c for c in codes if c not in (PASSES, BLOCKED, CANNOT_TELL)] + [CANNOT_TELL]:
        if code in codes:
            return code
    return PASSES


def run(base: str, options: List[str]) -> Tuple[int, str]:
    changes, builds = changes_from(base)
    if not changes and not builds:
        return PASSES, "No pin of torch changed in requirements, constraints, pyproject.toml and Dockerfiles.\n"
    codes, parts = [], []
    for change, files in (changes or builds).items():  # With another release comes another build.
        code, text = answer(change, options) if changes else (
            CANNOT_TELL, "Cannot tell: the CUDA libraries of builds from {} and {} may differ.".format(*change))
        codes.append(code)
        parts.append("### torch {} → {} in {}\n\n{}\n".format(
            change.before or "(none)", change.after or "(none)", ", ".join("`{}`".format(f) for f in files), text))
    text = "\n".join(parts)
    data = text.encode("utf-8")
    if len(data) > MOST_BYTES:
        text = data[:MOST_BYTES].decode("utf-8", "ignore") + "\n\n… the rest is cut off.\n"
    return worst(codes), text


def main(words: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if words is None else words
    options: List[str] = []
    if "--" in words:
        at = words.index("--")
        words, options = words[:at], words[at + 1:]
    parser = argparse.ArgumentParser(prog="python -m recapture.gate_pins", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="the commit, branch or tag that HEAD is compared with")
    parser.add_argument("--summary", metavar="FILE", help="write the answer to this file too")
    chosen = parser.parse_args(words)
    if not chosen.base or chosen.base.startswith("-"):
        parser.error("the base is empty: is this a pull request?")
    try:
        code, text = run(chosen.base, options)
        if isinstance(sys.stdout, io.TextIOWrapper):  # An answer has characters that some terminals cannot encode.
            sys.stdout.reconfigure(errors="backslashreplace")
        print(text, end="")
        for file, mode in ((chosen.summary, "w"), (os.environ.get("GITHUB_STEP_SUMMARY"), "a")):
            if file:
                with open(file, mode, encoding="utf-8") as out:
                    out.write(text)
    except (OSError, Problem) as error:
        print("gate_pins: {}".format(error), file=sys.stderr)
        return UNAVAILABLE
    return code


if __name__ == "__main__":
    sys.exit(main())

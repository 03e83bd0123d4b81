"""`python -m recapture.gate_pins BASE [-- OPTION...]`: `recapture gate` for a change of a torch pin between BASE and HEAD.

The pins are read from every changed file that can install or run something: requirements of any name, lock files, TOML,
YAML, JSON and INI files, Dockerfiles, scripts, CMake, setup.py. A line in which torch stands beside something like a
version is either understood, or the answer is "cannot tell" with its file and line. Prose, source code and comments do
not count, nor do the paths that the policy's `ignore` names. Nothing of the pull request is imported or run. Of a range
the lower bound counts. A pin that comes beside others of its file is compared with the last of them. OPTIONs go to
`recapture gate`; --policy FILE and --features FILE are read as BASE has them. The answer is Markdown of a comment's
size, on standard output and, on GitHub, in the job's summary.

Exit status: 0 where no pin changed or the gate passes, else the gate's: 1 blocked, 6 cannot tell. Also 6 for a pin that
is no release (an image of a vendor's, a commit, a development build), for one that is new or removed, for another build
of one release (2.6.0+cu124, 2.6.0+cu126, or the index of another one), for a range whose lower bound stays, and for a
file that is not understood; 2 for a wrong command line, 7 where git fails.
"""
from __future__ import annotations

import argparse
import fnmatch
import io
import os
import posixpath
import re
import subprocess
import sys
import tempfile
from typing import Dict, List, NamedTuple, Optional, Tuple

from recapture import _places
from recapture._pins import libraries, readers
from recapture._pins.changes import Change, difference, release_of

PASSES, BLOCKED, USAGE, CANNOT_TELL, UNAVAILABLE = 0, 1, 2, 6, 7  # harness/base/exit.h
MOST_BYTES = 60000  # A comment on GitHub holds 65536 characters.
LINK, SUBMODULE = "120000", "160000"  # Modes of git.
MOST_LISTED = 20  # Of lines that are not understood.
NOTHING = "No pin of torch changed.\n"


class Problem(Exception):
    """str() is the line to print."""

    def __init__(self, text: str, code: int = UNAVAILABLE) -> None:
        super().__init__(text)
        self.code = code


class File(NamedTuple):
    """A file of the diff. A mode is "000000" and an object all zeros where the file is not there."""

    old_path: str
    path: str
    modes: Tuple[str, str]
    objects: Tuple[str, str]


def is_line_of(short: str, release: str) -> bool:
    """Whether `gate` may take both for one release: 2.6 is the newest of 2.6.0, 2.6.1 and so on."""
    return release.startswith(short + ".") and short.count(".") == 1


def git(*words: str, stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(["git", "-c", "core.quotePath=false", *words], input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    except OSError as error:
        raise Problem("git cannot be started: {}".format(error)) from None
    if done.returncode != 0:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Problem("git {}: {}".format(words[0], why[0] if why else "status {}".format(done.returncode)))
    return done.stdout


def blob(name: str) -> Optional[bytes]:
    """The content of COMMIT:PATH or of an object; None if there is none."""
    try:
        return git("cat-file", "blob", name)
    except Problem:
        return None


def start_of(base: str) -> str:
    """The commit at which HEAD left `base`; `base` itself if a shallow clone lacks that commit."""
    try:
        git("rev-parse", "--quiet", "--verify", base + "^{commit}")
    except Problem:
        git("fetch", "--quiet", "--depth=1", "origin", base)
    try:
        return git("merge-base", base, "HEAD").decode().strip()
    except Problem:
        return base


def changed_files(*sides: str) -> List[File]:
    text = git("diff", "--raw", "-z", "--no-abbrev", "--no-ext-diff", "--find-renames", *sides).decode("utf-8", "surrogateescape")
    words, files = text.split("\0"), []
    at = 0
    while at + 1 < len(words):
        old_mode, mode, old_object, new_object, status = words[at].lstrip(":").split(" ")
        is_rename = status[0] in "RC"
        files.append(File(words[at + 1], words[at + 2 if is_rename else at + 1], (old_mode, mode), (old_object, new_object)))
        at += 3 if is_rename else 2
    return files


def contents_of(objects: List[str]) -> Dict[str, bytes]:
    """The content of each object; of one that is too large, as many zeros as it has bytes, at most one more than allowed."""
    wanted = sorted({name for name in objects if name.strip("0")})
    listed = git("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(wanted).encode()) if wanted else b""
    sizes = listed.decode().splitlines()
    large = {line.split()[0] for line in sizes if not line.split()[1].isdigit() or int(line.split()[1]) > readers.MOST_BYTES}
    contents = {name: b"torch" + bytes(readers.MOST_BYTES) for name in large}
    small = [name for name in wanted if name not in large]
    stream = io.BytesIO(git("cat-file", "--batch", stdin="\n".join(small).encode()) if small else b"")
    for name in small:
        header = stream.readline().split()
        contents[name] = stream.read(int(header[2]))
        stream.read(1)
    return contents


def code_of(text: str) -> str:
    """A path or a text of the pull request as inline code of Markdown, on one line."""
    plain = "".join(each if each.isprintable() and each != "`" else "?" for each in text.encode("utf-8", "replace").decode())
    return "`{}`".format(plain[:300])


class Found:
    """What a diff changes: each change with its places, and what is not understood."""

    def __init__(self) -> None:
        self.changes: Dict[Change, List[str]] = {}
        self.builds: Dict[Change, List[str]] = {}
        self.not_understood: List[str] = []
        self.ignored: List[str] = []


def place_of(path: str, line: int) -> str:
    return code_of("{}:{}".format(path, line) if line else path)


def has_no_torch(commit: str, including: str, text: str) -> bool:
    """Whether the file of requirements that a line names is there, and neither it nor a further one is about torch."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(including), text.split()[-1]))
    data = blob("{}:{}".format(commit, target))
    return data is not None and not re.search(rb"torch|^\s*(?:-r|-c|--req|--con)", data, re.IGNORECASE | re.MULTILINE)


def find_changes(old: str, new: str, files: List[File], ignore: List[str]) -> Found:
    """`old` and `new` name the commits for what a file includes; "" is the index."""
    found = Found()
    kept = []
    for file in files:
        if any(is_under(file.path, pattern) and is_under(file.old_path, pattern) for pattern in ignore):
            found.ignored.append(file.path)
        elif SUBMODULE in file.modes:
            if re.search("torch$", file.path, re.IGNORECASE):
                found.not_understood.append("{}: a submodule, whose commit is not a release".format(code_of(file.path)))
        elif may_be_read(file):
            kept.append(file)
    contents = contents_of([name for file in kept for name in file.objects])
    moved: Dict[Change, List[str]] = {}
    for file in kept:
        before, after = (contents.get(name, b"") for name in file.objects)
        if file.modes[0] == LINK:
            before = behind_link(old, file.old_path, before)
        if file.modes[1] == LINK:
            after = behind_link(new, file.path, after)
        result = difference(file.old_path, before, file.path, after)
        for change, line in result.changes.items():
            if not change.after and not re.search(b"torch", after, re.IGNORECASE):
                moved.setdefault(Change("", change.before), []).append(place_of(file.path, line))
            else:
                found.changes.setdefault(change, []).append(place_of(file.path, line))
        if result.builds and not result.changes:  # With another release comes another build.
            found.builds.setdefault(result.builds[0], []).append(place_of(file.path, result.builds[1]))
        for line, text in result.not_understood:
            is_removed = text.startswith("removed: ")
            if re.match(r"(?:removed: )?(?:-r|-c|--requirement|--constraint) ", text) and has_no_torch(
                    old if is_removed else new, file.old_path if is_removed else file.path, text):
                continue
            found.not_understood.append("{}: {}".format(place_of(file.path, line), code_of(text)))
    for change, places in moved.items():  # A pin that left one file, and torch with it, for another file is no change.
        if not found.changes.pop(change, []):
            found.changes[Change(change.after, "")] = places
    return found


def behind_link(commit: str, path: str, target: bytes) -> bytes:
    """What a symbolic link stands for; of one that leads out of the tree, its target itself."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target.decode("utf-8", "surrogateescape")))
    data = blob("{}:{}".format(commit, place))
    return b"torch @ file:" + target if data is None else data


def may_be_read(file: File) -> bool:
    """By its name alone. A script may have any name without a dot."""
    return any("." not in posixpath.basename(path) or readers.reader_of(path, "torch==0\n") for path in (file.old_path, file.path))


def is_under(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern of `ignore`: * is any text, with / too, and a folder has all that is in it."""
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, pattern.rstrip("/") + "/*")


def gate(before: str, after: str, options: List[str]) -> Tuple[int, str]:
    done = subprocess.run([_places.program(), "gate", before, after, "--markdown", *options], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    text = done.stdout.decode("utf-8", "replace").strip()
    said = done.stderr.decode("utf-8", "replace").strip()
    if said:
        text += "\n\n```\n{}\n```".format(said)
    return done.returncode, text.strip()


def reason_of(change: Change) -> str:
    """Why `gate` cannot be asked; empty if it can."""
    if not change.before:
        return "{} is pinned for the first time: which release ran before is not known.".format(change.after)
    if not change.after:
        return "{} is no longer pinned.".format(change.before)
    before, after = release_of(change.before), release_of(change.after)
    if not before or not after:
        return "{} is not a release of PyTorch, and no record is of it.".format(change.after if before else change.before)
    if before == after and change.before[0].isdigit() and change.after[0].isdigit():
        return "{} and {} are builds of one release, whose CUDA libraries may differ.".format(*change)
    if before == after or is_line_of(before, after) or is_line_of(after, before):
        return "which releases {} and {} install; `recapture gate` takes their numbers.".format(*change)
    return ""


def plain(text: str) -> str:
    return code_of(text).strip("`")


def answers_of(found: Found, options: List[str]) -> Tuple[List[int], List[str]]:
    codes, parts = [], []
    asked: Dict[Change, Tuple[List[str], List[str]]] = {}
    for change, places in found.changes.items():
        reason = reason_of(Change(*map(plain, change)))
        if not reason:
            releases = Change(release_of(change.before), release_of(change.after))
            texts, all_places = asked.setdefault(releases, ([], []))
            texts.append("{} → {}".format(*change))
            all_places += [place for place in places if place not in all_places]
            continue
        codes.append(CANNOT_TELL)
        parts.append("### torch {} → {} in {}\n\nCannot tell{} {}\n".format(
            plain(change.before) or "(none)", plain(change.after) or "(none)", ", ".join(places),
            "" if reason.startswith("which") else ":", reason))
    for releases, (texts, places) in asked.items():
        code, text = gate(*releases, options)
        codes.append(code)
        title = texts[0] if len(texts) == 1 else "{} → {}".format(*releases)
        parts.append("### torch {} in {}\n\n{}\n".format(title, ", ".join(places), text))
    for change, places in found.builds.items():
        codes.append(CANNOT_TELL)
        parts.append("### torch {} → {} in {}\n\nCannot tell: the CUDA libraries of builds from {} and {} may differ.\n".format(
            *change, ", ".join(places), *change))
    if found.not_understood:
        codes.append(CANNOT_TELL)
        more = len(found.not_understood) - MOST_LISTED
        lines = ["- " + each for each in found.not_understood[:MOST_LISTED]] + (["- and {} more".format(more)] if more > 0 else [])
        parts.append("### torch beside something like a version\n\nCannot tell whether these change a pin; the policy's `ignore` "
                     "takes paths that do not matter.\n\n{}\n".format("\n".join(lines)))
    return codes, parts


def worst(codes: List[int]) -> int:
    """Blocked comes before a failure, and that before "cannot tell"."""
    for code in [BLOCKED] + [c for c in codes if c not in (PASSES, BLOCKED, CANNOT_TELL)] + [CANNOT_TELL]:
        if code in codes:
            return code
    return PASSES


class Options:
    """The options of `recapture gate`, with the files of --policy and --features as the base commit has them."""

    def __init__(self, words: List[str], base: str, start: str, head: str, folder: str) -> None:
        self.words: List[str] = []
        self.notes: List[str] = []
        self.policy: Optional[bytes] = None
        at = 0
        while at < len(words):
            option, equals, value = words[at].partition("=")
            at += 1
            if option == "--without":
                raise Problem("--without cannot be used here: `without` belongs into the policy, which the base commit has", USAGE)
            if option not in ("--policy", "--features") or not (equals or at < len(words)):
                self.words.append(words[at - 1])
                continue
            if not equals:
                value, at = words[at], at + 1
            value = self._as_the_base_has_it(value, base, start, head, folder)
            self.words += [option, value] if value else []
            if option == "--policy" and value:
                try:
                    with open(value, "rb") as file:
                        self.policy = file.read()
                except OSError as error:
                    raise Problem("the policy cannot be read: {}".format(error), USAGE) from None

    def _as_the_base_has_it(self, value: str, base: str, start: str, head: str, folder: str) -> str:
        top = os.path.realpath(git("rev-parse", "--show-toplevel").decode().rstrip("\n"))
        path = os.path.relpath(os.path.join(os.path.realpath(os.path.dirname(value) or "."), os.path.basename(value)), top)
        if path.startswith(".."):
            return value  # No pull request changes what is not in the repository.
        old, left, new = blob("{}:{}".format(base, path)), blob("{}:{}".format(start, path)), blob("{}:{}".format(head, path))
        if old is None and new is None:
            return value
        if left != new:
            self.notes.append("{} is {} by this pull request. That holds from the merge on; here {}.".format(
                code_of(path), "added" if left is None else "removed" if new is None else "changed",
                "no such file holds" if old is None else "the file of the base holds"))
            self.notes[-1] += self._lines_that_changed(left or b"", new or b"")
        if old is None:
            return ""
        place = os.path.join(folder, os.path.basename(path))
        with open(place, "wb") as file:
            file.write(old)
        return place

    @staticmethod
    def _lines_that_changed(old: bytes, new: bytes) -> str:
        lines = [(sign, data.decode("utf-8", "replace").splitlines()) for sign, data in (("-", old), ("+", new))]
        others = [set(lines[1][1]), set(lines[0][1])]
        changed = [sign + " " + line for (sign, own), other in zip(lines, others) for line in own if line not in other and line.strip()]
        return "".join("\n  - " + code_of(line) for line in changed[:MOST_LISTED])

    def ignore(self) -> List[str]:
        if self.policy is None or b"ignore" not in self.policy:
            return []
        try:
            library = libraries.toml()
            patterns = library.loads(self.policy.decode("utf-8", "replace")).get("ignore", [])
        except libraries.Missing as error:
            self.notes.append("The policy's `ignore` is not read: {}.".format(error))
            return []
        except ValueError as error:
            raise Problem("the policy is not valid TOML: {}".format(error), USAGE) from None
        if not isinstance(patterns, list) or not all(isinstance(each, str) and each for each in patterns):
            raise Problem("the policy's ignore is not a list of paths", USAGE)
        return patterns


def run(base: str, words: List[str], is_staged: bool = False) -> Tuple[int, str]:
    """The exit status and the answer for HEAD since it left `base`, or for what is staged since HEAD."""
    with tempfile.TemporaryDirectory(prefix="recapture-") as folder:
        start = "HEAD" if is_staged else start_of(base)
        head = "" if is_staged else "HEAD"
        options = Options(words, base, start, head, folder)
        files = changed_files(*(["--cached", "HEAD"] if is_staged else [start, "HEAD"]))
        found = find_changes(start, head, files, options.ignore())
        codes, parts = answers_of(found, options.words)
    if not parts:
        parts = [NOTHING]
    if found.ignored:
        options.notes.append("By the policy's `ignore`, {} changed {} not read: {}{}".format(
            len(found.ignored), "file was" if len(found.ignored) == 1 else "files were",
            ", ".join(code_of(path) for path in found.ignored[:MOST_LISTED]), ", …" if len(found.ignored) > MOST_LISTED else "."))
    notes = "\n".join("- " + note for note in options.notes) + "\n" if options.notes else ""
    text = "\n".join(parts)
    data = text.encode("utf-8", "replace")
    if len(data) > MOST_BYTES:
        text = data[:MOST_BYTES].decode("utf-8", "ignore") + "\n\n… the rest is cut off.\n"
    return worst(codes), text + ("\n" + notes if notes else "")


def main(words: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if words is None else words
    options: List[str] = []
    if "--" in words:
        at = words.index("--")
        words, options = words[:at], words[at + 1:]
    parser = argparse.ArgumentParser(prog="python -m recapture.gate_pins", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", help="the commit, branch or tag that HEAD is compared with")
    parser.add_argument("--staged", action="store_true", help="compare what is staged with HEAD, as before a commit")
    parser.add_argument("--summary", metavar="FILE", help="write the answer to this file too")
    chosen = parser.parse_args(words)
    if chosen.staged and chosen.base is not None:
        parser.error("--staged takes no base")
    if not chosen.staged and (not chosen.base or chosen.base.startswith("-")):
        parser.error("the base is empty: is this a pull request?")
    try:
        code, text = run("HEAD" if chosen.staged else chosen.base, options, chosen.staged)
        if isinstance(sys.stdout, io.TextIOWrapper):  # An answer has characters that some terminals cannot encode.
            sys.stdout.reconfigure(errors="backslashreplace")
        print(text, end="")
        for file, mode in ((chosen.summary, "w"), (os.environ.get("GITHUB_STEP_SUMMARY"), "a")):
            if file:
                with open(file, mode, encoding="utf-8", errors="replace") as out:
                    out.write(text)
    except Problem as error:
        print("gate_pins: {}".format(error), file=sys.stderr)
        return error.code
    except OSError as error:
        print("gate_pins: {}".format(error), file=sys.stderr)
        return UNAVAILABLE
    return code


if __name__ == "__main__":
    sys.exit(main())

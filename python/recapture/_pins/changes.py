"""What changed between two versions of a file: pins, builds, and what is not understood."""
from __future__ import annotations

import re
from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Tuple

from recapture._pins import libraries, readers
from recapture._pins.words import BUILD, PIN, UNKNOWN, Mention


class Change(NamedTuple):
    """A pin that was changed; before or after is "" where there was none."""

    before: str
    after: str


class Difference(NamedTuple):
    """Of one file. Each change has the line where it is now, or where it was."""

    changes: Dict[Change, int]
    builds: Optional[Tuple[Change, int]]
    not_understood: List[Tuple[int, str]]  # The line, 0 for the file as such, and what stands there.


_RELEASE = re.compile(r"\d+\.\d+(?:\.\d+)?$")


def release_of(pin: str) -> str:
    """2.6.0 of 2.6.0 and 2.6.0+cu124, 2.6 of >=2.6,<2.9; "" for what names no release, such as 2.6.0a0 and <2.9."""
    version = re.sub(r"^(?:~=|>=|>|\^)v?|(?<=\d)(?:\+|-cuda|=).*", "", pin.split(",")[0])
    return version if _RELEASE.match(version) else ""


_MACHINES = (("linux", "Linux", "x86_64"), ("linux", "Linux", "aarch64"), ("darwin", "Darwin", "arm64"), ("darwin", "Darwin", "x86_64"),
             ("win32", "Windows", "AMD64"))
_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")


def _moved(old: List[Tuple[str, str]], new: List[Tuple[str, str]]) -> List[Tuple[str, str]]:
    """The changes where the same pins, each a marker and its text, now stand under other markers or in another order: by
    the markers' values on usual systems; where these cannot be evaluated, every pin whose place another one took."""
    if not any(context for context, _ in old + new):
        return [(a[1], b[1]) for a, b in zip(old, new) if a[1] != b[1]]
    try:
        library = libraries.markers()
        sides = [[([library.Marker(each) for each in context.split(" | ")] if context else [], text) for context, text in side]
                 for side in (old, new)]
        pairs: List[Tuple[str, str]] = []
        for python in _PYTHONS:
            for platform, system, machine in _MACHINES:
                values = {"python_version": python, "python_full_version": python + ".1", "sys_platform": platform,
                          "platform_system": system, "platform_machine": machine, "os_name": "nt" if system == "Windows" else "posix",
                          "extra": ""}
                before, after = ([text for markers, text in side if not markers or any(each.evaluate(values) for each in markers)]
                                 for side in sides)
                if before and after and Counter(before) != Counter(after):
                    pairs.append((before[0], after[0]) if before[0] != after[0] else (before[-1], after[-1]))
        return list(dict.fromkeys(pairs))
    except (libraries.Missing, ValueError):
        return [(a[1], b[1]) for a, b in zip(old, new) if a[1] != b[1]] or [(old[0][1], old[-1][1])]


def changes_of(before: List[Mention], after: List[Mention]) -> Dict[Change, int]:
    """The changes between a file's old pins and its new ones. A pin that is there twice, or stands on another line, is
    no change; two pins that changed places are one, because each may be for a platform of its own."""
    old, new = [(pin.context, pin.text) for pin in before], [(pin.context, pin.text) for pin in after]
    lines = {pin.text: pin.line for pin in before}
    lines.update({pin.text: pin.line for pin in after})
    if old == new:
        return {}
    olds, news = [text for _, text in old], [text for _, text in new]
    pairs: List[Tuple[str, str]] = []
    if Counter(olds) == Counter(news):
        if len(set(olds)) < 2 or (Counter(old) == Counter(new) and any(context for context, _ in old)):
            return {}
        return {Change(*pair): lines[pair[1]] for pair in _moved(old, new)}
    for context in dict.fromkeys(context for context, _ in old if context):  # The same platform first.
        of_old = list((Counter(o for o in old if o[0] == context) - Counter(new)).elements())
        of_new = list((Counter(n for n in new if n[0] == context) - Counter(old)).elements())
        if len(of_old) == 1 and len(of_new) == 1:
            pairs.append((of_old[0][1], of_new[0][1]))
            olds.remove(of_old[0][1])
            news.remove(of_new[0][1])
    removed = list((Counter(olds) - Counter(news)).elements())
    added = list((Counter(news) - Counter(olds)).elements())
    known = [pin.text for pin in before]
    kept = [pin.text for pin in after]
    if not added:
        pairs += [(pin, "") for pin in removed if pin not in kept]
    elif not removed:  # A pin beside others may replace them, for example on one platform.
        pairs += [(known[-1] if known else "", pin) for pin in added if pin not in known]
    else:
        pairs += [(removed[min(i, len(removed) - 1)], added[min(i, len(added) - 1)]) for i in range(max(len(removed), len(added)))]
    return {Change(*pair): lines[pair[1] or pair[0]] for pair in pairs}


def _read(path: str, data: bytes, wrong: List[Tuple[int, str]]) -> Optional[List[Mention]]:
    try:
        return readers.read(path, data)
    except readers.Unreadable as error:
        wrong.append((0, str(error)))
        return None


def difference(old_path: str, old: bytes, path: str, new: bytes) -> Difference:
    """What a file's new version changes; the old one is b"" for a new file, and the new one for a removed file."""
    wrong: List[Tuple[int, str]] = []
    before, after = _read(old_path, old, wrong), _read(path, new, wrong)
    if before is None or after is None:
        if max(len(old), len(new)) > readers.MOST_BYTES:
            return Difference({}, None, wrong[:1])
        lines = [readers.read_lines(readers.text_of(data)) for data in (old, new)]
        found = _not_understood(*lines)
        is_template = before is None and after is None and not path.endswith((".toml", ".json", ".lock"))
        if found or not is_template:
            found = [(line, "{} ({})".format(text, wrong[0][1])) for line, text in found] or wrong[:1]
        return Difference({}, None, found)
    pins = [[mention for mention in mentions if mention.kind == PIN] for mentions in (before, after)]
    builds = [sorted({mention.text for mention in mentions if mention.kind == BUILD}) for mentions in (before, after)]
    built = None
    if builds[0] != builds[1] and old and new:
        line = next((mention.line for mention in after + before if mention.kind == BUILD
                     and (mention.text in builds[0]) != (mention.text in builds[1])), 0)
        built = Change(*(", ".join(each) or "PyPI" for each in builds)), line
    return Difference(changes_of(*pins), built, _not_understood(before, after))


def _not_understood(before: List[Mention], after: List[Mention]) -> List[Tuple[int, str]]:
    """What stands in one version alone; a line of the old one has its number there."""
    old, new = (Counter(mention.text + mention.context for mention in mentions if mention.kind == UNKNOWN) for mentions in (before, after))
    found: Dict[str, Tuple[int, str]] = {}
    for mentions, more, fewer, word in ((after, new, old, "{}"), (before, old, new, "removed: {}")):
        for mention in mentions:
            key = mention.text + mention.context
            if mention.kind == UNKNOWN and more[key] > fewer[key]:
                found.setdefault(key, (mention.line, word.format(mention.text)))
    return list(found.values())

"""What one line says of torch: a pin, an index of builds, or something beside a version that is not understood.

The name may be torch, pytorch or libtorch. Other packages (torchvision, torch-geometric, funsor[torch]), paths, modules,
hosts and references to a variable are no mention.
"""
from __future__ import annotations

import re
import string
from typing import Iterator, List, NamedTuple, Optional, Tuple

from recapture._pins import libraries

PIN, BUILD, UNKNOWN = "pin", "build", "unknown"
MOST_CHARACTERS = 65536  # Of a line.


class Mention(NamedTuple):
    """`text` of a pin is "2.6.0" for one release, "2.6.0+cu124", "2.6.0-cuda12.4" or "2.6.0=py311" for one build of it,
    ">=2.6,<2.9" for a range, else what names no release, such as "nvidia/pytorch:25.03-py3"; of a build an index or what
    chooses one; of the unknown what stands there. `context` is the platform or the marker that a pin is for."""

    kind: str
    text: str
    line: int
    context: str = ""


NAMES = frozenset(("torch", "pytorch", "libtorch", "pytorch-gpu", "pytorch-cpu", "torch-cpu"))
# Of a variable's name beside "torch": it holds a version, or what chooses one.
_VERSION_WORDS = frozenset(
    "version versions ver release releases tag tags pin pinned base min max minimum maximum lowest highest oldest latest stable "
    "default spec required target new old current test tests ci pip package pkg wheel docker image py matrix env inputs vars "
    "arg args build nightly".split())
_PART_WORDS = frozenset(("major", "minor", "patch"))
_SOURCE_WORDS = frozenset(("commit", "sha", "ref", "branch", "rev", "revision", "url", "image", "wheel", "digest", "hash"))
# Of a name beside "torch": another package, or a setting that is no version.
_OTHER_WORDS = frozenset(
    "arch archs list geometric lightning scatter sparse cluster spline conv npu xla tensorrt trt ort directml audio vision "
    "text data ignite metrics forecasting fidelity optimizer optimizers model summary ema lr pruning timeout alloc conf nccl "
    "logs log dtype compile threads fused 8bit 4bit engine triton sphinx theme bin utils stubs".split())
_VERSION = r"v?\d+(?:\.\d+)+[\w.+*!]*(?:-[\w.+-]+)?"
_BOUND = r"(?:===?|~=|!=|>=|<=|<|>|\^)\s*v?\d[\w.*+!]*"
_BOUNDS = _BOUND + r"(?:\s*,\s*" + _BOUND + r")*"
_QUOTES = r"[\"'`]?"
_CHARACTERS = frozenset(string.ascii_letters + string.digits + "_.+%-")
_ANY = re.compile("torch", re.IGNORECASE)
_EXTRAS = re.compile(r"(?<=[\w.])\[[\w\s,.-]{1,200}\]")
_HOST = re.compile(r"(?:^|\.)pytorch\.(?:org|com)$")
_INDEX = re.compile(r"download\.pytorch\.org/whl/((?:nightly/|test/)?(?:cpu|cu|rocm|xpu)[\w.]{0,20})")
_BACKEND = re.compile(r"torch[-_]backend[\"']?\s{0,3}[:= ]\s{0,3}[\"']?(cpu|auto|cu\d+|rocm[\d.]+|xpu)\b", re.IGNORECASE)
_REFERENCE = re.compile(r"(?:\$|\$[{(]{1,2}\s*|\{\{-?\s*)$")
_DEFAULT = re.compile(r":?[-=]\s*" + _QUOTES + "(" + _VERSION + ")")
_COMPARED = re.compile(r"[}\s\"')\]]{0,6}(?:==?|!=|=~|<=?|>=?|-eq|-lt|-ge)\s*[\"'^]{0,2}(" + _VERSION + ")")
_FILE = re.compile(r"^(?:py|lib)?torch(?:-(?:gpu|cpu|win|macos|x86_64|arm64|linux|cxx11|abi|shared|static|with|without|deps|debug))*"
                   r"[-_]v?(\d+\.\d+[\w.]*(?:(?:\+|%2b)[\w.]+)?)(.*)$", re.IGNORECASE)
_INSIDE = re.compile(r"(?:py|lib)?torch[-_]?v?(?:\d+[._]\d+|\d{2,3}(?![\w]))")
_ARTIFACT = re.compile(r"\.(?:whl|tar\.gz|tgz|zip|conda|tar\.bz2|json|ya?ml|toml|pth?|bin|py|sh|txt|md|patch|xml|log|csv|so)$")
_ARCHIVE = re.compile(r"(?:\.git)?/(?:(?:archive|tarball|zipball|tree|blob|raw|releases/(?:download|tag))/)?(?:refs/(?:tags|heads)/)?"
                      r"v?(\d+\.\d+[\w.+-]*?)(?:\.tar\.gz|\.zip|/|[\s\"')]|$)")
_SNAPSHOT = re.compile(r"(?:\.git)?/(?:archive|tarball|zipball)/(?:refs/heads/)?([\w.-]{3,60})")
_TAG = re.compile(r":([\w][\w.-]{0,127})|@(sha256:\w{1,80})")
_REF = re.compile(r"(?:\.git)?@([\w./+-]{1,100})")
_CHECKOUT = re.compile(r"(?:\s-b|--branch|\bGIT_TAG|\bcheckout|--tag|--revision)[\s=]+[\"']?([\w./+-]{1,100})")
_REQUIREMENT = re.compile(r"\s{0,8}(?:\[[\w\s,.-]{0,100}\])?\s{0,8}\(?\s{0,8}(" + _BOUNDS + ")")
_ASSIGNED = re.compile(_QUOTES + r"\s{0,40}(?:[:?]?=|:)\s{0,8}[\"'\[{(]{0,3}\s{0,3}" + _QUOTES
                       + "(?:(" + _BOUNDS + ")|=?(" + _VERSION + r"(?:=[\w.*]+)?))")
_SPACED = re.compile(r"\s{1,8}" + _QUOTES + "(" + _VERSION + ")")
_NUMBER = re.compile(_QUOTES + r"\s{0,40}(?:[:?]?=|:)\s{0,8}[\"'\[]{0,2}(\d+)(?![\w.])")
_SOURCE = re.compile(_QUOTES + r"\s{0,40}(?:[:?]?=|:)\s{0,8}" + _QUOTES + r"([\w./:@+%-]{3,200})")
_UNRESOLVED = re.compile(r"\s{0,8}(?:\[[\w\s,.-]{0,100}\])?\s{0,8}" + _QUOTES + r"(?:[=<>~!]{1,3}|:)\s{0,8}"
                         + _QUOTES + r"v?[\d.,<>=~!*]{0,40}[${]\S{0,100}")
_BESIDE = re.compile(r"[^\s/.,;]\S{0,60}?\d+\.\d+\S{0,40}")
_OPERATOR = re.compile(r"\s{0,8}(?:\[[\w\s,.-]{0,100}\])?\s{0,8}\(?\s{0,8}(?:===?|~=|!=|>=|<=|<|>|\^)|\s+@\s")
_TYPED = re.compile(_QUOTES + r"\s{0,40}[:=]?\s{0,8}[\"'\[]{0,2}v?\d+\.\d+[\w.+*-]*")
_RUNS_IMAGES = re.compile(r"\bFROM\b|image|docker|podman|apptainer|singularity", re.IGNORECASE)
_URL = re.compile(r"\s+@\s+(\S{1,500})")


def specification(text: str) -> str:
    """The text of a pin from a version or from bounds as any tool writes them."""
    text = text.strip().strip("\"'").replace("%2B", "+").replace("%2b", "+")
    if text.startswith("="):
        text = text.lstrip("=").strip() if not any(c in text[1:] for c in "<>~!,") else text
    if text[:1] == "^" or not any(c in text for c in "<>~!,"):
        caret = "^" if text[:1] == "^" else ""
        text = re.sub(r"-(?:runtime|devel)$", "", text.lstrip("^v ").strip())
        return caret + re.sub(r"\.?\*$", "", text).rstrip(".")
    try:
        found = [(each.operator, each.version) for each in libraries.specifiers().SpecifierSet(text)]
    except libraries.specifiers().InvalidSpecifier:
        return re.sub(r"\s+", "", text)
    if len(found) == 1 and found[0][0] in ("==", "==="):
        return re.sub(r"\.?\*$", "", found[0][1].lstrip("v"))
    order = (">=", ">", "~=", "==", "===", "!=", "<=", "<")
    return ",".join(sorted((o + v.lstrip("v") for o, v in found), key=lambda bound: (order.index(bound.rstrip(
        string.digits + string.ascii_letters + ".*+!-_")), bound)))


def _words_of(text: str) -> Iterator[Tuple[int, int]]:
    end = 0
    for found in _ANY.finditer(text):
        if found.start() < end:
            continue
        start, stop = found.start(), found.end()
        while start > end and text[start - 1] in _CHARACTERS:
            start -= 1
        while stop < len(text) and text[stop] in _CHARACTERS:
            stop += 1
        end = stop
        while text[start] in "-.+%":
            start += 1
        while text[stop - 1] in "-.+%":
            stop -= 1
        yield start, stop


def _without_foreign_extras(text: str) -> str:
    def replace(found: "re.Match[str]") -> str:
        name = re.search(r"[\w.-]{1,80}$", text[max(0, found.start() - 80):found.start()])
        is_torch = name is not None and name.group(0).lower() in NAMES
        return found.group(0) if is_torch or "torch" not in found.group(0).lower() else ""
    return _EXTRAS.sub(replace, text)


def _version_of(ref: str) -> str:
    found = re.fullmatch(r"(?:refs/tags/)?v?(\d+\.\d+[\w.]*)", ref)
    return found.group(1) if found else ""


def _image(name: str, before: str, after: str) -> Optional[str]:
    tag = _TAG.match(after)
    if not tag or not name.endswith("torch") or name == "libtorch":
        return None
    space = re.search(r"([\w.-]{1,100})/$", before)
    text = tag.group(1) or "@" + tag.group(2)
    if (space is None or space.group(1) == "pytorch") and re.match(_VERSION, text):
        return specification(text)
    if space is None:
        return None
    return "{}/{}{}".format(space.group(1), name, text if text[0] == "@" else ":" + text)


def _git(line: str, before: str, after: str) -> Optional[str]:
    """The pin in a use of PyTorch's repository."""
    found = _ARCHIVE.match(after)
    if found:
        return found.group(1)
    found = _REF.match(after) or _SNAPSHOT.match(after) or _CHECKOUT.search(line)
    if found:
        return _version_of(found.group(1)) or "pytorch@" + found.group(1)
    return "pytorch@(its default branch)" if "git+" in before[-60:] else None


def _exact(name: str, line: str, before: str, after: str) -> Optional[Tuple[str, str]]:
    """The mention of a word that is torch's own name."""
    if name.startswith("pytorch") and before.endswith(("pytorch/", "pytorch/pytorch/")) and not _TAG.match(after):
        text = _git(line, before, after)
        return (PIN, text) if text else None
    if name == "pytorch" and after.startswith("/"):
        return None  # An organization or a folder.
    image = _image(name, before, after)
    if image:
        return PIN, image
    url = _URL.match(after)
    if url:
        return None if "torch" in url.group(1).lower() else (PIN, "torch @ " + url.group(1))
    if _UNRESOLVED.match(after) and (after[0] != ":" or after[1:2] == " " or _RUNS_IMAGES.search(line)):
        return UNKNOWN, name + re.match(r"[^\n]{0,160}", after).group(0).strip()  # type: ignore[union-attr]
    found = _REQUIREMENT.match(after)
    if found:
        return PIN, specification(found.group(1))
    found = _ASSIGNED.match(after)
    if found:
        return PIN, specification(found.group(1) or found.group(2))
    found = _SPACED.match(after)
    if found:
        return UNKNOWN, name + " " + found.group(1)
    found = _BESIDE.match(after)
    return (UNKNOWN, name + found.group(0)) if found else None


def _variable(name: str, parts: List[str], after: str) -> Optional[Tuple[str, str]]:
    """The mention of a variable such as TORCH_VERSION, pytorch-version or TORCH_COMMIT."""
    if "__version__" in name:
        found = _COMPARED.match(after) or _SPACED.match(after)
        return (UNKNOWN, name + found.group(0)) if found else None
    found = _ASSIGNED.match(after)
    if found:
        return PIN, specification(found.group(1) or found.group(2))
    found = _SPACED.match(after)
    if found:
        return UNKNOWN, name + " " + found.group(1)
    found = _NUMBER.match(after) or (_SOURCE.match(after) if _SOURCE_WORDS & set(parts) else None)
    if found:
        return None if _INDEX.search(found.group(1)) else (UNKNOWN, "{}={}".format(name, found.group(1)))
    found = _BESIDE.match(after)
    return (UNKNOWN, name + found.group(0)) if found else None


def _mention(line: str, start: int, stop: int) -> Optional[Tuple[str, str]]:
    word, before, after = line[start:stop], line[max(0, start - 200):start], line[stop:stop + 400]
    name = word.lower()
    if name.endswith(".git"):
        name, after = name[:-4], ".git" + after
    host = name.rsplit("@", 1)[-1]
    if _HOST.search(host):
        return None
    parts = [part for part in re.split(r"[-_.]+", re.sub("^((?:py|lib)?torch)(ver|version|tag)$", r"\1-\2", name)) if part]
    rest = [part for part in parts if part not in ("torch", "pytorch", "libtorch")]
    is_variable = len(rest) < len(parts) and all(part in _VERSION_WORDS | _PART_WORDS | _SOURCE_WORDS for part in rest)
    if _REFERENCE.search(before):
        found = _DEFAULT.match(after) if is_variable else None
        if found:
            return PIN, specification(found.group(1))
        found = _COMPARED.match(after) if is_variable else None
        return (UNKNOWN, name + found.group(0)) if found else None
    if name in NAMES:
        return _exact(name, line, before, after)
    if name == "pytorch-cuda":
        found = _TYPED.match(after) or _OPERATOR.match(after)
        said = re.match(r"[\s\"']*[=<>~!]*[\s\"']*[\w.*]*", after).group(0)  # type: ignore[union-attr]
        return (BUILD, name + re.sub(r"[\s\"']+", "", said)) if found else None
    found = _FILE.match(word)
    if found:
        build = re.match(r"-([\w.]+?)\.(?:conda|tar\.bz2)$", found.group(2))
        return PIN, specification(found.group(1)) + ("=" + build.group(1) if build else "")
    if is_variable:
        return _variable(name, parts, after)
    if _INSIDE.search(name):
        return None if _ARTIFACT.search(name) else (UNKNOWN, word)
    if len(rest) == len(parts) or _OPERATOR.match(after) or _OTHER_WORDS & set(rest):
        return None
    found = _TYPED.match(after)
    return (UNKNOWN, word + found.group(0)) if found else None


def mentions_of(text: str, line: int = 0, context: str = "") -> List[Mention]:
    """The mentions in a line of a script or of a value, without its comment."""
    if not _ANY.search(text):
        return []
    if len(text) > MOST_CHARACTERS:
        return [Mention(UNKNOWN, "a line of {} characters".format(len(text)), line, str(hash(text)))]
    text = _without_foreign_extras(text)
    found = [_mention(text, start, stop) for start, stop in _words_of(text)]
    mentions = [Mention(each[0], re.sub(r"\s+", " ", each[1])[:200], line, context) for each in found if each]
    builds = [build for pattern in (_INDEX, _BACKEND) for build in pattern.findall(text)]
    return mentions + [Mention(BUILD, build, line, context) for build in builds]

"""Which files can install or run something, and what each says of torch. Nothing that is read is imported or run.

A document (TOML, JSON, YAML, INI) becomes a tree of mappings, lists and scalars. YAML is read as a stream of events, so
that no object is made, an alias costs nothing, and "2.10" stays what it is.
"""
from __future__ import annotations

import ast
import configparser
import json
import re
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

from recapture._pins import libraries
from recapture._pins.words import BUILD, NAMES, PIN, UNKNOWN, Mention, mentions_of, specification

MOST_BYTES = 16 << 20  # Of a file. The largest lock files have a few MB.
MOST_DEPTH = 200  # Of a document.
MOST_VARIANTS = 16  # Of a line whose variables have several values.


FAILED = "it cannot be read: "


class Unreadable(Exception):
    """A file that cannot be understood; str() says why."""


class Scalar(NamedTuple):
    text: str
    line: int  # 0 where the library does not tell it.


class Sequence:
    def __init__(self) -> None:
        self.items: List[Node] = []


class Mapping:
    def __init__(self) -> None:
        self.pairs: List[Tuple[str, Node]] = []

    def get(self, *keys: str) -> str:
        """The scalar of the first of these keys that has one; else ""."""
        for key, node in self.pairs:
            if key in keys and isinstance(node, Scalar):
                return node.text
        return ""


Node = Union[Scalar, Sequence, Mapping]
Variables = Dict[str, List[str]]

# ---------------------------------------------------------------------------------------------------------------- files

_TEXT = re.compile(r"\.(?:txt|in|pip|reqs?)$")
_REQUIREMENTS = re.compile(r"(?:^|/)(?:[^/]*(?:requirements|constraints)[^/]*|(?:requirements|constraints)/[^/]*)$")
_SCRIPT = re.compile(r"(?:\.(?:sh|bash|zsh|fish|ksh|ps1|bat|cmd|mk|make|env|bzl|bazel|nix|def|hcl|tf|spec|gradle|conf|j2|jinja2?|"
                     r"tmpl|template|tpl|slurm|sbatch|job)|(?:^|/)(?:(?:gnu)?makefile[^/]*|justfile|jenkinsfile[^/]*|vagrantfile|procfile|"
                     r"taskfile|earthfile|build|workspace|\.env[^/]*|\.envrc))$")
_DOCKER = re.compile(r"(?:^|/)[^/]*(?:dockerfile|containerfile)[^/]*$")
_CMAKE = re.compile(r"(?:^|/)cmakelists\.txt$|\.cmake(?:\.in)?$")
_PYTHON = re.compile(r"(?:^|/)(?:setup|noxfile|conanfile)\.py$")
_PROSE = re.compile(r"\.(?:md|rst|adoc|html?|tex|csv|tsv|svg|ipynb|py|pyi|c|cc|cpp|cu|cuh|h|hpp|rs|go|java|js|ts|patch|diff)$")
_FORM = re.compile(r"(?:^|/)(?:\.github|\.gitlab|\.gitea)/(?:issue|discussion|pull_request|merge_request)_templates?/")


def reader_of(path: str, text: str) -> Optional[Callable[[str], List[Mention]]]:
    """What reads this file; None if it can neither install nor run anything."""
    name = path.lower()
    if _FORM.search(name):
        return None
    if _PYTHON.search(name):
        return read_python
    if _DOCKER.search(name) and not _PROSE.search(name):
        return read_script
    if _CMAKE.search(name):
        return read_cmake
    if re.search(r"(?:^|/)pipfile$|\.toml$", name):
        return read_lock if re.search(r"(?:^|/)pylock(?:\.[^/]+)?\.toml$", name) else read_toml
    if name.endswith((".json", ".jsonc", ".json5", ".code-workspace")):
        return read_json
    if re.search(r"(?:^|/)(?:conda-lock|pixi)[^/]*\.(?:ya?ml|lock)$", name):
        return read_yaml_lock
    if name.endswith(".lock"):
        return _reader_of_lock(text)
    if name.endswith((".yml", ".yaml")):
        return read_yaml
    if name.endswith((".cfg", ".ini")):
        return read_ini
    if _PROSE.search(name):
        return None
    if _TEXT.search(name) or _REQUIREMENTS.search(name):
        return read_requirements if _REQUIREMENTS.search(name) or _LIKE_REQUIREMENTS.search(text) else None
    if _SCRIPT.search(name) or re.match(r"#![^\n]*\b(?:ba|z|k|da|fi)?sh\b", text):
        return read_script
    return None


def _reader_of_lock(text: str) -> Callable[[str], List[Mention]]:
    if text.lstrip().startswith("{"):
        return read_json
    if re.search(r"^@EXPLICIT", text, re.MULTILINE):
        return read_script
    if re.search(r"^\s*\[\[?\w", text, re.MULTILINE):
        return read_lock
    if re.search(r"^(?:package|packages|version|metadata):", text, re.MULTILINE):
        return read_yaml_lock
    return read_requirements


def text_of(data: bytes) -> str:
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def read(path: str, data: bytes) -> List[Mention]:
    """What a file says of torch, in its order; nothing of one that can neither install nor run anything."""
    text = text_of(data)
    reader = reader_of(path, text)
    if reader is None or not (_IN_ANY_CASE.search(text) or reader is read_requirements):
        return []
    if len(data) > MOST_BYTES:
        raise Unreadable("it has more than {} MiB".format(MOST_BYTES >> 20))
    try:
        mentions = reader(text)
    except libraries.Missing as error:
        raise Unreadable(str(error)) from None
    except (RecursionError, MemoryError):
        raise Unreadable("it is nested too deeply") from None
    except Unreadable:
        raise
    except Exception as error:  # A library may raise anything for foreign bytes; a trace would exit with 1, which is "blocked".
        raise Unreadable("{}{}: {}".format(FAILED, type(error).__name__, str(error)[:120])) from error
    return _with_lines(mentions, text)


_IN_ANY_CASE = re.compile("torch", re.IGNORECASE)


def _with_lines(mentions: List[Mention], text: str) -> List[Mention]:
    """TOML and JSON come without lines: then the first line that has torch and the mention's text, else the first with
    that text."""
    if all(mention.line for mention in mentions):
        return mentions
    lines = [(number, line.replace("%2B", "+")) for number, line in enumerate(text.split("\n"), 1)]

    def place(mention: Mention) -> int:
        if mention.line:
            return mention.line
        wanted = max(re.split(r"[^\w.+]", mention.text), key=len)
        having = [number for number, line in lines if wanted in line]
        near = [number for number, line in lines if wanted in line and "torch" in line.lower()]
        return (near or having or [0])[0]
    return [mention._replace(line=place(mention)) for mention in mentions]


def read_lines(text: str) -> List[Mention]:
    """What a file says of torch that could not be parsed: each mention is one that is not understood."""
    lines = ((number, _without_comment(line)) for number, line in enumerate(text.split("\n"), 1))
    found = [mention for number, line in lines for mention in mentions_of(line, number)]
    return [mention._replace(kind=UNKNOWN) for mention in found if mention.kind != BUILD]


# -------------------------------------------------------------------------------------------------------------- scripts

_ASSIGNMENT = re.compile(r"(?:^|(?<=[\s;&(\"'`-]))([A-Za-z_]\w{0,80})\s{0,8}[:?]?=\s{0,8}[\"']?([^\s\"';&|)=][^\s\"';&|)]{0,200})")
_LOOP = re.compile(r"\bfor\s+([A-Za-z_]\w{0,80})\s+in\s+([^;\n]{1,400})")
_ENVIRONMENT = re.compile(r"^(\s*(?:ENV|ARG)\s+[A-Za-z_]\w*)\s+(?=[^=\s])")
_USE = re.compile(r"\$\{\{\s*(?:[\w-]{1,40}\.){0,3}([\w-]{1,80})\s*\}\}|\$\{([A-Za-z_]\w{0,80})(?::?-([^}]{0,200}))?\}"
                  r"|\$\(([A-Za-z_]\w{0,80})\)|\$\[\[\s*inputs\.([\w-]{1,80})\s*\]\]|\$([A-Za-z_]\w{0,80})")


def _without_comment(line: str) -> str:
    """Without a `#` comment; a # in quotes or inside a word is none."""
    if "#" not in line:
        return line
    quote = ""
    for at, character in enumerate(line):
        if quote:
            quote = "" if character == quote and line[at - 1] != "\\" else quote
        elif character in "\"'":
            quote = character
        elif character == "#" and (at == 0 or line[at - 1] in " \t;"):
            return line[:at]
    return line


def _logical_lines(text: str, first: int = 1) -> Iterator[Tuple[int, str]]:
    """The lines of a script with their numbers; one that ends with a backslash goes on, and a line of comment inside it
    is left out."""
    start, parts = first, ""
    for number, line in enumerate(text.split("\n"), first):
        if parts and line.lstrip().startswith("#"):
            continue
        if not parts:
            start = number
        if line.rstrip().endswith("\\"):
            parts += line.rstrip()[:-1] + " "
            continue
        yield start, parts + line
        parts = ""
    if parts:
        yield start, parts


def _assignments(lines: List[Tuple[int, str]]) -> Variables:
    variables: Variables = {}
    for _, line in lines:
        looped = [(name, value) for name, values in _LOOP.findall(line) for value in values.split()]
        for name, value in _ASSIGNMENT.findall(line) + looped:
            values = variables.setdefault(name, [])
            if value not in values:
                values.append(value)
    return variables


def _variants(line: str, variables: Variables) -> List[str]:
    """The line with its variables' values; a variable that is not known stays."""
    variants = [line]
    for _ in range(4):
        grown: List[str] = []
        for each in variants:
            found = next((use for use in _USE.finditer(each) if _values(use, variables)), None)
            if found is None or len(each) > 4096:
                grown.append(each)
            else:
                grown += [each[:found.start()] + value + each[found.end():] for value in _values(found, variables)]
        for _ in range(6):  # The other variables of the same line.
            again = []
            for each in grown:
                found = next((use for use in _USE.finditer(each) if len(_values(use, variables)) == 1), None)
                again.append(each if found is None or len(each) > 4096 else
                             each[:found.start()] + _values(found, variables)[0] + each[found.end():])
            if again == grown:
                break
            grown = again
        if grown == variants or len(grown) > MOST_VARIANTS:
            break
        variants = list(dict.fromkeys(grown))
    return variants


def _values(use: "re.Match[str]", variables: Variables) -> List[str]:
    name = next(group for group in (use.group(1), use.group(2), use.group(4), use.group(5), use.group(6)) if group)
    values = [value for value in variables.get(name, []) if name not in value]
    return values or ([use.group(3)] if use.group(3) else [])


def _read_script(text: str, first: int, variables: Variables) -> List[Mention]:
    mentions = []
    names = [name for name, values in variables.items() if any("torch" in value.lower() for value in values)]
    for number, line in _logical_lines(text, first):
        is_about_torch = "torch" in line.lower() or "$" in line and any(name in line for name in names)
        if not is_about_torch or re.match(r"\s*(?:LABEL|MAINTAINER|REM)\s", line):
            continue
        line = _ENVIRONMENT.sub(r"\1=", _without_comment(line))
        for each in _variants(line, variables):
            mentions += mentions_of(each, number)
    return list(dict.fromkeys(mentions))


def read_script(text: str) -> List[Mention]:
    """A shell script, a Dockerfile, a makefile, or another file of lines with # comments."""
    lines = [(number, _ENVIRONMENT.sub(r"\1=", _without_comment(line))) for number, line in _logical_lines(text)]
    return _read_script(text, 1, _assignments(lines))


_SET = re.compile(r"\b(set\s*\(\s*)([A-Za-z_]\w*)\s+(?=[\"\w])", re.IGNORECASE)


def read_cmake(text: str) -> List[Mention]:
    mentions: List[Mention] = []
    start, parts, depth = 1, "", 0
    variables: Variables = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = _without_comment(line)
        start, parts, depth = (number, line, 0) if depth <= 0 else (start, parts + " " + line, depth)
        depth += line.count("(") - line.count(")")
        if depth > 0 and len(parts) < 4096:
            continue
        parts, depth = _SET.sub(r"\1\2=", parts), 0
        for name, value in _ASSIGNMENT.findall(parts):
            variables.setdefault(name, []).append(value)
        if "torch" in parts.lower():
            mentions += [mention for each in _variants(parts, variables) for mention in mentions_of(each, start)]
    return list(dict.fromkeys(mentions))


# --------------------------------------------------------------------------------------------------------- requirements

_LIKE_REQUIREMENTS = re.compile(r"^[ \t]*(?:(?:torch|pytorch|libtorch)[ \t]*(?:\[[^\]\n]*\][ \t]*)?(?:\\\n[ \t]*)?"
                                r"(?:[=<>~!@]|$)|--?(?:r|c|f|e|"
                                r"requirement|constraint|index-url|extra-index-url|find-links)[ \t=]|https?://\S+torch\S*$)", re.MULTILINE)
_INCLUDE = re.compile(r"\s*(-r|-c|--requirement|--constraint)[\s=]*(\S+)")


def _requirement(text: str, line: int) -> Optional[List[Mention]]:
    """The mentions of a requirement as PEP 508 has it; None if this is none."""
    library = libraries.requirements()
    try:
        found = library.Requirement(text)
    except (library.InvalidRequirement, ValueError):
        return None
    if found.name.lower() not in NAMES:
        return []
    context = str(found.marker or "")
    if found.url:
        return mentions_of("torch @ " + found.url, line, context)
    return [Mention(PIN, specification(str(found.specifier)), line, context)] if found.specifier else []


def read_requirements(text: str) -> List[Mention]:
    mentions: List[Mention] = []
    for number, line in _logical_lines(text):
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        include = _INCLUDE.match(line)
        if include:
            mentions.append(Mention(UNKNOWN, "{} {}".format(*include.groups()), number, INCLUDE))
        elif "torch" in line.lower():
            mentions += _value(re.sub(r"\s--?\w.*", "", line) if line[0] != "-" else line, number, {})
    return mentions


INCLUDE = "include"  # The context of a line that names another file of requirements.

# ------------------------------------------------------------------------------------------------------------ documents

_TORCH_KEY = re.compile(r"^(?:[\w-]+::)?(?:py|lib)?torch(?:-gpu|-cpu)?$", re.IGNORECASE)
_CONDA = re.compile(r"^(?:[\w.-]+::)?(?:py|lib)?torch(?:-gpu|-cpu)?\s*(?:\[[^\]]*\])?\s*(?:\s|==?)\s*"
                    r"([\d.]+[\w.*+]*)(?:(?:\s+|=)([\w.*]+))?$", re.IGNORECASE)
_PROSE_KEYS = frozenset(("name", "title", "description", "summary", "readme", "keywords", "classifiers", "label", "about",
                         "help", "comment", "message", "notes", "text", "placeholder", "authors", "license", "tooltip"))
_CONTEXT_KEYS = ("platform", "markers", "marker", "sys_platform", "python", "category", "subdir", "group")


def _value(text: str, line: int, variables: Variables) -> List[Mention]:
    """The mentions in a scalar: a requirement, a match of Conda's, or lines of a script."""
    if "torch" not in text.lower():
        return []
    mentions: List[Mention] = []
    for number, each in _logical_lines(text, line):
        if "torch" not in each.lower():
            continue
        number = number if line else 0
        found, conda = _requirement(each.strip(), number), _CONDA.match(each.strip())
        if found is not None:
            mentions += found
        elif conda:
            mentions.append(Mention(PIN, specification(conda.group(1)) + ("=" + conda.group(2) if conda.group(2) else ""), number))
        else:
            mentions += _read_script(each, number, variables)
    return mentions


def _pair(key: str, scalar: Scalar, variables: Variables) -> List[Mention]:
    if key.lower() in _PROSE_KEYS:
        requirement = _requirement(scalar.text.strip(), scalar.line) if "torch" in scalar.text.lower() else None
        if requirement:  # Ansible's pip has it under "name".
            return requirement
        return [mention for mention in mentions_of(scalar.text, scalar.line)
                if mention.kind == PIN and re.search(r"[\w.-]+/pytorch[:@]", scalar.text)]
    if "torch" in key.lower() and "\n" not in scalar.text.strip():
        line = key + " = " + scalar.text
        return [mention for each in _variants(line, variables) for mention in mentions_of(each, scalar.line)]
    return _value(scalar.text, scalar.line, variables)


def _context(mapping: Mapping) -> str:
    markers = next((node for key, node in mapping.pairs if key in ("resolution-markers", "environments")), None)
    listed = ["{}".format(item.text) for item in markers.items if isinstance(item, Scalar)] if isinstance(markers, Sequence) else []
    return " | ".join([value for value in (mapping.get(key) for key in _CONTEXT_KEYS) if value] + sorted(listed))


def _package(mapping: Mapping) -> List[Mention]:
    """The mentions of an entry {name = "torch", version = …} of a lock file."""
    version = next(node for key, node in mapping.pairs if key == "version" and isinstance(node, Scalar))
    build = mapping.get("build")
    context = _context(mapping)
    found = [Mention(PIN, specification(version.text) + ("=" + build if build else ""), version.line, context)]
    for key, node in mapping.pairs:
        if key == "source" and isinstance(node, Mapping):
            source = node.get("registry", "url", "git", "path", "directory")
            found += [mention for mention in mentions_of(source, version.line, context) if mention.kind == BUILD or "git" in source]
    return found


def _table(mapping: Mapping, line: int) -> List[Mention]:
    """The mentions of torch's own table: {version = …}, {git = …, tag = …}, {index = …} and so on."""
    context, found = _context(mapping), []
    for key, node in mapping.pairs:
        if not isinstance(node, Scalar) or not node.text:
            continue
        if key == "version":
            found += mentions_of("torch = " + node.text, node.line, context)
        elif key in ("tag", "rev", "branch", "ref"):
            version = re.fullmatch(r"v?(\d+\.\d+[\w.]*)", node.text)
            found.append(Mention(PIN, version.group(1) if version and key != "branch" else "pytorch@" + node.text, node.line, context))
        elif key in ("url", "path", "file", "directory"):
            found += [mention._replace(context=context) for mention in mentions_of(node.text, node.line)] or [
                Mention(PIN, "torch @ " + node.text, node.line, context)]
        elif key in ("index", "source", "build", "channel", "subdir", "registry"):
            found.append(Mention(BUILD, "{} {}".format(key, node.text), node.line, context))
    return found


def _is_package(mapping: Mapping) -> bool:
    return bool(_TORCH_KEY.match(mapping.get("name")) and mapping.get("version"))


def _nodes(root: Node) -> Iterator[Tuple[str, Node]]:
    """Every scalar and mapping with the key that it stands under, in order, and each that an alias repeats once."""
    seen: Set[int] = set()
    waiting: List[Tuple[str, Node]] = [("", root)]
    while waiting:
        key, node = waiting.pop()
        if isinstance(node, Scalar):
            yield key, node
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Mapping):
            yield key, node
            if not _is_package(node):
                waiting += reversed(node.pairs)
        else:
            waiting += [(key, item) for item in reversed(node.items)]


def _variables(root: Node) -> Variables:
    variables: Variables = {}
    for key, node in _nodes(root):
        if isinstance(node, Scalar) and re.fullmatch(r"[A-Za-z_][\w-]{0,80}", key) and len(node.text) <= 200 and node.text:
            values = variables.setdefault(key, [])
            if node.text not in values and "\n" not in node.text:
                values.append(node.text)
        if isinstance(node, Scalar) and "\n" in node.text or key in ("environment", "variables", "env", "args"):
            for name, values in _assignments([(0, node.text)] if isinstance(node, Scalar) else []).items():
                variables.setdefault(name, []).extend(value for value in values if value not in variables[name])
    return variables


def _read_document(root: Node) -> List[Mention]:
    variables = _variables(root)
    mentions: List[Mention] = []
    consumed: Set[int] = set()
    for key, node in _nodes(root):
        if isinstance(node, Mapping):
            repository, tag = node.get("repository", "image"), node.get("tag", "version")
            if tag and re.search(r"(?:^|/)pytorch$", repository):
                mentions += mentions_of("docker pull {}:{}".format(repository, tag), 0)
            if _is_package(node):
                mentions += _package(node)
            elif _TORCH_KEY.match(key):
                mentions += _table(node, 0)
                consumed |= {id(each) for name, each in node.pairs if isinstance(each, Scalar)}
        elif isinstance(node, Scalar) and id(node) not in consumed:
            mentions += _pair(key, node, variables)
    return mentions


def _read_packages(root: Node) -> List[Mention]:
    """Of a lock file only its own entries count: what a package of it depends on is the entry of that package."""
    mentions: List[Mention] = []
    entries = [node for key, node in root.pairs if key in ("package", "packages")] if isinstance(root, Mapping) else []
    for entry in (item for node in entries if isinstance(node, Sequence) for item in node.items):
        if not isinstance(entry, Mapping):
            continue
        if _is_package(entry):
            mentions += _package(entry)
        elif not entry.get("version"):  # pixi.lock: {conda: URL}
            mentions += [mention for key in ("conda", "pypi", "url") for mention in mentions_of(entry.get(key), 0) if mention.kind == PIN]
    return mentions


def _node_of(value: Any, depth: int = 0) -> Node:
    """The tree of what tomllib and json return."""
    if depth > MOST_DEPTH:
        raise Unreadable("it is nested too deeply")
    if isinstance(value, dict):
        mapping = Mapping()
        mapping.pairs = [(str(key), _node_of(each, depth + 1)) for key, each in value.items()]
        return mapping
    if isinstance(value, list):
        sequence = Sequence()
        sequence.items = [_node_of(each, depth + 1) for each in value]
        return sequence
    return Scalar(str(value), 0)


def _toml(text: str) -> Node:
    library = libraries.toml()
    try:
        return _node_of(library.loads(text, parse_float=str))
    except library.TOMLDecodeError as error:
        raise Unreadable("it is not valid TOML: {}".format(str(error).split("\n")[0])) from None


def read_toml(text: str) -> List[Mention]:
    root = _toml(text)
    is_lock = isinstance(root, Mapping) and any(
        key in ("package", "packages") and isinstance(node, Sequence) for key, node in root.pairs)
    return _read_packages(root) if is_lock else _read_document(root)


def read_lock(text: str) -> List[Mention]:
    return _read_packages(_toml(text))


def read_json(text: str) -> List[Mention]:
    try:
        value = json.loads(text, parse_float=str, parse_int=str)
    except ValueError as error:
        try:  # With comments and commas at the end, as editors write it.
            plain = re.sub(r"(\"(?:\\.|[^\"\\])*\")|//[^\n]*|/\*.*?\*/", lambda found: found.group(1) or "", text, flags=re.DOTALL)
            value = json.loads(re.sub(r"(\"(?:\\.|[^\"\\])*\")|,(?=\s*[\]}])", lambda found: found.group(1) or "", plain),
                               parse_float=str, parse_int=str)
        except ValueError:
            raise Unreadable("it is not valid JSON: {}".format(error)) from None
    return _read_document(_node_of(value))


def _yaml_documents(text: str) -> List[Node]:
    library = libraries.yaml()
    loader = getattr(library, "CSafeLoader", library.SafeLoader)
    documents: List[Node] = []
    anchors: Dict[str, Node] = {}
    stack: List[Tuple[Union[Mapping, Sequence], List[str]]] = []  # With the key whose value comes next.

    def add(node: Node) -> None:
        if not stack:
            documents.append(node)
            return
        parent, key = stack[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif key:
            parent.pairs.append((key.pop(), node))
        else:
            key.append(node.text if isinstance(node, Scalar) else "")

    try:
        for event in library.parse(text, Loader=loader):
            if isinstance(event, library.AliasEvent):
                add(anchors.get(event.anchor, Scalar("", 0)))
                continue
            if isinstance(event, library.CollectionEndEvent):
                stack.pop()
                continue
            if not isinstance(event, library.NodeEvent):
                continue
            if isinstance(event, library.ScalarEvent):
                node: Node = Scalar(event.value, event.start_mark.line + (2 if event.style in ("|", ">") else 1))
            else:
                node = Mapping() if isinstance(event, library.MappingStartEvent) else Sequence()
            add(node)
            if event.anchor:
                anchors[event.anchor] = node
            if not isinstance(node, Scalar):
                stack.append((node, []))
                if len(stack) > MOST_DEPTH:
                    raise Unreadable("it is nested too deeply")
    except (library.YAMLError, ValueError, AttributeError) as error:
        raise Unreadable("it is not valid YAML: {}".format(" ".join(str(error).split())[:120])) from None
    return documents


def read_yaml(text: str) -> List[Mention]:
    return [mention for document in _yaml_documents(text) for mention in _read_document(document)]


def read_yaml_lock(text: str) -> List[Mention]:
    return [mention for document in _yaml_documents(text) for mention in _read_packages(document)]


def read_ini(text: str) -> List[Mention]:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except (configparser.Error, AttributeError) as error:  # Its own for a line that continues a key without a value.
        raise Unreadable("it is not a valid INI file: {}".format(" ".join(str(error).split())[:120])) from None
    root = Mapping()
    defaults = dict(parser.defaults())
    for pairs in [defaults] + [dict(parser.items(section)) for section in parser.sections()]:
        for key, value in pairs.items():
            if pairs is defaults or defaults.get(key) != value:
                lines = [re.sub(r"(^|\s)#.*", "", line) for line in (value or "").split("\n")]
                root.pairs.append((key, Scalar("\n".join(lines).strip(), 0)))
    return _read_document(root)


# --------------------------------------------------------------------------------------------------------------- Python

_COMPOSED = re.compile(r"(?<![\w-])(?:py)?torch\s*(?:\[[^\]]*\])?\s*(?:[=<>~!]=|[<>])"
                       r"[\s\dv.,<>=~!*]*(?:$|[{%])", re.IGNORECASE)


def _put_together(root: ast.AST) -> Tuple[List[ast.AST], List[ast.Constant], List[str]]:
    """The nodes of an expression that puts a text together, its constant parts, and the names that it uses."""
    waiting, nodes, parts, names = [root], [], [], []
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if isinstance(node, ast.BinOp):
            waiting += [node.right, node.left]
        elif isinstance(node, ast.JoinedStr):
            waiting += reversed(node.values)
        elif isinstance(node, ast.FormattedValue):
            names += [each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            waiting.append(node.func.value)
            names += [each.id for argument in node.args for each in ast.walk(argument) if isinstance(each, ast.Name)]
        elif isinstance(node, ast.Name):
            names.append(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts.append(node)
    return nodes, parts, names


def read_python(text: str) -> List[Mention]:
    """The strings of a Python file that installs, such as setup.py. A requirement that it composes is not understood."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise Unreadable("it is not valid Python: {}".format(error)) from None
    values: Dict[str, str] = {}
    left_out: Set[int] = set()  # Docstrings, and the parts of what is composed.
    mentions: List[Mention] = []
    seen: Set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(id(node.value))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            values.update({target.id: repr(node.value.value) for target in node.targets if isinstance(target, ast.Name)})
    for node in ast.walk(tree):  # The outermost first.
        if not isinstance(node, (ast.BinOp, ast.JoinedStr, ast.Call)) or id(node) in seen:
            continue
        nodes, parts, names = _put_together(node)
        seen |= {id(each) for each in nodes}
        if len(nodes) > 1 and any(_COMPOSED.search(str(part.value)) for part in parts):
            used = sorted("{} = {}".format(name, values[name]) for name in set(names) if name in values)
            said = "".join(str(part.value) for part in parts)
            mentions.append(Mention(UNKNOWN, "{} composed of {}".format(said[:80], ", ".join(used)[:100] or "what it computes"),
                                    node.lineno, said + ", ".join(used)))
            left_out |= {id(part) for part in parts}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            mentions += _value(node.value, node.lineno, {})
    return sorted(mentions, key=lambda mention: mention.line)

"""ci/guides: which commands of the guides it runs, how it compares, and that what it leaves out is tested elsewhere."""
import importlib.machinery
import importlib.util
import re
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parent.parent.parent


def load_guides():
    loader = importlib.machinery.SourceFileLoader("guides", str(TREE / "ci/guides"))
    spec = importlib.util.spec_from_loader("guides", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


GUIDES = load_guides()
TESTS = {f"{suite}.{name}" for path in (TREE / "harness/tests").glob("*.cpp")
         for suite, name in re.findall(r"(?m)^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", path.read_text())}


@pytest.mark.parametrize("entry", GUIDES.LEFT_OUT, ids=lambda entry: entry[0][:40])
def test_command_that_is_left_out_has_a_reason_and_a_test_that_exists(entry):
    expression, reason, instead = entry
    re.compile(expression)
    assert reason and instead
    named = re.findall(r"\b([A-Z]\w+\.[\w*]+)", instead)
    for name in named:
        pattern = re.compile(re.escape(name).replace(r"\*", r"\w*"))
        assert any(pattern.fullmatch(test) for test in TESTS), f"no test {name}"
    paths = re.findall(r"\b((?:ci|tools|python|harness)/[\w/-]+)", instead)
    for path in paths:
        assert (TREE / path).exists(), path
    assert named or paths or instead.startswith("none")


# These fail only in the wheel's environment otherwise, at the end of ci/test.
def test_command_that_needs_a_clone_is_left_out():
    ran = [command for page in GUIDES.pages_below(TREE) for command, _, entry in GUIDES.commands_of(page) if not entry]
    assert ran
    assert not [command for command in ran if re.match(r"(?:\w+=\S+ )*(?:ci|tools|build|harness|python)/", command)]


def test_entry_that_no_command_needs_is_removed():
    used = [entry for page in GUIDES.pages_below(TREE) for _, _, entry in GUIDES.commands_of(page)]
    assert not [entry[0] for entry in GUIDES.LEFT_OUT if entry not in used]


@pytest.mark.parametrize("text, expected", [
    ("```console\n$ a\nb\n$ c\n```\n", [("a", ["b"]), ("c", [])]),
    ("1. Do this:\n\n   ```console\n   $ a\n     b\n   ```\n", [("a", ["  b"])]),
    ("```console\n$ a\n% b\n> c\n```\n", [("a", [])]),
    ("```\n$ a\n```\n", []),
    ("```text error.txt\n$ a\n```\n", [])])
def test_commands_of_a_page(text, expected):
    found = [session for fence, lines in GUIDES.blocks(text) if fence == ["console"] for session in GUIDES.sessions(lines)]
    assert found == expected


@pytest.mark.parametrize("shown, printed, expected", [
    (["a", "b"], ["a", "b"], ""),
    (["a", "…"], ["a", "b", "c"], ""),
    (["…", "c"], ["a", "b", "c"], ""),
    (["a…"], ["a b"], ""),
    (["a", "b"], ["a", "c", "b"], "b"),
    (["a"], ["b"], "a"),
    (["a"], ["a", "b"], "(it also prints) b"),
    (["…", "c", "a"], ["a", "b", "c"], "a")])
def test_shown_answer_is_compared_line_by_line(shown, printed, expected):
    assert GUIDES.difference(shown, printed) == expected

"""The public names of the package."""
import re
import subprocess
import sys
from pathlib import Path

import pytest

import recapture

TREE = Path(__file__).resolve().parents[2]
NAMES = [name for name in recapture.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_name_is_there_with_an_example(name):
    assert name in dir(recapture)
    text = getattr(recapture, name).__doc__
    example = re.search(r"\n\n((?: {8}.*\n)+)", text)
    assert example, text
    assert re.search(r"\b(recapture|report|finding)\b", example.group(1)), text


def test_other_name_is_an_error():
    with pytest.raises(AttributeError, match="module 'recapture' has no attribute 'blaem'"):
        recapture.blaem  # noqa: B018


def test_documented_exceptions_can_be_caught():
    assert issubclass(recapture.NotHeard, RuntimeError) and issubclass(recapture.NotJudged, RuntimeError)
    assert issubclass(recapture.NoGpu, RuntimeError)


def test_guides_use_names_that_are_there():
    for guide in ("python.md", "check.md"):
        used = set(re.findall(r"\brecapture\.([A-Za-z_]\w*)", (TREE / "docs/guide" / guide).read_text())) - {"pth", "gate_pins"}
        assert used <= set(recapture.__all__), guide


def test_import_costs_nothing():
    code = "import sys; before = set(sys.modules); import recapture; print(len(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", "import importlib\n" + code], cwd=str(TREE / "python"), check=True, stdout=subprocess.PIPE)
    assert int(done.stdout) == 1

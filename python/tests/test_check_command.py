"""recapture check, by the program: it runs the package in the Python that has PyTorch."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recapture import _places

TREE = Path(__file__).resolve().parents[2]


def ended(words, **options):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, **options)
    return done.returncode, done.stdout, done.stderr


def check(*words, **options):
    return ended([_places.program(), "check", *words], **options)


def test_words_reach_the_package():
    pytest.importorskip("torch")
    code, out, said = check("--python", sys.executable, "--count", "1", "train:step")
    assert (code, out, said) == (2, "", "recapture check: --count is 1; it must be 2 or more\n")


def test_options_are_those_of_the_package():
    code, shown, _ = check("--help")
    of_package = ended([sys.executable, "-m", "recapture", "check", "--help"],
                       env={"PYTHONPATH": str(TREE / "python"), "PATH": "/usr/bin:/bin"})[1]
    found, wanted = ({*re.findall(r"--[a-z-]+", text)} for text in (shown, of_package))
    assert code == 0 and found - {"--root", "--version"} == wanted | {"--python"}


def test_python_that_cannot_be_started_is_one_line():
    code, _, said = check("--python", "/nowhere/python3", "train:step")
    assert (code, said.count("\n")) == (7, 1)
    assert said.startswith("recapture: cannot start '/nowhere/python3'") and "--python names" in said


@pytest.fixture
def installed(tmp_path):
    """The program as in the wheel, without the package."""
    for name in ("bin", "share/recapture/ci"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(_places.program(), str(tmp_path / "bin/recapture"))
    shutil.copy(str(TREE / "ci/matrix.toml"), str(tmp_path / "share/recapture/ci"))
    return tmp_path


def write_python(path, text):
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(0o755)


def test_python_without_the_package_is_one_line(installed):
    write_python(installed / "bin/python3", 'exec {} -I -S "$@"'.format(sys.executable))
    code, _, said = ended([installed / "bin/recapture", "check", "train:step"], cwd=str(TREE / "python"))
    assert (code, said.count("\n")) == (7, 1), said
    assert "cannot import recapture's package" in said and "--python names another Python" in said


def test_package_that_cannot_be_imported_is_one_line(installed):
    package = installed / "share/recapture/python/recapture/_check"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("def")
    code, _, said = ended([installed / "bin/recapture", "check", "--python", sys.executable, "train:step"])
    assert (code, said.count("\n")) == (7, 1), said
    assert "cannot import recapture's package" in said and "invalid syntax" in said


def test_python_beside_the_program_comes_first(installed):
    write_python(installed / "bin/python3", 'shift 3; echo "$@"')
    code, out, _ = ended([installed / "bin/recapture", "check", "--json", "--warm-up", "5", "train:step"])
    assert (code, out) == (0, "--warm-up=5 --json -- train:step\n")


def test_function_that_is_missing_is_wrong_usage():
    code, _, said = check()
    assert code == 2 and "FUNCTION is missing" in said and said.count("\n") == 1

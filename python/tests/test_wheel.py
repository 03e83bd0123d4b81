"""The contents of the wheel, as far as they can be checked without building it; ci/wheel and ci/wheel-roots test it."""
import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import recapture
from recapture import _places

TREE = Path(__file__).resolve().parents[2]
PACKAGE = TREE / "python/recapture"


def test_version_is_the_same_everywhere():
    project = re.search(r"^version = \"(.*?)\"", (TREE / "pyproject.toml").read_text(), re.MULTILINE).group(1)
    cmake = re.search(r"project\(recapture VERSION (\S+)", (TREE / "CMakeLists.txt").read_text()).group(1)
    program = subprocess.run([_places.program(), "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert recapture.__version__ == project == cmake == program.split()[1]


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: file.name)
def test_package_is_of_the_oldest_python(file):
    ast.parse(file.read_text(), str(file), feature_version=(3, 8))


def test_entry_points_exist():
    text = (TREE / "pyproject.toml").read_text()
    for module in re.findall(r"^recapture = \"(recapture\.\S+)\"", text, re.MULTILINE):
        assert (TREE / "python" / (module.replace(".", "/") + ".py")).exists(), module


def install(tmp_path, package, data):
    """An installed copy of the package, with a program that prints its arguments."""
    shutil.copytree(str(PACKAGE), str(tmp_path / package / "recapture"))
    for name, text in (("bin/recapture", '#!/bin/sh\necho "this is $0" "$@"\nexit 5\n'),
                       ("lib/recapture/librecorder.so", ""), ("share/recapture/ci/matrix.toml", "")):
        file = tmp_path / data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return dict(os.environ, PYTHONPATH=str(tmp_path / package), PYTHONDONTWRITEBYTECODE="1")


@pytest.mark.parametrize("package, data", [
    ("v/lib/python3.11/site-packages", "v"),          # an environment
    ("v/lib64/python3.9/site-packages", "v"),         # RHEL's
    ("usr/local/lib/python3.11/dist-packages", "usr/local"),  # Debian's own Python
    ("target", "target"),                             # pip install --target
])
def test_module_becomes_the_program(tmp_path, package, data):
    env = install(tmp_path, package, data)
    done = subprocess.run([sys.executable, "-m", "recapture", "show", "a b"], env=env, stdout=subprocess.PIPE, cwd="/")
    assert done.stdout.decode() == "this is {} show a b\n".format(tmp_path / data / "bin/recapture")
    assert done.returncode == 5


@pytest.mark.parametrize("missing, words", [
    ("share/recapture/ci/matrix.toml", "no program `recapture` lies above"),
    ("bin/recapture", "bin/recapture; install the wheel again"),
])
def test_broken_installation_is_one_line(tmp_path, missing, words):
    env = install(tmp_path, "v/lib/python3.11/site-packages", "v")
    (tmp_path / "v" / missing).unlink()
    done = subprocess.run([sys.executable, "-m", "recapture", "list"], env=env, stderr=subprocess.PIPE, cwd="/")
    said = done.stderr.decode()
    assert (done.returncode, said.count("\n"), words in said) == (7, 1, True), said


def test_skill_names_verbs_that_exist():
    text = (TREE / "SKILL.md").read_text()
    said = subprocess.run([_places.program(), "help"], stdout=subprocess.PIPE).stdout.decode()
    verbs = set(re.findall(r"`recapture (\w+)", text))
    assert verbs >= {"blame", "explain", "gate", "show", "list", "operators"}
    for verb in verbs:
        assert re.search(r"^\s+{}\b".format(verb), said, re.MULTILINE), verb
    for page in re.findall(r"docs/[\w/-]+\.md", text):
        assert (TREE / page).exists(), page

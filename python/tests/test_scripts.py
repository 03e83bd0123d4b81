"""What scripts say on a system that is too old."""
import os
import re
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]


def with_tool(tmp_path, name, text, *command):
    tool = tmp_path / "bin" / name
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n" + text + "\n")
    tool.chmod(0o755)
    return subprocess.run(command, cwd=str(tmp_path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, PATH="{}:{}".format(tool.parent, os.environ["PATH"])))


@pytest.mark.parametrize("version, status, words", [
    ("3.22.1", 7, "build: this needs CMake 3.25 or newer, and PATH has 3.22.1; "),
    ("3.25.1", 0, ""),
    ("4.1.0", 0, ""),
])
def test_old_cmake_is_one_line(tmp_path, version, status, words):
    done = with_tool(tmp_path, "cmake", "echo 'cmake version {}'".format(version),
                     "bash", "-euc", "source '{}/ci/build'; require_cmake".format(TREE))
    said = done.stdout.decode()
    assert (done.returncode, words in said, said.count("\n")) == (status, True, 1 if words else 0), said


@pytest.mark.parametrize("version, words", [
    ("glibc 2.35", "unpack: this system has no glibc 2.36"),
    ("", "unpack: this system has no glibc 2.36"),  # musl's getconf
    ("glibc 2.36", "unpack: missing or damaged: part-00"),
])
def test_old_glibc_is_one_line(tmp_path, version, words):
    text = re.search(r'UNPACK = """(.*?)"""', (TREE / "tools/pack").read_text(), re.DOTALL).group(1)
    script = tmp_path / "unpack"
    script.write_text(text.replace("\\\\", "\\").format(release="2.15.0", sums="0" * 64 + "  part-00", python="3.11"))
    done = with_tool(tmp_path, "getconf", "echo '{}'".format(version), "sh", str(script), str(tmp_path / "dest"))
    said = done.stdout.decode()
    assert (done.returncode, words in said, said.count("\n")) == (7, True, 1), said

"""Where the program `recapture` and its recorder are: in the tree's build folder, or where the wheel was installed."""
from __future__ import annotations

import os
from typing import Iterator


def _programs() -> Iterator[str]:
    package = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(os.path.dirname(os.path.dirname(package)), "build", "recapture")
    from importlib import metadata
    try:
        files = metadata.files("recapture") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "recapture" and file.parent.name == "bin":
            yield str(file.locate())
    import shutil
    yield shutil.which("recapture") or ""


def program() -> str:
    """The path of the program, which FileNotFoundError says is missing."""
    for path in _programs():
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.realpath(path)
    raise FileNotFoundError("the program 'recapture' is not there: install the wheel again, or build it "
                            "(cmake --preset harness && cmake --build build --target recapture recorder)")


def recorder() -> str:
    """The path of librecorder.so, which FileNotFoundError says is missing."""
    folder = os.path.dirname(program())
    for path in (os.path.join(folder, "librecorder.so"),
                 os.path.join(os.path.dirname(folder), "lib", "recapture", "librecorder.so")):
        if os.path.isfile(path):
            return path
    raise FileNotFoundError("librecorder.so is not beside " + program())

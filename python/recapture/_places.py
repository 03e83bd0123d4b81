"""Finds the program `recapture` and its recorder: beside the installed wheel, or in the tree's build folder."""
from __future__ import annotations

import os
from typing import Tuple

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def _find() -> Tuple[str, str]:
    """The program, and the folder of librecorder.so."""
    folder = _PACKAGE
    while True:
        # Installers put bin/, lib/recapture/ and share/recapture/ beside the package or above it.
        if os.path.exists(os.path.join(folder, "share/recapture/ci/matrix.toml")):
            return os.path.join(folder, "bin/recapture"), os.path.join(folder, "lib/recapture")
        if os.path.exists(os.path.join(folder, "ci/matrix.toml")):
            return os.path.join(folder, "build/recapture"), os.path.join(folder, "build")
        above = os.path.dirname(folder)
        if above == folder:
            raise FileNotFoundError("no program `recapture` lies above {}; install the wheel again".format(_PACKAGE))
        folder = above


def _existing(path: str) -> str:
    if os.path.isfile(path):
        return path
    raise FileNotFoundError("there is no {}; install the wheel again, or build it (cmake --preset harness && "
                            "cmake --build build --target recapture recorder)".format(path))


def program() -> str:
    """The path of the program. Raises FileNotFoundError if it is missing."""
    return _existing(_find()[0])


def recorder() -> str:
    """The path of librecorder.so. Raises FileNotFoundError if it is missing."""
    return _existing(os.path.join(_find()[1], "librecorder.so"))

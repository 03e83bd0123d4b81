"""The libraries that know the formats. The extra [pins] of the wheel brings them; without them a file is not understood."""
from __future__ import annotations

import importlib
import sys
from typing import Any


class Missing(Exception):
    """A library that is needed is not installed."""


def _load(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Missing("it needs {0}, which is not installed: pip install {0}".format(package)) from None


def toml() -> Any:
    return _load("tomllib" if sys.version_info >= (3, 11) else "tomli", "tomli")


def yaml() -> Any:
    return _load("yaml", "PyYAML")


def requirements() -> Any:
    return _load("packaging.requirements", "packaging")


def specifiers() -> Any:
    return _load("packaging.specifiers", "packaging")


def markers() -> Any:
    return _load("packaging.markers", "packaging")

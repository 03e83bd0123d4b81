"""Recapture from Python: which call broke a capture, and does a graph compute what eager computes?

Nothing is imported before it is used, so that `import recapture` costs next to nothing.
"""
import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:  # For type checkers only.
    from recapture._blame import blame as blame
    from recapture._check import check as check

__version__ = "1.1"  # Also in CMakeLists.txt; a test compares them.

_PLACES = {"blame": "recapture._blame", "check": "recapture._check"}
__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'recapture' has no attribute '{name}'")
    return getattr(importlib.import_module(place), name)

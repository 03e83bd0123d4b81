"""Recapture from Python: which call broke a capture, and does a graph compute what eager computes?

    with recapture.blame() as report:  # Prints the call that broke a capture, its cause and a fix.
        capture()

    print(recapture.check(step, lambda i: torch.randn(8, i, device="cuda")))  # Where a graph of step() differs.

Nothing is imported before it is used, so that `import recapture` costs next to nothing.
"""
import importlib

__version__ = "1.1"  # Also in CMakeLists.txt; a test compares them.
__all__ = ["CheckReport", "Failure", "Finding", "Kind", "Line", "NoGpu", "NotHeard", "NotJudged", "Report", "__version__", "blame",
           "check"]

TYPE_CHECKING = False
if TYPE_CHECKING:  # For type checkers, which then know every name and refuse any other.
    from recapture._blame import Failure as Failure
    from recapture._blame import NotHeard as NotHeard
    from recapture._blame import NotJudged as NotJudged
    from recapture._blame import Report as Report
    from recapture._blame import blame as blame
    from recapture._check import CheckReport as CheckReport
    from recapture._check import Finding as Finding
    from recapture._check import Kind as Kind
    from recapture._check import Line as Line
    from recapture._check import NoGpu as NoGpu
    from recapture._check import check as check
else:
    _PLACES = {name: module for module, names in (
        ("recapture._blame", ("Failure", "NotHeard", "NotJudged", "Report", "blame")),
        ("recapture._check", ("CheckReport", "Finding", "Kind", "Line", "NoGpu", "check"))) for name in names}

    def __getattr__(name):
        place = _PLACES.get(name)
        if place is None:
            raise AttributeError(f"module 'recapture' has no attribute '{name}'")
        return getattr(importlib.import_module(place), name)

    def __dir__():
        return sorted(__all__)

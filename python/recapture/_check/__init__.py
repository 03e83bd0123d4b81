"""Will a CUDA graph of this function compute what eager code computes?"""
from __future__ import annotations

import sys
import time
import traceback
from typing import Any, Callable, ContextManager, Iterable, Optional, Sequence, Union, overload

from .findings import CheckReport, Finding, Kind, Line

__all__ = ["check", "fixture_check", "main", "Finding", "Kind", "Line", "NoGpu", "CheckReport"]


class NoGpu(RuntimeError):
    """There is no GPU to capture on.

        try:
            report = recapture.check(step, make_inputs)
        except recapture.NoGpu:
            pytest.skip("no GPU")
    """


@overload
def check(fn: None = None, make_inputs: None = None, *, backend: Any = None) -> ContextManager[CheckReport]: ...


@overload
def check(fn: Callable[..., Any], make_inputs: Any = None, *, count: int = 3, warm_up: int = 3,
          generators: Iterable[Any] = (), later: bool = False, backend: Any = None) -> CheckReport: ...


def check(fn: Optional[Callable[..., Any]] = None, make_inputs: Any = None, *, count: int = 3, warm_up: int = 3,
          generators: Iterable[Any] = (), later: bool = False, backend: Any = None) -> Union[CheckReport, ContextManager[CheckReport]]:
    """Runs `fn` eagerly and as a graph on `count` sets of inputs, and returns a CheckReport of where they differ.

        report = recapture.check(step, lambda i: torch.randn(8, 64, device="cuda"))
        if not report:
            print(report)  # The line, both values, and a fix of each finding.

        with recapture.check() as report:  # The captures and replays of a program.
            train()

    `fn` is a function, a module, or a training step with its optimizer; `warm_up` calls come before anything is
    compared. `make_inputs(i)` gives the i-th inputs, from 0 on: a tensor, a tuple of arguments, a dict of keyword
    arguments, or a pair of both; `make_inputs` may also be one set, which is varied. The graph has the shapes of the
    first set, and another shape is reported. `generators` are registered with the graph. With `later` the graph is
    replayed again after what a program does between two replays, such as other work of the same libraries. Without
    arguments: a context manager around a program's own captures and replays, whose value is the report.

    Raises NoGpu without a GPU, ValueError for fewer than two sets or no warm-up, TypeError for an `fn` that cannot be
    called, and what `fn` raises in eager code. A capture or a replay that fails is a finding.
    """
    if backend is None:
        import torch
        if not torch.cuda.is_available():
            raise NoGpu("recapture check: PyTorch sees no GPU, and a graph is captured on one")
    if fn is None:
        from .watching import Watch
        return Watch(backend)
    if count < 2:
        raise ValueError(f"count is {count}; what changes from call to call shows in two calls or more")
    if warm_up < 1:
        raise ValueError(f"warm_up is {warm_up}; a capture needs a call before it")
    if not callable(fn):
        raise TypeError(f"recapture check: {fn!r} cannot be called")
    from .checking import Checking
    from .cuda import CudaBackend
    from .garbage import old_objects_set_aside
    with old_objects_set_aside():
        report = Checking(fn, make_inputs, count, warm_up, backend or CudaBackend(generators), later).check()
        ended = time.monotonic()
    if "seconds" in report.cost:
        report.cost["seconds"] = round(report.cost["seconds"] + time.monotonic() - ended, 3)
    return report


def fixture_check(fn: Callable[..., Any], make_inputs: Any = None, **options: Any) -> CheckReport:
    """`check()` for a test: a finding fails the test with AssertionError, also under `python -O`."""
    report = check(fn, make_inputs, **options)
    if report.findings:
        raise AssertionError(f"\n{report}")
    return report


def main(arguments: Optional[Sequence[str]] = None) -> int:
    try:
        from .command import main as run
        return run(arguments)
    except Exception:  # An internal error: Python's status 1 would look like a finding.
        traceback.print_exc(file=sys.stderr)
        return 7

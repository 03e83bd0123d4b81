"""recapture check module:function"""
from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from typing import Any, Iterable, Optional

FOUND, WRONG_USE, UNAVAILABLE = 1, 2, 7


class Problem(Exception):
    """Ends the command with one line and an exit status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _find(module: Any, path: str, spelt: str) -> Any:
    found = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise Problem(WRONG_USE, f"{spelt}: {getattr(found, '__name__', module.__name__)} has no {name}")
        found = getattr(found, name)
    return found


def _module_of(path: str) -> str:
    """The name of the module that a file is: train of ./train.py. A folder that is not below this one is looked in."""
    relative = os.path.relpath(path)
    if relative.startswith(os.pardir + os.sep):
        folder, relative = os.path.split(os.path.abspath(path))
        sys.path.insert(0, folder)
    return relative[:-len(".py")].replace(os.sep, ".")


def _load(spelt: str) -> Any:
    name, _, path = spelt.partition(":")
    if not name or not path:
        raise Problem(WRONG_USE, f"{spelt} is not MODULE:FUNCTION, such as train:step")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(_module_of(name) if name.endswith(".py") else name)
    except (Exception, SystemExit) as error:  # A script without a __main__ guard may end in sys.exit(0).
        raise Problem(WRONG_USE, f"{name} cannot be imported: {type(error).__name__}: {error}") from None
    return module, _find(module, path, spelt)


def main(arguments: Optional[Iterable[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="recapture check",
        description="Runs a function eagerly and as a CUDA graph, and says where a graph computes something else.",
        epilog="Exit status: 0 nothing was found, 1 something was, 2 wrong usage, or the function fails without a graph "
               "too, 7 no GPU, no PyTorch, or an error in check itself.")
    parser.add_argument("function", metavar="MODULE:FUNCTION", help="what is to be captured, such as train:step")
    parser.add_argument("--inputs", metavar="FUNCTION", default="make_inputs",
                        help="in the same module: gives the i-th inputs (default: make_inputs, if it is there)")
    parser.add_argument("--count", type=int, default=3, metavar="N", help="sets of inputs (default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=3, metavar="N", help="calls before (default: %(default)s)")
    parser.add_argument("--later", action="store_true", help="replay again after what programs do between two replays")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(None if arguments is None else list(arguments))
    try:
        if options.count < 2:
            raise Problem(WRONG_USE, f"--count is {options.count}; it must be 2 or more")
        if options.warm_up < 1:
            raise Problem(WRONG_USE, f"--warm-up is {options.warm_up}; it must be 1 or more")
        try:
            import torch
        except ImportError:
            raise Problem(UNAVAILABLE, f"{sys.executable} has no PyTorch; --python names the Python that has it") from None
        if not hasattr(torch, "__version__"):
            raise Problem(UNAVAILABLE, f"{sys.executable} has no PyTorch: it imports the folder {next(iter(torch.__path__))}")
        module, fn = _load(options.function)
        if not callable(fn):
            raise Problem(WRONG_USE, f"{options.function} cannot be called")
        given = options.inputs != "make_inputs" or hasattr(module, "make_inputs")
        make_inputs = _find(module, options.inputs, options.inputs) if given else None
        from . import NoGpu, check
        from .progress import shown_on
        try:
            with shown_on(sys.stderr):
                report = check(fn, make_inputs, count=options.count, warm_up=options.warm_up, later=options.later)
        except NoGpu as error:
            raise Problem(UNAVAILABLE, str(error).split(": ", 1)[1]) from None
        except (Exception, SystemExit) as error:  # The program's own exception: it fails without a graph as well.
            text = (str(error).strip().splitlines() or [""])[0]
            raise Problem(WRONG_USE, f"{options.function} failed outside the capture: {type(error).__name__}: {text}") from None
    except Problem as problem:
        print(f"recapture check: {problem}", file=sys.stderr)
        return problem.code
    if isinstance(sys.stdout, io.TextIOWrapper):  # A report has characters that some terminals cannot encode.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout.write(report.to_json() + "\n" if options.json else str(report))
    return FOUND if report.findings else 0

"""Which call broke a capture: `with recapture.blame() as report:`.

The recorder (librecorder.so) records failed driver calls; the program `recapture` judges them. This module loads the
recorder and runs the program.
"""
from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import IO, Any, Dict, List, NamedTuple, Optional, Type

from recapture import _places

__all__ = ["Failure", "NotHeard", "NotJudged", "Report", "blame"]

_REPORT, _INJECTION, _CHAIN, _WITHIN = ("RECAPTURE_BLAME", "CUDA_INJECTION64_PATH", "RECAPTURE_CHAIN",
                                        "RECAPTURE_WITHIN")
_ADVICE = ("start the program with RECAPTURE=1 in its environment, or put `recapture.blame().__enter__()` before the "
           "first line that uses CUDA")


class NotHeard(RuntimeError):
    """CUDA is initialised in this process, and its driver (before R575) can no longer be recorded.

        try:
            with recapture.blame() as report:
                capture()
        except recapture.NotHeard as problem:
            print(problem)  # What to do: begin with RECAPTURE=1, or enter the block before CUDA.
    """


class NotJudged(RuntimeError):
    """Something failed in a block, and the program `recapture`, which knows causes and fixes, did not answer.

        except recapture.NotJudged as problem:
            print(problem)  # What the program printed, or that it could not be started.
    """


class Failure(NamedTuple):
    """A capture that failed.

        for failure in report.failures:
            print(failure.where, failure.api, failure.code, failure.cause)
    """

    text: str  # As `recapture blame` prints it: the call or exception, your line, the cause, a fix.
    api: str  # The driver call that broke it; "" if an exception ended it.
    code: int  # CUDA's error, 0 without a call.
    where: str  # "train.py:15 in evaluate"; "" if unknown.
    cause: str  # One sentence; "" if unknown.
    data: Dict[str, Any]  # The complete object of `recapture blame --json`.


class Report:
    """The failures in a block. Filled at the block's end; empty, and false, if no capture has failed.

        if report:
            send(str(report))
    """

    def __init__(self) -> None:
        self.failures: List[Failure] = []
        self.text = ""  # The complete output of `recapture blame`: failures, and failed calls that broke no capture.
        self.data: Dict[str, Any] = {"processes": []}  # The same, as in `recapture blame --json`.

    def __bool__(self) -> bool:
        return bool(self.failures)

    def __str__(self) -> str:
        return self.text


class _Events:
    """The file of this process for the recorder's output. It has no name, so nothing remains."""

    def __init__(self) -> None:
        self.path = os.environ.get(_REPORT, "")
        self._file: Optional[IO[bytes]] = None
        if not self.path:
            self._file = tempfile.TemporaryFile(prefix="recapture-")
            self.path = "/proc/{}/fd/{}".format(os.getpid(), self._file.fileno())

    def size(self) -> int:
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0

    def read(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except OSError:
            return b""


class _Variables:
    """The variables that make the driver load the recorder: set while any block of this process is open.

    Blocks may overlap and belong to several threads, so the first one sets them and the last one restores them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._before: Dict[str, Optional[str]] = {}

    def set(self) -> None:
        with self._lock:
            events, recorder = _the_events(), _places.recorder()
            if self._open == 0:
                self._before = {name: os.environ.get(name) for name in (_REPORT, _INJECTION, _CHAIN, _WITHIN)}
            self._open += 1
            other = os.environ.get(_INJECTION)
            if other and other != recorder:
                os.environ[_CHAIN] = other
            within = os.environ.get(_WITHIN, "")
            if str(os.getpid()) not in within.split(","):  # Also in a child that was forked inside a block.
                within += ",{}".format(os.getpid())
            os.environ.update({_REPORT: events.path, _INJECTION: recorder, _WITHIN: within})

    def restore(self) -> None:
        with self._lock:
            self._open -= 1
            if self._open:
                return
            for name, value in self._before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


_variables = _Variables()
_listening = threading.Lock()  # Only one thread at a time may load the recorder.
_events: Optional[_Events] = None
_library: Optional[ctypes.CDLL] = None


def _the_events() -> _Events:
    global _events
    if _events is None:
        _events = _Events()
    return _events


def _parsed(text: bytes) -> List[Dict[str, Any]]:
    lines = []
    for line in text.split(b"\n"):
        try:
            event = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            continue
        if isinstance(event, dict):
            lines.append(event)
    return lines


def _loaded_driver() -> Optional[ctypes.CDLL]:
    noload = getattr(os, "RTLD_NOLOAD", 4)
    try:
        return ctypes.CDLL("libcuda.so.1", mode=noload | os.RTLD_NOW)
    except OSError:
        return None


def _has_begun() -> bool:
    """Whether CUDA is initialised in this process, so that the driver will not load the recorder."""
    driver = _loaded_driver()
    if driver is None:
        return False
    not_initialized, context = 3, ctypes.c_void_p()
    return bool(driver.cuCtxGetCurrent(ctypes.byref(context)) != not_initialized)


def _state() -> Optional[str]:
    """Why nothing is recorded in this process; "" if it is, None if it was not tried."""
    found: Optional[str] = None
    for event in _parsed(_the_events().read()):
        if event.get("event") == "heard" and event.get("pid") == os.getpid():
            found = str(event.get("why_not", ""))
    return found


def _listen_late() -> None:
    """Loads the recorder into a process in which CUDA is already initialised."""
    global _library
    chosen = os.environ.get("RECAPTURE_RECORDER")
    os.environ["RECAPTURE_RECORDER"] = chosen or "log"
    try:
        _library = ctypes.CDLL(_places.recorder())
        _library.InitializeInjection()
    finally:
        if chosen is None:
            del os.environ["RECAPTURE_RECORDER"]
        else:
            os.environ["RECAPTURE_RECORDER"] = chosen
    why_not = _state()
    if why_not != "":
        reason = why_not or "another recorder is here already"
        raise NotHeard("CUDA has begun in this process, and it is too late to hear its calls: {}; {}".format(
            reason, _ADVICE))


class blame:  # It is called like a function.
    """Reports which call, or which exception, broke which capture while the block ran.

        with recapture.blame(quiet=True) as report:
            capture()
        for failure in report.failures:
            print(failure.where, failure.cause)

    At the end of the block, `with recapture.blame() as report:` prints the failures to `file` or to standard error,
    unless it is `quiet`, and stores them in `report`. The block may begin at any time: before CUDA is initialised the
    driver loads the recorder; afterwards it is loaded here, which needs a driver R575 or newer. Processes that are
    started in the block are included.

    Raises FileNotFoundError at the beginning if the recorder is not installed, NotHeard at the beginning or the end if
    the driver's calls cannot be recorded, NotJudged at the end if the program `recapture` does not answer. If the block
    itself ends in an exception, the last two are a line on standard error instead.
    """

    def __init__(self, file: Optional[IO[str]] = None, *, quiet: bool = False) -> None:
        self._file, self._quiet = file, quiet
        self._report = Report()
        self._is_open = False
        self._from = 0
        self._judged = ""  # The text that the report is made from.

    def __enter__(self) -> Report:
        _variables.set()
        self._is_open = True
        try:
            with _listening:
                if _state() != "" and _has_begun():
                    _listen_late()
        except BaseException:
            self.abandon()
            raise
        self._from = _the_events().size()
        return self._report

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.abandon()
        try:
            self.so_far()
        except (NotHeard, NotJudged) as problem:
            if error is None:  # Otherwise the program's own exception must not be hidden.
                raise
            if not self._quiet:
                (self._file or sys.stderr).write("recapture: {}\n".format(problem))
        if self._report.text and not self._quiet:
            (self._file or sys.stderr).write(self._report.text)

    def abandon(self) -> None:
        """Ends the block without a report."""
        if self._is_open:
            self._is_open = False
            _variables.restore()

    def so_far(self) -> Report:
        """The report of what has failed since the block began. Raises NotHeard and NotJudged."""
        if _state() != "" and _has_begun():
            raise NotHeard("what failed in the block is not known: {}; {}".format(
                _state() or "the driver has loaded no recorder", _ADVICE))
        text = self._events_of_block()
        if text and text != self._judged:
            try:
                _judge(text, self._report)
            except (OSError, ValueError) as error:
                raise NotJudged("what failed in the block is not known: {}".format(error)) from None
            self._judged = text
        return self._report

    def _events_of_block(self) -> str:
        """The events of this process and of its children since the block began; "" if nothing failed."""
        text = _the_events().read()
        pids, lines, has_failures, at = {os.getpid()}, [], False, 0
        failed_before: Dict[int, int] = {}
        for raw in text.split(b"\n"):
            in_block, at = at >= self._from, at + len(raw) + 1
            for event in _parsed(raw):
                kind, pid = event.get("event"), event.get("pid", 0)
                if kind == "heard" and str(os.getpid()) in str(event.get("within", "")).split(","):
                    pids.add(pid)
                if pid not in pids:
                    continue
                if not in_block and kind == "failed":
                    failed_before[pid] = failed_before.get(pid, 0) + 1
                if not in_block and kind not in ("heard", "torch", "rank"):
                    continue
                if kind == "given up":  # Its counts are of all calls of the process, and these are only some of them.
                    event["failed_before"] = max(0, event.get("failed_before", 0) - failed_before.get(pid, 0))
                has_failures = has_failures or kind in ("failed", "given up", "silent")
                lines.append(json.dumps(event))
        return "\n".join(lines) + "\n" if has_failures else ""


def _judge(events: str, report: Report) -> None:
    """Runs the program, which knows causes and fixes."""
    variables = {name: value for name, value in os.environ.items()
                 if name not in (_INJECTION, _REPORT, "LD_PRELOAD")}
    with tempfile.NamedTemporaryFile("w", prefix="recapture-", suffix=".events") as file:
        file.write(events)
        file.flush()
        done = subprocess.run([_places.program(), "blame", "--json", "--read", file.name], env=variables,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    answer = done.stderr.decode("utf-8", "replace")  # blame reports on stderr; stdout is its program's.
    if done.returncode != 0:
        raise ValueError("recapture blame --read: " + answer.strip())
    report.data = json.loads(answer)
    report.text = str(report.data.get("text", ""))
    report.failures.clear()
    for process in report.data["processes"]:
        for failure in process["failures"]:
            culprit = failure.get("culprit") or {}
            causes = failure["explanation"]["causes"]
            report.failures.append(Failure(failure["text"], culprit.get("api", ""), culprit.get("code", 0),
                                           failure["at"], causes[0]["title"] if causes else "", failure))

"""RECAPTURE=1 python train.py: recapture.pth imports this module if that variable is set.

The interpreter has only just started, so it becomes `recapture blame -- python train.py`: there is a report even if the
program is killed or aborts. If Python is embedded in a program, which cannot be restarted, the process records itself,
and reports at its end.
"""
import os
import sys
from typing import Any


def _interpreter() -> str:
    """The path of this process's interpreter, or "" if Python is embedded in another program."""
    if not sys.executable:
        return ""
    same = os.path.realpath(sys.executable) == os.path.realpath("/proc/self/exe")
    return sys.executable if same else ""


def _start() -> None:
    if os.environ["RECAPTURE"] == "0" or os.environ.get("RECAPTURE_BLAME"):
        return  # Not requested, or a child of a program that is already under blame.
    from recapture import _places
    try:
        program = _places.program()
        interpreter = _interpreter()
        if interpreter:
            with open("/proc/self/cmdline", "rb") as file:
                words = file.read().split(b"\0")[1:-1]
            _require_folder()
            os.execv(program, [program, "blame", "--quiet", "--", interpreter] + words)
        import atexit

        from recapture import _blame
        block = _blame.blame()
        block.__enter__()
        atexit.register(_end, block)
    except Exception as error:  # The program continues without it.
        sys.stderr.write("recapture: RECAPTURE is set, but this process cannot be watched: {}\n".format(error))


def _require_folder() -> None:
    """Raises OSError if `recapture blame` cannot create its file: it would exit without starting the program."""
    path = "{}/recapture-{}".format(os.environ.get("TMPDIR") or "/tmp", os.getpid())
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise OSError("no file can be made in TMPDIR: {}".format(error)) from None
    os.unlink(path)


def _end(block: Any) -> None:
    try:
        block.__exit__(None, None, None)
    except Exception as error:
        sys.stderr.write("recapture: {}\n".format(error))


_start()

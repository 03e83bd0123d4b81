"""RECAPTURE=1 python train.py: what recapture.pth imports where that variable is set.

The interpreter has hardly begun, so it becomes `recapture blame -- python train.py`: the report then also comes when
the program is killed or aborts. Where Python is only a part of a program, which cannot be started again, the process
itself listens, and reports at its end.
"""
import os
import sys


def _interpreter() -> str:
    """The path of the interpreter that this process is, or "" where Python is embedded in another program."""
    if not sys.executable:
        return ""
    same = os.path.realpath(sys.executable) == os.path.realpath("/proc/self/exe")
    return sys.executable if same else ""


def _start() -> None:
    if os.environ["RECAPTURE"] == "0" or os.environ.get("RECAPTURE_BLAME"):
        return  # Not wanted, or a child of a program that is under blame already.
    from recapture import _places
    try:
        program = _places.program()
        interpreter = _interpreter()
        if interpreter:
            with open("/proc/self/cmdline", "rb") as file:
                words = file.read().split(b"\0")[1:-1]
            os.execv(program, [program, "blame", "--quiet", "--", interpreter] + words)
        import atexit
        from recapture import _blame
        report = _blame.blame()
        report.__enter__()
        atexit.register(report.__exit__, None, None, None)
    except Exception as error:  # The program goes on without it.
        sys.stderr.write("recapture: RECAPTURE is set, but this process cannot be watched: {}\n".format(error))


_start()

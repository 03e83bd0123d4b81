"""`python -m recapture`: replaces this process by the program, so that signals and the exit code are the program's.

Only `check` runs here: it needs the PyTorch of this interpreter.
"""
import os
import sys

from recapture import _places

UNAVAILABLE = 7  # harness/base/exit.h


def main() -> None:
    if sys.argv[1:2] == ["check"]:
        from recapture._check import main as check

        sys.exit(check(sys.argv[2:]))
    try:
        path = _places.program()
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        print("recapture: {}".format(error), file=sys.stderr)
        sys.exit(UNAVAILABLE)


if __name__ == "__main__":
    main()

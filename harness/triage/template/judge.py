"""python3 judge.py TEST.py: runs the program and says in one line what came of it.

REPRODUCED (exit status 1), NOT REPRODUCED (0), or COULD NOT RUN and why (2). A program leaves what it saw in `seen`;
`documented` is that with the failure, `healthy` without. `*` stands for any text.
"""
import os
import re
import sys
import traceback
import warnings


def matches(pattern, text):
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def judge(path):
    space = {"__name__": "__main__", "__file__": path}
    with open(path) as file:
        program = compile(file.read(), path, "exec")
    failed = ""
    try:
        exec(program, space)
        seen = str(space["seen"])
    except BaseException as e:
        traceback.print_exc()
        seen = type(e).__name__ + ": " + str(e).split("\n")[0]
        failed = "expectation" if isinstance(e, AssertionError) else "exception"
    if "documented" in space and matches(space["documented"], seen):
        return 1, "REPRODUCED: " + seen
    if matches(space["healthy"], seen):
        return 0, "NOT REPRODUCED: " + seen
    if "documented" in space or failed == "exception":
        return 2, "COULD NOT RUN: " + seen + (", which is neither the failure nor health" if not failed else "")
    return 1, "REPRODUCED: " + seen + " and not " + space["healthy"]


warnings.filterwarnings("ignore", message=".*NumPy")  # It need not be installed.
status, words = judge(sys.argv[1])
print(words, flush=True)
sys.stderr.flush()
os._exit(status)  # What a failed capture leaves behind must not decide how this ends.

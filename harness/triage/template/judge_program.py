"""python3 judge.py PROGRAM.py NAME: runs a function of the program and says in one line what came of it.

REPRODUCED (exit status 1), NOT REPRODUCED (0), or COULD NOT RUN and why (2). NAME is fails, one of the fixes, or
control: fails() without the lines that `# cause` marks, as control.py.
"""
import io
import re
import signal
import subprocess
import sys
import tokenize


def without_cause(source):
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        mark = token.type == tokenize.COMMENT and re.fullmatch("# cause(?:: *(.*))?", token.string)
        if mark:
            number, column = token.start
            line = lines[number - 1][:column]
            lines[number - 1] = line[:len(line) - len(line.lstrip())] + (mark[1] or "pass")
    return "\n".join(lines) + "\n"


def judge(path, name):
    function = name
    if name == "control":
        with open(path) as file:
            text = without_cause(file.read())
        path, function = "control.py", "fails"
        with open(path, "w") as file:
            file.write(text)
    ran = subprocess.run([sys.executable, path, function], stdout=subprocess.PIPE, universal_newlines=True)
    sys.stdout.write(ran.stdout)
    said = dict(line.split(": ", 1) for line in ran.stdout.splitlines() if ": " in line)
    if "cannot run here" in said:
        return 2, "COULD NOT RUN: " + said["cannot run here"]
    documented, healthy, seen = said.get("documented", ""), said.get("healthy", ""), said.get("seen", "")
    if ran.returncode < 0 and not seen:  # What comes after that is the interpreter's own end.
        seen = "hangs" if ran.returncode == -signal.SIGALRM else f"signal {-ran.returncode}"
    if seen and seen == healthy:
        return 0, "NOT REPRODUCED: " + seen
    if function != "fails":
        return 1, f"REPRODUCED: {seen or 'nothing'} and not {healthy}"
    if seen and re.fullmatch(".*".join(map(re.escape, documented.split("*"))), seen, re.DOTALL):
        return 1, "REPRODUCED: " + seen
    return 2, f"COULD NOT RUN: {seen or 'nothing'}, which is neither the failure nor health"


status, words = judge(*sys.argv[1:])
print(words, flush=True)
sys.exit(status)

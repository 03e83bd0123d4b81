"""Runs the programs of cases for `recapture run`: imports torch once and forks for each, before CUDA is touched.

  python programs.py --break=HOW --serve=DESCRIPTOR   requests come over a socket, as to a case's own binary
  python programs.py --break=HOW FUNCTION FILE        one program

A program runs as `python FILE` does. What its main() prints becomes the events of the test (harness/case/events.h).
What main() cannot see is added here: that a signal ended the process.
"""

import ast
import builtins
import ctypes
import io
import os
import re
import runpy
import signal
import socket
import sys
import tokenize
import traceback
import unittest

sys.path.remove("")  # The folder of the test, which has one for torch's files.
import torch  # noqa: E402, F401  For the programs: their own import then takes no time.

LONGEST = 4096 - 8  # Of an event's line, as in harness/case/events.h.
FAILS = "fails"
NO_VALUE = "a value that nothing shows"
SKIPPED = 77
ENDS = {0: "passed", SKIPPED: "skipped"}
PR_SET_PDEATHSIG = 1


def event(descriptor, key, value):
    """Writes an event as one line."""
    line = key + "=" + str(value).replace("\\", "\\\\").replace("\n", "\\n")
    line = line.encode(errors="replace")
    if len(line) > LONGEST:
        line = line[:LONGEST].decode(errors="ignore").encode() + b"[cut]"
    os.write(descriptor, line + b"\n")


def constants(source):
    """The values of DOCUMENTED and HEALTHY."""
    values = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if statement.targets[0].id in ("DOCUMENTED", "HEALTHY"):
                values[statement.targets[0].id] = ast.literal_eval(statement.value)
    return values


def marks(source, word):
    """(line number, column, replacement or None) of each comment `# word` or `# word: replacement`."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string[1:].strip()
        if token.type == tokenize.COMMENT and (text == word or text.startswith(word + ":")):
            yield token.start[0], token.start[1], text[len(word) + 1:].strip() or None


def without_marked(source, word):
    """The program without the lines that a comment marks, or with what the comment has in their place."""
    lines = source.splitlines()
    for number, column, replacement in marks(source, word):
        line = lines[number - 1][:column]
        indent = line[: len(line) - len(line.lstrip())]
        lines[number - 1] = indent + (replacement or "pass")
    return "\n".join(lines) + "\n"


def function_in(source, name):
    """The text of a function, up to what follows it."""
    lines, body = source.splitlines(), ast.parse(source).body
    ends = [statement.lineno - 1 for statement in body[1:]] + [len(lines)]
    for statement, end in zip(body, ends):
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return "\n".join(lines[statement.lineno - 1: end]) + "\n"
    return ""


def why_fix_stays(source, function):
    """Why the remedy of a fix cannot be left out, or None."""
    for _, _, reason in marks(function_in(source, function), "fix stays"):
        return reason
    return None


MORE_GPUS = re.compile(r"needs \d+ GPUs")  # Something that the machine lacks, not the release.
RATE = re.compile(r"(\d+) of (\d+)")  # Hits of tries, where HEALTHY is none of them.


class Words:
    """print() of a program: the words of main() also become events."""

    def __init__(self, descriptor, function, how):
        self.descriptor, self.function, self.how = descriptor, function, how
        self.documented = self.healthy = ""

    def __call__(self, *words, **options):
        builtins.print(*words, **options)
        if len(words) == 2 and isinstance(words[0], str):
            self.take(*words)

    def take(self, word, value):
        if word == "documented:":
            self.documented = NO_VALUE if self.how == "value" else value
        elif word == "healthy:":
            self.healthy = value
        elif word == "seen:" and self.function == FAILS:
            self.report_failure(value)
        elif word == "seen:":
            event(self.descriptor, "value", value)
            if value != self.healthy:
                event(self.descriptor, "assertion", f"{self.function}() returned {value}, not {self.healthy}")
        elif word == "cannot run here:":
            is_lacking = isinstance(value, unittest.SkipTest) and not MORE_GPUS.match(str(value))
            if is_lacking:
                event(self.descriptor, "inapplicable", value)
            event(self.descriptor, "skipped", f"Not applicable: {value}" if is_lacking else value)

    def report_failure(self, seen):
        rate, none = RATE.fullmatch(seen), RATE.fullmatch(self.healthy)
        if rate and none and none[1] == "0":
            event(self.descriptor, "hits", rate[1])
            event(self.descriptor, "tries", rate[2])
            return
        event(self.descriptor, "documented", self.documented)
        event(self.descriptor, "healthy", self.healthy)
        event(self.descriptor, "seen", seen)


def report_exception(descriptor, error):
    """Reports the first failure: the one that was being handled when the others were raised."""
    while error.__context__:
        error = error.__context__
    event(descriptor, "exception", type(error).__name__)
    event(descriptor, "message", error)


def run_in_this_process(function, path, how, descriptor):
    """Runs a program as `python FILE` does, and leaves with its status."""
    print_exception = traceback.print_exc

    def print_exc(*arguments, **options):
        report_exception(descriptor, sys.exc_info()[1])
        print_exception(*arguments, **options)

    traceback.print_exc = print_exc
    sys.argv = [path] if function == FAILS else [path, function]
    status = 0
    try:
        runpy.run_path(path, init_globals={"print": Words(descriptor, function, how)}, run_name="__main__")
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except BaseException as error:
        report_exception(descriptor, error)
        event(descriptor, "assertion", f"{type(error).__name__}: {error}".partition("\n")[0])
        print_exception()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # After a failed capture, destructors may crash.


def prepare(path, folder, function, how, descriptor):
    """The file to run: a copy in the test's folder where something is left out. None if it is not to run."""
    word = {"trigger": "cause", "remedy": "fix"}.get(how)
    if word is None:
        return path
    with open(path, encoding="utf-8") as file:
        source = file.read()
    reason = why_fix_stays(source, function) if how == "remedy" else None
    if reason:
        event(descriptor, "inapplicable", f"the remedy cannot be left out: {reason}")
        event(descriptor, "skipped", f"Not applicable: the remedy cannot be left out: {reason}")
        return None
    if any(True for _ in marks(function_in(source, function), word)) and how == "remedy":
        event(descriptor, "remedy", "left out")
    copy = os.path.join(folder, os.path.basename(path))
    with open(copy, "w", encoding="utf-8") as file:
        file.write(without_marked(source, word))
    return copy


def start(function, path, folder, how, descriptor, variables=(), outputs=()):
    """Forks a process that runs a program. Its number."""
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number, output in zip((1, 2), outputs):
            os.dup2(output, number)
        os.environ["RECAPTURE_EVENTS"] = str(descriptor)
        for variable in variables:
            name, _, value = variable.partition("=")
            os.environ[name] = value
        os.chdir(folder)
        file = prepare(path, folder, function, how, descriptor)
        if file is None:
            os._exit(SKIPPED)
        run_in_this_process(function, file, how, descriptor)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def matches(pattern, text):
    """Whether each `*` of the pattern stands for some text, as in harness/case/pattern.h."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL)


def report_signal(function, path, how, descriptor, number):
    """Reports that a signal ended a program. Returns the status of its test."""
    seen = "hangs" if number == signal.SIGALRM else f"signal {int(number)}"
    with open(path, encoding="utf-8") as file:
        values = constants(file.read())
    if function != FAILS:
        event(descriptor, "value", seen)
        event(descriptor, "assertion", f"{function}() ended with {seen}")
        return 1
    documented = NO_VALUE if how == "value" else values["DOCUMENTED"]
    healthy = values["HEALTHY"]
    event(descriptor, "documented", documented)
    event(descriptor, "healthy", healthy if isinstance(healthy, str) else healthy[FAILS])
    event(descriptor, "seen", seen)
    return 0 if matches(documented, seen) else 1


def end(function, path, how, descriptor, status):
    """Reports a program's end. Returns the wait status of its test."""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in FROM_OUTSIDE:
        return status
    if os.WIFSIGNALED(status):
        code = report_signal(function, path, how, descriptor, os.WTERMSIG(status))
    else:
        code = os.WEXITSTATUS(status)
        if code not in ENDS or (code == 0 and how == "value" and function == FAILS):
            code = 1
    event(descriptor, "ended", ENDS.get(code, "failed"))
    return code << 8


def serve(connection, how):
    """Runs what is asked for until the connection ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    connection.send(b"ready")
    while True:
        text, descriptors, _, _ = socket.recv_fds(connection, 128 << 10, 2)
        if not text:
            return
        request, folder, *variables = text.decode().split("\n")
        function, _, path = request.partition(" ")
        output, events = descriptors
        child = start(function, path, folder, how, events, variables, (output, output))
        connection.send(f"started {child}".encode())
        os.close(output)
        _, status = os.waitpid(child, 0)
        status = end(function, path, how, events, status)
        os.close(events)
        connection.send(f"ended {status}".encode())


def main(how, *rest):
    how = how.partition("=")[2]
    if len(rest) == 1:
        serve(socket.socket(fileno=int(rest[0].partition("=")[2])), how)
        return 0
    function, path = rest
    descriptor = int(os.environ["RECAPTURE_EVENTS"])
    _, status = os.waitpid(start(function, path, os.getcwd(), how, descriptor), 0)
    status = end(function, path, how, descriptor, status)
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

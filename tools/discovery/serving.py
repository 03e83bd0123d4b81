"""Processes that run programs. What crashes a process or makes it hang is a result."""
import ctypes
import faulthandler
import gc
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import warnings

from recapture._check import comparison

from . import running

_ON_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG


def die_with_parent():
    ctypes.CDLL(None).prctl(_ON_PARENTS_DEATH, signal.SIGKILL)


def _serve(make_backend, reading, writing, log):
    os.setsid()  # With what it starts it is a group of its own.
    die_with_parent()
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout = sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="replace")
    faulthandler.enable(sys.stderr)
    warnings.simplefilter("ignore")
    gc.freeze()  # torch.cuda.graph collects garbage at each capture; what is imported is none.

    def send(message):
        os.write(writing, (json.dumps(message) + "\n").encode())

    backend = make_backend()
    send({"phase": "ready"})
    with os.fdopen(reading) as requests:
        for line in requests:
            os.lseek(log, 0, os.SEEK_SET)
            os.ftruncate(log, 0)
            result = running.answer(json.loads(line), backend, lambda phase: send({"phase": phase}))
            send({"result": result})
            if result.get("broken"):
                return


def in_child(function):
    """What function() gives in a process of its own, so that CUDA is not initialised here; nothing if it fails."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.write(writing, json.dumps(function()).encode())
            status = 0
        except BaseException as error:
            os.write(2, f"{comparison.first_line(error)}\n".encode())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as answers:
        text = answers.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else None


class Server:
    """A process that answers one request after another."""

    ends = set()  # Of the pipes of all servers here: a child that kept one would hide the end of another.

    def __init__(self, make_backend):
        reading, there = os.pipe()
        requests, here = os.pipe()
        self.log = tempfile.TemporaryFile()
        self.before = []  # The sources that it has run.
        self.phase, self.rest, self.ended, self.after_graph = "begin", b"", False, False
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                for end in (*Server.ends, reading, here):
                    os.close(end)
                _serve(make_backend, requests, there, self.log.fileno())
                status = 0
            except BaseException as error:
                os.write(2, f"{comparison.first_line(error)}\n".encode())  # The last line of the log is what is shown.
            finally:
                os._exit(status)
        os.close(there)
        os.close(requests)
        self.reading, self.writing = reading, here
        Server.ends |= {reading, here}

    def _message(self, deadline):
        """The next message; None if there is none until the deadline, and "" if the process has ended."""
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            if select.select([self.reading], [], [], min(left, 0.5))[0]:
                data = os.read(self.reading, 1 << 16)
            elif os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                data = b""  # A process that it has started keeps the pipe open.
            else:
                continue
            if not data:
                return ""
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def run(self, request, limit):
        self.after_graph = False
        start = time.monotonic() + limit
        try:
            while self.phase == "begin":  # The limit is for the program, not for the start of the process.
                message = self._message(start + 60)
                if not message:
                    return self._failed("hang" if message is None else "crash")
                self.phase = message["phase"]
            self.phase = "eager"
            os.write(self.writing, (json.dumps(request) + "\n").encode())
        except BrokenPipeError:
            return self._failed("crash")
        self.before.append(request.get("source", ""))
        deadline = time.monotonic() + limit
        while True:
            message = self._message(deadline)
            if not message:
                return self._failed("hang" if message is None else "crash")
            if "result" in message:
                self.ended = self.ended or message["result"].get("broken", False)
                return message["result"]
            self.phase = message["phase"]
            self.after_graph = self.after_graph or self.phase.startswith(("capture", "after", "graph"))

    def _failed(self, state):
        phase, after_graph = self.phase, self.after_graph
        status = self.close()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        self.log.seek(0)
        log = self.log.read()[-3000:].decode(errors="replace")
        result = {"state": state, "phase": phase, "log": log, "broken": True}
        if state == "crash":
            result["how"] = how
        if not after_graph:  # Eager code fails as well.
            said = (log.strip().splitlines() or [""])[-1][:200]
            result.update(state="invalid", why=f"{state} in eager code: {how if state == 'crash' else ''} {said}".rstrip())
        return result

    def close(self):
        """Ends it, with what it has started; its exit status, or the signal as a negative number."""
        if self.pid is None:
            return 0
        try:
            os.killpg(self.pid, signal.SIGKILL)  # It is not reaped yet, so the number is still its own.
        except (ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.pid, self.ended = None, True
        for end in (self.reading, self.writing):
            Server.ends.discard(end)
            os.close(end)
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def in_processes(count, work, deadline, again=False):
    """Runs work(number, attempt) in `count` processes, until the deadline at the latest.

    With `again` a process that ends by an error is started again. Returns the numbers of those that ended so.
    """
    running_, failed = {}, []

    def start(number, attempt):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                die_with_parent()
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                work(number, attempt)
                status = 0
            except BaseException as error:
                os.write(2, f"discover: process {number}: {type(error).__name__}: {error}\n".encode())
            finally:
                sys.stdout.flush()
                os._exit(status)
        running_[pid] = (number, attempt)

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        for number in range(count):
            start(number, 0)
        while running_:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            signal.sigtimedwait({signal.SIGCHLD}, min(left, 5))
            for pid in list(running_):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    number, attempt = running_.pop(pid)
                    if status:
                        failed.append(number)
                        if again and attempt < 20:
                            start(number, attempt + 1)
    finally:
        for pid in running_:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    return failed

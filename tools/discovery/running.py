"""Runs a program eagerly and as graphs in one process, and compares the values as recapture.check() does."""
import contextlib
import gc
import io
import linecache
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from recapture._check import checking, comparison
from recapture._check.cuda import Refused, root_of
from recapture._check.recording import Recorder

WARM_UP = 2
FILE = "program.py"  # As which a program is compiled: the recorder takes its lines for a user's.


def prepare():
    """Before processes begin: the first use of a dispatch mode imports half of PyTorch.

    No backward: it starts autograd's engine, which initialises CUDA, and no process that is forked later could use it.
    No checkpoint either: it looks for a GPU.
    """
    recorder = Recorder(lambda tensor: True, fingerprint=checking.fingerprint)
    recorder.begin(())
    with recorder:
        torch.ones(2, 2, requires_grad=True) @ torch.ones(2, 2)
        torch.func.jvp(lambda x: x * x, (torch.ones(2),), (torch.ones(2),))
    gc.collect()


class Replay:
    """Called, it replays a graph and returns the outputs, which it keeps."""

    def __init__(self, graph, outputs, replay):
        self.graph, self.outputs, self.replay = graph, outputs, replay

    def __call__(self):
        self.replay()
        return self.outputs


def set_back(generator, state):
    """Through another handle if there is one: after set_state() cuDNN rebuilds its dropout's state in the next eager call,
    and frees what an earlier graph uses. This tool would then cause the failure itself."""
    if hasattr(generator, "graphsafe_get_state"):
        generator.graphsafe_get_state().set_state(state)
        if torch.equal(generator.get_state(), state):
            return
    generator.set_state(state)


class OnCuda:
    def __init__(self):
        self.torch = torch

    def names(self):
        """What programs may name besides torch."""
        return {}

    def any(self, name, wanted):
        """Whether one of the program's ranks wants what all have to do."""
        return wanted

    def source(self, source):
        return source

    def begin(self):
        """Settings as a new process has them."""
        torch.backends.cuda.cufft_plan_cache.max_size = 4096
        with contextlib.suppress(AttributeError, RuntimeError, ValueError):  # Each call sets all others back.
            torch.cuda.memory._set_allocator_settings("expandable_segments:False")
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.backends.cudnn.benchmark = False

    def warm_up(self, step, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()

    def stream(self):
        return torch.cuda.Stream()

    def capture(self, step, stream, like, generators):
        generators = [torch.cuda.default_generators[torch.cuda.current_device()], *generators]
        states = [generator.get_state() for generator in generators]
        graph = torch.cuda.CUDAGraph()
        for generator in generators[1:]:
            register = getattr(graph, "register_generator_state", None)
            if register:  # Removed in 2.14, where a generator registers at its first use.
                register(generator)
        try:
            with torch.cuda.graph(graph, pool=like.graph.pool() if like else None, stream=stream,
                                  capture_error_mode="thread_local"):
                outputs = step()
        except Exception as error:
            raise Refused(root_of(error)) from error
        torch.cuda.synchronize()
        for generator, state in zip(generators, states):
            set_back(generator, state)
        return Replay(graph, outputs, graph.replay)

    def synchronize(self):
        torch.cuda.synchronize()

    def recover(self):
        """Whether the process can go on: up to 2.12 a failed capture leaves the generator unusable until one succeeds."""
        try:
            gc.collect()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                torch.zeros(1, device="cuda")
            torch.zeros(2, device="cuda").sum().item()
            return True
        except Exception:
            return False

    def blocks(self):
        """The sizes of the free blocks that the allocator gives to the current stream."""
        stream = torch.cuda.current_stream().cuda_stream
        return [block["size"] for segment in torch.cuda.memory_snapshot()
                if tuple(segment.get("segment_pool_id", (0, 0))) == (0, 0) and segment.get("stream", 0) == stream
                for block in segment["blocks"] if block["state"] == "inactive"]

    def on_device(self, tensor):
        return tensor.is_cuda

    def facts(self):
        return {"gpu": torch.cuda.get_device_name(0), "cuda_runtime": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version()}


def named(values):
    return checking.tensors_by_name(values, ((), {}))


class Runner:
    """One program in one process. `note` is told where it is, so that a crash has a place."""

    def __init__(self, source, backend, note=lambda phase: None):
        self.backend, self.note = backend, note
        self.source = backend.source(source)
        lines = self.source.splitlines(True)
        linecache.cache[FILE] = (len(self.source), None, lines, FILE)

    def _start(self, capture, source=None):
        self.backend.begin()
        names = {"torch": self.backend.torch, "F": F, "gc": gc, "io": io, "subprocess": subprocess, "checkpoint": checkpoint,
                 "ThreadPoolExecutor": ThreadPoolExecutor, "capture": capture, "blocks": self.backend.blocks,
                 "nudged": checking.nudged, **self.backend.names()}
        exec(compile(source or self.source, FILE, "exec"), names)
        return names["program"]()

    def _values(self, mode, capture, run, source=None):
        for number, values in enumerate(self._start(capture, source), 1):
            self.backend.synchronize()
            self.note(f"{mode}, value {number}")
            run.add_outputs(named(values))
        return run

    def eager(self, run, source=None):
        def capture(step, like=None, generators=()):
            self.backend.warm_up(step, self.backend.stream())
            return step

        return self._values("eager", capture, run, source)

    def graph(self, run):
        def capture(step, like=None, generators=()):
            stream = self.backend.stream()
            self.backend.warm_up(step, stream)
            self.note("capture")
            made = self.backend.capture(step, stream, like, generators)
            self.note("after the capture")
            return made

        return self._values("graph", capture, run)

    def compare(self):
        """What differs, as a dictionary with a `state`."""
        try:
            first = self.eager(checking.Run())
        except Exception as error:
            return {"state": "invalid", "why": _said(error)}
        gc.collect()
        try:
            graph = self.graph(checking.Run(first, keep=False))
        except Refused as refused:
            return {"state": "refused", "why": _said(refused.cause)}
        except Exception as error:
            if _out_of_memory(error):
                return {"state": "invalid", "why": _said(error)}
            return {"state": "raised", "why": _said(error)}
        if len(graph.outputs) != len(first.outputs):
            return {"state": "differs", "values": [["number of values", "", len(first.outputs), len(graph.outputs)]]}
        wrong = [each for each in graph.differences if each.apart > each.tolerance]
        same = {"state": "same", "values": sum(map(len, first.outputs))}
        if not self.backend.any("wrong", bool(wrong)):
            return same
        return self._judge(first, wrong) if wrong else {**self._judge(first, wrong), **same}

    def _judge(self, first, wrong):
        """Leaves out what eager code does not repeat either, and what is rounding: the rules of check()."""
        again = self.eager(checking.Run(first, keep=False))
        not_repeated, noise = checking.noise_of(again.differences)
        wrong = checking.beyond_noise(wrong, not_repeated, noise)
        if not self.backend.any("beyond noise", bool(wrong)):
            return {"state": "not repeated", "values": not_repeated[:4]}
        lines = self.source.splitlines(True)
        at = next(index for index, line in enumerate(lines) if line.startswith("    data = "))
        lines.insert(at + 1, "    data = nudged(data)\n")
        nudged = self.eager(checking.Run(first, keep=False), "".join(lines))
        kept = checking.beyond_rounding(wrong, nudged.differences)
        if not kept:
            return {"state": "rounding", "values": [each.name for each in wrong][:4]}
        return {"state": "differs", "noise": noise,
                "values": [[each.name, each.apart if each.apart < 1e300 else "inf", *each.samples] for each in kept[:6]]}

    def first_operator(self, noise=0.0):
        """The first operator whose checksums differ, and its line; nothing if none can be singled out."""
        plays = {"eager": [], "graph": []}

        def recorded(recorder, step, into):
            def call():
                into.append(recorder.begin(()))
                with recorder:
                    return step()
            return call

        def eagerly(step, like=None, generators=()):
            self.backend.warm_up(step, self.backend.stream())
            return recorded(Recorder(self.backend.on_device, fingerprint=checking.fingerprint), step, plays["eager"])

        def as_graph(step, like=None, generators=()):
            stream = self.backend.stream()
            self.backend.warm_up(step, stream)
            calls = []
            recorder = Recorder(self.backend.on_device, fingerprint=checking.fingerprint)
            made = self.backend.capture(recorded(recorder, step, calls), stream, like, generators)
            replay = made.replay

            def replayed():
                replay()
                self.backend.synchronize()
                plays["graph"].append((calls[0], [[check.clone() if check is not None else None for _, _, check in op.checks]
                                                  for op in calls[0].operators]))

            made.replay = replayed
            return made

        self._values("eager with checksums", eagerly, checking.Run())
        self._values("graph with checksums", as_graph, checking.Run())
        for call, (captured, seen) in zip(plays["eager"], plays["graph"]):
            found = comparison.first_difference(call, captured, seen, noise)
            if found:
                operator = captured.operators[found[0]]
                return {"operator": operator.name, "line": operator.line.text if operator.line else ""}
        return {}


def _said(error):
    return comparison.first_line(error)[:300]


def _out_of_memory(error):
    return "out of memory" in str(error).lower() or type(error).__name__ == "OutOfMemoryError"


def answer(request, backend, note):
    """The result of one request in this process; `broken` if the process cannot go on."""
    if request.get("facts"):
        return {"state": "same", "facts": backend.facts()}
    runner = Runner(request["source"], backend, note)
    try:
        result = runner.compare()
        if request.get("locate") and backend.any("locate", result["state"] == "differs"):
            note("looking for the first operator")
            try:
                result["first"] = runner.first_operator(result.get("noise", 0.0))
            except Exception as error:
                result["first"] = {"error": _said(error)}
    except Exception as error:  # A mistake of ours, or a context that an earlier kernel broke.
        result = {"state": "invalid", "why": _said(error), "trace": traceback.format_exc()[-1500:]}
    sys.last_traceback = None
    del runner
    if result["state"] in ("refused", "raised", "invalid"):
        result["broken"] = not backend.recover()
    return result

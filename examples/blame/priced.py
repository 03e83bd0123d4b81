"""The same as priced.cpp, in Python with torch: `priced.py` or `priced.py profiler`, with torch.profiler recording."""
import os
import sys
import time

import torch

KERNELS, REPLAYS, LAUNCHES, CAPTURES, EXCEPTIONS = 20, 200, 300, 10, 100_000
x = torch.ones(32, device="cuda")
stream = torch.cuda.Stream()
graph = torch.cuda.CUDAGraph()


def launch(times):
    for _ in range(times):
        x.add_(1)


def capture(into):
    into.capture_begin()
    launch(KERNELS)
    into.capture_end()


def replay():
    for _ in range(REPLAYS):
        graph.replay()
    stream.synchronize()


def captures():
    for _ in range(CAPTURES):
        capture(torch.cuda.CUDAGraph())


def exceptions():
    for _ in range(EXCEPTIONS):
        try:
            raise ValueError
        except ValueError:
            pass


def microseconds(act, times):
    least = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        act()
        took = time.perf_counter() - start
        stream.synchronize()
        least = min(least, 1e6 * took / times)
    return least


with torch.cuda.stream(stream):
    launch(3)
    stream.synchronize()
    capture(graph)
    if sys.argv[1:] == ["profiler"]:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        profiler = torch.profiler.profile(activities=activities)
        profiler.start()
    replay()
    captures()
    print("ready", flush=True)
    for line in sys.stdin:
        replay()
        print("times", microseconds(replay, REPLAYS), microseconds(lambda: launch(LAUNCHES), LAUNCHES),
              microseconds(captures, CAPTURES), microseconds(exceptions, EXCEPTIONS), flush=True)
os._exit(0)  # The profiler's processing of its records at exit is not measured.

"""The branches of torch.cond, and conditional nodes in a row, cannot use each other's free memory."""

import re
import signal
import sys
import traceback
import unittest

import torch

DOCUMENTED = "256 MiB"
HEALTHY = "64 MiB"


def fails():
    if not hasattr(torch.cuda.CUDAGraph, "begin_capture_to_if_node"):
        raise unittest.SkipTest("this release captures no torch.cond")
    condition, x = torch.tensor(True, device="cuda"), torch.zeros(1, device="cuda")
    x.add_(torch.ones(1, device="cuda"))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(4):
            graph.begin_capture_to_if_node(condition)  # cause
            x.add_(torch.ones(16 << 20, device="cuda")[:1])
            graph.end_capture_to_conditional_node()  # cause
    graph.replay()
    held = sum(s["total_size"] for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) != (0, 0))
    return f"{round(held / (64 << 20)) * 64} MiB" if x.item() == 5 else x.item()


def fix_allocate_before_the_branches():
    if not hasattr(torch.cuda.CUDAGraph, "begin_capture_to_if_node"):
        raise unittest.SkipTest("this release captures no torch.cond")
    condition, x = torch.tensor(True, device="cuda"), torch.zeros(1, device="cuda")
    x.add_(torch.ones(1, device="cuda"))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        buffer = torch.empty(16 << 20, device="cuda")
        for _ in range(4):
            graph.begin_capture_to_if_node(condition)
            ones = buffer.fill_(1)  # fix: ones = torch.ones(16 << 20, device="cuda")
            x.add_(ones[:1])
            del ones
            graph.end_capture_to_conditional_node()
    graph.replay()
    held = sum(s["total_size"] for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) != (0, 0))
    return f"{round(held / (64 << 20)) * 64} MiB" if x.item() == 5 else x.item()


def main(name="fails"):
    healthy = HEALTHY if isinstance(HEALTHY, str) else HEALTHY[name]
    wanted = DOCUMENTED if name == "fails" else healthy
    print("documented:", wanted)
    print("healthy:", healthy, flush=True)
    if not torch.cuda.is_available():
        print("cannot run here:", "no GPU")
        return 77
    signal.alarm(60)  # Ends what hangs.
    try:
        seen = str(globals()[name]())
    except unittest.SkipTest as reason:
        print("cannot run here:", reason)
        return 77
    except Exception as error:
        traceback.print_exc()
        errors = [error]
        while errors[0].__context__:
            errors.insert(0, errors[0].__context__)
        seen = " > ".join(f"{type(e).__name__}: {e}".partition("\n")[0] for e in errors)
    print("seen:", seen)
    if seen == healthy:
        return 0 if wanted == healthy else 1
    return 0 if re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), seen, re.DOTALL) else 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

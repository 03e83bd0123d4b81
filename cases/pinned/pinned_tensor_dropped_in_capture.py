"""A pinned tensor that dies in a capture that copies from it makes the next pinned allocation fail, after the capture."""

import re
import signal
import sys
import traceback
import unittest

import torch

DOCUMENTED = "*Error: CUDA error: invalid argument"
HEALTHY = "[5.0, 7.0]"


def fails():
    copy, source = torch.empty(8, device="cuda"), torch.full((8,), 3.0, pin_memory=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        copy.copy_(source, non_blocking=True)
        source = None  # cause
    torch.empty(8, pin_memory=True)
    values = []
    for value in (5, 7):
        source.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        values.append(copy[0].item())
    return values


def fix_keep_until_the_graph_goes():
    copy, source = torch.empty(8, device="cuda"), torch.full((8,), 3.0, pin_memory=True)
    kept = source  # fix: kept = torch.empty(8)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        copy.copy_(source, non_blocking=True)
        source = None
    torch.empty(8, pin_memory=True)
    values = []
    for value in (5, 7):
        kept.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        values.append(copy[0].item())
    graph.reset()
    kept = None
    torch.empty(8, pin_memory=True)
    return values


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

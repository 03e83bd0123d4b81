"""A learning rate on the host is a constant of the graph: a new one changes nothing."""

import re
import signal
import sys
import traceback
import unittest

import torch

DOCUMENTED = "[-1.0, -2.0, -3.0]"
HEALTHY = "[-1.0, -3.0, -7.0]"


def fails():
    weight, gradient = torch.zeros(1, device="cuda"), torch.ones(1, device="cuda")
    rate = torch.ones(())  # cause: rate = torch.ones((), device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weight.sub_(rate * gradient)
    values = []
    for value in (1, 2, 4):
        rate.fill_(value)
        graph.replay()
        values.append(weight.item())
    return values


def fix_scalar_on_the_gpu():
    weight, gradient = torch.zeros(1, device="cuda"), torch.ones(1, device="cuda")
    rate = torch.ones((), device="cuda")  # fix: rate = torch.ones(())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weight.sub_(rate * gradient)
    values = []
    for value in (1, 2, 4):
        rate.fill_(value)
        graph.replay()
        values.append(weight.item())
    return values


def fix_capture_for_each_value():
    weight, gradient = torch.zeros(1, device="cuda"), torch.ones(1, device="cuda")
    graphs = []
    for rate in (1, 2, 4):  # fix: for rate in (1, 1, 1):
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            weight.sub_(gradient, alpha=rate)
    values = []
    for graph in graphs:
        graph.replay()
        values.append(weight.item())
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

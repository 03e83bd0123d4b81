"""A captured step() of SGD has the learning rate of the capture: a schedule is seen by no replay."""

import re
import signal
import sys
import traceback
import unittest

import torch

DOCUMENTED = "[1, 2, 3]"
HEALTHY = "[1, 3, 6]"


def fails():
    weight = torch.zeros(1, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.001)
    optimizer.step()  # Warm-up: there is no gradient yet.
    weight.grad = torch.ones(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weight.grad.fill_(1)
        optimizer.step()  # cause
    values = []
    for number in (1, 2, 3):
        optimizer.param_groups[0]["lr"] = 0.001 * number
        graph.replay()
        # cause: optimizer.step()
        values.append(round(weight.item() * -1000))
    return values


def fix_step_outside_the_graph():
    weight = torch.zeros(1, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.001)
    optimizer.step()  # Warm-up: there is no gradient yet.
    weight.grad = torch.ones(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weight.grad.fill_(1)
        # fix: optimizer.step()
    values = []
    for number in (1, 2, 3):
        optimizer.param_groups[0]["lr"] = 0.001 * number
        graph.replay()
        optimizer.step()  # fix
        values.append(round(weight.item() * -1000))
    return values


def fix_step_on_the_gpu():
    weight = torch.zeros(1, device="cuda", requires_grad=True)
    weight.grad = torch.ones(1, device="cuda")
    rate = torch.tensor(0.001, device="cuda")  # fix: rate = torch.tensor(0.001)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        weight.grad.fill_(1)
        weight.sub_(weight.grad * rate)
    values = []
    for number in (1, 2, 3):
        rate.fill_(0.001 * number)
        graph.replay()
        values.append(round(weight.item() * -1000))
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

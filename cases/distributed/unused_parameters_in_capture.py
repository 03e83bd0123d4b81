"""DistributedDataParallel(find_unused_parameters=True) reads its map of used parameters on the host in a capture."""

import re
import signal
import sys
import traceback
import unittest

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

DOCUMENTED = "*Error: CUDA error: operation not permitted when stream is capturing*"
HEALTHY = "[3.0, 5.0]"


def fails():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    layers = torch.nn.ModuleDict({"used": torch.nn.Linear(1, 1), "unused": torch.nn.Linear(1, 1)}).cuda()
    layers.forward = lambda x: layers["used"](x)  # cause: layers.forward = lambda x: layers["used"](x) + 0 * layers["unused"](x)
    x, stream = torch.ones(1, 1, device="cuda"), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model = DDP(layers, find_unused_parameters=True)  # cause: model = DDP(layers)
        for _ in range(11):
            model.zero_grad()
            model(x).sum().backward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    model.zero_grad()
    with torch.cuda.graph(graph, stream=stream):
        model(x).sum().backward()
    values = []
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        values.append(layers["used"].weight.grad.item())
    return values


def fix_use_every_parameter():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    layers = torch.nn.ModuleDict({"used": torch.nn.Linear(1, 1), "unused": torch.nn.Linear(1, 1)}).cuda()
    layers.forward = lambda x: layers["used"](x) + 0 * layers["unused"](x)  # fix: layers.forward = lambda x: layers["used"](x)
    x, stream = torch.ones(1, 1, device="cuda"), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model = DDP(layers)  # fix: model = DDP(layers, find_unused_parameters=True)
        for _ in range(11):
            model.zero_grad()
            model(x).sum().backward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    model.zero_grad()
    with torch.cuda.graph(graph, stream=stream):
        model(x).sum().backward()
    values = []
    for value in (3, 5):
        x.fill_(value)
        graph.replay()
        values.append(layers["used"].weight.grad.item())
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

# case: wait_of_hook_left_out
# without ControlEager: there is no graph in it
# without ReproducesWaitInTheCapture: the capture fails, which blame explains
import inspect

import torch

import recapture
from programs import run


def steps(loads, wait=False, external=False):
    model = torch.nn.Linear(1024, 1024, bias=False).cuda().requires_grad_(False)
    x = torch.ones(8, 1024, device="cuda")
    loading = torch.cuda.Stream()
    loaded = torch.cuda.Event(external=True) if external else torch.cuda.Event()
    weights = [torch.full((1024, 1024), float(value)).pin_memory() for value in (5, 7, 9)]
    loaded.record()

    def hook(module, inputs):
        if external or not torch.cuda.is_current_stream_capturing():
            loaded.wait()

    model.register_forward_pre_hook(hook)
    model(x).sum().item()
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
        for weight in weights:
            if loads:
                with torch.cuda.stream(loading):
                    model.weight.copy_(weight, non_blocking=True)  # FOUND Reproduces: unordered
                    loaded.record()
            if wait:
                loaded.wait()
            graph.replay()
            y.sum().item()
    return report


def Control():
    return steps(loads=False)


def Reproduces():
    return steps(loads=True)


def FixWaitBeforeTheReplay():
    return steps(loads=True, wait=True)


def FixExternalWait():
    if "external" not in inspect.signature(torch.cuda.Event.__new__).parameters:
        return "this release has no external events"
    return steps(loads=True, external=True)


if __name__ == "__main__":
    run(globals())

# case: value_cached_by_warm_up
# without ControlEager: there is no graph in it
import torch

import recapture
from programs import run


def serve(warm_up=True, drop=False, renew=False):
    """An attention that makes its plan at the first call."""
    lengths, x = torch.ones(3, device="cuda"), torch.ones(3, device="cuda")
    kept = {}

    def step():
        if "plan" not in kept:
            kept["plan"] = lengths.cumsum(0)
        return x * kept["plan"]  # FOUND Reproduces: rebound

    torch.ones(3, device="cuda").cumsum(0)
    with recapture.check() as report:
        if warm_up:
            step()
        if drop:
            kept.clear()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = step()
        for length in (2, 5):
            lengths.fill_(length)
            if renew:
                kept["plan"].copy_(lengths.cumsum(0))
            graph.replay()
            y.sum().item()
    return report


def Control():
    return serve(warm_up=False)


def Reproduces():
    return serve()


def FixDropItBeforeTheCapture():
    return serve(drop=True)


def FixComputeItOutside():
    return serve(renew=True)


if __name__ == "__main__":
    run(globals())

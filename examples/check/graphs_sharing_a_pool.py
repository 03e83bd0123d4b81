# case: graphs_sharing_a_pool
# without ControlEager: there is no graph in it
import torch

import recapture
from programs import run


def two_graphs(share, in_order, clone=False):
    x = torch.ones(4, device="cuda")
    ((x + 1) * 2).sum().item()
    with recapture.check() as report:
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(first):
            y1 = (x + 1) * 2
        with torch.cuda.graph(second, pool=first.pool() if share else None):
            y2 = x * 2
        for value in (2.0, 5.0, 7.0):
            x.fill_(value)
            if in_order:
                first.replay()
                second.replay()
                result = y2
            else:
                second.replay()
                result = y2.clone() if clone else y2
                first.replay()
            result.sum().item()  # FOUND ReproducesInAnotherOrder: overwritten
            y1.sum().item()
    return report


def callables(order):
    """Three of h * h with h = x + i: the backward passes are captured from the last to the first."""
    x = torch.ones(4, device="cuda")
    ((x + 1) * (x + 1) * 2).sum().item()
    with recapture.check() as report:
        pool = torch.cuda.graph_pool_handle()
        forward, backward = [torch.cuda.CUDAGraph() for _ in range(3)], [torch.cuda.CUDAGraph() for _ in range(3)]
        h, y, grad = [None] * 3, [None] * 3, [None] * 3
        for i in range(3):
            with torch.cuda.graph(forward[i], pool=pool):
                h[i] = x + (i + 1)
                y[i] = h[i] * h[i]
        for i in (2, 1, 0):
            with torch.cuda.graph(backward[i], pool=pool):
                grad[i] = h[i] * 2  # FOUND ReproducesBackwardInTheOrderOfForward: overwritten
            h[i] = None
        for value in (1.0, 2.0, 3.0):
            x.fill_(value)
            for graph in forward:
                graph.replay()
            for i in order:
                backward[i].replay()
                grad[i].sum().item()
    return report


def Control():
    return two_graphs(share=True, in_order=True)


def ReproducesInAnotherOrder():
    return two_graphs(share=True, in_order=False)


def ReproducesBackwardInTheOrderOfForward():
    return callables((0, 1, 2))


def FixPoolOfItsOwn():
    return two_graphs(share=False, in_order=False)


def FixCloneTheOutput():
    return two_graphs(share=True, in_order=False, clone=True)


def FixReplayInTheOrderOfCapture():
    return callables((2, 1, 0))


if __name__ == "__main__":
    run(globals())

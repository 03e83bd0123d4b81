# case: input_freed_after_capture
# without ControlEager: check() runs eager code in each variant
# without ReproducesAfterEmptyCache: it raises
import torch

import recapture
from programs import run

COUNT = 16 << 20  # 64 MiB of floats, which have a segment of their own.


def replayed(keep):
    x = torch.full((COUNT,), 3.0, device="cuda")
    (x[-1:] * 2).item()
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x[-1:] * 2  # FOUND Reproduces: freed
        kept = x if keep else None
        del x
        other = torch.empty(COUNT, device="cuda")
        for value in (5.0, 7.0, 9.0):
            other.fill_(value)
            if keep:
                kept.fill_(value)
            graph.replay()
            y.clone()
    return report


def Control():
    return replayed(keep=True)


def Reproduces():
    return replayed(keep=False)


def FixKeepTheInput():
    return replayed(keep=True)


if __name__ == "__main__":
    run(globals())

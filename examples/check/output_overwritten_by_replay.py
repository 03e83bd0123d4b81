# case: output_overwritten_by_replay
# without ControlEager: there is no graph in it
import torch

import recapture
from programs import run


def collected(keep):
    x = torch.zeros(4, device="cuda")
    (x * x + 1).sum().item()
    total = torch.zeros(4, device="cuda")
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * x + 1
        outputs = []
        for value in range(3):
            x.fill_(value)
            graph.replay()
            keep(outputs, y, total)
        if outputs:
            torch.stack(outputs).sum().item()  # FOUND Reproduces: overwritten
        total.sum().item()
    return report


def Control():
    return collected(lambda outputs, y, total: y.sum().item())


def Reproduces():
    return collected(lambda outputs, y, total: outputs.append(y))


def FixCloneTheOutput():
    return collected(lambda outputs, y, total: outputs.append(y.clone()))


def FixUseItBeforeTheNextReplay():
    return collected(lambda outputs, y, total: total.add_(y))


if __name__ == "__main__":
    run(globals())

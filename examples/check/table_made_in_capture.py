# case: table_made_in_capture
import torch

import recapture
from programs import run


def embed(before=False, read_after=False, read=True):
    """A module makes its table at the first use, and eager code uses it as well."""
    x = torch.ones(1 << 10, device="cuda")
    table = None
    (x + torch.arange(1 << 10, device="cuda", dtype=torch.float)).sum().item()
    with recapture.check() as report:
        if before:
            table = torch.arange(1 << 10, device="cuda", dtype=torch.float)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            if table is None:
                table = torch.arange(1 << 10, device="cuda", dtype=torch.float)
            y = x + table
        if read and not read_after:
            table[5].item()  # FOUND Reproduces: early
        for _ in range(2):
            graph.replay()
        if read_after:
            table[5].item()
        y.sum().item()
    return report


def Control():
    return embed(read=False)


def ControlAfterAReplay():
    return embed(read_after=True)


def Reproduces():
    return embed()


def FixMakeItBefore():
    return embed(before=True)


if __name__ == "__main__":
    run(globals())

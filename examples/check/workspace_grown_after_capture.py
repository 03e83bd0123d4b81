# case: workspace_grown_after_capture
# without ControlEager: there is no graph in it
import torch

import recapture
from programs import run

SMALL, LARGE = 1 << 20, 5 << 20


class Library:
    def __init__(self, keeps_retired=False):
        self.workspace, self.retired, self.keeps_retired = None, [], keeps_retired

    def doubled(self, x):
        if self.workspace is None or self.workspace.numel() < x.numel():
            if self.keeps_retired:
                self.retired.append(self.workspace)
            self.workspace = torch.empty(x.numel(), device="cuda")
        scratch = self.workspace[:x.numel()]
        scratch.copy_(x)  # FOUND Reproduces: freed
        return scratch * 2


def replayed(library, grow_first=False, grow_after=True, again=False):
    x, large = torch.full((SMALL,), 3.0, device="cuda"), torch.full((LARGE,), 3.0, device="cuda")
    library.doubled(x).sum().item()
    with recapture.check() as report:
        if grow_first:
            library.doubled(large)

        def capture():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                return graph, library.doubled(x)

        graph, y = capture()
        library.doubled(large if grow_after else x)
        if again:
            graph, y = capture()
        other = torch.ones(SMALL, device="cuda")
        for value in (5.0, 7.0, 9.0):
            x.fill_(value)
            graph.replay()
            y[-1:].item()
        other[-1:].item()
    return report


def Control():
    return replayed(Library(), grow_after=False)


def Reproduces():
    return replayed(Library())


def FixGrowBeforeAnyCapture():
    return replayed(Library(), grow_first=True)


def FixKeepTheOldWorkspace():
    return replayed(Library(keeps_retired=True))


def FixCaptureAgain():
    return replayed(Library(), again=True)


if __name__ == "__main__":
    run(globals())

# case: dead_input_in_python_capture
import inspect

import torch

import recapture
from programs import run


class Masks:
    """Caches the mask of the last requested length."""

    def __init__(self):
        self.length, self.mask = 0, None

    def __call__(self, length):
        if length != self.length:
            self.length, self.mask = length, torch.ones(length, length, device="cuda").tril()
        return self.mask


def replayed(lengths, options=None, kept=None):
    masks = Masks()
    x = torch.ones(512, 512, device="cuda")
    (x * masks(512)).sum().item()
    if kept is not None:
        kept.append(masks(512))
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, **(options or {})):
            y = x * masks(512)  # FOUND Reproduces: freed
        try:
            for number, length in enumerate(lengths):
                masks(length)
                x.fill_(number)
                graph.replay()
                y.clone()
        except RuntimeError as refused:
            return str(refused)
    return report


def Control():
    return replayed((512, 512, 512))


def Reproduces():
    return replayed((512, 256, 128))


def FixKeepTheInput():
    return replayed((512, 256, 128), kept=[])


def FixCheckInputLiveness():
    if "check_input_liveness" not in inspect.signature(torch.cuda.graph.__init__).parameters:
        return "torch.cuda.graph has no check_input_liveness"
    return replayed((512, 512, 512), {"check_input_liveness": True})


if __name__ == "__main__":
    run(globals())

# case: input_rebound
# without ControlEager: check() runs eager code in each variant
import torch

import recapture
from programs import run


class Centred:
    def __init__(self):
        self.mean = torch.zeros(4, device="cuda")

    def __call__(self, x):
        y = x - self.mean  # FOUND ReproducesHiddenState: rebound
        self.mean = self.mean * 0.5 + x
        return y


class CentredInPlace(Centred):
    def __call__(self, x):
        y = x - self.mean
        self.mean.lerp_(x, 0.5)
        return y


def filled(i):
    return torch.full((4,), 5.0 + 2 * i, device="cuda")


def with_inputs(use):
    """A program's own graph of 2 * x, and three steps; `use` makes the next input the step's."""
    x = torch.full((4,), 3.0, device="cuda")
    (x * 2).sum().item()
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            doubled = x * 2  # FOUND ReproducesInput: freed
        for number in range(3):
            x = use(x, filled(number))
            graph.replay()
            doubled.clone()
    return report


def Control():
    return [recapture.check(CentredInPlace(), filled), with_inputs(lambda x, new: x.copy_(new))]


def ReproducesInput():
    return with_inputs(lambda x, new: new)


def ReproducesHiddenState():
    return recapture.check(Centred(), filled)


def FixCopyIntoTheInput():
    return with_inputs(lambda x, new: x.copy_(new))


def FixUpdateTheStateInPlace():
    return recapture.check(CentredInPlace(), filled)


if __name__ == "__main__":
    run(globals())

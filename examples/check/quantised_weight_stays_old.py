# case: derived_weight_stays_old
# without ControlEager: check() runs eager code in each variant
import torch

import recapture
from programs import run


class Quantised(torch.nn.Module):
    """A layer in int8 with a scale for each row. Updates of its weight, as in online learning, quantise it again."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(1.0, 17.0, device="cuda").reshape(4, 4), requires_grad=False)
        self.quantise()

    def in_int8(self):
        scale = self.weight.abs().amax(1, keepdim=True) / 127
        return (self.weight / scale).round().to(torch.int8), scale

    def quantise(self):
        self.rows, self.scale = self.in_int8()

    def forward(self, x):
        return x @ (self.rows * self.scale).t()  # FOUND Reproduces: rebound


class QuantisedInPlace(Quantised):
    def quantise(self):
        if hasattr(self, "rows"):
            for kept, new in zip((self.rows, self.scale), self.in_int8()):
                kept.copy_(new)
        else:
            super().quantise()


class QuantisedInTheGraph(Quantised):
    def forward(self, x):
        rows, scale = self.in_int8()
        return x @ (rows * scale).t()


def inputs(i):
    return torch.full((2, 4), 1.0 + i, device="cuda")


def online(layer):
    def step(x):
        y = layer(x)
        layer.weight.mul_(1.5)
        layer.quantise()
        return y

    return step


def Control():
    return recapture.check(Quantised(), inputs)


def Reproduces():
    return recapture.check(online(Quantised()), inputs)


def FixCopyIntoTheDerivedTensor():
    return recapture.check(online(QuantisedInPlace()), inputs)


def FixDeriveInTheGraph():
    return recapture.check(online(QuantisedInTheGraph()), inputs)


def FixCaptureAgain():
    reports, layer = [], Quantised()
    for _ in range(2):
        layer.weight.mul_(1.5)
        layer.quantise()
        reports.append(recapture.check(layer, inputs))
    return reports


if __name__ == "__main__":
    run(globals())

# case: derived_weight_stays_old
# without ControlEager: check() runs eager code in each variant
import torch

import recapture
from programs import run


class Engine:
    """Prepares its weight after each update, as serving engines do."""

    def __init__(self):
        self.weight = torch.ones(4, 4, device="cuda")
        self.prepare()

    def prepared_weight(self):
        return self.weight.t().contiguous() * 2

    def prepare(self):
        self.prepared = self.prepared_weight()

    def __call__(self, x):
        y = x @ self.prepared  # FOUND Reproduces: rebound
        self.weight.add_(1)
        self.prepare()
        return y


class EngineThatCopies(Engine):
    def __call__(self, x):
        y = x @ self.prepared
        self.weight.add_(1)
        self.prepared.copy_(self.prepared_weight())
        return y


class EngineThatDerives(Engine):
    def __call__(self, x):
        y = x @ self.prepared_weight()
        self.weight.add_(1)
        return y


def inputs(i):
    return torch.full((4, 4), 1.0 + i, device="cuda")


def Control():
    engine = Engine()
    return recapture.check(lambda x: x @ engine.prepared, inputs)


def Reproduces():
    return recapture.check(Engine(), inputs)


def FixCopyIntoTheDerivedTensor():
    return recapture.check(EngineThatCopies(), inputs)


def FixDeriveInTheGraph():
    return recapture.check(EngineThatDerives(), inputs)


def FixCaptureAgain():
    reports, engine = [], Engine()
    for _ in range(2):
        engine.weight.add_(1)
        engine.prepare()
        reports.append(recapture.check(lambda x: x @ engine.prepared, inputs))
    return reports


if __name__ == "__main__":
    run(globals())

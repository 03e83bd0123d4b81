# case: host_scalar_baked_in
# without ControlEager: check() runs eager code in each variant
import torch

import recapture
from programs import run

x = torch.full((4,), 12.0, device="cuda")
weight = torch.zeros(4, device="cuda")
values = (1.0, 2.0, 4.0)


def on_gpu(i):
    return torch.tensor(values[i], device="cuda")


def on_host(i):
    return torch.tensor(values[i])


def descend(rate):
    return weight.sub_(rate * torch.ones_like(weight))  # FOUND ReproducesLearningRate: host_value


def average(step):
    return x / step  # FOUND ReproducesStep: host_value


def scale(factor):
    return x * factor  # FOUND ReproducesLossScale: host_value


def power(exponent):
    return torch.pow(x, exponent)  # FOUND ReproducesExponent: host_value


def Control():
    return recapture.check(scale, on_gpu)


def ReproducesLearningRate():
    return recapture.check(descend, lambda i: values[i])


def ReproducesStep():
    return recapture.check(average, on_host)


def ReproducesLossScale():
    return recapture.check(scale, on_host)


def ReproducesExponent():
    return recapture.check(power, lambda i: values[i])


def FixScalarOnTheGpu():
    return [recapture.check(descend, on_gpu), recapture.check(power, on_gpu)]


def FixCaptureForEachValue():
    return [recapture.check(descend, lambda i, value=value: value) for value in values]


if __name__ == "__main__":
    run(globals())

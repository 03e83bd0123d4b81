# case: autocast_cache_across_capture
# without ControlEager: check() runs eager code in each variant
import torch

import recapture
from programs import run

weight = torch.nn.Parameter(torch.eye(16, device="cuda"))


def inputs(i):
    return torch.full((16, 16), 1.0 + i, device="cuda")


def step(x):
    y = torch.nn.functional.linear(x, weight)  # FOUND Reproduces: rebound
    with torch.no_grad():
        weight.mul_(0.5)
    return y


def step_with_region(x):
    with torch.autocast("cuda", dtype=torch.float16):
        return step(x)


def Control():
    return recapture.check(step_with_region, inputs)


def Reproduces():
    with torch.autocast("cuda", dtype=torch.float16):
        return recapture.check(step, inputs)


def FixCacheOff():
    with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
        return recapture.check(step, inputs)


def FixEnterInsideTheCapture():
    with torch.autocast("cuda", dtype=torch.float16):
        step(inputs(0))
    return recapture.check(step_with_region, inputs)


if __name__ == "__main__":
    run(globals())

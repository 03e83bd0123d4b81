# case: inner_hooks_of_graphed_callable
# without ControlEager: check() runs eager code in each variant
import torch

import recapture
from programs import run


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((1,), 2.0, device="cuda"))

    def forward(self, x):
        return x * self.weight


model = torch.nn.Sequential(Scale(), Scale(), Scale())
calls = 0


def count_call(module, inputs, output):
    global calls
    calls += 1  # REMARK Reproduces: side_effect


for inner in model:
    inner.register_forward_hook(count_call)


def inputs(i):
    return torch.full((1,), 1.0 + i, device="cuda")


def Reproduces():
    return recapture.check(model, inputs)


def FixGraphInnerModules():
    return [recapture.check(inner.forward, inputs) for inner in model]


if __name__ == "__main__":
    run(globals())

# case: parameter_without_gradient_at_capture
# without ControlEager: check() runs eager code in each variant
# without FixCaptureAgain: a check has one capture
import torch

import recapture
from programs import run


def training(zeros):
    """Two heads; the second gets its first gradient in the second step."""
    heads = torch.nn.ModuleList([torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)]).cuda()
    optimizer = torch.optim.SGD(heads.parameters(), lr=0.1)
    if zeros:
        for parameter in heads.parameters():
            parameter.grad = torch.zeros_like(parameter)
    gradients = [[torch.ones_like(p) for p in head.parameters()] for head in heads]

    def inputs(i):
        for number, head in enumerate(heads):
            for parameter, gradient in zip(head.parameters(), gradients[number]):
                if number == 0 or i > 0:
                    if parameter.grad is None:
                        parameter.grad = gradient.clone()
                    else:
                        parameter.grad.copy_(gradient)
        return torch.full((1,), float(i), device="cuda")

    def step(x):
        optimizer.step()  # FOUND Reproduces: control_flow
        return x + sum(parameter.sum() for parameter in heads.parameters())

    return step, inputs


def Control():
    step, inputs = training(zeros=True)
    return recapture.check(step, inputs)


def Reproduces():
    step, inputs = training(zeros=False)
    return recapture.check(step, inputs)


def FixGradientOfZeros():
    step, inputs = training(zeros=True)
    return recapture.check(step, inputs)


if __name__ == "__main__":
    run(globals())

# case: parameter_without_gradient_at_capture
# without ControlEager: check() runs eager code in each variant
# without FixCaptureAgain: a check has one capture
import torch

import recapture
from programs import run


def fine_tuning(zeros):
    """The body of a model gets gradients from the second step on, when it is unfrozen."""
    torch.manual_seed(0)
    body, head = torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=0.01, capturable=True)
    gradients = {p: torch.full_like(p, 0.5) for p in [*body.parameters(), *head.parameters()]}
    if zeros:
        for parameter in body.parameters():
            parameter.grad = torch.zeros_like(parameter)
    for parameter in head.parameters():
        parameter.grad = gradients[parameter].clone()

    def inputs(i):
        for parameter in body.parameters():
            if i > 0:
                parameter.grad = gradients[parameter].clone() if parameter.grad is None else parameter.grad
                parameter.grad.copy_(gradients[parameter])
        return torch.full((2, 4), 1.0 + i, device="cuda")

    def step(x):
        optimizer.step()  # FOUND Reproduces: control_flow
        return head(body(x))

    return step, inputs


def Control():
    return recapture.check(*fine_tuning(zeros=True))


def Reproduces():
    return recapture.check(*fine_tuning(zeros=False))


def FixGradientOfZeros():
    return recapture.check(*fine_tuning(zeros=True))


if __name__ == "__main__":
    run(globals())

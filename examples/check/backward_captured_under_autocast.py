# case: backward_captured_under_autocast
# without ControlEager: there is no graph in it
import torch

import recapture
from programs import run


class InFloat(torch.nn.Module):
    def forward(self, x, weight):
        with torch.autocast("cuda", enabled=False):
            return x @ weight


class Mixed(torch.nn.Module):
    def forward(self, x, weight):
        with torch.autocast("cuda"):
            half = x @ weight
            with torch.autocast("cuda", enabled=False):
                return x @ weight + half.float()


def tensors():
    return torch.ones(4, 4, device="cuda", requires_grad=True), torch.full((4, 4), 1 + 2**-12, device="cuda")


def train(model, inside=False):
    x, weight = tensors()
    with recapture.check() as report:
        if inside:
            with torch.autocast("cuda", cache_enabled=False):
                model = torch.cuda.make_graphed_callables(model, (x, weight))  # FOUND Reproduces: wrong_value
        else:
            model = torch.cuda.make_graphed_callables(model, (x, weight))
        for value in (1.0, 2.0):
            y = model(x, weight)
            torch.autograd.grad(y, x, torch.full_like(y, value))
    return report


def Control():
    return train(InFloat())


def Reproduces():
    return train(InFloat(), inside=True)


def FixAutocastInTheForward():
    return train(Mixed())


def FixLeaveBeforeTheBackward():
    x, weight = tensors()
    upstream = torch.ones(4, 4, device="cuda")
    torch.autograd.grad(x @ weight, x, upstream)
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            with torch.autocast("cuda", cache_enabled=False):
                with torch.autocast("cuda", enabled=False):
                    y = x @ weight
            (gradient,) = torch.autograd.grad(y, x, upstream)
        for value in (1.0, 2.0):
            upstream.fill_(value)
            graph.replay()
            gradient.sum().item()
    return report


if __name__ == "__main__":
    run(globals())

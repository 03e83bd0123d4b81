# case: gradients_set_to_none_between_replays
# without ControlEager: there is no graph in it
import torch

import recapture
from programs import run


def train(clear=True, set_to_none=True, again=False):
    weight = torch.zeros(4, device="cuda", requires_grad=True)
    x = torch.ones(4, device="cuda")
    optimizer = torch.optim.SGD([weight], lr=1.0)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        (weight * x).sum().backward()
    side.synchronize()
    weight.grad = None
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            (weight * x).sum().backward()
        gradient = weight.grad
        for value in (1, 2, 3):
            x.fill_(value)
            if clear:
                optimizer.zero_grad(set_to_none)  # FOUND Reproduces: unread
            graph.replay()
            if again:
                weight.grad = gradient
            optimizer.step()
    return report


def Control():
    return train(clear=False)


def Reproduces():
    return train()


def FixKeepTheTensors():
    return train(set_to_none=False)


def FixAssignThemAgain():
    return train(again=True)


if __name__ == "__main__":
    run(globals())

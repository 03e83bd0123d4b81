# case: none
"""Different ways to capture: there must be no finding in any of them."""
import torch

import recapture
from programs import run


def batch(i):
    generator = torch.Generator("cuda").manual_seed(i)
    return torch.randn(16, 32, device="cuda", generator=generator), torch.randn(16, 8, device="cuda", generator=generator)


def layers():
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()


def CompiledFunction():
    model = torch.compile(layers())
    with torch.no_grad():
        return recapture.check(lambda x, y: (model(x) - y).square().mean(), batch)


def CompiledTrainingStep():
    model = layers()
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(compiled(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return recapture.check(step, batch)


def OneSetOfInputs():
    model = layers()
    return recapture.check(lambda x, y: torch.nn.functional.mse_loss(model(x), y), batch(0))


def RegisteredGenerator():
    generator = torch.Generator("cuda").manual_seed(1)
    return recapture.check(lambda x, y: x + torch.rand(16, 32, device="cuda", generator=generator), batch,
                           generators=[generator])


def GraphedCallable():
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recapture.check() as report:
        graphed = torch.cuda.make_graphed_callables(model, (batch(0)[0],))
        for i in range(3):
            x, y = batch(i)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(graphed(x), y)
            loss.backward()
            optimizer.step()
            loss.item()
    return report


def OwnGraphOfATrainingStep():
    model = layers()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    x, y = batch(0)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    with recapture.check() as report:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
        for i in range(3):
            for static, given in zip((x, y), batch(i)):
                static.copy_(given)
            graph.replay()
            loss.item()
    return report


if __name__ == "__main__":
    run(globals())

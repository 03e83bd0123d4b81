# case: optimizer_step_in_graph
# without ControlEager: check() runs eager code in each variant
import torch

import recapture
from programs import run

model = torch.nn.Linear(16, 1).cuda()


def batch(i):
    generator = torch.Generator().manual_seed(i)
    return torch.randn(8, 16, generator=generator).cuda(), torch.randn(8, 1, generator=generator).cuda()


def training(optimizer):
    def step(x, y):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()  # FOUND ReproducesLearningRateOfSgd: host_value; ReproducesStepOfAdam: refused

    return step


def with_schedule(optimizer):
    def inputs(i):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + i)
        return batch(i)

    return inputs


def gradients(x, y):
    model.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()


def Control():
    return recapture.check(training(torch.optim.SGD(model.parameters(), lr=0.1)), batch)


def ReproducesLearningRateOfSgd():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return recapture.check(training(optimizer), with_schedule(optimizer))


def ReproducesStepOfAdam():
    return recapture.check(training(torch.optim.Adam(model.parameters(), lr=0.1)), batch)


def FixStepOutsideTheGraph():
    return recapture.check(gradients, with_schedule(torch.optim.SGD(model.parameters(), lr=0.1)))


def FixStepOnTheGpu():
    rate = torch.tensor(0.1, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, capturable=True)

    def inputs(i):
        rate.fill_(0.1 / (1 + i))
        return batch(i)

    return recapture.check(training(optimizer), inputs)


if __name__ == "__main__":
    run(globals())

"""What the programs share."""
import os

import torch

DEVICE = os.environ.get("EVALUATION_DEVICE", "cuda")


def images(count, channels, size):
    def make(i):
        return torch.randn(count, channels, size, size, generator=torch.Generator().manual_seed(i)).to(DEVICE)

    def cast(i):
        return make(i)

    return cast


def classes(count, most=10):
    return lambda i: torch.randint(most, (count,), generator=torch.Generator().manual_seed(100 + i)).to(DEVICE)


def values(*shape, scale=1.0):
    return lambda i: torch.randn(*shape, generator=torch.Generator().manual_seed(i)).to(DEVICE) * scale


def tokens(count, length, most=100):
    return lambda i: torch.randint(1, most, (count, length), generator=torch.Generator().manual_seed(i)).to(DEVICE)


def trained(model, optimizer, inputs, labels, loss_of=torch.nn.functional.cross_entropy):
    """A training step."""
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, lambda i: (inputs(i), labels(i)), [model, optimizer]


CUDA = DEVICE == "cuda"  # A host tensor's optimizer cannot be capturable.


def taught(parts, optimizer, loss_of, inputs):
    """A training step: `loss_of` has the loss of the inputs."""
    def step(*batch):
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        return loss

    return step, inputs, [*parts, optimizer]


def together(*makers):
    """The inputs of several makers, each with values of its own."""
    return lambda i: tuple(make(i + 31 * number) for number, make in enumerate(makers))

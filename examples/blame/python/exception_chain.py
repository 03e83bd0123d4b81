# api: exception cause: exception_in_capture; what it was raised from comes first.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


class ConfigError(Exception):
    pass


def width(settings):
    return settings["width"]  # CULPRIT


def layer(settings):
    try:
        return x[: width(settings)] + 1
    except KeyError as error:
        raise ConfigError("the layer has no width") from error


try:
    with torch.cuda.graph(g):
        y = x + 1
        layer({})
except ConfigError as error:
    print("left out:", error)

# case: host_logic_frozen
# without ControlEager: check() runs eager code in each variant
import torch

import recapture
from programs import run

steps = 0


def filled(i):
    return torch.full((8,), 5.0 + 2 * i, device="cuda")


def branch(x, holds):
    if holds:
        return x + 1  # FOUND ReproducesBranch: control_flow
    return x - 1


def branch_on_gpu(x, holds):
    return torch.where(holds, x + 1, x - 1)


def scaled_by_context(x):
    if torch.cuda.is_current_stream_capturing():
        x = x.neg()  # FOUND ReproducesQuestionForTheCapture: control_flow
    return x * 3


def scaled(x):
    return x * 3


def first(x, count):
    return x[:count].sum()  # FOUND ReproducesShape: host_value


def padded(x):
    return x.sum()


def counted(x):
    global steps
    steps += 1  # REMARK ReproducesCounter: side_effect
    return x * 2


def Control():
    return recapture.check(branch, lambda i: (filled(i), True))


def ReproducesBranch():
    return recapture.check(branch, lambda i: (filled(i), i == 0))


def ReproducesQuestionForTheCapture():
    return recapture.check(scaled_by_context, filled)


def ReproducesShape():
    return recapture.check(first, lambda i: (filled(i), (4, 8, 8)[i]))


def ReproducesCounter():
    return recapture.check(counted, filled)


def FixSelectOnTheGpu():
    return recapture.check(branch_on_gpu, lambda i: (filled(i), torch.tensor(i == 0, device="cuda")))


def FixGraphForEachBranch():
    return [recapture.check(branch, lambda i, holds=holds: (filled(i), holds)) for holds in (True, False)]


def FixComputeTheSame():
    return recapture.check(scaled, filled)


def FixPadToTheLargest():
    def inputs(i):
        x = torch.zeros(8, device="cuda")
        x[:(4, 8, 8)[i]] = 1
        return x

    return recapture.check(padded, inputs)


def FixCountAtTheReplay():
    def inputs(i):
        global steps
        steps += 1
        return filled(i)

    return recapture.check(scaled, inputs)


if __name__ == "__main__":
    run(globals())

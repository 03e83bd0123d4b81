# case: generator_rewound_in_capture
import torch

import recapture
from programs import run

torch.cuda.manual_seed(1234)
state = torch.cuda.get_rng_state()


def inputs(i):
    return torch.full((64,), 1.0 + i, device="cuda")


def drawn(x):
    return x + torch.rand(64, device="cuda")


def drawn_after_seed(x):
    torch.cuda.manual_seed(1234)  # FOUND ReproducesWithSeed: random
    return drawn(x)


def drawn_after_state(x):
    torch.cuda.set_rng_state(state)  # FOUND ReproducesWithState: random
    return drawn(x)


def Control():
    return recapture.check(drawn, inputs)


def ReproducesWithSeed():
    return recapture.check(drawn_after_seed, inputs)


def ReproducesWithState():
    return recapture.check(drawn_after_state, inputs)


def FixRewindBetweenReplays():
    def rewound(i):
        torch.cuda.set_rng_state(state)
        return inputs(i)

    return recapture.check(drawn, rewound)


if __name__ == "__main__":
    run(globals())

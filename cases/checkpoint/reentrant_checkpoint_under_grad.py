"""Reentrant checkpointing is refused under autograd.grad()."""

import re
import signal
import sys
import traceback
import unittest

import torch
from torch.utils.checkpoint import checkpoint

DOCUMENTED = "RuntimeError: When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an *"
HEALTHY = "[1.0, 2.0, 3.0, 4.0]"


def fails():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    weight = torch.zeros(4, requires_grad=True)
    y = checkpoint(lambda x: (x * weight).exp(), x, use_reentrant=True).sum()
    torch.autograd.grad(y, (x, weight), allow_unused=True)  # cause: y.backward()
    return weight.grad.tolist()


def fix_checkpoint_without_reentrance():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    weight = torch.zeros(4, requires_grad=True)
    reentrant = False  # fix: reentrant = True
    y = checkpoint(lambda x: (x * weight).exp(), x, use_reentrant=reentrant).sum()
    _, gradient = torch.autograd.grad(y, (x, weight), allow_unused=True)
    return gradient.tolist()


def main(name="fails"):
    healthy = HEALTHY if isinstance(HEALTHY, str) else HEALTHY[name]
    wanted = DOCUMENTED if name == "fails" else healthy
    print("documented:", wanted)
    print("healthy:", healthy, flush=True)
    if not torch.cuda.is_available():
        print("cannot run here:", "no GPU")
        return 77
    signal.alarm(60)  # Ends what hangs.
    try:
        seen = str(globals()[name]())
    except unittest.SkipTest as reason:
        print("cannot run here:", reason)
        return 77
    except Exception as error:
        traceback.print_exc()
        errors = [error]
        while errors[0].__context__:
            errors.insert(0, errors[0].__context__)
        seen = " > ".join(f"{type(e).__name__}: {e}".partition("\n")[0] for e in errors)
    print("seen:", seen)
    if seen == healthy:
        return 0 if wanted == healthy else 1
    return 0 if re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), seen, re.DOTALL) else 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

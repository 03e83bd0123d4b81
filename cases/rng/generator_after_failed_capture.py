"""After a failed capture eager code can draw no numbers from a registered generator any more."""

import re
import signal
import sys
import traceback
import unittest

import torch

DOCUMENTED = "RuntimeError: Offset increment outside graph capture encountered unexpectedly.*"
HEALTHY = {
    "fails": "[216, 574]",
    "fix_make_another_generator": "[840, 565]",
    "fix_capture_again": "[216, 574, 727]",
}


def fails():
    generator = torch.Generator(device="cuda").manual_seed(1234)
    for _ in range(2):  # Warm-up.
        x = torch.randint(1024, (1,), generator=generator, device="cuda")
        x.item()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    try:
        with torch.cuda.graph(graph):
            torch.randint(1024, (1,), generator=generator, device="cuda")
            x.item()  # cause
    except RuntimeError:
        pass
    values = []
    for _ in range(2):
        values.append(torch.randint(1024, (1,), generator=generator, device="cuda").item())
    return values


def fix_make_another_generator():
    generator = torch.Generator(device="cuda").manual_seed(1234)
    for _ in range(2):
        x = torch.randint(1024, (1,), generator=generator, device="cuda")
        x.item()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    try:
        with torch.cuda.graph(graph):
            torch.randint(1024, (1,), generator=generator, device="cuda")
            x.item()
    except RuntimeError:
        pass
    generator = torch.Generator(device="cuda").manual_seed(1234)  # fix
    values = []
    for _ in range(2):
        values.append(torch.randint(1024, (1,), generator=generator, device="cuda").item())
    return values


def fix_capture_again():
    generator = torch.Generator(device="cuda").manual_seed(1234)
    for _ in range(2):
        x = torch.randint(1024, (1,), generator=generator, device="cuda")
        x.item()
    graph, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    try:
        with torch.cuda.graph(graph):
            torch.randint(1024, (1,), generator=generator, device="cuda")
            x.item()
    except RuntimeError:
        pass
    second.register_generator_state(generator)
    with torch.cuda.stream(torch.cuda.Stream()):  # torch.cuda.graph() empties the cache: up to 2.7 that fails now.
        second.capture_begin()  # fix
        x = torch.randint(1024, (1,), generator=generator, device="cuda")
        second.capture_end()  # fix
    values = [torch.randint(1024, (1,), generator=generator, device="cuda").item()]
    for _ in range(2):
        second.replay()
        values.append(x.item())
    return values


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

# case: copy_on_another_stream
# without ControlEager: there is no graph in it
import torch

import recapture
from programs import run


def steps(pinned, own_stream, wait):
    x = torch.zeros(1 << 20, device="cuda")
    batches = [torch.full((1 << 20,), float(value)) for value in (5, 7, 9)]
    if pinned:
        batches = [batch.pin_memory() for batch in batches]
    copies = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    (x * 2).sum().item()
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2
        for batch in batches:
            with torch.cuda.stream(copies):
                x.copy_(batch, non_blocking=True)  # FOUND ReproducesFromPageableMemory: unordered; ReproducesFromPinnedMemory: unordered
            if wait:
                torch.cuda.current_stream().wait_stream(copies)
            graph.replay()
            y.sum().item()
    return report


def Control():
    return steps(pinned=True, own_stream=False, wait=False)


def ReproducesFromPageableMemory():
    return steps(pinned=False, own_stream=True, wait=False)


def ReproducesFromPinnedMemory():
    return steps(pinned=True, own_stream=True, wait=False)


def FixWaitForTheCopy():
    return steps(pinned=True, own_stream=True, wait=True)


def FixCopyOnTheReplayStream():
    return steps(pinned=True, own_stream=False, wait=False)


if __name__ == "__main__":
    run(globals())

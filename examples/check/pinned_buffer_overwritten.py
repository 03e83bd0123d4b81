# case: pinned_buffer_overwritten
# without ControlEager: there is no graph in it
import torch

import recapture
from programs import run


def steps(wait, buffer_for_each=False):
    buffers = [torch.zeros(1).pin_memory() for _ in range(5)]
    x, squares = torch.zeros(1, device="cuda"), torch.zeros(4, device="cuda")
    squares[:1].copy_(x * x)
    copied = torch.cuda.Event()
    with recapture.check() as report:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            if not buffer_for_each:
                x.copy_(buffers[0], non_blocking=True)
            y = x * x
        for number in range(4):
            buffer = buffers[number + 1 if buffer_for_each else 0]
            buffer.fill_(number)  # FOUND Reproduces: unordered
            if buffer_for_each:
                x.copy_(buffer, non_blocking=True)
            graph.replay()
            squares[number:number + 1].copy_(y)
            copied.record()
            wait(copied)
        squares.sum().item()
    return report


def Control():
    return steps(lambda copied: torch.cuda.synchronize())


def Reproduces():
    return steps(lambda copied: None)


def FixWaitForTheCopy():
    return steps(lambda copied: copied.synchronize())


def FixBufferForEachStep():
    return steps(lambda copied: None, buffer_for_each=True)


if __name__ == "__main__":
    run(globals())

# case: graphs_side_by_side_in_a_pool
# without ControlEager: there is no graph in it
import torch

import recapture
from programs import run


def products_and_sums(share, at_once):
    a, b, c, d, y1, y2 = [torch.full((4,), float(value), device="cuda") for value in (1, 4, 6, 7, 0, 0)]
    other = torch.cuda.Stream()
    with recapture.check() as report:
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(first):
            y1.copy_(a * b)
        with torch.cuda.graph(second, pool=first.pool() if share else None):
            y2.copy_(c + d)
        for _ in range(3):
            first.replay()
            if not at_once:
                other.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(other):
                second.replay()  # FOUND Reproduces: unordered
            other.synchronize()
            torch.cuda.synchronize()
    return report


def Control():
    return products_and_sums(share=True, at_once=False)


def Reproduces():
    return products_and_sums(share=True, at_once=True)


def FixOneAfterTheOther():
    return products_and_sums(share=True, at_once=False)


def FixPoolsOfTheirOwn():
    return products_and_sums(share=False, at_once=True)


if __name__ == "__main__":
    run(globals())

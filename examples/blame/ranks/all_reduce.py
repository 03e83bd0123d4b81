# api: none
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402


def main(rank):
    x, y = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.copy_(x * 2)
        torch.distributed.all_reduce(y)
    graph.replay()
    torch.cuda.synchronize()
    assert y.tolist() == [4.0] * 8


if __name__ == "__main__":
    ranks.start(main)

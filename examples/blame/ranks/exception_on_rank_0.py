# api: exception ranks: 0 cause: exception_in_capture
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402


def shape_of(x):
    if x.shape[0] != 512:
        raise ValueError("512 wanted")  # CULPRIT


def main(rank):
    x = torch.ones(8, device="cuda")
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.distributed.all_reduce(x)
            if rank == 0:
                shape_of(x)
    except ValueError as error:
        print(rank, type(error).__name__)


if __name__ == "__main__":
    ranks.start(main)

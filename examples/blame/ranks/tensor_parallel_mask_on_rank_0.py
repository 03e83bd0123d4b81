# api: cuStreamSynchronize code: 900 ranks: 0 cause: boolean_index_in_capture
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402


def main(rank):
    weight, x = torch.ones(8, 4, device="cuda"), torch.ones(4, 8, device="cuda")
    mask = x > 0
    x[mask]
    x @ weight
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            y = x @ weight
            torch.distributed.all_reduce(y)
            if rank == 0:
                x[mask]  # CULPRIT
    except RuntimeError as error:
        print(rank, type(error).__name__)


if __name__ == "__main__":
    ranks.start(main)

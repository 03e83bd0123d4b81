# api: cuStreamSynchronize code: 900 ranks: 1 cause: item_in_capture
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402


def main(rank):
    x = torch.ones(8, device="cuda")
    x.sum().item()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            torch.distributed.all_reduce(x)
            if rank == 1:
                x.sum().item()  # CULPRIT
    except RuntimeError as error:
        print(rank, type(error).__name__)


if __name__ == "__main__":
    ranks.start(main)

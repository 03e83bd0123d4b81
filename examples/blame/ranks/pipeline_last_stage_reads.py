# api: cuStreamSynchronize code: 900 ranks: 1 cause: item_in_capture
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402


def main(rank):
    weight, x = torch.ones(8, 8, device="cuda"), torch.ones(4, 8, device="cuda")

    def stage():
        if rank == 0:
            torch.distributed.send(x @ weight, 1)
            return None
        torch.distributed.recv(x, 0)
        return (x @ weight).sum()

    stage()
    x.sum().item()
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            loss = stage()
            if rank == 1:
                loss.item()  # CULPRIT
    except RuntimeError as error:
        print(rank, type(error).__name__)


if __name__ == "__main__":
    ranks.start(main)

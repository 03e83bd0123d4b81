# api: cuStreamSynchronize code: 900 processes: 2 cause: item_in_capture
import os

import torch
import torch.multiprocessing as mp


def main(rank):
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    torch.cuda.set_device(rank % torch.cuda.device_count())
    x = torch.ones(8, device="cuda")
    x.sum()
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.sum().item()  # CULPRIT
    except RuntimeError as error:
        print(rank, type(error).__name__)


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)

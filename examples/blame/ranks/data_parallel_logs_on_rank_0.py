# api: cuStreamSynchronize code: 900 ranks: 0 cause: item_in_capture
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402


def main(rank):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[rank])
        x = torch.ones(4, 8, device="cuda")
        for _ in range(11):
            model.zero_grad(set_to_none=True)
            model(x).sum().backward()
        x.sum().item()
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            model.zero_grad(set_to_none=True)
            loss = model(x).sum()
            loss.backward()
            if rank == 0:
                print("loss", loss.item())  # CULPRIT
    except RuntimeError as error:
        print(rank, type(error).__name__)


if __name__ == "__main__":
    ranks.start(main)

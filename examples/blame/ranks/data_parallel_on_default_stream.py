# api: cuStreamWaitEvent code: 906 ranks: 0,1 cause: ddp_on_default_stream
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402


def main(rank):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[rank])
    x = torch.ones(4, 8, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(11):
            model.zero_grad(set_to_none=True)
            model(x).sum().backward()
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            model.zero_grad(set_to_none=True)
            model(x).sum().backward()  # CAPTURE
    except RuntimeError as error:
        print(rank, type(error).__name__)


if __name__ == "__main__":
    ranks.start(main)

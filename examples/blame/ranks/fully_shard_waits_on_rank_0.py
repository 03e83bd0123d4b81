# api: cuStreamSynchronize code: 900 ranks: 0 cause: stream_synchronize_in_capture
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402


def main(rank):
    from torch.distributed._composable.fsdp import fully_shard
    x = torch.ones(4, 8, device="cuda")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).cuda()
    fully_shard(model)
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            model(x)
    torch.cuda.synchronize()
    try:
        with torch.no_grad(), torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            if rank == 0:
                torch.cuda.current_stream().synchronize()  # CULPRIT
            torch.relu(x)
    except RuntimeError as error:
        print(rank, type(error).__name__)


if __name__ == "__main__":
    ranks.start(main)

# api: cuEventQuery code: 900 ranks: 1 cause: event_query_in_other_thread
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402


def main(rank):
    import threading
    x = torch.ones(8, device="cuda")
    event = torch.cuda.Event()
    event.record()
    torch.cuda.synchronize()

    def poll():
        try:
            event.query()  # CULPRIT
        except RuntimeError as error:
            print(rank, type(error).__name__)

    poller = threading.Thread(target=poll, name="poller")
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.distributed.all_reduce(x)
            if rank == 1:
                poller.start(), poller.join()  # CAPTURE
    except RuntimeError as error:
        print(rank, type(error).__name__)


if __name__ == "__main__":
    ranks.start(main)

"""A captured all_reduce that a rank replays alone hangs for ever: the process group's timeout does not apply."""

import os
import re
import signal
import sys
import tempfile
import time
import traceback
import unittest
from datetime import timedelta

import torch

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # Leaves CUDA to the ranks, which are forked.
os.environ["TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"] = "250"  # The watchdog acts soon after the time-out.

DOCUMENTED = "rank 0 ended with -14"  # SIGALRM, its own limit.
HEALTHY = {
    "fails": "rank 0 ended with -6",  # SIGABRT, by the watchdog.
    "fix_deadline_of_your_own": "rank 0 ended with 3",
    "fix_eager_collective_first": "rank 0 ended with -6",
}


def fails():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")

    def run(rank, folder):
        signal.alarm(45 + rank)  # Ends what hangs.
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl", f"file://{folder}/store", timedelta(seconds=10), 2, rank)
        x = torch.ones(8, device="cuda")
        torch.distributed.all_reduce(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.distributed.all_reduce(x)
        if rank == 1:
            signal.pause()  # It does not come.
        graph.replay()  # cause: torch.distributed.all_reduce(x)
        torch.cuda.synchronize()

    with tempfile.TemporaryDirectory() as folder:
        ranks = torch.multiprocessing.start_processes(run, (folder,), nprocs=2, join=False, start_method="fork")
        ranks.processes[0].join()
        ranks.processes[1].kill()
    return f"rank 0 ended with {ranks.processes[0].exitcode}"


def fix_deadline_of_your_own():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")

    def run(rank, folder):
        signal.alarm(45 + rank)  # Ends what hangs.
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl", f"file://{folder}/store", timedelta(seconds=10), 2, rank)
        x = torch.ones(8, device="cuda")
        torch.distributed.all_reduce(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.distributed.all_reduce(x)
        if rank == 1:
            signal.pause()  # It does not come.
        graph.replay()
        replayed, deadline = torch.cuda.current_stream().record_event(), time.monotonic() + 15
        while not replayed.query():
            if time.monotonic() > deadline:  # fix: if False:
                os._exit(3)

    with tempfile.TemporaryDirectory() as folder:
        ranks = torch.multiprocessing.start_processes(run, (folder,), nprocs=2, join=False, start_method="fork")
        ranks.processes[0].join()
        ranks.processes[1].kill()
    return f"rank 0 ended with {ranks.processes[0].exitcode}"


def fix_eager_collective_first():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")

    def run(rank, folder):
        signal.alarm(45 + rank)  # Ends what hangs.
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl", f"file://{folder}/store", timedelta(seconds=10), 2, rank)
        x = torch.ones(8, device="cuda")
        torch.distributed.all_reduce(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.distributed.all_reduce(x)
        if rank == 1:
            signal.pause()  # It does not come.
        torch.distributed.all_reduce(torch.ones(1, device="cuda"))  # fix
        graph.replay()
        torch.cuda.synchronize()

    with tempfile.TemporaryDirectory() as folder:
        ranks = torch.multiprocessing.start_processes(run, (folder,), nprocs=2, join=False, start_method="fork")
        ranks.processes[0].join()
        ranks.processes[1].kill()
    return f"rank 0 ended with {ranks.processes[0].exitcode}"


def main(name="fails"):
    healthy = HEALTHY if isinstance(HEALTHY, str) else HEALTHY[name]
    wanted = DOCUMENTED if name == "fails" else healthy
    print("documented:", wanted)
    print("healthy:", healthy, flush=True)
    if not torch.cuda.is_available():
        print("cannot run here:", "no GPU")
        return 77
    signal.alarm(60)  # Ends what hangs.
    try:
        seen = str(globals()[name]())
    except unittest.SkipTest as reason:
        print("cannot run here:", reason)
        return 77
    except Exception as error:
        traceback.print_exc()
        errors = [error]
        while errors[0].__context__:
            errors.insert(0, errors[0].__context__)
        seen = " > ".join(f"{type(e).__name__}: {e}".partition("\n")[0] for e in errors)
    print("seen:", seen)
    if seen == healthy:
        return 0 if wanted == healthy else 1
    return 0 if re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), seen, re.DOTALL) else 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

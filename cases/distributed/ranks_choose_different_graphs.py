"""Ranks that replay different graphs hang in a collective that the other graph does not have."""

import os
import re
import signal
import sys
import tempfile
import traceback
import unittest

import torch

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # Leaves CUDA to the ranks, which are forked.

DOCUMENTED = "ProcessExitedException: process 1 terminated with signal SIGALRM"
HEALTHY = {
    "fails": "[[9.0, 90.0], [9.0, 90.0]]",
    "fix_agree_on_the_size": "[[9.0, 90.0], [9.0, 90.0]]",
    "fix_capture_on_all_ranks": "[[11.0, 15.0], [11.0, 15.0]]",
}


def fails():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    sums, both = torch.zeros(2, 2).share_memory_(), torch.multiprocessing.get_context("fork").Barrier(2)

    def run(rank, folder):
        signal.alarm(45 - 5 * rank)  # Ends what hangs.
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=2)
        x, y, z = (torch.full((8,), 4.0 + rank, device="cuda") for _ in range(3))
        torch.distributed.all_reduce(x.clone())
        small, large = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(small):
            torch.distributed.all_reduce(y.copy_(x))
        with torch.cuda.graph(large):
            torch.distributed.all_reduce(y.copy_(x))
            torch.distributed.all_reduce(z.copy_(x * 10))
        rows = (8, 16)[rank]  # cause: rows = 16
        (small if rows == 8 else large).replay()
        sums[rank] = torch.stack([y[0], z[0]])
        both.wait()  # No rank leaves before the other.

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(run, (folder,), nprocs=2, start_method="fork")
    return sums.tolist()


def fix_agree_on_the_size():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    sums, both = torch.zeros(2, 2).share_memory_(), torch.multiprocessing.get_context("fork").Barrier(2)

    def run(rank, folder):
        signal.alarm(45 - 5 * rank)  # Ends what hangs.
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=2)
        x, y, z = (torch.full((8,), 4.0 + rank, device="cuda") for _ in range(3))
        torch.distributed.all_reduce(x.clone())
        small, large = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(small):
            torch.distributed.all_reduce(y.copy_(x))
        with torch.cuda.graph(large):
            torch.distributed.all_reduce(y.copy_(x))
            torch.distributed.all_reduce(z.copy_(x * 10))
        rows = torch.tensor((8, 16)[rank], device="cuda")
        torch.distributed.all_reduce(rows, torch.distributed.ReduceOp.MAX)  # fix
        (small if rows.item() == 8 else large).replay()
        sums[rank] = torch.stack([y[0], z[0]])
        both.wait()

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(run, (folder,), nprocs=2, start_method="fork")
    return sums.tolist()


def fix_capture_on_all_ranks():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    sums, both = torch.zeros(2, 2).share_memory_(), torch.multiprocessing.get_context("fork").Barrier(2)

    def run(rank, folder):
        signal.alarm(45 - 5 * rank)  # Ends what hangs.
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=2)
        x, y = (torch.full((8,), 4.0 + rank, device="cuda") for _ in range(2))
        torch.distributed.all_reduce(x.clone())
        graph = torch.cuda.CUDAGraph()
        torch.distributed.barrier()  # fix: if rank == 1: torch.distributed.all_reduce(y)
        with torch.cuda.graph(graph):
            torch.distributed.all_reduce(y.copy_(x))
        for step in range(2):
            x.fill_(5 + 2 * step + rank)
            graph.replay()
            sums[rank, step] = y[0]
        both.wait()

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(run, (folder,), nprocs=2, start_method="fork")
    return sums.tolist()


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

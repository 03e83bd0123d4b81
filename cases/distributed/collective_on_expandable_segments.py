"""A captured NCCL collective on a buffer of several expandable segments accesses illegal memory."""

import os
import re
import signal
import sys
import tempfile
import traceback
import unittest

import torch

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # Leaves CUDA to the ranks, which are forked.

DOCUMENTED = "ProcessExitedException: process * terminated with exit code 70"  # An illegal memory access.
HEALTHY = "[5.5, 5.5]"


def fails():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    means, both = torch.zeros(2).share_memory_(), torch.multiprocessing.get_context("fork").Barrier(2)

    def run(rank, folder):
        signal.alarm(45)  # Ends what hangs.
        torch.cuda.set_device(rank)
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")  # cause
        torch.distributed.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=2)
        x, every, graph = torch.ones(16 << 20, device="cuda"), torch.zeros(32 << 20, device="cuda"), torch.cuda.CUDAGraph()
        torch.distributed.all_gather_into_tensor(every, x)
        with torch.cuda.graph(graph):
            torch.distributed.all_gather_into_tensor(every, x)
        x.fill_(5 + rank)
        graph.replay()
        try:
            means[rank] = every.double().mean()
        except RuntimeError as error:
            os._exit(70 if "illegal memory access" in str(error) else 1)
        both.wait()  # No rank leaves before the other.

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(run, (folder,), nprocs=2, start_method="fork")
    return means.tolist()


def fix_no_registration():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    means, both = torch.zeros(2).share_memory_(), torch.multiprocessing.get_context("fork").Barrier(2)

    def run(rank, folder):
        signal.alarm(45)  # Ends what hangs.
        torch.cuda.set_device(rank)
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
        os.environ["NCCL_GRAPH_REGISTER"] = "0"  # fix
        torch.distributed.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=2)
        x, every, graph = torch.ones(16 << 20, device="cuda"), torch.zeros(32 << 20, device="cuda"), torch.cuda.CUDAGraph()
        torch.distributed.all_gather_into_tensor(every, x)
        with torch.cuda.graph(graph):
            torch.distributed.all_gather_into_tensor(every, x)
        x.fill_(5 + rank)
        graph.replay()
        try:
            means[rank] = every.double().mean()
        except RuntimeError as error:
            os._exit(70 if "illegal memory access" in str(error) else 1)
        both.wait()  # No rank leaves before the other.

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(run, (folder,), nprocs=2, start_method="fork")
    return means.tolist()


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

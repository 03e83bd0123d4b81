"""With TORCH_NCCL_ASYNC_ERROR_HANDLING=0 a collective that times out goes unnoticed."""

import os
import re
import signal
import sys
import traceback
import unittest
from datetime import timedelta

import torch

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # Leaves CUDA to the rank, which is forked.

DOCUMENTED = "unnoticed"
HEALTHY = "ProcessExitedException: process 0 terminated with signal SIGABRT"


def fails():
    def run(rank):
        signal.alarm(45)  # Ends what hangs.
        os.environ["TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"] = "250"  # The watchdog acts soon after the time-out.
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # cause
        store, seconds = torch.distributed.HashStore(), timedelta(seconds=2)
        torch.distributed.init_process_group("nccl", timeout=seconds, store=store, rank=0, world_size=1)
        x = torch.ones(8, device="cuda")
        torch.distributed.all_reduce(x)
        torch.cuda.synchronize()
        for _ in range(20):
            torch.cuda._sleep(1_000_000_000)  # Some half second.
        torch.distributed.all_reduce(x)
        torch.cuda.synchronize()

    torch.multiprocessing.start_processes(run, start_method="fork")
    return "unnoticed"


def fix_leave_it_unset():
    def run(rank):
        signal.alarm(45)  # Ends what hangs.
        os.environ["TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"] = "250"  # The watchdog acts soon after the time-out.
        # fix: os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
        store, seconds = torch.distributed.HashStore(), timedelta(seconds=2)
        torch.distributed.init_process_group("nccl", timeout=seconds, store=store, rank=0, world_size=1)
        x = torch.ones(8, device="cuda")
        torch.distributed.all_reduce(x)
        torch.cuda.synchronize()
        for _ in range(20):
            torch.cuda._sleep(1_000_000_000)  # Some half second.
        torch.distributed.all_reduce(x)
        torch.cuda.synchronize()

    torch.multiprocessing.start_processes(run, start_method="fork")
    return "unnoticed"


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

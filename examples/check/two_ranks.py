"""Runs check() on a program of ranks/ in two ranks with a GPU each: `python two_ranks.py NAME`, or by torchrun.

Each rank prints its report as one line, `rank N: JSON`. A program's first line has the truth: the kind of the first
finding on each rank, or none; one that leaves has no report. `# FOUND 0`, `# FOUND 1` and `# FOUND 0 1` mark the line of
the finding on these ranks.
"""
import importlib.util
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

LIMIT_S = 100
LOCAL = {"NCCL_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2"}
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def load(name):
    path = Path(__file__).resolve().parent / "ranks" / f"{name}.py"
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
    module.__spec__.loader.exec_module(module)
    return module


def judged(program, rank, device, backend=None):
    """The report of one rank. A program makes its function and its inputs, or is the captures and replays itself."""
    import recapture
    made = program.program(rank, device)
    if isinstance(made, tuple):
        return recapture.check(*made, backend=backend)
    with recapture.check(backend=backend) as report:
        try:
            made()
        except RuntimeError as error:  # check() raises before a replay that would not end.
            print(f"rank {rank}: {error}", file=sys.stderr)
    return report


def run_rank(rank, name):
    signal.alarm(LIMIT_S)  # Ends a rank that waits for ever.
    os.environ.update(NO_MULTICAST, RANK=str(rank), LOCAL_RANK=str(rank))
    import torch
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl")
    torch.distributed.barrier()
    try:
        report = judged(load(name), rank, "cuda")
    except Exception as error:
        leaves = isinstance(error, ValueError) and "has no batch" in str(error)  # What rank_1_leaves raises.
        if not leaves:  # torch.multiprocessing prints no exception of a rank that is not joined by it.
            traceback.print_exc()
        print(f"rank {rank} {'leaves' if leaves else 'ends'}: {error}", file=sys.stderr, flush=True)
        os._exit(0 if leaves else 1)
    sys.stdout.write(f"rank {rank}: {json.dumps(report.to_dict())}\n")
    sys.stdout.flush()
    os._exit(0)  # The process group would wait for its graphs, and for ranks that are gone.


def main():
    if "RANK" in os.environ:
        run_rank(int(os.environ["RANK"]), sys.argv[1])
    import torch
    if torch.cuda.device_count() < 2:
        print("there are no two GPUs", file=sys.stderr)
        sys.exit(77)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ.update(LOCAL, MASTER_PORT=str(free.getsockname()[1]))
    ranks = torch.multiprocessing.start_processes(run_rank, (sys.argv[1],), nprocs=2, join=False, start_method="spawn")
    for process in ranks.processes:  # One may end with an exception; the other has its report all the same.
        process.join()
    sys.exit(1 if any(process.exitcode for process in ranks.processes) else 0)


if __name__ == "__main__":
    main()

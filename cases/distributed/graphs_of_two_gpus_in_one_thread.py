"""One thread that launches the graphs of two GPUs with a collective blocks in a launch for ever."""

import os
import re
import signal
import sys
import tempfile
import traceback
import unittest
from multiprocessing.pool import ThreadPool

import torch

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # Leaves CUDA to the ranks, which are forked.

DOCUMENTED = "hangs"
HEALTHY = "[7.0, 7.0]"


def fails():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    signal.alarm(40)

    def launch(graph, stream):
        with torch.cuda.stream(stream):
            [graph.replay() for _ in range(8192)]  # More than a GPU's queue has room for.

    x = [torch.full((1024,), 3.0 + gpu, device=f"cuda:{gpu}") for gpu in range(2)]
    sums = [torch.zeros_like(each) for each in x]
    streams = [torch.cuda.Stream(gpu) for gpu in range(2)]
    graphs = [torch.cuda.CUDAGraph() for _ in range(2)]
    torch.cuda.nccl.all_reduce(x, sums, streams=streams)
    [torch.cuda.synchronize(gpu) for gpu in range(2)]
    for graph, stream in zip(graphs, streams):
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="relaxed")  # The other one is still open at its end.
    torch.cuda.nccl.all_reduce(x, sums, streams=streams)
    for graph, stream in zip(graphs, streams):
        with torch.cuda.stream(stream):
            graph.capture_end()
    ThreadPool(1).starmap(launch, zip(graphs, streams), 1)  # cause: ThreadPool(2).starmap(launch, zip(graphs, streams), 1)
    [stream.synchronize() for stream in streams]
    return [each[0].item() for each in sums]


def fix_thread_for_each_gpu():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    signal.alarm(40)

    def launch(graph, stream):
        with torch.cuda.stream(stream):
            [graph.replay() for _ in range(8192)]  # More than a GPU's queue has room for.

    x = [torch.full((1024,), 3.0 + gpu, device=f"cuda:{gpu}") for gpu in range(2)]
    sums = [torch.zeros_like(each) for each in x]
    streams = [torch.cuda.Stream(gpu) for gpu in range(2)]
    graphs = [torch.cuda.CUDAGraph() for _ in range(2)]
    torch.cuda.nccl.all_reduce(x, sums, streams=streams)
    [torch.cuda.synchronize(gpu) for gpu in range(2)]
    for graph, stream in zip(graphs, streams):
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="relaxed")  # The other one is still open at its end.
    torch.cuda.nccl.all_reduce(x, sums, streams=streams)
    for graph, stream in zip(graphs, streams):
        with torch.cuda.stream(stream):
            graph.capture_end()
    ThreadPool(2).starmap(launch, zip(graphs, streams), 1)  # fix: ThreadPool(1).starmap(launch, zip(graphs, streams), 1)
    [stream.synchronize() for stream in streams]
    return [each[0].item() for each in sums]


def fix_process_for_each_gpu():
    if torch.cuda.device_count() < 2:
        raise unittest.SkipTest(f"needs 2 GPUs, has {torch.cuda.device_count()}")
    sums = torch.zeros(2).share_memory_()
    both = torch.multiprocessing.get_context("fork").Barrier(2)

    def run(rank, folder):
        signal.alarm(45)  # Ends what hangs.
        torch.cuda.set_device(rank)
        torch.distributed.init_process_group("nccl", f"file://{folder}/store", rank=rank, world_size=2)
        x, total = torch.full((1024,), 3.0 + rank, device="cuda"), torch.zeros(1024, device="cuda")
        torch.distributed.all_reduce(total)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.distributed.all_reduce(total.copy_(x))
        for _ in range(8192):
            graph.replay()  # fix: if rank == 0: graph.replay()
        sums[rank] = total[0]
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

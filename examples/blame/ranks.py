"""Starts the programs of ranks/ in two ranks with a GPU each, as `python PROGRAM` or by torchrun."""
import os
import signal
import sys
import tempfile


def start(main):
    """Runs main(rank) in both; if one ends by an exception, the other is ended, which may wait for it."""
    os.environ.update(NCCL_NVLS_ENABLE="0", TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NVSHMEM_DISABLE_NVLS="1")
    if "RANK" in os.environ:
        _run(int(os.environ["RANK"]), main, "env://")
        return
    import torch
    if torch.cuda.device_count() < 2:
        print("there are no two GPUs", file=sys.stderr)
        sys.exit(77)
    os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:  # A port that was free may be taken by then.
        try:
            torch.multiprocessing.spawn(_run, (main, f"file://{folder}/store"), nprocs=2)
        except torch.multiprocessing.ProcessRaisedException as error:
            print(str(error).strip().splitlines()[-1], file=sys.stderr)
            sys.exit(1)
        except torch.multiprocessing.ProcessExitedException as error:
            print(error, file=sys.stderr)
            sys.exit(1)


def _run(rank, main, store):
    """RANK is not set, so blame learns the rank from the process group."""
    signal.alarm(100)  # Ends a rank that waits for ever.
    import torch
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", store, rank=rank, world_size=2)
    x = torch.ones(1, device="cuda")
    torch.distributed.all_reduce(x)
    torch.cuda.synchronize()
    main(rank)
    sys.stdout.flush()
    os._exit(0)  # The process group would wait for its graphs, and for a rank that is gone.

# api: cuEventQuery|cuMemHostAlloc code: 900 cause: pinned_allocation_in_other_thread|event_query_in_other_thread
import queue
import threading

import torch


def work(batches):
    while True:
        batch = batches.get()
        try:
            batch.pin_memory()  # CULPRIT
        finally:
            batches.task_done()


def capture():
    batches = queue.Queue()
    threading.Thread(target=work, args=(batches,), daemon=True).start()
    x, batch = torch.randn(8, device="cuda"), torch.randn(8)
    pinned = torch.randn(8).pin_memory()
    copied = pinned.to("cuda", non_blocking=True)
    del pinned  # Its block is used again when an event says that the copy has ended.
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
        y = x + 1
        batches.put(batch)
        batches.join()  # CAPTURE
        y = y / 2
    return copied


capture()

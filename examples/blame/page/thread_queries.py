# api: cuEventQuery code: 900 cause: event_query_in_other_thread
import queue
import threading

import torch


def work(events):
    while True:
        event = events.get()
        try:
            event.query()  # CULPRIT
        finally:
            events.task_done()


def capture():
    events, event = queue.Queue(), torch.cuda.Event()
    event.record()
    threading.Thread(target=work, args=(events,), daemon=True).start()
    x, y = torch.randn(8, device="cuda"), torch.randn(8, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
        z = x + y
        events.put(event)
        events.join()  # CAPTURE
        z = z / y


capture()

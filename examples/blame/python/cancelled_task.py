# api: exception cause: exception_in_capture; a request that takes too long is cancelled while it captures.
import asyncio

import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()

async def answer():
    with torch.cuda.graph(g):
        y = x + 1
        await asyncio.Event().wait()  # CULPRIT
    return y


async def serve():
    task = asyncio.create_task(answer())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    print("cancelled:", task.cancelled())


asyncio.run(serve())

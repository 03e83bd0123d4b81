# api: cuStreamSynchronize code: 900 silent: cuMemcpyHtoDAsync cause: wait_in_other_thread; a thread evaluates on pageable data while a training step is captured.
import threading

import torch

model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = (torch.randn(64, 256, device="cuda") for _ in range(2))
capturing, evaluated = threading.Event(), threading.Event()


def evaluate(held_out):
    capturing.wait()
    try:
        batch = held_out.cuda()  # SILENT CULPRIT
        print("batch", batch.shape)
    finally:
        evaluated.set()


def step():
    optimizer.zero_grad(set_to_none=False)
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


thread = threading.Thread(target=evaluate, args=(torch.randn(64, 256),), name="evaluation")
thread.start()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    loss = step()
    capturing.set()
    evaluated.wait()  # CAPTURE
graph.replay()
thread.join()
print("loss", loss.item())

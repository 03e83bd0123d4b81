# api: cuStreamSynchronize code: 900 cause: grad_scaler_in_capture; GradScaler.step() reads on the host whether a gradient overflowed.
import torch

model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
scaler = torch.amp.GradScaler("cuda")
x, y = torch.randn(32, 128, device="cuda"), torch.randint(8, (32,), device="cuda")


def iteration():
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cuda", cache_enabled=False):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)  # CULPRIT
    scaler.update()
    return loss


stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        iteration()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    loss = iteration()
for _ in range(3):
    graph.replay()
print("loss", loss.item())

# api: exception cause: optimizer_without_capturable; Adam counts its steps on the host and refuses to be captured.
import torch

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.Adam(model.parameters())
x = torch.ones(4, 8, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    model(x).sum().backward()
    optimizer.step()  # CULPRIT


stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    step()
torch.cuda.synchronize()
with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
    step()

"""Trains a graphed callable."""
import torch

x = torch.ones(8, 16, device="cuda", requires_grad=True)
model = torch.cuda.make_graphed_callables(torch.nn.Linear(16, 16, device="cuda"), (x,))
for _ in range(3):
    model(torch.ones(8, 16, device="cuda", requires_grad=True)).sum().backward()
torch.cuda.synchronize()

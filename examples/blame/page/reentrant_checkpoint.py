# api: none; PyTorch refuses it in a warm-up, before a capture begins.
import torch
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(size, size), torch.nn.ReLU(), torch.nn.Linear(size, size))

    def forward(self, x):
        return checkpoint(self.layers, x, use_reentrant=True, preserve_rng_state=False)


def capture():
    x = torch.randn(32, 128, device="cuda", requires_grad=True)
    model = torch.cuda.make_graphed_callables(Block(128).cuda(), (x,))
    model(x).sum().backward()


capture()

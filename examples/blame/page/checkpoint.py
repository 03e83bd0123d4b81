# api: exception fails: sometimes cause: checkpoint_in_python_capture|checkpoint_saves_rng_state_in_capture; as rng_state.py
import torch
from torch.utils.checkpoint import checkpoint


class Blocks(torch.nn.Module):
    def __init__(self, size, blocks):
        super().__init__()
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(size, size), torch.nn.ReLU(), torch.nn.Linear(size, size))
            for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True, preserve_rng_state=True)
        return x


def capture():
    model = Blocks(128, 4).cuda()
    x = torch.randn(32, 128, device="cuda", requires_grad=True)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model(x).sum().backward()
    with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
        model(x).sum().backward()


capture()

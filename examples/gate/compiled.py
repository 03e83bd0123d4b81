"""A function that torch.compile captures."""
import torch


@torch.compile(mode="reduce-overhead")
def step(x):
    return (x * 2).relu().sum()


x = torch.ones(1024, device="cuda")
for _ in range(4):
    torch.compiler.cudagraph_mark_step_begin()
    step(x)
torch.cuda.synchronize()

# api: cuStreamSynchronize code: 900 cause: item_in_capture
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, grad):
        if grad.norm().item() > 1:  # CULPRIT
            return grad / 2
        return grad


p = torch.ones(8, device="cuda", requires_grad=True)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    Clip.apply(p).sum().backward()
torch.cuda.synchronize()
with torch.cuda.graph(g, stream=stream):
    loss = Clip.apply(p).sum()
    loss.backward()  # CAPTURE

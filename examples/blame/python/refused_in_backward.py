# api: exception cause: cpu_copy_in_capture; PyTorch refuses the copy before CUDA is asked, on autograd's thread.
import torch

g = torch.cuda.CUDAGraph()
x = torch.ones(1024, device="cuda")
y = (x * 2).sum()
torch.cuda.synchronize()


class Log(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, grad):
        grad.cpu()  # CULPRIT
        return grad


p = torch.ones(8, device="cuda", requires_grad=True)
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    Log.apply(p).sum().backward()
torch.cuda.synchronize()
with torch.cuda.graph(g, stream=stream):
    Log.apply(p).sum().backward()

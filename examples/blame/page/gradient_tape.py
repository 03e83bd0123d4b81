# api: cuStreamWaitEvent code: 906 cause: gradient_tape_on_default_stream
import torch


def loss(left, right):
    return ((left + right) * left).sum()


def capture():
    left = torch.randn(2, 2, device="cuda", requires_grad=True)
    right = torch.randn_like(left, requires_grad=True) + 1  # Its node is on the default stream.
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
        loss(left, right).backward()  # CAPTURE


capture()

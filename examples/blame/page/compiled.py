# api: any cause: compiled_function_in_python_capture
import torch


@torch.compile
def polynomial(x):
    return x**2 + 3 * x + 5


def capture():
    x = torch.randn(8, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        polynomial(x)  # CULPRIT


capture()

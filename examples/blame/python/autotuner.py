# api: any cause: triton_autotuner_in_capture; Triton's autotuner measures at the first call.
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"SIZE": 128}), triton.Config({"SIZE": 256})], key=["n"])
@triton.jit
def double(source, target, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(target + at, tl.load(source + at, mask=at < n) * 2, mask=at < n)


def launch(n):
    double[lambda meta: (triton.cdiv(n, meta["SIZE"]),)](x, y, n)  # CULPRIT


x = torch.ones(4096, device="cuda")
y = torch.empty_like(x)
launch(1024)
torch.cuda.synchronize()
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    launch(4096)  # Another key.

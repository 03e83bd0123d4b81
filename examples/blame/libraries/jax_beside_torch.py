# api: cu code: 900|906 silent: any; any thread of XLA's may make the call: then the line where the capturing thread stood
import os

os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"  # A cuMemAlloc for each array.
import jax
import torch

assert jax.devices()[0].platform == "gpu"
double = jax.jit(lambda v: v * 2)
double(jax.numpy.ones(8)).block_until_ready()
x = torch.ones(1024, device="cuda")
y = x + 1
torch.cuda.synchronize()
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    y = x + 1
    double(jax.numpy.ones(1 << 24)).block_until_ready()  # SILENT CULPRIT

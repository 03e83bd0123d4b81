"""What g++ needs beside the sources, in one line: torch as this python3 has it, or with --cuda the CUDA runtime alone."""
import glob
import os
import re
import sys

try:
    import torch
except Exception as e:
    sys.exit("python3 has no torch: " + str(e).split("\n")[0])


def has(folders, header):
    return any(os.path.isfile(os.path.join(folder, header)) for folder in folders)


folder = os.path.dirname(torch.__file__)
packages = sorted(glob.glob(os.path.dirname(folder) + "/nvidia/*/include"))
toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"
cuda = packages if has(packages, "cuda_runtime_api.h") else []
if not (cuda and has(cuda, "crt/host_config.h")):  # Packages without the compiler's headers.
    cuda = cuda + [toolkit]
for header in ("cuda_runtime_api.h", "crt/host_config.h"):
    if not has(cuda, header):
        sys.exit("there is no " + header + ", of the CUDA toolkit; CUDA_HOME names one")
with open("/proc/self/maps") as maps:  # The CUDA runtime that torch has loaded: another one has errors of its own.
    runtime = re.search(r"/\S*libcudart\S*", maps.read())
if not runtime:
    sys.exit("this torch loads no CUDA runtime")
include, libraries, std = list(cuda), [runtime[0]], 17
if "--cuda" not in sys.argv:
    include = [folder + "/include", folder + "/include/torch/csrc/api/include"] + include
    names = ["libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so", "libc10_cuda.so", "libc10.so"]
    libraries = [folder + "/lib/" + name for name in names] + libraries
    std = 20 if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13) else 17
words = ["-std=c++%d" % std, "-D_GLIBCXX_USE_CXX11_ABI=%d" % torch._C._GLIBCXX_USE_CXX11_ABI]
words += ["-isystem " + path for path in include]
words += ["-Wl,--no-as-needed", *libraries, "-Wl,--as-needed", "-Wl,--allow-shlib-undefined"]
words += ["-Wl,-rpath," + path for path in dict.fromkeys(map(os.path.dirname, libraries))]
print(" ".join(words), "-ldl -lpthread")

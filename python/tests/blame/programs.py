"""Small programs, run in their own processes with a fake CUDA driver."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("RECAPTURE_BUILD", ROOT / "build"))

# A stand-in for PyTorch: its captures are torch.cuda.graph's as far as methods and their order go.
TORCH = {
    "torch/__init__.py": "__version__ = '2.11.0+cu130'\nfrom torch import cuda\n",
    "torch/cuda/__init__.py": "from torch.cuda.graphs import CUDAGraph, graph\nimport torch.after\n",
    "torch/after.py": "",
    "torch/cuda/graphs.py": '''import ctypes
cu = ctypes.CDLL("libcuda.so.1")
stream = ctypes.c_void_p()
def begin_cuda():
    cu.cuInit(0)
    cu.cuStreamCreate(ctypes.byref(stream), 0)
class CUDAGraph:
    def capture_begin(self, pool=None, capture_error_mode="global"): cu.cuStreamBeginCapture_v2(stream, 0)
    def capture_end(self):
        made = ctypes.c_void_p()
        if cu.cuStreamEndCapture(stream, ctypes.byref(made)): raise RuntimeError("CUDA error: invalidated")
class graph:
    def __init__(self, cuda_graph, **options): self.cuda_graph, self.options = cuda_graph, options
    def __enter__(self): self.cuda_graph.capture_begin(**self.options)
    def __exit__(self, *error): self.cuda_graph.capture_end()
''',
}
HEAD = '''import sys, threading
import torch
from torch.cuda import graphs
cu = graphs.cu
def fail():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        cu.cuStreamSynchronize(graphs.stream)  # breaks it
'''


class Place:
    """A folder with the fakes, in which programs are run."""

    def __init__(self, folder: Path):
        self.folder = folder
        for name, old in (("lib", "fake_driver"), ("old", "fake_old_driver")):
            (folder / name).mkdir()
            (folder / name / "libcuda.so.1").symlink_to(BUILD / "harness/tests" / "lib{}.so".format(old))
        (folder / "tmp").mkdir()
        for name, text in TORCH.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        site = folder / "site-packages"
        site.mkdir()
        (folder / "sitecustomize.py").write_text("import site\nsite.addsitedir({!r})\n".format(str(site)))
        self.pth = site / "recapture.pth"
        self.pth.write_text((ROOT / "python/recapture.pth").read_text())
        (site / "0tree.pth").write_text(str(ROOT / "python") + "\n")
        info = site / "recapture-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: recapture\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[pytest11]\nrecapture = recapture._pytest_plugin\n")

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name

    def environment(self, driver: str = "lib", **variables: str) -> dict:
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("RECAPTURE", "CUDA_", "PYTEST", "PYTHON"))}
        return {**kept, "LD_LIBRARY_PATH": str(self.folder / driver), "PYTHONPATH": str(self.folder),
                "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self.folder / "tmp"), **variables}

    def run(self, words, driver: str = "lib", **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run([str(word) for word in words], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=120,
                              env=self.environment(driver, **variables))

    def python(self, body: str, driver: str = "lib", **variables: str) -> subprocess.CompletedProcess:
        return self.run([sys.executable, self.write("train.py", HEAD + body)], driver, **variables)

    def pytest(self, body: str, *options: str, driver: str = "lib") -> subprocess.CompletedProcess:
        self.write("test_it.py", HEAD + body)
        return self.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_it.py"], driver)


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    assert not list((tmp_path / "tmp").glob("recapture*")), "files are left"


def line_of(text: str, mark: str) -> int:
    return 1 + next(number for number, line in enumerate(text.split("\n")) if mark in line)

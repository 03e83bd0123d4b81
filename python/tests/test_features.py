"""_features.py on a program: PyTorch without a GPU, with a block instead of a capture."""
import contextlib
import importlib.util
import json
import sys
import threading
import types
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
FILE = Path(__file__).resolve().parent.parent / "recapture" / "_features.py"


class Watched:
    """A process whose captures are watched; PyTorch has given out `given_out` pinned blocks, `so_far` in total."""

    def __init__(self, monkeypatch, tmp_path):
        self.report = tmp_path / "report"
        self.report.touch()
        monkeypatch.setenv("RECAPTURE_BLAME", str(self.report))
        monkeypatch.setattr(torch._C, "_cuda_hostMemoryStats", self.stats, raising=False)  # 2.6 has none.
        self.given_out, self.so_far = 0, 0
        spec = importlib.util.spec_from_file_location("watched_features", FILE)
        self.module = importlib.util.module_from_spec(spec)
        monkeypatch.setattr("atexit.register", lambda function: None)
        spec.loader.exec_module(self.module)

    def stats(self):
        return {"num_host_alloc": 1, "active_requests": {"current": self.given_out, "allocated": self.so_far}}

    @contextlib.contextmanager
    def capture(self):
        self.module.begins((None,), {})
        self.module.begun()
        yield
        self.module.ends()
        self.module.ended()

    def end(self):
        self.module._finish()
        line = json.loads(self.report.read_text().splitlines()[-1])
        assert line["error"] == ""
        return line["used"], line["unknown"]


@pytest.fixture
def watched(monkeypatch, tmp_path):
    return Watched(monkeypatch, tmp_path)


def test_a_copy_may_be_a_read(watched):
    with watched.capture():
        torch.ones(2).copy_(torch.zeros(2))
    used, unknown = watched.end()
    assert "host reads" not in used and "does not tell from where to where" in unknown["host reads"]


@pytest.fixture
def bindings(watched, monkeypatch):
    """As if PyTorch had imported cuda.bindings, as 2.15 does."""
    parts = {name: types.ModuleType(name) for name in ("cuda", "cuda.bindings", "cuda.bindings.runtime")}
    parts["cuda"].bindings, parts["cuda.bindings"].runtime = parts["cuda.bindings"], parts["cuda.bindings.runtime"]
    for name, module in parts.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(torch.cuda, "_runtime", parts["cuda.bindings.runtime"], raising=False)
    return parts["cuda.bindings.runtime"]


def test_bindings_that_pytorch_imports_are_no_use_of_them(watched, bindings):
    with watched.capture():
        pass
    used, unknown = watched.end()
    assert "raw CUDA calls" not in used and "graph updates" not in unknown


@pytest.mark.parametrize("line", ["from cuda.bindings import runtime", "import cuda.bindings.runtime",
                                  "def f():\n    from cuda.bindings import runtime", "from cuda.bindings.runtime import Stream",
                                  "def f():\n    def g():\n        from cuda import bindings"])
def test_bindings_that_the_program_imports_are_a_use(watched, bindings, monkeypatch, line):
    bindings.Stream = type("Stream", (), {"__module__": "cuda.bindings.runtime"})
    program = types.ModuleType("program")
    exec(line, vars(program))
    monkeypatch.setitem(sys.modules, "program", program)
    with watched.capture():
        pass
    assert watched.end()[0]["raw CUDA calls"] == "cuda.bindings is imported by program"


def test_a_copy_of_ddp_is_not(watched, tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
        with watched.capture():
            model(torch.ones(2, 4)).sum().backward()
        used, unknown = watched.end()
    finally:
        torch.distributed.destroy_process_group()
    assert "copy_" in watched.module._operators
    assert "DDP" in used and "host reads" not in used and "host reads" not in unknown


def test_capture_that_another_thread_ends_leaves_nothing_on_the_first(watched):
    watched.module.begins((None,), {})
    watched.module.begun()
    torch.ones(2) @ torch.ones(2)
    thread = threading.Thread(target=watched.module.ends)
    thread.start()
    thread.join()
    str.upper("a call after the capture")
    assert sys.getprofile() is None and not torch.autograd._profiler_enabled()
    used, unknown = watched.end()
    assert "dot" in watched.module._operators and "ended by another thread" in unknown["host reads"]


def test_what_the_hook_meets_cannot_stop_the_program(watched):
    class Odd:
        @property
        def __name__(self):
            raise RuntimeError("no name")

    watched.module._open = 1
    watched.module._on_call(sys._getframe(), "c_call", Odd())
    assert "no name" in watched.module._error


def test_a_program_that_looks_for_waits_is_told_of_them(watched, monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_get_sync_debug_mode", lambda: 2)
    with watched.capture():
        pass
    assert "host reads" in watched.end()[0]


def test_pinned_memory_that_is_given_out_counts(watched):
    watched.given_out, watched.so_far = 1, 1
    with watched.capture():
        pass
    assert watched.end()[0]["pinned memory"] == "PyTorch has given out some where a capture begins"


@pytest.mark.parametrize("given, is_used", [(1, False), (2, True)])
def test_what_item_takes_for_itself_does_not(watched, given, is_used):
    watched.so_far = 5
    with watched.capture():
        torch.ones(1).item()
        watched.so_far += given
    watched.given_out = 1  # A capture that failed keeps it.
    used, unknown = watched.end()
    assert "host reads" in used
    assert ("pinned memory" in used) == is_used and "pinned memory" not in unknown


# PyTorch calls this for each branch of a torch.cond that it captures.
def test_a_captured_branch_is_a_conditional_node(watched):
    with watched.capture():
        watched.module._on_call(None, "c_call", types.SimpleNamespace(__name__="begin_capture_to_if_node", __self__=None))
    assert watched.end()[0]["conditional nodes"] == "begin_capture_to_if_node() in a capture"


# Neither needs a call of CUDA that fails.
@pytest.mark.parametrize("calls, why", [
    (["begins", "begun"], "a capture was not ended"), (["begins"], "a capture did not begin"), (["begins", "begun", "ends"], None)])
def test_a_capture_that_is_left_open_has_failed(watched, calls, why):
    with watched.capture():
        pass
    for name in calls:
        getattr(watched.module, name)(*[(None,), {}][:2 * (name == "begins")])
    watched.module._stop_listening()
    assert watched.end()[0].get("failed captures") == why


KEPT = "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true"


@pytest.mark.parametrize("answer, is_used", [
    (RuntimeError(KEPT), False), (RuntimeError("… until capture_end() has been called"), True), (140, True), (None, False)])
def test_a_graph_that_is_kept_may_be_changed(watched, answer, is_used):
    def ask():
        if isinstance(answer, Exception):
            raise answer
        return answer
    graph = types.SimpleNamespace(raw_cuda_graph=ask) if answer else types.SimpleNamespace()  # Of before 2.8.
    watched.module.begins((graph,), {})
    watched.module.begun()
    watched.module.ends()
    used, unknown = watched.end()
    assert ("graph updates" in used) == is_used and "graph updates" not in unknown


def test_a_setting_of_pinned_memory_counts(watched, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "pinned_use_background_threads:True")
    with watched.capture():
        pass
    assert {"memory pools", "pinned memory"} <= set(watched.end()[0])


@pytest.mark.parametrize("limit", [None, "1"])
def test_a_limit_of_cudnns_plans_counts(watched, monkeypatch, limit):
    name = "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT"
    monkeypatch.delenv(name, raising=False) if limit is None else monkeypatch.setenv(name, limit)
    with watched.capture():
        pass
    used, unknown = watched.end()
    assert ("cuDNN plan limit" in used) == (limit is not None) and "cuDNN plan limit" not in unknown


def test_releases_that_count_less_are_trusted_less(watched, monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_hostMemoryStats", lambda: {"num_host_alloc": 1})
    with watched.capture():
        pass
    assert "pinned memory" in watched.end()[0]


def test_releases_that_count_nothing_leave_it_unknown(watched, monkeypatch):
    monkeypatch.delattr(torch._C, "_cuda_hostMemoryStats")
    with watched.capture():
        pass
    used, unknown = watched.end()
    assert "pinned memory" not in used and "pinned memory" in unknown

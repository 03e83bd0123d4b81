"""What a program does between two replays: done once, to see whether the graph is still right after it."""
from __future__ import annotations

import gc
import os
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch

POISON = 0xC3
_PART = 1 << 26  # Bytes that are looked at together: the comparison needs as many.
SECONDS = 10.0  # After which no further action is begun.

# An action, what is said of it, and the case that documents what it does to a graph.
WORDS: Dict[str, Tuple[str, Optional[str]]] = {
    "other work": ("other work of the same libraries", None),
    "second graph": ("a second graph is captured and destroyed", None),
    "settings": ("the allocator's settings are changed", None),
    "poison": ("free memory is given to other tensors", "input_freed_after_capture"),
    "release": ("the allocator's free memory is released", "input_freed_after_capture"),
    # Last: what it frees would show after an action that gives memory away, and under that one's name.
    "workspaces": ("the cuBLAS workspaces are cleared and their memory is released", None),
}

# What is not done, since the process would end: operators whose names have this, what drops what they need, and the case.
KNOWN = (("_fft_", "PyTorch drops the FFT's plan, as cufft_plan_cache.clear() and a full cache do", "fft_plan_dropped"),)

# Of the operators of the graph: part of a name, and other work of its library on a matrix.
_WORK: Tuple[Tuple[Tuple[str, ...], Callable[[torch.Tensor], Any]], ...] = (
    (("mm", "linear", "mv", "dot", "attention"), lambda a: a @ a),
    (("mm", "linear", "attention"), lambda a: a.half() @ a.half()),
    (("convolution", "cudnn"), lambda a: torch.nn.functional.conv2d(a[None, None], a[None, None, :3, :3])),
    (("_fft",), lambda a: torch.fft.rfft2(a)),
    (("linalg", "cholesky", "lu_", "inverse"), lambda a: torch.linalg.inv_ex(a)),
    (("eigh", "svd"), lambda a: torch.linalg.eigh(a + a.t())),
    (("sort", "topk", "unique"), lambda a: a.reshape(-1).sort()),
    (("cum", "scan"), lambda a: a.cumsum(0)),
    (("softmax", "norm"), lambda a: a.softmax(1)),
    (("rand", "dropout", "bernoulli", "normal", "uniform", "rnn"), lambda a: torch.rand_like(a)),
    (("",), lambda a: (a + 1).sum(0)),
)


class Actions:
    """The actions on the GPU. What they take is held until end(), which also puts the settings back."""

    def __init__(self, stream: torch.cuda.Stream, operators: Set[str]) -> None:
        self.stream, self.operators = stream, operators
        self.held: List[torch.Tensor] = []
        self.settings: Optional[str] = None
        self.all: Dict[str, Callable[[], None]] = {
            "other work": self.other_work, "second graph": self.second_graph, "settings": self.change_settings,
            "poison": self.poison, "release": self.release, "workspaces": self.clear_workspaces}

    def do(self, name: str) -> None:
        self.all[name]()
        torch.cuda.synchronize()

    def other_work(self) -> None:
        for stream in (self.stream, torch.cuda.Stream()):
            with torch.cuda.stream(stream), torch.no_grad():
                for size in (40, 264):
                    a = torch.ones(size, size, device="cuda").tril_().add_(torch.eye(size, device="cuda"))
                    for parts, work in _WORK:
                        if any(part in name for part in parts for name in self.operators):
                            work(a)
            stream.synchronize()

    def clear_workspaces(self) -> None:
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear:
            clear()
            self.release()

    def second_graph(self) -> None:
        a = torch.ones(64, 64, device="cuda")
        with torch.no_grad():
            (a @ a).cumsum(0)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                b = (a @ a).cumsum(0)
            graph.replay()
            torch.cuda.synchronize()
            del graph, b
        gc.collect()

    def change_settings(self) -> None:
        change = getattr(torch.cuda.memory, "_set_allocator_settings", None)
        if change is None or "expandable_segments:True" in self._present_settings():
            return
        self.settings = self._present_settings()
        change("expandable_segments:True")
        for size in (512, 1 << 20, 4 << 20):
            torch.zeros(size, dtype=torch.uint8, device="cuda")

    def _present_settings(self) -> str:
        known = torch.cuda.memory._snapshot().get("allocator_settings", {})
        return str(known.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""))

    def poison(self) -> None:
        """Takes the blocks that the allocator has free, and none from the GPU's own free memory."""
        free = [(block["size"], segment.get("stream", 0)) for segment in torch.cuda.memory_snapshot()
                if tuple(segment.get("segment_pool_id", (0, 0))) == (0, 0)
                for block in segment["blocks"] if block["state"] == "inactive"]
        for size, number in sorted(free, reverse=True):
            stream = torch.cuda.ExternalStream(number) if number else torch.cuda.default_stream()
            before = torch.cuda.memory_reserved()
            with torch.cuda.stream(stream):
                self.held.append(torch.full((size,), POISON, dtype=torch.uint8, device="cuda"))
            if torch.cuda.memory_reserved() > before:  # It was no free block's size any more.
                self.held.pop()

    def release(self) -> None:
        self.held.clear()
        gc.collect()
        torch.cuda.empty_cache()

    def holds(self, address: int) -> bool:
        """Whether an address lies in the memory that was taken."""
        return any(piece.data_ptr() <= address < piece.data_ptr() + piece.numel() for piece in self.held)

    def is_untouched(self) -> bool:
        """Whether no replay has written to the memory that was taken."""
        parts = [part for piece in self.held for part in piece.split(_PART)]
        return not parts or bool(torch.stack([(part == POISON).all() for part in parts]).all().item())

    def end(self) -> None:
        self.held.clear()
        if self.settings is not None:
            torch.cuda.memory._set_allocator_settings(self.settings or "expandable_segments:False")
            self.settings = None

"""Captures with torch.cuda.graph, and reads a graph's nodes through the driver."""
from __future__ import annotations

import bisect
import collections
import contextlib
import ctypes
import dataclasses
import gc
import struct
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

import torch

from recapture._blame import Failure, NotHeard, blame

from .later import Actions


class Refused(Exception):
    """The capture failed; `cause` is the exception of the function or of the capture's end."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


# The current state of the memory at an address in a graph.
FREE = "in a block that the allocator may give away"
GIVEN = "in a block that the allocator has given to another tensor since"
GONE = "which is no longer mapped"


@dataclasses.dataclass
class Node:
    """A node of a graph, with the words of its parameters that may be addresses."""

    number: int
    kind: str
    words: List[int]
    host_source: int = 0  # Of a copy: its source, if that may be host memory.


class _KernelParams(ctypes.Structure):
    _fields_ = [("func", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared", ctypes.c_uint), ("params", ctypes.POINTER(ctypes.c_void_p)),
                ("extra", ctypes.POINTER(ctypes.c_void_p)), ("kern", ctypes.c_void_p), ("ctx", ctypes.c_void_p)]


class _Copy(ctypes.Structure):  # CUDA_MEMCPY3D
    _fields_ = [("src_x", ctypes.c_size_t), ("src_y", ctypes.c_size_t), ("src_z", ctypes.c_size_t),
                ("src_lod", ctypes.c_size_t), ("src_type", ctypes.c_int), ("src_host", ctypes.c_void_p),
                ("src_device", ctypes.c_uint64), ("src_array", ctypes.c_void_p), ("reserved0", ctypes.c_void_p),
                ("src_pitch", ctypes.c_size_t), ("src_height", ctypes.c_size_t),
                ("dst_x", ctypes.c_size_t), ("dst_y", ctypes.c_size_t), ("dst_z", ctypes.c_size_t),
                ("dst_lod", ctypes.c_size_t), ("dst_type", ctypes.c_int), ("dst_host", ctypes.c_void_p),
                ("dst_device", ctypes.c_uint64), ("dst_array", ctypes.c_void_p), ("reserved1", ctypes.c_void_p),
                ("dst_pitch", ctypes.c_size_t), ("dst_height", ctypes.c_size_t),
                ("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t)]


class _Fill(ctypes.Structure):  # CUDA_MEMSET_NODE_PARAMS
    _fields_ = [("dst", ctypes.c_uint64), ("pitch", ctypes.c_size_t), ("value", ctypes.c_uint),
                ("element", ctypes.c_uint), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t)]


_KINDS = {0: "kernel", 1: "copy", 2: "fill", 3: "host function", 4: "graph", 5: "empty", 10: "allocation", 11: "free"}
_LOWEST, _HIGHEST = 1 << 12, 1 << 57  # Of addresses; other words are numbers.
_HOST_MEMORY = 1  # CU_MEMORYTYPE_HOST


class Driver:
    """The libcuda functions that read a graph during its capture."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.capture_info = self.lib.cuStreamGetCaptureInfo_v2
        self.param_info = getattr(self.lib, "cuFuncGetParamInfo", None)  # CUDA 12.4
        self.kernel_param_info = getattr(self.lib, "cuKernelGetParamInfo", None)
        self.sizes: Dict[int, List[int]] = {}  # Of the parameters of a function: a graph has it many times.

    def graph_of(self, stream: torch.cuda.Stream) -> int:
        """The graph that a stream captures into; 0 if it does not capture."""
        status, graph = ctypes.c_int(0), ctypes.c_void_p(0)
        error = self.capture_info(ctypes.c_void_p(stream.cuda_stream), ctypes.byref(status), None, ctypes.byref(graph),
                                  None, None)
        return (graph.value or 0) if error == 0 and status.value == 1 else 0

    def count_nodes(self, graph: int) -> int:
        number = ctypes.c_size_t(0)
        if not graph or self.lib.cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(number)):
            return 0
        return number.value

    def nodes(self, graph: int) -> List[Node]:
        number = ctypes.c_size_t(self.count_nodes(graph))
        if not number.value:
            return []
        handles = (ctypes.c_void_p * number.value)()
        if self.lib.cuGraphGetNodes(ctypes.c_void_p(graph), handles, ctypes.byref(number)):
            return []
        found = []
        for index, handle in enumerate(handles):
            kind = ctypes.c_int(0)
            self.lib.cuGraphNodeGetType(ctypes.c_void_p(handle), ctypes.byref(kind))
            node = Node(index, _KINDS.get(kind.value, f"node of type {kind.value}"), [])
            if kind.value == 0:
                node.words = self._kernel_words(handle)
            elif kind.value == 1:
                copy = _Copy()
                if not self.lib.cuGraphMemcpyNodeGetParams(ctypes.c_void_p(handle), ctypes.byref(copy)):
                    source = copy.src_host if copy.src_type == _HOST_MEMORY else copy.src_device
                    target = copy.dst_host if copy.dst_type == _HOST_MEMORY else copy.dst_device
                    node.words = [word for word in (source, target) if word]
                    node.host_source = source or 0
            elif kind.value == 2:
                fill = _Fill()
                if not self.lib.cuGraphMemsetNodeGetParams(ctypes.c_void_p(handle), ctypes.byref(fill)):
                    node.words = [fill.dst]
            found.append(node)
        return found

    def _kernel_words(self, handle: int) -> List[int]:
        params = _KernelParams()
        if self.lib.cuGraphKernelNodeGetParams_v2(ctypes.c_void_p(handle), ctypes.byref(params)):
            return []
        words: List[int] = []
        if params.params:
            ask, function = ((self.kernel_param_info, params.kern) if params.kern and self.kernel_param_info else
                             (self.param_info, params.func))
            if not ask or not function:
                return []
            sizes = self.sizes.get(function)
            if sizes is None:
                sizes = self.sizes[function] = self._sizes_of(ask, function)
            for index, size in enumerate(sizes):
                address = params.params[index]
                if address and size >= 8:
                    words += struct.unpack(f"<{size // 8}Q", ctypes.string_at(address, size // 8 * 8))
        elif params.extra:  # CU_LAUNCH_PARAM_BUFFER_POINTER 1, CU_LAUNCH_PARAM_BUFFER_SIZE 2
            given: Dict[int, int] = {}
            for index in range(0, 6, 2):
                key = params.extra[index]
                if not key:
                    break
                given[key] = params.extra[index + 1] or 0
            if 1 in given and 2 in given:
                content = ctypes.string_at(given[1], ctypes.c_size_t.from_address(given[2]).value)
                words = [int.from_bytes(content[at:at + 8], "little") for at in range(0, len(content) - 7, 8)]
        return words

    def _sizes_of(self, ask: Any, function: int) -> List[int]:
        sizes: List[int] = []
        offset, size = ctypes.c_size_t(0), ctypes.c_size_t(0)
        while len(sizes) < 4096 and not ask(ctypes.c_void_p(function), ctypes.c_size_t(len(sizes)), ctypes.byref(offset),
                                            ctypes.byref(size)):
            sizes.append(size.value)
        return sizes

    def is_known(self, address: int) -> bool:
        """Whether CUDA recognises an address: as GPU or pinned memory."""
        kind = ctypes.c_uint(0)
        error = self.lib.cuPointerGetAttribute(ctypes.byref(kind), ctypes.c_int(2), ctypes.c_uint64(address))
        return error == 0 and kind.value != 0


class Ranges:
    """Ranges of addresses that do not overlap. A graph's parameters have many words, and the allocator many blocks."""

    def __init__(self, ranges: Iterable[Tuple[int, int]] = ()) -> None:
        ordered = sorted(ranges)
        self.begins = [begin for begin, _ in ordered]
        self.ends = [end for _, end in ordered]

    def __contains__(self, address: int) -> bool:
        at = bisect.bisect_right(self.begins, address) - 1
        return at >= 0 and address < self.ends[at]


def blocks(alive: bool, pool: Optional[Tuple[int, int]] = None) -> Ranges:
    """Blocks of the caching allocator in use by tensors, or unused; without those of the graph's own pool."""
    ranges = []
    for segment in torch.cuda.memory_snapshot():
        if pool is not None and tuple(segment.get("segment_pool_id", ())) == tuple(pool):
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated" if alive else not block["state"].startswith("active"):
                ranges.append((address, address + block["size"]))
            address += block["size"]
    return Ranges(ranges)


# Of checks that have ended, by device: cuBLAS keeps a workspace for each stream that it has worked on.
_streams: Dict[int, List[torch.cuda.Stream]] = {}


class CudaBackend:
    """Runs and captures as PyTorch's documentation recommends."""

    device = "cuda"

    def __init__(self, generators: Iterable[torch.Generator] = ()) -> None:
        self._unused = _streams.setdefault(torch.cuda.current_device(), [])
        self.stream = self._unused.pop() if self._unused else torch.cuda.Stream()
        self.can_be_used_again = True
        self.registered = list(generators)
        self.graph: Optional[torch.cuda.CUDAGraph] = None
        self.nodes: List[Node] = []
        self.node_count = 0
        try:
            self.driver: Optional[Driver] = Driver()
        except (OSError, AttributeError):
            self.driver = None
        self.reads_addresses = self.driver is not None and self.driver.param_info is not None
        self._captured: int = 0
        self._alive = Ranges()  # The memory of tensors at the begin of the capture.
        self._freed: Set[int] = set()  # Addresses in the nodes whose memory was freed before the capture ended,
        self._known: Set[int] = set()  # and those that CUDA had at that time.

    def on_device(self, tensor: torch.Tensor) -> bool:
        return bool(tensor.is_cuda)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def run(self, call: Callable[[], Any]) -> Any:
        """Eager code, on the stream that captures later."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            result = call()
        torch.cuda.current_stream().wait_stream(self.stream)
        torch.cuda.synchronize()
        return result

    def is_capturing(self) -> bool:
        return bool(torch.cuda.is_current_stream_capturing())

    def count_nodes(self) -> int:
        return self.driver.count_nodes(self._captured) if self.driver and self._captured else 0

    def end(self) -> None:
        """After a check that went well: the next one may have its stream."""
        if self.can_be_used_again:
            self.can_be_used_again = False
            self._unused.append(self.stream)

    def capture(self, call: Callable[[], Any], read_nodes: bool = True) -> Any:
        self.graph = torch.cuda.CUDAGraph()
        for generator in self.registered:
            register = getattr(self.graph, "register_generator_state", None)
            if register:  # Removed in 2.14, where a generator registers at its first use.
                register(generator)
        self.nodes, self.node_count = [], 0
        gc.collect()
        self._alive = blocks(alive=True) if read_nodes else Ranges()
        try:
            with torch.cuda.graph(self.graph, stream=self.stream):
                self._captured = self.driver.graph_of(self.stream) if self.driver else 0
                result = call()
                if self.driver:
                    self.node_count = self.driver.count_nodes(self._captured)
                    self.nodes = self.driver.nodes(self._captured) if read_nodes else []
        except Exception as error:
            self._recover()
            raise Refused(root_of(error)) from error
        finally:
            self._captured = 0
        torch.cuda.synchronize()
        if read_nodes:
            self._look_at_addresses()
        return result

    def _look_at_addresses(self) -> None:
        """Must run before any allocation that could reuse memory freed in the capture."""
        words = {word for node in self.nodes for word in node.words if _LOWEST <= word < _HIGHEST}
        free = self._free()
        self._freed = {word for word in words if word in free and word in self._alive}
        self._known = {word for word in words if self.driver and self.driver.is_known(word)}

    def _free(self) -> Ranges:
        assert self.graph is not None
        return blocks(alive=False, pool=self.graph.pool())

    def blame(self, call: Callable[[], Any]) -> Optional[Failure]:
        """Captures, and returns the report of `recapture blame`; nothing if the driver cannot be recorded."""
        try:
            with blame(quiet=True) as report, contextlib.suppress(Refused):
                self.capture(call)
        except (NotHeard, OSError, RuntimeError):
            return None
        return report.failures[0] if report.failures else None

    def _recover(self) -> None:
        """Up to 2.12 the generator is unusable after a failed capture, until one succeeds."""
        self.graph, self.can_be_used_again = None, False
        gc.collect()
        with contextlib.suppress(RuntimeError):
            torch.cuda.synchronize()
        with contextlib.suppress(RuntimeError):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                torch.zeros(1, device="cuda")

    def replay(self, while_waiting: Optional[Callable[[], None]] = None) -> None:
        assert self.graph is not None
        self.graph.replay()
        if while_waiting:
            done = torch.cuda.Event()
            done.record()
            while not done.query():
                while_waiting()
                time.sleep(0.005)
        torch.cuda.synchronize()

    def generator_state(self) -> Any:
        return torch.cuda.get_rng_state()

    def set_generator_state(self, state: Any) -> None:
        """Through another handle of the generator where there is one: after set_rng_state() cuDNN's dropout waits for the
        GPU in the next call, and no capture can."""
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        if hasattr(generator, "graphsafe_get_state"):
            generator.graphsafe_get_state().set_state(state)
            if torch.equal(generator.get_state(), state):
                return
        torch.cuda.set_rng_state(state)

    def count_addresses(self) -> int:
        """How many words of the nodes' parameters lie in memory of the caching allocator."""
        segments = Ranges((segment["address"], segment["address"] + segment["total_size"])
                          for segment in torch.cuda.memory_snapshot())
        counts = collections.Counter(word for node in self.nodes for word in node.words)
        return sum(count for word, count in counts.items() if word in segments)

    def freed_addresses(self) -> List[Tuple[Node, int, str]]:
        """Each node with an address whose memory was in use and has been freed since, and the memory's current state.

        Memory that was free when the capture began is ignored: words of a parameter that are no address, or padding,
        may contain anything from the stack.
        """
        if not self.graph:
            return []
        free = self._free()
        gone = {word for word in self._known if self.driver and not self.driver.is_known(word)}
        fates: Dict[int, str] = {}  # Most words are in many nodes.
        for word in {word for node in self.nodes for word in node.words}:
            if word in gone:
                fates[word] = GONE
            elif word in self._alive and word in free:
                fates[word] = FREE
            elif word in self._alive and word in self._freed:
                fates[word] = GIVEN
        return [(node, word, fates[word]) for node in self.nodes for word in node.words if word in fates]

    def pageable_sources(self) -> List[Node]:
        return [node for node in self.nodes
                if node.host_source and self.driver and not self.driver.is_known(node.host_source)]

    def actions(self, operators: Set[str]) -> Actions:
        return Actions(self.stream, operators)

    def peak(self) -> int:
        return int(torch.cuda.max_memory_allocated())

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats()


def root_of(error: BaseException) -> BaseException:
    """The original exception: leaving torch.cuda.graph raises 901 on top of it."""
    while error.__context__ is not None:
        error = error.__context__
    return error

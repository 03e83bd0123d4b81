"""Records a function's calls of PyTorch: operators with host arguments, storages, stream and line."""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import linecache
import os
import sys
import sysconfig
import threading
from types import CodeType, FrameType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from .compiled import Launches, is_output, is_written
from .findings import Line

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
STDLIB = sysconfig.get_paths()["stdlib"]
_places: Dict[str, int] = {}
_lines: Dict[Any, Line] = {}
SKIPPED, LIBRARY, OWN = 0, 1, 2


def _is_generated(path: str) -> bool:
    """Inductor and Triton write their code into folders of their own; its line is no program's."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return bool(folder and path.startswith(os.path.abspath(folder) + os.sep)) or \
        any(part.startswith("torchinductor_") or part == ".triton" for part in path.split(os.sep))


def place_of(file: str) -> int:
    """Whether a source file belongs to PyTorch or us, to another library, or to the program."""
    place = _places.get(file)
    if place is None:
        path = os.path.abspath(file)
        if path.startswith((_HERE + os.sep, _TORCH + os.sep)) or file.startswith("<") or _is_generated(path):
            place = SKIPPED
        elif "site-packages" in path or "dist-packages" in path or path.startswith(STDLIB + os.sep):
            place = LIBRARY
        else:
            place = OWN
        _places[file] = place
    return place


def line_of(frame: Optional[FrameType]) -> Optional[Line]:
    """The innermost line of the program; if there is none, the innermost outside PyTorch."""
    inner, known = None, _places.get
    while frame:
        file = frame.f_code.co_filename
        place = known(file)
        if place is None:
            place = place_of(file)
        if place != SKIPPED:
            if inner is None:
                inner = frame
            if place == OWN:
                break
        frame = frame.f_back
    chosen = frame or inner
    if not chosen:
        return None
    key = (chosen.f_code, chosen.f_lineno, inner and inner.f_code, inner and inner.f_lineno)
    line = _lines.get(key)
    if line is None:
        inside = "" if inner is chosen or inner is None else f"{_short(inner.f_code.co_filename)}:{inner.f_lineno}"
        line = _lines[key] = line_at(chosen.f_code, chosen.f_lineno, inside)
    return line


def line_at(code: CodeType, number: int, inside: str = "") -> Line:
    return Line(code.co_filename, number, code.co_name, linecache.getline(code.co_filename, number).strip(), inside)


def _short(file: str) -> str:
    for folder in ("site-packages", "dist-packages"):
        if folder in file:
            return file.split(folder + os.sep, 1)[1]
    return os.path.basename(file)


@dataclasses.dataclass
class Storage:
    """A storage that an operator touched. The weak reference keeps its identity, not its memory."""

    weak: StorageWeakRef
    address: int
    size: int
    device: str
    pinned: bool = False

    @property
    def dead(self) -> bool:
        return bool(self.weak.expired())


# The origin of an operand: ("input", n), ("made", operator, n) in this call, ("fresh", n) first seen in this call
# without an operator that made it, or ("outside", storage).
Origin = Tuple[Any, ...]


class Operand:
    """A tensor that an operator was given or made."""

    __slots__ = ("argument", "storage", "origin", "shape", "dtype", "offset", "written", "on_device")

    def __init__(self, argument: str, storage: int, origin: Origin, tensor: torch.Tensor, written: bool,
                 on_device: bool) -> None:
        self.argument, self.storage, self.origin = argument, storage, origin
        self.shape, self.dtype = tensor.shape, tensor.dtype
        self.offset = tensor.storage_offset()
        self.written, self.on_device = written, on_device


class Operator:
    """An operator of a call: its line, its host arguments, its tensors."""

    __slots__ = ("name", "line", "host", "operands", "results", "random", "on_device", "captured", "nodes", "checks",
                 "generator", "generator_after")

    def __init__(self, name: str, line: Optional[Line], random: bool) -> None:
        self.name, self.line, self.random = name, line, random
        self.host: List[Tuple[str, Any]] = []
        self.operands: List[Operand] = []
        self.results: List[Operand] = []
        self.on_device = False
        self.captured = True  # Whether its stream was capturing; only relevant in a capture.
        self.nodes = (0, 0)  # Its nodes of the graph, by their numbers.
        self.checks: List[Any] = []
        self.generator: Any = None  # States of the default generator before and after it.
        self.generator_after: Any = None

    @property
    def drew(self) -> bool:
        """Whether it took random numbers. An operator that may, such as dropout with p=0, often takes none."""
        return self.generator is not None and not torch.equal(self.generator, self.generator_after)


@dataclasses.dataclass
class Call:
    """One call of the function."""

    operators: List[Operator] = dataclasses.field(default_factory=list)
    inputs: Dict[int, int] = dataclasses.field(default_factory=dict)  # Storage to number.
    made: Dict[int, Tuple[int, int]] = dataclasses.field(default_factory=dict)
    fresh: Dict[int, int] = dataclasses.field(default_factory=dict)
    known: Dict[int, bool] = dataclasses.field(default_factory=dict)  # Reachable from the function before the call.
    generator: Any = None  # States of the default generator before and after the call.
    generator_after: Any = None


class _Schema:
    """What is always the same about an operator."""

    __slots__ = ("name", "arguments", "written", "random", "opaque")

    def __init__(self, func: Any) -> None:
        schema = getattr(func, "_schema", None)
        self.name = str(func)
        self.opaque = schema is None  # A higher-order operator: it runs functions, whose operators are not seen.
        arguments = schema.arguments if schema is not None else ()
        self.arguments = [(a.name, bool(a.alias_info and a.alias_info.is_write)) for a in arguments]
        self.written = dict(self.arguments)
        self.random = not self.opaque and torch.Tag.nondeterministic_seeded in getattr(func, "tags", ())

    def named(self, args: Any, kwargs: Any) -> List[Tuple[str, bool, Any]]:
        if self.opaque:
            given = [(str(number), False, value) for number, value in enumerate(args)]
        else:
            given = [(name, written, value) for (name, written), value in zip(self.arguments, args)]
        if kwargs:
            given += [(name, self.written.get(name, False), value) for name, value in kwargs.items()]
        return given


_schemas: Dict[Any, _Schema] = {}


def _schema_of(func: Any) -> _Schema:
    found = _schemas.get(func)
    if found is None:
        found = _schemas[func] = _Schema(func)
    return found


def is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def tensors_in(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from tensors_in(getattr(value, field.name))


def storage_of(tensor: torch.Tensor) -> Optional[Any]:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError, ValueError):  # Sparse tensors, other wrappers and lazy parameters have none.
        return None


def key_of(tensor: torch.Tensor) -> Optional[int]:
    storage = storage_of(tensor)
    return None if storage is None else storage._cdata


def host_form(value: Any) -> Any:
    """A host argument in comparable form."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return tuple(host_form(item) for item in value)
    if isinstance(value, (bool, int, str, type(None))):
        return value
    if isinstance(value, torch.Generator):
        return "generator"
    if isinstance(value, torch.ScriptObject):  # Its text has an address, and there is a new one in each call.
        return _form_of_object(value)
    return str(value)


def _form_of_object(value: Any) -> str:
    """A process group by its name; of other objects the class."""
    kind = str(value._type())
    unbox = getattr(torch.distributed.ProcessGroup, "unbox", None) if kind.endswith("c10d.ProcessGroup") else None
    return f"process group {unbox(value).group_name}" if unbox else kind


def group_of(host: List[Tuple[str, Any]]) -> str:
    """The name of a collective's process group among its host arguments."""
    given = dict(host)
    if "group_name" in given:
        return str(given["group_name"])
    return str(host_form(given.get("process_group", ""))).rpartition(" ")[2]


SCALARS = (bool, int, float, complex, str, bytes, type(None))
COPIES = ("aten._to_copy.default", "aten.copy_.default", "aten._foreach_copy_.default")
_MADE_FROM_HOST = ("aten.lift_fresh.default", "aten.lift_fresh_copy.default")


def _take_higher_order_operators() -> None:
    """Up to 2.7 a mode has to be registered with each higher-order operator, or the operator raises."""
    from torch._ops import _higher_order_ops
    for operator in list(_higher_order_ops.values()):
        if Recorder not in operator.python_key_table:
            operator.py_impl(Recorder)(functools.partial(_dispatch, operator))


def _dispatch(operator: Any, mode: "Recorder", *args: Any, **kwargs: Any) -> Any:
    return mode.__torch_dispatch__(operator, (), args, kwargs)


class Recorder(TorchDispatchMode):
    """Records every operator. It keeps no tensor alive.

    `on_device` distinguishes memory that a graph reads from host memory; `capturing` returns whether the current stream
    captures; `count_nodes` returns the graph's number of nodes so far; `fingerprint` returns a small tensor that
    summarises another one.
    """

    def __init__(self, on_device: Callable[[torch.Tensor], bool],
                 capturing: Optional[Callable[[], bool]] = None,
                 count_nodes: Optional[Callable[[], int]] = None,
                 fingerprint: Optional[Callable[[torch.Tensor], Any]] = None,
                 generator_state: Optional[Callable[[], Any]] = None,
                 storages: Optional[Dict[int, Storage]] = None) -> None:
        super().__init__()
        self.on_device, self.capturing, self.count_nodes = on_device, capturing, count_nodes
        self.fingerprint, self.generator_state = fingerprint, generator_state
        self.storages: Dict[int, Storage] = {} if storages is None else storages
        self.calls: List[Call] = []
        self.running: Optional[Operator] = None  # Begun but not ended: an exception was raised there.
        self.thread = threading.get_ident()
        self.after: Optional[Callable[[Operator, Any], None]] = None
        self.launches = Launches(self._launch)
        self.hidden: Dict[int, bool] = {}  # Storages on the device that are no inputs, not made, and not in the state.
        self.busy = False  # With work of its own, which is not recorded.
        self.opaque: Dict[str, Optional[Line]] = {}  # Operators that could not be looked into, and their first lines.

    # From 2.8 on, PyTorch gives a mode the higher-order operators as well: flex_attention, cond, while_loop, scan.
    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Newer releases run a compiled function uncompiled below a mode, and from then on, unless the mode has this."""
        return True

    def __enter__(self) -> "Recorder":
        if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):
            _take_higher_order_operators()
        super().__enter__()
        self.launches.install()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.launches.remove()
        super().__exit__(*exception)

    def begin(self, inputs: Iterable[torch.Tensor], known: Iterable[torch.Tensor] = ()) -> Call:
        call = Call()
        for number, tensor in enumerate(inputs):
            found = self.note(tensor)
            if found is not None:
                call.inputs.setdefault(found, number)
        for tensor in known:
            found = self.note(tensor)
            if found is not None:
                call.known[found] = True
        self.calls.append(call)
        return call

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Work of our own, which is not recorded."""
        self.busy = True
        try:
            yield
        finally:
            self.busy = False

    def note(self, tensor: torch.Tensor) -> Optional[int]:
        storage = storage_of(tensor)
        return None if storage is None else self._note_storage(storage, tensor)

    def _note_storage(self, storage: Any, tensor: torch.Tensor) -> int:
        key = int(storage._cdata)
        if key not in self.storages:
            try:
                address, size = storage.data_ptr(), storage.nbytes()
            except RuntimeError:
                address = size = 0
            kind = tensor.device.type
            pinned = kind == "cpu" and torch.cuda.is_initialized() and tensor.is_pinned()
            self.storages[key] = Storage(StorageWeakRef(storage), address, size, kind, pinned)
        return key

    def line(self) -> Optional[Line]:
        found = line_of(sys._getframe())  # Our own lines are skipped; autograd's thread may have no others.
        if found is None and threading.get_ident() != self.thread:  # Autograd's thread works for the line that waits.
            found = line_of(sys._current_frames().get(self.thread))
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.calls or self.busy:
            return func(*args, **kwargs)
        schema = _schemas.get(func) or _schema_of(func)
        op, given = self._begin(schema, args, kwargs)
        watched = self.generator_state if schema.random or schema.opaque else None
        if watched:
            op.generator = watched()
        before = self.count_nodes() if self.count_nodes else 0
        self.running = op
        result = func(*args, **kwargs)
        self.running = None
        if self.count_nodes:
            op.nodes = (before, self.count_nodes())
        if watched:
            op.generator_after = watched()
        self._end(op, given, result)
        return result

    def _launch(self, name: str, arguments: List[Tuple[str, Any]], launch: Callable[[], Any]) -> Any:
        """A kernel of Inductor's, recorded as an operator; what it writes first in a call was made by it."""
        if not self.calls or self.busy:
            return launch()
        call = self.calls[-1]
        op = Operator(name, self.line(), False)
        op.on_device = True
        given: List[Tuple[Operand, torch.Tensor]] = []
        self.busy = True
        try:
            for label, value in arguments:
                if not isinstance(value, torch.Tensor):
                    if isinstance(value, float):  # A whole number is a size.
                        op.host.append((label, value))
                    continue
                operand = self._operand(call, label, is_written(label), value, self.on_device(value))
                if operand is None:
                    continue
                if operand.written and operand.origin[0] == "fresh":
                    call.made.setdefault(operand.storage, (len(call.operators), len(given)))
                    operand.origin = self._origin(call, operand.storage)
                given.append((operand, value))
            op.operands = [operand for operand, _ in given]
            if self.fingerprint:
                op.checks += [(operand.argument, operand.origin, self.fingerprint(tensor)) for operand, tensor in given
                              if not is_output(operand.argument)]
            op.captured = self.capturing() if self.capturing else True
            before = self.count_nodes() if self.count_nodes else 0
            self.running = op
            result = launch()
            self.running = None
            if self.count_nodes:
                op.nodes = (before, self.count_nodes())
            if self.fingerprint:
                op.checks += [(operand.argument, (), self.fingerprint(tensor)) for operand, tensor in given
                              if operand.written]
        finally:
            self.busy = False
        call.operators.append(op)
        if self.after:
            self.after(op, given)
        return result

    def _begin(self, schema: _Schema, args: Any, kwargs: Any) -> Tuple[Operator, List[Tuple[Operand, torch.Tensor]]]:
        call = self.calls[-1]
        op = Operator(schema.name, self.line(), schema.random)
        if schema.opaque:
            self.opaque.setdefault(schema.name, op.line)
        given: List[Tuple[Operand, torch.Tensor]] = []
        host_tensors = False
        for name, written, value in schema.named(args, kwargs):
            if isinstance(value, torch.Tensor):
                found = [value]
            elif isinstance(value, SCALARS):
                op.host.append((name, value))
                continue
            else:
                found = list(tensors_in(value))
                if not found:
                    if not schema.opaque:  # Such an operator has functions among its arguments, often new ones.
                        op.host.append((name, value))
                    continue
            for number, tensor in enumerate(found):
                on_device = self.on_device(tensor)
                operand = self._operand(call, name if len(found) == 1 else f"{name}[{number}]", written, tensor, on_device)
                if on_device:
                    op.on_device = True
                if operand is not None:
                    given.append((operand, tensor))
                    op.operands.append(operand)
                    host_tensors = host_tensors or not on_device
        if host_tensors:
            for operand, tensor in given:
                self._note_host_tensor(op, operand, tensor)
        if self.fingerprint:
            op.checks += [(operand.argument, operand.origin, self.fingerprint(tensor)) for operand, tensor in given
                          if not operand.written and op.on_device]
        if self.capturing and op.on_device:
            op.captured = self.capturing()
        return op, given

    def _end(self, op: Operator, given: List[Tuple[Operand, torch.Tensor]], result: Any) -> None:
        call = self.calls[-1]
        touched = {operand.storage for operand in op.operands}
        takes_a_storage = op.name.startswith("aten.set_.")  # It exists already, as that of an RNN's weights.
        for number, tensor in enumerate((result,) if isinstance(result, torch.Tensor) else tensors_in(result)):
            on_device = self.on_device(tensor)
            if on_device:
                op.on_device = True
            known = len(self.storages)
            key = self.note(tensor)
            if key is None:
                continue
            if key not in touched and key not in call.inputs and key not in call.known:
                if not takes_a_storage:
                    call.made.setdefault(key, (len(call.operators), number))
                elif len(self.storages) != known:
                    call.fresh[key] = len(call.fresh)
            op.results.append(Operand(str(number), key, self._origin(call, key), tensor, False, on_device))
            if self.fingerprint and on_device:
                op.checks.append((f"result {number}", (), self.fingerprint(tensor)))
        if self.fingerprint:
            op.checks += [(operand.argument, (), self.fingerprint(tensor)) for operand, tensor in given
                          if operand.written and operand.on_device]
        call.operators.append(op)
        if self.after:
            self.after(op, given)

    def _origin(self, call: Call, key: int) -> Origin:
        if key in call.inputs:
            return ("input", call.inputs[key])
        if key in call.made:
            return ("made", *call.made[key])
        if key in call.fresh:
            return ("fresh", call.fresh[key])
        return ("outside", key)

    def _operand(self, call: Call, label: str, written: bool, tensor: torch.Tensor, on_device: bool) -> Optional[Operand]:
        storage = storage_of(tensor)
        if storage is None:
            return None
        key = int(storage._cdata)
        if key not in self.storages:
            self._note_storage(storage, tensor)
            call.fresh[key] = len(call.fresh)
        origin = self._origin(call, key)
        if on_device and origin[0] in ("fresh", "outside") and key not in call.known:
            self.hidden[key] = True
        return Operand(label, key, origin, tensor, written, on_device)

    def _note_host_tensor(self, op: Operator, operand: Operand, tensor: torch.Tensor) -> None:
        """A value that a kernel takes from a host tensor is an argument of its launch."""
        if operand.on_device or operand.written or tensor.device.type != "cpu" or tensor.layout != torch.strided:
            return
        if op.name in COPIES and operand.origin[0] in ("input", "outside"):
            return  # At the replay, a copy reads host memory.
        to_device = any(name == "device" and str(value).startswith("cuda") for name, value in op.host)
        if not (op.on_device or to_device or op.name in _MADE_FROM_HOST):
            return
        if operand.origin[0] == "made" and self._made_on_device(operand.origin):
            return
        if tensor.numel() <= 8:
            op.host.append((operand.argument, tensor.detach().tolist()))

    def _made_on_device(self, origin: Origin) -> bool:
        return self.calls[-1].operators[origin[1]].on_device

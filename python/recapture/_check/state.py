"""The state that a function keeps between calls: tensors, numbers, containers, generators."""
from __future__ import annotations

import collections
import functools
import gc
import itertools
import os
import random
import sys
import types
import weakref
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Set, Tuple

import torch

from .copies import on_host
from .findings import Line
from .recording import LIBRARY, OWN, SCALARS, SKIPPED, STDLIB, line_of, place_of, storage_of

_LIMIT = 200_000  # Objects; if a function reaches more, only these are compared, and the report states it.
_MOST_HIDDEN = 1 << 28  # Bytes of a storage that no walk finds.
_MISSING, _LENGTH = object(), object()
_CONTAINERS = (torch.Tensor, list, tuple, dict, collections.deque)


def _place_of_class(cls: type) -> int:
    module = sys.modules.get(cls.__module__)
    if cls.__module__ == "__main__":
        return OWN
    file = getattr(module, "__file__", None)
    if not file:
        return SKIPPED
    if cls.__module__.split(".")[0] == "torch":
        return LIBRARY
    return place_of(file)


def _is_ours(cls: type) -> bool:
    """Whether a class is this package's: a check does not set its own objects back."""
    root = cls.__module__.split(".")[0]
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return bool(file) and root not in ("torch", "__main__") and place_of(str(file)) == SKIPPED


def _is_stdlib(cls: type) -> bool:
    root = cls.__module__.split(".")[0]
    if root in ("builtins", "__main__"):
        return root == "builtins"
    file = getattr(sys.modules.get(root), "__file__", None)
    if not file:
        return True
    return os.path.abspath(file).startswith(STDLIB + os.sep) and "-packages" not in file


def _is_iterator(value: Any) -> bool:
    """An iterator of Python's own, such as that of a list or itertools.cycle()."""
    return isinstance(value, Rewindable) or \
        type(value).__module__ in ("builtins", "itertools") and hasattr(type(value), "__next__")


class Rewindable:
    """Stands for an iterator during a check, so that each run gets the same items: no iterator can be set back."""

    __slots__ = ("source", "given", "at")

    def __init__(self, source: Any) -> None:
        self.source, self.at = source, 0
        self.given: List[Any] = []

    def __iter__(self) -> "Rewindable":
        return self

    def __next__(self) -> Any:
        if self.at == len(self.given):
            self.given.append(next(self.source))
        self.at += 1
        return self.given[self.at - 1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)  # A generator's close(), say.

    def original(self) -> Any:
        """What goes on as the iterator would without a check."""
        return itertools.chain(self.given, self.source) if self.given else self.source


def has_data(tensor: torch.Tensor) -> bool:
    """Not one of the device meta, and none whose shape is not known yet."""
    return not tensor.is_meta and not torch.nn.parameter.is_lazy(tensor)


def _generator_of_numpy(value: Any) -> Optional[Tuple[Callable[[], Any], Callable[[Any], None]]]:
    """How the state of one of NumPy's generators is read and set; nothing if it is none."""
    if not type(value).__module__.startswith("numpy.random"):
        return None
    bits = getattr(value, "bit_generator", None)
    if bits is not None:
        return (lambda: bits.state), (lambda state: setattr(bits, "state", state))
    return (value.get_state, value.set_state) if hasattr(value, "set_state") else None


def _globals_of(code: types.CodeType) -> List[str]:
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _globals_of(constant)
    return names


def _unused(path: str, taken: Dict[str, Any]) -> str:
    """Makes names unique: two functions may use the same one."""
    number, name = 1, path
    while name in taken:
        number += 1
        name = f"{path}#{number}"
    return name


class State:
    """Everything that is reachable from some roots, by names such as model.0.weight."""

    def __init__(self, roots: Dict[str, Any]) -> None:
        self.tensors: Dict[str, torch.Tensor] = {}
        self.host: Dict[str, Any] = {}  # Numbers, strings and container lengths that the program itself keeps.
        self.generators: Dict[str, torch.Generator] = {}
        self.host_generators: List[Tuple[Callable[[], Any], Callable[[Any], None]]] = []  # How each is read and set.
        self.places: Dict[str, Tuple[Any, Any]] = {}  # Of each of `host`: the container, and the key or _LENGTH.
        self.held: List[Tuple[str, Any, Any, Any]] = []  # How, where, under which name, what.
        self._seen: Dict[int, Any] = {}  # Keeps visited objects alive, so that no id is reused.
        self._not_held: Set[int] = set()
        self._classes: Dict[type, Tuple[bool, bool]] = {}  # Whether one is walked into, and whether it is the program's.
        self._queue: Deque[Tuple[str, Any, bool, Any]] = collections.deque()
        for name, root in roots.items():
            self._queue.append((name, root, True, (roots, name)))
        while self._queue and len(self._seen) < _LIMIT:
            self._visit(*self._queue.popleft())
        self.unseen = f"Part of its state: the function reaches more than {_LIMIT} objects." if self._queue else ""
        self._seen.clear()
        self._queue.clear()

    # Walking.

    def _add_host(self, path: str, value: Any, place: Tuple[Any, Any]) -> None:
        path = _unused(path, self.host)
        self.host[path] = value
        self.places[path] = place

    def _visit(self, path: str, value: Any, own: bool, place: Any) -> None:
        if isinstance(value, SCALARS):
            if own and place:
                self._add_host(path, value, place)
            return
        if id(value) in self._seen or isinstance(value, (types.ModuleType, type)):
            return
        self._seen[id(value)] = value
        if isinstance(value, torch.Tensor):
            self._visit_tensor(path, value)
        elif isinstance(value, torch.Generator):
            self.generators[_unused(path, self.generators)] = value
        elif isinstance(value, random.Random):
            if not isinstance(value, random.SystemRandom):
                self.host_generators.append((value.getstate, value.setstate))
        elif isinstance(value, types.BuiltinMethodType):  # The method random() of a generator, say.
            if isinstance(value.__self__, random.Random) or _is_iterator(value.__self__):
                self._queue.append((path, value.__self__, own, None))
        elif isinstance(value, types.FunctionType):
            self._visit_function(path, value)
        elif isinstance(value, types.MethodType):
            self._queue.append((path.rsplit(".", 1)[0] if "." in path else path, value.__self__, own, None))
            self._queue.append((path, value.__func__, own, None))
        elif isinstance(value, functools.partial):
            self._queue.extend([(path, value.func, own, None), (f"{path}.args", value.args, own, None),
                                (f"{path}.keywords", value.keywords, own, None)])
        elif isinstance(value, dict):
            self._visit_dict(path, value, own)
        elif isinstance(value, (list, collections.deque, tuple)):
            self._visit_sequence(path, value, own)
        elif isinstance(value, (set, frozenset)):
            if own:
                self._add_host(f"len({path})", len(value), (value, _LENGTH))
        elif isinstance(value, (functools._lru_cache_wrapper, types.GeneratorType)) or _is_iterator(value):
            self._visit_hidden(path, value)
        elif _generator_of_numpy(value):
            self.host_generators.append(_generator_of_numpy(value) or (lambda: None, lambda state: None))
        elif self._class_of(value)[0]:
            if hasattr(value, "__dict__"):
                self._visit_object(path, value, own)
            self._visit_slots(path, value, own)
        wrapped = getattr(value, "__wrapped__", None) if callable(value) else None
        if isinstance(wrapped, types.FunctionType):
            self._queue.append((path, wrapped, own, None))

    def _class_of(self, value: Any) -> Tuple[bool, bool]:
        cls = type(value)
        found = self._classes.get(cls)
        if found is None:
            found = self._classes[cls] = (not _is_stdlib(cls) and not _is_ours(cls), _place_of_class(cls) == OWN)
        return found

    def _visit_hidden(self, path: str, value: Any) -> None:
        """What only a cache, an iterator or a generator keeps: each of its tensors is the same one in the next call."""
        if isinstance(value, Rewindable):
            kept = [value.given, value.source]
        elif isinstance(value, types.GeneratorType):
            kept = list(value.gi_frame.f_locals.values()) if value.gi_frame else []
        else:
            kept = gc.get_referents(value)
        if isinstance(value, Rewindable) or type(value).__module__ == "itertools":  # What it keeps goes on with it.
            self._not_held.update(id(item) for item in kept)
        for item in kept:
            items = list(item.values()) if isinstance(value, functools._lru_cache_wrapper) and isinstance(item, dict) else [item]
            for each in items:
                if type(each).__name__ == "_lru_list_elem":
                    items.extend(other for other in gc.get_referents(each) if isinstance(other, _CONTAINERS))
                elif isinstance(each, _CONTAINERS) or _is_iterator(each):
                    self._queue.append((f"{path}()", each, False, None))

    def _visit_slots(self, path: str, value: Any, own: bool) -> None:
        for cls in type(value).__mro__:
            names = cls.__dict__.get("__slots__", ())
            for name in (names,) if isinstance(names, str) else names:
                if name in ("__dict__", "__weakref__") or not hasattr(value, name):
                    continue
                item = getattr(value, name)
                if isinstance(item, SCALARS):
                    continue  # Its place cannot be watched as that of an item.
                self.held.append(("attribute", value, name, item))
                self._queue.append((f"{path}.{name}", item, own and self._class_of(value)[1], None))

    def _visit_tensor(self, path: str, value: torch.Tensor) -> None:
        local = getattr(value, "_local_tensor", value)  # Of a DTensor: the part of this rank.
        if _is_freed(local):
            return
        path = _unused(path, self.tensors)
        self.tensors[path] = local
        if _takes_gradients(value):
            self.held.append(("attribute", value, "grad", value.grad))
            if value.grad is not None:
                self._queue.append((f"{path}.grad", value.grad, True, None))

    def _visit_function(self, path: str, value: types.FunctionType) -> None:
        own = place_of(value.__code__.co_filename) == OWN
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            self.held.append(("attribute", cell, "cell_contents", content))
            self._queue.append((name, content, own, (cell, "cell_contents")))
        for default in (value.__defaults__ or ()):
            if not isinstance(default, SCALARS):
                self._queue.append((path, default, False, None))
        if not own:
            return
        for name in dict.fromkeys(_globals_of(value.__code__)):
            if name in value.__globals__ and not name.startswith("__"):
                content = value.__globals__[name]
                self.held.append(("item", value.__globals__, name, content))
                self._queue.append((name, content, True, (value.__globals__, name)))

    def _visit_dict(self, path: str, value: Dict[Any, Any], own: bool) -> None:
        copy = dict(value)
        self.held.append(("dict", value, None, copy))
        if own:
            self._add_host(f"len({path})", len(value), (value, _LENGTH))
        for key, item in copy.items():
            self._queue.append((f"{path}[{key!r}]" if isinstance(key, (str, int)) else f"{path}[…]", item, own,
                                (value, key)))

    def _visit_sequence(self, path: str, value: Any, own: bool) -> None:
        if not isinstance(value, tuple) and id(value) not in self._not_held:
            self.held.append(("list", value, None, list(value)))
            if own:
                self._add_host(f"len({path})", len(value), (value, _LENGTH))
        for number, item in enumerate(value):
            if own or not isinstance(item, SCALARS):
                self._queue.append((f"{path}[{number}]", item, own, (value, number)))

    def _visit_object(self, path: str, value: Any, own: bool) -> None:
        attributes = value.__dict__
        copy = dict(attributes)
        self.held.append(("dict", attributes, None, copy))
        is_own = own and self._class_of(value)[1]
        module = isinstance(value, torch.nn.Module)
        for name, item in copy.items():
            if module and name in ("_parameters", "_buffers", "_modules"):
                self._visit_members(path, item)
            else:
                # A hook is a function of the program; the dict that stores it is PyTorch's.
                private = module and name.startswith("_") and name not in type(value).__dict__
                if private and isinstance(item, dict) and not item:
                    self.held.append(("dict", item, None, {}))
                    continue
                kept = is_own and not private
                if kept or not isinstance(item, SCALARS):
                    self._queue.append((f"{path}.{name}", item, kept, (attributes, name)))
        if isinstance(value, torch.optim.Optimizer):
            self._seen.setdefault(id(value.state), value.state)
            self._visit_dict(f"{path}.state", value.state, False)
        forward = getattr(type(value), "forward" if module else "__call__", None)
        if isinstance(forward, types.FunctionType) and id(forward) not in self._seen:
            self._queue.append((f"{path}.{forward.__name__}", forward, True, None))

    def _visit_members(self, path: str, members: Dict[str, Any]) -> None:
        copy = dict(members)
        self.held.append(("dict", members, None, copy))
        for name, item in copy.items():
            if item is not None and id(item) not in self._seen:
                self._queue.append((f"{path}.{name}", item, True, (members, name)))


def _alive(weak: Any) -> Optional[Any]:
    return None if weak.expired() else torch.UntypedStorage._new_with_weak_ptr(weak.cdata)


def _as_bytes(storage: Any, size: int) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, 0, (size,), (1,))


def _iterators_in(held: List[Tuple[str, Any, Any, Any]]) -> Iterable[Rewindable]:
    for how, _, _, value in held:
        for item in value.values() if how == "dict" else value if how == "list" else [value]:
            if isinstance(item, Rewindable):
                yield item


class Iterators:
    """Puts a Rewindable in the place of each iterator that a State has found, and back."""

    def __init__(self, state: State) -> None:
        self.made: Dict[int, Rewindable] = {}
        self.places: List[Tuple[str, Any, Any, Rewindable]] = []
        for how, where, name, value in state.held:
            items = value.items() if how == "dict" else enumerate(value) if how == "list" else [(name, value)]
            for key, item in items:
                if _is_iterator(item) and not isinstance(item, (Rewindable, types.GeneratorType)):
                    stand_in = self.made.setdefault(id(item), Rewindable(item))
                    self.places.append((how, where, key, stand_in))
        for how, where, key, stand_in in self.places:
            _put(how, where, key, stand_in)

    def put_back(self) -> None:
        originals = {id(each): each.original() for each in self.made.values()}
        for how, where, key, stand_in in self.places:
            _put(how, where, key, originals[id(stand_in)])


def _put(how: str, where: Any, key: Any, value: Any) -> None:
    if how == "attribute":
        setattr(where, key, value)
    else:
        where[key] = value


def value_at(place: Tuple[Any, Any]) -> Any:
    """The present value of one of State.host, without the walk that found it."""
    container, key = place
    try:
        if key is _LENGTH:
            return len(container)
        return container.cell_contents if isinstance(container, types.CellType) else container[key]
    except (KeyError, IndexError, ValueError):
        return _MISSING


def _takes_gradients(tensor: torch.Tensor) -> bool:
    try:
        return bool(tensor.requires_grad and tensor.is_leaf)
    except RuntimeError:  # One of several views of a tensor that was written meanwhile, such as FSDP's flat parameter.
        return False


def _is_freed(tensor: torch.Tensor) -> bool:
    """FSDP keeps the gathered parameters and takes their memory away between two calls."""
    storage = storage_of(tensor)
    return storage is not None and tensor.numel() > 0 and storage.nbytes() == 0 and tensor.device.type != "meta"


class _Weak:
    """A tensor that a Saved does not keep alive, with the name of its contents."""

    def __init__(self, tensor: torch.Tensor, path: str) -> None:
        self.ref, self.path, self.grad = weakref.ref(tensor), path, tensor.requires_grad
        self.kind, self.device = type(tensor), tensor.device


class Saved:
    """The contents of a State's tensors, and the values of its containers and names."""

    def __init__(self, state: State) -> None:
        self.tensors: Dict[str, Any] = dict(state.tensors)
        self.held = list(state.held)
        self.contents = on_host({path: tensor for path, tensor in state.tensors.items()
                                 if has_data(tensor) and storage_of(tensor) is not None})
        self.hidden: List[Tuple[Any, torch.Tensor]] = []  # Weak references to storages that no walk finds, with their bytes.
        self.host_generators = [(write, read()) for read, write in state.host_generators]
        self.positions = {id(each): (each, each.at) for each in _iterators_in(self.held)}
        self.generators = [(generator, generator.get_state()) for generator in state.generators.values()]
        self.random, self.torch_random = random.getstate(), torch.get_rng_state()
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if numpy is not None and hasattr(numpy, "random") else None

    def weaken(self) -> None:
        """Stops keeping tensors alive, so that the program can free them. A freed one is restored as a copy."""
        paths = {id(tensor): path for path, tensor in self.tensors.items()}

        def weak(value: Any) -> Any:
            known = isinstance(value, torch.Tensor) and id(value) in paths and paths[id(value)] in self.contents
            return _Weak(value, paths[id(value)]) if known else value

        held = []
        for how, where, name, value in self.held:
            if how == "dict":
                value = {key: weak(item) for key, item in value.items()}
            elif how == "list":
                value = [weak(item) for item in value]
            else:
                value = weak(value)
            # The place may itself be a tensor, whose gradient is restored.
            held.append((how, weakref.ref(where) if isinstance(where, torch.Tensor) else where, name, value))
        self.held = held
        self.tensors = {path: weak(tensor) for path, tensor in self.tensors.items()}

    def _strong(self, value: Any) -> Any:
        if not isinstance(value, _Weak):
            return value
        tensor = value.ref()
        if tensor is None:
            tensor = self.contents[value.path].to(value.device, copy=True)
            tensor = torch.nn.Parameter(tensor, value.grad) if issubclass(value.kind, torch.nn.Parameter) else \
                tensor.requires_grad_(value.grad)
            value.ref = weakref.ref(tensor)
        return tensor

    def restore_contents(self) -> None:
        with torch.no_grad():
            for path, content in self.contents.items():
                kept = self.tensors[path]
                tensor = kept.ref() if isinstance(kept, _Weak) else kept
                if tensor is not None and tensor.shape == content.shape and not _is_freed(tensor):
                    tensor.detach().copy_(content)  # Bit for bit, and done when it returns.
            for weak, content in self.hidden:
                storage = _alive(weak)
                if storage is not None:
                    _as_bytes(storage, content.numel()).copy_(content)
        for generator, state in self.generators:
            generator.set_state(state)

    def hide(self, weak_references: Iterable[Any]) -> bool:
        """Keeps what is in storages that operators use and no walk finds, as the state of cuDNN's dropout. Whether any lives."""
        for weak in weak_references:
            storage = _alive(weak)
            if storage is not None and 0 < storage.nbytes() <= _MOST_HIDDEN:
                self.hidden.append((weak, _as_bytes(storage, storage.nbytes()).to("cpu", copy=True)))
        return bool(self.hidden)

    def restore(self) -> None:
        for how, where, name, value in self.held:
            if isinstance(where, weakref.ref):
                where = where()
                if where is None:
                    continue
            if how == "attribute":
                setattr(where, name, self._strong(value))
            elif how == "item":
                value = self._strong(value)
                if where.get(name, _MISSING) is not value:
                    where[name] = value
            elif how == "dict":
                value = {key: self._strong(item) for key, item in value.items()}
                if len(where) != len(value) or any(where.get(k, _MISSING) is not v for k, v in value.items()):
                    where.clear()
                    where.update(value)
            else:
                value = [self._strong(item) for item in value]
                if len(where) != len(value) or any(a is not b for a, b in zip(where, value)):
                    where.clear()
                    where.extend(value)
        self.restore_contents()
        for write, state in self.host_generators:
            write(state)
        for iterator, at in self.positions.values():
            iterator.at = at
        random.setstate(self.random)
        torch.set_rng_state(self.torch_random)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)


def changed_host_values(before: State, after: State) -> Dict[str, Tuple[Any, Any, bool]]:
    """Numbers, strings and lengths that have changed, and whether tensors have come into the container."""
    changed = {}
    for path, value in before.host.items():
        now = after.host.get(path, _MISSING)
        if now is not _MISSING and not (now is value or now == value or (now != now and value != value)):
            inside = path[len("len("):-1] + "[" if path.startswith("len(") else None
            new = inside is not None and any(name.startswith(inside) and name not in before.tensors for name in after.tensors)
            changed[path] = (value, now, new)
    return changed


def lines_that_change(call: Callable[[], Any], probe: Callable[[], Any]) -> List[Tuple[Optional[Line], Any, Any]]:
    """Runs `call` line by line, and returns the program's lines after which `probe()` has another value."""
    changes: List[Tuple[Optional[Line], Any, Any]] = []
    last: List[Optional[Line]] = [None]
    value = [probe()]

    def look() -> None:
        now = probe()
        if now != value[0]:
            changes.append((last[0], value[0], now))
            value[0] = now

    def local(frame: types.FrameType, event: str, argument: Any) -> Any:
        look()
        last[0] = line_of(frame.f_back if event == "return" else frame) or last[0]
        return local

    def enter(frame: types.FrameType, event: str, argument: Any) -> Any:
        look()
        if place_of(frame.f_code.co_filename) != OWN:
            return None
        return local

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    look()
    return changes

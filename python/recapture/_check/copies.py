"""Copies many tensors at once: each transfer between GPU and host waits for the GPU."""
from __future__ import annotations

from typing import Dict, Iterable, List, Tuple

import torch

_LARGE = 1 << 20  # Bytes of a tensor that is copied alone,
_TOGETHER = 1 << 22  # and of those that are copied together.
_TYPES = (torch.Tensor, torch.nn.Parameter)
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8,
           torch.uint8, torch.bool, torch.complex64, torch.complex128)


def copy_on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The host has room for copies, and the peak of the GPU's memory stays that of eager code."""
    return tensor.detach().to("cpu", copy=True)


def _is_remote(tensor: torch.Tensor) -> bool:
    return bool(tensor.device.type != "cpu")


def _size(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def joins(tensor: torch.Tensor) -> bool:
    """Whether a tensor can be copied with others: nothing but its values, in order, in memory that it still has."""
    return (type(tensor) in _TYPES and _is_remote(tensor) and tensor.layout == torch.strided and tensor.dtype in _DTYPES
            and tensor.is_contiguous() and 0 < _size(tensor) <= _LARGE and not tensor.is_conj() and not tensor.is_neg()
            and tensor.storage_offset() * tensor.element_size() + _size(tensor) <= tensor.untyped_storage().nbytes())


def _groups(pairs: Iterable[Tuple[str, torch.Tensor]]) -> Iterable[List[Tuple[str, torch.Tensor]]]:
    """Tensors of one device and type that can be copied together, and each other one alone."""
    open_groups: Dict[Tuple[torch.device, torch.dtype], List[Tuple[str, torch.Tensor]]] = {}
    sizes: Dict[Tuple[torch.device, torch.dtype], int] = {}
    for name, tensor in pairs:
        if not joins(tensor):
            yield [(name, tensor)]
            continue
        key, size = (tensor.device, tensor.dtype), _size(tensor)
        if sizes.get(key, 0) + size > _TOGETHER:
            yield open_groups.pop(key)
            sizes[key] = 0
        open_groups.setdefault(key, []).append((name, tensor))
        sizes[key] = sizes.get(key, 0) + size
    yield from open_groups.values()


def on_host(tensors: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """A copy of each tensor."""
    copies: Dict[str, torch.Tensor] = {}
    for group in _groups(tensors.items()):
        if len(group) == 1:
            name, tensor = group[0]
            copies[name] = copy_on_host(tensor)
            continue
        try:
            with torch.no_grad():
                joined = torch.cat([tensor.detach().view(-1) for _, tensor in group]).to("cpu", copy=True)
        except torch.cuda.OutOfMemoryError:  # A copy of its own needs no memory of the GPU.
            copies.update((name, copy_on_host(tensor)) for name, tensor in group)
            continue
        for (name, tensor), part in zip(group, joined.split([tensor.numel() for _, tensor in group])):
            copies[name] = part.view(tensor.shape)
    return {name: copies[name] for name in tensors}

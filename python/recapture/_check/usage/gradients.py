"""Gradients that no optimizer sees: gradients_set_to_none_between_replays.

A graph writes the gradients that its parameters had in the capture. zero_grad() sets .grad to None, and from then on the
replays write memory that step() does not look at.
"""
from __future__ import annotations

import dataclasses
import gc
import sys
import weakref
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

import torch

try:
    from torch.optim.optimizer import register_optimizer_step_pre_hook as register_hook
except ImportError:
    register_hook = None

from ..comparison import where
from ..findings import Finding, Kind, Line, count
from ..recording import Operator, key_of, line_of, storage_of
from .tracking import NEVER, Given, Rule, Tracking, Uses, reads_values


@dataclasses.dataclass
class Gradient:
    """A parameter's gradient that a graph writes."""

    parameter: "weakref.ref[torch.Tensor]"
    uses: Uses
    storage: int


class UnreadGradients(Rule):
    def __init__(self, tracking: Tracking) -> None:
        super().__init__(tracking)
        self.gradients: Dict[int, Gradient] = {}  # By the id of the parameter.
        self.read: Set[int] = set()  # Gradients that something has read since their replay.
        self.optimizers: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()
        self.stepped: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()
        self.cleared: "weakref.WeakKeyDictionary[Any, Optional[Line]]" = weakref.WeakKeyDictionary()
        self._hooks: List[Any] = []
        self._replaced: Tuple[Any, ...] = ()

    def install(self) -> None:
        if register_hook:
            self._hooks.append(register_hook(lambda optimizer, args, kwargs: self.stepping(optimizer)))
        optimizer_type = torch.optim.Optimizer
        self._replaced = zero_grad, init = (optimizer_type.zero_grad, optimizer_type.__init__)

        def clear(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._link(optimizer):
                self.cleared[optimizer] = line_of(sys._getframe())
            return zero_grad(optimizer, *args, **kwargs)

        def make(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            init(optimizer, *args, **kwargs)
            self.optimizers.add(optimizer)

        optimizer_type.zero_grad, optimizer_type.__init__ = clear, make
        self.optimizers.update(thing for thing in gc.get_objects() if issubclass(type(thing), optimizer_type))

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self._replaced:
            torch.optim.Optimizer.zero_grad, torch.optim.Optimizer.__init__ = self._replaced
            self._replaced = ()

    def _link(self, optimizer: Any) -> bool:
        """Notes which gradients are memory that a graph writes, and returns whether one is."""
        self.optimizers.add(optimizer)
        found = False
        for parameter in _parameters_of(optimizer):
            key = _gradient_of(parameter)
            uses = self.tracking.writers.get(key)
            if uses:
                self.gradients[id(parameter)] = Gradient(weakref.ref(parameter), uses, key)
                found = True
        return found

    def stepping(self, optimizer: Any) -> None:
        if self.tracking.is_open:
            return  # The graph reads what it is captured with.
        self._link(optimizer)
        self.tracking.order += 1
        before = self.stepped.get(optimizer, NEVER)
        self.stepped[optimizer] = self.tracking.last_step = self.tracking.order
        parameters = list(_parameters_of(optimizer))
        lost = sum(self._has_lost_gradient(parameter, before) for parameter in parameters)
        if lost:
            line = line_of(sys._getframe())
            self.findings.append(Finding(
                Kind.UNREAD, f"{count(lost, 'parameter')} of {len(parameters)} no longer "
                f"{'has' if lost == 1 else 'have'} the gradient that the graph writes, so step() at {where(line)} does not see it",
                "step() uses the gradient of this step", "step() skips these parameters, or uses an older gradient",
                "Optimizer.step", self.cleared.get(optimizer) or line, "gradients_set_to_none_between_replays"))

    def _has_lost_gradient(self, parameter: torch.Tensor, before: int) -> bool:
        """Whether a graph has written its gradient since the last step, and nothing reads it."""
        gradient = self.gradients.get(id(parameter))
        if gradient is None or gradient.parameter() is not parameter:
            return False
        key, replayed = _gradient_of(parameter), gradient.uses.replayed
        made = self.tracking.made.get(key)
        newest = max(self.tracking.changed.get(key, NEVER), made.order if made else NEVER)
        return key != gradient.storage and newest <= replayed > before and gradient.storage not in self.read

    def end(self, uses: Uses) -> None:
        for optimizer in list(self.optimizers):
            self._link(optimizer)

    def replayed(self, uses: Uses) -> None:
        self.read.update(key for key in uses.reads if key in self.tracking.writers)
        self.read -= uses.writes | uses.made

    def eager(self, operator: Operator, given: Given) -> None:
        for operand, _ in given:
            if operand.storage in self.tracking.writers and operand.on_device and not operand.written and \
                    reads_values(operator.name):
                self.read.add(operand.storage)

    def forget(self, key: int) -> None:
        self.read.discard(key)


def _gradient_of(parameter: torch.Tensor) -> int:
    """Its storage, or -1."""
    key = None if parameter.grad is None else key_of(parameter.grad)
    return -1 if key is None else key


def _parameters_of(optimizer: Any) -> Iterable[torch.Tensor]:
    for group in getattr(optimizer, "param_groups", ()):
        for parameter in group["params"]:
            if storage_of(parameter) is not None:
                yield parameter

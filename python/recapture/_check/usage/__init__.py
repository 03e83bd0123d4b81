"""How a program treats its graphs: values that a warm-up kept, rows of padding, gradients, and results that are read early.

The rules need no eager run to compare with: they follow storages through the program's own operators. Each is a module.
"""
from __future__ import annotations

import functools
from typing import Any, Dict, List

from ..recording import Storage
from .autocast import BackwardUnderAutocast
from .buffers import TrainedBuffers
from .early_reads import EarlyReads
from .gradients import UnreadGradients
from .kept_values import KeptValues
from .padding import RowsOfPadding
from .tracking import Follower, Tracking


class Usage(Follower):
    """Passes each event on to all rules; `findings` has what was seen since it was taken."""

    def __init__(self, storages: Dict[int, Storage]) -> None:
        self.tracking = Tracking(storages)
        self.findings = self.tracking.findings
        rules = (TrainedBuffers, EarlyReads, KeptValues, RowsOfPadding, BackwardUnderAutocast, UnreadGradients)
        self.followers: List[Follower] = [self.tracking, *(rule(self.tracking) for rule in rules)]  # In the order of findings.

    def _pass_on(self, event: str, *what: Any) -> None:
        for follower in self.followers:
            getattr(follower, event)(*what)


for _event in vars(Follower):
    if not _event.startswith("_"):
        setattr(Usage, _event, functools.partialmethod(Usage._pass_on, _event))

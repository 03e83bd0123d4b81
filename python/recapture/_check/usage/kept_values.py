"""A value that only a warm-up computed: value_cached_by_warm_up, and autocast_cache_across_capture for autocast's casts.

The captured function has the line that made the value, and did not run it, because the warm-up had kept the value. So the
graph reads the kept tensor. Where its sources change later, eager code would compute it anew, and the graph does not.
"""
from __future__ import annotations

from typing import Dict, Tuple

from ..comparison import where
from ..findings import Finding, Kind
from ..recording import Operator
from .tracking import NEVER, Made, Rule, Tracking, Uses


class KeptValues(Rule):
    def __init__(self, tracking: Tracking) -> None:
        super().__init__(tracking)
        self.kept: Dict[Uses, Dict[int, Tuple[Made, Operator]]] = {}

    def end(self, uses: Uses) -> None:
        kept, lines = {}, self.tracking.visited
        functions = {code for code, _ in lines} - self.tracking.around
        for key, operator in uses.reads.items():
            made = self.tracking.made.get(key)
            if made and made.sources and key not in uses.writes and \
                    any(frame[0] in functions and frame not in lines for frame in made.frames):
                kept[key] = (made, operator)
        self.kept[uses] = kept

    def replaying(self, uses: Uses) -> None:
        changed, storages = self.tracking.changed, self.tracking.storages
        for key, (made, operator) in self.kept[uses].items():
            newest = max((changed.get(source, NEVER) for source in made.sources
                          if source in storages and not storages[source].dead), default=NEVER)
            if newest > uses.order and changed.get(key, NEVER) < newest:
                self.findings.append(Finding(
                    Kind.REBOUND, f"a warm-up made it at {where(made.line)}, which the capture did not run, and what it was "
                    "computed from has changed since", f"the result of {made.operator}, computed anew when the program drops it",
                    "the tensor of the warm-up in every replay", operator.name, operator.line,
                    "autocast_cache_across_capture" if made.by_autocast else "value_cached_by_warm_up"))

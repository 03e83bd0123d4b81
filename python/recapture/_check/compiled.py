"""Kernels that Inductor compiled: no dispatcher sees their launches, so these are noted where Inductor makes them."""
from __future__ import annotations

import sys
from typing import Any, Callable, List, Tuple

_LAUNCHER = "torch._inductor.runtime.triton_heuristics"


def is_written(argument: str) -> bool:
    """Whether a kernel writes to an argument: Inductor names them in_ptr0, out_ptr0, in_out_ptr0."""
    return argument.startswith(("out_ptr", "in_out_ptr"))


def is_output(argument: str) -> bool:
    """Whether it has no value before the kernel."""
    return argument.startswith("out_ptr")


class Launches:
    """Calls `around(name, arguments, launch)` for each launch between install() and remove()."""

    def __init__(self, around: Callable[[str, List[Tuple[str, Any]], Callable[[], Any]], Any]) -> None:
        self.around = around
        self.replaced: Any = None

    def install(self) -> None:
        launcher = getattr(sys.modules.get(_LAUNCHER), "CachingAutotuner", None)
        if launcher is None or self.replaced:
            return
        original, around = launcher.run, self.around

        def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            function = getattr(kernel, "fn", None)
            names = getattr(function, "arg_names", None) or [str(number) for number in range(len(args))]
            name = getattr(kernel, "inductor_meta", {}).get("kernel_name") or getattr(function, "__name__", "kernel")
            return around(f"inductor.{name}", list(zip(names, args)), lambda: original(kernel, *args, **kwargs))

        launcher.run = run
        self.replaced = (launcher, original)

    def remove(self) -> None:
        if self.replaced:
            launcher, original = self.replaced
            launcher.run, self.replaced = original, None
